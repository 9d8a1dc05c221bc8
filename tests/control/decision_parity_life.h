// Random lives of environments in which every rule of the decision phase is asked in every step:
// observations of both versions, heuristic, uniform and learned choice with its gradient, from a
// table, too, reward in all its modes; with and without a budget of parameters.
// Written once for CPU and CUDA, so that the two can be compared.
//
// Losses, gradients, accuracies and logits are random numbers of (environment, step); some are NaN
// or infinite. Settings differ by kind, and which rule's action is carried out by driver.
#ifndef ES_TESTS_CONTROL_DECISION_PARITY_LIFE_H
#define ES_TESTS_CONTROL_DECISION_PARITY_LIFE_H

#include "control/rules/heuristic_rules.h"
#include "control/rules/sampling_rules.h"
#include "control/rules/set_observation_rules.h"
#include "growth/rules/contribution_rules.h"
#include "growth/rules/lifecycle_rules.h"
#include "reward/reward_rules.h"

#define LIFE_SEED     20261116
#define LIFE_KINDS    8 // of settings; environment e has kind e % 8
#define LIFE_DRIVERS  5 // and driver e / 8 % 5
#define LIFE_FEATURES (ES_OBSERVATION_HOST + ES_OBSERVATION_SLOT * ES_SLOTS_MAX)
#define LIFE_LOGITS   (ES_SLOTS_MAX + 13 + 4 + 3 + 3 + 4 + 5 + 6)
#define LIFE_TERMS    11 // of EsRewardTerms
#define LIFE_SET      (ES_SET_OBSERVATION_HOST + ES_SET_OBSERVATION_SLOT * ES_SLOTS_MAX)
#define LIFE_TABLE    (6 + 53 * ES_SLOTS_MAX)

typedef enum LifeDriver {
    LIFE_BY_HEURISTIC,
    LIFE_BY_UNIFORM,
    LIFE_BY_DRAW,
    LIFE_BY_BEST,
    LIFE_BY_ANYTHING // one action in four may be illegal
} LifeDriver;

typedef struct LifeSettings {
    EsGrowthSettings growth;
    EsRewardSettings reward[ES_N_REWARD_MODES];
    int64_t n_host_parameters;
    float floor[ES_N_HEADS];
    float noise; // of losses and accuracies: a host that settles has little
} LifeSettings;

// type, name, elements: what a step gives, all of it compared
#define LIFE_RESULTS(X)                                                                            \
    X(float, features, LIFE_FEATURES)                                                              \
    X(int32_t, blueprints, ES_SLOTS_MAX)                                                           \
    X(uint16_t, mask_slots, ES_N_GROWTH_OPS)                                                       \
    X(uint16_t, mask_heads, ES_N_HEADS)                                                            \
    X(float, set_features, LIFE_SET)                                                               \
    X(uint16_t, over_budget, ES_SLOTS_MAX)                                                         \
    X(uint16_t, gate_over_budget, ES_SLOTS_MAX)                                                    \
    X(int8_t, table_action, ES_N_HEADS)                                                            \
    X(float, table, 3)                                                                             \
    X(int8_t, heuristic_action, ES_N_HEADS)                                                        \
    X(int8_t, uniform_action, ES_N_HEADS)                                                          \
    X(int8_t, drawn_action, ES_N_HEADS)                                                            \
    X(int8_t, best_action, ES_N_HEADS)                                                             \
    X(float, drawn, 3)                                                                             \
    X(float, best, 3)                                                                              \
    X(uint64_t, legal, ES_N_HEADS)                                                                 \
    X(uint32_t, legality, 3)                                                                       \
    X(float, d_logits, LIFE_LOGITS)                                                                \
    X(float, terms, ES_N_REWARD_MODES *LIFE_TERMS)                                                 \
    X(double, stability, ES_N_REWARD_MODES)                                                        \
    X(double, row_p, ES_CHOICE_MAX)                                                                \
    X(float, row_d_logits, ES_CHOICE_MAX)                                                          \
    X(double, row_numbers, 2)                                                                      \
    X(int32_t, row_choices, 3)

typedef struct LifeResults {
#define X(type, name, count) type name[count];
    LIFE_RESULTS(X)
#undef X
} LifeResults;

typedef struct LifeWorld {
    EsGrowthEnv env;
    EsSeed seeds[ES_SLOTS_MAX];
    EsHeuristicSettings rules;
    EsHeuristic memory;
    EsRewardEnv reward[ES_N_REWARD_MODES];
    LifeResults results;
} LifeWorld;

// Key of the random numbers of one step.
typedef struct LifeKey {
    uint32_t env, step;
} LifeKey;

// First number of each use, so that none shares numbers with another.
enum {
    LIFE_DRAW_MEASURES = 0,
    LIFE_DRAW_PATTERNS = 16,
    LIFE_DRAW_GRADIENTS = 64,
    LIFE_DRAW_LOGITS = 128,
    LIFE_DRAW_SLOPES = 192,
    LIFE_DRAW_ROW = 224,
    LIFE_DRAW_ACTION = 320
};

static inline ES_HOST_DEVICE uint32_t life_word(LifeKey key, int i) {
    return es_random_draw(LIFE_SEED, key.env, ES_PURPOSE_EVALUATION, key.step, (uint32_t)i / 4)
        .word[i % 4];
}

static inline ES_HOST_DEVICE uint32_t life_below(LifeKey key, int i, uint32_t n) {
    return es_random_below(life_word(key, i), n);
}

// -1..1
static inline ES_HOST_DEVICE float life_number(LifeKey key, int i) {
    return 2.0f * es_random_uniform(life_word(key, i)) - 1.0f;
}

static inline ES_HOST_DEVICE const LifeSettings *life_settings(const LifeSettings *kinds,
                                                               uint32_t env) {
    return &kinds[env % LIFE_KINDS];
}

// --- measurements ---

static inline ES_HOST_DEVICE EsGradientSums life_gradients(const EsGrowthSettings *settings,
                                                           LifeKey key, int i) {
    EsGradientSums sums = es_gradient_sums_empty();
    uint32_t kind = life_below(key, i, 100);
    double norm = 0.01 + 3 * es_random_uniform(life_word(key, i + 1));
    norm = kind < 3   ? 0
           : kind < 6 ? 1e30
           : kind < 7 ? es_math_nan()
           : kind < 8 ? es_math_infinity()
                      : norm;
    if (kind < 95) {
        es_gradient_add(settings, &sums, norm * norm, 50, 1);
    }
    return sums;
}

static inline ES_HOST_DEVICE void life_measure_seeds(const EsGrowthSettings *settings,
                                                     LifeWorld *world, LifeKey key) {
    EsGradientSums host = life_gradients(settings, key, LIFE_DRAW_GRADIENTS);
    for (int32_t s = 0; s < settings->n_slots; s++) {
        EsGradientSums sums = life_gradients(settings, key, LIFE_DRAW_GRADIENTS + 2 + 2 * s);
        if (world->seeds[s].stage != ES_STAGE_DORMANT) {
            es_gradient_record(settings, &world->seeds[s], &sums, &host);
        }
    }
    EsAblation list = es_ablation_list(settings, world->seeds);
    float patterns[ES_ABLATION_PATTERNS_MAX];
    EsInteractions pairs;
    for (int32_t k = 0; k < es_ablation_count(&list); k++) {
        uint32_t word = life_word(key, LIFE_DRAW_PATTERNS + k);
        patterns[k] = world->env.accuracy + 6 * es_random_uniform(word) - (k > 0 ? 4.0f : 6.0f);
        if (word % 50 == 0) {
            patterns[k] = (float)es_math_nan();
        }
    }
    es_contribution_record(settings, &world->env, world->seeds, &list, patterns, &pairs);
}

// Everything of a step before the decision. Two losses in a hundred are no good.
static inline ES_HOST_DEVICE void life_measure(const LifeSettings *s, LifeWorld *world,
                                               LifeKey key) {
    uint32_t kind = life_below(key, LIFE_DRAW_MEASURES, 400);
    float loss = 0.7f + s->noise * life_number(key, LIFE_DRAW_MEASURES + 1);
    float accuracy = 50 + 80 * s->noise * life_number(key, LIFE_DRAW_MEASURES + 2);
    loss = kind < 3    ? (float)es_math_nan()
           : kind == 3 ? (float)es_math_infinity()
           : kind < 9  ? 1e30f
                       : loss;
    accuracy = kind == 20 ? (float)es_math_nan() : accuracy;
    es_env_measure(&s->growth, &world->env, world->seeds, loss, accuracy);
    life_measure_seeds(&s->growth, world, key);
}

// --- choices ---

static inline ES_HOST_DEVICE void life_keep_action(const EsAction *action, int8_t *heads) {
    for (int head = 0; head < ES_N_HEADS; head++) {
        heads[head] = action->head[head];
    }
}

static inline ES_HOST_DEVICE void life_keep_sampled(const EsSampled *sampled, int8_t *heads,
                                                    float *numbers) {
    life_keep_action(&sampled->action, heads);
    numbers[0] = sampled->log_probability;
    numbers[1] = sampled->confidence;
    numbers[2] = sampled->entropy;
}

// Mostly of a policy in training; some so far apart that probabilities underflow, some broken.
static inline ES_HOST_DEVICE void life_draw_logits(LifeKey key, int first, int n, float *logits) {
    uint32_t kind = life_word(key, first) % 64, at = life_word(key, first + 1) % (uint32_t)n;
    float scale = kind < 40 ? 3.0f : kind < 56 ? 30.0f : 800.0f;
    for (int i = 0; i < n; i++) {
        logits[i] = scale * life_number(key, first + i);
    }
    if (kind < 3) {
        logits[at] = kind == 0   ? (float)es_math_nan()
                     : kind == 1 ? (float)es_math_infinity()
                                 : (float)-es_math_infinity();
    }
}

// Weight of a gradient: 0 now and then, which the rules treat apart.
static inline ES_HOST_DEVICE double life_weight(LifeKey key, int i) {
    return life_word(key, i) % 8 == 0 ? 0.0 : (double)life_number(key, i);
}

// nvcc 13.0 gives life_slopes other probabilities where it is inlined into the whole of a life,
// with ptxas at -O1 as well; out of line its bits are those of the CPU. The kernels of PPO call the
// same rules in other surroundings, and ppo_parity holds them to the CPU.
#ifdef __CUDACC__
#define LIFE_OUT_OF_LINE __noinline__
#else
#define LIFE_OUT_OF_LINE inline
#endif

// Gradients of all heads under the masks that a rollout keeps.
static LIFE_OUT_OF_LINE ES_HOST_DEVICE void life_slopes(const LifeSettings *s, const float *logits,
                                                        const EsLegality *legality,
                                                        const EsAction *action, LifeKey key,
                                                        float *d_logits) {
    double p[ES_CHOICE_MAX];
    for (int head = 0; head < ES_N_HEADS; head++) {
        int first = es_head_first_logit(head, s->growth.n_slots);
        int n = es_head_size(head, s->growth.n_slots), value = es_action_value(action, head);
        uint64_t mask = legality->mask[head];
        int n_legal = es_choice_probabilities(logits + first, n, mask, s->floor[head], p);
        // a placeholder need not be legal
        value = es_choice_is_legal(mask, value) ? value : es_choice_best(p, n, mask);
        for (int i = 0; i < n; i++) {
            d_logits[first + i] = 0;
        }
        es_choice_gradient(p, n, mask, n_legal, s->floor[head], value,
                           life_weight(key, LIFE_DRAW_SLOPES + 2 * head),
                           life_weight(key, LIFE_DRAW_SLOPES + 2 * head + 1), d_logits + first);
    }
}

// The learned policy's choice: drawn, the most likely one, what a rollout keeps, and its gradient.
static inline ES_HOST_DEVICE void life_choose_learned(const LifeSettings *s,
                                                      const EsActionMasks *masks, LifeKey key,
                                                      EsAction *drawn_action, EsAction *best_action,
                                                      LifeResults *results) {
    float logits[LIFE_LOGITS];
    EsActionKey action_key = {LIFE_SEED, key.env, key.step};
    int32_t n_slots = s->growth.n_slots;
    life_draw_logits(key, LIFE_DRAW_LOGITS, es_head_first_logit(ES_N_HEADS, n_slots), logits);
    EsSampled drawn = es_policy_sample(logits, n_slots, masks, s->floor, &action_key, 0);
    EsSampled best = es_policy_sample(logits, n_slots, masks, s->floor, &action_key, 1);
    life_keep_sampled(&drawn, results->drawn_action, results->drawn);
    life_keep_sampled(&best, results->best_action, results->best);
    *drawn_action = drawn.action;
    *best_action = best.action;
    EsLegality legality = es_masks_legality(masks, es_action_value(&drawn.action, ES_HEAD_OP));
    for (int head = 0; head < ES_N_HEADS; head++) {
        results->legal[head] = legality.mask[head];
    }
    results->legality[0] = legality.used;
    results->legality[1] = legality.available;
    results->legality[2] = (uint32_t)legality.is_forced;
    life_slopes(s, logits, &legality, &drawn.action, key, results->d_logits);
}

// The choice of version 2: a table whose numbers repeat, so that few are drawn.
static inline ES_HOST_DEVICE void life_choose_from_table(const LifeSettings *s,
                                                         const EsActionMasks *masks, LifeKey key,
                                                         LifeResults *results) {
    float drawn[LIFE_LOGITS], table[LIFE_TABLE];
    EsActionKey action_key = {LIFE_SEED + 2, key.env, key.step};
    life_draw_logits(key, LIFE_DRAW_LOGITS, LIFE_LOGITS, drawn);
    for (int i = 0; i < es_choice_table_size(s->growth.n_slots); i++) {
        table[i] = drawn[i % LIFE_LOGITS];
    }
    EsLogits logits = {table, s->growth.n_slots, 1};
    EsSampled sampled = es_policy_sample_from(&logits, masks, s->floor, &action_key, 0);
    life_keep_sampled(&sampled, results->table_action, results->table);
}

// One choice of 1 to 64 values under any mask, the empty one among them.
static inline ES_HOST_DEVICE void life_choose_in_row(LifeKey key, LifeResults *results) {
    float logits[ES_CHOICE_MAX];
    double *p = results->row_p;
    const int more = LIFE_DRAW_ROW + ES_CHOICE_MAX;
    int n = 1 + (int)life_below(key, more, ES_CHOICE_MAX);
    uint64_t mask = (uint64_t)life_word(key, more + 1) << 32 | life_word(key, more + 2);
    mask = life_word(key, more + 3) % 4 == 0 ? mask & (mask >> 7) & (mask >> 13) : mask;
    float floor = life_word(key, more + 4) % 3 == 0 ? 0.0f : 0.05f;
    for (int i = 0; i < ES_CHOICE_MAX; i++) {
        p[i] = 0;
        results->row_d_logits[i] = 0;
    }
    life_draw_logits(key, LIFE_DRAW_ROW, n, logits);
    int n_legal = es_choice_probabilities(logits, n, mask, floor, p);
    int drawn = es_choice_draw(p, n, mask, es_random_uniform(life_word(key, more + 5)));
    results->row_choices[0] = n_legal;
    results->row_choices[1] = drawn;
    results->row_choices[2] = es_choice_best(p, n, mask);
    results->row_numbers[0] = drawn >= 0 ? es_choice_log_probability(p, drawn) : 0.0;
    results->row_numbers[1] = es_choice_entropy(p, n, n_legal);
    es_choice_gradient(p, n, mask, n_legal, floor, drawn, life_weight(key, more + 6),
                       life_weight(key, more + 7), results->row_d_logits);
}

static inline ES_HOST_DEVICE EsAction life_anything(const EsAction *uniform, LifeKey key) {
    EsAction action = *uniform;
    if (life_word(key, LIFE_DRAW_ACTION + ES_N_HEADS) % 4 == 0) {
        for (int head = 0; head < ES_N_HEADS; head++) {
            action.head[head] = (int8_t)((int)life_below(key, LIFE_DRAW_ACTION + head, 18) - 1);
        }
    }
    return action;
}

// All policies decide; the driver's action is carried out.
static inline ES_HOST_DEVICE EsAction life_choose(const LifeSettings *s, LifeWorld *world,
                                                  LifeKey key) {
    LifeResults *results = &world->results;
    EsActionMasks masks = es_env_masks(&s->growth, &world->env, world->seeds);
    EsActionKey action_key = {LIFE_SEED + 1, key.env, key.step};
    EsAction drawn, best;
    for (int op = 0; op < ES_N_GROWTH_OPS; op++) {
        results->mask_slots[op] = masks.slot_by_op[op];
    }
    for (int head = 0; head < ES_N_HEADS; head++) {
        results->mask_heads[head] = masks.head[head];
    }
    for (int slot = 0; slot < ES_SLOTS_MAX; slot++) {
        results->over_budget[slot] = masks.over_budget[slot];
        results->gate_over_budget[slot] = masks.gate_over_budget[slot];
    }
    EsAction heuristic = es_heuristic_decide(&world->rules, &s->growth, &world->env, world->seeds,
                                             &masks, &world->memory);
    EsAction uniform = es_uniform_action(&action_key, &masks);
    life_keep_action(&heuristic, results->heuristic_action);
    life_keep_action(&uniform, results->uniform_action);
    life_choose_learned(s, &masks, key, &drawn, &best, results);
    life_choose_from_table(s, &masks, key, results);
    life_choose_in_row(key, results);
    switch (key.env / LIFE_KINDS % LIFE_DRIVERS) {
    case LIFE_BY_HEURISTIC:
        return heuristic;
    case LIFE_BY_UNIFORM:
        return uniform;
    case LIFE_BY_DRAW:
        return drawn;
    case LIFE_BY_BEST:
        return best;
    default:
        return life_anything(&uniform, key);
    }
}

// --- reward ---

// Reward of the step in every mode, each with a memory of its own.
static inline ES_HOST_DEVICE void life_reward(const LifeSettings *s, LifeWorld *world,
                                              const EsRewardSeed *latched) {
    for (int mode = 0; mode < ES_N_REWARD_MODES; mode++) {
        EsRewardRules rules = {&s->reward[mode], &s->growth, s->n_host_parameters};
        EsRewardTerms terms =
            es_reward_step(&rules, &world->reward[mode], latched, &world->env, world->seeds);
        float *kept = world->results.terms + mode * LIFE_TERMS;
        int n = 0;
        kept[n++] = terms.total;
#define X(name, help) kept[n++] = terms.name;
        ES_REWARD_TERMS(X)
#undef X
        world->results.stability[mode] = es_reward_env_stability(&world->reward[mode]);
    }
    world->env.n_unrewarded_prunes = 0;
}

// --- a step ---

static inline ES_HOST_DEVICE void life_begin(const LifeSettings *s, LifeWorld *world) {
    es_env_reset(&s->growth, &world->env, world->seeds);
    world->rules = es_heuristic_settings(&s->growth);
    world->memory = es_heuristic_start();
    for (int mode = 0; mode < ES_N_REWARD_MODES; mode++) {
        es_reward_env_reset(&world->reward[mode]);
    }
}

// Step 0 begins the first episode; later ones begin where one has ended.
static inline ES_HOST_DEVICE void life_step(const LifeSettings *kinds, LifeWorld *world,
                                            uint32_t env, uint32_t step) {
    const LifeSettings *s = life_settings(kinds, env);
    LifeKey key = {env, step};
    EsRewardSeed latched[ES_SLOTS_MAX];
    if (step == 0 || world->env.step > s->growth.episode_steps) {
        life_begin(s, world);
    }
    life_measure(s, world, key);
    es_env_observe(&s->growth, &world->env, world->seeds, world->results.features,
                   world->results.blueprints);
    es_set_observe(&s->growth, &world->env, world->seeds, world->results.set_features,
                   world->results.blueprints);
    EsAction action = life_choose(s, world, key);
    for (int32_t i = 0; i < s->growth.n_slots; i++) {
        latched[i] = es_reward_seed_latch(&world->seeds[i]);
    }
    es_env_apply(&s->growth, &world->env, world->seeds, &action);
    es_env_tick(&s->growth, &world->env, world->seeds);
    life_reward(s, world, latched);
}

// --- the same lives on CUDA ---

ES_EXTERN_C_BEGIN

typedef struct LivesCuda LivesCuda;

// kinds [LIFE_KINDS] is copied. UNSUPPORTED in a build without CUDA.
EsStatus lives_cuda_create(const LifeSettings *kinds, uint32_t n_envs, LivesCuda **lives);

// One step of all environments; worlds [n_envs] receives what they are then.
EsStatus lives_cuda_step(LivesCuda *lives, uint32_t step, LifeWorld *worlds);

void lives_cuda_destroy(LivesCuda *lives);

ES_EXTERN_C_END

#endif
