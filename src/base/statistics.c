// Sums run in the order of the numbers and draws depend on (seed, number) alone, so that equal
// numbers give equal bits.
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/random_rules.h"

static double value_at(const double *values, int64_t i, size_t stride) {
    return *(const double *)((const char *)values + (size_t)i * stride);
}

double es_mean(const double *values, int64_t n, size_t stride, double *deviation) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += value_at(values, i, stride);
    }
    double mean = sum / (double)n;
    // around the mean: differences of large sums would cancel
    for (int64_t i = 0; i < n; i++) {
        double distance = value_at(values, i, stride) - mean;
        squares += distance * distance;
    }
    *deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
    return mean;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void es_sort_doubles(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
}

double es_quantile(const double *sorted, int64_t n, double share) {
    double position = share * (double)(n - 1);
    int64_t below = (int64_t)position;
    int64_t above = ES_MIN(below + 1, n - 1);
    return sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
}

// --- intervals ---

// The mean of one resample: n draws with replacement.
static double resample(const double *values, int64_t n, size_t stride, uint64_t seed,
                       uint32_t number, uint32_t round) {
    EsRandom4 words = {{0, 0, 0, 0}};
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i % 4 == 0) {
            words = es_random_draw(seed, number, ES_PURPOSE_EVALUATION, round, (uint32_t)(i / 4));
        }
        sum += value_at(values, es_random_below(words.word[i % 4], (uint32_t)n), stride);
    }
    return sum / (double)n;
}

EsStatus es_bootstrap_mean(const double *values, int64_t n, size_t stride, uint64_t seed,
                           uint32_t number, EsInterval *interval) {
    double deviation = 0, *means = NULL;
    *interval = (EsInterval){es_mean(values, n, stride, &deviation), NAN, NAN};
    if (n < 2 || !isfinite(interval->mean)) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof *means * ES_BOOTSTRAP_RESAMPLES, (void **)&means));
    for (uint32_t round = 0; round < ES_BOOTSTRAP_RESAMPLES; round++) {
        means[round] = resample(values, n, stride, seed, number, round);
    }
    es_sort_doubles(means, ES_BOOTSTRAP_RESAMPLES);
    interval->low = es_quantile(means, ES_BOOTSTRAP_RESAMPLES, 0.025);
    interval->high = es_quantile(means, ES_BOOTSTRAP_RESAMPLES, 0.975);
    es_release(means);
    return ES_STATUS_OK;
}

// The quantile 0.975 of Student's distribution; from 30 degrees on the first terms of its expansion
// around the normal one (Abramowitz and Stegun, 26.7.5), good to 1e-5.
static double student_quantile(int64_t degrees) {
    static const double few[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
                                 2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
                                 2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
                                 2.0595,  2.0555, 2.0518, 2.0484, 2.0452};
    if (degrees <= (int64_t)ES_COUNT_OF(few)) {
        return few[degrees - 1];
    }
    double z = 1.959963985, z2 = z * z, v = (double)degrees;
    return z + z * (z2 + 1) / (4 * v) + z * ((5 * z2 + 16) * z2 + 3) / (96 * v * v) +
           z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v * v * v);
}

EsInterval es_student_mean(const double *values, int64_t n, size_t stride) {
    double deviation = 0, mean = es_mean(values, n, stride, &deviation);
    if (n < 2) {
        return (EsInterval){mean, NAN, NAN};
    }
    double half = student_quantile(n - 1) * deviation / sqrt((double)n);
    return (EsInterval){mean, mean - half, mean + half};
}

void es_wilson_interval(int64_t n_hits, int64_t n, double *low, double *high) {
    const double z = 1.959963984540054; // of 95 %, two-sided
    double count = (double)n, share = (double)n_hits / count;
    double centre = share + z * z / (2 * count);
    double half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count));
    *low = 100 * (centre - half) / (1 + z * z / count);
    *high = 100 * (centre + half) / (1 + z * z / count);
}
