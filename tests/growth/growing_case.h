// An EsGrowth on the small data set of growing_host.h, for tests: options, actions, hashes.
#ifndef ES_TEST_GROWING_CASE_H
#define ES_TEST_GROWING_CASE_H

#include "growth/engine/growth_internal.h"
#include "growth/growing_host.h"
#include "growth/growth_with_device.h"

// Batches of 16, one per step, 40 validation images, the dwell times of `tiny`, everything
// automatic.
static inline EsGrowthOptions small_options(const char *slot_names, int64_t n_envs) {
    EsHostSpec host = small_host();
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    REQUIRE_OK(es_slots_parse(&host, slot_names, slots, &n_slots));
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, n_envs);
    options.settings = es_growth_settings_tiny(n_slots, host.n_classes);
    options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    options.batch = 16;
    options.step_batches = 1;
    options.n_validation_images = 40;
    return options;
}

static inline EsAction act(int op, int slot) {
    EsAction action = es_action_wait();
    action.head[ES_HEAD_OP] = (int8_t)op;
    action.head[ES_HEAD_SLOT] = (int8_t)slot;
    return action;
}

// Tempo 1: alpha is 1 after the second tick of blending.
static inline EsAction germinate(int slot, int blueprint, int style) {
    EsAction action = act(ES_GROWTH_OP_GERMINATE, slot);
    action.head[ES_HEAD_BLUEPRINT] = (int8_t)blueprint;
    action.head[ES_HEAD_STYLE] = (int8_t)style;
    action.head[ES_HEAD_TEMPO] = 1;
    return action;
}

static inline int stage_of(const EsGrowth *growth, int64_t env, int slot) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    return state->seed.stage[env * state->n_slots + slot];
}

// The same action in every environment.
static inline void step_all(EsGrowth *growth, EsAction action) {
    EsAction actions[64];
    for (int64_t e = 0; e < es_growth_snapshot(growth)->state.n_envs; e++) {
        actions[e] = action;
    }
    REQUIRE_OK(es_growth_step(growth, actions));
}

// Wait until environment 0's seed is in that stage; not for ever.
static inline void wait_for_stage(EsGrowth *growth, int slot, int stage) {
    for (int i = 0; i < 40 && stage_of(growth, 0, slot) != stage; i++) {
        step_all(growth, es_action_wait());
    }
    EXPECT_EQ(stage_of(growth, 0, slot), stage);
}

// Germinate in every environment and grow the seed into a fossil.
static inline void grow_fossil(EsGrowth *growth, int slot, int blueprint, int style) {
    step_all(growth, germinate(slot, blueprint, style));
    wait_for_stage(growth, slot, ES_STAGE_HOLDING);
    step_all(growth, act(ES_GROWTH_OP_FOSSILIZE, slot));
    EXPECT_EQ(stage_of(growth, 0, slot), ES_STAGE_FOSSILIZED);
}

// A policy that tries everything: a hash of (env, step, salt).
static inline EsAction wild_action(const EsGrowth *growth, int64_t env, uint64_t salt) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    EsRandom4 r =
        es_random_draw(salt, (uint32_t)env, ES_PURPOSE_ACTION, (uint32_t)state->env.step[env], 0);
    EsRandom4 q =
        es_random_draw(salt, (uint32_t)env, ES_PURPOSE_ACTION, (uint32_t)state->env.step[env], 1);
    EsAction action = es_action_wait();
    for (int head = 0; head < ES_N_HEADS; head++) {
        uint32_t word = head < 4 ? r.word[head] : q.word[head - 4];
        action.head[head] = (int8_t)(word % (uint32_t)es_head_size(head, state->n_slots));
    }
    action.head[ES_HEAD_BLUEPRINT] = (int8_t)(1 + r.word[1] % 7);
    if (q.word[3] % 5 < 2) {
        action.head[ES_HEAD_OP] = ES_GROWTH_OP_GERMINATE;
    }
    return action;
}

static inline uint64_t hash_bytes(const void *data, size_t bytes, uint64_t hash) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ at[i]) * 1099511628211u;
    }
    return hash;
}

// Weights, momentum, statistics, lifecycle and results of one environment.
static inline uint64_t hash_env(const EsGrowth *growth, int64_t env) {
    const EsGrowthState *state = &growth->shown.state;
    const EsTensor *slabs[] = {&growth->store->parameters, &growth->store->states,
                               &growth->momentum};
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < 3; i++) {
        hash = hash_bytes(slab_row(slabs[i], env), (size_t)slabs[i]->dim[1] * sizeof(float), hash);
    }
    for (int s = 0; s < state->n_slots; s++) {
        EsSeed seed = es_seed_load(&state->seed, (size_t)(env * state->n_slots + s));
        hash = hash_bytes(&seed, sizeof seed, hash);
    }
    EsGrowthEnv whole = es_growth_env_load(&state->env, (size_t)env);
    hash = hash_bytes(&whole, sizeof whole, hash);
    return hash_bytes(&growth->results[env], sizeof growth->results[env], hash);
}

#endif
