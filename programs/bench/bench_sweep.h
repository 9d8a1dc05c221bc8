// `esper bench --sweep NAME=V,V,...`: the cases of a suite once per value.
#ifndef ES_PROGRAMS_BENCH_SWEEP_H
#define ES_PROGRAMS_BENCH_SWEEP_H

#include "esper/status.h"

#define ES_BENCH_MAX_SWEPT 64

typedef enum EsBenchSwept {
    ES_BENCH_SWEPT_NONE,
    ES_BENCH_SWEPT_ENVS,
    ES_BENCH_SWEPT_BATCH,
    ES_BENCH_SWEPT_HIDDEN,
    ES_BENCH_SWEPT_THREADS
} EsBenchSwept;

typedef struct EsBenchSweep {
    EsBenchSwept what;
    int values[ES_BENCH_MAX_SWEPT];
    int n_values; // 1 where nothing is swept
} EsBenchSweep;

// NULL: nothing is swept. ARGUMENT names what is wrong: an unknown name, no number, out of range,
// twice the same.
EsStatus es_bench_sweep_parse(const char *text, EsBenchSweep *sweep);

const char *es_bench_swept_name(EsBenchSwept what); // "envs"

#endif
