#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file_fault.h"
#include "base/memory.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/record_file.h"
#include "telemetry/sinks/tensorboard_record.h"

#define FILE_PREFIX "events.out.tfevents."

typedef struct TensorboardSink {
    EsRecordFile file;
    EsTensorboardEncoder encoder;
    int name_column, value_column;
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
        size_t name_bytes = 0;
        const char *name = es_packet_text(packet, row, sink->name_column, &name_bytes);
        double value = es_packet_real(packet, row, sink->value_column);
        if (name_bytes > 0 && !es_is_missing_real(value)) {
            es_tensorboard_add_scalar(&sink->encoder, name, name_bytes, value);
        }
    }
    es_tensorboard_end_scalars(&sink->encoder, (double)packet->header->unix_us * 1e-6,
                               packet->header->round);
    return hand_over_records(sink);
}

static EsStatus flush_file(void *state) {
    TensorboardSink *sink = state;
    return es_record_file_flush(&sink->file);
}

static void close_sink(void *state) {
    TensorboardSink *sink = state;
    es_record_file_close(&sink->file);
    es_tensorboard_encoder_destroy(&sink->encoder);
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
    state->name_column = es_event_column(ES_EVENT_METRIC, "name");
    state->value_column = es_event_column(ES_EVENT_METRIC, "value");
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(open_event_file(folder, &state->file));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    es_tensorboard_add_version(&state->encoder, wall_time);
    if (last_round >= 0) {
        es_tensorboard_add_session_start(&state->encoder, wall_time, last_round + 1);
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
