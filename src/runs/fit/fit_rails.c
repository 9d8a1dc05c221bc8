// Rails as part of a run: metrics and events by the names of the source documents, and their state
// in checkpoints.
#include "runs/fit/fit_rails.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "esper/log.h"

// the reason of a level that an earlier session has raised: checkpoints do not keep that session's
#define RESUMED "resumed"

EsStatus es_fit_rails_create(const EsRailsSettings *settings, EsFitRails **rails_out) {
    EsFitRails *rails = NULL;
    *rails_out = NULL;
    ES_TRY(es_allocate(sizeof *rails, (void **)&rails));
    es_rails_begin(&rails->rails, settings);
    int has_deadline = settings->controller_deadline_ms > 0 || settings->seed_deadline_ms > 0;
    EsStatus status = has_deadline ? es_deadline_create(&rails->deadline) : ES_STATUS_OK;
    if (status != ES_STATUS_OK) {
        es_fit_rails_destroy(rails);
        return status;
    }
    *rails_out = rails;
    return ES_STATUS_OK;
}

void es_fit_rails_destroy(EsFitRails *rails) {
    if (rails != NULL) {
        es_deadline_destroy(rails->deadline);
        es_emergency_signal_destroy(rails->signal);
        es_emergency_dispatch_destroy(rails->dispatch);
        es_release(rails);
    }
}

// Notes the failure of a message; one over the limit of a minute is counted alone.
static void note_dispatch(EsFitRails *fit, EsDispatchResult result) {
    char late[64];
    snprintf(late, sizeof late, "not written within %g ms",
             (double)fit->rails.settings.emergency_timeout_ms);
    if (result == ES_DISPATCH_LATE || result == ES_DISPATCH_FAILED) {
        es_rails_dispatch_failed(&fit->rails, result == ES_DISPATCH_LATE,
                                 result == ES_DISPATCH_LATE ? late : es_status_detail());
    }
}

static EsStatus open_dispatch(EsFitRails *rails, const char *run_folder, int64_t epoch) {
    const EsRailsSettings *settings = &rails->rails.settings;
    const EsEmergencyDispatchOptions options = {.path = settings->emergency_file,
                                                .run = run_folder,
                                                .timeout_ms =
                                                    (double)settings->emergency_timeout_ms,
                                                .per_minute = settings->emergency_per_minute};
    if (settings->emergency_file[0] == '\0' || rails->dispatch != NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_emergency_dispatch_create(&options, &rails->dispatch));
    if (rails->rails.level > ES_EMERGENCY_NOTICE) {
        const EsEmergency emergency = {(int)rails->rails.level, RESUMED, epoch};
        note_dispatch(rails,
                      es_emergency_dispatch_send(rails->dispatch, &emergency, es_clock_ns()));
    }
    return ES_STATUS_OK;
}

EsStatus es_fit_rails_open_signal(EsFitRails *rails, const char *run_folder, int64_t epoch) {
    if (rails->signal == NULL && !rails->has_no_signal) {
        if (es_emergency_signal_create(run_folder, &rails->signal) != ES_STATUS_OK) {
            rails->has_no_signal = 1;
            es_log(ES_LOG_WARNING, "no emergency signal: %s", es_status_detail());
        } else if (rails->rails.level > ES_EMERGENCY_NOTICE) {
            es_emergency_signal_raise(rails->signal, (int)rails->rails.level, RESUMED);
        }
    }
    return open_dispatch(rails, run_folder, epoch);
}

// Raised with the level, taken down by a good epoch.
static void set_signal(EsFitRails *fit, EsEmergencyLevel before, int has_missed_deadline,
                       EsRailsReason reason) {
    EsEmergencyLevel level = fit->rails.level;
    if (fit->signal == NULL) {
        return;
    }
    if (has_missed_deadline) {
        es_emergency_signal_miss_deadline(fit->signal);
    }
    if (level == before) {
        return;
    }
    if (level > ES_EMERGENCY_NOTICE) {
        es_emergency_signal_raise(fit->signal, (int)level, es_rails_reason_name(reason));
    } else {
        es_emergency_signal_clear(fit->signal);
    }
}

// Messages that failed before are tried again, then the one of this epoch is sent.
static void dispatch(EsFitRails *fit, EsEmergencyLevel before, EsRailsReason reason,
                     int64_t epoch) {
    const EsEmergency emergency = {(int)fit->rails.level, es_rails_reason_name(reason), epoch};
    if (fit->dispatch == NULL) {
        return;
    }
    note_dispatch(fit, es_emergency_dispatch_retry(fit->dispatch, es_clock_ns()));
    if (fit->rails.level > before) {
        note_dispatch(fit, es_emergency_dispatch_send(fit->dispatch, &emergency, es_clock_ns()));
    }
}

// --- events and metrics ---

static void emit_events(const EsRails *rails, EsHub *hub, EsEventTime time) {
    EsTrainerEventEvent rows[ES_RAILS_EVENTS_MAX];
    for (int i = 0; i < rails->n_events; i++) {
        const EsRailsEvent *event = &rails->events[i];
        rows[i] = (EsTrainerEventEvent){event->name, event->level, event->attributes};
    }
    if (rails->n_events > 0) {
        es_emit_trainer_event(hub, time, rows, rails->n_events);
    }
}

static void emit_dispatch(const EsFitRails *fit, EsHub *hub, EsEventTime time) {
    if (fit->dispatch == NULL) {
        return;
    }
    EsDispatchCounts counts = es_emergency_dispatch_counts(fit->dispatch);
    const EsMetricEvent rows[] = {
        es_metric("tolaria.emergency.broadcasts_total", (double)counts.sent),
        es_metric("tolaria.emergency.broadcast_failures_total", (double)counts.failed),
        es_metric("tolaria.emergency.last_broadcast_latency_ms", counts.last_ms),
        es_metric("tolaria.emergency.bypass_applied_total", (double)counts.applied),
        es_metric("tolaria.emergency.bypass_dropped_total", (double)counts.dropped)};
    es_emit_metric(hub, time, rows, ES_COUNT_OF(rows));
}

static void emit_metrics(const EsFitRails *fit, EsHub *hub, EsEventTime time,
                         const EsFitEpoch *epoch) {
    const EsRails *rails = &fit->rails;
    EsDeadlineCounts calls = {0};
    if (fit->deadline != NULL) {
        calls = es_deadline_counts(fit->deadline);
    }
    const EsPrefetchCounts *ahead = &fit->prefetch;
    const EsMetricEvent rows[] = {
        es_metric("tolaria.training.loss", epoch->loss),
        es_metric("tolaria.training.accuracy", epoch->train_accuracy / 100),
        es_metric("tolaria.training.latency_ms", epoch->latency_ms),
        es_metric("tolaria.seeds.active", (double)epoch->n_seeds),
        es_metric("tolaria.epoch_hook.latency_ms", epoch->hook_ms),
        es_metric("tolaria.hook.latency_ms", epoch->hook_ms),
        es_metric("tolaria.breaker.state", rails->breaker.state),
        es_metric("tolaria.mode.conservative", rails->is_conservative || rails->is_spent),
        es_metric("tolaria.epochs.total", (double)rails->counts.epochs),
        es_metric("tolaria.epochs.failed", (double)rails->counts.failed),
        es_metric("tolaria.timeout.tamiyo_total", (double)rails->counts.tamiyo_timeouts),
        es_metric("tolaria.timeout.tamiyo_last_ms", rails->controller_ms),
        es_metric("tolaria.timeout.kasmina_total", (double)rails->counts.kasmina_timeouts),
        es_metric("tolaria.timeout.kasmina_last_ms", rails->seeds_ms),
        es_metric("tolaria.emergency.halts_total", (double)rails->counts.halts),
        es_metric("tolaria.emergency.halt", rails->level == ES_EMERGENCY_HALT),
        es_metric("tolaria.emergency.level", rails->level),
        es_metric("kasmina.seeds.active", (double)epoch->n_seeds),
        es_metric("tamiyo.inference.latency_ms", rails->controller_ms),
        es_metric("tolaria.rollback.fast_size_bytes", (double)fit->snapshot_bytes),
        es_metric("tolaria.rollback.snapshots_total", (double)rails->counts.snapshots),
        es_metric("tolaria.rollback.fast_hits_total", (double)rails->counts.fast_hits),
        es_metric("tolaria.rollback.fast_misses_total", (double)rails->counts.fast_misses),
        es_metric("tolaria.rollback.failures_total", (double)rails->counts.restore_failures),
        es_metric("tolaria.rollback.deadline_exceeded_total",
                  (double)rails->counts.restore_deadlines),
        es_metric("tolaria.rollback.restore_latency_ms", rails->restore_ms),
        es_metric("kasmina.prefetch.inflight", (double)ahead->in_flight),
        es_metric("kasmina.prefetch.requests_total", (double)ahead->requested),
        es_metric("kasmina.prefetch.ready_total",
                  (double)(ahead->used + ahead->stale + ahead->ready)),
        es_metric("kasmina.prefetch.used_total", (double)ahead->used),
        es_metric("kasmina.prefetch.stale_total", (double)ahead->stale),
        es_metric("kasmina.prefetch.error_total", (double)ahead->failed),
        es_metric("kasmina.prefetch.timeout_total", (double)ahead->timed_out),
        es_metric("kasmina.prefetch.canceled_total", (double)ahead->canceled),
        es_metric("kasmina.prefetch.latency_ms",
                  ahead->made > 0 ? ahead->made_ms / (double)ahead->made : 0),
        es_metric("kasmina.prefetch.last_latency_ms", ahead->last_ms),
        es_metric("esper.rails.threads_abandoned", (double)calls.abandoned)};
    es_emit_metric(hub, time, rows, ES_COUNT_OF(rows));
}

EsRailsVerdict es_fit_rails_end_epoch(EsFitRails *rails, EsHub *hub, int64_t round,
                                      const EsFitEpoch *epoch, const EsFitUndo *undo) {
    const EsRailsEpoch measured = {.latency_ms = epoch->latency_ms,
                                   .hook_ms = epoch->hook_ms,
                                   .has_diverged = epoch->has_diverged,
                                   .gradient_norm = epoch->gradient_norm};
    const EsEventTime time = {.round = round, .step = -1};
    EsEmergencyLevel before = rails->rails.level;
    int64_t n_deadlines = rails->rails.counts.restore_deadlines;
    EsRailsVerdict verdict = es_rails_assess(&rails->rails, &measured, es_clock_ns());
    if (verdict.must_roll_back) {
        undo->roll_back(undo->context, &rails->rails, verdict.reason);
        verdict.must_halt = rails->rails.level == ES_EMERGENCY_HALT;
    }
    set_signal(rails, before, rails->rails.counts.restore_deadlines > n_deadlines, verdict.reason);
    dispatch(rails, before, verdict.reason, round);
    emit_events(&rails->rails, hub, time);
    emit_metrics(rails, hub, time, epoch);
    emit_dispatch(rails, hub, time);
    return verdict;
}

EsStatus es_fit_rails_end(EsFitRails *rails, EsHub *hub, int64_t round, EsStatus status) {
    const EsEventTime time = {.round = round, .step = -1};
    char detail[1024];
    if (rails->dispatch == NULL || es_emergency_dispatch_waiting(rails->dispatch) == 0) {
        return status;
    }
    snprintf(detail, sizeof detail, "%s", es_status_detail());
    es_rails_begin_epoch(&rails->rails); // its events are emitted
    note_dispatch(rails, es_emergency_dispatch_retry(rails->dispatch, es_clock_ns()));
    emit_events(&rails->rails, hub, time);
    emit_dispatch(rails, hub, time);
    return es_status_set(status, __FILE__, __LINE__, "%s", detail);
}

// --- state ---

// A number of the state by its name in checkpoints, with its range.
typedef struct Field {
    const char *name;
    int64_t value, least, most;
} Field;

enum {
    EPOCHS,
    FAILED,
    FAILED_IN_ROW,
    TIMEOUTS,
    HALTS,
    BREAKER,
    BREAKER_FAILURES,
    BREAKER_SUCCESSES,
    CONSERVATIVE,
    LEVEL,
    FAST_HITS,
    FAST_MISSES,
    RESTORE_FAILURES,
    RESTORE_DEADLINES,
    SEED_TIMEOUTS,
    N_FIELDS
};

static void list_fields(const EsRails *rails, Field fields[N_FIELDS]) {
    const int64_t most = INT32_MAX;
    fields[EPOCHS] = (Field){"rails_epochs", rails->counts.epochs, 0, most};
    fields[FAILED] = (Field){"rails_failed", rails->counts.failed, 0, most};
    fields[FAILED_IN_ROW] = (Field){"rails_failed_in_row", rails->n_failed_in_row, 0, most};
    fields[TIMEOUTS] = (Field){"rails_timeouts", rails->counts.tamiyo_timeouts, 0, most};
    fields[HALTS] = (Field){"rails_halts", rails->counts.halts, 0, most};
    fields[BREAKER] =
        (Field){"rails_breaker", rails->breaker.state, ES_BREAKER_CLOSED, ES_BREAKER_HALF_OPEN};
    fields[BREAKER_FAILURES] =
        (Field){"rails_breaker_failures", rails->breaker.n_failures, 0, most};
    fields[BREAKER_SUCCESSES] =
        (Field){"rails_breaker_successes", rails->breaker.n_successes, 0, most};
    fields[CONSERVATIVE] = (Field){"rails_conservative", rails->is_conservative, 0, 1};
    fields[LEVEL] = (Field){"rails_level", rails->level, ES_EMERGENCY_NOTICE, ES_EMERGENCY_HALT};
    fields[FAST_HITS] = (Field){"rails_fast_hits", rails->counts.fast_hits, 0, most};
    fields[FAST_MISSES] = (Field){"rails_fast_misses", rails->counts.fast_misses, 0, most};
    fields[RESTORE_FAILURES] =
        (Field){"rails_restore_failures", rails->counts.restore_failures, 0, most};
    fields[RESTORE_DEADLINES] =
        (Field){"rails_restore_deadlines", rails->counts.restore_deadlines, 0, most};
    fields[SEED_TIMEOUTS] = (Field){"rails_seed_timeouts", rails->counts.kasmina_timeouts, 0, most};
}

EsStatus es_fit_rails_save(const EsFitRails *rails, EsCheckpoint *checkpoint) {
    Field fields[N_FIELDS];
    list_fields(&rails->rails, fields);
    for (int i = 0; i < N_FIELDS; i++) {
        ES_TRY(es_checkpoint_put_int(checkpoint, fields[i].name, fields[i].value));
    }
    return ES_STATUS_OK;
}

EsStatus es_fit_rails_load(EsFitRails *fit, const EsCheckpoint *checkpoint) {
    EsRails *rails = &fit->rails;
    Field fields[N_FIELDS];
    char path[ES_RUN_PATH_BYTES];
    if (!es_checkpoint_has(checkpoint, "rails_epochs")) {
        return ES_STATUS_OK;
    }
    es_checkpoint_path(checkpoint, "rank0.json", path);
    list_fields(rails, fields);
    for (int i = 0; i < N_FIELDS; i++) {
        EsFileField field = {path, fields[i].name, ES_NO_INDEX};
        if (i >= FAST_HITS && !es_checkpoint_has(checkpoint, fields[i].name)) {
            continue; // of a program that did not count it yet
        }
        ES_TRY(es_checkpoint_int(checkpoint, fields[i].name, &fields[i].value));
        ES_TRY(es_check_integer(field, fields[i].value, fields[i].least, fields[i].most));
    }
    rails->counts = (EsRailsCounts){.epochs = fields[EPOCHS].value,
                                    .failed = fields[FAILED].value,
                                    .tamiyo_timeouts = fields[TIMEOUTS].value,
                                    .halts = fields[HALTS].value,
                                    .fast_hits = fields[FAST_HITS].value,
                                    .fast_misses = fields[FAST_MISSES].value,
                                    .restore_failures = fields[RESTORE_FAILURES].value,
                                    .restore_deadlines = fields[RESTORE_DEADLINES].value,
                                    .kasmina_timeouts = fields[SEED_TIMEOUTS].value};
    rails->n_failed_in_row = (int)fields[FAILED_IN_ROW].value;
    rails->breaker = (EsBreaker){.state = (EsBreakerState)fields[BREAKER].value,
                                 .n_failures = (int)fields[BREAKER_FAILURES].value,
                                 .n_successes = (int)fields[BREAKER_SUCCESSES].value,
                                 .opened_ns = es_clock_ns()};
    rails->is_conservative = (int)fields[CONSERVATIVE].value;
    rails->level = (EsEmergencyLevel)fields[LEVEL].value;
    if (rails->level == ES_EMERGENCY_HALT) {
        rails->level = ES_EMERGENCY_CONSERVATIVE;
        rails->n_failed_in_row = 0;
    }
    return ES_STATUS_OK;
}
