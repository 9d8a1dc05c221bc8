// The settings of a run of kind "grow": hosts, policy, reward, learning, evaluation. Lists of the
// modules below become keys as they are.
#ifndef ES_RUNS_GROW_SETTINGS_H
#define ES_RUNS_GROW_SETTINGS_H

#include "control/policy/policy_network.h"
#include "data/generated_images.h"
#include "growth/host/host.h"
#include "growth/rules/recipe.h"
#include "reward/reward.h"
#include "runs/run_settings.h"
#include "tensor/device.h"

// --- tasks ---

// A distribution of tasks, [tasks] in the configuration of growth: hosts, generated data and
// training drawn from ranges. A task is a function of the run's seed and the number of its first
// episode, so that a resumed run meets the same ones, and held-out episodes have tasks that no
// training has seen.
//
//     EsTask task; es_task_draw(&settings.tasks, seed, first_episode, &task);
//     printf("%s\n", task.text);
//
// A round is made of groups: environments with one task and one episode, the first one's (the same
// initial weights and batches), and a control beside them that only waits. Groups that are not
// paired have an episode for each environment, and no control.

// NAME, name (of the key), default, least, most, kind, help. A range is "3", "2..4" or a list
// "8,12,16". Kinds: WHOLE numbers, evenly; REAL ones, evenly; LOG: evenly in their logarithm.
#define ES_TASK_RANGES(X)                                                                          \
    X(BLOCKS, blocks, "2..4", 2, 12, WHOLE, "blocks of a host")                                    \
    X(BASE, base, "4..10", 1, 256, WHOLE, "channels of its first block")                           \
    X(WIDTH, width, "1..2", 0.25, 4, REAL, "channels of a block over those of the one before")     \
    X(KERNEL, kernel, "3,3,3,5", 1, 7, WHOLE, "kernel of a block")                                 \
    X(POOLS, pools, "1..3", 0, 5, WHOLE, "blocks with a pool, while maps keep 4 x 4 pixels")       \
    X(SLOTS, slots, "1..8", 1, 16, WHOLE, "slots, as far as the host has them")                    \
    X(IMAGE_SIZE, image_size, "8,12,16,20,24", 8, 32, WHOLE, "side of an image, a multiple of 4")  \
    X(CHANNELS, channels, "1,3", 1, 3, WHOLE, "channels of an image")                              \
    X(CLASSES, classes, "2..20", 2, 40, WHOLE, "classes")                                          \
    X(VARIANTS, variants, "1..4", 1, 4, WHOLE, "drawings of a class; all together have 40")        \
    X(DIFFICULTY, difficulty, "0..1", 0, 1, REAL, "turns, shifts, strays and faint lines")         \
    X(NOISE, noise, "0..0.2", 0, 1, REAL, "amplitude of the pixels' noise")                        \
    X(IMAGES, images, "1000..4000", 100, 1000000, LOG_WHOLE, "training images")                    \
    X(BATCH, batch, "16,32,64", 1, 65536, WHOLE, "images per update")                              \
    X(STEP_BATCHES, step_batches, "4..10", 1, 100000, WHOLE, "updates per step")                   \
    X(LEARNING_RATE, learning_rate, "0.03..0.2", 1e-6, 100, LOG, "learning rate of hosts")         \
    X(SEED_FACTOR, seed_factor, "0.5..2", 0.01, 100, LOG,                                          \
      "learning rate of seeds over the host's")                                                    \
    X(STEPS, steps, "20..60", 5, 10000, WHOLE, "steps of an episode")                              \
    X(BUDGET, budget, "1.1..6", 1.001, 1000, LOG, "budget over the host's parameters")

enum {
#define X(NAME, name, start, least, most, kind, help) ES_TASK_##NAME,
    ES_TASK_RANGES(X)
#undef X
        ES_N_TASK_RANGES
};

#define ES_TASK_RANGE_BYTES 64
#define ES_TASK_CHOICES_MAX 16

typedef struct EsTaskSettings {
    int n_groups;     // of a round; 0: the run has one task, that of [grow]
    float free_share; // of tasks without a budget
    int is_paired;    // the hosts of a group are in one episode, beside a control
    int is_relative;  // learning takes an episode's reward relative to the others of its group
#define X(NAME, name, start, least, most, kind, help) char name[ES_TASK_RANGE_BYTES];
    ES_TASK_RANGES(X)
#undef X
} EsTaskSettings;

#define ES_TASK_TEXT_BYTES 384

typedef struct EsTask {
    int64_t number; // the first of its episodes
    int n_redrawn;  // times that it was drawn again, for a host that the device runs fused
    EsHostSpec host;
    char slots[128]; // for es_slots_parse
    EsImageRecipe images;
    int n_images;
    uint64_t data_seed;
    int batch, step_batches, n_steps;
    float host_learning_rate, seed_learning_rate;
    int max_parameters;            // 0: no budget
    char text[ES_TASK_TEXT_BYTES]; // all of it for a person
} EsTask;

// CONFIG names the first key that is no range, or whose numbers cannot be.
EsStatus es_tasks_check(const EsTaskSettings *settings);

// For settings that were checked.
void es_task_draw(const EsTaskSettings *settings, uint64_t seed, int64_t number, EsTask *task);

// Draws another task of the same number.
void es_task_redraw(const EsTaskSettings *settings, uint64_t seed, EsTask *task);

// The task with the most of everything. Pools pull two ways: with the most of them it has the most
// slots, which a policy must have room for; with the fewest its maps stay large, which takes the
// most memory and time. In both they stand as late as they can, and the images are of the seed.
typedef enum EsTaskPools { ES_TASK_POOLS_LEAST, ES_TASK_POOLS_MOST } EsTaskPools;
void es_task_largest(const EsTaskSettings *settings, uint64_t seed, EsTaskPools pools,
                     EsTask *task);

// Makes the host of the largest task smaller, for a device that does not run it fused: kernels of
// at most 3, then at most six blocks, then half of the widest block's channels. 0: there is nothing
// left.
int es_task_shrink(const EsTaskSettings *settings, EsTask *task);

// The task with the least of everything.
void es_task_smallest(const EsTaskSettings *settings, EsTask *task);

// --- settings ---

#define ES_SWEEP_TEXT_BYTES 512

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
    int aggregation; // EsAggregation
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
    int hidden_inputs; // EsHiddenInputs
    // [ppo]
    EsPpoSettings ppo; // heads and total_updates are filled by es_grow_settings_ppo
    float floor_scale;
    // [reward]
    EsRewardSettings reward;
    // [evaluate]
    int n_evaluated; // episodes; -1: for learned policies alone
    char against[1024];
    int is_greedy;
    char sweep[ES_SWEEP_TEXT_BYTES]; // "grow.host_rate=0.01,0.05;grow.clip=1,5" (grow_sweep.h)
} EsGrowSettings;

// The declared keys over `settings`, which is filled with defaults.
EsConfig es_grow_run_config(EsGrowSettings *settings);

// Environments of a group of a run with tasks, without the control; and its controls.
int es_grow_settings_group_envs(const EsGrowSettings *settings);
int es_grow_settings_group_controls(const EsGrowSettings *settings);

// The settings of one task for n_envs environments.
EsGrowSettings es_grow_settings_of_task(const EsGrowSettings *settings, const EsTask *task,
                                        int n_envs);

// CONFIG when the run has tasks and settings that do not go with them.
EsStatus es_grow_settings_check_tasks(const EsGrowSettings *settings);

// Returns whether the run trains a policy.
int es_grow_settings_train(const EsGrowSettings *settings);

// Of the hosts' activations. auto: that of es_growth_auto_precision for the host.
EsDtype es_grow_settings_precision(const EsGrowSettings *settings, EsDtype automatic);

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
