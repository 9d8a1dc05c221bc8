// Cases that more than one suite runs: hosts and growth, described by EsBenchHost with task, n_envs
// and texts filled in.
#ifndef ES_PROGRAMS_BENCH_CASES_H
#define ES_PROGRAMS_BENCH_CASES_H

#include "bench/bench_suite.h"
#include "data/dataset.h"
#include "growth/host/host.h"

// Host of a case: the preset `task`, or the file of that path; with the case's batch and, for a
// preset, its blocks. Released with es_host_unload.
EsStatus es_bench_open_host(const EsBenchHost *wanted, EsHostSpec *host);

// Samples for it: a preset's own generated set, with n_train images (0: as many as it has); a
// file's data set; images of noise where a file names none. At least n_validation to validate on,
// unless files have fewer. A file's host takes on the sizes of its data set.
EsStatus es_bench_open_data(EsHostSpec *host, int64_t n_train, int64_t n_validation,
                            EsDataset *dataset);

EsStatus es_bench_host_begin(const EsBenchHost *wanted, const EsBench *bench, void **fixture);
EsStatus es_bench_host_step(void *fixture, int variant); // one batch of all hosts
void es_bench_host_end(void *fixture);

// Seeds stand in HOLDING when it returns, and stay there: every decision is WAIT (policy none: the
// engine alone, all actions WAIT; learned: as `esper grow` runs), and the governor only acts on
// losses that are not finite. INPUT when a seed does not get there.
EsStatus es_bench_growth_begin(const EsBenchHost *wanted, const EsBench *bench, void **fixture);
EsStatus es_bench_growth_step(void *fixture, int variant); // one step of all environments
EsDeviceCounters es_bench_growth_counters(void *fixture);
void es_bench_growth_end(void *fixture);

// Checks whether the command line asks for cases of growth; fills in the rest, for that policy, and
// writes the parameters that distinguish cases.
EsStatus es_bench_growth_choose(const EsBenchHost *wanted, const char *policy, EsBenchHost *chosen,
                                char *parameters, size_t parameters_bytes, int *is_chosen);

#endif
