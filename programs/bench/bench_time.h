// Cases that are timed, after the protocol in bench_suite.h.
#ifndef ES_PROGRAMS_BENCH_TIME_H
#define ES_PROGRAMS_BENCH_TIME_H

#include "bench/bench_record.h"
#include "bench/bench_suite.h"

#define ES_BENCH_MAX_SAMPLES 1000

// Time and rate of a run, and where the case counts them what all samples allocated, as records.
EsStatus es_bench_time_case(const EsBench *bench, const EsBenchSuite *suite,
                            const EsBenchCase *bench_case, int n_samples, EsBenchRecords *records);

#endif
