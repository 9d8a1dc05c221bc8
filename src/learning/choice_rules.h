// One categorical choice among n actions, of which some are legal: probabilities, a draw, and the
// gradients of log-probability and entropy with respect to the logits. Written once for CPU and
// CUDA.
//
// q = softmax over the legal logits; p = (1 - n f) q + f, with n legal actions and the floor
// f = min(floor, 0.99 / n). Every legal action keeps a chance of f, and gradients never die.
// Entropy is a share of the largest possible, log n: 0..1, exactly 0 where n = 1.
//
// Bit i of a mask says that action i is legal. Actions from 64 on have no bit and are always legal:
// a choice among any number of candidates passes ES_CHOICE_ALL.
//
//     double p[ES_CHOICE_MAX];
//     int n_legal = es_choice_probabilities(logits, n, mask, floor, p);
//     int action = es_choice_draw(p, n, mask, es_random_uniform(word));
#ifndef ES_LEARNING_CHOICE_RULES_H
#define ES_LEARNING_CHOICE_RULES_H

#include "base/math_rules.h"

#define ES_CHOICE_MAX 64 // actions of a head with a mask
#define ES_CHOICE_ALL (~(uint64_t)0)

static inline ES_HOST_DEVICE int es_choice_is_legal(uint64_t mask, int action) {
    return action >= ES_CHOICE_MAX || ((mask >> action) & 1) != 0;
}

// The floor in force: that of all legal actions together takes at most 0.99 of the probability.
static inline ES_HOST_DEVICE double es_choice_floor(float floor, int n_legal) {
    double most = 0.99 / n_legal;
    return (double)floor < most ? (double)floor : most;
}

// The parts of es_choice_probabilities: the largest legal logit, and how many are legal;
static inline ES_HOST_DEVICE double es_choice_top(const float *logits, int n, uint64_t mask,
                                                  int *n_legal) {
    double top = -es_math_infinity();
    *n_legal = 0;
    for (int i = 0; i < n; i++) {
        if (es_choice_is_legal(mask, i)) {
            ++*n_legal;
            top = (double)logits[i] > top ? (double)logits[i] : top;
        }
    }
    return top;
}

// the weight of one action, whatever the others are;
static inline ES_HOST_DEVICE double es_choice_weight(const float *logits, int i, uint64_t mask,
                                                     double top) {
    return es_choice_is_legal(mask, i) ? es_math_exp((double)logits[i] - top) : 0.0;
}

// weights p[n] to probabilities.
static inline ES_HOST_DEVICE void es_choice_mix(int n, uint64_t mask, float floor, int n_legal,
                                                double *p) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += p[i];
    }
    if (n_legal == 0) {
        return;
    }
    double f = es_choice_floor(floor, n_legal);
    double scale = (1 - n_legal * f) / sum;
    for (int i = 0; i < n; i++) {
        if (es_choice_is_legal(mask, i)) {
            p[i] = p[i] * scale + f;
        }
    }
}

// p[n]; 0 where illegal. Returns the number of legal actions; with none of them p is all 0. A legal
// logit that is NaN makes every legal p NaN.
static inline ES_HOST_DEVICE int es_choice_probabilities(const float *logits, int n, uint64_t mask,
                                                         float floor, double *p) {
    int n_legal = 0;
    double top = es_choice_top(logits, n, mask, &n_legal);
    for (int i = 0; i < n; i++) {
        p[i] = es_choice_weight(logits, i, mask, top);
    }
    es_choice_mix(n, mask, floor, n_legal, p);
    return n_legal;
}

// The action where the running sum of p passes u in [0, 1); never an illegal one, nor one with
// p = 0. Where rounding leaves the sum below u: the last such action. -1 when none is legal.
static inline ES_HOST_DEVICE int es_choice_draw(const double *p, int n, uint64_t mask, float u) {
    double sum = 0;
    int last = -1, last_legal = -1;
    for (int i = 0; i < n; i++) {
        if (!es_choice_is_legal(mask, i)) {
            continue;
        }
        last_legal = i;
        sum += p[i];
        if (p[i] > 0) {
            last = i;
            if ((double)u < sum) {
                return i;
            }
        }
    }
    return last >= 0 ? last : last_legal;
}

// The most likely action, the first of equal ones; -1 when none is legal.
static inline ES_HOST_DEVICE int es_choice_best(const double *p, int n, uint64_t mask) {
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (es_choice_is_legal(mask, i) && (best < 0 || p[i] > p[best])) {
            best = i;
        }
    }
    return best;
}

// log p of a legal action. Without a floor p may underflow to 0: then log of the smallest normal
// number, so that ratios stay finite.
static inline ES_HOST_DEVICE double es_choice_log_probability(const double *p, int action) {
    return es_math_log(p[action] < 0x1p-1022 ? 0x1p-1022 : p[action]);
}

// -sum p log p / log n_legal
static inline ES_HOST_DEVICE double es_choice_entropy(const double *p, int n, int n_legal) {
    if (n_legal < 2) {
        return 0;
    }
    double sum = 0;
    for (int i = 0; i < n; i++) {
        if (p[i] != 0) { // NaN passes on
            sum -= p[i] * es_math_log(p[i]);
        }
    }
    return sum / es_math_log((double)n_legal);
}

// d_logits += a * d log p(action) / d logits + b * d entropy / d logits:
//   d log p_k / d z_j = (s q_k / p_k) ([k = j] - q_j)                     with s q_k = p_k - f
//   d entropy / d z_j = -s q_j (log p_j - sum_i q_i log p_i) / log n
// `p` and `n_legal` as es_choice_probabilities gave them for the same floor. With one legal action
// both are 0.
static inline ES_HOST_DEVICE void es_choice_gradient(const double *p, int n, uint64_t mask,
                                                     int n_legal, float floor, int action, double a,
                                                     double b, float *d_logits) {
    if (n_legal < 2) {
        return;
    }
    double f = es_choice_floor(floor, n_legal);
    double s = 1 - n_legal * f;
    double mean_log = 0;
    if (b != 0) {
        for (int i = 0; i < n; i++) {
            mean_log += p[i] > f ? (p[i] - f) / s * es_math_log(p[i]) : 0.0;
        }
        b /= es_math_log((double)n_legal);
    }
    // without a floor the quotient is 1, also where p underflowed
    double pull = a == 0 ? 0.0 : (f > 0 ? a * (p[action] - f) / p[action] : a);
    for (int j = 0; j < n; j++) {
        if (!es_choice_is_legal(mask, j)) {
            continue;
        }
        double q = (p[j] - f) / s;
        double slope = pull * ((j == action ? 1.0 : 0.0) - q);
        if (b != 0 && p[j] > f) {
            slope -= b * s * q * (es_math_log(p[j]) - mean_log);
        }
        d_logits[j] += (float)slope;
    }
}

#endif
