// The TensorBoard sink: every metric becomes a scalar of the record that its round writes.
//
// Beside them go the configuration as text, the settings as hyperparameters, and in the folder
// env_steps/ the curves of growth/ (proof/ of a run that proves) with the environment steps of the
// whole run as their step. Those need event files of their own: the start of a session makes
// readers drop every later step of a folder, whatever its tag.
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file_fault.h"
#include "base/memory.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/record_file.h"

// --- records ---

// TensorBoard's event records are protobuf messages in TFRecord frames.
//
// Only the fields that are needed are written, by hand (tensorflow/core/util/event.proto,
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

typedef struct Encoder {
    EsText records; // finished frames; the caller takes and resets them
    EsText summary; // scalars added since the last end
    EsText tag;
} Encoder;

// protobuf's wire types: the low three bits of a field's key
enum { WIRE_VARINT = 0, WIRE_64_BIT = 1, WIRE_LENGTH = 2, WIRE_32_BIT = 5 };

#define FRAME_HEAD_BYTES 12

static void destroy_encoder(Encoder *encoder) {
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

// The record every event file begins with.
static void add_version(Encoder *encoder, double wall_time) {
    static const char version[] = "brain.Event:2";
    size_t begin = begin_event(&encoder->records, wall_time);
    add_bytes(&encoder->records, 3, version, sizeof version - 1);
    end_event(&encoder->records, begin);
}

// Readers drop points of earlier files at this step and above.
static void add_session_start(Encoder *encoder, double wall_time, int64_t step) {
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

// A part of the next value's tag, after a slash unless it is the first. Bytes that are not UTF-8
// are replaced, as readers would refuse the whole record.
static void add_tag(Encoder *encoder, const char *part, size_t bytes) {
    es_text_add_string(&encoder->tag, encoder->tag.length > 0 ? "/" : "");
    es_text_add_utf8(&encoder->tag, part, bytes, ES_TEXT_PLAIN);
}

// One value of the next record, with the tag that was added. Values beyond a float become
// infinities.
static void add_scalar(Encoder *encoder, double value) {
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

// Make one record of the scalars added; none when there are none.
static void end_scalars(Encoder *encoder, double wall_time, int64_t step) {
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
static void add_plugin_value(Encoder *encoder, const char *tag, const char *plugin, EsText *content,
                             EsText *tensor) {
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
static void add_configuration(Encoder *encoder, const char *text, size_t bytes) {
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
static void add_hparams_value(Encoder *encoder, const char *tag, unsigned field, EsText *message) {
    EsText content = {0}, tensor = {0};
    add_number(&content, 1, 0); // version
    end_message(&content, field, message);
    es_text_add(&tensor, "\x08\x01\x12\x02\x12\x00", 6);
    add_plugin_value(encoder, tag, "hparams", &content, &tensor);
}

#define STEPS_FOLDER "env_steps"

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

static void add_experiment(Encoder *encoder, const char *config, size_t bytes, double wall_time) {
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
        add_string(&name, 1, STEPS_FOLDER);
        add_string(&name, 2, metrics_shown[i].tag);
        end_message(&info, 1, &name);
        add_string(&info, 3, metrics_shown[i].name);
        add_string(&info, 4, metrics_shown[i].description);
        end_message(&experiment, 5, &info);
    }
    add_hparams_value(encoder, "_hparams_/experiment", 2, &experiment);
}

static void add_settings(Encoder *encoder, const char *config, size_t bytes, double wall_time) {
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

static void add_session_end(Encoder *encoder, int is_success, double wall_time) {
    EsText session = {0};
    add_number(&session, 1, is_success ? 1 : 2);
    add_double(&session, 2, wall_time);
    add_hparams_value(encoder, "_hparams_/session_end_info", 4, &session);
}

// --- the sink ---

#define FILE_PREFIX "events.out.tfevents."

// Columns that make the tag. A seed's stage is none: its curve goes on through its stages.
#define N_TAG_COLUMNS 3
static const char *const tag_names[N_TAG_COLUMNS] = {"name", "seed_id", "layer"};

// An event file and the records on their way to it.
typedef struct Curves {
    EsRecordFile file; // descriptor -1: not open
    Encoder encoder;
} Curves;

typedef struct TensorboardSink {
    Curves rounds;                     // round on the x axis, and what is of no step
    Curves steps;                      // environment steps; opened with its first record
    char *steps_folder;                // owned
    const char *prefix;                // of the tags by step
    int64_t n_steps;                   // of the run so far; ES_MISSING_INT: not known
    int64_t n_host_parameters;         // ES_MISSING_INT: not known
    int64_t done_round, pending_round; // newest complete one; the one that scalars wait for
    int64_t held_out_round;            // whose first policy was seen
    int value_column, tag_columns[N_TAG_COLUMNS];
} TensorboardSink;

static EsStatus open_event_file(const char *folder, EsRecordFile *file);

static EsStatus hand_over_records(Curves *curves) {
    EsText *records = &curves->encoder.records;
    EsStatus status = records->status;
    if (status == ES_STATUS_OK && records->length > 0) {
        status = es_record_file_add(&curves->file, records->bytes, records->length);
    }
    es_text_reset(records);
    return status;
}

static double time_of(const EsPacket *packet) { return (double)packet->header->unix_us * 1e-6; }

// --- curves by environment steps ---

// A scalar prefix/name or prefix/name/variant; missing ones are left out.
static void add_step_scalar(TensorboardSink *sink, const char *name, const char *variant,
                            size_t variant_bytes, double value) {
    if (es_is_missing_real(value) || isnan(value)) {
        return;
    }
    Encoder *encoder = &sink->steps.encoder;
    es_text_reset(&encoder->tag);
    add_tag(encoder, sink->prefix, strlen(sink->prefix));
    add_tag(encoder, name, strlen(name));
    if (variant != NULL) {
        add_tag(encoder, variant, variant_bytes);
    }
    add_scalar(encoder, value);
}

static EsStatus open_steps(TensorboardSink *sink, double wall_time) {
    if (sink->steps.file.descriptor >= 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(open_event_file(sink->steps_folder, &sink->steps.file));
    add_version(&sink->steps.encoder, wall_time);
    return hand_over_records(&sink->steps);
}

// Write the scalars that were added at the steps that the run has; none where that is not known.
static EsStatus end_step_scalars(TensorboardSink *sink, double wall_time) {
    EsText *summary = &sink->steps.encoder.summary;
    if (sink->n_steps == ES_MISSING_INT || (summary->length == 0 && summary->status == 0)) {
        es_text_reset(summary);
        return ES_STATUS_OK;
    }
    ES_TRY(open_steps(sink, wall_time));
    end_scalars(&sink->steps.encoder, wall_time, sink->n_steps);
    return hand_over_records(&sink->steps);
}

// Forget the scalars that waited for the end of a round that was dropped.
static void begin_pending(TensorboardSink *sink, int64_t round) {
    if (round != sink->pending_round) {
        es_text_reset(&sink->steps.encoder.summary);
        sink->pending_round = round;
    }
}

// Scalars of a round wait for its end, which has the steps; later ones are written at once.
static EsStatus end_or_wait(TensorboardSink *sink, const EsPacket *packet) {
    return packet->header->round > sink->done_round ? ES_STATUS_OK
                                                    : end_step_scalars(sink, time_of(packet));
}

static double real_of(const EsPacket *packet, const char *column) {
    return es_packet_real(packet, 0, es_event_column(packet->type, column));
}

static double count_of(const EsPacket *packet, const char *column) {
    int64_t count = es_packet_int(packet, 0, es_event_column(packet->type, column));
    return count == ES_MISSING_INT ? es_missing_real() : (double)count;
}

// Mean of a column over all rows that have it.
static double mean_of(const EsPacket *packet, const char *column) {
    int index = es_event_column(packet->type, column);
    double sum = 0;
    int64_t n = 0;
    for (int64_t row = 0; row < packet->n_rows; row++) {
        double value = es_packet_real(packet, row, index);
        if (!es_is_missing_real(value)) {
            sum += value;
            n++;
        }
    }
    return n > 0 ? sum / (double)n : es_missing_real();
}

static double parameters_of(const TensorboardSink *sink, double ratio) {
    return sink->n_host_parameters == ES_MISSING_INT || es_is_missing_real(ratio)
               ? es_missing_real()
               : ratio * (double)sink->n_host_parameters;
}

// Episodes of the round, or held-out ones of one policy; the first policy is the run's own, and
// has the plain tags, too.
static EsStatus write_outcomes(TensorboardSink *sink, const EsPacket *packet) {
    size_t bytes = 0;
    const char *variant =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_EPISODE_OUTCOME, "arm"), &bytes);
    double ratio = mean_of(packet, "parameter_ratio");
    if (variant == NULL) {
        begin_pending(sink, packet->header->round);
        add_step_scalar(sink, "parameter_ratio", NULL, 0, ratio);
        add_step_scalar(sink, "parameters", NULL, 0, parameters_of(sink, ratio));
        return end_or_wait(sink, packet);
    }
    const struct {
        const char *name;
        double value;
    } scalars[] = {{"test_accuracy", mean_of(packet, "test_accuracy")},
                   {"held_out_accuracy", mean_of(packet, "final_accuracy")},
                   {"held_out_parameter_ratio", ratio},
                   {"held_out_reward", mean_of(packet, "reward")}};
    int is_own = packet->header->round != sink->held_out_round;
    sink->held_out_round = packet->header->round;
    es_text_reset(&sink->steps.encoder.summary);
    for (size_t i = 0; i < ES_COUNT_OF(scalars); i++) {
        if (is_own) {
            add_step_scalar(sink, scalars[i].name, NULL, 0, scalars[i].value);
        }
        add_step_scalar(sink, scalars[i].name, variant, bytes, scalars[i].value);
    }
    return end_step_scalars(sink, time_of(packet));
}

// Ranked test queries; those of validations come as metrics.
static EsStatus write_ranking(TensorboardSink *sink, const EsPacket *packet) {
    size_t bytes = 0, split_bytes = 0;
    const char *variant =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_PROOF_RANKED, "arm"), &bytes);
    const char *split =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_PROOF_RANKED, "split"), &split_bytes);
    if (variant == NULL || split_bytes != 4 || memcmp(split, "test", 4) != 0) {
        return ES_STATUS_OK;
    }
    es_text_reset(&sink->steps.encoder.summary);
    if (bytes == 6 && memcmp(variant, "policy", 6) == 0) {
        add_step_scalar(sink, "test_mrr", NULL, 0, real_of(packet, "mrr"));
    }
    add_step_scalar(sink, "test_mrr", variant, bytes, real_of(packet, "mrr"));
    return end_step_scalars(sink, time_of(packet));
}

static EsStatus write_round(TensorboardSink *sink, const EsPacket *packet) {
    static const char *const reals[] = {"accuracy", "reward", "loss"};
    begin_pending(sink, packet->header->round);
    sink->done_round = packet->header->round;
    sink->n_steps =
        es_packet_int(packet, 0, es_event_column(ES_EVENT_ROUND_COMPLETED, "total_steps"));
    for (size_t i = 0; i < ES_COUNT_OF(reals); i++) {
        add_step_scalar(sink, reals[i], NULL, 0, real_of(packet, reals[i]));
    }
    add_step_scalar(sink, "seeds", NULL, 0, count_of(packet, "n_seeds"));
    add_step_scalar(sink, "fossils", NULL, 0, count_of(packet, "n_fossils"));
    return end_step_scalars(sink, time_of(packet));
}

// A resumed run: readers drop the points of earlier files above the checkpoint's steps.
static EsStatus write_resumption(TensorboardSink *sink, const EsPacket *packet) {
    sink->n_steps =
        es_packet_int(packet, 0, es_event_column(ES_EVENT_CHECKPOINT_LOADED, "total_steps"));
    sink->done_round = packet->header->round;
    if (sink->n_steps == ES_MISSING_INT) {
        return ES_STATUS_OK;
    }
    ES_TRY(open_steps(sink, time_of(packet)));
    add_session_start(&sink->steps.encoder, time_of(packet), sink->n_steps + 1);
    return hand_over_records(&sink->steps);
}

// Metrics that are curves of growth or proofs, too. A fit has -1 and 0 before it has a network.
static void add_step_metric(TensorboardSink *sink, const char *name, size_t bytes, double value) {
    static const struct {
        const char *metric, *name;
        double above;
    } shown[] = {{"esper.fit.best_accuracy", "validation_accuracy", -1},
                 {"esper.fit.test_accuracy", "test_accuracy", -1},
                 {"esper.fit.parameters", "parameters", 0},
                 {"esper.hosts.test_accuracy", "test_accuracy", -1},
                 {"proof/validation_mrr", "validation_mrr", -1}};
    for (size_t i = 0; i < ES_COUNT_OF(shown); i++) {
        if (bytes == strlen(shown[i].metric) && memcmp(name, shown[i].metric, bytes) == 0 &&
            value > shown[i].above) {
            add_step_scalar(sink, shown[i].name, NULL, 0, value);
        }
    }
}

// --- packets ---

static EsStatus write_metrics(TensorboardSink *sink, const EsPacket *packet) {
    Encoder *encoder = &sink->rounds.encoder;
    begin_pending(sink, packet->header->round);
    for (int64_t row = 0; row < packet->n_rows; row++) {
        double value = es_packet_real(packet, row, sink->value_column);
        es_text_reset(&encoder->tag);
        for (int i = 0; i < N_TAG_COLUMNS; i++) {
            size_t bytes = 0;
            const char *part = es_packet_text(packet, row, sink->tag_columns[i], &bytes);
            if (bytes > 0) {
                add_tag(encoder, part, bytes);
            } else if (i == 0) { // nothing without a name
                value = es_missing_real();
            }
        }
        if (!es_is_missing_real(value)) {
            size_t bytes = 0;
            const char *name = es_packet_text(packet, row, sink->tag_columns[0], &bytes);
            add_scalar(encoder, value);
            add_step_metric(sink, name, bytes, value);
        }
    }
    end_scalars(encoder, time_of(packet), packet->header->round);
    ES_TRY(hand_over_records(&sink->rounds));
    return end_or_wait(sink, packet);
}

static EsStatus write_start(TensorboardSink *sink, const EsPacket *packet) {
    size_t bytes = 0, kind_bytes = 0;
    const char *config =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_RUN_STARTED, "config"), &bytes);
    const char *kind =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_RUN_STARTED, "kind"), &kind_bytes);
    int is_proof = kind_bytes == 5 && memcmp(kind, "prove", 5) == 0;
    sink->prefix = is_proof ? "proof" : "growth";
    sink->n_host_parameters =
        es_packet_int(packet, 0, es_event_column(ES_EVENT_RUN_STARTED, "n_host_parameters"));
    if (config == NULL) {
        return ES_STATUS_OK;
    }
    Encoder *encoder = &sink->rounds.encoder;
    add_configuration(encoder, config, bytes);
    add_experiment(encoder, config, bytes, time_of(packet));
    add_settings(encoder, config, bytes, time_of(packet));
    end_scalars(encoder, time_of(packet), packet->header->round);
    return hand_over_records(&sink->rounds);
}

// Readers keep the first end that they find: none is written for a run that can go on.
static EsStatus write_end(TensorboardSink *sink, const EsPacket *packet) {
    size_t bytes = 0;
    const char *outcome =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_RUN_ENDED, "outcome"), &bytes);
    int is_done = bytes == 4 && memcmp(outcome, "done", 4) == 0;
    int is_halted = bytes == 6 && memcmp(outcome, "halted", 6) == 0;
    if (!is_done && !is_halted) {
        return ES_STATUS_OK;
    }
    add_session_end(&sink->rounds.encoder, is_done, time_of(packet));
    end_scalars(&sink->rounds.encoder, time_of(packet), packet->header->round);
    return hand_over_records(&sink->rounds);
}

static EsStatus write_packet(void *state, const EsPacket *packet) {
    switch (packet->type) {
    case ES_EVENT_METRIC:
        return write_metrics(state, packet);
    case ES_EVENT_RUN_STARTED:
        return write_start(state, packet);
    case ES_EVENT_RUN_ENDED:
        return write_end(state, packet);
    case ES_EVENT_CHECKPOINT_LOADED:
        return write_resumption(state, packet);
    case ES_EVENT_EPISODE_OUTCOME:
        return write_outcomes(state, packet);
    case ES_EVENT_PROOF_RANKED:
        return write_ranking(state, packet);
    case ES_EVENT_ROUND_COMPLETED:
        return write_round(state, packet);
    default:
        return ES_STATUS_OK;
    }
}

static EsStatus flush_file(void *state) {
    TensorboardSink *sink = state;
    EsStatus status = es_record_file_flush(&sink->rounds.file);
    EsStatus of_steps =
        sink->steps.file.descriptor >= 0 ? es_record_file_flush(&sink->steps.file) : ES_STATUS_OK;
    return status == ES_STATUS_OK ? of_steps : status;
}

static void close_sink(void *state) {
    TensorboardSink *sink = state;
    es_record_file_close(&sink->rounds.file);
    es_record_file_close(&sink->steps.file);
    destroy_encoder(&sink->rounds.encoder);
    destroy_encoder(&sink->steps.encoder);
    es_release(sink->steps_folder);
    es_release(sink);
}

// Seconds for the new file's name. Readers take the files of a folder in the order of their names,
// so a new one must come last, even if the clock was set back or two start within a second.
static EsStatus choose_seconds(const char *folder, int64_t *seconds) {
    *seconds = (int64_t)time(NULL);
    DIR *handle = opendir(folder);
    if (handle == NULL) {
        return ES_FAIL(IO, "cannot read the folder %s: %s", folder, strerror(errno));
    }
    for (struct dirent *entry; (entry = readdir(handle)) != NULL;) {
        if (strncmp(entry->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) == 0) {
            int64_t other = strtoll(entry->d_name + strlen(FILE_PREFIX), NULL, 10);
            // ten digits sort as numbers do; a longer number is not a time
            if (other >= *seconds && other < 9999999999) {
                *seconds = other + 1;
            }
        }
    }
    closedir(handle);
    return ES_STATUS_OK;
}

static void describe_host(char host[65]) {
    if (gethostname(host, 65) != 0 || host[0] == '\0') {
        strcpy(host, "localhost");
    }
    host[64] = '\0';
    for (char *letter = host; *letter != '\0'; letter++) {
        if (!isalnum((unsigned char)*letter) && strchr(".-_", *letter) == NULL) {
            *letter = '-';
        }
    }
}

static EsStatus open_event_file(const char *folder, EsRecordFile *file) {
    if (es_system_make_folder(folder, 0777) != 0 && errno != EEXIST) {
        return ES_FAIL(IO, "cannot create the folder %s: %s", folder, strerror(errno));
    }
    int64_t seconds = 0;
    ES_TRY(choose_seconds(folder, &seconds));
    char host[65];
    describe_host(host);
    size_t path_bytes = strlen(folder) + sizeof host + 100;
    char *path = NULL;
    ES_TRY(es_allocate(path_bytes, (void **)&path));
    snprintf(path, path_bytes, "%s/" FILE_PREFIX "%010lld.%s.%ld.esper", folder, (long long)seconds,
             host, (long)getpid());
    EsStatus status = es_record_file_open(path, 1, file);
    es_release(path);
    return status;
}

EsStatus es_tensorboard_sink_open(const char *folder, int64_t last_round, EsSink *sink) {
    TensorboardSink *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    *state = (TensorboardSink){.rounds.file.descriptor = -1,
                               .steps.file.descriptor = -1,
                               .prefix = "growth",
                               .n_steps = last_round < 0 ? 0 : ES_MISSING_INT,
                               .n_host_parameters = ES_MISSING_INT,
                               .done_round = ES_MAX(last_round, 0),
                               .pending_round = -1,
                               .held_out_round = -1};
    for (int i = 0; i < N_TAG_COLUMNS; i++) {
        state->tag_columns[i] = es_event_column(ES_EVENT_METRIC, tag_names[i]);
    }
    state->value_column = es_event_column(ES_EVENT_METRIC, "value");
    EsStatus status = ES_STATUS_OK;
    size_t folder_bytes = strlen(folder) + sizeof STEPS_FOLDER + 1;
    ES_TRY_GOTO(es_allocate(folder_bytes, (void **)&state->steps_folder));
    snprintf(state->steps_folder, folder_bytes, "%s/" STEPS_FOLDER, folder);
    ES_TRY_GOTO(open_event_file(folder, &state->rounds.file));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    add_version(&state->rounds.encoder, wall_time);
    if (last_round >= 0) {
        add_session_start(&state->rounds.encoder, wall_time, last_round + 1);
    }
    ES_TRY_GOTO(hand_over_records(&state->rounds));
    // at once, so that TensorBoard finds the run before its first round ends
    ES_TRY_GOTO(es_record_file_flush(&state->rounds.file));
    *sink = (EsSink){"tensorboard", state, write_packet, flush_file, close_sink};
    return ES_STATUS_OK;
done:
    close_sink(state);
    return status;
}
