// The assessment of epochs: what fails one, and what a failure or a success changes.
#include "fit/rails.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// --- the circuit breaker ---

static void set_state(EsBreaker *breaker, EsBreakerState state) {
    breaker->state = state;
    breaker->n_failures = breaker->n_successes = 0;
}

int es_breaker_allows(EsBreaker *breaker, const EsRailsSettings *settings, int64_t now_ns) {
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

// --- assessment ---

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
    return (EsRailsVerdict){reason, rails->level == ES_EMERGENCY_HALT};
}
