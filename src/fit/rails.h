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
    float seed_deadline_ms;       // of preparing seeds; 0 = it is waited for
    int prefetch;                 // graphs of possible seeds made ahead; 0 = none
    float prefetch_timeout_ms;    // after which one is given up; 0 = never
    int breaker_failures;         // in a row that open the breaker
    int breaker_successes;        // that close it again
    float breaker_seconds;        // that it stays open
    int halt_failures;            // failed epochs in a row that end the fit, 0 = none do
    float gradient_limit;         // norm of the host's gradient that fails an epoch, 0 = any may be
    int rollback;                 // epochs without a finite loss, or over that limit, are undone
    int rollback_mib;             // states of good epochs in memory; 0: from checkpoints alone
    int rollback_every;           // epochs between two of them
    float rollback_deadline_ms;   // of reading a checkpoint; 0 = it is waited for
    char emergency_file[1024];    // that emergencies are written to; "" = none
    float emergency_timeout_ms;   // of one of these messages
    int emergency_per_minute;     // the most of them in a minute
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
    X(KASMINA_TIMEOUT, kasmina_timeout)                                                            \
    X(KASMINA_ERROR, kasmina_error)                                                                \
    X(HOOK_BUDGET, hook_budget)                                                                    \
    X(NO_LOSS, loss_not_finite)                                                                    \
    X(GRADIENT, gradient_exploded)

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

#define ES_RAILS_EVENTS_MAX 24

// Since the run began, sessions included, but where it says so.
typedef struct EsRailsCounts {
    int64_t epochs, failed;
    int64_t tamiyo_timeouts;
    int64_t halts;
    int64_t snapshots;              // states of good epochs put into memory, of this session
    int64_t fast_hits, fast_misses; // rollbacks from memory; without a state there
    int64_t restore_failures;       // of checkpoints, by any stage
    int64_t restore_deadlines;      // missed
    int64_t kasmina_timeouts;
    int64_t dispatch_failures; // messages of emergencies, of this session
} EsRailsCounts;

typedef struct EsRails {
    EsRailsSettings settings;
    EsBreaker breaker;
    EsEmergencyLevel level;
    int is_conservative; // the controller is not asked, until an epoch succeeds
    int is_spent;        // nor ever again: too many threads hang
    int n_failed_in_row;
    EsRailsCounts counts;
    // of the epoch at hand
    EsRailsReason fault; // of the controller, or of the seeds' operations
    double controller_ms;
    double seeds_ms;   // of the last preparation of seeds
    double restore_ms; // of the last rollback
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
// Neither it nor seeds are asked for again: too many threads hang. Said once.
void es_rails_controller_spent(EsRails *rails, int n_threads);

// The outcome of preparing the seeds of an epoch's decisions; those of a preparation that is late
// or fails are thrown away. A late one makes the rest of the epoch conservative.
void es_rails_seeds_prepared(EsRails *rails, double ms);
void es_rails_seeds_timed_out(EsRails *rails, double deadline_ms, int n_operations);
void es_rails_seeds_failed(EsRails *rails, const char *detail, int n_operations);

typedef struct EsRailsEpoch {
    double latency_ms;    // wall clock of the whole epoch
    double hook_ms;       // of it, the controller's decisions
    int has_diverged;     // no candidate has a finite loss
    double gradient_norm; // the largest of the hosts, before clipping
} EsRailsEpoch;

typedef struct EsRailsVerdict {
    EsRailsReason reason; // NONE: the epoch succeeded
    int must_halt;
    int must_roll_back; // its training went wrong; a late epoch is late, not wrong
} EsRailsVerdict;

// The first that holds is the reason: the breaker is open, no loss, the gradient, the epoch's
// budget, the fault of controller or seeds, the hook's budget.
EsRailsVerdict es_rails_assess(EsRails *rails, const EsRailsEpoch *epoch, int64_t now_ns);

// Graphs that were made ahead, and of these so many failed, and so many were late, in this epoch.
void es_rails_prefetch_failed(EsRails *rails, int64_t n_failed, int64_t n_timed_out);

// A message of the emergency of this epoch, or of an earlier one, could not be delivered.
void es_rails_dispatch_failed(EsRails *rails, int is_late, const char *detail);

// --- rollback, after the assessment and before the next epoch ---

void es_rails_noted_snapshot(EsRails *rails);
void es_rails_rolled_back(EsRails *rails, int from_memory, double ms);
// `stage` is a name of the source documents: wal_crc_mismatch, read_error, ckpt_crc_mismatch,
// deserialize, model_load.
void es_rails_restore_failed(EsRails *rails, const char *stage, const char *detail, double ms);
// There is no checkpoint yet.
void es_rails_restore_absent(EsRails *rails);
// Ends the fit: the state at hand is wrong, and the disk does not answer.
void es_rails_restore_late(EsRails *rails, EsRailsReason reason, double deadline_ms);

ES_EXTERN_C_END

#endif
