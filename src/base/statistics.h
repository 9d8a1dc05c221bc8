// Mean, deviation, quantiles and intervals of a few numbers.
#ifndef ES_BASE_STATISTICS_H
#define ES_BASE_STATISTICS_H

#include <stddef.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// Mean of n >= 1 numbers that stand `stride` bytes apart; *deviation receives the standard
// deviation of the sample, 0 for a single number. NaN when one of them is.
double es_mean(const double *values, int64_t n, size_t stride, double *deviation);

void es_sort_doubles(double *values, int64_t n);

// The quantile `share` (0 to 1) of n >= 1 sorted numbers, linear between neighbours.
double es_quantile(const double *sorted, int64_t n, double share);

// A mean and its interval of 95 %; low and high are NaN where one number is all there is.
typedef struct EsInterval {
    double mean, low, high;
} EsInterval;

#define ES_BOOTSTRAP_RESAMPLES 10000

// Percentile bootstrap: the middle 95 % of the means of 10,000 resamples of n >= 1 numbers that
// stand `stride` bytes apart. Draws are those of (seed, number): the same numbers give the same
// interval. Numbers that are not finite make it NaN.
EsStatus es_bootstrap_mean(const double *values, int64_t n, size_t stride, uint64_t seed,
                           uint32_t number, EsInterval *interval);

// Student's interval of the mean: for few numbers, of which a bootstrap sees too little.
EsInterval es_student_mean(const double *values, int64_t n, size_t stride);

// Wilson's interval of n_hits of n at 95 %, in percent.
void es_wilson_interval(int64_t n_hits, int64_t n, double *low, double *high);

ES_EXTERN_C_END

#endif
