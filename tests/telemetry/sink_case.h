// Helpers of the tests of the sinks: packets made of rows and handed to a sink.
#ifndef ES_TESTS_TELEMETRY_SINK_CASE_H
#define ES_TESTS_TELEMETRY_SINK_CASE_H

#include "base/file.h"
#include "telemetry/sink.h"
#include "temp_folder.h"

#define CASE_UNIX_US 1700000000123456 // 2023-11-14T22:13:20.123456Z

// Hand rows to the sink as one packet, emitted at `unix_us`.
static inline EsStatus write_rows_at(const EsSink *sink, EsEventType type, int64_t unix_us,
                                     int64_t round, int64_t step, const void *rows,
                                     int64_t n_rows) {
    size_t bytes = es_packet_bytes(type, rows, n_rows);
    void *data = NULL;
    EsPacket packet;
    REQUIRE_OK(es_allocate(bytes, &data));
    EsPacketHeader header = {.unix_us = unix_us, .sequence = 7, .round = round, .step = step};
    es_packet_encode(type, rows, n_rows, &header, data);
    REQUIRE_OK(es_packet_open(data, bytes, &packet));
    EsStatus status = sink->write(sink->state, &packet);
    es_release(data);
    return status;
}

static inline EsStatus write_rows(const EsSink *sink, EsEventType type, int64_t round, int64_t step,
                                  const void *rows, int64_t n_rows) {
    return write_rows_at(sink, type, CASE_UNIX_US, round, step, rows, n_rows);
}

static inline EsStatus write_metric(const EsSink *sink, int64_t round, const char *name,
                                    double value) {
    EsMetricEvent row = {.name = name, .value = value};
    return write_rows(sink, ES_EVENT_METRIC, round, -1, &row, 1);
}

// The whole file, ended by 0; es_release it.
static inline char *read_sink_file(const char *path, size_t *bytes) {
    void *data = NULL;
    size_t n_bytes = 0;
    REQUIRE_OK(es_file_read_all(path, (size_t)1 << 30, &data, &n_bytes));
    if (bytes != NULL) {
        *bytes = n_bytes;
    }
    return data;
}

#endif
