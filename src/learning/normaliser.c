// Merges the rows of a round into running scales, in the order of rows.
#include "learning/normaliser.h"

#include "base/memory.h"

#define KEPT            0.99 // share of the old statistics in a merge
#define RETURNS_WARMUP  32
#define LEAST_DEVIATION 1e-8

// Count, mean and population variance of some numbers.
typedef struct Moments {
    double n, mean, variance;
} Moments;

// Every stride-th value, in the order of rows. Two passes: differences of large sums would cancel.
static Moments measure(int64_t n_rows, int64_t stride, const float *values,
                       const uint8_t *is_counted) {
    Moments m = {0, 0, 0};
    for (int64_t r = 0; r < n_rows; r++) {
        if (is_counted == NULL || is_counted[r]) {
            m.mean += (double)values[r * stride];
            m.n += 1;
        }
    }
    if (m.n == 0) {
        return m;
    }
    m.mean /= m.n;
    for (int64_t r = 0; r < n_rows; r++) {
        if (is_counted == NULL || is_counted[r]) {
            double distance = (double)values[r * stride] - m.mean;
            m.variance += distance * distance;
        }
    }
    m.variance /= m.n;
    return m;
}

// mean and variance of a mixture of the old (KEPT) and the new
static void move_towards(double *mean, double *variance, const Moments *round) {
    double distance = round->mean - *mean;
    *mean = KEPT * *mean + (1 - KEPT) * round->mean;
    *variance =
        KEPT * *variance + (1 - KEPT) * round->variance + KEPT * (1 - KEPT) * distance * distance;
}

// mean and variance of old and new samples together (Chan, Golub, LeVeque, 1979)
static void unite(EsScaleNormaliser *s, const Moments *round) {
    double n = s->n_samples + round->n;
    double distance = round->mean - s->mean;
    double share = round->n / n;
    double old = s->n_samples / n;
    s->variance = old * s->variance + share * round->variance + old * share * distance * distance;
    s->mean = old * s->mean + share * round->mean;
    s->n_samples = n;
}

EsStatus es_feature_normaliser_create(int n_features, EsFeatureNormaliser *normaliser) {
    ES_ASSERT(n_features >= 1);
    *normaliser = (EsFeatureNormaliser){.n_features = n_features};
    void *memory = NULL;
    ES_TRY(es_allocate(2 * (size_t)n_features * sizeof(double), &memory));
    normaliser->mean = memory;
    normaliser->variance = normaliser->mean + n_features;
    for (int d = 0; d < n_features; d++) {
        normaliser->variance[d] = 1;
    }
    return ES_STATUS_OK;
}

void es_feature_normaliser_destroy(EsFeatureNormaliser *normaliser) {
    if (normaliser != NULL) {
        es_release(normaliser->mean); // the variance stands behind it
        *normaliser = (EsFeatureNormaliser){0};
    }
}

void es_feature_normaliser_apply(const EsFeatureNormaliser *normaliser, int64_t n_rows,
                                 const float *raw, float *normalised) {
    int64_t n_features = normaliser->n_features;
    for (int64_t d = 0; d < n_features; d++) {
        double mean = normaliser->mean[d];
        double deviation = es_feature_deviation(normaliser->variance[d]);
        for (int64_t r = 0; r < n_rows; r++) {
            normalised[r * n_features + d] =
                es_feature_normalise(raw[r * n_features + d], mean, deviation);
        }
    }
}

int es_feature_normaliser_merge(EsFeatureNormaliser *normaliser, int64_t n_rows, const float *raw,
                                const uint8_t *is_counted) {
    int n_left_out = 0, is_empty = 1;
    for (int d = 0; d < normaliser->n_features; d++) {
        Moments round = measure(n_rows, normaliser->n_features, raw + d, is_counted);
        if (round.n == 0) {
            continue;
        }
        is_empty = 0;
        if (!es_math_is_finite(round.variance)) {
            n_left_out++;
            continue;
        }
        move_towards(&normaliser->mean[d], &normaliser->variance[d], &round);
    }
    normaliser->n_merged += !is_empty;
    return n_left_out;
}

EsScaleNormaliser es_scale_normaliser_start(void) { return (EsScaleNormaliser){0, 1, 0}; }

double es_reward_scale(const EsScaleNormaliser *normaliser) {
    double n = normaliser->n_samples;
    if (n < 2) {
        return 1;
    }
    double deviation = es_math_sqrt(normaliser->variance * (n / (n - 1)));
    return deviation < LEAST_DEVIATION ? 1 : deviation;
}

double es_value_scale(const EsScaleNormaliser *normaliser) {
    return normaliser->n_samples < RETURNS_WARMUP
               ? 1
               : es_math_sqrt(normaliser->variance + ES_VARIANCE_FLOOR);
}

void es_reward_scale_merge(EsScaleNormaliser *normaliser, int64_t n_rows, const float *values,
                           const uint8_t *is_counted) {
    Moments round = measure(n_rows, 1, values, is_counted);
    if (round.n > 0) {
        unite(normaliser, &round);
    }
}

void es_value_scale_merge(EsScaleNormaliser *normaliser, int64_t n_rows, const float *values,
                          const uint8_t *is_counted) {
    Moments round = measure(n_rows, 1, values, is_counted);
    if (round.n == 0) {
        return;
    }
    if (normaliser->n_samples < RETURNS_WARMUP) {
        unite(normaliser, &round);
    } else {
        move_towards(&normaliser->mean, &normaliser->variance, &round);
        normaliser->n_samples += round.n;
    }
}
