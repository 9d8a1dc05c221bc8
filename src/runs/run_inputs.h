// What a run reads and its checkpoints remember: one that went on with other images or another file
// would be neither of two runs.
#ifndef ES_RUNS_RUN_INPUTS_H
#define ES_RUNS_RUN_INPUTS_H

#include "runs/run_checkpoint.h"

// INPUT when the text under `key` (a SHA-256) is not `hash`; `what` names the input in the message.
// The first checkpoints of schema 1 have no such text: that is a warning.
EsStatus es_run_input_check(const EsRunCheckpoint *checkpoint, const char *key, const char *hash,
                            const char *what);

#endif
