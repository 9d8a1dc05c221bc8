// The arrays of a reward on one device, and what happens to one seed or one environment of them.
// The loops of reward.c and the kernels of the decision phase (control/decision/decision_cuda.cu)
// share it.
//
//     EsRewardView view;
//     size_t bytes = es_reward_view_bind(&view, memory, n_envs, n_slots); // memory may be a GPU's
//     view.growth = growth; view.n_host_parameters = n; view.terms = terms;
//
// E environments, S slots.
#ifndef ES_REWARD_REWARD_VIEW_H
#define ES_REWARD_REWARD_VIEW_H

#include "reward/reward_rules.h"

typedef struct EsRewardView {
    // laid out over one piece of memory by es_reward_view_bind, so that one copy moves all of it
    void *memory;               // borrowed
    size_t memory_bytes;        //
    EsRewardSettings *settings; // [E]
    EsRewardState state;
    // set by the owner
    const EsGrowthSettings *growth; // borrowed
    int64_t n_host_parameters;
    EsRewardTerms *terms; // borrowed: of the last payment                    [E]
} EsRewardView;

// Lay the arrays out over memory aligned to 8 bytes at least, which may be device memory. Returns
// its size; with NULL that is all it is good for.
static inline size_t es_reward_view_bind(EsRewardView *view, void *memory, int32_t n_envs,
                                         int32_t n_slots) {
    size_t settings_bytes = es_reward_array_bytes((size_t)n_envs, sizeof *view->settings);
    char *state = memory != NULL ? (char *)memory + settings_bytes : NULL;
    view->memory = memory;
    view->settings = (EsRewardSettings *)memory;
    view->memory_bytes =
        settings_bytes + es_reward_state_bind(&view->state, state, n_envs, n_slots);
    return view->memory_bytes;
}

// Before the decision: keep what is judged of seed `index` of [E, S].
static inline ES_HOST_DEVICE void es_reward_view_latch(const EsRewardView *view, size_t index,
                                                       const EsSeed *seed) {
    EsRewardSeed latched = es_reward_seed_latch(seed);
    es_reward_seed_store(&view->state, index, &latched);
}

// After decision and tick: pay environment e, whose seeds [S] and latched [S] are at hand. Clears
// env.n_unpaid_prunes.
static inline ES_HOST_DEVICE EsRewardTerms es_reward_view_pay(const EsRewardView *view,
                                                              const EsGrowthState *growth, size_t e,
                                                              const EsRewardSeed *latched,
                                                              const EsSeed *seeds) {
    EsRewardRules rules = {&view->settings[e], view->growth, view->n_host_parameters};
    EsRewardEnv memory = es_reward_env_load(&view->state, e);
    EsGrowthEnv env = es_growth_env_load(&growth->env, e);
    EsRewardTerms terms = es_reward_step(&rules, &memory, latched, &env, seeds);
    es_reward_env_store(&view->state, e, &memory);
    growth->env.n_unpaid_prunes[e] = env.n_unpaid_prunes;
    view->terms[e] = terms;
    return terms;
}

#endif
