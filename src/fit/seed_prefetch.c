// The list of requests that trainer and worker share, under one lock. The worker has a preparation
// to itself while it makes it, and puts it back if its request is still there.
#include "fit/seed_prefetch.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/thread_pool.h"

typedef enum State { WAITING, IN_WORK, READY, FAILED } State;

typedef struct Request {
    int64_t number; // counts requests; the worker finds its own by it
    State state;
    EsTopology topology;
    EsSeedPreparation *preparation; // owned; by the worker while it is IN_WORK
    int64_t asked_ns, ready_ns;
} Request;

// Freed by the worker, which may hang for longer than the trainer is there.
typedef struct Shared {
    pthread_mutex_t lock; // guards what follows
    pthread_cond_t changed;
    Request requests[ES_PREFETCH_MAX]; // oldest first
    int n;
    int64_t busy_since_ns; // of the worker's request; 0: it has none
    int is_left;           // the trainer is gone
    EsDeadlineDrill drill;
} Shared;

struct EsSeedPrefetch {
    Shared *shared;
    double timeout_ms;
    EsPrefetchCounts counts; // without those of requests in the list
};

static void destroy_shared(Shared *shared) {
    pthread_cond_destroy(&shared->changed);
    pthread_mutex_destroy(&shared->lock);
    es_release(shared);
}

// --- the worker's thread ---

static Request *find_waiting(Shared *shared) {
    for (int i = 0; i < shared->n; i++) {
        if (shared->requests[i].state == WAITING) {
            return &shared->requests[i];
        }
    }
    return NULL;
}

static Request *find_number(Shared *shared, int64_t number) {
    for (int i = 0; i < shared->n; i++) {
        if (shared->requests[i].number == number) {
            return &shared->requests[i];
        }
    }
    return NULL;
}

static EsStatus make(const EsDeadlineDrill *drill, EsSeedPreparation *preparation) {
    if (drill->before != NULL) {
        ES_TRY(drill->before(drill->context));
    }
    return es_seed_preparation_run(preparation);
}

// Holds the lock before and after.
static void serve(Shared *shared, Request *request) {
    int64_t number = request->number;
    EsSeedPreparation *preparation = request->preparation;
    request->state = IN_WORK;
    request->preparation = NULL;
    shared->busy_since_ns = es_clock_ns();
    pthread_mutex_unlock(&shared->lock);
    EsStatus status = make(&shared->drill, preparation);
    int64_t now_ns = es_clock_ns();
    pthread_mutex_lock(&shared->lock);
    shared->busy_since_ns = 0;
    request = find_number(shared, number);
    if (request == NULL) {
        es_seed_preparation_destroy(preparation);
        return;
    }
    request->state = status == ES_STATUS_OK ? READY : FAILED;
    request->ready_ns = now_ns;
    request->preparation = preparation;
}

static void *work(void *context) {
    Shared *shared = context;
    pthread_mutex_lock(&shared->lock);
    while (!shared->is_left) {
        Request *request = find_waiting(shared);
        if (request != NULL) {
            serve(shared, request);
        } else {
            pthread_cond_wait(&shared->changed, &shared->lock);
        }
    }
    pthread_mutex_unlock(&shared->lock);
    destroy_shared(shared);
    return NULL;
}

// --- the trainer ---

EsStatus es_seed_prefetch_create(double timeout_ms, const EsDeadlineDrill *drill,
                                 EsSeedPrefetch **prefetch_out) {
    EsSeedPrefetch *prefetch = NULL;
    Shared *shared = NULL;
    *prefetch_out = NULL;
    ES_TRY(es_allocate(sizeof *prefetch, (void **)&prefetch));
    EsStatus status = es_allocate(sizeof *shared, (void **)&shared);
    if (status != ES_STATUS_OK) {
        es_release(prefetch);
        return status;
    }
    pthread_mutex_init(&shared->lock, NULL);
    pthread_cond_init(&shared->changed, NULL);
    shared->drill = drill != NULL ? *drill : (EsDeadlineDrill){0};
    status = es_thread_start_detached(work, shared);
    if (status != ES_STATUS_OK) {
        destroy_shared(shared);
        es_release(prefetch);
        return status;
    }
    prefetch->shared = shared;
    prefetch->timeout_ms = timeout_ms;
    *prefetch_out = prefetch;
    return ES_STATUS_OK;
}

static int is_past(const EsSeedPrefetch *prefetch, int64_t since_ns, int64_t now_ns) {
    double ms = 1e-6 * (double)(now_ns - since_ns);
    return prefetch->timeout_ms > 0 && ms > prefetch->timeout_ms;
}

// Ends request i in the way that `count` counts; `other` counts it where it was ready. The lock is
// held.
static void end_request(EsSeedPrefetch *prefetch, int i, int64_t *count, int64_t *other) {
    Shared *shared = prefetch->shared;
    Request *request = &shared->requests[i];
    if (request->state == READY) {
        prefetch->counts.last_ms = 1e-6 * (double)(request->ready_ns - request->asked_ns);
        prefetch->counts.made_ms += prefetch->counts.last_ms;
        prefetch->counts.made++;
    }
    *(request->state == READY    ? other
      : request->state == FAILED ? &prefetch->counts.failed
                                 : count) += 1;
    es_seed_preparation_destroy(request->preparation);
    shared->n--;
    memmove(request, request + 1, sizeof *request * (size_t)(shared->n - i));
}

void es_seed_prefetch_destroy(EsSeedPrefetch *prefetch) {
    if (prefetch == NULL) {
        return;
    }
    Shared *shared = prefetch->shared;
    pthread_mutex_lock(&shared->lock);
    while (shared->n > 0) {
        end_request(prefetch, 0, &prefetch->counts.canceled, &prefetch->counts.stale);
    }
    shared->is_left = 1;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
    es_release(prefetch);
}

int es_seed_prefetch_request(EsSeedPrefetch *prefetch, EsSeedPreparation *preparation) {
    Shared *shared = prefetch->shared;
    pthread_mutex_lock(&shared->lock);
    int64_t now_ns = es_clock_ns();
    int is_stuck = shared->busy_since_ns != 0 && is_past(prefetch, shared->busy_since_ns, now_ns);
    int is_taken = shared->n < ES_PREFETCH_MAX && !is_stuck;
    if (is_taken) {
        shared->requests[shared->n++] =
            (Request){.number = ++prefetch->counts.requested,
                      .topology = *es_seed_preparation_topology(preparation),
                      .preparation = preparation,
                      .asked_ns = now_ns};
        pthread_cond_broadcast(&shared->changed);
    }
    pthread_mutex_unlock(&shared->lock);
    if (!is_taken) {
        es_seed_preparation_destroy(preparation);
    }
    return is_taken;
}

int es_seed_prefetch_has(EsSeedPrefetch *prefetch, const EsTopology *topology) {
    Shared *shared = prefetch->shared;
    int has = 0;
    pthread_mutex_lock(&shared->lock);
    for (int i = 0; i < shared->n && !has; i++) {
        has = memcmp(&shared->requests[i].topology, topology, sizeof *topology) == 0;
    }
    pthread_mutex_unlock(&shared->lock);
    return has;
}

void es_seed_prefetch_take(EsSeedPrefetch *prefetch, EsSeedPreparation *wanted) {
    Shared *shared = prefetch->shared;
    pthread_mutex_lock(&shared->lock);
    for (int i = 0; i < shared->n;) {
        Request *request = &shared->requests[i];
        if (!es_seed_preparation_lacks(wanted, &request->topology)) {
            i++;
            continue;
        }
        if (request->state == READY) {
            es_seed_preparation_take(wanted, request->preparation);
        }
        end_request(prefetch, i, &prefetch->counts.canceled, &prefetch->counts.used);
    }
    pthread_mutex_unlock(&shared->lock);
}

void es_seed_prefetch_drop(EsSeedPrefetch *prefetch,
                           int (*is_wanted)(const EsTopology *topology, void *context),
                           void *context) {
    Shared *shared = prefetch->shared;
    int64_t now_ns = es_clock_ns();
    pthread_mutex_lock(&shared->lock);
    for (int i = 0; i < shared->n;) {
        const Request *request = &shared->requests[i];
        int is_late = request->state <= IN_WORK && is_past(prefetch, request->asked_ns, now_ns);
        if (is_late) {
            end_request(prefetch, i, &prefetch->counts.timed_out, &prefetch->counts.stale);
        } else if (request->state == FAILED || !is_wanted(&request->topology, context)) {
            end_request(prefetch, i, &prefetch->counts.canceled, &prefetch->counts.stale);
        } else {
            i++;
        }
    }
    pthread_mutex_unlock(&shared->lock);
}

EsPrefetchCounts es_seed_prefetch_counts(EsSeedPrefetch *prefetch) {
    Shared *shared = prefetch->shared;
    EsPrefetchCounts counts = prefetch->counts;
    pthread_mutex_lock(&shared->lock);
    for (int i = 0; i < shared->n; i++) {
        counts.ready += shared->requests[i].state == READY;
        counts.failed += shared->requests[i].state == FAILED;
        counts.in_flight += shared->requests[i].state <= IN_WORK;
    }
    pthread_mutex_unlock(&shared->lock);
    return counts;
}
