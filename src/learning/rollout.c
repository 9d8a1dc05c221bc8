// The arrays of a rollout, and advantages and returns from its rewards.
#include "learning/rollout.h"

#include <string.h>

#include "base/memory.h"
#include "learning/choice_rules.h"
#include "learning/rollout_rules.h"

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

// The place of a column; NULL without a slab, where this only measures.
static void *take(void *slab, size_t *used_bytes, size_t count, size_t value_bytes) {
    size_t offset = es_slab_add(used_bytes, count * value_bytes);
    return slab == NULL ? NULL : (unsigned char *)slab + offset;
}

static size_t lay_out(EsRolloutView *view, void *slab, const EsRolloutShape *shape) {
    size_t used_bytes = 0;
    int64_t rows = shape->n_steps * shape->n_envs;
    *view = (EsRolloutView){.shape = *shape, .n_rows = rows};
    const EsRolloutShape *S = shape;
#define X(type, name, count, meaning)                                                              \
    view->name = take(slab, &used_bytes, (size_t)(rows * (count)), sizeof(type));
    ES_ROLLOUT_COLUMNS(X)
#undef X
    if (es_policy_shape_is_ragged(&shape->policy)) {
        view->first_logit = take(slab, &used_bytes, (size_t)rows + 1, sizeof *view->first_logit);
    }
    return used_bytes;
}

void es_rollout_view_bind(EsRolloutView *view, void *slab, const EsRolloutShape *shape) {
    lay_out(view, slab, shape);
}

size_t es_rollout_bytes(const EsRolloutShape *shape) {
    EsRolloutView view;
    return lay_out(&view, NULL, shape);
}

EsRolloutView es_rollout_view(const EsRollout *rollout) {
    EsRolloutView view;
    es_rollout_view_bind(&view, rollout->slab, &rollout->shape);
    return view;
}

EsStatus es_rollout_create(const EsRolloutShape *shape, EsRollout **rollout) {
    *rollout = NULL;
    ES_TRY(check_shape(shape));
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsRollout), &memory));
    EsRollout *r = memory;
    r->shape = *shape;
    r->n_rows = shape->n_steps * shape->n_envs;
    r->slab_bytes = es_rollout_bytes(shape);
    EsStatus status = es_allocate(r->slab_bytes, &r->slab);
    if (status != ES_STATUS_OK) {
        es_release(r);
        return status;
    }
    EsRolloutView view = es_rollout_view(r);
#define X(type, name, count, meaning) r->name = view.name;
    ES_ROLLOUT_COLUMNS(X)
#undef X
    r->first_logit = view.first_logit;
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
    rollout->on_device = NULL;
    memset(rollout->slab, 0, rollout->slab_bytes);
    memset(rollout->is_reset, 1, (size_t)rollout->shape.n_envs);
}

void es_rollout_break(EsRollout *rollout, int64_t t, int64_t env, float reward, float penalty) {
    ES_ASSERT(t >= 0 && t < rollout->shape.n_steps && env >= 0 && env < rollout->shape.n_envs);
    EsRolloutView view = es_rollout_view(rollout);
    es_rollout_view_break(&view, t, env, reward, penalty);
}

void es_rollout_finish(EsRollout *rollout, const EsAdvantageOptions *options) {
    EsRolloutView view = es_rollout_view(rollout);
    for (int64_t env = 0; env < rollout->shape.n_envs; env++) {
        es_rollout_view_finish(&view, env, options);
    }
}
