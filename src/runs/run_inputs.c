#include "runs/run_inputs.h"

#include <string.h>

EsStatus es_run_input_check(const EsRunCheckpoint *checkpoint, const char *key, const char *hash,
                            const char *what) {
    const char *saved = NULL;
    ES_TRY(es_run_checkpoint_text(checkpoint, key, &saved));
    if (strcmp(saved, hash) == 0) {
        return ES_STATUS_OK;
    }
    return ES_FAIL(INPUT,
                   "%s is not the one this run began with: its SHA-256 was %.12s... and is "
                   "%.12s...; bring the old one back or start a new run",
                   what, saved, hash);
}
