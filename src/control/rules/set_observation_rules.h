// Observation version 2 of one environment: slots as a set. 39 numbers of the host, then 66 of
// every slot, and the blueprint of every slot. docs/growing.md tables them.
//
// A slot's numbers say where it is instead of which one it is, and are the same in whatever order
// slots stand: one encoder can read them all (policy version 2). Times are shares of the episode or
// of a dwell time, parameters are relative to the host or to the budget, so that hosts, episodes,
// dwell tables and budgets of any size look alike. Every number is finite and scaled as it stands:
// shares, one-hots and flags lie in 0..1, signed quantities in -1..1, logarithms and ratios in
// 0..2; -1 is "not measured" or "not legal". No running scale is applied to them: one that had
// watched a single host would blow up what differs on another.
//
// S slots.
#ifndef ES_CONTROL_SET_OBSERVATION_RULES_H
#define ES_CONTROL_SET_OBSERVATION_RULES_H

#include "control/rules/observation_rules.h"
#include "kernels/kernel_types.h"

#define ES_SET_OBSERVATION_VERSION 2
#define ES_SET_OBSERVATION_HOST    39
#define ES_SET_OBSERVATION_SLOT    66

// Positions in the part of the host.
enum {
    ES_SET_HOST_LEFT = 0,
    ES_SET_HOST_LOSS = 1,
    ES_SET_HOST_ACCURACY = 2,
    ES_SET_HOST_LOSSES = 3, // oldest first
    ES_SET_HOST_ACCURACIES = 8,
    ES_SET_HOST_TRAINING = 13, // shares of the slots
    ES_SET_HOST_BLENDING = 14,
    ES_SET_HOST_KEPT = 15, // HOLDING and FOSSILIZED
    ES_SET_HOST_OCCUPIED = 16,
    ES_SET_HOST_SUCCESS = 17,
    ES_SET_HOST_LAST_OP = 18, // one-hot
    ES_SET_HOST_RATE = 24,
    ES_SET_HOST_CLASSES = 25,
    ES_SET_HOST_HAS_BUDGET = 26,
    ES_SET_HOST_BUDGET_USED = 27,
    ES_SET_HOST_BUDGET_LEFT = 28,
    ES_SET_HOST_GROWN = 29,
    ES_SET_HOST_TRAINING_DWELL = 30, // shares of the episode
    ES_SET_HOST_FAST_RAMP = 31,
    ES_SET_HOST_SLOW_RAMP = 32,
    ES_SET_HOST_COOLING = 33,
    ES_SET_HOST_STRICT = 34,
    ES_SET_HOST_AUTO_FORWARD = 35, // G1, G2, G3
    ES_SET_HOST_SLOTS = 38
};

// Positions in the part of a slot.
enum {
    ES_SET_SLOT_DEPTH = 0,
    ES_SET_SLOT_CHANNELS = 1,
    ES_SET_SLOT_SIDE = 2,
    ES_SET_SLOT_BEFORE_POOL = 3,
    ES_SET_SLOT_AFTER_POOL = 4,
    ES_SET_SLOT_SEED = 5, // ES_OBSERVE_SEED_*, all 0 when it is empty
    ES_SET_SLOT_DWELL = ES_SET_SLOT_SEED + ES_OBSERVATION_SLOT,
    ES_SET_SLOT_RIPE,
    ES_SET_SLOT_GROWN,
    ES_SET_SLOT_COSTS,                                           // of each blueprint, to the host
    ES_SET_SLOT_SHARES = ES_SET_SLOT_COSTS + ES_N_BLUEPRINT_IDS, // and to the budget left
    ES_SET_SLOT_GATE = ES_SET_SLOT_SHARES + ES_N_BLUEPRINT_IDS   // a gate to the budget left
};

static inline ES_HOST_DEVICE int32_t es_set_observation_size(int32_t n_slots) {
    return ES_SET_OBSERVATION_HOST + ES_SET_OBSERVATION_SLOT * n_slots;
}

// ln(1 + part / whole) / 2 in 0..2; 0 where the whole is unknown.
static inline ES_HOST_DEVICE float es_observe_ratio(int64_t part, int64_t whole) {
    if (whole <= 0 || part <= 0) {
        return 0.0f;
    }
    double ratio = (double)part / (double)whole;
    return (float)es_math_clamp(es_math_log(1 + ratio) / 2, 0, 2);
}

// A cost as a share of the budget left, at most 2; above 1 it does not fit. 0 without a limit.
static inline ES_HOST_DEVICE float es_observe_budget_share(int64_t cost, int64_t left) {
    if (left == INT64_MAX || cost <= 0) {
        return 0.0f;
    }
    return left == 0 ? 2.0f : (float)es_math_clamp((double)cost / (double)left, 0, 2);
}

// Share of the learning rate that the course of the recipe leaves to the last update of the step
// after this decision: what a seed that germinates now starts with.
static inline ES_HOST_DEVICE float es_observe_rate(const EsGrowthSettings *settings, int32_t step) {
    double n = settings->episode_steps, at = step < settings->episode_steps ? step + 1 : n;
    double warmup = (double)settings->rate_warmup * n;
    double final_share = (double)settings->rate_final;
    if (at < warmup) {
        return (float)(at / warmup);
    }
    double progress = n > warmup ? (at - warmup) / (n - warmup) : 1;
    switch (settings->rate_decay) {
    case ES_DECAY_LINEAR:
        return (float)(1 - (1 - final_share) * progress);
    case ES_DECAY_COSINE:
        return (float)(final_share + (1 - final_share) * 0.5 *
                                         (1 + es_math_cos(3.14159265358979323846 * progress)));
    case ES_DECAY_STEP: {
        double share = 1;
        int32_t every = settings->rate_steps > 0 ? settings->rate_steps : 1;
        for (int32_t i = every; i <= step && share > 1e-9; i += every) {
            share *= (double)settings->rate_factor;
        }
        return (float)share;
    }
    default:
        return 1.0f;
    }
}

// Parameters that the budget leaves, as a policy sees them; INT64_MAX: no limit.
static inline ES_HOST_DEVICE int64_t es_observe_left(const EsGrowthSettings *settings,
                                                     const EsSeed *seeds) {
    return settings->hidden_inputs == ES_HIDE_BUDGET ? INT64_MAX
                                                     : es_parameters_left(settings, seeds);
}

// The learning rate, the budget, the dwell table, the gates and the number of slots.
static inline ES_HOST_DEVICE void es_set_observe_settings(const EsGrowthSettings *settings,
                                                          const EsGrowthEnv *env,
                                                          const EsSeed *seeds, float *out) {
    int64_t grown = es_seeds_parameters(settings, seeds), host = settings->n_host_parameters;
    int64_t left = es_observe_left(settings, seeds);
    int has_budget = left != INT64_MAX;
    int32_t cooling = settings->embargo_dwell + settings->reset_dwell;
    out[ES_SET_HOST_RATE] = es_observe_rate(settings, env->step);
    out[ES_SET_HOST_CLASSES] = es_observe_logarithm((float)settings->n_classes);
    out[ES_SET_HOST_HAS_BUDGET] = has_budget ? 1.0f : 0.0f;
    out[ES_SET_HOST_BUDGET_USED] =
        has_budget ? es_observe_share((float)(host + grown), (float)settings->max_parameters)
                   : 0.0f;
    out[ES_SET_HOST_BUDGET_LEFT] = has_budget ? es_observe_ratio(left, host) : 2.0f;
    out[ES_SET_HOST_GROWN] = es_observe_ratio(grown, host);
    out[ES_SET_HOST_TRAINING_DWELL] = es_observe_steps(settings, settings->training_dwell);
    out[ES_SET_HOST_FAST_RAMP] = es_observe_steps(settings, settings->tempo[0]);
    out[ES_SET_HOST_SLOW_RAMP] = es_observe_steps(settings, settings->tempo[2]);
    out[ES_SET_HOST_COOLING] = es_observe_steps(settings, cooling);
    out[ES_SET_HOST_STRICT] = settings->is_strict ? 1.0f : 0.0f;
    for (int32_t gate = 0; gate < 3; gate++) {
        out[ES_SET_HOST_AUTO_FORWARD + gate] = (float)((settings->auto_forward >> gate) & 1);
    }
    out[ES_SET_HOST_SLOTS] = (float)settings->n_slots / ES_SLOTS_MAX;
}

// The episode so far: all of the host's part but es_set_observe_settings.
static inline ES_HOST_DEVICE void es_set_observe_course(const EsGrowthSettings *settings,
                                                        const EsGrowthEnv *env, const EsSeed *seeds,
                                                        float *out) {
    float before[ES_OBSERVATION_HOST];
    int32_t n_occupied = 0;
    es_observe_host(settings, env, seeds, before);
    for (int32_t s = 0; s < settings->n_slots; s++) {
        n_occupied += seeds[s].stage != ES_STAGE_DORMANT;
    }
    out[ES_SET_HOST_LEFT] = 1.0f - before[ES_OBSERVE_PROGRESS];
    for (int32_t i = ES_SET_HOST_LOSS; i <= ES_SET_HOST_KEPT; i++) {
        out[i] = before[i]; // loss to shares of slots stand as in version 1
    }
    out[ES_SET_HOST_OCCUPIED] = (float)n_occupied / (float)settings->n_slots;
    out[ES_SET_HOST_SUCCESS] = before[ES_OBSERVE_SUCCESS];
    for (int32_t op = 0; op < ES_N_GROWTH_OPS; op++) {
        out[ES_SET_HOST_LAST_OP + op] = before[ES_OBSERVE_LAST_OP + op];
    }
}

// The part of the host, [39].
static inline ES_HOST_DEVICE void es_set_observe_host(const EsGrowthSettings *settings,
                                                      const EsGrowthEnv *env, const EsSeed *seeds,
                                                      float *out) {
    es_set_observe_course(settings, env, seeds, out);
    es_set_observe_settings(settings, env, seeds, out);
}

// Steps that a seed must spend in its stage; 0 where none are asked for.
static inline ES_HOST_DEVICE int32_t es_stage_dwell(const EsGrowthSettings *settings,
                                                    const EsSeed *seed) {
    switch (seed->stage) {
    case ES_STAGE_TRAINING:
        return settings->training_dwell;
    case ES_STAGE_BLENDING:
        return settings->is_strict && settings->blending_dwell > seed->alpha_ticks
                   ? settings->blending_dwell
                   : seed->alpha_ticks;
    case ES_STAGE_HOLDING:
        return settings->holding_dwell;
    case ES_STAGE_EMBARGOED:
        return settings->embargo_dwell;
    case ES_STAGE_RESETTING:
        return settings->reset_dwell;
    default:
        return 0;
    }
}

// Steps over the steps that are asked for, at most 1.
static inline ES_HOST_DEVICE float es_observe_dwell(int32_t steps, int32_t dwell) {
    return dwell > 0 ? (float)es_math_clamp((double)steps / dwell, 0, 1) : 1.0f;
}

// The seed in a slot, all 0 when it is empty.
static inline ES_HOST_DEVICE void es_set_observe_seed(const EsGrowthSettings *settings,
                                                      const EsSeed *seed, float *out) {
    float *as_before = out + ES_SET_SLOT_SEED;
    es_observe_slot(settings, seed, as_before);
    out[ES_SET_SLOT_DWELL] = out[ES_SET_SLOT_RIPE] = out[ES_SET_SLOT_GROWN] = 0;
    if (as_before[ES_OBSERVE_SEED_PRESENT] == 0) {
        return;
    }
    as_before[ES_OBSERVE_SEED_TEMPO] = es_observe_steps(settings, seed->tempo);
    as_before[ES_OBSERVE_SEED_FRESHNESS] =
        es_contribution_is_measured(seed)
            ? 1.0f - es_observe_steps(settings, seed->contribution_age)
            : ES_NOT_MEASURED;
    out[ES_SET_SLOT_DWELL] = es_observe_dwell(seed->steps_in_stage, es_stage_dwell(settings, seed));
    out[ES_SET_SLOT_RIPE] = es_observe_dwell(seed->age, settings->prune_age);
    out[ES_SET_SLOT_GROWN] = es_stage_in(seed->stage, ES_STAGES_LIVING)
                                 ? es_observe_ratio(seed->n_parameters, settings->n_host_parameters)
                                 : 0.0f;
}

// The place of the slot, and the cost of a gate there. `left` is es_observe_left. A slot whose
// place is hidden has its number instead.
static inline ES_HOST_DEVICE void es_set_observe_place(const EsGrowthSettings *settings, int32_t s,
                                                       int64_t left, float *out) {
    int32_t depth = settings->slot_column[s] + 1, pool = settings->slot_pool[s];
    out[ES_SET_SLOT_GATE] = es_observe_budget_share(settings->gate_parameters[s], left);
    if (settings->hidden_inputs == ES_HIDE_PLACE) {
        out[ES_SET_SLOT_DEPTH] = (float)(s + 1) / ES_SLOTS_MAX;
        out[ES_SET_SLOT_CHANNELS] = out[ES_SET_SLOT_SIDE] = 0.0f;
        out[ES_SET_SLOT_BEFORE_POOL] = out[ES_SET_SLOT_AFTER_POOL] = 0.0f;
        return;
    }
    out[ES_SET_SLOT_DEPTH] = es_observe_dwell(depth, settings->n_blocks);
    out[ES_SET_SLOT_CHANNELS] = es_observe_logarithm((float)settings->slot_channels[s]);
    out[ES_SET_SLOT_SIDE] = es_observe_logarithm((float)settings->slot_side[s]);
    out[ES_SET_SLOT_BEFORE_POOL] = pool == ES_SLOT_POOL_BEFORE ? 1.0f : 0.0f;
    out[ES_SET_SLOT_AFTER_POOL] = pool == ES_SLOT_POOL_AFTER ? 1.0f : 0.0f;
}

// The costs of a blueprint in the slot.
static inline ES_HOST_DEVICE void es_set_observe_cost(const EsGrowthSettings *settings, int32_t s,
                                                      int32_t blueprint, int64_t left, float *out) {
    int64_t cost = settings->blueprint_parameters[s][blueprint];
    int is_legal = es_blueprint_is_legal(settings, blueprint);
    out[ES_SET_SLOT_COSTS + blueprint] =
        is_legal ? es_observe_ratio(cost, settings->n_host_parameters) : ES_NOT_MEASURED;
    out[ES_SET_SLOT_SHARES + blueprint] =
        is_legal ? es_observe_budget_share(cost, left) : ES_NOT_MEASURED;
}

// features [39 + 66 S], blueprints [S].
static inline ES_HOST_DEVICE void es_set_observe(const EsGrowthSettings *settings,
                                                 const EsGrowthEnv *env, const EsSeed *seeds,
                                                 float *features, int32_t *blueprints) {
    int64_t left = es_observe_left(settings, seeds);
    es_set_observe_host(settings, env, seeds, features);
    for (int32_t s = 0; s < settings->n_slots; s++) {
        float *out =
            features + ES_SET_OBSERVATION_HOST + (size_t)ES_SET_OBSERVATION_SLOT * (size_t)s;
        es_set_observe_place(settings, s, left, out);
        for (int32_t b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
            es_set_observe_cost(settings, s, b, left, out);
        }
        es_set_observe_seed(settings, &seeds[s], out);
        blueprints[s] = es_observe_blueprint(&seeds[s]);
    }
}

#endif
