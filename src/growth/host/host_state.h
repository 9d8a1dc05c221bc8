// One environment taken out of the slab of seed_fields.h, and put back: what a loop or a thread
// over environments works on.
#ifndef ES_GROWTH_HOST_STATE_H
#define ES_GROWTH_HOST_STATE_H

#include "growth/rules/seed_fields.h"

typedef struct EsHostState {
    EsGrowthEnv env;
    EsSeed seeds[ES_SLOTS_MAX];
} EsHostState;

static inline ES_HOST_DEVICE void es_host_state_load(const EsGrowthState *state, int32_t e,
                                                     EsHostState *host) {
    host->env = es_growth_env_load(&state->env, (size_t)e);
    for (int32_t s = 0; s < state->n_slots; s++) {
        host->seeds[s] = es_seed_load(&state->seed, (size_t)e * (size_t)state->n_slots + (size_t)s);
    }
}

static inline ES_HOST_DEVICE void es_host_state_store(const EsGrowthState *state, int32_t e,
                                                      const EsHostState *host) {
    es_growth_env_store(&state->env, (size_t)e, &host->env);
    for (int32_t s = 0; s < state->n_slots; s++) {
        es_seed_store(&state->seed, (size_t)e * (size_t)state->n_slots + (size_t)s,
                      &host->seeds[s]);
    }
}

#endif
