// The hub: numbers events, filters them by level and stride, and offers them to the worker of every
// sink.
#include "telemetry/hub.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "esper/log.h"
#include "telemetry/sink_worker.h"

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
        if (strcmp(es_sink_worker_name(hub->workers[i]), name) == 0) {
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
    ES_TRY(es_sink_worker_start(sink, &hub->options, &hub->workers[n_workers]));
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
        es_sink_worker_offer(hub->workers[i], type, rows, n_rows, &header, packet_bytes);
    }
}

void es_hub_escalate(EsHub *hub) {
    if (hub != NULL) {
        atomic_store_explicit(&hub->n_escalated, ESCALATION_TICKS, memory_order_relaxed);
    }
}

static void report_refusals(EsHub *hub) {
    for (int i = 0; i < hub->n_workers; i++) {
        es_sink_worker_log_refusals(hub->workers[i]);
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
        es_sink_worker_ask_flush(hub->workers[i]);
    }
    int is_flushed = 1;
    for (int i = 0; i < hub->n_workers; i++) {
        is_flushed &= es_sink_worker_wait_flush(hub->workers[i], deadline_ns);
    }
    return is_flushed;
}

void es_hub_health(const EsHub *hub, EsHubHealth *health) {
    *health = (EsHubHealth){0};
    health->n_sinks = hub != NULL ? hub->n_workers : 0;
    for (int i = 0; i < health->n_sinks; i++) {
        es_sink_worker_health(hub->workers[i], &health->sinks[i], health->n_dropped_by_type);
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
            es_sink_worker_ask_stop(hub->workers[i]);
        }
        for (int i = 0; i < health.n_sinks; i++) {
            EsSinkHealth *sink = &health.sinks[i];
            es_sink_worker_stop(hub->workers[i], deadline_ns, sink, health.n_dropped_by_type);
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
