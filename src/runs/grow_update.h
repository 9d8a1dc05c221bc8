// What an update of the policy says: its event, its curves, and what is wrong with it.
#ifndef ES_RUNS_GROW_UPDATE_H
#define ES_RUNS_GROW_UPDATE_H

#include "control/policy.h"
#include "runs/run.h"

// Tell the hub of `run`; anomalies are told too. `rate` is the learning rate it was made with.
void es_grow_update_tell(EsRun *run, EsEventTime time, const EsPpoReport *report,
                         const EsRecurrentHealth *recurrent, double rate, double update_ms);

#endif
