#include "runs/run_inputs.h"

#include <string.h>

#include "base/log.h"

EsStatus es_run_input_check(const EsRunCheckpoint *checkpoint, const char *key, const char *hash,
                            const char *what) {
    const char *saved = NULL;
    if (!es_run_checkpoint_has(checkpoint, key)) {
        es_log(ES_LOG_WARNING,
               "the run does not know the SHA-256 of %s: it goes on with what is "
               "there now",
               what);
        return ES_STATUS_OK;
    }
    ES_TRY(es_run_checkpoint_text(checkpoint, key, &saved));
    if (strcmp(saved, hash) == 0) {
        return ES_STATUS_OK;
    }
    return ES_FAIL(INPUT,
                   "%s is not the one this run began with: its SHA-256 was %.12s... and is "
                   "%.12s...; bring the old one back or start a new run",
                   what, saved, hash);
}
