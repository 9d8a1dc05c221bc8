// Rollouts with everything that PPO treats in its own way: breakdowns, forced rows, environments
// that end early or go on, heads that are used, causal or only available, measured targets.
#ifndef ES_TESTS_CONTROL_PPO_CASE_H
#define ES_TESTS_CONTROL_PPO_CASE_H

#include "control/policy_case.h"

// A number in [0, 1) of a stream.
static float draw_share(uint32_t stream, int64_t i) {
    return 0.5f + 0.5f * draw_uniform(stream, i);
}

static uint32_t draw_bits(uint32_t stream, int64_t i) {
    EsRandom4 draw = es_random_draw(20261115, stream, ES_PURPOSE_EVALUATION, 1, (uint32_t)i);
    return draw.word[0];
}

// Some values of each head are legal, the action is one of them.
static void fill_choices(EsRollout *rollout, uint32_t stream, int64_t row) {
    const EsPolicyShape *policy = &rollout->shape.policy;
    uint32_t all = (1u << policy->n_heads) - 1u;
    for (int64_t h = 0; h < policy->n_heads; h++) {
        int64_t at = row * policy->n_heads + h;
        int n = policy->head_size[h];
        int action = (int)(draw_bits(stream, at) % (uint32_t)n);
        rollout->action[at] = (int16_t)action;
        // every fourth head has no choice
        uint64_t others = at % 4 == 3 ? 0 : draw_bits(stream + 1, at);
        rollout->mask[at] = (others & ((1u << n) - 1u)) | (uint64_t)1 << action;
    }
    uint32_t used = draw_bits(stream + 2, row) & all;
    rollout->used[row] = used;
    rollout->available[row] = (used | draw_bits(stream + 3, row)) & all;
    rollout->causal[row] = draw_bits(stream + 4, row) & all;
    rollout->is_forced[row] = draw_share(stream + 5, row) < 0.15f;
}

static void fill_outcome(EsRollout *rollout, uint32_t stream, int64_t row) {
    rollout->value[row] = draw_uniform(stream, row);
    rollout->reward[row] = 4.0f * draw_uniform(stream + 1, row);
    rollout->bootstrap[row] = draw_uniform(stream + 2, row);
    rollout->is_valid[row] = 1;
    for (int64_t k = 0; k < rollout->shape.n_targets; k++) {
        int64_t at = row * rollout->shape.n_targets + k;
        rollout->has_target[at] = draw_share(stream + 3, at) < 0.4f;
        rollout->target[at] = 14.0f * draw_uniform(stream + 4, at); // some beyond the clip
    }
}

// Fill a rollout whose features are there. Every third environment ends early, every fifth episode
// ends by the clock, the others are cut; one row in sixteen breaks.
static void fill_rows(EsRollout *rollout, uint32_t stream) {
    int64_t T = rollout->shape.n_steps, E = rollout->shape.n_envs;
    for (int64_t e = 0; e < E; e++) {
        int64_t n_steps = e % 3 == 1 && T > 1 ? T / 2 : T;
        for (int64_t t = 0; t < n_steps; t++) {
            int64_t row = es_rollout_row(rollout, t, e);
            fill_choices(rollout, stream, row);
            fill_outcome(rollout, stream + 8, row);
            if (draw_share(stream + 16, row) < 1.0f / 16) {
                es_rollout_break(rollout, t, e, -2.0f, -3.0f);
            }
        }
        int64_t last = es_rollout_row(rollout, n_steps - 1, e);
        rollout->is_done[last] = e % 3 == 1 || e % 5 == 0;
        rollout->is_truncated[last] = e % 5 == 0;
    }
}

#endif
