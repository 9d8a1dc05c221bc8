// The loss of PPO row by row: the terms that a row, or one head of it, adds to the sums, the
// joining and closing of sums; then the gradients with respect to the outputs of one row. Written
// once for CPU and CUDA.
//
// The CPU walks the rows in order (ppo_loss.c); CUDA gives rows to threads and joins their sums in
// a fixed tree (ppo_cuda.cu). ppo_loss.h has the formulas.
//
//     EsPpoHeadTerms terms = es_ppo_head_terms(&problem, row, h, offset, scratch);
//     es_ppo_head_add(&problem, row, h, &terms, &head_sums);
//     es_ppo_value_gradient(&problem, row, &loss, &gradients);
//     es_ppo_head_gradient(&problem, row, h, offset, log_probability, &loss, scratch, d_logits);
//
// R rows, K heads, A logits of a row.
#ifndef ES_LEARNING_PPO_RULES_H
#define ES_LEARNING_PPO_RULES_H

#include "learning/choice_rules.h"
#include "learning/ppo_loss.h"

#define ES_PPO_HEAD_LOG_RATIO_MAX  20.0
#define ES_PPO_JOINT_LOG_RATIO_MAX 30.0

// Input of the rules; all memory on one device.
typedef struct EsPpoProblem {
    EsRolloutView rollout;
    EsPpoSettings settings;
    EsPpoCoefficients coefficients;
    EsOutputs outputs;
    int64_t shard_envs;        // order of the outputs' rows, see es_output_row
    const float *advantage;    // normalised                                [R]
    const float *value_target; // returns over the value scale              [R]
    const double *reference;   // log-probabilities at the anchor [R, K]; NULL: the outputs' own
} EsPpoProblem;

// Sums over rows that do not depend on heads.
typedef struct EsPpoRowSums {
    double value, action_value, auxiliary, value_weight;
    double ratio, ratio_squares; // of the joint ratio; squares around 1, near the mean
    double ratio_min, ratio_max;
    double log_probability_min, log_probability_max;
    int64_t n_actor, n_above, n_below, n_targets, n_nonfinite;
} EsPpoRowSums;

// One head of one row.
typedef struct EsPpoHeadTerms {
    double log_probability; // of the action; 0 for a head not used
    double entropy;
    int n_legal;
} EsPpoHeadTerms;

// Sums of products of two series around their means.
typedef struct EsPpoPair {
    double n, mean_x, mean_y, xx, yy, xy, ee; // ee: of x - y
} EsPpoPair;

static inline ES_HOST_DEVICE int es_ppo_has_bit(uint32_t bits, int h) {
    return (int)((bits >> h) & 1);
}

static inline ES_HOST_DEVICE int es_ppo_trains_actor(const EsPpoProblem *p, int64_t row) {
    return p->rollout.is_valid[row] && !p->rollout.is_forced[row];
}

// --- one head ---

// Logits of a head, and the legal ones among them.
typedef struct EsPpoChoice {
    int64_t first; // in outputs.logits
    uint64_t mask;
    float floor;
    int n, action;
} EsPpoChoice;

// `offset`: logits of the heads before it.
static inline ES_HOST_DEVICE EsPpoChoice es_ppo_choice(const EsPpoProblem *p, int64_t row, int h,
                                                       int offset) {
    const EsRolloutView *r = &p->rollout;
    const EsPolicyShape *shape = &r->shape.policy;
    int64_t at = row * shape->n_heads + h;
    EsPpoChoice choice;
    choice.floor = p->settings.head[h].floor;
    choice.action = r->action[at];
    if (r->first_logit != NULL) {
        choice.first = r->first_logit[row];
        choice.n = (int)(r->first_logit[row + 1] - choice.first);
        choice.mask = ES_CHOICE_ALL;
    } else {
        choice.first = es_output_row(&r->shape, p->shard_envs, row) * shape->n_logits + offset;
        choice.n = shape->head_size[h];
        choice.mask = r->mask[at];
    }
    return choice;
}

static inline ES_HOST_DEVICE double es_ppo_clip_ratio(const EsPpoProblem *p, double ratio) {
    double clip = (double)p->settings.clip;
    return es_math_clamp(ratio, 1 - clip, 1 + clip);
}

// Of a head's choice against the anchor; 0 for a head that is not used.
static inline ES_HOST_DEVICE double es_ppo_log_ratio(const EsPpoProblem *p, int64_t row, int h,
                                                     double log_probability) {
    if (!es_ppo_has_bit(p->rollout.used[row], h)) {
        return 0;
    }
    int64_t at = row * p->rollout.shape.policy.n_heads + h;
    double anchor = p->reference == NULL ? log_probability : p->reference[at];
    return es_math_clamp(log_probability - anchor, -ES_PPO_HEAD_LOG_RATIO_MAX,
                         ES_PPO_HEAD_LOG_RATIO_MAX);
}

// Returns whether a head of an unforced row takes part in anything.
static inline ES_HOST_DEVICE int es_ppo_head_counts(const EsPpoProblem *p, int64_t row, int h) {
    const EsRolloutView *r = &p->rollout;
    return es_ppo_has_bit(r->used[row] | r->causal[row] | r->available[row], h);
}

// For a head that counts. scratch: room for its values.
static inline ES_HOST_DEVICE EsPpoHeadTerms es_ppo_head_terms(const EsPpoProblem *p, int64_t row,
                                                              int h, int offset, double *scratch) {
    EsPpoChoice choice = es_ppo_choice(p, row, h, offset);
    EsPpoHeadTerms terms;
    terms.n_legal = es_choice_probabilities(p->outputs.logits + choice.first, choice.n, choice.mask,
                                            choice.floor, scratch);
    terms.log_probability = 0;
    if (es_ppo_has_bit(p->rollout.used[row], h)) {
        terms.log_probability = es_choice_log_probability(scratch, choice.action);
    }
    terms.entropy = es_choice_entropy(scratch, choice.n, terms.n_legal);
    return terms;
}

// --- sums ---

static inline ES_HOST_DEVICE void es_ppo_add_causal(const EsPpoProblem *p, int64_t row,
                                                    double log_rho, const EsPpoHeadTerms *terms,
                                                    EsPpoHeadLoss *sums) {
    double rho = es_math_exp(log_rho), advantage = (double)p->advantage[row];
    double plain = rho * advantage, clipped = es_ppo_clip_ratio(p, rho) * advantage;
    sums->n_causal++;
    sums->policy -= plain < clipped ? plain : clipped;
    sums->entropy += terms->entropy;
    sums->kl += rho - 1 - log_rho;
    sums->n_clipped += rho != es_ppo_clip_ratio(p, rho);
    sums->n_learnable += terms->n_legal > 1;
    sums->ratio_max = rho > sums->ratio_max ? rho : sums->ratio_max;
}

// Add a head of an unforced row to the sums of that head.
static inline ES_HOST_DEVICE void es_ppo_head_add(const EsPpoProblem *p, int64_t row, int h,
                                                  const EsPpoHeadTerms *terms,
                                                  EsPpoHeadLoss *sums) {
    if (es_ppo_has_bit(p->rollout.causal[row], h)) {
        es_ppo_add_causal(p, row, es_ppo_log_ratio(p, row, h, terms->log_probability), terms, sums);
    }
    if (es_ppo_has_bit(p->rollout.available[row], h)) {
        sums->n_available++;
        sums->available_entropy += terms->entropy;
    }
}

static inline ES_HOST_DEVICE void es_ppo_head_join(EsPpoHeadLoss *sums, const EsPpoHeadLoss *more) {
    sums->n_causal += more->n_causal;
    sums->n_available += more->n_available;
    sums->n_learnable += more->n_learnable;
    sums->n_clipped += more->n_clipped;
    sums->policy += more->policy;
    sums->entropy += more->entropy;
    sums->available_entropy += more->available_entropy;
    sums->kl += more->kl;
    sums->ratio_max = ES_MAX(sums->ratio_max, more->ratio_max);
}

static inline ES_HOST_DEVICE EsPpoRowSums es_ppo_rows_start(void) {
    EsPpoRowSums sums;
    memset(&sums, 0, sizeof sums);
    sums.ratio_min = es_math_infinity();
    sums.log_probability_min = es_math_infinity();
    sums.log_probability_max = -es_math_infinity();
    return sums;
}

static inline ES_HOST_DEVICE double es_ppo_value_weight(const EsPpoProblem *p, int64_t row) {
    return p->rollout.is_forced[row] ? (double)p->settings.forced_value_weight : 1;
}

static inline ES_HOST_DEVICE double es_ppo_target(const EsPpoProblem *p, int64_t at) {
    double clip = (double)p->settings.auxiliary_clip;
    return es_math_clamp((double)p->rollout.target[at], -clip, clip);
}

// Add the values of a valid row.
static inline ES_HOST_DEVICE void es_ppo_add_values(const EsPpoProblem *p, int64_t row,
                                                    EsPpoRowSums *sums) {
    const EsRolloutView *r = &p->rollout;
    int64_t from = es_output_row(&r->shape, p->shard_envs, row);
    double weight = es_ppo_value_weight(p, row), target = (double)p->value_target[row];
    double error = (double)p->outputs.value[from] - target;
    sums->value_weight += weight;
    sums->value += 0.5 * weight * error * error;
    sums->n_nonfinite += !es_math_is_finite(error);
    if (p->outputs.action_value != NULL) {
        error = (double)p->outputs.action_value[from] - target;
        sums->action_value += 0.5 * weight * error * error;
        sums->n_nonfinite += !es_math_is_finite(error);
    }
    int n_targets = p->outputs.auxiliary != NULL ? r->shape.n_targets : 0;
    for (int k = 0; k < n_targets; k++) {
        int64_t at = row * n_targets + k;
        if (r->has_target[at]) {
            error = (double)p->outputs.auxiliary[from * n_targets + k] - es_ppo_target(p, at);
            sums->auxiliary += error * error;
            sums->n_targets++;
            sums->n_nonfinite += !es_math_is_finite(error);
        }
    }
}

// Adds the terms of one head of an unforced row; its log ratio goes into *joint.
static inline ES_HOST_DEVICE void es_ppo_add_choice(const EsPpoProblem *p, int64_t row, int h,
                                                    const EsPpoHeadTerms *terms, double *joint,
                                                    EsPpoRowSums *sums) {
    double log_p = terms->log_probability;
    if (es_ppo_has_bit(p->rollout.used[row], h)) {
        sums->n_nonfinite += !es_math_is_finite(log_p);
        *joint += es_ppo_log_ratio(p, row, h, log_p);
        sums->log_probability_min = ES_MIN(sums->log_probability_min, log_p);
        sums->log_probability_max = ES_MAX(sums->log_probability_max, log_p);
    }
    sums->n_nonfinite += !es_math_is_finite(terms->entropy);
}

static inline ES_HOST_DEVICE void es_ppo_add_joint(const EsPpoProblem *p, double log_joint,
                                                   EsPpoRowSums *sums) {
    double ratio = es_math_exp(
        es_math_clamp(log_joint, -ES_PPO_JOINT_LOG_RATIO_MAX, ES_PPO_JOINT_LOG_RATIO_MAX));
    double clip = (double)p->settings.clip;
    sums->n_actor++;
    sums->ratio += ratio;
    sums->ratio_squares += (ratio - 1) * (ratio - 1); // around 1: little cancels
    sums->ratio_min = ES_MIN(sums->ratio_min, ratio);
    sums->ratio_max = ES_MAX(sums->ratio_max, ratio);
    sums->n_above += ratio > 1 + clip;
    sums->n_below += ratio < 1 - clip;
}

static inline ES_HOST_DEVICE void es_ppo_rows_join(EsPpoRowSums *sums, const EsPpoRowSums *more) {
    sums->value += more->value;
    sums->action_value += more->action_value;
    sums->auxiliary += more->auxiliary;
    sums->value_weight += more->value_weight;
    sums->ratio += more->ratio;
    sums->ratio_squares += more->ratio_squares;
    sums->ratio_min = ES_MIN(sums->ratio_min, more->ratio_min);
    sums->ratio_max = ES_MAX(sums->ratio_max, more->ratio_max);
    sums->log_probability_min = ES_MIN(sums->log_probability_min, more->log_probability_min);
    sums->log_probability_max = ES_MAX(sums->log_probability_max, more->log_probability_max);
    sums->n_actor += more->n_actor;
    sums->n_above += more->n_above;
    sums->n_below += more->n_below;
    sums->n_targets += more->n_targets;
    sums->n_nonfinite += more->n_nonfinite;
}

// --- from sums to the loss ---

static inline ES_HOST_DEVICE void es_ppo_close_head(const EsPpoProblem *p, int h,
                                                    EsPpoHeadLoss *head) {
    double n = (double)ES_MAX(head->n_causal, 1);
    head->policy /= n;
    head->entropy /= n;
    head->kl /= n;
    if (head->n_available > 0) {
        head->available_entropy /= (double)head->n_available;
        head->floor_gap = (double)p->settings.head[h].entropy_floor - head->available_entropy;
        head->floor_gap = ES_MAX(head->floor_gap, 0);
    }
}

static inline ES_HOST_DEVICE void es_ppo_close_rows(const EsPpoRowSums *sums, EsPpoLoss *loss) {
    double n_actor = (double)ES_MAX(sums->n_actor, 1);
    loss->ratio_mean = sums->ratio / n_actor;
    double distance = loss->ratio_mean - 1;
    loss->ratio_std = es_math_sqrt(ES_MAX(sums->ratio_squares / n_actor - distance * distance, 0));
    loss->ratio_min = sums->ratio_min;
    loss->ratio_max = sums->ratio_max;
    loss->log_probability_min = sums->log_probability_min;
    loss->log_probability_max = sums->log_probability_max;
    loss->value_weight = ES_MAX(sums->value_weight, 1);
    loss->value = sums->value / loss->value_weight;
    loss->action_value = sums->action_value / loss->value_weight;
    loss->auxiliary = sums->auxiliary / (double)ES_MAX(sums->n_targets, 1);
    loss->n_actor = sums->n_actor;
    loss->n_above = sums->n_above;
    loss->n_below = sums->n_below;
    loss->n_targets = sums->n_targets;
    loss->n_nonfinite = sums->n_nonfinite;
}

// loss->head comes with the sums of the heads; all of it becomes the loss.
static inline ES_HOST_DEVICE void es_ppo_close(const EsPpoProblem *p, const EsPpoRowSums *sums,
                                               EsPpoLoss *loss) {
    const EsPpoCoefficients *c = &p->coefficients;
    double kl = 0, n_causal = 0;
    loss->policy = loss->entropy = loss->floor = 0;
    for (int h = 0; h < p->rollout.shape.policy.n_heads; h++) {
        EsPpoHeadLoss *head = &loss->head[h];
        const EsPpoHead *settings = &p->settings.head[h];
        kl += head->kl;
        n_causal += (double)head->n_causal;
        es_ppo_close_head(p, h, head);
        loss->policy += head->policy;
        loss->entropy += (double)settings->entropy_weight * head->entropy;
        double penalty = c->floor * (double)settings->floor_penalty;
        loss->floor += penalty * head->floor_gap * head->floor_gap;
    }
    loss->kl = kl / ES_MAX(n_causal, 1);
    es_ppo_close_rows(sums, loss);
    double action_value = (double)p->settings.action_value_coefficient * loss->action_value;
    loss->total = loss->policy + c->value * (loss->value + action_value) -
                  c->entropy * loss->entropy + loss->floor + c->auxiliary * loss->auxiliary;
}

// --- how well targets are predicted ---

static inline ES_HOST_DEVICE void es_ppo_pair_add_means(EsPpoPair *pair, double x, double y) {
    pair->n += 1;
    pair->mean_x += x;
    pair->mean_y += y;
}

static inline ES_HOST_DEVICE void es_ppo_pair_close_means(EsPpoPair *pair) {
    pair->mean_x /= ES_MAX(pair->n, 1);
    pair->mean_y /= ES_MAX(pair->n, 1);
}

static inline ES_HOST_DEVICE void es_ppo_pair_add_products(EsPpoPair *pair, double x, double y) {
    double dx = x - pair->mean_x, dy = y - pair->mean_y;
    pair->xx += dx * dx;
    pair->yy += dy * dy;
    pair->xy += dx * dy;
    pair->ee += (dx - dy) * (dx - dy);
}

// --- gradients ---

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
