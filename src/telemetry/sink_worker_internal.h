// The state that a sink's owner (sink_worker.c) and its thread (sink_thread.c) share.
#ifndef ES_TELEMETRY_SINK_WORKER_INTERNAL_H
#define ES_TELEMETRY_SINK_WORKER_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "telemetry/packet_queue.h"
#include "telemetry/sink_worker.h"
#include "telemetry/spill.h"

struct EsSinkWorker {
    EsSink sink;          // owned; called by the thread alone
    EsPacketQueue *queue; // owned
    EsSpill *spill;       // owned; NULL when kept events are lost once the queue is full
    pthread_t thread;
    _Atomic int n_holders; // hub and thread; the last to let go frees

    // wake-up: is_woken keeps the semaphore at 0 or 1, so that most emits make no system call
    sem_t wake;
    _Atomic int is_woken;
    _Atomic int is_stopping;  // deliver what there is, then end
    _Atomic int is_abandoned; // nobody waits any more: end at once, say nothing

    // answers of the thread; `progress` is posted after each
    sem_t progress;
    _Atomic int64_t n_flushes_asked, n_flushes_answered;
    _Atomic int is_ended;
    _Atomic int is_blocked; // set by the owner: a wait ran out, and its request is not answered yet

    // counts, per packet
    _Alignas(ES_ALIGNMENT) _Atomic int64_t n_refused; // by emit: n_dropped and a part of n_lost
    _Atomic int refusal;                              // the latest: reason * ES_EVENT_COUNT + type
    _Atomic int64_t n_dropped, n_lost, n_spilled, n_written, n_failures, busy_ns;
    _Atomic int64_t n_missed[ES_EVENT_COUNT];      // dropped or lost
    _Atomic int64_t n_outstanding[ES_EVENT_COUNT]; // accepted; not yet flushed or lost
    char first_failure[256];                       // valid once has_failed
    _Atomic int has_failed;

    int64_t n_refused_told; // the owner's own

    // the thread's own
    int64_t n_unflushed; // written since the last flush
    int64_t n_unflushed_by_type[ES_EVENT_COUNT];
    int64_t unflushed_since_ns; // when the first of them was written
    int64_t flush_seen;         // the request at hand
    int64_t flush_spill_target; // packets appended to the spill when it was seen
};

// Start routine of the thread; takes an EsSinkWorker.
void *es_sink_thread_run(void *worker);

// Let go; frees the worker when the other side has let go before.
void es_sink_worker_release(EsSinkWorker *worker);

#endif
