#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/jsonl_trim.h"
#include "telemetry/sinks/record_file.h"

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

// jsonl_trim.c finds the round by this order of keys
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
