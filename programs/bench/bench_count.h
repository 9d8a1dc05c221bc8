// Cases that are counted instead of timed: what a step asks of the device.
#ifndef ES_PROGRAMS_BENCH_COUNT_H
#define ES_PROGRAMS_BENCH_COUNT_H

#include "bench/bench_record.h"
#include "bench/bench_suite.h"

// Synchronisations, copies, launches and allocations of a run, averaged over a few, as records.
EsStatus es_bench_count_case(const EsBench *bench, const EsBenchSuite *suite,
                             const EsBenchCase *bench_case, EsBenchRecords *records);

// Compare each count with the same case's at the fewest environments (E=n of the parameters): peer
// and ratio are filled in; NUMERIC names the first that grows.
EsStatus es_bench_count_judge(EsBenchRecords *records, const char *suite);

#endif
