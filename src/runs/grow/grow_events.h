// The events of growth: what a step of an episode says, as rows for the hub.
#ifndef ES_RUNS_GROW_EVENTS_H
#define ES_RUNS_GROW_EVENTS_H

#include "runs/grow/grow_episode.h"
#include "telemetry/hub.h"

typedef struct EsGrowEvents EsGrowEvents;

// Where the rows go, and when it is.
typedef struct EsGrowMoment {
    EsHub *hub; // borrowed
    EsEventTime time;
    int64_t first_episode; // id of environment 0's
} EsGrowMoment;

// Row buffers for the environments and slots of `runner`, which is borrowed.
EsStatus es_grow_events_create(const EsEpisodeRunner *runner, EsGrowEvents **events);
void es_grow_events_destroy(EsGrowEvents *events);

// What was measured up to the decision: timings, losses, contributions.
void es_grow_events_measured(EsGrowEvents *events, const EsGrowMoment *moment);

// What the decision did, before growth advances: operations, rewards, stages, gates, fossils,
// prunes, rollbacks. `thoughts` [E] is nullable.
void es_grow_events_decided(EsGrowEvents *events, const EsGrowMoment *moment,
                            const EsActionStats *action_stats);

// How the episodes ended, and what plans or captures have cost so far.
void es_grow_events_ended(EsGrowEvents *events, const EsGrowMoment *moment);

#endif
