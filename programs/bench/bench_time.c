#include "bench/bench_time.h"

#include "base/clock.h"

// a sample lasts at least this long, so that the clock and one interruption weigh little
#define SAMPLE_SECONDS  0.004
#define WARM_UP_SECONDS 0.02

// Seconds of `n_runs` runs of a variant, until the device has finished them.
static EsStatus time_runs(const EsBench *bench, const EsBenchCase *bench_case, void *state,
                          int variant, int n_runs, double *seconds) {
    int64_t start_ns = es_clock_ns();
    for (int i = 0; i < n_runs; i++) {
        ES_TRY(bench_case->run(state, variant));
    }
    ES_TRY(es_stream_synchronize(bench->stream));
    *seconds = es_clock_seconds_since(start_ns);
    return es_device_status(bench->device);
}

// Run until warm; returns how many runs make one sample.
static EsStatus warm_up(const EsBench *bench, const EsBenchCase *bench_case, void *state,
                        int variant, int *n_runs) {
    double spent = 0, seconds = 0;
    *n_runs = 1;
    do {
        ES_TRY(time_runs(bench, bench_case, state, variant, *n_runs, &seconds));
        spent += seconds;
        if (seconds < SAMPLE_SECONDS && *n_runs < (1 << 20)) {
            *n_runs *= 2;
        }
    } while (spent < WARM_UP_SECONDS || (seconds < SAMPLE_SECONDS && *n_runs < (1 << 20)));
    return ES_STATUS_OK;
}

static EsStatus add_records(const EsBenchSuite *suite, const EsBenchCase *bench_case,
                            double *seconds, int n_samples, double ratio, EsBenchRecords *records) {
    double work = bench_case->work(bench_case);
    double rates[ES_BENCH_MAX_SAMPLES];
    for (int i = 0; i < n_samples; i++) {
        rates[i] = work / seconds[i];
        seconds[i] *= 1e3;
    }
    EsBenchRecord record = {
        .suite = suite->name,
        .name = bench_case->name,
        .parameters = bench_case->parameters,
        .metric = "time",
        .unit = "ms",
        .is_lower_better = 1,
        .summary = es_bench_summarise(seconds, n_samples),
        .peer = bench_case->peer,
        .ratio = ratio,
    };
    ES_TRY(es_bench_records_add(records, &record));
    record.metric = "rate";
    record.unit = bench_case->rate_unit;
    record.is_lower_better = 0;
    record.summary = es_bench_summarise(rates, n_samples);
    return es_bench_records_add(records, &record);
}

// What the samples allocated, which is to be nothing.
static EsStatus add_allocations(const EsBenchSuite *suite, const EsBenchCase *bench_case,
                                int64_t n_allocations, EsBenchRecords *records) {
    double count[1] = {(double)n_allocations};
    EsBenchRecord record = {.suite = suite->name,
                            .name = bench_case->name,
                            .parameters = bench_case->parameters,
                            .metric = "allocations",
                            .unit = "in all samples",
                            .is_lower_better = 1,
                            .summary = es_bench_summarise(count, 1)};
    return es_bench_records_add(records, &record);
}

static EsStatus add_parts(const EsBenchSuite *suite, const EsBenchCase *bench_case, void *state,
                          EsBenchRecords *records) {
    EsBenchPart parts[ES_BENCH_MAX_PARTS];
    int n_parts = bench_case->parts(state, parts);
    for (int i = 0; i < n_parts; i++) {
        double percent[1] = {100 * parts[i].share};
        EsBenchRecord record = {.suite = suite->name,
                                .name = bench_case->name,
                                .parameters = bench_case->parameters,
                                .metric = parts[i].name,
                                .unit = parts[i].unit,
                                .is_lower_better = 1,
                                .summary = es_bench_summarise(percent, 1)};
        ES_TRY(es_bench_records_add(records, &record));
    }
    return ES_STATUS_OK;
}

EsStatus es_bench_time_case(const EsBench *bench, const EsBenchSuite *suite,
                            const EsBenchCase *bench_case, int n_samples, EsBenchRecords *records) {
    EsStatus status = ES_STATUS_OK;
    int n_variants = bench_case->peer != NULL ? 2 : 1;
    int n_runs[2] = {1, 1};
    double seconds[2][ES_BENCH_MAX_SAMPLES], ratios[ES_BENCH_MAX_SAMPLES];
    void *state = NULL;
    ES_TRY(bench_case->begin(bench_case, bench, &state));
    for (int variant = 0; variant < n_variants; variant++) {
        ES_TRY_GOTO(warm_up(bench, bench_case, state, variant, &n_runs[variant]));
    }
    int64_t n_before = bench_case->allocations != NULL ? bench_case->allocations(state) : 0;
    for (int i = 0; i < n_samples; i++) {
        for (int variant = 0; variant < n_variants; variant++) {
            double *sample = &seconds[variant][i];
            ES_TRY_GOTO(time_runs(bench, bench_case, state, variant, n_runs[variant], sample));
            *sample /= n_runs[variant];
        }
        ratios[i] = seconds[n_variants - 1][i] / seconds[0][i];
    }
    double ratio = n_variants == 2 ? es_bench_summarise(ratios, n_samples).median : 0;
    ES_TRY_GOTO(add_records(suite, bench_case, seconds[0], n_samples, ratio, records));
    if (bench_case->parts != NULL) {
        ES_TRY_GOTO(add_parts(suite, bench_case, state, records));
    }
    if (bench_case->allocations != NULL) {
        status =
            add_allocations(suite, bench_case, bench_case->allocations(state) - n_before, records);
    }
done:
    bench_case->end(state);
    return status;
}
