#include "learning/rollout.h"

#include <string.h>

#include "base/arena.h"
#include "base/math_rules.h"
#include "learning/choice_rules.h"

EsPolicyShape es_policy_shape(int n_heads, const int *head_size) {
    ES_ASSERT(n_heads >= 1 && n_heads <= ES_POLICY_HEADS_MAX);
    EsPolicyShape shape = {.n_heads = n_heads};
    for (int h = 0; h < n_heads; h++) {
        shape.head_size[h] = head_size[h];
        shape.n_logits += head_size[h];
    }
    return shape;
}

static EsStatus check_policy(const EsPolicyShape *policy) {
    if (policy->n_heads < 1 || policy->n_heads > ES_POLICY_HEADS_MAX) {
        return ES_FAIL(ARGUMENT, "rollout: %d heads, must be 1 to %d", policy->n_heads,
                       ES_POLICY_HEADS_MAX);
    }
    if (es_policy_shape_is_ragged(policy)) {
        return policy->n_logits >= 1
                   ? ES_STATUS_OK
                   : ES_FAIL(ARGUMENT, "rollout: a ragged policy with room for %d logits in a row",
                             policy->n_logits);
    }
    int sum = 0;
    for (int h = 0; h < policy->n_heads; h++) {
        if (policy->head_size[h] < 1 || policy->head_size[h] > ES_CHOICE_MAX) {
            return ES_FAIL(ARGUMENT, "rollout: head %d has %d values, must have 1 to %d", h,
                           policy->head_size[h], ES_CHOICE_MAX);
        }
        sum += policy->head_size[h];
    }
    if (sum != policy->n_logits) {
        return ES_FAIL(ARGUMENT, "rollout: %d logits in a row, but the heads have %d values",
                       policy->n_logits, sum);
    }
    return ES_STATUS_OK;
}

static EsStatus check_shape(const EsRolloutShape *shape) {
    const int64_t most = (int64_t)1 << 31; // rows: products with sizes of a row stay far from 2^63
    if (shape->n_steps < 1 || shape->n_envs < 1 || shape->n_steps > most / shape->n_envs) {
        return ES_FAIL(ARGUMENT, "rollout: %lld steps of %lld environments",
                       (long long)shape->n_steps, (long long)shape->n_envs);
    }
    if (shape->n_features < 0 || shape->n_ids < 0 || shape->n_targets < 0) {
        return ES_FAIL(ARGUMENT, "rollout: %d features, %d ids, %d targets", shape->n_features,
                       shape->n_ids, shape->n_targets);
    }
    return check_policy(&shape->policy);
}

// Give every array its place in the slab. With slab NULL this measures: slab_bytes is what is
// needed, and the pointers mean nothing.
static void lay_out(EsRollout *r) {
    size_t rows = (size_t)r->n_rows, used_bytes = 0;
    size_t heads = rows * (size_t)r->shape.policy.n_heads;
    size_t targets = rows * (size_t)r->shape.n_targets;
    int is_ragged = es_policy_shape_is_ragged(&r->shape.policy);
#define TAKE(field, count)                                                                         \
    do {                                                                                           \
        size_t offset = es_slab_add(&used_bytes, (count) * sizeof *r->field);                      \
        r->field = r->slab == NULL ? NULL : (void *)((unsigned char *)r->slab + offset);           \
    } while (0)
    TAKE(features, rows * (size_t)r->shape.n_features);
    TAKE(ids, rows * (size_t)r->shape.n_ids);
    TAKE(is_reset, rows);
    if (is_ragged) {
        TAKE(first_logit, rows + 1);
    }
    TAKE(action, heads);
    TAKE(mask, heads);
    TAKE(used, rows);
    TAKE(available, rows);
    TAKE(is_forced, rows);
    TAKE(value, rows);
    TAKE(causal, rows);
    TAKE(is_valid, rows);
    TAKE(is_done, rows);
    TAKE(is_truncated, rows);
    TAKE(reward, rows);
    TAKE(penalty, rows);
    TAKE(bootstrap, rows);
    TAKE(target, targets);
    TAKE(has_target, targets);
    TAKE(scaled_reward, rows);
    TAKE(advantage, rows);
    TAKE(returns, rows);
    TAKE(td_error, rows);
#undef TAKE
    r->slab_bytes = used_bytes;
}

EsStatus es_rollout_create(const EsRolloutShape *shape, EsRollout **rollout) {
    *rollout = NULL;
    ES_TRY(check_shape(shape));
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsRollout), &memory));
    EsRollout *r = memory;
    r->shape = *shape;
    r->n_rows = shape->n_steps * shape->n_envs;
    lay_out(r);
    EsStatus status = es_allocate(r->slab_bytes, &r->slab);
    if (status != ES_STATUS_OK) {
        es_release(r);
        return status;
    }
    lay_out(r);
    es_rollout_reset(r);
    *rollout = r;
    return ES_STATUS_OK;
}

void es_rollout_destroy(EsRollout *rollout) {
    if (rollout != NULL) {
        es_release(rollout->slab);
        es_release(rollout);
    }
}

void es_rollout_reset(EsRollout *rollout) {
    memset(rollout->slab, 0, rollout->slab_bytes);
    memset(rollout->is_reset, 1, (size_t)rollout->shape.n_envs);
}

void es_rollout_break(EsRollout *rollout, int64_t t, int64_t env, float reward, float penalty) {
    ES_ASSERT(t >= 0 && t < rollout->shape.n_steps && env >= 0 && env < rollout->shape.n_envs);
    rollout->is_valid[es_rollout_row(rollout, t, env)] = 0;
    if (t + 1 < rollout->shape.n_steps) {
        rollout->is_reset[es_rollout_row(rollout, t + 1, env)] = 1;
    }
    for (int64_t before = t - 1; before >= 0; before--) {
        int64_t row = es_rollout_row(rollout, before, env);
        if (!rollout->is_valid[row]) {
            continue;
        }
        if (!rollout->is_done[row]) {
            rollout->reward[row] += reward;
            rollout->penalty[row] += penalty;
            rollout->is_done[row] = 1;
            rollout->is_truncated[row] = 0;
        }
        return;
    }
}

static double scale_reward(double reward, double penalty, const EsAdvantageOptions *options) {
    double scaled = reward / options->reward_scale + penalty;
    // the clamp would turn NaN into a number
    return es_math_is_finite(scaled)
               ? es_math_clamp(scaled, -options->reward_clip, options->reward_clip)
               : scaled;
}

static void clear_row(EsRollout *r, int64_t row) {
    r->scaled_reward[row] = 0;
    r->advantage[row] = 0;
    r->returns[row] = 0;
    r->td_error[row] = 0;
}

static void finish_env(EsRollout *r, int64_t env, const EsAdvantageOptions *options) {
    double next_value = 0, next_advantage = 0;
    int is_last = 1; // no valid row was met yet, going backwards
    for (int64_t t = r->shape.n_steps - 1; t >= 0; t--) {
        int64_t row = es_rollout_row(r, t, env);
        if (!r->is_valid[row]) {
            clear_row(r, row);
            continue;
        }
        double value = (double)r->value[row] * options->value_scale;
        double reward = scale_reward((double)r->reward[row], (double)r->penalty[row], options);
        if (r->is_done[row] || is_last) {
            int goes_on = r->is_done[row] ? r->is_truncated[row] && options->bootstraps : 1;
            next_value = goes_on ? (double)r->bootstrap[row] * options->value_scale : 0;
            next_advantage = 0;
        }
        double delta = reward + options->gamma * next_value - value;
        double advantage = delta + options->gamma * options->lambda * next_advantage;
        r->scaled_reward[row] = (float)reward;
        r->advantage[row] = (float)advantage;
        r->returns[row] = (float)(advantage + value);
        r->td_error[row] = (float)delta;
        next_value = value;
        next_advantage = advantage;
        is_last = 0;
    }
}

void es_rollout_finish(EsRollout *rollout, const EsAdvantageOptions *options) {
    for (int64_t env = 0; env < rollout->shape.n_envs; env++) {
        finish_env(rollout, env, options);
    }
}
