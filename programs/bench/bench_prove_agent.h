// Cases of the suite `prove` in which a policy acts, learns and ranks.
#ifndef ES_PROGRAMS_BENCH_PROVE_AGENT_H
#define ES_PROGRAMS_BENCH_PROVE_AGENT_H

#include "bench/bench_suite.h"

// What a case of the suite is about.
typedef struct EsBenchProve {
    const char *folder;   // NULL: the generated graph
    int n_envs;           // engine: walkers
    int n_wide, n_layers; // of the policy's network; 0: as by default
} EsBenchProve;

// rollout and train: rounds of a fixed number of steps of all environments.
EsStatus es_bench_prove_agent_begin(const EsBenchCase *bench_case, const EsBench *bench,
                                    void **state);
EsStatus es_bench_prove_rollout_run(void *state, int variant);
EsStatus es_bench_prove_train_run(void *state, int variant);
double es_bench_prove_count_steps(const EsBenchCase *bench_case);
void es_bench_prove_agent_end(void *state);

// Where the time of all rounds so far went, in the categories of source document 003.
int es_bench_prove_agent_parts(void *state, EsBenchPart parts[ES_BENCH_MAX_PARTS]);

// evaluation: test queries against corruptions, by searches that an untrained policy guides.
EsStatus es_bench_prove_ranking_begin(const EsBenchCase *bench_case, const EsBench *bench,
                                      void **state);
EsStatus es_bench_prove_ranking_run(void *state, int variant);
double es_bench_prove_count_candidates(const EsBenchCase *bench_case);

#endif
