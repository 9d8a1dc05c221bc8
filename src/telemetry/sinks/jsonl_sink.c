// The JSONL sink: one line per row of a packet. A resumed run first takes out the lines that it
// will write again, and a torn end.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/record_file.h"

// --- trimming ---

#define CHUNK_BYTES ((size_t)1 << 20)

// the round stands in the first 160 bytes of a line of ours
#define HEAD_BYTES 256

typedef struct Trim {
    int64_t last_round;
    EsFileWriter *writer;  // owned; NULL while lines are only counted
    EsText kept;           // on its way to the writer
    char head[HEAD_BYTES]; // start of the line at hand, until its fate is known
    size_t head_bytes;
    int is_decided, is_kept; // the line at hand
    int64_t n_removed;
} Trim;

// The round of a line, or INT64_MIN when it is not one of ours.
static int64_t read_round(const char *head, size_t bytes) {
    static const char start[] = "{\"event\":\"", key[] = ",\"round\":";
    size_t start_bytes = sizeof start - 1, key_bytes = sizeof key - 1;
    if (bytes < start_bytes || memcmp(head, start, start_bytes) != 0) {
        return INT64_MIN;
    }
    const char *found = memmem(head, bytes, key, key_bytes);
    if (found == NULL) {
        return INT64_MIN;
    }
    const char *end = head + bytes, *digit = found + key_bytes;
    int is_negative = digit < end && *digit == '-';
    int64_t value = 0;
    for (digit += is_negative; digit < end && *digit >= '0' && *digit <= '9'; digit++) {
        if (value > (INT64_MAX - 9) / 10) {
            return INT64_MIN;
        }
        value = 10 * value + (*digit - '0');
    }
    return is_negative ? -value : value;
}

static EsStatus keep_bytes(Trim *trim, const char *bytes, size_t n_bytes) {
    if (!trim->is_kept || trim->writer == NULL) {
        return ES_STATUS_OK;
    }
    es_text_add(&trim->kept, bytes, n_bytes);
    ES_TRY(trim->kept.status);
    if (trim->kept.length >= CHUNK_BYTES) {
        ES_TRY(es_file_writer_append(trim->writer, trim->kept.bytes, trim->kept.length));
        es_text_reset(&trim->kept);
    }
    return ES_STATUS_OK;
}

// A piece of the line at hand, its end when `is_end`.
static EsStatus take_piece(Trim *trim, const char *bytes, size_t n_bytes, int is_end) {
    if (!trim->is_decided) {
        size_t n_head = ES_MIN(n_bytes, HEAD_BYTES - trim->head_bytes);
        memcpy(trim->head + trim->head_bytes, bytes, n_head);
        trim->head_bytes += n_head;
        bytes += n_head;
        n_bytes -= n_head;
        if (trim->head_bytes == HEAD_BYTES || is_end) {
            trim->is_decided = 1;
            trim->is_kept = trim->last_round < 0 ||
                            read_round(trim->head, trim->head_bytes) <= trim->last_round;
            trim->n_removed += !trim->is_kept;
            ES_TRY(keep_bytes(trim, trim->head, trim->head_bytes));
        }
    }
    if (trim->is_decided) {
        ES_TRY(keep_bytes(trim, bytes, n_bytes));
    }
    if (is_end) {
        trim->is_decided = 0;
        trim->head_bytes = 0;
    }
    return ES_STATUS_OK;
}

static EsStatus take_lines(Trim *trim, EsFileReader *reader, char *chunk, uint64_t whole_bytes) {
    for (uint64_t offset = 0; offset < whole_bytes;) {
        size_t n_left = (size_t)ES_MIN(whole_bytes - offset, CHUNK_BYTES);
        ES_TRY(es_file_reader_read(reader, offset, chunk, n_left));
        offset += n_left;
        for (const char *next = chunk; n_left > 0;) {
            const char *newline = memchr(next, '\n', n_left);
            size_t n_bytes = newline != NULL ? (size_t)(newline - next) + 1 : n_left;
            ES_TRY(take_piece(trim, next, n_bytes, newline != NULL));
            next += n_bytes;
            n_left -= n_bytes;
        }
    }
    return ES_STATUS_OK;
}

// Bytes up to and with the last newline.
static EsStatus find_whole_bytes(EsFileReader *reader, char *chunk, uint64_t *whole_bytes) {
    uint64_t end = es_file_reader_bytes(reader);
    while (end > 0) {
        size_t n_bytes = (size_t)ES_MIN(end, CHUNK_BYTES);
        ES_TRY(es_file_reader_read(reader, end - n_bytes, chunk, n_bytes));
        const char *newline = memrchr(chunk, '\n', n_bytes);
        if (newline != NULL) {
            end = end - n_bytes + (uint64_t)(newline - chunk) + 1;
            break;
        }
        end -= n_bytes;
    }
    *whole_bytes = end;
    return ES_STATUS_OK;
}

static EsStatus rewrite_file(Trim *trim, const char *path, EsFileReader *reader, char *chunk,
                             uint64_t whole_bytes) {
    ES_TRY(es_file_writer_open(path, &trim->writer));
    ES_TRY(take_lines(trim, reader, chunk, whole_bytes));
    ES_TRY(es_file_writer_append(trim->writer, trim->kept.bytes, trim->kept.length));
    EsFileWriter *writer = trim->writer;
    trim->writer = NULL; // commit ends it in any case
    return es_file_writer_commit(writer);
}

EsStatus es_jsonl_trim(const char *path, int64_t last_round) {
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return ES_STATUS_OK;
    }
    Trim trim = {.last_round = last_round};
    EsFileReader *reader = NULL;
    void *chunk = NULL;
    uint64_t whole_bytes = 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_file_reader_open(path, &reader));
    ES_TRY_GOTO(es_allocate(CHUNK_BYTES, &chunk));
    ES_TRY_GOTO(find_whole_bytes(reader, chunk, &whole_bytes));
    // counted first: a file with nothing to remove, however large, is not copied
    if (last_round >= 0) {
        ES_TRY_GOTO(take_lines(&trim, reader, chunk, whole_bytes));
    }
    if (trim.n_removed > 0 || whole_bytes < es_file_reader_bytes(reader)) {
        ES_TRY_GOTO(rewrite_file(&trim, path, reader, chunk, whole_bytes));
    }
done:
    es_file_writer_abandon(trim.writer);
    es_text_destroy(&trim.kept);
    es_release(chunk);
    es_file_reader_close(reader);
    return status;
}

// --- writing ---

typedef struct JsonlSink {
    EsRecordFile file;
    EsText start; // of every line of a packet: everything before the columns
    EsText lines; // of the packet at hand
} JsonlSink;

// Seconds are written as people and databases read them: "2026-01-31T09:05:00.000123Z".
static void add_time(EsText *text, int64_t unix_us) {
    int64_t micros = unix_us % 1000000;
    micros += micros < 0 ? 1000000 : 0;
    time_t seconds = (time_t)((unix_us - micros) / 1000000);
    struct tm parts = {0};
    gmtime_r(&seconds, &parts);
    char date[80], fraction[16];
    strftime(date, sizeof date, "\"%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(fraction, sizeof fraction, ".%06dZ\"", (int)micros);
    es_text_add_string(text, date);
    es_text_add_string(text, fraction);
}

// read_round depends on this order of keys
static void add_start(EsText *text, const EsPacket *packet) {
    es_text_add_string(text, "{\"event\":\"");
    es_text_add_string(text, packet->schema->name);
    es_text_add_string(text, "\",\"time\":");
    add_time(text, packet->header->unix_us);
    es_text_add_string(text, ",\"sequence\":");
    es_text_add_int(text, packet->header->sequence);
    es_text_add_string(text, ",\"round\":");
    es_text_add_int(text, packet->header->round);
    es_text_add_string(text, ",\"step\":");
    if (packet->header->step >= 0) {
        es_text_add_int(text, packet->header->step);
    } else {
        es_text_add_string(text, "null"); // an event of a whole round
    }
}

// No column has the name of one of the keys above; the test of this sink sees to it.
static void add_column_key(EsText *text, const char *name) {
    es_text_add(text, ",\"", 2);
    es_text_add_string(text, name);
    es_text_add(text, "\":", 2);
}

static void add_real(EsText *text, double value) {
    if (isfinite(value)) {
        es_text_add_real(text, value);
    } else if (es_is_missing_real(value)) {
        es_text_add_string(text, "null");
    } else {
        es_text_add_string(text, isnan(value) ? "\"NaN\""
                                 : value > 0  ? "\"Infinity\""
                                              : "\"-Infinity\"");
    }
}

static void add_cell(EsText *text, const EsPacket *packet, int64_t row, int column) {
    switch (packet->schema->columns[column].type) {
    case ES_COLUMN_INT: {
        int64_t value = es_packet_int(packet, row, column);
        if (value == ES_MISSING_INT) {
            es_text_add_string(text, "null");
        } else {
            es_text_add_int(text, value);
        }
        break;
    }
    case ES_COLUMN_REAL:
        add_real(text, es_packet_real(packet, row, column));
        break;
    case ES_COLUMN_TEXT: {
        size_t bytes = 0;
        const char *value = es_packet_text(packet, row, column, &bytes);
        if (value == NULL) {
            es_text_add_string(text, "null");
        } else {
            es_text_add(text, "\"", 1);
            es_text_add_utf8(text, value, bytes, ES_TEXT_JSON);
            es_text_add(text, "\"", 1);
        }
        break;
    }
    }
}

static EsStatus write_packet(void *state, const EsPacket *packet) {
    JsonlSink *sink = state;
    es_text_reset(&sink->start);
    es_text_reset(&sink->lines);
    add_start(&sink->start, packet);
    ES_TRY(sink->start.status);
    for (int64_t row = 0; row < packet->n_rows; row++) {
        es_text_add(&sink->lines, sink->start.bytes, sink->start.length);
        for (int column = 0; column < packet->schema->n_columns; column++) {
            add_column_key(&sink->lines, packet->schema->columns[column].name);
            add_cell(&sink->lines, packet, row, column);
        }
        es_text_add(&sink->lines, "}\n", 2);
    }
    ES_TRY(sink->lines.status);
    return es_record_file_add(&sink->file, sink->lines.bytes, sink->lines.length);
}

static EsStatus flush_file(void *state) {
    JsonlSink *sink = state;
    return es_record_file_flush(&sink->file);
}

static void close_sink(void *state) {
    JsonlSink *sink = state;
    es_record_file_close(&sink->file);
    es_text_destroy(&sink->start);
    es_text_destroy(&sink->lines);
    es_release(sink);
}

EsStatus es_jsonl_sink_open(const char *path, int64_t last_round, EsSink *sink) {
    ES_TRY(es_jsonl_trim(path, last_round));
    JsonlSink *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    EsStatus status = es_record_file_open(path, 0, &state->file);
    if (status != ES_STATUS_OK) {
        es_release(state);
        return status;
    }
    *sink = (EsSink){"jsonl", state, write_packet, flush_file, close_sink};
    return ES_STATUS_OK;
}
