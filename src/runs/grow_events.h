// The events of growth: what a step of an EsGrowth says, as rows for the hub.
#ifndef ES_RUNS_GROW_EVENTS_H
#define ES_RUNS_GROW_EVENTS_H

#include "growth/growth.h"
#include "telemetry/hub.h"

typedef struct EsGrowEvents EsGrowEvents;

// Row buffers for this many environments and slots.
EsStatus es_grow_events_create(const EsGrowth *growth, EsGrowEvents **events);
void es_grow_events_destroy(EsGrowEvents *events);

// What was measured up to the decision: timings, losses, contributions.
void es_grow_events_measured(EsGrowEvents *events, EsHub *hub, EsEventTime time,
                             int64_t first_episode);

// What the decision did, between es_growth_decide and es_growth_advance: operations, stages, gates,
// fossils, prunes, rollbacks.
void es_grow_events_decided(EsGrowEvents *events, EsHub *hub, EsEventTime time,
                            int64_t first_episode, const EsAction *actions);

// How the episodes ended.
void es_grow_events_ended(EsGrowEvents *events, EsHub *hub, EsEventTime time,
                          int64_t first_episode);

#endif
