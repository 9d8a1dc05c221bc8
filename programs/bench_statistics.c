#include "bench_statistics.h"

#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double take_quantile(const double *sorted, int n_samples, double fraction) {
    double position = fraction * (double)(n_samples - 1);
    int below = (int)position;
    int above = ES_MIN(below + 1, n_samples - 1);
    return sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
}

EsBenchSummary es_bench_summarise(double *samples, int n_samples) {
    ES_ASSERT(n_samples >= 1);
    qsort(samples, (size_t)n_samples, sizeof *samples, compare_doubles);
    EsBenchSummary summary;
    summary.median = take_quantile(samples, n_samples, 0.5);
    summary.spread =
        take_quantile(samples, n_samples, 0.75) - take_quantile(samples, n_samples, 0.25);
    summary.n_samples = n_samples;
    return summary;
}

int es_bench_is_change(EsBenchSummary value, EsBenchSummary reference) {
    double difference = fabs(value.median - reference.median);
    return difference > 0.03 * fabs(reference.median) &&
           difference > ES_MAX(value.spread, reference.spread);
}
