// Rails of a fit: assesses each epoch by its budgets, and keeps what follows from it: the circuit
// breaker, conservative mode, the emergency level, counters, and the events of the epoch.
//
// Names of metrics, events and reasons are those of the source documents (docs/telemetry.md has
// them all); "tamiyo" is the controller, which decides on growth, "kasmina" the seeds' operations.
// Nothing here waits, measures or prints: the caller gives times and reads events.
//
//     EsRails rails;
//     es_rails_begin(&rails, &settings);
//     if (es_rails_asks_controller(&rails)) { ... es_rails_controller_failed(&rails, ...); }
//     EsRailsVerdict verdict = es_rails_assess(&rails, &epoch, es_clock_ns());
//     // rails.events[0 .. n_events) are of this epoch, until the next es_rails_begin_epoch
#ifndef ES_FIT_RAILS_H
#define ES_FIT_RAILS_H

#include <stdint.h>

#include "base/macros.h"

ES_EXTERN_C_BEGIN

typedef struct EsRailsSettings {
    int is_on;
    float epoch_budget_ms;        // 0 = none
    float hook_budget_ms;         // of the controller's decisions of an epoch; 0 = none
    float controller_deadline_ms; // 0 = it is waited for
    int breaker_failures;         // in a row that open the breaker
    int breaker_successes;        // that close it again
    float breaker_seconds;        // that it stays open
    int halt_failures;            // failed epochs in a row that end the fit, 0 = none do
} EsRailsSettings;

// --- the circuit breaker ---

typedef enum EsBreakerState {
    ES_BREAKER_CLOSED = 1,
    ES_BREAKER_OPEN,
    ES_BREAKER_HALF_OPEN
} EsBreakerState;

// Closed until so many failures come in a row; then open for a time; then half open, until so many
// successes close it or one failure opens it again.
typedef struct EsBreaker {
    EsBreakerState state;
    int n_failures, n_successes; // in a row, in this state
    int64_t opened_ns;
} EsBreaker;

// Returns whether it lets work through; half opens it when its time has passed.
int es_breaker_allows(EsBreaker *breaker, const EsRailsSettings *settings, int64_t now_ns);
void es_breaker_fail(EsBreaker *breaker, const EsRailsSettings *settings, int64_t now_ns);
void es_breaker_succeed(EsBreaker *breaker, const EsRailsSettings *settings);

// --- rails ---

// X(NAME, name): why an epoch failed
#define ES_RAILS_REASON_LIST(X)                                                                    \
    X(NONE, none)                                                                                  \
    X(BREAKER_OPEN, breaker_open)                                                                  \
    X(EPOCH_BUDGET, epoch_budget)                                                                  \
    X(TAMIYO_TIMEOUT, tamiyo_timeout)                                                              \
    X(TAMIYO_ERROR, tamiyo_error)                                                                  \
    X(HOOK_BUDGET, hook_budget)

typedef enum EsRailsReason {
#define X(NAME, name) ES_RAILS_##NAME,
    ES_RAILS_REASON_LIST(X)
#undef X
} EsRailsReason;
const char *es_rails_reason_name(EsRailsReason reason);

typedef enum EsEmergencyLevel {
    ES_EMERGENCY_NOTICE = 1,
    ES_EMERGENCY_ELEVATED,
    ES_EMERGENCY_CONSERVATIVE,
    ES_EMERGENCY_HALT
} EsEmergencyLevel;

typedef struct EsRailsEvent {
    const char *name;     // "tolaria.epoch_budget_exceeded"
    const char *level;    // info, warning, error or critical
    char attributes[320]; // a JSON object
} EsRailsEvent;

#define ES_RAILS_EVENTS_MAX 16

// Since the run began, sessions included.
typedef struct EsRailsCounts {
    int64_t epochs, failed;
    int64_t tamiyo_timeouts;
    int64_t halts;
} EsRailsCounts;

typedef struct EsRails {
    EsRailsSettings settings;
    EsBreaker breaker;
    EsEmergencyLevel level;
    int is_conservative; // the controller is not asked, until an epoch succeeds
    int is_spent;        // nor ever again: too many of its threads hang
    int n_failed_in_row;
    EsRailsCounts counts;
    // of the epoch at hand
    EsRailsReason fault; // of the controller
    double controller_ms;
    EsRailsEvent events[ES_RAILS_EVENTS_MAX];
    int n_events;
} EsRails;

void es_rails_begin(EsRails *rails, const EsRailsSettings *settings);

// Forgets the events and the fault of the epoch before.
void es_rails_begin_epoch(EsRails *rails);

int es_rails_asks_controller(const EsRails *rails);

// The outcome of the controller's call of this epoch; a fault makes the rest of it conservative.
void es_rails_controller_answered(EsRails *rails, double ms);
void es_rails_controller_timed_out(EsRails *rails, double deadline_ms);
void es_rails_controller_failed(EsRails *rails, const char *detail);
// It will not be asked again; said once.
void es_rails_controller_spent(EsRails *rails, int n_threads);

typedef struct EsRailsEpoch {
    double latency_ms; // wall clock of the whole epoch
    double hook_ms;    // of it, the controller's decisions
} EsRailsEpoch;

typedef struct EsRailsVerdict {
    EsRailsReason reason; // NONE: the epoch succeeded
    int must_halt;
} EsRailsVerdict;

// The first that holds is the reason: the breaker is open, the epoch's budget, the controller's
// fault, the hook's budget.
EsRailsVerdict es_rails_assess(EsRails *rails, const EsRailsEpoch *epoch, int64_t now_ns);

ES_EXTERN_C_END

#endif
