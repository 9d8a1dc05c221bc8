// Rails around the epochs of a fit: the controller under its deadline, and the assessment of each
// epoch as events, metrics and checkpoint. fit/rails.h has the rules.
//
//     EsFitRails *rails; ES_TRY(es_fit_rails_create(&settings, &rails));
//     es_rails_begin_epoch(&rails->rails);
//     ... train, decide through rails->deadline ...
//     EsRailsVerdict verdict = es_fit_rails_end_epoch(rails, hub, round, &epoch);
#ifndef ES_RUNS_FIT_RAILS_H
#define ES_RUNS_FIT_RAILS_H

#include "esper/config.h"
#include "fit/controller.h"
#include "fit/emergency_signal.h"
#include "fit/rails.h"
#include "fit/seed_prefetch.h"
#include "runs/checkpoint.h"
#include "telemetry/hub.h"

// The keys of [rails] for a settings struct that embeds EsRailsSettings.
#define ES_RAILS_CONFIG_KEYS(T, m)                                                                 \
    ES_CONFIG_BOOL(T, m.is_on, "rails", "on", "off",                                               \
                   "assess every epoch by the budgets and deadlines of this section"),             \
        ES_CONFIG_FLOAT(T, m.epoch_budget_ms, "rails", "epoch_budget_ms", "0", 0, 1e9,             \
                        "wall clock that an epoch may take; 0 = any"),                             \
        ES_CONFIG_FLOAT(T, m.hook_budget_ms, "rails", "hook_budget_ms", "0", 0, 1e9,               \
                        "wall clock that the decisions of an epoch may take; 0 = any"),            \
        ES_CONFIG_FLOAT(T, m.controller_deadline_ms, "rails", "controller_deadline_ms", "0", 0,    \
                        1e9,                                                                       \
                        "time after which training goes on without the policy's answer; 0 = it "   \
                        "waits"),                                                                  \
        ES_CONFIG_FLOAT(T, m.seed_deadline_ms, "rails", "seed_deadline_ms", "0", 0, 1e9,           \
                        "time to prepare the seeds of a decision in, else they are not planted; "  \
                        "0 = any"),                                                                \
        ES_CONFIG_INT(T, m.prefetch, "rails", "prefetch", "0", 0, ES_PREFETCH_MAX,                 \
                      "graphs of hosts with seeds that may come next, made while an epoch "        \
                      "trains; 0 = none"),                                                         \
        ES_CONFIG_FLOAT(T, m.prefetch_timeout_ms, "rails", "prefetch_timeout_ms", "1000", 0, 1e9,  \
                        "time after which such a graph is given up; 0 = never"),                   \
        ES_CONFIG_INT(T, m.breaker_failures, "rails", "breaker_failures", "3", 1, 1000000,         \
                      "failed epochs in a row that open the breaker"),                             \
        ES_CONFIG_INT(T, m.breaker_successes, "rails", "breaker_successes", "1", 1, 1000000,       \
                      "good epochs in a row that close it again"),                                 \
        ES_CONFIG_FLOAT(T, m.breaker_seconds, "rails", "breaker_seconds", "30", 0, 1e9,            \
                        "time that it stays open"),                                                \
        ES_CONFIG_INT(T, m.halt_failures, "rails", "halt_failures", "0", 0, 1000000,               \
                      "failed epochs in a row that end the fit; 0 = none do"),                     \
        ES_CONFIG_FLOAT(T, m.gradient_limit, "rails", "gradient_limit", "0", 0, 1e30,              \
                        "norm of a host's gradient that fails an epoch; 0 = any may be"),          \
        ES_CONFIG_BOOL(T, m.rollback, "rails", "rollback", "off",                                  \
                       "undo epochs without a finite loss, or over gradient_limit"),               \
        ES_CONFIG_INT(T, m.rollback_mib, "rails", "rollback_mib", "32", 0, 1000000,                \
                      "memory for states of good epochs; 0 = go back to checkpoints alone"),       \
        ES_CONFIG_INT(T, m.rollback_every, "rails", "rollback_every", "5", 1, 1000000,             \
                      "epochs between two of these states"),                                       \
        ES_CONFIG_FLOAT(T, m.rollback_deadline_ms, "rails", "rollback_deadline_ms", "0", 0, 1e9,   \
                        "time to read a checkpoint in, else the fit ends; 0 = any"),               \
        ES_CONFIG_TEXT(T, m.emergency_file, "rails", "emergency_file", "",                         \
                       "file or named pipe that gets a line of JSON when the emergency level "     \
                       "rises; empty: none"),                                                      \
        ES_CONFIG_FLOAT(T, m.emergency_timeout_ms, "rails", "emergency_timeout_ms", "2000", 1,     \
                        1e9, "time to write such a line in"),                                      \
        ES_CONFIG_INT(T, m.emergency_per_minute, "rails", "emergency_per_minute", "60", 1,         \
                      1000000, "most such lines in a minute; others are dropped")

typedef struct EsFitRails {
    EsRails rails;
    EsDeadline *deadline;          // owned: of controller and seeds, whose threads that hang count
                                   // together; NULL where both are waited for
    EsEmergencySignal *signal;     // owned; NULL until it is opened
    int has_no_signal;             // it cannot be made
    EsEmergencyDispatch *dispatch; // owned; NULL without a file for emergencies
    const EsDeadlineDrill *drill;  // borrowed: of the controller; NULL but in drills
    const EsDeadlineDrill *seed_drill;     // likewise, of preparing seeds
    const EsDeadlineDrill *prefetch_drill; // likewise, of making graphs ahead
    EsPrefetchCounts prefetch;             // of all groups of candidates
    size_t snapshot_bytes;                 // in memory
} EsFitRails;

EsStatus es_fit_rails_create(const EsRailsSettings *settings, EsFitRails **rails);
void es_fit_rails_destroy(EsFitRails *rails);

// Makes the run's signals and the way of its messages, unless they are there. A level that was
// loaded is raised and sent at once, with the reason "resumed" and the epoch that begins. A machine
// without shared memory has no signals, which is logged.
EsStatus es_fit_rails_open_signal(EsFitRails *rails, const char *run_folder, int64_t epoch);

// Measurements of an epoch.
typedef struct EsFitEpoch {
    double latency_ms, hook_ms;  // as in EsRailsEpoch
    double loss, train_accuracy; // of training, of the best candidate; percent
    int64_t n_seeds;             // alive, of all candidates
    int has_diverged;            // as in EsRailsEpoch
    double gradient_norm;
} EsFitEpoch;

// Goes back to an earlier state, and notes in `rails` how that went.
typedef struct EsFitUndo {
    void (*roll_back)(void *context, EsRails *rails, EsRailsReason reason);
    void *context;
} EsFitUndo;

// Assesses the epoch, rolls it back where that must be, sets the signals, sends a message when the
// level rises, and emits its events and metrics.
EsRailsVerdict es_fit_rails_end_epoch(EsFitRails *rails, EsHub *hub, int64_t round,
                                      const EsFitEpoch *epoch, const EsFitUndo *undo);

// Tries messages that failed once more, before the fit ends: that of a halt has no later epoch.
// Returns `status`, with the detail that it came with.
EsStatus es_fit_rails_end(EsFitRails *rails, EsHub *hub, int64_t round, EsStatus status);

EsStatus es_fit_rails_save(const EsFitRails *rails, EsCheckpoint *checkpoint);
// An open breaker is open for its whole time again: the clock of another session is not known. A
// fit that was halted goes on: that is why it is resumed. Threads that hung are gone with their
// process, and the policy is asked again. Nothing changes when the fit had no rails before.
EsStatus es_fit_rails_load(EsFitRails *rails, const EsCheckpoint *checkpoint);

#endif
