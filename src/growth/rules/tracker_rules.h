// The signal tracker: short history of a host's loss and accuracy, for observation alone.
#ifndef ES_GROWTH_TRACKER_RULES_H
#define ES_GROWTH_TRACKER_RULES_H

#include "growth/rules/seed_fields.h"

// Loss or accuracy `back` steps before the last recorded one (0 = the last); ES_NOT_MEASURED where
// there is none. History is one of the env's rings.
static inline ES_HOST_DEVICE float es_tracker_value(const EsGrowthEnv *env, const float *history,
                                                    int32_t back) {
    if (back < 0 || back >= env->n_tracked || back >= ES_TRACKER_WINDOW) {
        return ES_NOT_MEASURED;
    }
    return history[(env->n_tracked - 1 - back) % ES_TRACKER_WINDOW];
}

// Smallest loss in the window; ES_NOT_MEASURED before the first.
static inline ES_HOST_DEVICE float es_tracker_best_loss(const EsGrowthEnv *env) {
    float best = es_tracker_value(env, env->loss_history, 0);
    for (int32_t back = 1; back < ES_TRACKER_WINDOW && back < env->n_tracked; back++) {
        float loss = es_tracker_value(env, env->loss_history, back);
        best = loss < best ? loss : best;
    }
    return best;
}

// A step is stable when -5 % < (previous - loss) / previous < 3 %; three in a row latch.
static inline ES_HOST_DEVICE void es_tracker_stabilise(const EsGrowthSettings *settings,
                                                       EsGrowthEnv *env, float previous) {
    int is_stable = 0;
    if ((double)previous > 1e-8) {
        float relative = env->loss_delta / previous;
        is_stable = relative > -settings->stable_loss && relative < settings->stable_gain;
    }
    env->n_stable = is_stable ? env->n_stable + 1 : 0;
    if (env->n_stable >= settings->stable_steps) {
        env->is_stabilised = 1;
    }
}

// Records the validation of a step. A value that is not finite is not recorded, and the deltas are
// 0: there is nothing to compare with.
static inline ES_HOST_DEVICE void es_tracker_record(const EsGrowthSettings *settings,
                                                    EsGrowthEnv *env, float loss, float accuracy) {
    env->loss_delta = 0;
    env->accuracy_delta = 0;
    if (!es_math_is_finite((double)loss) || !es_math_is_finite((double)accuracy)) {
        return;
    }
    if (env->n_tracked > 0) {
        float previous = es_tracker_value(env, env->loss_history, 0);
        env->loss_delta = previous - loss;
        env->accuracy_delta = accuracy - es_tracker_value(env, env->accuracy_history, 0);
        env->plateau_steps =
            env->accuracy_delta < settings->plateau_points ? env->plateau_steps + 1 : 0;
        es_tracker_stabilise(settings, env, previous);
    }
    env->loss_history[env->n_tracked % ES_TRACKER_WINDOW] = loss;
    env->accuracy_history[env->n_tracked % ES_TRACKER_WINDOW] = accuracy;
    env->n_tracked++;
    env->best_accuracy = accuracy > env->best_accuracy ? accuracy : env->best_accuracy;
}

#endif
