// One host under the growth rules with its reward, for tests.
#ifndef ES_TEST_REWARDED_CASE_H
#define ES_TEST_REWARDED_CASE_H

#include "base/random_rules.h"
#include "growth/lifecycle_case.h"
#include "reward/reward_rules.h"

#define REWARDED_HOST 1000 // parameters

typedef struct RewardedCase {
    LifecycleCase life;
    EsRewardSettings settings;
    EsRewardEnv memory;
    EsRewardSeed latched[ES_SLOTS_MAX];
    EsRewardTerms terms; // of the last step
    uint32_t world, draw;
} RewardedCase;

static inline RewardedCase rewarded_begin(EsGrowthSettings growth) {
    RewardedCase c;
    memset(&c, 0, sizeof c);
    for (int s = 0; s < ES_SLOTS_MAX; s++) {
        growth.gate_parameters[s] = 7;
        for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
            growth.blueprint_parameters[s][b] = 50 * b;
        }
    }
    c.life = case_begin(growth);
    c.settings = es_reward_settings_default();
    es_reward_env_reset(&c.memory);
    return c;
}

// The part of a step after its measurements.
static inline void rewarded_decide(RewardedCase *c, EsAction action) {
    LifecycleCase *life = &c->life;
    EsRewardRules rules = {&c->settings, &life->settings, REWARDED_HOST};
    for (int32_t s = 0; s < life->settings.n_slots; s++) {
        c->latched[s] = es_reward_seed_latch(&life->seeds[s]);
    }
    es_env_apply(&life->settings, &life->env, life->seeds, &action);
    es_env_tick(&life->settings, &life->env, life->seeds);
    c->terms = es_reward_step(&rules, &c->memory, c->latched, &life->env, life->seeds);
    life->env.n_unrewarded_prunes = 0;
}

static inline void rewarded_step(RewardedCase *c, EsAction action) {
    case_measure(&c->life);
    rewarded_decide(c, action);
}

// --- chance ---

static inline uint32_t below(RewardedCase *c, uint32_t n) {
    return es_random_below(es_random_draw(5, c->world, ES_PURPOSE_EVALUATION, 0, c->draw++).word[0],
                           n);
}

static inline int32_t pick_bit(RewardedCase *c, uint32_t bits) {
    uint32_t nth = below(c, (uint32_t)__builtin_popcount(bits));
    int32_t bit = 0;
    while (!((bits >> bit) & 1u) || nth-- > 0) {
        bit++;
    }
    return bit;
}

// WAIT half of the time, else any legal action, now and then an illegal one.
static inline EsAction random_action(RewardedCase *c) {
    EsAction action = es_action_wait();
    if (below(c, 100) < 50) {
        return action;
    }
    int32_t op = pick_bit(c, c->life.masks.head[ES_HEAD_OP]);
    for (int32_t head = 0; head < ES_HEAD_OP; head++) {
        action.head[head] = (int8_t)pick_bit(c, es_masks_head(&c->life.masks, op, head));
    }
    action.head[ES_HEAD_OP] = (int8_t)(below(c, 20) == 0 ? (int32_t)below(c, 6) : op);
    return action;
}

// Measurements of a step, now and then missing or NaN, and every seed with a worth of its own.
static inline void random_measurements(RewardedCase *c) {
    LifecycleCase *life = &c->life;
    uint32_t kind = below(c, 150);
    life->loss = kind == 0 ? NAN : 0.3f + (float)below(c, 1000) * 1e-3f;
    life->accuracy = kind == 1 ? NAN : 20 + (float)below(c, 6000) * 0.01f;
    life->contribution = kind == 2 ? NAN : -3 + (float)below(c, 800) * 0.01f;
    case_measure(life);
    for (int32_t s = 0; s < life->settings.n_slots; s++) {
        EsSeed *seed = &life->seeds[s];
        if (seed->contribution_age == 0) {
            seed->contribution += (float)below(c, 300) * 0.01f - 1.5f;
            seed->interaction_sum = (float)below(c, 300) * 0.01f - 1.5f;
        }
    }
}

static inline EsGrowthSettings random_growth(RewardedCase *c) {
    const int32_t slots[] = {1, 2, 3, 5, 16};
    int32_t n_slots = slots[below(c, 5)];
    EsGrowthSettings growth = below(c, 4) > 0 ? es_growth_settings_tiny(n_slots, 10)
                                              : es_growth_settings_default(n_slots, 10);
    growth.episode_steps = 20 + (int32_t)below(c, 130);
    growth.auto_forward = below(c, 2) ? ES_AUTO_FORWARD_ALL : (int32_t)below(c, 8);
    growth.is_strict = below(c, 5) == 0;
    return growth;
}

#endif
