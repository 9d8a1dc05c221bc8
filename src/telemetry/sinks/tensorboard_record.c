#include "telemetry/sinks/tensorboard_record.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/crc32c.h"

// how protobuf lays out a field's value: the low three bits of its key
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

void es_tensorboard_add_scalar(EsTensorboardEncoder *encoder, const char *tag, size_t tag_bytes,
                               double value) {
    es_text_reset(&encoder->tag);
    es_text_add_utf8(&encoder->tag, tag, tag_bytes, ES_TEXT_PLAIN);
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
