// The settings of a run of kind "grow": hosts, policy, reward, learning, evaluation. Lists of the
// modules below become keys as they are.
#ifndef ES_RUNS_GROW_SETTINGS_H
#define ES_RUNS_GROW_SETTINGS_H

#include "control/policy/policy_network.h"
#include "data/dataset.h"
#include "growth/rules/recipe.h"
#include "reward/reward.h"
#include "runs/grow/grow_tasks.h"
#include "runs/run_settings.h"
#include "tensor/device.h"

typedef struct EsGrowSettings {
    EsRunSettings run;
    // [grow]
    char task[1024];
    EsDataSettings data;
    char slots[128];   // "r0c0,r0c1", "all"
    char policy[1024]; // ppo, heuristic, random, wait, script:FILE, FILE
    int n_envs;
    int max_seeds;      // 0 = no limit
    int max_parameters; // of a host and its seeds; 0 = no limit
    int episode_steps;  // 0 = the task's
    int batch;          // 0 = the task's
    int step_batches;
    int validation_images;
    int pace;  // 0 = the task's, else 1 + EsGrowthPace
    int gates; // 0 permissive, 1 strict
    int auto_forward;
    int data_split; // 0 whole, 1 share
    float host_learning_rate, seed_learning_rate, clip;
    EsRecipe recipe; // [recipe], pad and flip
    int gradient_stride;
    int unfused;
    int amp_dtype;        // 0 auto, 1 off, 2 bfloat16, 3 float16
    int is_tf32;          // 0 off, 1 on
    int keep_best;        // networks of the last round to write
    EsTaskSettings tasks; // [tasks]
    // [policy]
    int policy_version;
    int n_hidden;   // 0 = the task's
    int n_features; // 0 = as hidden
    float dropout;
    int aux_stops;
    // [ppo]
    EsPpoSettings ppo; // heads and total_updates are filled by es_grow_settings_ppo
    float floor_scale;
    // [reward]
    EsRewardSettings reward;
    // [evaluate]
    int n_evaluated; // episodes; -1: for learned policies alone
    char against[1024];
    int is_greedy;
} EsGrowSettings;

// The declared keys over `settings`, which is filled with defaults.
EsConfig es_grow_run_config(EsGrowSettings *settings);

// Environments of a group of a run with tasks, without the control.
int es_grow_settings_group_envs(const EsGrowSettings *settings);

// The settings of one task for n_envs environments.
EsGrowSettings es_grow_settings_of_task(const EsGrowSettings *settings, const EsTask *task,
                                        int n_envs);

// CONFIG when the run has tasks and settings that do not go with them.
EsStatus es_grow_settings_check_tasks(const EsGrowSettings *settings);

// Returns whether the run trains a policy.
int es_grow_settings_train(const EsGrowSettings *settings);

// Of the hosts' activations. auto: es_growth_auto_precision.
EsDtype es_grow_settings_precision(const EsGrowSettings *settings, const EsDeviceInfo *device);

// Held-out episodes to run at the end; with tasks whole groups of them.
int64_t es_grow_settings_evaluated(const EsGrowSettings *settings);

// Hosts that run them: as few as need no more batches of episodes than n_envs would.
int es_grow_settings_evaluated_envs(const EsGrowSettings *settings);

// The network of the policy that is trained, for a host with these slots and parameters. CONFIG
// when it cannot be built.
EsStatus es_grow_settings_spec(const EsGrowSettings *settings, int n_slots,
                               int64_t n_host_parameters, EsPolicySpec *spec);

// Settings of learning, with those of each head; total_updates is the number of rounds, so that a
// run that is resumed to more rounds follows the longer schedule from there on.
EsPpoSettings es_grow_settings_ppo(const EsGrowSettings *settings);

#endif
