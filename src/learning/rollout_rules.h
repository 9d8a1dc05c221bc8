// Rules for the rows of one environment: a breakdown, and advantages. Written once for CPU and
// CUDA; different environments touch different rows, so that each may have a thread of its own.
//
//     es_rollout_view_break(&view, t, env, reward, penalty);
//     es_rollout_view_finish(&view, env, &options);
//
// rollout.h is the contract of both.
#ifndef ES_LEARNING_ROLLOUT_RULES_H
#define ES_LEARNING_ROLLOUT_RULES_H

#include "base/math_rules.h"
#include "learning/rollout.h"

static inline ES_HOST_DEVICE int64_t es_rollout_view_row(const EsRolloutView *view, int64_t t,
                                                         int64_t env) {
    return t * view->shape.n_envs + env;
}

static inline ES_HOST_DEVICE void es_rollout_view_break(const EsRolloutView *view, int64_t t,
                                                        int64_t env, float reward, float penalty) {
    view->is_valid[es_rollout_view_row(view, t, env)] = 0;
    if (t + 1 < view->shape.n_steps) {
        view->is_reset[es_rollout_view_row(view, t + 1, env)] = 1;
    }
    for (int64_t before = t - 1; before >= 0; before--) {
        int64_t row = es_rollout_view_row(view, before, env);
        if (!view->is_valid[row]) {
            continue;
        }
        if (!view->is_done[row]) {
            view->reward[row] += reward;
            view->penalty[row] += penalty;
            view->is_done[row] = 1;
            view->is_truncated[row] = 0;
        }
        return;
    }
}

static inline ES_HOST_DEVICE double es_rollout_scale_reward(double reward, double penalty,
                                                            const EsAdvantageOptions *options) {
    double scaled = reward / options->reward_scale + penalty;
    // the clamp would turn NaN into a number
    return es_math_is_finite(scaled)
               ? es_math_clamp(scaled, -options->reward_clip, options->reward_clip)
               : scaled;
}

static inline ES_HOST_DEVICE void es_rollout_view_finish(const EsRolloutView *view, int64_t env,
                                                         const EsAdvantageOptions *options) {
    double next_value = 0, next_advantage = 0;
    int is_last = 1; // no valid row was met yet, going backwards
    for (int64_t t = view->shape.n_steps - 1; t >= 0; t--) {
        int64_t row = es_rollout_view_row(view, t, env);
        if (!view->is_valid[row]) {
            view->scaled_reward[row] = view->advantage[row] = 0;
            view->returns[row] = view->td_error[row] = 0;
            continue;
        }
        double value = (double)view->value[row] * options->value_scale;
        double reward =
            es_rollout_scale_reward((double)view->reward[row], (double)view->penalty[row], options);
        if (view->is_done[row] || is_last) {
            int goes_on = view->is_done[row] ? view->is_truncated[row] && options->bootstraps : 1;
            next_value = goes_on ? (double)view->bootstrap[row] * options->value_scale : 0;
            next_advantage = 0;
        }
        double delta = reward + options->gamma * next_value - value;
        double advantage = delta + options->gamma * options->lambda * next_advantage;
        view->scaled_reward[row] = (float)reward;
        view->advantage[row] = (float)advantage;
        view->returns[row] = (float)(advantage + value);
        view->td_error[row] = (float)delta;
        next_value = value;
        next_advantage = advantage;
        is_last = 0;
    }
}

#endif
