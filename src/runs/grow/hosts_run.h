// A run of kind "hosts": E hosts trained side by side without growth. A round is one pass over the
// training images and an evaluation on the validation images.
//
//     EsHostsRun *hosts; ES_TRY(es_hosts_run_create(&settings, &hosts));
//     EsRunWork work = es_hosts_run_work(hosts);
//     ES_TRY(es_run_rounds(run, &work));
//     ES_TRY(es_hosts_run_test(hosts));
#ifndef ES_RUNS_HOSTS_RUN_H
#define ES_RUNS_HOSTS_RUN_H

#include "growth/engine/host_trainer.h"
#include "runs/run.h"

typedef struct EsHostsSettings {
    EsRunSettings run;
    // [hosts]
    char task[1024];
    EsDataSettings data;
    int n_envs;
    int batch; // 0 = the task's
    float learning_rate;
    EsRecipe recipe;    // [recipe], pad and flip
    int base, n_blocks; // 0 = the task's
    int precision;      // 0 f32, 1 bf16
    int is_tf32;        // 0 off, 1 on
    int unfused;
} EsHostsSettings;

// The declared keys over `settings`, which is filled with defaults.
EsConfig es_hosts_run_config(EsHostsSettings *settings);

typedef struct EsHostsRun EsHostsRun;

// Open the device, make the data set, the networks and the plans. The settings are borrowed.
EsStatus es_hosts_run_create(const EsHostsSettings *settings, EsHostsRun **hosts);
void es_hosts_run_destroy(EsHostsRun *hosts);

EsRunWork es_hosts_run_work(EsHostsRun *hosts);

// Evaluate on the validation and test images, filling validation and test below.
EsStatus es_hosts_run_test(EsHostsRun *hosts);

// --- looking at it ---

typedef struct EsHostsReport {
    const EsHostSpec *host;
    const EsDataset *dataset;
    int n_envs;
    int64_t batch;
    int64_t n_parameters;           // of one host
    const EsHostResult *validation; // [E]
    const EsHostResult *test;       // [E]
    size_t store_bytes; // of all hosts: parameters, gradients, moments, states, averages
    size_t activation_bytes;
    size_t dataset_bytes;
    EsPlanReport plan;
    const EsDeviceInfo *device;
} EsHostsReport;

EsHostsReport es_hosts_run_report(const EsHostsRun *hosts);

// Seconds a round would take, from a few timed batches. Changes the networks: for --dry-run.
EsStatus es_hosts_run_predict(EsHostsRun *hosts, double *round_seconds);

#endif
