// What the tests of the sinks share: packets made of rows and handed to a sink, and a folder for
// the files it writes.
#ifndef ES_TESTS_TELEMETRY_SINK_CASE_H
#define ES_TESTS_TELEMETRY_SINK_CASE_H

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "es_test.h"
#include "telemetry/sink.h"

#define CASE_UNIX_US 1700000000123456 // 2023-11-14T22:13:20.123456Z

typedef struct SinkFolder {
    char path[128];
} SinkFolder;

static inline SinkFolder make_sink_folder(void) {
    SinkFolder folder;
    const char *base = getenv("TMPDIR");
    snprintf(folder.path, sizeof folder.path, "%s/es_sink_XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder.path) == NULL) {
        perror(folder.path);
        exit(1);
    }
    return folder;
}

// Names in a folder, without "." and ".."; the last of them in `last` (nullable).
static inline int list_sink_folder(const char *path, char last[256], int is_removing) {
    int n_names = 0;
    DIR *handle = opendir(path);
    for (struct dirent *entry; handle != NULL && (entry = readdir(handle)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        n_names++;
        if (last != NULL && (n_names == 1 || strcmp(entry->d_name, last) > 0)) {
            snprintf(last, 256, "%s", entry->d_name);
        }
        if (is_removing) {
            unlinkat(dirfd(handle), entry->d_name, 0);
        }
    }
    if (handle != NULL) {
        closedir(handle);
    }
    return n_names;
}

static inline void remove_sink_folder(const SinkFolder *folder) {
    list_sink_folder(folder->path, NULL, 1);
    EXPECT_EQ(rmdir(folder->path), 0);
}

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
