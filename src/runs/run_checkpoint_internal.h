// The checkpoint object, shared by the files that write, find and read checkpoints.
#ifndef ES_RUNS_RUN_CHECKPOINT_INTERNAL_H
#define ES_RUNS_RUN_CHECKPOINT_INTERNAL_H

#include <jansson.h>

#include "base/first_error.h"
#include "runs/run_checkpoint.h"

// Files of this rank. Apart from the rest, because asking for a path adds to it, and the code that
// does so holds the checkpoint const.
typedef struct EsCheckpointNames {
    json_t *set;              // owned: an object whose keys are the names, in order
    EsFirstError first_error; // a name could not be noted; commit says so
} EsCheckpointNames;

struct EsRunCheckpoint {
    char root[ES_RUN_PATH_BYTES]; // of the run
    int64_t round;
    int rank, n_ranks;
    int is_writing, is_committed, is_complete;
    EsCheckpointNames *names; // owned; NULL in reading
    json_t *values;           // owned: what was put
    int64_t bytes;
};

EsStatus es_checkpoint_object_create(const EsRunFolder *folder, int64_t round, int rank,
                                     int n_ranks, EsRunCheckpoint **checkpoint);
void es_checkpoint_object_destroy(EsRunCheckpoint *checkpoint);

#endif
