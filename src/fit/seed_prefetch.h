// Seeds made ready ahead of the decision that may plant them: while an epoch trains, a thread
// builds the graphs of hosts that have them.
//
// A request is a preparation (growth/engine/seed_preparation.h), which owns all that it reads. They
// are served one after the other. A decision takes what is ready; what is not is made then, with
// the same bits. So a request that fails, is late, or was for a seed that never comes costs nothing
// but itself. Each ends in one way, which is counted. One thread uses it.
//
//     EsSeedPrefetch *prefetch; ES_TRY(es_seed_prefetch_create(1000, NULL, &prefetch));
//     es_seed_prefetch_request(prefetch, preparation);        // the preparation is its own now
//     ... an epoch ...
//     es_seed_prefetch_take(prefetch, wanted);                // running `wanted` makes the rest
//     es_seed_prefetch_drop(prefetch, still_wanted, context); // stale ones
//     es_seed_prefetch_destroy(prefetch);
#ifndef ES_FIT_SEED_PREFETCH_H
#define ES_FIT_SEED_PREFETCH_H

#include "fit/deadline.h"
#include "growth/engine/seed_preparation.h"

// Requests that are kept at a time; more are refused.
#define ES_PREFETCH_MAX 256

// Since it was created. `requested` is the sum of those below, up to `ready`.
typedef struct EsPrefetchCounts {
    int64_t requested;
    int64_t used;      // ready when a decision wanted them
    int64_t failed;    // an error while they were made
    int64_t timed_out; // not ready within the time-out
    int64_t canceled;  // wanted, or no more, before they were ready
    int64_t stale;     // ready, and no more wanted
    int64_t in_flight; // waiting or being made
    int64_t ready;     // waiting for a decision
    int64_t made;      // used or stale: those that `made_ms` is the sum of
    double made_ms;    // from request to ready
    double last_ms;    // of the last one that ended; 0 before
} EsPrefetchCounts;

typedef struct EsSeedPrefetch EsSeedPrefetch;

// A time-out of 0 is none. `drill`, nullable and copied, runs on the thread before each one.
EsStatus es_seed_prefetch_create(double timeout_ms, const EsDeadlineDrill *drill,
                                 EsSeedPrefetch **prefetch);
// Cancels what is left. A preparation that hangs goes on by itself.
void es_seed_prefetch_destroy(EsSeedPrefetch *prefetch);

// Takes over a preparation that was foreseen. Returns 0, and destroys it, when there are
// ES_PREFETCH_MAX, or the thread has been at one for longer than the time-out.
int es_seed_prefetch_request(EsSeedPrefetch *prefetch, EsSeedPreparation *preparation);

// Moves what is ready and lacking into `wanted`; of what is lacking and not ready the request is
// canceled, since it is made now.
void es_seed_prefetch_take(EsSeedPrefetch *prefetch, EsSeedPreparation *wanted);

// Ends the requests for which `is_wanted` returns 0, and those that took too long.
void es_seed_prefetch_drop(EsSeedPrefetch *prefetch,
                           int (*is_wanted)(const EsTopology *topology, void *context),
                           void *context);

// Is this topology requested already?
int es_seed_prefetch_has(EsSeedPrefetch *prefetch, const EsTopology *topology);

EsPrefetchCounts es_seed_prefetch_counts(EsSeedPrefetch *prefetch);

#endif
