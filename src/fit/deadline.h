// Work under a deadline, on a thread of its own, that the caller never waits for longer.
//
// An answer in time is the caller's. One that is late is thrown away: its job belongs to the thread
// that still has it, and is released there. A thread that is still busy when the next job comes is
// abandoned: another takes its place, and it ends by itself when its job returns, if ever. After
// ES_DEADLINE_ABANDONED_MAX of them nothing is run any more.
//
//     EsDeadline *deadline; ES_TRY(es_deadline_create(&deadline));
//     switch (es_deadline_run(deadline, &job, 5, &status)) {
//     case ES_DEADLINE_MET:    // status is the job's; its context is the caller's again
//     case ES_DEADLINE_MISSED: // the context is not the caller's any more
//     case ES_DEADLINE_SPENT:  // nothing was run
//     }
#ifndef ES_FIT_DEADLINE_H
#define ES_FIT_DEADLINE_H

#include <stdint.h>

#include "esper/status.h"

#define ES_DEADLINE_ABANDONED_MAX 4

// `run` touches the context alone; `release` lets go of it after a late answer.
typedef struct EsDeadlineJob {
    EsStatus (*run)(void *context);
    void (*release)(void *context);
    void *context;
} EsDeadlineJob;

// Runs on the job's thread before the job, in drills; an error is the job's.
typedef struct EsDeadlineDrill {
    EsStatus (*before)(void *context);
    void *context; // outlives every job
} EsDeadlineDrill;

typedef enum EsDeadlineOutcome {
    ES_DEADLINE_MET,
    ES_DEADLINE_MISSED,
    ES_DEADLINE_SPENT
} EsDeadlineOutcome;

// Since it was created.
typedef struct EsDeadlineCounts {
    int64_t submitted, completed, failed, timed_out;
    int64_t abandoned; // threads
} EsDeadlineCounts;

typedef struct EsDeadline EsDeadline; // one thread uses it

EsStatus es_deadline_create(EsDeadline **deadline);
// A job that is still running goes on by itself.
void es_deadline_destroy(EsDeadline *deadline);

// Runs a job for at most `ms` of wall clock. *status is the job's, with its detail, when the
// deadline was met; MEMORY when no thread could be started, which counts as met.
EsDeadlineOutcome es_deadline_run(EsDeadline *deadline, const EsDeadlineJob *job, double ms,
                                  EsStatus *status);

EsDeadlineCounts es_deadline_counts(const EsDeadline *deadline);

#endif
