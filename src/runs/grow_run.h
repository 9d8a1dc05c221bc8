// A run of kind "grow": E hosts that grow seeds under a policy. A round is one episode of every
// environment.
//
//     EsGrowRun *grow; ES_TRY(es_grow_run_create(&settings, &grow));
//     EsRunWork work = es_grow_run_work(grow);
//     ES_TRY(es_run_rounds(run, &work));
#ifndef ES_RUNS_GROW_RUN_H
#define ES_RUNS_GROW_RUN_H

#include "growth/growth.h"
#include "runs/run.h"

typedef struct EsGrowSettings {
    EsRunSettings run;
    // [grow]
    char task[1024];
    char data[64];     // "" = the task's
    char folder[1024]; // "" = ES_DATA_DIR
    char slots[128];   // "r0c0,r0c1", "all"
    char policy[1024]; // wait, script:FILE
    int n_envs;
    int max_seeds;     // 0 = no limit
    int episode_steps; // 0 = the task's
    int batch;         // 0 = the task's
    int step_batches;
    int validation_images;
    int gates; // 0 permissive, 1 strict
    int auto_forward;
    int data_seed;
    int pad, flip;
    float host_rate, seed_rate, clip;
    int gradient_stride;
    int unfused;
} EsGrowSettings;

// The declared keys over `settings`, which is filled with defaults.
EsConfig es_grow_run_config(EsGrowSettings *settings);

typedef struct EsGrowRun EsGrowRun;

EsStatus es_grow_run_create(const EsGrowSettings *settings, EsGrowRun **grow);
void es_grow_run_destroy(EsGrowRun *grow);
EsRunWork es_grow_run_work(EsGrowRun *grow);

// Operations of this sitting that the rules refused; *last says why the last one was.
int64_t es_grow_run_refusals(const EsGrowRun *grow, const char **last);

EsGrowth *es_grow_run_growth(EsGrowRun *grow);
const EsDataset *es_grow_run_dataset(const EsGrowRun *grow);

#endif
