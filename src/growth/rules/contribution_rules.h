// Contribution of a seed: accuracy with it against accuracy without it.
//
// Validation runs a host with some of its ablatable seeds off. Patterns are sets of positions in
// the list of those seeds: for n <= 4 all 2^n subsets, so that interactions and Shapley values come
// for free; above, all on, each one off, all off. Patterns never repeat.
//
//     EsAblation list = es_ablation_list(&settings, seeds);
//     for (k = 0; k < es_ablation_count(&list); k++) accuracy[k] = run(es_ablation_off(&list, k));
//     es_contribution_record(&settings, &env, seeds, &list, accuracy, &pairs);
#ifndef ES_GROWTH_CONTRIBUTION_RULES_H
#define ES_GROWTH_CONTRIBUTION_RULES_H

#include "growth/rules/gate_rules.h"

#define ES_ABLATION_FULL_MAX     4                  // all subsets up to here
#define ES_ABLATION_PATTERNS_MAX (ES_SLOTS_MAX + 2) // >= 2^4
#define ES_PAIRS_MAX             6

// Ablatable seeds, in the order of slots.
typedef struct EsAblation {
    int32_t n;
    int32_t slot[ES_SLOTS_MAX];
} EsAblation;

typedef struct EsInteractions {
    int32_t n_pairs;
    int32_t slot_a[ES_PAIRS_MAX], slot_b[ES_PAIRS_MAX];
    float value[ES_PAIRS_MAX]; // percent points; positive: better together than apart
} EsInteractions;

// A seed can be switched off when it changes the output and is not permanent: alpha > 0, no fossil.
// A fossil's removal measures the damage to a host that adapted to it.
static inline ES_HOST_DEVICE EsAblation es_ablation_list(const EsGrowthSettings *settings,
                                                         const EsSeed *seeds) {
    EsAblation list;
    list.n = 0;
    for (int32_t s = 0; s < ES_SLOTS_MAX; s++) {
        list.slot[s] = -1;
    }
    for (int32_t s = 0; s < settings->n_slots; s++) {
        if (es_stage_in(seeds[s].stage, ES_STAGES_RETARGETABLE) && seeds[s].alpha > 0) {
            list.slot[list.n++] = s;
        }
    }
    return list;
}

// Number of patterns: 2^n up to 4 seeds, n + 2 above.
static inline ES_HOST_DEVICE int32_t es_ablation_count(const EsAblation *list) {
    return list->n <= ES_ABLATION_FULL_MAX ? 1 << list->n : list->n + 2;
}

// Positions that pattern k switches off, as bits. Pattern 0 is the host as it is; the last pattern
// has all of them off. Up to 4 seeds the pattern's number is that set.
static inline ES_HOST_DEVICE int32_t es_ablation_off(const EsAblation *list, int32_t k) {
    if (list->n <= ES_ABLATION_FULL_MAX) {
        return k;
    }
    if (k == 0) {
        return 0;
    }
    return k <= list->n ? 1 << (k - 1) : (1 << list->n) - 1;
}

// The same as slots of the host, as bits.
static inline ES_HOST_DEVICE int32_t es_ablation_slots_off(const EsAblation *list, int32_t k) {
    int32_t off = es_ablation_off(list, k), slots = 0;
    for (int32_t i = 0; i < list->n; i++) {
        if ((off >> i) & 1) {
            slots |= 1 << list->slot[i];
        }
    }
    return slots;
}

static inline ES_HOST_DEVICE int32_t es_ablation_one_off(const EsAblation *list, int32_t i) {
    return list->n <= ES_ABLATION_FULL_MAX ? 1 << i : i + 1;
}

// contribution = accuracy(all) - accuracy(without it);
// velocity = 0.7 velocity + 0.3 (contribution - previous one), once there is a previous one.
static inline ES_HOST_DEVICE void es_contribution_set(const EsGrowthSettings *settings,
                                                      EsSeed *seed, float contribution) {
    if (es_contribution_is_measured(seed)) {
        double decay = (double)settings->velocity_decay;
        double change = (double)contribution - (double)seed->contribution;
        seed->contribution_velocity =
            (float)(decay * (double)seed->contribution_velocity + (1 - decay) * change);
    }
    seed->contribution = contribution;
    seed->contribution_age = 0;
}

// I_ij = f(ij) - f(i) - f(j) + f(none), f(X) the accuracy with X alone on. For 2 to 4 seeds.
static inline ES_HOST_DEVICE void es_interactions_record(EsSeed *seeds, const EsAblation *list,
                                                         const float *accuracy,
                                                         EsInteractions *pairs) {
    pairs->n_pairs = 0;
    if (list->n < 2 || list->n > ES_ABLATION_FULL_MAX) {
        return;
    }
    int32_t all = (1 << list->n) - 1;
    for (int32_t i = 0; i < list->n; i++) {
        for (int32_t j = i + 1; j < list->n; j++) {
            int32_t a = 1 << i, b = 1 << j;
            double value = ((double)accuracy[all & ~(a | b)] - (double)accuracy[all & ~a]) -
                           ((double)accuracy[all & ~b] - (double)accuracy[all]);
            if (!es_math_is_finite(value)) {
                continue;
            }
            int32_t n = pairs->n_pairs++;
            pairs->slot_a[n] = list->slot[i];
            pairs->slot_b[n] = list->slot[j];
            pairs->value[n] = (float)value;
            for (int32_t side = 0; side < 2; side++) {
                EsSeed *seed = &seeds[list->slot[side == 0 ? i : j]];
                seed->interaction_sum += (float)value;
                if (value > 0) {
                    seed->boosted_by |= 1 << list->slot[side == 0 ? j : i];
                    seed->boost_received =
                        (float)value > seed->boost_received ? (float)value : seed->boost_received;
                }
            }
        }
    }
}

// Sums of alpha over the living seeds that run before and after each one.
static inline ES_HOST_DEVICE void es_topology_record(const EsGrowthSettings *settings,
                                                     EsSeed *seeds) {
    for (int32_t s = 0; s < settings->n_slots; s++) {
        double before = 0, after = 0;
        for (int32_t other = 0; other < settings->n_slots; other++) {
            if (other == s || !es_stage_in(seeds[other].stage, ES_STAGES_LIVING)) {
                continue;
            }
            if (es_slot_runs_before(settings, other, s)) {
                before += (double)seeds[other].alpha;
            } else {
                after += (double)seeds[other].alpha;
            }
        }
        int lives = es_stage_in(seeds[s].stage, ES_STAGES_LIVING);
        seeds[s].upstream_alpha = lives ? (float)before : 0.0f;
        seeds[s].downstream_alpha = lives ? (float)after : 0.0f;
    }
}

// Records a validation. accuracy[k] belongs to pattern k, in percent; one that is not finite leaves
// everything derived from it unmeasured. Pairs are reported, too.
static inline ES_HOST_DEVICE void
es_contribution_record(const EsGrowthSettings *settings, EsGrowthEnv *env, EsSeed *seeds,
                       const EsAblation *list, const float *accuracy, EsInteractions *pairs) {
    for (int32_t s = 0; s < settings->n_slots; s++) {
        seeds[s].interaction_sum = 0;
        seeds[s].boost_received = 0;
        seeds[s].boosted_by = 0;
    }
    for (int32_t i = 0; i < list->n; i++) {
        float contribution = accuracy[0] - accuracy[es_ablation_one_off(list, i)];
        if (es_math_is_finite((double)contribution)) {
            es_contribution_set(settings, &seeds[list->slot[i]], contribution);
        }
    }
    float committed = accuracy[es_ablation_count(list) - 1];
    env->committed_accuracy = es_math_is_finite((double)committed) ? committed : ES_NOT_MEASURED;
    es_interactions_record(seeds, list, accuracy, pairs);
    es_topology_record(settings, seeds);
}

// Exact Shapley values of n <= 4 seeds, in the order of the list, from the 2^n accuracies above:
//   phi_i = sum over sets X without i of |X|! (n - |X| - 1)! / n! (f(X + i) - f(X)).
// They add up to f(all) - f(none).
static inline ES_HOST_DEVICE void es_shapley_exact(int32_t n, const float *accuracy, double *phi) {
    int32_t all = (1 << n) - 1;
    for (int32_t i = 0; i < n; i++) {
        phi[i] = 0;
        for (int32_t on = 0; on <= all; on++) {
            if ((on >> i) & 1) {
                continue;
            }
            // the weight is 1 / (n * (n - 1 choose size)): a product of ratios
            double weight = 1.0 / n;
            int32_t size = 0;
            for (int32_t j = 0; j < n; j++) {
                size += (on >> j) & 1;
            }
            for (int32_t j = 1; j <= size; j++) {
                weight = weight * j / (n - j);
            }
            int32_t off = all & ~on;
            phi[i] += weight * ((double)accuracy[off & ~(1 << i)] - (double)accuracy[off]);
        }
    }
}

#endif
