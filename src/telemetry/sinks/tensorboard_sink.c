// The TensorBoard sink: every metric becomes a scalar of the record that its round writes.
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
// Only the four fields that curves need are written, by hand (tensorflow/core/util/event.proto):
//     Event       { double wall_time = 1; int64 step = 2; string file_version = 3;
//                   Summary summary = 5; SessionLog session_log = 7; }
//     Summary     { repeated Value value = 1; }  Value { string tag = 1; float simple_value = 2; }
//     SessionLog  { Status status = 1; }         START = 1
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

// Leave room for the frame's head and start the event. Returns where the frame begins.
static size_t begin_event(EsText *records, double wall_time) {
    size_t begin = records->length;
    static const char room[FRAME_HEAD_BYTES] = {0};
    es_text_add(records, room, sizeof room);
    uint64_t bits;
    memcpy(&bits, &wall_time, sizeof bits);
    add_key(records, 1, WIRE_64_BIT);
    add_little_endian(records, bits, 8);
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

// --- the sink ---

#define FILE_PREFIX "events.out.tfevents."

// Columns that make the tag. A seed's stage is none: its curve goes on through its stages.
#define N_TAG_COLUMNS 3
static const char *const tag_names[N_TAG_COLUMNS] = {"name", "seed_id", "layer"};

typedef struct TensorboardSink {
    EsRecordFile file;
    Encoder encoder;
    int value_column, tag_columns[N_TAG_COLUMNS];
} TensorboardSink;

static EsStatus hand_over_records(TensorboardSink *sink) {
    EsText *records = &sink->encoder.records;
    EsStatus status = records->status;
    if (status == ES_STATUS_OK && records->length > 0) {
        status = es_record_file_add(&sink->file, records->bytes, records->length);
    }
    es_text_reset(records);
    return status;
}

static EsStatus write_packet(void *state, const EsPacket *packet) {
    TensorboardSink *sink = state;
    if (packet->type != ES_EVENT_METRIC) {
        return ES_STATUS_OK;
    }
    for (int64_t row = 0; row < packet->n_rows; row++) {
        double value = es_packet_real(packet, row, sink->value_column);
        es_text_reset(&sink->encoder.tag);
        for (int i = 0; i < N_TAG_COLUMNS; i++) {
            size_t bytes = 0;
            const char *part = es_packet_text(packet, row, sink->tag_columns[i], &bytes);
            if (bytes > 0) {
                add_tag(&sink->encoder, part, bytes);
            } else if (i == 0) { // nothing without a name
                value = es_missing_real();
            }
        }
        if (!es_is_missing_real(value)) {
            add_scalar(&sink->encoder, value);
        }
    }
    end_scalars(&sink->encoder, (double)packet->header->unix_us * 1e-6, packet->header->round);
    return hand_over_records(sink);
}

static EsStatus flush_file(void *state) {
    TensorboardSink *sink = state;
    return es_record_file_flush(&sink->file);
}

static void close_sink(void *state) {
    TensorboardSink *sink = state;
    es_record_file_close(&sink->file);
    destroy_encoder(&sink->encoder);
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
    state->file.descriptor = -1;
    for (int i = 0; i < N_TAG_COLUMNS; i++) {
        state->tag_columns[i] = es_event_column(ES_EVENT_METRIC, tag_names[i]);
    }
    state->value_column = es_event_column(ES_EVENT_METRIC, "value");
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(open_event_file(folder, &state->file));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    add_version(&state->encoder, wall_time);
    if (last_round >= 0) {
        add_session_start(&state->encoder, wall_time, last_round + 1);
    }
    ES_TRY_GOTO(hand_over_records(state));
    // at once, so that TensorBoard finds the run before its first round ends
    ES_TRY_GOTO(es_record_file_flush(&state->file));
    *sink = (EsSink){"tensorboard", state, write_packet, flush_file, close_sink};
    return ES_STATUS_OK;
done:
    close_sink(state);
    return status;
}
