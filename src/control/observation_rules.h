// What a policy sees of one environment: 23 + 31 S numbers, and the blueprint of every slot.
// docs/growing.md tables them. "Not measured" is -1 and never looks healthy.
#ifndef ES_CONTROL_OBSERVATION_RULES_H
#define ES_CONTROL_OBSERVATION_RULES_H

#include "growth/mask_rules.h"

#define ES_OBSERVATION_VERSION     1
#define ES_OBSERVATION_HOST        23
#define ES_OBSERVATION_SLOT        31
#define ES_OBSERVATION_BLUEPRINTS  14 // EsBlueprintId, and 13 for an empty slot

static inline ES_HOST_DEVICE int32_t es_observation_size(int32_t n_slots) {
    return ES_OBSERVATION_HOST + ES_OBSERVATION_SLOT * n_slots;
}

// features [23 + 31 S], blueprints [S]: EsBlueprintId or 13.
static inline ES_HOST_DEVICE void es_env_observe(const EsGrowthSettings *settings,
                                                 const EsGrowthEnv *env, const EsSeed *seeds,
                                                 float *features, int32_t *blueprints);

#endif
