// Records decisions of a learned policy in training, row by row of a rollout; written once for CPU
// and CUDA.
#ifndef ES_CONTROL_DECISION_RULES_H
#define ES_CONTROL_DECISION_RULES_H

#include "control/rules/sampling_rules.h"
#include "learning/rollout_rules.h"

// Records the choice and the legal values. A head that was drawn from a table has logits only under
// an operation that reads it: no other is available.
static inline ES_HOST_DEVICE void es_decision_keep_choice(const EsRolloutView *rollout, int64_t row,
                                                          const EsActionMasks *masks, int is_table,
                                                          const EsSampled *sampled, float value) {
    int32_t op = es_action_value(&sampled->action, ES_HEAD_OP);
    EsLegality legality = es_masks_legality(masks, op);
    for (int64_t head = 0; head < ES_N_HEADS; head++) {
        rollout->action[row * ES_N_HEADS + head] =
            (int16_t)es_action_value(&sampled->action, (int32_t)head);
        // of heads that were read: the values that were legal when they were drawn
        int is_narrower = head == ES_HEAD_BLUEPRINT || head == ES_HEAD_STYLE;
        rollout->mask[row * ES_N_HEADS + head] =
            is_narrower && es_head_matters(op, (int32_t)head)
                ? es_masks_next(masks, &sampled->action, op, (int32_t)head)
                : legality.mask[head];
    }
    rollout->used[row] = legality.used;
    rollout->available[row] = is_table ? legality.used : legality.available;
    rollout->is_forced[row] = (uint8_t)legality.is_forced;
    rollout->value[row] = value;
}

// Contributions measured in this step are targets of the auxiliary output. Kept before the tick,
// which makes them a step old.
static inline ES_HOST_DEVICE void es_decision_keep_targets(const EsRolloutView *rollout,
                                                           int64_t row, const EsGrowthState *state,
                                                           int64_t e) {
    for (int64_t s = 0; s < state->n_slots; s++) {
        int64_t from = e * state->n_slots + s, to = row * state->n_slots + s;
        rollout->target[to] = state->seed.contribution[from];
        rollout->has_target[to] = state->seed.contribution_age[from] == 0;
    }
}

// After the tick: records the outcome of the decision of step t. A step that was rolled back has no
// row: the reward is added to the last one before it, of which `rollback_penalty`, taken as
// positive, is not divided by the scale of rewards.
static inline ES_HOST_DEVICE void es_decision_record(const EsRolloutView *rollout, int64_t t,
                                                     int64_t e, const EsGrowthState *state,
                                                     int32_t episode_steps, float reward,
                                                     float rollback_penalty) {
    int64_t row = es_rollout_view_row(rollout, t, e);
    if (state->env.refusal[e] == ES_REFUSAL_ROLLED_BACK) {
        es_rollout_view_break(rollout, t, e, reward + rollback_penalty, -rollback_penalty);
        return;
    }
    // the tick has counted on: after the last step of the episode it is beyond it
    int is_last = state->env.step[e] > episode_steps;
    rollout->causal[row] = (uint32_t)es_growth_op_heads(state->env.effective_op[e]);
    rollout->reward[row] = reward;
    rollout->is_valid[row] = 1;
    rollout->is_done[row] = (uint8_t)is_last;
    rollout->is_truncated[row] = (uint8_t)is_last;
}

#endif
