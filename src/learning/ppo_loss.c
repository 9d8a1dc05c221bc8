// PPO's loss and gradients over the rows in order; the rules of a row are in ppo_rules.h.
#include "learning/ppo_loss.h"

#include <string.h>

#include "learning/ppo_rules.h"

static double share_of(int64_t done, int64_t whole) {
    return done >= whole ? 1.0 : (double)done / (double)whole;
}

// The penalty for lost entropy: strict in the first quarter of a run, relaxed in the last.
static double floor_schedule(double progress) {
    if (progress < 0.25) {
        return 1.5;
    }
    return progress <= 0.75 ? 1.0 : 1.0 - 0.5 * (progress - 0.75) / 0.25;
}

EsPpoCoefficients es_ppo_coefficients(const EsPpoSettings *s, int64_t n_updates) {
    EsPpoCoefficients c;
    double start = (double)s->value_start;
    c.value =
        (double)s->value_coefficient * (start + (1 - start) * share_of(n_updates, s->value_warmup));
    double annealed = s->entropy_anneal == 0 ? 0 : share_of(n_updates, s->entropy_anneal);
    c.entropy =
        (double)s->entropy_start + annealed * ((double)s->entropy_end - (double)s->entropy_start);
    c.floor = (double)s->entropy_floor_scale;
    if (s->total_updates > 0) {
        c.floor *= floor_schedule(share_of(n_updates, s->total_updates));
    }
    c.auxiliary = (double)s->auxiliary_coefficient * share_of(n_updates, s->auxiliary_warmup);
    return c;
}

// Input of the rules, for outputs in the order of the rollout.
static EsPpoProblem pose(const EsPpoBatch *batch, const EsOutputs *outputs) {
    return (EsPpoProblem){.rollout = es_rollout_view(batch->rollout),
                          .settings = *batch->settings,
                          .coefficients = batch->coefficients,
                          .outputs = *outputs,
                          .shard_envs = batch->rollout->shape.n_envs,
                          .advantage = batch->advantage,
                          .value_target = batch->value_target,
                          .reference = batch->reference};
}

// Add all heads of an unforced row.
static void add_heads(const EsPpoProblem *p, int64_t row, double *scratch, double *log_probability,
                      EsPpoRowSums *sums, EsPpoLoss *loss) {
    const EsPolicyShape *shape = &p->rollout.shape.policy;
    double joint = 0;
    for (int h = 0, offset = 0; h < shape->n_heads; offset += shape->head_size[h], h++) {
        if (es_ppo_head_counts(p, row, h)) {
            EsPpoHeadTerms terms = es_ppo_head_terms(p, row, h, offset, scratch);
            log_probability[row * shape->n_heads + h] = terms.log_probability;
            es_ppo_add_choice(p, row, h, &terms, &joint, sums);
            es_ppo_head_add(p, row, h, &terms, &loss->head[h]);
        }
    }
    es_ppo_add_joint(p, joint, sums);
}

void es_ppo_loss(const EsPpoBatch *batch, const EsOutputs *outputs, double *log_probability,
                 EsPpoLoss *loss) {
    const EsRollout *r = batch->rollout;
    EsPpoProblem problem = pose(batch, outputs);
    EsPpoRowSums sums = es_ppo_rows_start();
    size_t n_heads = (size_t)r->shape.policy.n_heads;
    memset(log_probability, 0, (size_t)r->n_rows * n_heads * sizeof *log_probability);
    *loss = (EsPpoLoss){0};
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (!r->is_valid[row]) {
            continue;
        }
        es_ppo_add_values(&problem, row, &sums);
        if (es_ppo_trains_actor(&problem, row)) {
            add_heads(&problem, row, batch->scratch, log_probability, &sums, loss);
        }
    }
    es_ppo_close(&problem, &sums, loss);
}

static void differentiate_heads(const EsPpoProblem *p, int64_t row, double *scratch,
                                const double *log_probability, const EsPpoLoss *loss,
                                const EsOutputs *gradients) {
    const EsPolicyShape *shape = &p->rollout.shape.policy;
    for (int h = 0, offset = 0; h < shape->n_heads; offset += shape->head_size[h], h++) {
        es_ppo_head_gradient(p, row, h, offset, log_probability[row * shape->n_heads + h], loss,
                             scratch, gradients->logits);
    }
}

void es_ppo_loss_gradient(const EsPpoBatch *batch, const EsOutputs *outputs,
                          const double *log_probability, const EsPpoLoss *loss,
                          EsOutputs *gradients) {
    const EsRollout *r = batch->rollout;
    EsPpoProblem problem = pose(batch, outputs);
    size_t rows = (size_t)r->n_rows;
    size_t n_logits = r->first_logit != NULL ? (size_t)r->first_logit[r->n_rows]
                                             : rows * (size_t)r->shape.policy.n_logits;
    memset(gradients->logits, 0, n_logits * sizeof *gradients->logits);
    memset(gradients->value, 0, rows * sizeof *gradients->value);
    if (gradients->action_value != NULL) {
        memset(gradients->action_value, 0, rows * sizeof *gradients->action_value);
    }
    if (gradients->auxiliary != NULL) {
        memset(gradients->auxiliary, 0,
               rows * (size_t)r->shape.n_targets * sizeof *gradients->auxiliary);
    }
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (!r->is_valid[row]) {
            continue;
        }
        es_ppo_value_gradient(&problem, row, loss, gradients);
        if (es_ppo_trains_actor(&problem, row)) {
            differentiate_heads(&problem, row, batch->scratch, log_probability, loss, gradients);
        }
    }
}
