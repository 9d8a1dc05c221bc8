// Cases of the suite `policy` that end in actions: from the state of E environments in device
// memory over observation and network to the sampled heads. On CUDA that is one replay, as in a
// run.
#ifndef ES_PROGRAMS_BENCH_DECIDE_H
#define ES_PROGRAMS_BENCH_DECIDE_H

#include "bench/bench_suite.h"

typedef struct EsDecideBench {
    int n_hidden, n_slots, n_envs;
} EsDecideBench;

// settings of the case: EsDecideBench
EsStatus es_bench_decide_begin(const EsBenchCase *bench_case, const EsBench *bench, void **state);
EsStatus es_bench_decide_run(void *state, int variant);
void es_bench_decide_end(void *state);
double es_bench_decide_work(const EsBenchCase *bench_case); // decisions

#endif
