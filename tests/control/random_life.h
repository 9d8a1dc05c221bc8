// Random lives of one host under the growth rules, for tests of policies: all kinds of settings;
// losses, gradients and accuracies that may be missing, huge or NaN; actions from the test.
#ifndef ES_TEST_RANDOM_LIFE_H
#define ES_TEST_RANDOM_LIFE_H

#include "base/random_rules.h"
#include "growth/rules/contribution_rules.h"
#include "growth/rules/lifecycle_rules.h"

typedef struct RandomLife {
    EsGrowthSettings settings;
    EsGrowthEnv env;
    EsSeed seeds[ES_SLOTS_MAX];
    EsActionMasks masks;
    uint64_t seed;
    uint32_t world, draw; // where the random numbers are
} RandomLife;

static inline uint32_t life_below(RandomLife *life, uint32_t n) {
    EsRandom4 r =
        es_random_draw(life->seed, life->world, ES_PURPOSE_EVALUATION, life->draw++ / 4, 0);
    return es_random_below(r.word[life->draw % 4], n);
}

static inline float life_between(RandomLife *life, float low, float high) {
    return low + (high - low) * (float)life_below(life, 1u << 20) * 0x1p-20f;
}

static inline void life_reset(RandomLife *life) {
    es_env_reset(&life->settings, &life->env, life->seeds);
}

// A new host of any kind.
static inline void life_begin(RandomLife *life, uint64_t seed, uint32_t world) {
    const int32_t slots[] = {1, 2, 3, 5, 8, 16};
    life->seed = seed;
    life->world = world;
    life->draw = 0;
    int32_t n_slots = slots[life_below(life, 6)];
    life->settings = life_below(life, 10) < 7 ? es_growth_settings_tiny(n_slots, 10)
                                              : es_growth_settings_default(n_slots, 10);
    EsGrowthSettings *s = &life->settings;
    s->episode_steps = 30 + (int32_t)life_below(life, 60);
    s->is_strict = life_below(life, 10) < 3;
    s->auto_forward = (int32_t)life_below(life, 8);
    s->max_seeds = (int32_t)life_below(life, (uint32_t)n_slots + 1);
    s->blueprints = life_below(life, 5) == 0 ? ES_BLUEPRINTS_TRANSFORMER : ES_BLUEPRINTS_CNN;
    life_reset(life);
}

static inline EsGradientSums life_gradients(RandomLife *life) {
    EsGradientSums sums = es_gradient_sums_empty();
    uint32_t kind = life_below(life, 100);
    int n_tensors = kind < 5 ? 0 : 1 + (int)life_below(life, 4);
    for (int i = 0; i < n_tensors; i++) {
        double norm = (double)life_between(life, 0.01f, 3);
        norm = kind < 8    ? 0
               : kind < 11 ? 1e30
               : kind < 12 ? es_math_nan()
               : kind < 13 ? es_math_infinity()
                           : norm;
        es_gradient_add(&life->settings, &sums, norm * norm, 50, 1);
    }
    return sums;
}

// Everything of a step before the decision. About one loss in a hundred is not a number.
static inline void life_measure(RandomLife *life) {
    uint32_t kind = life_below(life, 400);
    float nan = (float)es_math_nan(), infinity = (float)es_math_infinity();
    float loss = kind < 3    ? nan
                 : kind == 3 ? infinity
                 : kind < 9  ? 1e30f
                             : life_between(life, 0.2f, 1.2f);
    float accuracy = kind == 20 ? nan : life_between(life, 10, 90);
    es_env_measure(&life->settings, &life->env, life->seeds, loss, accuracy);
    EsGradientSums host = life_gradients(life);
    for (int32_t s = 0; s < life->settings.n_slots; s++) {
        if (life->seeds[s].stage != ES_STAGE_DORMANT && life_below(life, 10) > 0) {
            EsGradientSums sums = life_gradients(life);
            es_gradient_record(&life->settings, &life->seeds[s], &sums, &host);
        }
    }
    EsAblation list = es_ablation_list(&life->settings, life->seeds);
    float patterns[ES_ABLATION_PATTERNS_MAX];
    EsInteractions pairs;
    for (int32_t k = 0; k < es_ablation_count(&list); k++) {
        float change = life_between(life, -5, k > 0 ? 2 : 0);
        patterns[k] = life_below(life, 50) == 0 ? nan : accuracy + change;
    }
    es_contribution_record(&life->settings, &life->env, life->seeds, &list, patterns, &pairs);
    life->masks = es_env_masks(&life->settings, &life->env, life->seeds);
}

// The decision and the tick. Returns 0 when the episode is over.
static inline int life_act(RandomLife *life, const EsAction *action) {
    es_env_apply(&life->settings, &life->env, life->seeds, action);
    es_env_tick(&life->settings, &life->env, life->seeds);
    return life->env.step <= life->settings.episode_steps;
}

// Is every head's value legal, given the op?
static inline int life_allows(const RandomLife *life, const EsAction *action) {
    int32_t op = es_action_value(action, ES_HEAD_OP);
    if (op < 0 || op >= ES_N_GROWTH_OPS || !(life->masks.head[ES_HEAD_OP] >> op & 1)) {
        return 0;
    }
    for (int32_t head = 0; head < ES_HEAD_OP; head++) {
        int32_t value = es_action_value(action, head);
        if (value < 0 || value > 31 || !(es_masks_head(&life->masks, op, head) >> value & 1)) {
            return 0;
        }
    }
    return 1;
}

#endif
