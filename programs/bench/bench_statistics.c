#include "bench/bench_statistics.h"

#include <math.h>

#include "base/statistics.h"

EsBenchSummary es_bench_summarise(double *samples, int n_samples) {
    ES_ASSERT(n_samples >= 1);
    es_sort_doubles(samples, n_samples);
    EsBenchSummary summary;
    summary.median = es_quantile(samples, n_samples, 0.5);
    summary.spread = es_quantile(samples, n_samples, 0.75) - es_quantile(samples, n_samples, 0.25);
    summary.n_samples = n_samples;
    return summary;
}

int es_bench_is_change(EsBenchSummary value, EsBenchSummary reference) {
    double difference = fabs(value.median - reference.median);
    return difference > 0.03 * fabs(reference.median) &&
           difference > ES_MAX(value.spread, reference.spread);
}
