// An update of a policy in telemetry: its event, its curves and its anomalies.
#ifndef ES_RUNS_UPDATE_EVENTS_H
#define ES_RUNS_UPDATE_EVENTS_H

#include "control/policy/policy.h"
#include "runs/run.h"

// The policy that was updated.
typedef struct EsUpdatedPolicy {
    int n_heads;
    const char *(*head_name)(int head);
    const EsRecurrentHealth *recurrent; // borrowed; NULL: it has no recurrent state
    int has_head_rules;                 // its heads are those that the run's detector knows
} EsUpdatedPolicy;

// Emits the report to the hub of `run`, and anomalies. `learning_rate` is the one it was made
// with.
void es_update_emit(EsRun *run, EsEventTime time, const EsPpoReport *report,
                    const EsUpdatedPolicy *policy, double learning_rate, double update_ms);

#endif
