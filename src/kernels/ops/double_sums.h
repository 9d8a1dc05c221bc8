// Sums of float arrays in double for the CPU specifications: eight running sums, joined in a fixed
// tree.
//
// The order is a function of the length alone, and eight independent sums let the compiler use
// vectors without the permission to reorder.
#ifndef ES_KERNELS_DOUBLE_SUMS_H
#define ES_KERNELS_DOUBLE_SUMS_H

#include "base/macros.h"

#define ES_PARTIAL_SUMS 8

static inline double es_partial_join(const double *part) {
    return ((part[0] + part[1]) + (part[2] + part[3])) +
           ((part[4] + part[5]) + (part[6] + part[7]));
}

// sum of x
static inline double es_double_sum(const float *x, int64_t n) {
    double part[ES_PARTIAL_SUMS] = {0};
    int64_t i = 0;
    for (; i + ES_PARTIAL_SUMS <= n; i += ES_PARTIAL_SUMS) {
        for (int j = 0; j < ES_PARTIAL_SUMS; j++) {
            part[j] += (double)x[i + j];
        }
    }
    for (int j = 0; i + j < n; j++) {
        part[j] += (double)x[i + j];
    }
    return es_partial_join(part);
}

// sum of (a - a_mean) (b - b_mean)
static inline double es_double_centred_dot(const float *a, double a_mean, const float *b,
                                           double b_mean, int64_t n) {
    double part[ES_PARTIAL_SUMS] = {0};
    int64_t i = 0;
    for (; i + ES_PARTIAL_SUMS <= n; i += ES_PARTIAL_SUMS) {
        for (int j = 0; j < ES_PARTIAL_SUMS; j++) {
            part[j] += ((double)a[i + j] - a_mean) * ((double)b[i + j] - b_mean);
        }
    }
    for (int j = 0; i + j < n; j++) {
        part[j] += ((double)a[i + j] - a_mean) * ((double)b[i + j] - b_mean);
    }
    return es_partial_join(part);
}

#endif
