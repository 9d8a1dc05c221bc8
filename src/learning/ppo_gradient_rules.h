// The gradients of PPO's loss with respect to the outputs of one row. Written once for CPU and
// CUDA.
//
//     es_ppo_value_gradient(&problem, row, &loss, &gradients);
//     es_ppo_head_gradient(&problem, row, h, offset, log_probability, &loss, scratch, d_logits);
#ifndef ES_LEARNING_PPO_GRADIENT_RULES_H
#define ES_LEARNING_PPO_GRADIENT_RULES_H

#include "learning/ppo_rules.h"

// d total / d log p of a causal head: nothing where the clipped term is the smaller one, or the
// clamp of the log ratio holds.
static inline ES_HOST_DEVICE double es_ppo_actor_slope(const EsPpoProblem *p, int64_t row,
                                                       double log_rho, const EsPpoHeadLoss *head) {
    if (!(es_math_abs(log_rho) < ES_PPO_HEAD_LOG_RATIO_MAX)) {
        return 0;
    }
    double rho = es_math_exp(log_rho), advantage = (double)p->advantage[row];
    if (rho * advantage > es_ppo_clip_ratio(p, rho) * advantage) {
        return 0;
    }
    return -rho * advantage / (double)head->n_causal;
}

// d total / d entropy of a head in one row.
static inline ES_HOST_DEVICE double es_ppo_entropy_slope(const EsPpoProblem *p, int64_t row, int h,
                                                         const EsPpoHeadLoss *head) {
    const EsPpoHead *settings = &p->settings.head[h];
    double slope = 0;
    if (es_ppo_has_bit(p->rollout.causal[row], h)) {
        slope -=
            p->coefficients.entropy * (double)settings->entropy_weight / (double)head->n_causal;
    }
    if (es_ppo_has_bit(p->rollout.available[row], h)) {
        slope -= p->coefficients.floor * 2 * (double)settings->floor_penalty * head->floor_gap /
                 (double)head->n_available;
    }
    return slope;
}

// Add to the gradients of the logits of one head, for an unforced row. log_probability as
// es_ppo_head_terms gave it; scratch as there.
static inline ES_HOST_DEVICE void es_ppo_head_gradient(const EsPpoProblem *p, int64_t row, int h,
                                                       int offset, double log_probability,
                                                       const EsPpoLoss *loss, double *scratch,
                                                       float *d_logits) {
    const EsPpoHeadLoss *head = &loss->head[h];
    double actor = 0, entropy = es_ppo_entropy_slope(p, row, h, head);
    if (es_ppo_has_bit(p->rollout.used[row] & p->rollout.causal[row], h)) {
        actor = es_ppo_actor_slope(p, row, es_ppo_log_ratio(p, row, h, log_probability), head);
    }
    if (actor == 0 && entropy == 0) {
        return;
    }
    EsPpoChoice choice = es_ppo_choice(p, row, h, offset);
    int n_legal = es_choice_probabilities(p->outputs.logits + choice.first, choice.n, choice.mask,
                                          choice.floor, scratch);
    es_choice_gradient(scratch, choice.n, choice.mask, n_legal, choice.floor, choice.action, actor,
                       entropy, d_logits + choice.first);
}

// Set the gradients of a valid row's values; targets that were not measured are left alone.
static inline ES_HOST_DEVICE void es_ppo_value_gradient(const EsPpoProblem *p, int64_t row,
                                                        const EsPpoLoss *loss,
                                                        const EsOutputs *gradients) {
    const EsRolloutView *r = &p->rollout;
    const EsPpoCoefficients *c = &p->coefficients;
    int64_t to = es_output_row(&r->shape, p->shard_envs, row);
    double weight = c->value * es_ppo_value_weight(p, row) / loss->value_weight;
    double target = (double)p->value_target[row];
    gradients->value[to] = (float)(weight * ((double)p->outputs.value[to] - target));
    if (p->outputs.action_value != NULL) {
        weight *= (double)p->settings.action_value_coefficient;
        gradients->action_value[to] =
            (float)(weight * ((double)p->outputs.action_value[to] - target));
    }
    int n_targets = p->outputs.auxiliary != NULL ? r->shape.n_targets : 0;
    for (int k = 0; k < n_targets; k++) {
        int64_t at = row * n_targets + k;
        if (r->has_target[at]) {
            double error = (double)p->outputs.auxiliary[to * n_targets + k] - es_ppo_target(p, at);
            gradients->auxiliary[to * n_targets + k] =
                (float)(2 * c->auxiliary / (double)loss->n_targets * error);
        }
    }
}

#endif
