#include "learning/ppo_loss.h"

#include <string.h>

#include "base/math_rules.h"
#include "learning/choice_rules.h"

#define HEAD_LOG_RATIO_MAX  20.0
#define JOINT_LOG_RATIO_MAX 30.0

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

// One head of one row: where its logits stand, and which of them are legal.
typedef struct HeadView {
    int64_t first; // in outputs.logits
    int n, n_legal;
    uint64_t mask;
    float floor;
    int action;
} HeadView;

// `offset`: logits of the heads before it.
static HeadView view_head(const EsPpoBatch *batch, int64_t row, int h, int offset) {
    const EsRollout *r = batch->rollout;
    const EsPolicyShape *shape = &r->shape.policy;
    int64_t at = row * shape->n_heads + h;
    HeadView view = {.floor = batch->settings->head[h].floor, .action = r->action[at]};
    if (r->first_logit != NULL) {
        view.first = r->first_logit[row];
        view.n = (int)(r->first_logit[row + 1] - view.first);
        view.mask = ES_CHOICE_ALL;
    } else {
        view.first = row * shape->n_logits + offset;
        view.n = shape->head_size[h];
        view.mask = r->mask[at];
    }
    return view;
}

// Fill batch->scratch with the probabilities of a head.
static void find_probabilities(const EsPpoBatch *batch, const EsOutputs *outputs, HeadView *view) {
    view->n_legal = es_choice_probabilities(outputs->logits + view->first, view->n, view->mask,
                                            view->floor, batch->scratch);
}

static int has_bit(uint32_t bits, int h) { return (int)((bits >> h) & 1); }

static int trains_actor(const EsRollout *r, int64_t row) {
    return r->is_valid[row] && !r->is_forced[row];
}

static double clip_ratio(const EsPpoBatch *batch, double ratio) {
    double clip = (double)batch->settings->clip;
    return es_math_clamp(ratio, 1 - clip, 1 + clip);
}

static double log_ratio(const EsPpoBatch *batch, int64_t at, double log_probability) {
    double anchor = batch->reference == NULL ? log_probability : batch->reference[at];
    return es_math_clamp(log_probability - anchor, -HEAD_LOG_RATIO_MAX, HEAD_LOG_RATIO_MAX);
}

static void count_nonfinite(EsPpoLoss *loss, double x) {
    loss->n_nonfinite += !es_math_is_finite(x);
}

// Add a causal row to the sums of a head.
static void add_causal(const EsPpoBatch *batch, int64_t row, double log_rho, double entropy,
                       EsPpoHeadLoss *head) {
    double rho = es_math_exp(log_rho), advantage = (double)batch->advantage[row];
    double plain = rho * advantage, clipped = clip_ratio(batch, rho) * advantage;
    head->n_causal++;
    head->policy -= plain < clipped ? plain : clipped;
    head->entropy += entropy;
    head->kl += rho - 1 - log_rho;
    head->n_clipped += rho != clip_ratio(batch, rho);
    head->ratio_max = rho > head->ratio_max ? rho : head->ratio_max;
}

// Add all heads of an unforced row; returns the sum of the log ratios of used heads.
static double add_heads(const EsPpoBatch *batch, const EsOutputs *outputs, int64_t row,
                        double *log_probability, EsPpoLoss *loss) {
    const EsRollout *r = batch->rollout;
    const EsPolicyShape *shape = &r->shape.policy;
    double joint = 0;
    for (int h = 0, offset = 0; h < shape->n_heads; offset += shape->head_size[h], h++) {
        int is_used = has_bit(r->used[row], h), is_causal = has_bit(r->causal[row], h);
        int is_available = has_bit(r->available[row], h);
        if (!is_used && !is_causal && !is_available) {
            continue;
        }
        int64_t at = row * shape->n_heads + h;
        EsPpoHeadLoss *head = &loss->head[h];
        HeadView view = view_head(batch, row, h, offset);
        find_probabilities(batch, outputs, &view);
        double log_rho = 0;
        if (is_used) {
            double log_p = es_choice_log_probability(batch->scratch, view.action);
            count_nonfinite(loss, log_p);
            log_probability[at] = log_p;
            log_rho = log_ratio(batch, at, log_p);
            joint += log_rho;
            loss->log_probability_min = ES_MIN(loss->log_probability_min, log_p);
            loss->log_probability_max = ES_MAX(loss->log_probability_max, log_p);
        }
        double entropy = es_choice_entropy(batch->scratch, view.n, view.n_legal);
        count_nonfinite(loss, entropy);
        if (is_causal) {
            add_causal(batch, row, log_rho, entropy, head);
            head->n_learnable += view.n_legal > 1;
        }
        if (is_available) {
            head->n_available++;
            head->available_entropy += entropy;
        }
    }
    return joint;
}

static void add_joint_ratio(const EsPpoBatch *batch, double log_joint, EsPpoLoss *loss) {
    double ratio = es_math_exp(es_math_clamp(log_joint, -JOINT_LOG_RATIO_MAX, JOINT_LOG_RATIO_MAX));
    double clip = (double)batch->settings->clip;
    loss->n_actor++;
    loss->ratio_mean += ratio;
    loss->ratio_std += (ratio - 1) * (ratio - 1); // around 1, near the mean: little cancels
    loss->ratio_min = ES_MIN(loss->ratio_min, ratio);
    loss->ratio_max = ES_MAX(loss->ratio_max, ratio);
    loss->n_above += ratio > 1 + clip;
    loss->n_below += ratio < 1 - clip;
}

static double value_weight(const EsPpoBatch *batch, int64_t row) {
    return batch->rollout->is_forced[row] ? (double)batch->settings->forced_value_weight : 1;
}

static double auxiliary_error(const EsPpoBatch *batch, const EsOutputs *outputs, int64_t at) {
    double clip = (double)batch->settings->auxiliary_clip;
    return (double)outputs->auxiliary[at] -
           es_math_clamp((double)batch->rollout->target[at], -clip, clip);
}

static void add_values(const EsPpoBatch *batch, const EsOutputs *outputs, int64_t row,
                       EsPpoLoss *loss) {
    const EsRollout *r = batch->rollout;
    double weight = value_weight(batch, row), target = (double)batch->value_target[row];
    double error = (double)outputs->value[row] - target;
    loss->value_weight += weight;
    loss->value += 0.5 * weight * error * error;
    count_nonfinite(loss, error);
    if (outputs->action_value != NULL) {
        error = (double)outputs->action_value[row] - target;
        loss->action_value += 0.5 * weight * error * error;
        count_nonfinite(loss, error);
    }
    for (int k = 0; outputs->auxiliary != NULL && k < r->shape.n_targets; k++) {
        int64_t at = row * r->shape.n_targets + k;
        if (r->has_target[at]) {
            error = auxiliary_error(batch, outputs, at);
            loss->auxiliary += error * error;
            loss->n_targets++;
            count_nonfinite(loss, error);
        }
    }
}

// Sums become means; then the total.
static void close_sums(const EsPpoBatch *batch, EsPpoLoss *loss) {
    const EsPpoCoefficients *c = &batch->coefficients;
    double kl = 0, n_causal = 0;
    for (int h = 0; h < batch->rollout->shape.policy.n_heads; h++) {
        EsPpoHeadLoss *head = &loss->head[h];
        const EsPpoHead *settings = &batch->settings->head[h];
        kl += head->kl;
        n_causal += (double)head->n_causal;
        double n = (double)ES_MAX(head->n_causal, 1);
        head->policy /= n;
        head->entropy /= n;
        head->kl /= n;
        if (head->n_available > 0) {
            head->available_entropy /= (double)head->n_available;
            head->floor_gap = (double)settings->entropy_floor - head->available_entropy;
            head->floor_gap = ES_MAX(head->floor_gap, 0);
        }
        loss->policy += head->policy;
        loss->entropy += (double)settings->entropy_weight * head->entropy;
        double penalty = c->floor * (double)settings->floor_penalty;
        loss->floor += penalty * head->floor_gap * head->floor_gap;
    }
    loss->kl = kl / ES_MAX(n_causal, 1);
    double n_actor = (double)ES_MAX(loss->n_actor, 1);
    loss->ratio_mean /= n_actor;
    double distance = loss->ratio_mean - 1;
    loss->ratio_std = es_math_sqrt(ES_MAX(loss->ratio_std / n_actor - distance * distance, 0));
    loss->value_weight = ES_MAX(loss->value_weight, 1);
    loss->value /= loss->value_weight;
    loss->action_value /= loss->value_weight;
    loss->auxiliary /= (double)ES_MAX(loss->n_targets, 1);
    double action_value = (double)batch->settings->action_value_coefficient * loss->action_value;
    loss->total = loss->policy + c->value * (loss->value + action_value) -
                  c->entropy * loss->entropy + loss->floor + c->auxiliary * loss->auxiliary;
}

void es_ppo_loss(const EsPpoBatch *batch, const EsOutputs *outputs, double *log_probability,
                 EsPpoLoss *loss) {
    const EsRollout *r = batch->rollout;
    size_t n_heads = (size_t)r->shape.policy.n_heads;
    memset(log_probability, 0, (size_t)r->n_rows * n_heads * sizeof *log_probability);
    *loss = (EsPpoLoss){.ratio_min = es_math_infinity(),
                        .log_probability_min = es_math_infinity(),
                        .log_probability_max = -es_math_infinity()};
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (!r->is_valid[row]) {
            continue;
        }
        add_values(batch, outputs, row, loss);
        if (trains_actor(r, row)) {
            add_joint_ratio(batch, add_heads(batch, outputs, row, log_probability, loss), loss);
        }
    }
    close_sums(batch, loss);
}

// d total / d log p of a causal head: nothing where the clipped term is the smaller one, or the
// clamp of the log ratio holds.
static double actor_slope(const EsPpoBatch *batch, int64_t row, double log_rho,
                          const EsPpoHeadLoss *head) {
    if (!(es_math_abs(log_rho) < HEAD_LOG_RATIO_MAX)) {
        return 0;
    }
    double rho = es_math_exp(log_rho), advantage = (double)batch->advantage[row];
    if (rho * advantage > clip_ratio(batch, rho) * advantage) {
        return 0;
    }
    return -rho * advantage / (double)head->n_causal;
}

// d total / d entropy of a head in one row.
static double entropy_slope(const EsPpoBatch *batch, int64_t row, int h,
                            const EsPpoHeadLoss *head) {
    const EsRollout *r = batch->rollout;
    const EsPpoHead *settings = &batch->settings->head[h];
    double slope = 0;
    if (has_bit(r->causal[row], h)) {
        slope -=
            batch->coefficients.entropy * (double)settings->entropy_weight / (double)head->n_causal;
    }
    if (has_bit(r->available[row], h)) {
        slope -= batch->coefficients.floor * 2 * (double)settings->floor_penalty * head->floor_gap /
                 (double)head->n_available;
    }
    return slope;
}

static void differentiate_heads(const EsPpoBatch *batch, const EsOutputs *outputs, int64_t row,
                                const double *log_probability, const EsPpoLoss *loss,
                                EsOutputs *gradients) {
    const EsRollout *r = batch->rollout;
    const EsPolicyShape *shape = &r->shape.policy;
    for (int h = 0, offset = 0; h < shape->n_heads; offset += shape->head_size[h], h++) {
        const EsPpoHeadLoss *head = &loss->head[h];
        int64_t at = row * shape->n_heads + h;
        double actor = 0, entropy = entropy_slope(batch, row, h, head);
        if (has_bit(r->used[row] & r->causal[row], h)) {
            actor = actor_slope(batch, row, log_ratio(batch, at, log_probability[at]), head);
        }
        if (actor == 0 && entropy == 0) {
            continue;
        }
        HeadView view = view_head(batch, row, h, offset);
        find_probabilities(batch, outputs, &view);
        es_choice_gradient(batch->scratch, view.n, view.mask, view.n_legal, view.floor, view.action,
                           actor, entropy, gradients->logits + view.first);
    }
}

static void differentiate_values(const EsPpoBatch *batch, const EsOutputs *outputs, int64_t row,
                                 const EsPpoLoss *loss, EsOutputs *gradients) {
    const EsRollout *r = batch->rollout;
    const EsPpoCoefficients *c = &batch->coefficients;
    double weight = c->value * value_weight(batch, row) / loss->value_weight;
    double target = (double)batch->value_target[row];
    gradients->value[row] = (float)(weight * ((double)outputs->value[row] - target));
    if (outputs->action_value != NULL) {
        weight *= (double)batch->settings->action_value_coefficient;
        gradients->action_value[row] =
            (float)(weight * ((double)outputs->action_value[row] - target));
    }
    for (int k = 0; outputs->auxiliary != NULL && k < r->shape.n_targets; k++) {
        int64_t at = row * r->shape.n_targets + k;
        if (r->has_target[at]) {
            gradients->auxiliary[at] = (float)(2 * c->auxiliary / (double)loss->n_targets *
                                               auxiliary_error(batch, outputs, at));
        }
    }
}

void es_ppo_loss_gradient(const EsPpoBatch *batch, const EsOutputs *outputs,
                          const double *log_probability, const EsPpoLoss *loss,
                          EsOutputs *gradients) {
    const EsRollout *r = batch->rollout;
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
        differentiate_values(batch, outputs, row, loss, gradients);
        if (trains_actor(r, row)) {
            differentiate_heads(batch, outputs, row, log_probability, loss, gradients);
        }
    }
}
