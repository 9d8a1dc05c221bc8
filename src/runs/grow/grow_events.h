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
    int64_t first_episode; // id of the episode of environment 0
    const int *envs;       // borrowed [E]: numbers of the environments in rows; NULL: from 0 on
} EsGrowMoment;

// Row buffers for the first n_envs environments and the slots of `growth`, which is borrowed.
EsStatus es_grow_events_create(const EsGrowth *growth, int64_t n_envs, EsGrowEvents **events);
void es_grow_events_destroy(EsGrowEvents *events);

// For a growth that is in the midst of its episodes: knows their seeds by name from here on.
void es_grow_events_recall(EsGrowEvents *events, const EsGrowMoment *moment);

// Emits the measurements up to the decision: timings, losses, contributions, seeds. decide_ms is
// of the step before.
void es_grow_events_measured(EsGrowEvents *events, const EsGrowMoment *moment, double decide_ms);

// Emits the measurements of every living seed, on the stride; es_grow_events_measured has them too.
void es_grow_events_seeds(EsGrowEvents *events, const EsGrowMoment *moment);

// Emits the state of every slot that has or had a seed as metrics, kasmina.seed.*, labelled by
// environment and slot: "env3.r0c1". Fewer names than seeds would have, and none that only grow.
void es_grow_events_slots(EsGrowEvents *events, const EsGrowMoment *moment);

// Emits the effects of the decision, before growth advances: operations of the actions [E], stages,
// gates, fossils, prunes. The actions were drawn from masks [E], by `policy`; NULL: it was not
// asked.
void es_grow_events_decided(EsGrowEvents *events, const EsGrowMoment *moment,
                            const EsAction *actions, const EsActionMasks *masks,
                            const EsPolicy *policy);

// Emits the rewards of the decision, and rollbacks with their penalty; `runner` has this growth.
void es_grow_events_rewarded(EsGrowEvents *events, const EsGrowMoment *moment,
                             const EsEpisodeRunner *runner);

// Emits the results of the episodes, and the cost of plans or captures so far.
void es_grow_events_ended(EsGrowEvents *events, const EsGrowMoment *moment,
                          const EsEpisodeRunner *runner);

#endif
