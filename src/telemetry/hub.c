// The hub: numbers events, filters them by level and stride, and offers them to the worker of every
// sink.
#include "telemetry/hub.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "esper/log.h"
#include "telemetry/packet_queue.h"
#include "telemetry/spill.h"

// --- the worker of a sink ---

// A sink's worker: the owner's half, called by the hub, and the thread that feeds the sink. Both
// share EsSinkWorker; counters are atomic, everything else is one side's own.

// One sink at work: its queue, its spill file and the thread that feeds it. Internal to the hub.
//
// The worker is shared by the hub and the thread, and freed by the one that lets go last; so a
// thread stuck in its sink can be left behind. Should it return while the process lives, it ends
// the packet it is at, closes the sink, which may write packets it still holds, and cleans up.

typedef struct EsSinkWorker EsSinkWorker;

// Take over the sink, also on failure, which closes it. `options` have been checked.
static EsStatus worker_start(const EsSink *sink, const EsHubOptions *options,
                             EsSinkWorker **worker);

static const char *worker_name(const EsSinkWorker *worker);

// Queue, spill or drop an event; from any thread. `packet_bytes` is es_packet_bytes(), 0 for one
// that is too large. Waits for nothing that happens inside the sink.
static void worker_offer(EsSinkWorker *worker, EsEventType type, const void *rows, int64_t n_rows,
                         const EsPacketHeader *header, size_t packet_bytes);

// Logs the events refused since the last call: at once, then each thousand. The owner's thread
// alone.
static void worker_log_refusals(EsSinkWorker *worker);

// Ask for everything offered so far to be written and flushed, then wait for it until deadline_ns
// (es_clock_ns). Asking does nothing while an earlier request stands unanswered; waiting then gives
// 0 at once. The owner's thread alone.
static void worker_ask_flush(EsSinkWorker *worker);
static int worker_wait_flush(EsSinkWorker *worker, int64_t deadline_ns);

// The counts so far; adds dropped and lost events to n_missed_by_type.
static void worker_health(const EsSinkWorker *worker, EsSinkHealth *health,
                          int64_t n_missed_by_type[ES_EVENT_COUNT]);

// Asks the thread to deliver all that is pending and end; nothing may be offered from here on. Stop
// waits for it until deadline_ns and lets go of the worker; a thread that has not ended by then is
// left behind and gives its sink nothing more than the packet it is at. `health` as above, final:
// undelivered packets count as lost.
static void worker_ask_stop(EsSinkWorker *worker);
static void worker_stop(EsSinkWorker *worker, int64_t deadline_ns, EsSinkHealth *health,
                        int64_t n_missed_by_type[ES_EVENT_COUNT]);

struct EsSinkWorker {
    EsSink sink;          // owned; called by the thread alone
    EsPacketQueue *queue; // owned
    EsSpill *spill;       // owned; NULL when kept events are lost once the queue is full
    pthread_t thread;
    _Atomic int n_holders; // hub and thread; the last to let go frees

    // wake-up: is_woken keeps the semaphore at 0 or 1, so that most emits make no system call
    sem_t wake;
    _Atomic int is_woken;
    _Atomic int is_stopping;  // deliver all that is pending, then end
    _Atomic int is_abandoned; // not waited for any more: end at once, silently

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

    _Atomic int64_t n_refused_logged;

    // the thread's own
    int64_t n_unflushed; // written since the last flush
    int64_t n_unflushed_by_type[ES_EVENT_COUNT];
    int64_t unflushed_since_ns; // when the first of them was written
    int64_t flush_seen;         // the request at hand
    int64_t flush_spill_target; // packets appended to the spill when it was seen
};

// the first refused events of a sink are logged, then every this many
#define REFUSALS_PER_LOG_LINE 1000

// why an event was refused: an errno of the spill file, 0 without one, or this
#define REASON_TOO_LARGE 100000

// Drops one reference; the last of the two frees the worker.
static void release(EsSinkWorker *worker) {
    // acq_rel: writes of the other side before its release must be over before memory is freed
    if (atomic_fetch_sub_explicit(&worker->n_holders, 1, memory_order_acq_rel) > 1) {
        return;
    }
    es_spill_close(worker->spill);
    es_packet_queue_destroy(worker->queue);
    sem_destroy(&worker->wake);
    sem_destroy(&worker->progress);
    es_release(worker);
}

// --- the thread ---

// Takes packets from the queue and the spill file to the sink. Kept events keep their order
// although they travel on two ways. A producer puts them into the spill while anything is pending
// there, into the queue otherwise. So a kept packet in the queue is older than those its producer
// put into the spill; the thread notes how far the spill reaches, then how far the queue does,
// brings the queue there and only then takes from the spill. One that goes to the queue later finds
// the spill delivered.

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

// Count a failure of the sink or its spill; the first is kept and logged.
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

// Delivers all that is there now; nonzero when there is more that need not be waited for.
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

// Start routine of the thread; takes an EsSinkWorker.
static void *run_thread(void *argument) {
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
    release(worker);
    return NULL;
}

// --- life ---

// The thread takes no signals: Ctrl-C belongs to the program's own threads.
static EsStatus start_thread(EsSinkWorker *worker) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&worker->n_holders, 2);
    int failure = pthread_create(&worker->thread, NULL, run_thread, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0) {
        atomic_store(&worker->n_holders, 1);
        return ES_FAIL(MEMORY,
                       "cannot start a thread for sink %s: not enough memory, or too many threads",
                       worker->sink.name);
    }
    char name[16]; // the system's limit
    snprintf(name, sizeof name, "es-%s", worker->sink.name);
    pthread_setname_np(worker->thread, name);
    return ES_STATUS_OK;
}

static EsStatus worker_start(const EsSink *sink, const EsHubOptions *options,
                             EsSinkWorker **worker_out) {
    *worker_out = NULL;
    EsSinkWorker *worker = NULL;
    EsStatus status = es_allocate(sizeof *worker, (void **)&worker);
    if (status != ES_STATUS_OK) {
        sink->close(sink->state);
        return status;
    }
    worker->sink = *sink;
    worker->n_holders = 1;
    sem_init(&worker->wake, 0, 0);
    sem_init(&worker->progress, 0, 0);
    ES_TRY_GOTO(
        es_packet_queue_create(options->queue_bytes, options->queue_packets, &worker->queue));
    if (options->spill_folder != NULL) {
        ES_TRY_GOTO(
            es_spill_open(options->spill_folder, sink->name, options->spill_bytes, &worker->spill));
    }
    ES_TRY_GOTO(start_thread(worker));
    *worker_out = worker;
    return ES_STATUS_OK;
done:
    sink->close(sink->state);
    release(worker);
    return status;
}

static const char *worker_name(const EsSinkWorker *worker) { return worker->sink.name; }

// --- offering ---

static void wake_thread(EsSinkWorker *worker) {
    if (atomic_exchange(&worker->is_woken, 1) == 0) {
        sem_post(&worker->wake);
    }
}

// Count an event that found no room; `failure` is why a kept one could not be spilled, 0 when there
// is no spill file. It is logged later, by the owner: a log line may take as long as its reader.
static void refuse(EsSinkWorker *worker, EsEventType type, size_t packet_bytes, int failure) {
    int is_kept = es_event_schema(type)->delivery == ES_DELIVERY_KEPT;
    int reason = packet_bytes == 0 ? REASON_TOO_LARGE : failure;
    atomic_fetch_add(is_kept ? &worker->n_lost : &worker->n_dropped, 1);
    atomic_fetch_add(&worker->n_missed[type], 1);
    atomic_store_explicit(&worker->refusal, reason * ES_EVENT_COUNT + (int)type,
                          memory_order_relaxed);
    // release: a reader of the count sees a reason
    atomic_fetch_add_explicit(&worker->n_refused, 1, memory_order_release);
}

static void worker_log_refusals(EsSinkWorker *worker) {
    int64_t n_refused = atomic_load_explicit(&worker->n_refused, memory_order_acquire);
    int64_t n_logged = atomic_load_explicit(&worker->n_refused_logged, memory_order_relaxed);
    if (n_refused == n_logged || (n_logged > 0 && n_refused - n_logged < REFUSALS_PER_LOG_LINE)) {
        return;
    }
    if (!atomic_compare_exchange_strong(&worker->n_refused_logged, &n_logged, n_refused)) {
        return; // another thread says it
    }
    int refusal = atomic_load_explicit(&worker->refusal, memory_order_relaxed);
    int failure = refusal / ES_EVENT_COUNT;
    char reason[256] = "its queue is full";
    if (failure == REASON_TOO_LARGE) {
        snprintf(reason, sizeof reason, "the event is larger than %u MiB",
                 (unsigned)(ES_PACKET_MAX_BYTES >> 20));
    } else if (failure == EFBIG) {
        snprintf(reason, sizeof reason, "its queue and %s are full", es_spill_path(worker->spill));
    } else if (failure != 0) {
        snprintf(reason, sizeof reason, "its queue is full, and %s: %s",
                 es_spill_path(worker->spill), strerror(failure));
    }
    es_log(ES_LOG_WARNING, "telemetry: sink %s misses a %s event: %s (%lld missed so far)",
           worker->sink.name, es_event_schema((EsEventType)(refusal % ES_EVENT_COUNT))->name,
           reason, (long long)n_refused);
}

static int queue_event(EsSinkWorker *worker, EsEventType type, const void *rows, int64_t n_rows,
                       const EsPacketHeader *header, size_t packet_bytes) {
    void *room = es_packet_queue_reserve(worker->queue, packet_bytes);
    if (room == NULL) {
        return 0;
    }
    es_packet_encode(type, rows, n_rows, header, room);
    es_packet_queue_publish(room, packet_bytes);
    return 1;
}

static void worker_offer(EsSinkWorker *worker, EsEventType type, const void *rows, int64_t n_rows,
                         const EsPacketHeader *header, size_t packet_bytes) {
    if (packet_bytes == 0) {
        refuse(worker, type, packet_bytes, 0);
        return;
    }
    int may_spill = worker->spill != NULL && es_event_schema(type)->delivery == ES_DELIVERY_KEPT;
    // before the thread can see it and count it down
    atomic_fetch_add(&worker->n_outstanding[type], 1);
    int failure = 0;
    // no kept event may overtake those pending in the spill
    int is_taken = !(may_spill && es_spill_n_pending(worker->spill) > 0) &&
                   queue_event(worker, type, rows, n_rows, header, packet_bytes);
    if (!is_taken && may_spill) {
        failure = es_spill_append(worker->spill, type, rows, n_rows, header);
        is_taken = failure == 0;
        atomic_fetch_add(&worker->n_spilled, is_taken);
    }
    if (is_taken) {
        wake_thread(worker);
    } else {
        atomic_fetch_sub(&worker->n_outstanding[type], 1);
        refuse(worker, type, packet_bytes, failure);
    }
}

// --- waiting for the thread ---

// Wait for a post of `progress` until deadline_ns; 0 when there was none.
static int wait_for_progress(EsSinkWorker *worker, int64_t deadline_ns) {
    struct timespec deadline = {.tv_sec = deadline_ns / 1000000000,
                                .tv_nsec = deadline_ns % 1000000000};
    int result;
    do {
        result = sem_clockwait(&worker->progress, CLOCK_MONOTONIC, &deadline);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

static int is_flush_answered(const EsSinkWorker *worker) {
    return atomic_load_explicit(&worker->n_flushes_answered, memory_order_acquire) ==
           atomic_load_explicit(&worker->n_flushes_asked, memory_order_relaxed);
}

static void worker_ask_flush(EsSinkWorker *worker) {
    if (is_flush_answered(worker)) {
        worker->is_blocked = 0;
        atomic_fetch_add_explicit(&worker->n_flushes_asked, 1, memory_order_release);
        wake_thread(worker);
    }
}

static int worker_wait_flush(EsSinkWorker *worker, int64_t deadline_ns) {
    // posts of requests given up earlier may still be counted, so a post is not yet an answer
    while (!worker->is_blocked && !is_flush_answered(worker)) {
        worker->is_blocked = !wait_for_progress(worker, deadline_ns);
    }
    return !worker->is_blocked;
}

static void worker_ask_stop(EsSinkWorker *worker) {
    atomic_store_explicit(&worker->is_stopping, 1, memory_order_release);
    wake_thread(worker);
}

static void worker_stop(EsSinkWorker *worker, int64_t deadline_ns, EsSinkHealth *health,
                        int64_t n_missed_by_type[ES_EVENT_COUNT]) {
    int is_ended = 0;
    do {
        is_ended = atomic_load_explicit(&worker->is_ended, memory_order_acquire);
    } while (!is_ended && wait_for_progress(worker, deadline_ns));
    if (is_ended) {
        pthread_join(worker->thread, NULL);
        worker_health(worker, health, n_missed_by_type);
    } else {
        atomic_store_explicit(&worker->is_abandoned, 1, memory_order_relaxed);
        worker_health(worker, health, n_missed_by_type);
        health->is_blocked = 1;
        for (int type = 0; type < ES_EVENT_COUNT; type++) {
            int64_t n = atomic_load(&worker->n_outstanding[type]);
            health->n_lost += n;
            n_missed_by_type[type] += n;
        }
        pthread_detach(worker->thread);
    }
    release(worker);
}

static void worker_health(const EsSinkWorker *worker, EsSinkHealth *health,
                          int64_t n_missed_by_type[ES_EVENT_COUNT]) {
    *health = (EsSinkHealth){
        .name = worker->sink.name,
        .n_written = atomic_load(&worker->n_written),
        .n_dropped = atomic_load(&worker->n_dropped),
        .n_lost = atomic_load(&worker->n_lost),
        .n_spilled = atomic_load(&worker->n_spilled),
        .n_failures = atomic_load(&worker->n_failures),
        .busy_seconds = (double)atomic_load(&worker->busy_ns) * 1e-9,
        .is_blocked = worker->is_blocked && !is_flush_answered(worker),
    };
    if (atomic_load_explicit(&worker->has_failed, memory_order_acquire)) {
        memcpy(health->first_failure, worker->first_failure, sizeof health->first_failure);
    }
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        n_missed_by_type[type] += atomic_load(&worker->n_missed[type]);
    }
}

// --- the hub ---

#define ESCALATION_TICKS 5

struct EsHub {
    EsHubOptions options;
    char *spill_folder;                      // owned; options.spill_folder points here
    EsSinkWorker *workers[ES_HUB_MAX_SINKS]; // owned with the sinks' threads
    _Atomic int n_workers;                   // stored after the worker, so that emitting may go on
    _Atomic int64_t last_sequence;
    _Atomic int n_escalated; // ticks left
};

EsHubOptions es_hub_defaults(void) {
    return (EsHubOptions){.level = ES_LEVEL_NORMAL,
                          .stride = 10,
                          .queue_packets = 1000,
                          .queue_bytes = (size_t)16 << 20,
                          .spill_folder = NULL,
                          .spill_bytes = (size_t)64 << 20,
                          .close_seconds = 10};
}

// --- life ---

static EsStatus check_options(const EsHubOptions *options) {
    if ((unsigned)options->level > ES_LEVEL_DEBUG) {
        return ES_FAIL(ARGUMENT, "telemetry level %d is outside 0..%d", (int)options->level,
                       (int)ES_LEVEL_DEBUG);
    }
    if (options->stride < 1) {
        return ES_FAIL(ARGUMENT, "telemetry stride %lld: expected at least 1",
                       (long long)options->stride);
    }
    if (!(options->close_seconds >= 0)) {
        return ES_FAIL(ARGUMENT, "telemetry close_seconds %g: expected 0 or more",
                       options->close_seconds);
    }
    return ES_STATUS_OK;
}

EsStatus es_hub_create(const EsHubOptions *options, EsHub **hub_out) {
    *hub_out = NULL;
    ES_TRY(check_options(options));
    EsHub *hub = NULL;
    ES_TRY(es_allocate(sizeof *hub, (void **)&hub));
    hub->options = *options;
    if (options->spill_folder != NULL) {
        size_t bytes = strlen(options->spill_folder) + 1;
        EsStatus status = es_allocate(bytes, (void **)&hub->spill_folder);
        if (status != ES_STATUS_OK) {
            es_release(hub);
            return status;
        }
        memcpy(hub->spill_folder, options->spill_folder, bytes);
        hub->options.spill_folder = hub->spill_folder;
    }
    *hub_out = hub;
    return ES_STATUS_OK;
}

static EsStatus check_name(const EsHub *hub, const char *name) {
    if (hub->n_workers == ES_HUB_MAX_SINKS) {
        return ES_FAIL(ARGUMENT, "cannot add sink %s: a hub has at most %d", name,
                       ES_HUB_MAX_SINKS);
    }
    for (int i = 0; i < hub->n_workers; i++) {
        // the name is also that of the spill file
        if (strcmp(worker_name(hub->workers[i]), name) == 0) {
            return ES_FAIL(ARGUMENT, "cannot add sink %s: the hub has one of that name", name);
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_hub_add_sink(EsHub *hub, const EsSink *sink) {
    EsStatus status = check_name(hub, sink->name);
    if (status != ES_STATUS_OK) {
        sink->close(sink->state);
        return status;
    }
    int n_workers = hub->n_workers;
    ES_TRY(worker_start(sink, &hub->options, &hub->workers[n_workers]));
    atomic_store_explicit(&hub->n_workers, n_workers + 1, memory_order_release);
    return ES_STATUS_OK;
}

// --- emitting ---

int es_hub_wants(const EsHub *hub, EsEventType type, int64_t step) {
    if (hub == NULL || hub->options.level == ES_LEVEL_OFF) {
        return 0;
    }
    if (atomic_load_explicit(&hub->n_escalated, memory_order_relaxed) > 0) {
        return 1;
    }
    const EsEventSchema *schema = es_event_schema(type);
    if (schema->level > hub->options.level) {
        return 0;
    }
    // events of a whole round have no step to be paced by
    return schema->pace == ES_PACE_ALWAYS || step < 0 || step % hub->options.stride == 0;
}

static int64_t read_unix_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void es_hub_emit(EsHub *hub, EsEventType type, EsEventTime time, const void *rows, int64_t n_rows) {
    if (n_rows < 1 || !es_hub_wants(hub, type, time.step)) {
        return;
    }
    EsPacketHeader header = {.unix_us = read_unix_us(), .round = time.round, .step = time.step};
    header.sequence = atomic_fetch_add_explicit(&hub->last_sequence, 1, memory_order_relaxed) + 1;
    size_t packet_bytes = es_packet_bytes(type, rows, n_rows);
    int n_workers = atomic_load_explicit(&hub->n_workers, memory_order_acquire);
    for (int i = 0; i < n_workers; i++) {
        worker_offer(hub->workers[i], type, rows, n_rows, &header, packet_bytes);
    }
}

void es_hub_escalate(EsHub *hub) {
    if (hub != NULL) {
        atomic_store_explicit(&hub->n_escalated, ESCALATION_TICKS, memory_order_relaxed);
    }
}

static void report_refusals(EsHub *hub) {
    for (int i = 0; i < hub->n_workers; i++) {
        worker_log_refusals(hub->workers[i]);
    }
}

void es_hub_tick(EsHub *hub) {
    if (hub == NULL) {
        return;
    }
    report_refusals(hub);
    if (atomic_load_explicit(&hub->n_escalated, memory_order_relaxed) > 0) {
        atomic_fetch_sub_explicit(&hub->n_escalated, 1, memory_order_relaxed);
    }
}

// --- waiting and ending ---

static int64_t deadline_after(double seconds) {
    // a year stands for "as long as it takes"; !(>= 0) also catches NaN
    double bounded = !(seconds >= 0) ? 0 : fmin(seconds, 365.0 * 86400);
    return es_clock_ns() + (int64_t)(bounded * 1e9);
}

int es_hub_flush(EsHub *hub, double seconds) {
    if (hub == NULL) {
        return 1;
    }
    report_refusals(hub);
    int64_t deadline_ns = deadline_after(seconds);
    for (int i = 0; i < hub->n_workers; i++) {
        worker_ask_flush(hub->workers[i]);
    }
    int is_flushed = 1;
    for (int i = 0; i < hub->n_workers; i++) {
        is_flushed &= worker_wait_flush(hub->workers[i], deadline_ns);
    }
    return is_flushed;
}

void es_hub_health(const EsHub *hub, EsHubHealth *health) {
    *health = (EsHubHealth){0};
    health->n_sinks = hub != NULL ? hub->n_workers : 0;
    for (int i = 0; i < health->n_sinks; i++) {
        worker_health(hub->workers[i], &health->sinks[i], health->n_dropped_by_type);
    }
}

int es_hub_health_has_losses(const EsHubHealth *health) {
    for (int i = 0; i < health->n_sinks; i++) {
        if (health->sinks[i].n_lost > 0) {
            return 1;
        }
    }
    return 0;
}

void es_hub_close(EsHub *hub, EsHubHealth *health_out) {
    EsHubHealth health = {0};
    if (hub != NULL) {
        report_refusals(hub);
        int64_t deadline_ns = deadline_after(hub->options.close_seconds);
        health.n_sinks = hub->n_workers;
        for (int i = 0; i < health.n_sinks; i++) {
            worker_ask_stop(hub->workers[i]);
        }
        for (int i = 0; i < health.n_sinks; i++) {
            EsSinkHealth *sink = &health.sinks[i];
            worker_stop(hub->workers[i], deadline_ns, sink, health.n_dropped_by_type);
            if (sink->is_blocked) {
                es_log(ES_LOG_WARNING,
                       "telemetry: sink %s did not end within %g s and was left behind; it misses "
                       "%lld events",
                       sink->name, hub->options.close_seconds,
                       (long long)sink->n_dropped + (long long)sink->n_lost);
            }
        }
        es_release(hub->spill_folder);
        es_release(hub);
    }
    if (health_out != NULL) {
        *health_out = health;
    }
}
