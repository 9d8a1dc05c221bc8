// The episode runner: the hosts of a run, and one episode of all of them under a policy. Training
// and evaluation run alike; they differ in the watch.
//
//     EsEpisodeRunner runner; ES_TRY(es_grow_episode_create(&settings, device, &runner));
//     EsPolicy *policy; ES_TRY(es_grow_episode_open_policy(&runner, "heuristic", &policy));
//     ES_TRY(es_grow_episode_run(&runner, policy, first_episode, &watch));
//
// E environments.
#ifndef ES_RUNS_GROW_EPISODE_H
#define ES_RUNS_GROW_EPISODE_H

#include "base/checksum.h"
#include "control/decision/decision_device.h"
#include "control/policy/policy.h"
#include "fit/host_choice.h"
#include "runs/grow/grow_settings.h"

typedef struct EsEpisodeBackend EsEpisodeBackend;

typedef struct EsEpisodeRunner {
    const EsEpisodeBackend *backend; // constant
    const EsGrowSettings *settings;  // borrowed
    EsHostSpec host;                 // owned where it comes from a file
    EsDataset dataset;               // owned, or borrowed where the next says so
    int has_borrowed_dataset;
    int n_controls;                // the last one of the environments only waits; 0: none does
    char task[ES_TASK_TEXT_BYTES]; // what was drawn for it; "" where nothing was
    EsDevice *device;              // borrowed: of growth and of policy networks
    EsGrowth *growth;              // owned
    EsReward *reward;              // owned
    EsAction *actions;             // owned [E]: of the last decision
    float *rewards;                // owned [E]: rewards of the last decision
    double *parameter_ratio;       // owned [E]: of the networks as last measured; 1 = no growth
    void *report;                  // borrowed: where decisions on a GPU report; NULL on the CPU
    EsDecisionDevice *decision;    // owned: on a GPU, of the policy whose episode began last
    int keeps_logits;              // on a GPU: decisions come with es_policy_head_probabilities
    EsEvent *decision_events[2];   // owned: begin and end of a decision on a GPU; NULL on the CPU
    EsDecisionReplays replays;     // on a GPU: of the policy whose episode was the last to end
    double decide_ms;              // of the last decision: policy, rules, reward
    size_t hosts_bytes;            // that creating growth and reward allocated
    char data_hash[ES_SHA256_TEXT_BYTES];
} EsEpisodeRunner;

// The device that settings name, for a runner and its policies; the caller closes it after them.
EsStatus es_grow_episode_open_device(const EsGrowSettings *settings, EsDevice **device);

// Data, hosts, reward; the device is borrowed. Warns when an episode is too short for a seed's
// minimum dwell times. On failure nothing is left; destroy accepts a zeroed runner that was never
// created.
EsStatus es_grow_episode_create(const EsGrowSettings *settings, EsDevice *device,
                                EsEpisodeRunner *runner);

// The task of this number; drawn again while the device does not run its host fused, and as it is
// when that is so of many.
EsStatus es_grow_episode_draw_task(const EsGrowSettings *settings, int64_t number,
                                   const EsDevice *device, EsTask *task);

// The largest task (es_task_largest), made smaller where the device does not run its host fused.
EsStatus es_grow_episode_largest_task(const EsGrowSettings *settings, EsTaskPools pools,
                                      const EsDevice *device, EsTask *task);

// The same for a task and its settings (es_grow_settings_of_task), which are borrowed; the task is
// not kept. With n_controls 1 all environments are in the first one's episode, and the last of them
// only waits: rewards of mode budget are measured against it.
EsStatus es_grow_episode_create_task(const EsGrowSettings *settings, const EsTask *task,
                                     int n_controls, EsDevice *device, EsEpisodeRunner *runner);

// Creates the parts around the growth, settings and device that a runner has: reward, actions, and
// on a GPU room for the decision. es_grow_episode_create calls it.
EsStatus es_grow_episode_create_reward_and_buffers(EsEpisodeRunner *runner);

// Others of the same kind: `settings` differ from those of `model` in n_envs or max_parameters
// alone. With the same limit an episode is the same bits in both. Device and data set are the
// model's, which must outlive this.
EsStatus es_grow_episode_create_like(const EsEpisodeRunner *model, const EsGrowSettings *settings,
                                     EsEpisodeRunner *runner);

// Others of the same kind in n_variants parts, each in the same episodes as the others, with rates
// [E] of their own.
EsStatus es_grow_episode_create_variants(const EsEpisodeRunner *model,
                                         const EsGrowSettings *settings, int n_variants,
                                         const EsGrowthRates *rates, EsEpisodeRunner *runner);

// The same settings on another host, in which nothing grows.
EsStatus es_grow_episode_create_static(const EsEpisodeRunner *model, const EsHostSpec *host,
                                       EsEpisodeRunner *runner);
void es_grow_episode_destroy(EsEpisodeRunner *runner);

// A policy to run: wait, random, heuristic, script:FILE or a file.
EsStatus es_grow_episode_open_policy(const EsEpisodeRunner *runner, const char *text,
                                     EsPolicy **policy);

// Warns, in one line, where the training of the policy `name` did not cover such hosts.
void es_grow_episode_warn_outside(const EsPolicy *policy, const EsGrowthSettings *settings,
                                  const char *name);

// The policy that this run trains, with fresh weights, for n_envs environments.
EsStatus es_grow_episode_create_policy(const EsEpisodeRunner *runner, int64_t n_envs,
                                       EsPolicy **policy);

// A policy that acts here for the one that is trained (es_policy_create_actor).
EsStatus es_grow_episode_create_actor(const EsEpisodeRunner *runner, const EsPolicy *learner,
                                      EsPolicy **policy);

// Destroys a policy whose episodes were run here, and the decision that was made with it.
void es_grow_episode_destroy_policy(EsEpisodeRunner *runner, EsPolicy *policy);

// Callbacks of an observer. Steps count from 0. A status other than OK ends the episode.
typedef struct EsGrowWatch {
    void *context;
    EsStatus (*measured)(void *context, int64_t step); // a decision is wanted
    EsStatus (*decided)(void *context, int64_t step);  // carried out, ticked and rewarded
} EsGrowWatch;

// Episodes first_episode .. + E, from the first step to the last. The last decision is carried out
// and rewarded, but no network is measured after it: accuracies and parameter_ratio are those of
// the networks before it.
EsStatus es_grow_episode_run(EsEpisodeRunner *runner, EsPolicy *policy, int64_t first_episode,
                             const EsGrowWatch *watch);

// The same with hosts that have topologies [n] from their first step on; n is at most E, hosts
// beyond it begin alone.
EsStatus es_grow_episode_run_planted(EsEpisodeRunner *runner, EsPolicy *policy,
                                     int64_t first_episode, const EsFitTopology *topologies,
                                     int64_t n, const EsGrowWatch *watch);

// The same step by step. begin: policy and reward start their episodes, growth stands where it is
// and must want a decision when the first step runs (es_growth_reset). step: decide, reward, and
// train and validate up to the next decision; `step` is the number that `watch` hears. end: on a
// GPU, rows and the reward's memory come back, so that es_policy_training_update can go on with
// them.
EsStatus es_grow_episode_begin(EsEpisodeRunner *runner, EsPolicy *policy, int64_t first_episode);
EsStatus es_grow_episode_step(EsEpisodeRunner *runner, EsPolicy *policy, int64_t step,
                              const EsGrowWatch *watch);
EsStatus es_grow_episode_end(EsEpisodeRunner *runner);

#endif
