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
        ES_CONFIG_INT(T, m.breaker_failures, "rails", "breaker_failures", "3", 1, 1000000,         \
                      "failed epochs in a row that open the breaker"),                             \
        ES_CONFIG_INT(T, m.breaker_successes, "rails", "breaker_successes", "1", 1, 1000000,       \
                      "good epochs in a row that close it again"),                                 \
        ES_CONFIG_FLOAT(T, m.breaker_seconds, "rails", "breaker_seconds", "30", 0, 1e9,            \
                        "time that it stays open"),                                                \
        ES_CONFIG_INT(T, m.halt_failures, "rails", "halt_failures", "0", 0, 1000000,               \
                      "failed epochs in a row that end the fit; 0 = none do")

typedef struct EsFitRails {
    EsRails rails;
    EsDeadline *deadline;           // owned; NULL where the controller is waited for
    EsEmergencySignal *signal;      // owned; NULL until it is opened
    int has_no_signal;              // it cannot be made
    const EsControllerDrill *drill; // borrowed; NULL but in drills
} EsFitRails;

EsStatus es_fit_rails_create(const EsRailsSettings *settings, EsFitRails **rails);
void es_fit_rails_destroy(EsFitRails *rails);

// Makes the run's emergency signal, unless it is there. A machine without shared memory has none,
// which is logged.
void es_fit_rails_open_signal(EsFitRails *rails, const char *run_folder);

// Measurements of an epoch.
typedef struct EsFitEpoch {
    double latency_ms, hook_ms;  // as in EsRailsEpoch
    double loss, train_accuracy; // of training, of the best candidate; percent
    int64_t n_seeds;             // alive, of all candidates
} EsFitEpoch;

// Assesses the epoch, emits its events and metrics, and sets the signal.
EsRailsVerdict es_fit_rails_end_epoch(EsFitRails *rails, EsHub *hub, int64_t round,
                                      const EsFitEpoch *epoch);

EsStatus es_fit_rails_save(const EsFitRails *rails, EsCheckpoint *checkpoint);
// An open breaker is open for its whole time again: the clock of another session is not known. A
// fit that was halted goes on: that is why it is resumed. Nothing changes when the fit had no rails
// before.
EsStatus es_fit_rails_load(EsFitRails *rails, const EsCheckpoint *checkpoint);

#endif
