// Mean, deviation and quantiles of a few numbers.
#ifndef ES_BASE_STATISTICS_H
#define ES_BASE_STATISTICS_H

#include <stddef.h>

#include "base/macros.h"

ES_EXTERN_C_BEGIN

// Mean of n >= 1 numbers that stand `stride` bytes apart; *deviation receives the standard
// deviation of the sample, 0 for a single number. NaN when one of them is.
double es_mean(const double *values, int64_t n, size_t stride, double *deviation);

void es_sort_doubles(double *values, int64_t n);

// The quantile `share` (0 to 1) of n >= 1 sorted numbers, linear between neighbours.
double es_quantile(const double *sorted, int64_t n, double share);

ES_EXTERN_C_END

#endif
