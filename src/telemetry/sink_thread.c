// The thread of a sink: takes packets from the queue and the spill file to the sink.
//
// Kept events keep their order although they travel on two ways. A producer puts them into the
// spill while anything is pending there, into the queue otherwise. So a kept packet in the queue is
// older than those its producer put into the spill; the thread notes how far the spill reaches,
// then how far the queue does, brings the queue there and only then takes from the spill. One that
// goes to the queue later finds the spill delivered.
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "telemetry/sink_worker_internal.h"

// the longest a written packet waits for a flush while more come
#define FLUSH_PERIOD_NS 1000000000

// packets of the spill delivered before the queue has its turn again
#define MAX_SPILL_BATCH 64

static int is_abandoned(EsSinkWorker *worker) {
    return atomic_load_explicit(&worker->is_abandoned, memory_order_relaxed);
}

static void count_lost(EsSinkWorker *worker, EsEventType type, int64_t n) {
    atomic_fetch_add(&worker->n_lost, n);
    atomic_fetch_add(&worker->n_missed[type], n);
    atomic_fetch_sub(&worker->n_outstanding[type], n);
}

// Count a failure of the sink or its spill; the first is kept and told.
static void note_failure(EsSinkWorker *worker, const char *action) {
    atomic_fetch_add(&worker->n_failures, 1);
    if (atomic_load_explicit(&worker->has_failed, memory_order_relaxed)) {
        return;
    }
    snprintf(worker->first_failure, sizeof worker->first_failure, "%s", es_status_detail());
    atomic_store_explicit(&worker->has_failed, 1, memory_order_release);
    if (!is_abandoned(worker)) {
        es_log(ES_LOG_WARNING,
               "telemetry: sink %s cannot %s: %s; events are lost until it can again",
               worker->sink.name, action, worker->first_failure);
    }
}

static void flush_sink(EsSinkWorker *worker) {
    if (worker->n_unflushed == 0) {
        return;
    }
    int64_t start_ns = es_clock_ns();
    EsStatus status = worker->sink.flush(worker->sink.state);
    atomic_fetch_add(&worker->busy_ns, es_clock_ns() - start_ns);
    if (status != ES_STATUS_OK) {
        note_failure(worker, "flush");
    } else {
        atomic_fetch_add(&worker->n_written, worker->n_unflushed);
    }
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        int64_t n = worker->n_unflushed_by_type[type];
        if (n > 0 && status != ES_STATUS_OK) {
            count_lost(worker, (EsEventType)type, n);
        } else if (n > 0) {
            atomic_fetch_sub(&worker->n_outstanding[type], n);
        }
        worker->n_unflushed_by_type[type] = 0;
    }
    worker->n_unflushed = 0;
}

static void write_packet(EsSinkWorker *worker, const EsPacket *packet) {
    int64_t start_ns = es_clock_ns();
    EsStatus status = worker->sink.write(worker->sink.state, packet);
    int64_t end_ns = es_clock_ns();
    atomic_fetch_add(&worker->busy_ns, end_ns - start_ns);
    if (status != ES_STATUS_OK) {
        note_failure(worker, "write");
        count_lost(worker, packet->type, 1);
        return;
    }
    if (worker->n_unflushed++ == 0) {
        worker->unflushed_since_ns = start_ns;
    }
    worker->n_unflushed_by_type[packet->type]++;
    if (end_ns - worker->unflushed_since_ns >= FLUSH_PERIOD_NS) {
        flush_sink(worker);
    }
}

// Deliver queued packets up to position `mark`; 0 when a producer in front of it has reserved and
// not yet published. It wakes the thread when it has.
static int drain_queue(EsSinkWorker *worker, uint64_t mark) {
    while (es_packet_queue_tail(worker->queue) < mark && !is_abandoned(worker)) {
        size_t bytes = 0;
        const void *data = es_packet_queue_peek(worker->queue, &bytes);
        if (data == NULL) {
            return 0;
        }
        EsPacket packet;
        EsStatus status = es_packet_open(data, bytes, &packet);
        ES_ASSERT(status == ES_STATUS_OK);
        write_packet(worker, &packet);
        es_packet_queue_release(worker->queue);
    }
    return 1;
}

// Deliver spilled packets, at most until `target` of all ever appended are taken.
static void drain_spill(EsSinkWorker *worker, int64_t target) {
    int64_t n_ready = target - es_spill_n_taken(worker->spill);
    for (int64_t i = 0; i < ES_MIN(n_ready, MAX_SPILL_BATCH) && !is_abandoned(worker); i++) {
        EsPacket packet;
        if (es_spill_peek(worker->spill, &packet) != ES_STATUS_OK) {
            note_failure(worker, "read its spill file");
            int64_t n_by_type[ES_EVENT_COUNT];
            es_spill_discard(worker->spill, n_by_type);
            for (int type = 0; type < ES_EVENT_COUNT; type++) {
                count_lost(worker, (EsEventType)type, n_by_type[type]);
            }
            return;
        }
        write_packet(worker, &packet);
        es_spill_release(worker->spill);
    }
}

static void answer_flush(EsSinkWorker *worker) {
    flush_sink(worker);
    atomic_store_explicit(&worker->n_flushes_answered, worker->flush_seen, memory_order_release);
    sem_post(&worker->progress);
}

// Deliver what is there now; nonzero when there is more that need not be waited for.
static int deliver(EsSinkWorker *worker) {
    int64_t asked = atomic_load_explicit(&worker->n_flushes_asked, memory_order_acquire);
    int64_t spill_target = worker->spill != NULL ? es_spill_n_appended(worker->spill) : 0;
    if (asked != worker->flush_seen) {
        worker->flush_seen = asked;
        worker->flush_spill_target = spill_target;
    }
    // after the look at the spill: see the file head
    uint64_t mark = es_packet_queue_head(worker->queue);
    int is_drained = drain_queue(worker, mark);
    if (is_drained && worker->spill != NULL) {
        drain_spill(worker, spill_target);
    }
    if (is_abandoned(worker)) {
        return 0;
    }
    int is_answered =
        asked == atomic_load_explicit(&worker->n_flushes_answered, memory_order_relaxed);
    if (!is_answered && is_drained &&
        (worker->spill == NULL || es_spill_n_taken(worker->spill) >= worker->flush_spill_target)) {
        answer_flush(worker);
    }
    size_t bytes = 0;
    int has_more = es_packet_queue_peek(worker->queue, &bytes) != NULL ||
                   (is_drained && worker->spill != NULL && es_spill_n_pending(worker->spill) > 0);
    if (!has_more) {
        flush_sink(worker);
    }
    return has_more;
}

static void wait_for_wake(EsSinkWorker *worker) {
    while (sem_wait(&worker->wake) != 0) {
        // a signal came in between
    }
    // before the look at the queue: an event published after that look finds 0 here and posts
    atomic_exchange(&worker->is_woken, 0);
}

void *es_sink_thread_run(void *argument) {
    EsSinkWorker *worker = argument;
    int is_stopping = 0;
    while (!is_stopping && !is_abandoned(worker)) {
        wait_for_wake(worker);
        is_stopping = atomic_load_explicit(&worker->is_stopping, memory_order_acquire);
        while (deliver(worker)) {
        }
    }
    worker->sink.close(worker->sink.state);
    atomic_store_explicit(&worker->is_ended, 1, memory_order_release);
    sem_post(&worker->progress);
    es_sink_worker_release(worker);
    return NULL;
}
