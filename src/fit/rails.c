// The assessment of epochs: what fails one, and what a failure or a success changes.
#include "fit/rails.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// --- the circuit breaker ---

static void set_state(EsBreaker *breaker, EsBreakerState state) {
    breaker->state = state;
    breaker->n_failures = breaker->n_successes = 0;
}

int es_breaker_allows(EsBreaker *breaker, const EsRailsSettings *settings, int64_t now_ns) {
    // a clock that went back: its time begins anew, instead of lasting until then
    breaker->opened_ns = ES_MIN(breaker->opened_ns, now_ns);
    if (breaker->state == ES_BREAKER_OPEN &&
        (double)(now_ns - breaker->opened_ns) >= (double)settings->breaker_seconds * 1e9) {
        set_state(breaker, ES_BREAKER_HALF_OPEN);
    }
    return breaker->state != ES_BREAKER_OPEN;
}

// A failure while it is open does not keep it open for longer: it would never close.
void es_breaker_fail(EsBreaker *breaker, const EsRailsSettings *settings, int64_t now_ns) {
    breaker->n_failures++;
    if (breaker->state == ES_BREAKER_HALF_OPEN ||
        (breaker->state == ES_BREAKER_CLOSED &&
         breaker->n_failures >= settings->breaker_failures)) {
        int n_failures = breaker->n_failures;
        set_state(breaker, ES_BREAKER_OPEN);
        breaker->n_failures = n_failures;
        breaker->opened_ns = now_ns;
    }
}

void es_breaker_succeed(EsBreaker *breaker, const EsRailsSettings *settings) {
    if (breaker->state == ES_BREAKER_CLOSED) {
        breaker->n_failures = 0;
    } else if (breaker->state == ES_BREAKER_HALF_OPEN &&
               ++breaker->n_successes >= settings->breaker_successes) {
        set_state(breaker, ES_BREAKER_CLOSED);
    }
}

// --- events ---

const char *es_rails_reason_name(EsRailsReason reason) {
    static const char *const names[] = {
#define X(NAME, name) #name,
        ES_RAILS_REASON_LIST(X)
#undef X
    };
    return names[reason];
}

__attribute__((format(printf, 4, 5))) static void
note(EsRails *rails, const char *name, const char *level, const char *attributes, ...) {
    ES_ASSERT(rails->n_events < ES_RAILS_EVENTS_MAX); // an epoch has far fewer
    EsRailsEvent *event = &rails->events[rails->n_events++];
    va_list values;
    event->name = name;
    event->level = level;
    va_start(values, attributes);
    vsnprintf(event->attributes, sizeof event->attributes, attributes, values);
    va_end(values);
}

// Text as it may stand between the quotes of JSON; what does not fit is cut.
static const char *quote(const char *text, char out[256]) {
    size_t n = 0;
    for (; *text != '\0' && n < 248; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            out[n++] = '\\';
        }
        out[n++] = byte < 32 || byte > 126 ? '?' : (char)byte;
    }
    out[n] = '\0';
    return out;
}

// --- conservative mode ---

static void enter_conservative(EsRails *rails, EsRailsReason reason) {
    if (!rails->is_conservative) {
        rails->is_conservative = 1;
        note(rails, "tolaria.conservative_mode_entered", "warning", "{\"reason\": \"%s\"}",
             es_rails_reason_name(reason));
    }
}

void es_rails_begin(EsRails *rails, const EsRailsSettings *settings) {
    memset(rails, 0, sizeof *rails);
    rails->settings = *settings;
    set_state(&rails->breaker, ES_BREAKER_CLOSED);
    rails->level = ES_EMERGENCY_NOTICE;
}

void es_rails_begin_epoch(EsRails *rails) {
    rails->n_events = 0;
    rails->fault = ES_RAILS_NONE;
}

int es_rails_asks_controller(const EsRails *rails) {
    return !rails->is_conservative && !rails->is_spent;
}

void es_rails_controller_answered(EsRails *rails, double ms) { rails->controller_ms = ms; }

void es_rails_controller_timed_out(EsRails *rails, double deadline_ms) {
    rails->fault = ES_RAILS_TAMIYO_TIMEOUT;
    rails->controller_ms = 0;
    rails->counts.tamiyo_timeouts++;
    note(rails, "tolaria.tamiyo_timeout", "warning",
         "{\"error\": \"no answer within %g ms\", \"deadline_ms\": %g}", deadline_ms, deadline_ms);
    enter_conservative(rails, rails->fault);
}

void es_rails_controller_failed(EsRails *rails, const char *detail) {
    char quoted[256];
    rails->fault = ES_RAILS_TAMIYO_ERROR;
    note(rails, "tolaria.tamiyo_error", "warning", "{\"error\": \"%s\"}", quote(detail, quoted));
    enter_conservative(rails, rails->fault);
}

void es_rails_controller_spent(EsRails *rails, int n_threads) {
    if (!rails->is_spent) {
        rails->is_spent = 1;
        note(rails, "tolaria.tamiyo_abandoned", "critical", "{\"threads\": %d}", n_threads);
    }
}

// --- seeds ---

void es_rails_seeds_prepared(EsRails *rails, double ms) { rails->seeds_ms = ms; }

void es_rails_seeds_timed_out(EsRails *rails, double deadline_ms, int n_operations) {
    rails->fault = ES_RAILS_KASMINA_TIMEOUT;
    rails->seeds_ms = 0;
    rails->counts.kasmina_timeouts++;
    note(rails, "tolaria.kasmina_timeout", "warning",
         "{\"error\": \"not ready within %g ms\", \"deadline_ms\": %g, \"operations\": %d}",
         deadline_ms, deadline_ms, n_operations);
    enter_conservative(rails, rails->fault);
}

void es_rails_prefetch_failed(EsRails *rails, int64_t n_failed, int64_t n_timed_out) {
    if (n_failed > 0) {
        note(rails, "prefetch_error", "warning", "{\"requests\": %lld}", (long long)n_failed);
    }
    if (n_timed_out > 0) {
        note(rails, "prefetch_timeout", "warning", "{\"requests\": %lld}", (long long)n_timed_out);
    }
}

void es_rails_seeds_failed(EsRails *rails, const char *detail, int n_operations) {
    char quoted[256];
    rails->fault = ES_RAILS_KASMINA_ERROR;
    rails->seeds_ms = 0;
    note(rails, "tolaria.kasmina_error", "warning", "{\"error\": \"%s\", \"operations\": %d}",
         quote(detail, quoted), n_operations);
}

// --- assessment ---

static int has_exploded(const EsRailsSettings *settings, const EsRailsEpoch *epoch) {
    return settings->gradient_limit > 0 && epoch->gradient_norm > (double)settings->gradient_limit;
}

static EsRailsReason find_reason(EsRails *rails, const EsRailsEpoch *epoch, int64_t now_ns) {
    const EsRailsSettings *settings = &rails->settings;
    EsRailsReason reason = ES_RAILS_NONE;
    if (settings->hook_budget_ms > 0 && epoch->hook_ms > (double)settings->hook_budget_ms) {
        note(rails, "tolaria.hook_budget_exceeded", "warning", "{\"latency_ms\": %.3f}",
             epoch->hook_ms);
        reason = ES_RAILS_HOOK_BUDGET;
    }
    if (rails->fault != ES_RAILS_NONE) {
        reason = rails->fault;
    }
    if (settings->epoch_budget_ms > 0 && epoch->latency_ms > (double)settings->epoch_budget_ms) {
        note(rails, "tolaria.epoch_budget_exceeded", "warning", "{\"latency_ms\": %.3f}",
             epoch->latency_ms);
        reason = ES_RAILS_EPOCH_BUDGET;
    }
    if (has_exploded(settings, epoch)) {
        char norm[32] = "null"; // JSON has no infinity
        if (isfinite(epoch->gradient_norm)) {
            snprintf(norm, sizeof norm, "%.6g", epoch->gradient_norm);
        }
        note(rails, "esper.rails.gradient_exploded", "error", "{\"norm\": %s, \"limit\": %g}", norm,
             (double)settings->gradient_limit);
        reason = ES_RAILS_GRADIENT;
    }
    if (epoch->has_diverged) {
        note(rails, "esper.rails.loss_not_finite", "error", "%s", "{}");
        reason = ES_RAILS_NO_LOSS;
    }
    return es_breaker_allows(&rails->breaker, settings, now_ns) ? reason : ES_RAILS_BREAKER_OPEN;
}

// The level only rises until an epoch succeeds.
static void escalate(EsRails *rails, EsEmergencyLevel level, EsRailsReason reason) {
    if (level <= rails->level) {
        return;
    }
    rails->level = level;
    if (level == ES_EMERGENCY_HALT) {
        rails->counts.halts++;
        note(rails, "tolaria.emergency.halt", "critical",
             "{\"level\": %d, \"reason\": \"%s\", \"streak\": %d}", (int)level,
             es_rails_reason_name(reason), rails->n_failed_in_row);
    } else {
        note(rails, "tolaria.emergency.escalated", "info", "{\"level\": %d, \"reason\": \"%s\"}",
             (int)level, es_rails_reason_name(reason));
    }
}

static void fail(EsRails *rails, EsRailsReason reason, int64_t now_ns) {
    EsBreakerState before = rails->breaker.state;
    rails->counts.failed++;
    rails->n_failed_in_row++;
    es_breaker_fail(&rails->breaker, &rails->settings, now_ns);
    if (rails->breaker.state == ES_BREAKER_OPEN && before != ES_BREAKER_OPEN) {
        note(rails, "tolaria.breaker_opened", "warning", "{\"failures\": %d}",
             rails->breaker.n_failures);
    }
    enter_conservative(rails, reason);
    escalate(rails,
             reason == ES_RAILS_BREAKER_OPEN ? ES_EMERGENCY_CONSERVATIVE : ES_EMERGENCY_ELEVATED,
             reason);
    if (rails->settings.halt_failures > 0 &&
        rails->n_failed_in_row >= rails->settings.halt_failures) {
        escalate(rails, ES_EMERGENCY_HALT, reason);
    }
}

static void succeed(EsRails *rails) {
    es_breaker_succeed(&rails->breaker, &rails->settings);
    rails->n_failed_in_row = 0;
    rails->level = ES_EMERGENCY_NOTICE;
    if (rails->is_conservative) {
        rails->is_conservative = 0;
        note(rails, "tolaria.conservative_mode_cleared", "info", "%s", "{}");
    }
}

EsRailsVerdict es_rails_assess(EsRails *rails, const EsRailsEpoch *epoch, int64_t now_ns) {
    EsRailsReason reason = find_reason(rails, epoch, now_ns);
    rails->counts.epochs++;
    if (reason == ES_RAILS_NONE) {
        succeed(rails);
    } else {
        fail(rails, reason, now_ns);
    }
    int is_wrong = epoch->has_diverged || has_exploded(&rails->settings, epoch);
    return (EsRailsVerdict){.reason = reason,
                            .must_halt = rails->level == ES_EMERGENCY_HALT,
                            .must_roll_back = rails->settings.rollback && is_wrong};
}

void es_rails_dispatch_failed(EsRails *rails, int is_late, const char *detail) {
    char quoted[256];
    rails->counts.dispatch_failures++;
    note(rails, is_late ? "tolaria.emergency.dispatch_timeout" : "tolaria.emergency.dispatch_error",
         "critical", "{\"level\": %d, \"error\": \"%s\"}", (int)rails->level,
         quote(detail, quoted));
}

// --- rollback ---

void es_rails_noted_snapshot(EsRails *rails) { rails->counts.snapshots++; }

void es_rails_rolled_back(EsRails *rails, int from_memory, double ms) {
    rails->counts.fast_hits += from_memory;
    rails->counts.fast_misses += !from_memory;
    rails->restore_ms = ms;
    note(rails, "tolaria.rollback.restored", "warning", "{\"tier\": \"%s\", \"latency_ms\": %.3f}",
         from_memory ? "fast" : "full", ms);
}

void es_rails_restore_failed(EsRails *rails, const char *stage, const char *detail, double ms) {
    char quoted[256];
    rails->counts.fast_misses++;
    rails->counts.restore_failures++;
    rails->restore_ms = ms;
    note(rails, "tolaria.rollback.restore_failed", "critical",
         "{\"reason\": \"%s\", \"detail\": \"%s\"}", stage, quote(detail, quoted));
}

void es_rails_restore_absent(EsRails *rails) { rails->counts.fast_misses++; }

void es_rails_restore_late(EsRails *rails, EsRailsReason reason, double deadline_ms) {
    rails->counts.fast_misses++;
    rails->counts.restore_deadlines++;
    rails->restore_ms = deadline_ms;
    note(rails, "tolaria.rollback.restore_failed", "critical",
         "{\"reason\": \"deadline_exceeded\", \"detail\": \"no checkpoint within %g ms\"}",
         deadline_ms);
    escalate(rails, ES_EMERGENCY_HALT, reason);
}
