// Rollback of a fit: states of good epochs in memory, a record of the newest checkpoint, and the
// reading of that checkpoint under a deadline.
//
// A state is a held checkpoint (runs/checkpoint.h), so what goes back is what a resumed run would
// load, bit for bit. The record, wal.json in the run folder, is written after a checkpoint is
// complete: {"wal_version": 1, "epoch", "checkpoint": "checkpoints/<epoch>", "crc32c" of that
// checkpoint's DONE, "wal_crc32c" of "<checkpoint>:<epoch>:<crc32c>"}, checksums as eight
// hexadecimal digits.
//
//     es_fit_rollback_push(rollback, checkpoint);               // of a good epoch; taken over
//     const EsCheckpoint *state = es_fit_rollback_nearest(rollback, epoch);
//     if (state == NULL) { result = es_fit_restore(deadline, root, ms, NULL, &restore); }
#ifndef ES_RUNS_FIT_ROLLBACK_H
#define ES_RUNS_FIT_ROLLBACK_H

#include "fit/deadline.h"
#include "runs/checkpoint.h"

// --- states in memory ---

typedef struct EsFitRollback EsFitRollback;

EsStatus es_fit_rollback_create(size_t capacity_bytes, EsFitRollback **rollback);
void es_fit_rollback_destroy(EsFitRollback *rollback);

// Keeps a held checkpoint, in place of one of the same epoch; the oldest go until it fits. Returns
// whether it is kept: one that is larger than the capacity is ended at once.
int es_fit_rollback_push(EsFitRollback *rollback, EsCheckpoint *checkpoint);

// The newest state of an epoch up to this one, borrowed; NULL when there is none.
const EsCheckpoint *es_fit_rollback_nearest(const EsFitRollback *rollback, int64_t epoch);

int es_fit_rollback_count(const EsFitRollback *rollback);
size_t es_fit_rollback_bytes(const EsFitRollback *rollback);

// --- the record of the newest checkpoint ---

#define ES_WAL_FILE "wal.json"

EsStatus es_fit_wal_write(const char *root, int64_t epoch);

// --- from disk ---

typedef enum EsRestoreResult {
    ES_RESTORE_DONE,
    ES_RESTORE_ABSENT, // there is no record: nothing was saved yet
    ES_RESTORE_FAILED,
    ES_RESTORE_LATE
} EsRestoreResult;

typedef struct EsRestore {
    EsCheckpoint *checkpoint; // DONE: held, the caller's
    const char *stage; // FAILED: wal_crc_error, wal_crc_mismatch, read_error, ckpt_crc_mismatch
    char detail[256];
} EsRestore;

// Called on the reading thread, in drills and tests: before anything is read, and after the record
// was. Both are nullable.
typedef struct EsRestoreDrill {
    void (*before)(void *context);
    void (*found)(void *context);
    void *context;
} EsRestoreDrill;

// Reads the checkpoint that the record names, within `ms` of wall clock; 0 = any. A save that ends
// meanwhile may remove it: then the record names another, which is read. Changes nothing on disk.
// `drill` is nullable.
EsRestoreResult es_fit_restore(EsDeadline *deadline, const char *root, double ms,
                               const EsRestoreDrill *drill, EsRestore *restore);

#endif
