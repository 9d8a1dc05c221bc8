// The first error of work on a thread pool, carried to the thread that asked for the work: the text
// of an error belongs to the thread that failed (esper/status.h).
//
//     es_first_error_capture(&worker->first_error, rank_query(...));  // in the worker
//     ES_TRY(es_first_error_rethrow(&worker->first_error));           // behind es_thread_pool_run
#ifndef ES_BASE_FIRST_ERROR_H
#define ES_BASE_FIRST_ERROR_H

#include <stdio.h>

#include "esper/status.h"

// Zeroed: no error.
typedef struct EsFirstError {
    EsStatus status;
    char detail[256];
} EsFirstError;

// Captures the status of a call with its text; later errors are dropped.
static inline void es_first_error_capture(EsFirstError *first, EsStatus status) {
    if (first->status == ES_STATUS_OK && status != ES_STATUS_OK) {
        first->status = status;
        snprintf(first->detail, sizeof first->detail, "%s", es_status_detail());
    }
}

// Fails on this thread with the captured status and text; OK when there is none.
static inline EsStatus es_first_error_rethrow(const EsFirstError *first) {
    return first->status == ES_STATUS_OK
               ? ES_STATUS_OK
               : es_status_set(first->status, __FILE__, __LINE__, "%s", first->detail);
}

#endif
