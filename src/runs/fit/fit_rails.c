// Rails as part of a run: metrics and events by the names of the source documents, and their state
// in checkpoints.
#include "runs/fit/fit_rails.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "esper/log.h"

EsStatus es_fit_rails_create(const EsRailsSettings *settings, EsFitRails **rails_out) {
    EsFitRails *rails = NULL;
    *rails_out = NULL;
    ES_TRY(es_allocate(sizeof *rails, (void **)&rails));
    es_rails_begin(&rails->rails, settings);
    EsStatus status =
        settings->controller_deadline_ms > 0 ? es_deadline_create(&rails->deadline) : ES_STATUS_OK;
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
        es_release(rails);
    }
}

void es_fit_rails_open_signal(EsFitRails *rails, const char *run_folder) {
    if (rails->signal == NULL && !rails->has_no_signal &&
        es_emergency_signal_create(run_folder, &rails->signal) != ES_STATUS_OK) {
        rails->has_no_signal = 1;
        es_log(ES_LOG_WARNING, "no emergency signal: %s", es_status_detail());
    }
}

// Raised with the level, taken down by a good epoch.
static void set_signal(EsFitRails *fit, EsEmergencyLevel before, EsRailsReason reason) {
    EsEmergencyLevel level = fit->rails.level;
    if (fit->signal == NULL || level == before) {
        return;
    }
    if (level > ES_EMERGENCY_NOTICE) {
        es_emergency_signal_raise(fit->signal, (int)level, es_rails_reason_name(reason));
    } else {
        es_emergency_signal_clear(fit->signal);
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

static void emit_metrics(const EsFitRails *fit, EsHub *hub, EsEventTime time,
                         const EsFitEpoch *epoch) {
    const EsRails *rails = &fit->rails;
    EsDeadlineCounts calls = {0};
    if (fit->deadline != NULL) {
        calls = es_deadline_counts(fit->deadline);
    }
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
        es_metric("tolaria.emergency.halts_total", (double)rails->counts.halts),
        es_metric("tolaria.emergency.halt", rails->level == ES_EMERGENCY_HALT),
        es_metric("tolaria.emergency.level", rails->level),
        es_metric("kasmina.seeds.active", (double)epoch->n_seeds),
        es_metric("tamiyo.inference.latency_ms", rails->controller_ms),
        es_metric("esper.rails.threads_abandoned", (double)calls.abandoned)};
    es_emit_metric(hub, time, rows, ES_COUNT_OF(rows));
}

EsRailsVerdict es_fit_rails_end_epoch(EsFitRails *rails, EsHub *hub, int64_t round,
                                      const EsFitEpoch *epoch) {
    const EsRailsEpoch measured = {.latency_ms = epoch->latency_ms, .hook_ms = epoch->hook_ms};
    const EsEventTime time = {.round = round, .step = -1};
    EsEmergencyLevel before = rails->rails.level;
    EsRailsVerdict verdict = es_rails_assess(&rails->rails, &measured, es_clock_ns());
    set_signal(rails, before, verdict.reason);
    emit_events(&rails->rails, hub, time);
    emit_metrics(rails, hub, time, epoch);
    return verdict;
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
    SPENT,
    LEVEL,
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
    fields[SPENT] = (Field){"rails_spent", rails->is_spent, 0, 1};
    fields[LEVEL] = (Field){"rails_level", rails->level, ES_EMERGENCY_NOTICE, ES_EMERGENCY_HALT};
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
        ES_TRY(es_checkpoint_int(checkpoint, fields[i].name, &fields[i].value));
        ES_TRY(es_check_integer(field, fields[i].value, fields[i].least, fields[i].most));
    }
    rails->counts = (EsRailsCounts){.epochs = fields[EPOCHS].value,
                                    .failed = fields[FAILED].value,
                                    .tamiyo_timeouts = fields[TIMEOUTS].value,
                                    .halts = fields[HALTS].value};
    rails->n_failed_in_row = (int)fields[FAILED_IN_ROW].value;
    rails->breaker = (EsBreaker){.state = (EsBreakerState)fields[BREAKER].value,
                                 .n_failures = (int)fields[BREAKER_FAILURES].value,
                                 .n_successes = (int)fields[BREAKER_SUCCESSES].value,
                                 .opened_ns = es_clock_ns()};
    rails->is_conservative = (int)fields[CONSERVATIVE].value;
    rails->is_spent = (int)fields[SPENT].value;
    rails->level = (EsEmergencyLevel)fields[LEVEL].value;
    if (rails->level == ES_EMERGENCY_HALT) {
        rails->level = ES_EMERGENCY_CONSERVATIVE;
        rails->n_failed_in_row = 0;
    }
    return ES_STATUS_OK;
}
