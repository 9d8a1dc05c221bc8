// The events of growth: a step of an episode as rows for the hub.
#ifndef ES_RUNS_GROW_EVENTS_H
#define ES_RUNS_GROW_EVENTS_H

#include "runs/grow/grow_episode.h"
#include "telemetry/hub.h"

typedef struct EsGrowEvents EsGrowEvents;

// Destination and time of the rows.
typedef struct EsGrowMoment {
    EsHub *hub; // borrowed
    EsEventTime time;
    int64_t first_episode; // id of environment 0's
} EsGrowMoment;

// Row buffers for the environments and slots of `runner`, which is borrowed.
EsStatus es_grow_events_create(const EsEpisodeRunner *runner, EsGrowEvents **events);
void es_grow_events_destroy(EsGrowEvents *events);

// Emits the measurements up to the decision: timings, losses, contributions.
void es_grow_events_measured(EsGrowEvents *events, const EsGrowMoment *moment);

// Emits the effects of the decision, before growth advances: operations, rewards, stages, gates,
// fossils, prunes, rollbacks. `thoughts` [E] is nullable.
void es_grow_events_decided(EsGrowEvents *events, const EsGrowMoment *moment,
                            const EsActionStats *action_stats);

// Emits the results of the episodes, and the cost of plans or captures so far.
void es_grow_events_ended(EsGrowEvents *events, const EsGrowMoment *moment);

#endif
