// Records of TensorBoard: protobuf messages in TFRecord frames, written by hand.
//
// Only the fields that are needed are written (tensorflow/core/util/event.proto,
// tensorflow/core/framework/summary.proto, tensor.proto; tensorboard/plugins/hparams/api.proto,
// plugin_data.proto):
//     Event       { double wall_time = 1; int64 step = 2; string file_version = 3;
//                   Summary summary = 5; SessionLog session_log = 7; }
//     Summary     { repeated Value value = 1; }
//     Value       { string tag = 1; float simple_value = 2; TensorProto tensor = 8;
//                   SummaryMetadata metadata = 9; }
//     SummaryMetadata { PluginData plugin_data = 1; DataClass data_class = 4; }  TENSOR = 2
//     PluginData  { string plugin_name = 1; bytes content = 2; }
//     TensorProto { DataType dtype = 1; TensorShapeProto tensor_shape = 2;
//                   repeated bytes string_val = 8; }
//     SessionLog  { Status status = 1; }         START = 1
//     HParamsPluginData { int32 version = 1; Experiment experiment = 2;
//                   SessionStartInfo session_start_info = 3; SessionEndInfo session_end_info = 4; }
//     Experiment  { double time_created_secs = 3; repeated HParamInfo hparam_infos = 4;
//                   repeated MetricInfo metric_infos = 5; }
//     HParamInfo  { string name = 1; DataType type = 4; }
//     MetricInfo  { MetricName name = 1; string display_name = 3; string description = 4; }
//     MetricName  { string group = 1; string tag = 2; }
//     SessionStartInfo { map<string, Value> hparams = 1; double start_time_secs = 5; }
//     SessionEndInfo   { Status status = 1; double end_time_secs = 2; }
//     Value of protobuf { double number_value = 2; string string_value = 3; bool bool_value = 4; }
// A frame is: length (8 bytes), its masked CRC-32C, the message, its masked CRC-32C.
#include "telemetry/sinks/tensorboard_encoder.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/macros.h"

// protobuf's wire types: the low three bits of a field's key
enum { WIRE_VARINT = 0, WIRE_64_BIT = 1, WIRE_LENGTH = 2, WIRE_32_BIT = 5 };

#define FRAME_HEAD_BYTES 12

void es_tensorboard_encoder_destroy(EsTensorboardEncoder *encoder) {
    es_text_destroy(&encoder->records);
    es_text_destroy(&encoder->summary);
    es_text_destroy(&encoder->tag);
}

static void store_little_endian(unsigned char *into, uint64_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) {
        into[i] = (unsigned char)(value >> (8 * i));
    }
}

static void add_little_endian(EsText *text, uint64_t value, int n_bytes) {
    unsigned char bytes[8];
    store_little_endian(bytes, value, n_bytes);
    es_text_add(text, bytes, (size_t)n_bytes);
}

static void add_varint(EsText *text, uint64_t value) {
    unsigned char bytes[10];
    size_t n_bytes = 0;
    for (; value >= 0x80; value >>= 7) {
        bytes[n_bytes++] = (unsigned char)(value | 0x80);
    }
    bytes[n_bytes++] = (unsigned char)value;
    es_text_add(text, bytes, n_bytes);
}

static size_t count_varint_bytes(uint64_t value) {
    size_t n_bytes = 1;
    while (value >>= 7) {
        n_bytes++;
    }
    return n_bytes;
}

static void add_key(EsText *text, unsigned field, unsigned wire) {
    add_varint(text, field << 3 | wire);
}

static void add_bytes(EsText *text, unsigned field, const void *bytes, size_t n_bytes) {
    add_key(text, field, WIRE_LENGTH);
    add_varint(text, n_bytes);
    es_text_add(text, bytes, n_bytes);
}

static void add_string(EsText *text, unsigned field, const char *string) {
    add_bytes(text, field, string, strlen(string));
}

static void add_number(EsText *text, unsigned field, uint64_t value) {
    add_key(text, field, WIRE_VARINT);
    add_varint(text, value);
}

static void add_double(EsText *text, unsigned field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_key(text, field, WIRE_64_BIT);
    add_little_endian(text, bits, 8);
}

// A message inside of another; frees it.
static void end_message(EsText *into, unsigned field, EsText *message) {
    if (message->status == ES_STATUS_OK) {
        add_bytes(into, field, message->bytes, message->length);
    } else if (into->status == ES_STATUS_OK) {
        into->status = message->status;
    }
    es_text_destroy(message);
}

// Leave room for the frame's head and start the event. Returns where the frame begins.
static size_t begin_event(EsText *records, double wall_time) {
    size_t begin = records->length;
    static const char room[FRAME_HEAD_BYTES] = {0};
    es_text_add(records, room, sizeof room);
    add_double(records, 1, wall_time);
    return begin;
}

static void add_step(EsText *records, int64_t step) {
    add_key(records, 2, WIRE_VARINT);
    add_varint(records, (uint64_t)step);
}

static void end_event(EsText *records, size_t begin) {
    if (records->status != ES_STATUS_OK) {
        return;
    }
    unsigned char *frame = (unsigned char *)records->bytes + begin;
    size_t n_bytes = records->length - begin - FRAME_HEAD_BYTES;
    store_little_endian(frame, n_bytes, 8);
    store_little_endian(frame + 8, es_crc32c_masked(frame, 8), 4);
    add_little_endian(records, es_crc32c_masked(frame + FRAME_HEAD_BYTES, n_bytes), 4);
}

void es_tensorboard_add_version(EsTensorboardEncoder *encoder, double wall_time) {
    static const char version[] = "brain.Event:2";
    size_t begin = begin_event(&encoder->records, wall_time);
    add_bytes(&encoder->records, 3, version, sizeof version - 1);
    end_event(&encoder->records, begin);
}

void es_tensorboard_add_session_start(EsTensorboardEncoder *encoder, double wall_time,
                                      int64_t step) {
    static const unsigned char status_start[] = {1 << 3 | WIRE_VARINT, 1};
    size_t begin = begin_event(&encoder->records, wall_time);
    add_step(&encoder->records, step);
    add_bytes(&encoder->records, 7, status_start, sizeof status_start);
    end_event(&encoder->records, begin);
}

static float narrow(double value) {
    if (fabs(value) > (double)FLT_MAX) { // false for NaN
        return value > 0 ? INFINITY : -INFINITY;
    }
    return (float)value;
}

void es_tensorboard_add_tag(EsTensorboardEncoder *encoder, const char *part, size_t bytes) {
    es_text_add_string(&encoder->tag, encoder->tag.length > 0 ? "/" : "");
    es_text_add_utf8(&encoder->tag, part, bytes, ES_TEXT_PLAIN);
}

void es_tensorboard_add_scalar(EsTensorboardEncoder *encoder, double value) {
    if (encoder->tag.status != ES_STATUS_OK) {
        encoder->records.status = encoder->tag.status;
        return;
    }
    float single = narrow(value);
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    size_t n_tag = encoder->tag.length;
    EsText *summary = &encoder->summary;
    add_key(summary, 1, WIRE_LENGTH);
    // two keys of one byte each, the tag and its length, a float
    add_varint(summary, 2 + count_varint_bytes(n_tag) + n_tag + sizeof bits);
    add_bytes(summary, 1, encoder->tag.bytes, n_tag);
    add_key(summary, 2, WIRE_32_BIT);
    add_little_endian(summary, bits, 4);
}

void es_tensorboard_end_scalars(EsTensorboardEncoder *encoder, double wall_time, int64_t step) {
    EsText *records = &encoder->records;
    if (encoder->summary.status != ES_STATUS_OK) {
        records->status = encoder->summary.status;
    } else if (encoder->summary.length > 0) {
        size_t begin = begin_event(records, wall_time);
        add_step(records, step);
        add_bytes(records, 5, encoder->summary.bytes, encoder->summary.length);
        end_event(records, begin);
    }
    es_text_reset(&encoder->summary);
}

// --- texts and hyperparameters ---

// One value of the next record that a plugin other than that of scalars reads: `content` is the
// plugin's own metadata, `tensor` a TensorProto; frees both.
static void add_plugin_value(EsTensorboardEncoder *encoder, const char *tag, const char *plugin,
                             EsText *content, EsText *tensor) {
    EsText data = {0}, metadata = {0}, value = {0};
    add_string(&data, 1, plugin);
    end_message(&data, 2, content);
    end_message(&metadata, 1, &data);
    add_number(&metadata, 4, 2);
    add_string(&value, 1, tag);
    end_message(&value, 9, &metadata);
    end_message(&value, 8, tensor);
    end_message(&encoder->summary, 1, &value);
}

// Text is Markdown there; lines behind four blanks are shown as they are.
void es_tensorboard_add_configuration(EsTensorboardEncoder *encoder, const char *text,
                                      size_t bytes) {
    EsText content = {0}, lines = {0}, tensor = {0};
    for (size_t at = 0; at < bytes;) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        size_t length = newline != NULL ? (size_t)(newline - text) - at : bytes - at;
        es_text_add_string(&lines, "    ");
        es_text_add_utf8(&lines, text + at, length, ES_TEXT_PLAIN);
        es_text_add_string(&lines, "\n");
        at += length + 1;
    }
    add_number(&content, 1, 0); // version
    add_number(&tensor, 1, 7);  // DT_STRING, a scalar
    add_bytes(&tensor, 2, "", 0);
    end_message(&tensor, 8, &lines);
    add_plugin_value(encoder, "configuration", "text", &content, &tensor);
}

// A value of the plugin is in its metadata; the tensor is as small as one can be: float [0].
static void add_hparams_value(EsTensorboardEncoder *encoder, const char *tag, unsigned field,
                              EsText *message) {
    EsText content = {0}, tensor = {0};
    add_number(&content, 1, 0); // version
    end_message(&content, field, message);
    es_text_add(&tensor, "\x08\x01\x12\x02\x12\x00", 6);
    add_plugin_value(encoder, tag, "hparams", &content, &tensor);
}

// The results that stand beside the settings: those of every kind of run, as TensorBoard takes the
// list of one run for all.
static const struct {
    const char *tag, *name, *description;
} metrics_shown[] = {
    {"growth/test_accuracy", "test accuracy", "percent; held-out data, at the end of the run"},
    {"growth/held_out_accuracy", "held-out accuracy", "percent; validation, held-out episodes"},
    {"growth/validation_accuracy", "best validation accuracy", "percent; of a fit"},
    {"growth/accuracy", "accuracy", "percent; validation, last round"},
    {"growth/parameter_ratio", "parameter ratio", "all parameters over the host's, last round"},
    {"growth/parameters", "parameters", "of the network kept, or mean of the last round"},
    {"growth/reward", "reward", "mean of an episode, last round"},
    {"proof/accuracy", "queries proved", "percent of true queries, last round"},
    {"proof/test_mrr", "test MRR", "mean reciprocal rank of the policy, 0 to 1"},
    {"proof/validation_mrr", "validation MRR", "mean reciprocal rank, 0 to 1"},
};

// One setting of the configuration: borrowed parts of its text.
typedef struct Setting {
    const char *section, *key, *value;
    size_t section_bytes, key_bytes, value_bytes;
} Setting;

static void trim(const char **text, size_t *bytes) {
    while (*bytes > 0 && isspace((unsigned char)(*text)[0])) {
        ++*text;
        --*bytes;
    }
    while (*bytes > 0 && isspace((unsigned char)(*text)[*bytes - 1])) {
        --*bytes;
    }
}

static int is_section(const Setting *setting, const char *name) {
    return setting->section_bytes == strlen(name) &&
           memcmp(setting->section, name, setting->section_bytes) == 0;
}

// Takes the next setting from *text; 0 at its end. Settings without a value are left out, and
// those of sections that change nothing of the results.
static int next_setting(const char **text, size_t *bytes, Setting *setting) {
    while (*bytes > 0) {
        const char *line = *text, *newline = memchr(line, '\n', *bytes);
        size_t length = newline != NULL ? (size_t)(newline - line) : *bytes;
        *text += newline != NULL ? length + 1 : length;
        *bytes -= newline != NULL ? length + 1 : length;
        trim(&line, &length);
        const char *equals = memchr(line, '=', length);
        if (length > 1 && line[0] == '[' && line[length - 1] == ']') {
            setting->section = line + 1;
            setting->section_bytes = length - 2;
        } else if (length > 0 && line[0] != '#' && line[0] != ';' && equals != NULL) {
            setting->key = line;
            setting->key_bytes = (size_t)(equals - line);
            setting->value = equals + 1;
            setting->value_bytes = length - setting->key_bytes - 1;
            trim(&setting->key, &setting->key_bytes);
            trim(&setting->value, &setting->value_bytes);
            if (setting->value_bytes > 0 && !is_section(setting, "telemetry") &&
                !is_section(setting, "checkpoint")) {
                return 1;
            }
        }
    }
    return 0;
}

enum { HPARAM_STRING = 1, HPARAM_BOOL = 2, HPARAM_NUMBER = 3 };

// Type of a setting's value; *number receives a number, or 0 and 1 of "false" and "true".
static int type_of(const Setting *setting, double *number) {
    char copy[64], *end = NULL;
    if (setting->value_bytes >= sizeof copy) {
        return HPARAM_STRING;
    }
    memcpy(copy, setting->value, setting->value_bytes);
    copy[setting->value_bytes] = '\0';
    if (strcmp(copy, "true") == 0 || strcmp(copy, "false") == 0) {
        *number = copy[0] == 't';
        return HPARAM_BOOL;
    }
    // no hexadecimal numbers, infinities and NaNs
    if (strspn(copy, "0123456789+-.eE") != setting->value_bytes) {
        return HPARAM_STRING;
    }
    *number = strtod(copy, &end);
    return *end == '\0' && end != copy && isfinite(*number) ? HPARAM_NUMBER : HPARAM_STRING;
}

static void add_setting_name(EsText *text, const Setting *setting) {
    EsText name = {0};
    es_text_add_utf8(&name, setting->section, setting->section_bytes, ES_TEXT_PLAIN);
    es_text_add_string(&name, ".");
    es_text_add_utf8(&name, setting->key, setting->key_bytes, ES_TEXT_PLAIN);
    end_message(text, 1, &name);
}

void es_tensorboard_add_experiment(EsTensorboardEncoder *encoder, const char *config, size_t bytes,
                                   double wall_time) {
    EsText experiment = {0};
    Setting setting = {.section = ""};
    double number = 0;
    add_double(&experiment, 3, wall_time);
    while (next_setting(&config, &bytes, &setting)) {
        EsText info = {0};
        add_setting_name(&info, &setting);
        add_number(&info, 4, (uint64_t)type_of(&setting, &number));
        end_message(&experiment, 4, &info);
    }
    for (size_t i = 0; i < ES_COUNT_OF(metrics_shown); i++) {
        EsText info = {0}, name = {0};
        add_string(&name, 1, ES_TENSORBOARD_STEPS_FOLDER);
        add_string(&name, 2, metrics_shown[i].tag);
        end_message(&info, 1, &name);
        add_string(&info, 3, metrics_shown[i].name);
        add_string(&info, 4, metrics_shown[i].description);
        end_message(&experiment, 5, &info);
    }
    add_hparams_value(encoder, "_hparams_/experiment", 2, &experiment);
}

void es_tensorboard_add_settings(EsTensorboardEncoder *encoder, const char *config, size_t bytes,
                                 double wall_time) {
    EsText session = {0};
    Setting setting = {.section = ""};
    while (next_setting(&config, &bytes, &setting)) {
        EsText entry = {0}, value = {0}, text = {0};
        double number = 0;
        int type = type_of(&setting, &number);
        add_setting_name(&entry, &setting);
        if (type == HPARAM_NUMBER) {
            add_double(&value, 2, number);
        } else if (type == HPARAM_BOOL) {
            add_number(&value, 4, (uint64_t)number);
        } else {
            es_text_add_utf8(&text, setting.value, setting.value_bytes, ES_TEXT_PLAIN);
            end_message(&value, 3, &text);
        }
        end_message(&entry, 2, &value);
        end_message(&session, 1, &entry);
    }
    add_double(&session, 5, wall_time);
    add_hparams_value(encoder, "_hparams_/session_start_info", 3, &session);
}

void es_tensorboard_add_session_end(EsTensorboardEncoder *encoder, int is_success,
                                    double wall_time) {
    EsText session = {0};
    add_number(&session, 1, is_success ? 1 : 2);
    add_double(&session, 2, wall_time);
    add_hparams_value(encoder, "_hparams_/session_end_info", 4, &session);
}
