// A failure of work that a thread of a pool did, carried to the thread that asked for the work:
// the text of a failure stays with the thread that failed (esper/status.h).
//
//     es_failure_keep(&worker->failure, rank_query(...));  // in the worker
//     ES_TRY(es_failure_tell(&worker->failure));           // behind es_thread_pool_run
#ifndef ES_BASE_KEPT_FAILURE_H
#define ES_BASE_KEPT_FAILURE_H

#include <stdio.h>

#include "esper/status.h"

// All 0: nothing has failed.
typedef struct EsKeptFailure {
    EsStatus status;
    char detail[256];
} EsKeptFailure;

// Keep what a call returned, with its text; the first failure stays.
static inline void es_failure_keep(EsKeptFailure *kept, EsStatus status) {
    if (kept->status == ES_STATUS_OK && status != ES_STATUS_OK) {
        kept->status = status;
        snprintf(kept->detail, sizeof kept->detail, "%s", es_status_detail());
    }
}

// Fail on this thread as it failed there; OK when nothing has.
static inline EsStatus es_failure_tell(const EsKeptFailure *kept) {
    return kept->status == ES_STATUS_OK
               ? ES_STATUS_OK
               : es_status_set(kept->status, __FILE__, __LINE__, "%s", kept->detail);
}

#endif
