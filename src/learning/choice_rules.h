// One categorical choice among n actions, of which some are legal: probabilities, a draw, and the
// gradients of log-probability and entropy with respect to the logits. Written once for CPU and
// CUDA.
//
// q = softmax over the legal logits; p = (1 - n f) q + f, with n legal actions and the floor
// f = min(floor, 0.99 / n). Every legal action keeps a chance of f, and gradients never die.
// Entropy is a share of the largest possible, log n: 0..1, exactly 0 where n = 1.
//
//     double p[ES_CHOICE_MAX];
//     int n_legal = es_choice_probabilities(logits, n, mask, floor, p);
//     int action = es_choice_draw(p, n, mask, es_random_uniform(word));
#ifndef ES_LEARNING_CHOICE_RULES_H
#define ES_LEARNING_CHOICE_RULES_H

#include "base/math_rules.h"

#define ES_CHOICE_MAX 64 // actions of a head with a mask

// p[n]; 0 where illegal. Returns the number of legal actions; with none of them p is all 0.
static inline ES_HOST_DEVICE int es_choice_probabilities(const float *logits, int n, uint64_t mask,
                                                         float floor, double *p);

// The action where the running sum of p passes u in [0, 1); never an illegal one.
static inline ES_HOST_DEVICE int es_choice_draw(const double *p, int n, uint64_t mask, float u);

// The most likely action, the first of equal ones.
static inline ES_HOST_DEVICE int es_choice_best(const double *p, int n, uint64_t mask);

// -sum p log p / log n_legal
static inline ES_HOST_DEVICE double es_choice_entropy(const double *p, int n, int n_legal);

#endif
