// The checkpoints of a run as they lie on disk: where they are, whether they hold, how they go.
// Internal to runs/; nothing here needs the run's lock.
//
// Everything hangs on DONE: it holds the SHA-256 of manifest.json, which holds those of the ranks'
// marks, which hold those of their files.
#ifndef ES_RUNS_RUN_CHECKPOINT_STORE_H
#define ES_RUNS_RUN_CHECKPOINT_STORE_H

#include <jansson.h>

#include "runs/run_checkpoint.h"

#define ES_CHECKPOINT_SCHEMA 1

typedef struct EsStoredCheckpoint {
    int has_done;    // it was complete once
    int is_complete; // and is so still
    int n_ranks;
    EsCheckpointInfo info; // is_best is left 0
    char problem[320];     // why it is not complete, "" when it is
} EsStoredCheckpoint;

// <root>/checkpoints/<round>/<name>; `name` "" is the folder itself.
void es_checkpoint_store_path(const char *root, int64_t round, const char *name,
                              char path[ES_RUN_PATH_BYTES]);

// Rounds that have a folder, complete or not, ascending; released with es_release.
EsStatus es_checkpoint_store_rounds(const char *root, int64_t **rounds, int *n_rounds);

// Look at one checkpoint: the marks and the sizes of the files, and with `with_hashes` their
// content. A failure is one of reading; what is found wrong is no failure but stands in
// found->problem.
EsStatus es_checkpoint_store_check(const char *root, int64_t round, int with_hashes,
                                   EsStoredCheckpoint *found);

// Check the mark of one rank and the files it names, and add their bytes to *bytes. INPUT says what
// is wrong. `names` (an object, used as a set) takes the files' names: two ranks may not share one.
EsStatus es_checkpoint_store_check_mark(const char *root, int64_t round, int rank, int n_ranks,
                                        int with_hashes, json_t *names, int64_t *bytes);

// All complete checkpoints with the best marked, as es_run_checkpoint_list.
EsStatus es_checkpoint_store_list(const char *root, EsCheckpointInfo **infos, int *n_infos);

// DONE first, made durable, then the rest.
EsStatus es_checkpoint_store_remove(const char *root, int64_t round);

// Remove temporaries of killed processes from one folder.
EsStatus es_checkpoint_store_remove_strays(const char *folder);

// JSON of a file: IO when it cannot be read, INPUT when it is no object.
EsStatus es_checkpoint_store_load(const char *path, json_t **object);

// Write an object atomically; takes the reference also on failure. NULL is out of memory.
EsStatus es_checkpoint_store_save(const char *path, json_t *object);

// A real as {"real": 0.5, "bits": "3fe0000000000000"}: the first is for readers (null when JSON
// has no such number), the second is what counts.
json_t *es_checkpoint_store_pack_real(double value);
int es_checkpoint_store_unpack_real(const json_t *packed, double *value);

#endif
