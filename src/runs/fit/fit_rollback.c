// The ring of states, the record of the newest checkpoint, and reading it on a thread under a
// deadline.
#include "runs/fit/fit_rollback.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#define WAL_VERSION   1
#define MAX_WAL_BYTES 4096
#define MAX_STATES    256
// records that may come and go while one is read: one save in work, one that waits, and one spare
#define MAX_READS 3

// --- states in memory ---

struct EsFitRollback {
    size_t capacity_bytes, n_bytes;
    int n;
    EsCheckpoint *states[MAX_STATES]; // owned, oldest first
};

EsStatus es_fit_rollback_create(size_t capacity_bytes, EsFitRollback **rollback) {
    ES_TRY(es_allocate(sizeof **rollback, (void **)rollback));
    (*rollback)->capacity_bytes = capacity_bytes;
    return ES_STATUS_OK;
}

static void remove_state(EsFitRollback *rollback, int i) {
    rollback->n_bytes -= es_checkpoint_held_bytes(rollback->states[i]);
    es_checkpoint_end(rollback->states[i]);
    rollback->n--;
    for (; i < rollback->n; i++) {
        rollback->states[i] = rollback->states[i + 1];
    }
}

void es_fit_rollback_destroy(EsFitRollback *rollback) {
    while (rollback != NULL && rollback->n > 0) {
        remove_state(rollback, rollback->n - 1);
    }
    es_release(rollback);
}

int es_fit_rollback_push(EsFitRollback *rollback, EsCheckpoint *checkpoint) {
    int64_t epoch = es_checkpoint_round(checkpoint);
    size_t bytes = es_checkpoint_held_bytes(checkpoint);
    // a state of this epoch, or of a later one that was undone, is out of date
    while (rollback->n > 0 && es_checkpoint_round(rollback->states[rollback->n - 1]) >= epoch) {
        remove_state(rollback, rollback->n - 1);
    }
    if (bytes > rollback->capacity_bytes) {
        es_checkpoint_end(checkpoint);
        return 0;
    }
    while (rollback->n == MAX_STATES || rollback->n_bytes + bytes > rollback->capacity_bytes) {
        remove_state(rollback, 0);
    }
    rollback->states[rollback->n++] = checkpoint;
    rollback->n_bytes += bytes;
    return 1;
}

const EsCheckpoint *es_fit_rollback_nearest(const EsFitRollback *rollback, int64_t epoch) {
    for (int i = rollback->n - 1; i >= 0; i--) {
        if (es_checkpoint_round(rollback->states[i]) <= epoch) {
            return rollback->states[i];
        }
    }
    return NULL;
}

int es_fit_rollback_count(const EsFitRollback *rollback) { return rollback->n; }

size_t es_fit_rollback_bytes(const EsFitRollback *rollback) { return rollback->n_bytes; }

// --- the record ---

typedef struct Wal {
    int64_t epoch;
    char checkpoint[64], crc[9], own_crc[9];
} Wal;

// Of the DONE of a checkpoint, which holds the hash of everything in it.
static EsStatus hash_done(const char *root, int64_t epoch, char crc[9]) {
    char path[ES_RUN_PATH_BYTES + 64];
    void *data = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/checkpoints/%lld/DONE", root, (long long)epoch);
    ES_TRY(es_file_read_all(path, MAX_WAL_BYTES, &data, &bytes));
    snprintf(crc, 9, "%08x", es_crc32c(data, bytes));
    es_release(data);
    return ES_STATUS_OK;
}

static void hash_wal(const Wal *wal, char crc[9]) {
    char text[128];
    int length =
        snprintf(text, sizeof text, "%s:%lld:%s", wal->checkpoint, (long long)wal->epoch, wal->crc);
    snprintf(crc, 9, "%08x", es_crc32c(text, (size_t)length));
}

static const char *wal_path(const char *root, char path[ES_RUN_PATH_BYTES + 64]) {
    snprintf(path, ES_RUN_PATH_BYTES + 64, "%s/" ES_WAL_FILE, root);
    return path;
}

EsStatus es_fit_wal_write(const char *root, int64_t epoch) {
    char path[ES_RUN_PATH_BYTES + 64], text[320];
    Wal wal = {.epoch = epoch};
    snprintf(wal.checkpoint, sizeof wal.checkpoint, "checkpoints/%lld", (long long)epoch);
    ES_TRY(hash_done(root, epoch, wal.crc));
    hash_wal(&wal, wal.own_crc);
    int length = snprintf(text, sizeof text,
                          "{\"wal_version\": %d, \"epoch\": %lld, \"checkpoint\": \"%s\", "
                          "\"crc32c\": \"%s\", \"wal_crc32c\": \"%s\"}\n",
                          WAL_VERSION, (long long)epoch, wal.checkpoint, wal.crc, wal.own_crc);
    return es_file_write_all(wal_path(root, path), text, (size_t)length);
}

static int take_text(const json_t *root, const char *name, char *text, size_t bytes) {
    const char *found = json_string_value(json_object_get(root, name));
    return found != NULL && (size_t)snprintf(text, bytes, "%s", found) < bytes;
}

// *is_there is 0 when there is no record. CONFIG for one that is none of ours.
static EsStatus read_wal(const char *root, Wal *wal, int *is_there) {
    char path[ES_RUN_PATH_BYTES + 64];
    void *text = NULL;
    size_t bytes = 0;
    json_t *object = NULL;
    json_error_t error;
    *is_there = 0;
    if (access(wal_path(root, path), F_OK) != 0 && errno == ENOENT) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_file_read_all(path, MAX_WAL_BYTES, &text, &bytes));
    EsStatus status = es_json_parse(path, text, bytes, &object, &error);
    es_release(text);
    if (status != ES_STATUS_OK) {
        return status == ES_STATUS_MEMORY ? status : ES_FAIL(CONFIG, "%s", es_status_detail());
    }
    const json_t *epoch = json_object_get(object, "epoch");
    *is_there = json_is_integer(epoch) &&
                json_integer_value(json_object_get(object, "wal_version")) == WAL_VERSION &&
                take_text(object, "checkpoint", wal->checkpoint, sizeof wal->checkpoint) &&
                take_text(object, "crc32c", wal->crc, sizeof wal->crc) &&
                take_text(object, "wal_crc32c", wal->own_crc, sizeof wal->own_crc);
    wal->epoch = *is_there ? json_integer_value(epoch) : 0;
    json_decref(object);
    return *is_there ? ES_STATUS_OK
                     : ES_FAIL(CONFIG, "%s is not a record of version %d", path, WAL_VERSION);
}

// --- from disk ---

// A reading, shared with its thread: a late one ends it there.
typedef struct Reading {
    char root[ES_RUN_PATH_BYTES];
    EsRestoreDrill drill;
    EsRestoreResult result;
    EsRestore restore;
} Reading;

static EsStatus fail_reading(Reading *reading, const char *stage, const char *detail) {
    reading->result = ES_RESTORE_FAILED;
    reading->restore.stage = stage;
    snprintf(reading->restore.detail, sizeof reading->restore.detail, "%s", detail);
    return ES_STATUS_OK;
}

// Reads what the record names. Its failures are results; only the thread's own would be errors.
static EsStatus read_once(Reading *reading, Wal *wal_out) {
    Wal wal = {0};
    char crc[9];
    int is_there = 0;
    EsStatus status = read_wal(reading->root, &wal, &is_there);
    *wal_out = wal;
    if (status != ES_STATUS_OK) {
        return fail_reading(reading, status == ES_STATUS_CONFIG ? "wal_crc_error" : "read_error",
                            es_status_detail());
    }
    if (!is_there) {
        reading->result = ES_RESTORE_ABSENT;
        return ES_STATUS_OK;
    }
    hash_wal(&wal, crc);
    if (strcmp(crc, wal.own_crc) != 0) {
        return fail_reading(reading, "wal_crc_mismatch", ES_WAL_FILE " does not fit its checksum");
    }
    if (reading->drill.found != NULL) {
        reading->drill.found(reading->drill.context);
    }
    if (hash_done(reading->root, wal.epoch, crc) != ES_STATUS_OK) {
        return fail_reading(reading, "read_error", es_status_detail());
    }
    if (strcmp(crc, wal.crc) != 0) {
        return fail_reading(reading, "ckpt_crc_mismatch", "DONE does not fit its checksum");
    }
    status = es_checkpoint_hold_saved(reading->root, wal.epoch, &reading->restore.checkpoint);
    if (status != ES_STATUS_OK) {
        return fail_reading(reading, status == ES_STATUS_INPUT ? "ckpt_crc_mismatch" : "read_error",
                            es_status_detail());
    }
    reading->result = ES_RESTORE_DONE;
    return ES_STATUS_OK;
}

// The record moves on before a checkpoint that it named is removed: a failure counts only while the
// record is the same.
static EsStatus read_checkpoint(void *context) {
    Reading *reading = context;
    if (reading->drill.before != NULL) {
        reading->drill.before(reading->drill.context);
    }
    for (int i = 0; i < MAX_READS; i++) {
        Wal wal, now = {0};
        int is_there = 0;
        ES_TRY(read_once(reading, &wal));
        if (reading->result != ES_RESTORE_FAILED ||
            read_wal(reading->root, &now, &is_there) != ES_STATUS_OK || now.epoch == wal.epoch) {
            break;
        }
    }
    return ES_STATUS_OK;
}

static void release_reading(void *context) {
    Reading *reading = context;
    es_checkpoint_end(reading->restore.checkpoint);
    es_release(reading);
}

EsRestoreResult es_fit_restore(EsDeadline *deadline, const char *root, double ms,
                               const EsRestoreDrill *drill, EsRestore *restore) {
    Reading *reading = NULL;
    EsStatus status = es_allocate(sizeof *reading, (void **)&reading);
    EsDeadlineOutcome outcome = ES_DEADLINE_MET;
    *restore = (EsRestore){.stage = "read_error"};
    if (status != ES_STATUS_OK) {
        snprintf(restore->detail, sizeof restore->detail, "%s", es_status_detail());
        return ES_RESTORE_FAILED;
    }
    snprintf(reading->root, sizeof reading->root, "%s", root);
    reading->drill = drill != NULL ? *drill : (EsRestoreDrill){0};
    const EsDeadlineJob job = {read_checkpoint, release_reading, reading};
    if (ms > 0) {
        outcome = es_deadline_run(deadline, &job, ms, &status);
    } else {
        status = read_checkpoint(reading);
    }
    if (outcome == ES_DEADLINE_MISSED) {
        return ES_RESTORE_LATE; // the thread has the reading
    }
    EsRestoreResult result = reading->result;
    *restore = reading->restore;
    if (outcome == ES_DEADLINE_SPENT || status != ES_STATUS_OK) {
        snprintf(restore->detail, sizeof restore->detail, "%s",
                 outcome == ES_DEADLINE_SPENT ? "too many threads hang" : es_status_detail());
        restore->stage = "read_error";
        result = ES_RESTORE_FAILED;
    }
    es_release(reading);
    return result;
}
