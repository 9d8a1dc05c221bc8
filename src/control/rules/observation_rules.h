// Observation of one environment: 23 + 31 S numbers, and the blueprint of every slot.
// docs/growing.md tables them. "Not measured" is -1 and never looks healthy.
//
// Every number is finite: shares and one-hots lie in 0..1, signed quantities in -1..1, logarithms
// in 0..2. A value that cannot be measured, or is not finite, is -1. Slots stand row by row, as in
// actions.
//
// S slots.
#ifndef ES_CONTROL_OBSERVATION_RULES_H
#define ES_CONTROL_OBSERVATION_RULES_H

#include "growth/rules/alpha_rules.h"
#include "growth/rules/mask_rules.h"
#include "growth/rules/tracker_rules.h"

#define ES_OBSERVATION_VERSION    1
#define ES_OBSERVATION_HOST       23
#define ES_OBSERVATION_SLOT       31
#define ES_OBSERVATION_BLUEPRINTS 14 // EsBlueprintId, and 13 for an empty slot
#define ES_OBSERVATION_NO_SEED    (ES_OBSERVATION_BLUEPRINTS - 1)
#define ES_OBSERVATION_HISTORY    5     // losses and accuracies
#define ES_OBSERVATION_DECAY      0.995 // of freshness, per step

// Positions in the part of the host, and in the part of a slot.
enum {
    ES_OBSERVE_PROGRESS = 0,
    ES_OBSERVE_LOSS = 1,
    ES_OBSERVE_ACCURACY = 2,
    ES_OBSERVE_LOSSES = 3, // oldest first
    ES_OBSERVE_ACCURACIES = 8,
    ES_OBSERVE_N_TRAINING = 13,
    ES_OBSERVE_N_BLENDING = 14,
    ES_OBSERVE_N_KEPT = 15, // HOLDING and FOSSILIZED
    ES_OBSERVE_SUCCESS = 16,
    ES_OBSERVE_LAST_OP = 17, // one-hot
    ES_OBSERVE_SEED_PRESENT = 0,
    ES_OBSERVE_SEED_STAGE = 1, // one-hot
    ES_OBSERVE_SEED_ALPHA = 11,
    ES_OBSERVE_SEED_CONTRIBUTION = 12,
    ES_OBSERVE_SEED_VELOCITY = 13, // of the contribution
    ES_OBSERVE_SEED_TEMPO = 14,
    ES_OBSERVE_SEED_TARGET = 15,
    ES_OBSERVE_SEED_MODE = 16,
    ES_OBSERVE_SEED_TICKS = 17,
    ES_OBSERVE_SEED_TICKS_DONE = 18,
    ES_OBSERVE_SEED_TICKS_LEFT = 19,
    ES_OBSERVE_SEED_ALPHA_VELOCITY = 20,
    ES_OBSERVE_SEED_ALGORITHM = 21,
    ES_OBSERVE_SEED_INTERACTION = 22,
    ES_OBSERVE_SEED_GRADIENT_NORM = 23,
    ES_OBSERVE_SEED_HEALTH = 24,
    ES_OBSERVE_SEED_VANISHING = 25,
    ES_OBSERVE_SEED_EXPLODING = 26,
    ES_OBSERVE_SEED_PREVIOUS_HEALTH = 27,
    ES_OBSERVE_SEED_STEPS_IN_STAGE = 28,
    ES_OBSERVE_SEED_FRESHNESS = 29,
    ES_OBSERVE_SEED_AGE = 30
};

static inline ES_HOST_DEVICE int32_t es_observation_size(int32_t n_slots) {
    return ES_OBSERVATION_HOST + ES_OBSERVATION_SLOT * n_slots;
}

// ln(1 + x) / 7, at most 2; -1 if not measured: below 0 or not finite.
static inline ES_HOST_DEVICE float es_observe_logarithm(float x) {
    if (!(x >= 0) || !es_math_is_finite((double)x)) {
        return ES_NOT_MEASURED;
    }
    return (float)es_math_clamp(es_math_log(1 + (double)x) / 7, 0, 2);
}

// x / whole in 0..1; -1 if not measured.
static inline ES_HOST_DEVICE float es_observe_share(float x, float whole) {
    if (!(x >= 0) || !es_math_is_finite((double)x)) {
        return ES_NOT_MEASURED;
    }
    return (float)es_math_clamp((double)x / (double)whole, 0, 1);
}

// Percent points / 10 in -1..1; 0 where they are not finite.
static inline ES_HOST_DEVICE float es_observe_points(float x) {
    return es_math_is_finite((double)x) ? (float)es_math_clamp((double)x / 10, -1, 1) : 0.0f;
}

// Steps as a share of the episode.
static inline ES_HOST_DEVICE float es_observe_steps(const EsGrowthSettings *settings,
                                                    int32_t steps) {
    return (float)es_math_clamp((double)steps / settings->episode_steps, 0, 1);
}

// 0.995^age, age counted from a real measurement alone; -1 when there never was one.
static inline ES_HOST_DEVICE float es_observe_freshness(const EsSeed *seed) {
    if (!es_contribution_is_measured(seed)) {
        return ES_NOT_MEASURED;
    }
    return (float)es_math_exp(seed->contribution_age * es_math_log(ES_OBSERVATION_DECAY));
}

// The part of the host, [23].
static inline ES_HOST_DEVICE void es_observe_host(const EsGrowthSettings *settings,
                                                  const EsGrowthEnv *env, const EsSeed *seeds,
                                                  float *out) {
    int32_t n_training = 0, n_blending = 0, n_kept = 0;
    for (int32_t s = 0; s < settings->n_slots; s++) {
        n_training += seeds[s].stage == ES_STAGE_TRAINING;
        n_blending += seeds[s].stage == ES_STAGE_BLENDING;
        n_kept += seeds[s].stage == ES_STAGE_HOLDING || seeds[s].stage == ES_STAGE_FOSSILIZED;
    }
    out[ES_OBSERVE_PROGRESS] = es_observe_steps(settings, env->step);
    out[ES_OBSERVE_LOSS] = es_observe_logarithm(env->loss);
    out[ES_OBSERVE_ACCURACY] = es_observe_share(env->accuracy, 100);
    for (int32_t i = 0; i < ES_OBSERVATION_HISTORY; i++) {
        int32_t back = ES_OBSERVATION_HISTORY - 1 - i;
        out[ES_OBSERVE_LOSSES + i] =
            es_observe_logarithm(es_tracker_value(env, env->loss_history, back));
        out[ES_OBSERVE_ACCURACIES + i] =
            es_observe_share(es_tracker_value(env, env->accuracy_history, back), 100);
    }
    out[ES_OBSERVE_N_TRAINING] = (float)n_training / (float)settings->n_slots;
    out[ES_OBSERVE_N_BLENDING] = (float)n_blending / (float)settings->n_slots;
    out[ES_OBSERVE_N_KEPT] = (float)n_kept / (float)settings->n_slots;
    out[ES_OBSERVE_SUCCESS] = env->is_success ? 1.0f : 0.0f;
    for (int32_t op = 0; op < ES_N_GROWTH_OPS; op++) {
        out[ES_OBSERVE_LAST_OP + op] = op == env->sampled_op ? 1.0f : 0.0f;
    }
}

// Gradient statistics of a seed.
static inline ES_HOST_DEVICE void es_observe_gradients(const EsSeed *seed, float *out) {
    out[ES_OBSERVE_SEED_GRADIENT_NORM] = es_observe_logarithm(seed->gradient_norm);
    out[ES_OBSERVE_SEED_HEALTH] = es_observe_share(seed->gradient_health, 1);
    out[ES_OBSERVE_SEED_VANISHING] = seed->n_vanishing > 0 ? 1.0f : 0.0f;
    out[ES_OBSERVE_SEED_EXPLODING] = seed->n_exploding > 0 ? 1.0f : 0.0f;
    out[ES_OBSERVE_SEED_PREVIOUS_HEALTH] = es_observe_share(seed->previous_health, 1);
}

// The part of a slot, [31]: all 0 when it is empty. A slot that cools down is not.
static inline ES_HOST_DEVICE void es_observe_slot(const EsGrowthSettings *settings,
                                                  const EsSeed *seed, float *out) {
    for (int32_t i = 0; i < ES_OBSERVATION_SLOT; i++) {
        out[i] = 0;
    }
    int32_t stage = es_stage_one_hot(seed->stage);
    if (seed->stage == ES_STAGE_DORMANT || stage < 0) {
        return;
    }
    int32_t left = seed->alpha_ticks - seed->alpha_ticks_done;
    out[ES_OBSERVE_SEED_PRESENT] = 1;
    out[ES_OBSERVE_SEED_STAGE + stage] = 1;
    out[ES_OBSERVE_SEED_ALPHA] = seed->alpha;
    out[ES_OBSERVE_SEED_CONTRIBUTION] =
        es_contribution_is_measured(seed) ? es_observe_points(seed->contribution) : 0.0f;
    out[ES_OBSERVE_SEED_VELOCITY] = es_observe_points(seed->contribution_velocity);
    out[ES_OBSERVE_SEED_TEMPO] = (float)es_math_clamp(seed->tempo / 12.0, 0, 2);
    out[ES_OBSERVE_SEED_TARGET] = seed->alpha_target;
    out[ES_OBSERVE_SEED_MODE] = (float)seed->alpha_mode / 2;
    out[ES_OBSERVE_SEED_TICKS] = es_observe_steps(settings, seed->alpha_ticks);
    out[ES_OBSERVE_SEED_TICKS_DONE] = es_observe_steps(settings, seed->alpha_ticks_done);
    out[ES_OBSERVE_SEED_TICKS_LEFT] = es_observe_steps(settings, left);
    out[ES_OBSERVE_SEED_ALPHA_VELOCITY] =
        (float)es_math_clamp((double)es_alpha_velocity(seed), -1, 1);
    out[ES_OBSERVE_SEED_ALGORITHM] =
        (float)es_math_clamp((seed->algorithm - ES_ALGORITHM_ADD) / 2.0, 0, 1);
    out[ES_OBSERVE_SEED_INTERACTION] = es_observe_points(seed->interaction_sum);
    es_observe_gradients(seed, out);
    out[ES_OBSERVE_SEED_STEPS_IN_STAGE] = es_observe_steps(settings, seed->steps_in_stage);
    out[ES_OBSERVE_SEED_FRESHNESS] = es_observe_freshness(seed);
    out[ES_OBSERVE_SEED_AGE] = es_observe_steps(settings, seed->age);
}

// EsBlueprintId, or 13 for an empty slot.
static inline ES_HOST_DEVICE int32_t es_observe_blueprint(const EsSeed *seed) {
    int is_empty = seed->stage == ES_STAGE_DORMANT || seed->blueprint < 0 ||
                   seed->blueprint >= ES_OBSERVATION_NO_SEED;
    return is_empty ? ES_OBSERVATION_NO_SEED : seed->blueprint;
}

// features [23 + 31 S], blueprints [S].
static inline ES_HOST_DEVICE void es_env_observe(const EsGrowthSettings *settings,
                                                 const EsGrowthEnv *env, const EsSeed *seeds,
                                                 float *features, int32_t *blueprints) {
    es_observe_host(settings, env, seeds, features);
    for (int32_t s = 0; s < settings->n_slots; s++) {
        es_observe_slot(settings, &seeds[s],
                        features + ES_OBSERVATION_HOST + (size_t)ES_OBSERVATION_SLOT * (size_t)s);
        blueprints[s] = es_observe_blueprint(&seeds[s]);
    }
}

#endif
