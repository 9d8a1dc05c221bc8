#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

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
