// Median and spread of a few samples.
#ifndef ES_PROGRAMS_BENCH_STATISTICS_H
#define ES_PROGRAMS_BENCH_STATISTICS_H

typedef struct EsBenchSummary {
    double median;
    double spread; // interquartile range
    int n_samples;
} EsBenchSummary;

// Quantiles interpolate linearly between samples. Sorts `samples`; n_samples >= 1.
EsBenchSummary es_bench_summarise(double *samples, int n_samples);

// Whether `value` differs from `reference` by more than 3 % and by more than both spreads.
int es_bench_is_change(EsBenchSummary value, EsBenchSummary reference);

#endif
