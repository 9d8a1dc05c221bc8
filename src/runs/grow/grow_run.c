// A run of growth: rounds of episodes, updates of the policy, checkpoints, the final comparison.
#include "runs/grow/grow_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "control/policy/policy_training.h"
#include "esper/log.h"
#include "esper/version.h"
#include "fit/grown_network.h"
#include "growth/rules/growth_names.h"
#include "runs/grow/grow_events.h"
#include "runs/update_events.h"

// files of a checkpoint: the state of training, and a policy for other runs
#define TRAINING_FILE "training.safetensors"
#define POLICY_FILE   "policy.safetensors"

// Environments that run side by side: without tasks all of them; with tasks those of one task, and
// a control.
typedef struct Group {
    EsTask task;
    EsGrowSettings settings; // of the task
    EsEpisodeRunner own;     // owned: of the task
    EsEpisodeRunner *runner; // borrowed
    EsPolicy *policy;        // borrowed without tasks, else owned
    EsGrowEvents *events;    // owned
    int first_env;           // of the run's environments,
    int n_envs;              // without the control
} Group;

struct EsGrowRun {
    const EsGrowSettings *settings; // borrowed
    EsDevice *device;               // owned: of hosts and policies
    EsEpisodeRunner runner;         // owned; with tasks a group of the largest host they may have
    EsGrowSettings runner_settings; // of the runner, with tasks
    EsPolicy *policy;               // owned
    EsStateHash *hash;              // owned
    EsGrowEnding *endings;          // owned [E]
    int has_endings;
    int *envs;                    // owned [E]: 0, 1, ...
    Group *group;                 // borrowed, during a round: the one at hand
    Group whole;                  // without tasks: all environments
    int32_t *suspected;           // owned [E, S]: number of the seed last suspected
    EsGrowEvaluation *evaluation; // owned, NULL until there is one
    EsRun *run;                   // borrowed, during a round
    EsGrowMoment moment;          // of the step at hand
    int is_trained;               // the policy learns
    EsRecurrentHealth health;     // of the actor of the last task
    int64_t n_tasks, n_redrawn;   // of this session, and draws that the device did not run fused
    int64_t n_refused;            // operations of this session that the rules refused
    int32_t last_refusal;
};

// --- set-up ---

// Explains the use of the memory, and the settings that reduce it.
static EsStatus explain_memory(EsStatus status, const EsGrowSettings *settings, const char *what,
                               const char *options) {
    return status != ES_STATUS_MEMORY
               ? status
               : es_status_set(status, __FILE__, __LINE__, "%s for %d hosts: %s; %s takes less",
                               what, settings->n_envs, es_status_detail(), options);
}

static int has_tasks(const EsGrowRun *grow) { return grow->settings->tasks.n_groups > 0; }

static EsStatus check_settings(const EsGrowSettings *settings) {
    int64_t n_episodes = (int64_t)settings->run.n_rounds * settings->n_envs;
    if (n_episodes > ES_HELD_OUT_EPISODE) {
        return ES_FAIL(CONFIG, "%d rounds of %d hosts are %lld episodes; a run has at most %lld",
                       settings->run.n_rounds, settings->n_envs, (long long)n_episodes,
                       (long long)ES_HELD_OUT_EPISODE);
    }
    if (settings->run.n_rounds == 0 && es_grow_settings_evaluated(settings) == 0) {
        return ES_FAIL(CONFIG,
                       "0 rounds and no held-out episodes: there is nothing to do; --rounds "
                       "or --eval says what");
    }
    if (settings->keep_best > 0 && settings->run.n_rounds == 0) {
        return ES_FAIL(CONFIG, "--keep-best writes networks of the last round, and there is none; "
                               "--rounds 1 or more makes them");
    }
    if (settings->keep_best > settings->n_envs) {
        return ES_FAIL(CONFIG, "--keep-best %d, but a round has %d hosts", settings->keep_best,
                       settings->n_envs);
    }
    return es_grow_settings_check_tasks(settings);
}

static EsStatus create_runner(EsGrowRun *grow) {
    EsTask largest;
    if (!has_tasks(grow)) {
        return es_grow_episode_create(grow->settings, grow->device, &grow->runner);
    }
    ES_TRY(
        es_grow_episode_largest_task(grow->settings, ES_TASK_POOLS_MOST, grow->device, &largest));
    grow->runner_settings = es_grow_settings_of_task(grow->settings, &largest,
                                                     es_grow_settings_group_envs(grow->settings));
    return es_grow_episode_create_task(&grow->runner_settings, &largest, 0, grow->device,
                                       &grow->runner);
}

// Slots, steps and budget of the smallest task; the runner has those of the largest.
static EsGrowthSettings find_smallest(const EsGrowRun *grow) {
    EsGrowthSettings settings = *es_growth_settings(grow->runner.growth);
    EsTask smallest;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    es_task_smallest(&grow->settings->tasks, &smallest);
    EsStatus status = es_slots_parse(&smallest.host, smallest.slots, slots, &n_slots);
    ES_ASSERT(status == ES_STATUS_OK); // they are the host's own
    settings.n_slots = n_slots;
    settings.episode_steps = smallest.n_steps;
    settings.n_host_parameters = (int32_t)es_host_parameter_count(&smallest.host);
    settings.max_parameters = smallest.max_parameters;
    return settings;
}

static EsStatus create_policy(EsGrowRun *grow) {
    const char *name = grow->settings->policy;
    EsGrowthSettings smallest =
        has_tasks(grow) ? find_smallest(grow) : *es_growth_settings(grow->runner.growth);
    if (grow->is_trained) {
        ES_TRY(es_grow_episode_create_policy(&grow->runner, grow->settings->n_envs, &grow->policy));
        es_policy_include_host(grow->policy, &smallest);
        return ES_STATUS_OK;
    }
    ES_TRY(es_grow_episode_open_policy(&grow->runner, name, &grow->policy));
    es_grow_episode_warn_outside(grow->policy, es_growth_settings(grow->runner.growth), name);
    if (has_tasks(grow)) {
        es_grow_episode_warn_outside(grow->policy, &smallest, name);
    }
    return ES_STATUS_OK;
}

static EsStatus create_parts(EsGrowRun *grow) {
    const EsGrowSettings *settings = grow->settings;
    size_t n_envs = (size_t)settings->n_envs;
    ES_TRY(check_settings(settings));
    ES_TRY(es_grow_episode_open_device(settings, &grow->device)); // before the data is made
    ES_TRY(explain_memory(create_runner(grow), settings, "images, networks and snapshots",
                          "a smaller --envs"));
    grow->is_trained = es_grow_settings_train(settings);
    ES_TRY(explain_memory(create_policy(grow), settings, "the policy and its episodes",
                          has_tasks(grow) ? "a smaller --envs, --hidden or --tasks.steps"
                                          : "a smaller --envs, --hidden or --episode-steps"));
    ES_TRY(es_grow_evaluate_check(&grow->runner));
    ES_TRY(es_state_hash_create(grow->device, settings->n_envs + 1, &grow->hash));
    ES_TRY(es_allocate(sizeof *grow->endings * n_envs, (void **)&grow->endings));
    ES_TRY(es_allocate(sizeof *grow->envs * n_envs, (void **)&grow->envs));
    for (int e = 0; e < settings->n_envs; e++) {
        grow->envs[e] = e;
    }
    ES_TRY(es_allocate(sizeof *grow->suspected * n_envs * ES_SLOTS_MAX, (void **)&grow->suspected));
    if (has_tasks(grow)) {
        return ES_STATUS_OK;
    }
    grow->whole =
        (Group){.runner = &grow->runner, .policy = grow->policy, .n_envs = settings->n_envs};
    return es_grow_events_create(grow->runner.growth, settings->n_envs, &grow->whole.events);
}

EsStatus es_grow_run_create(const EsGrowSettings *settings, EsGrowRun **grow_out) {
    EsGrowRun *grow = NULL;
    *grow_out = NULL;
    ES_TRY(es_allocate(sizeof *grow, (void **)&grow));
    grow->settings = settings;
    EsStatus status = create_parts(grow);
    if (status != ES_STATUS_OK) {
        es_grow_run_destroy(grow);
        return status;
    }
    *grow_out = grow;
    return ES_STATUS_OK;
}

void es_grow_run_destroy(EsGrowRun *grow) {
    if (grow == NULL) {
        return;
    }
    es_grow_evaluation_destroy(grow->evaluation);
    es_grow_events_destroy(grow->whole.events);
    es_grow_episode_destroy_policy(&grow->runner, grow->policy);
    es_state_hash_destroy(grow->hash);
    es_grow_episode_destroy(&grow->runner);
    es_device_close(grow->device);
    es_release(grow->endings);
    es_release(grow->envs);
    es_release(grow->suspected);
    es_release(grow);
}

// --- groups of a task ---

// The settings of the group's task, for its hosts and their control.
static EsGrowSettings of_group(const EsGrowRun *grow, const Group *group) {
    int n_envs = group->n_envs + es_grow_settings_group_controls(grow->settings);
    return es_grow_settings_of_task(grow->settings, &group->task, n_envs);
}

static EsStatus open_group(EsGrowRun *grow, Group *group) {
    ES_TRY(es_grow_episode_create_task(&group->settings, &group->task,
                                       es_grow_settings_group_controls(grow->settings),
                                       grow->device, &group->own));
    group->runner = &group->own;
    ES_TRY(grow->is_trained
               ? es_grow_episode_create_actor(&group->own, grow->policy, &group->policy)
               : es_grow_episode_open_policy(&group->own, grow->settings->policy, &group->policy));
    return es_grow_events_create(group->own.growth, group->n_envs, &group->events);
}

static void close_group(Group *group) {
    es_grow_events_destroy(group->events);
    es_grow_episode_destroy_policy(&group->own, group->policy);
    es_grow_episode_destroy(&group->own);
}

// --- memory ---

// A group with the largest task of so many pools: its images, hosts with up to n_seeds, the policy
// that acts on them, and static hosts where the comparison has such.
static EsStatus measure_group(EsGrowRun *grow, EsTaskPools pools, int n_seeds, size_t *bytes) {
    int n_envs = es_grow_settings_group_envs(grow->settings);
    Group group = {.n_envs = n_envs};
    size_t before = es_allocation_held(), episode_bytes = 0;
    ES_TRY(es_grow_episode_largest_task(grow->settings, pools, grow->device, &group.task));
    group.settings = of_group(grow, &group);
    EsStatus status = open_group(grow, &group);
    *bytes = es_allocation_held() - before;
    if (status == ES_STATUS_OK) {
        status = es_growth_episode_bytes(group.own.growth, group.settings.n_envs, n_seeds,
                                         &episode_bytes);
    }
    *bytes +=
        episode_bytes + (es_grow_evaluate_has_static(grow->settings) ? group.own.hosts_bytes : 0);
    close_group(&group);
    return status;
}

// Hosts with up to n_seeds, those of the comparison included where it has its own: fewer, or static
// ones, whose size is not known yet and taken to be that of the others.
static EsStatus find_host_bytes(EsGrowRun *grow, int n_seeds, size_t *bytes) {
    const EsGrowSettings *settings = grow->settings;
    EsGrowth *growth = grow->runner.growth;
    int64_t n_evaluated = es_grow_settings_evaluated(settings);
    int n_own = n_evaluated > 0 ? es_grow_settings_evaluated_envs(settings) : 0;
    EsSweep sweep = {.n_variants = 0};
    ES_TRY(settings->sweep[0] != '\0' ? es_sweep_of_settings(settings, &sweep) : ES_STATUS_OK);
    int n_sets =
        (n_own < settings->n_envs) + es_grow_evaluate_has_static(settings) + sweep.n_variants;
    int64_t n_episodes = (int64_t)settings->run.n_rounds * settings->n_envs;
    size_t compared_bytes = 0;
    *bytes = 0;
    if (has_tasks(grow)) { // one group at a time
        for (int pools = ES_TASK_POOLS_LEAST; pools <= ES_TASK_POOLS_MOST; pools++) {
            ES_TRY(measure_group(grow, (EsTaskPools)pools, n_seeds, &compared_bytes));
            *bytes = ES_MAX(*bytes, compared_bytes);
        }
        return ES_STATUS_OK;
    }
    ES_TRY(es_growth_episode_bytes(growth, n_episodes, n_seeds, bytes));
    if (n_own > 0 && n_sets > 0) {
        ES_TRY(es_growth_episode_bytes(growth, n_evaluated, n_seeds, &compared_bytes));
        compared_bytes += grow->runner.hosts_bytes / (size_t)settings->n_envs * (size_t)n_own;
        *bytes += compared_bytes * (size_t)n_sets;
    }
    return ES_STATUS_OK;
}

EsStatus es_grow_run_need(EsGrowRun *grow, EsRunNeed *need) {
    const EsGrowthSettings *settings = es_growth_settings(grow->runner.growth);
    int n_seeds = settings->max_seeds > 0 ? settings->max_seeds : settings->n_slots;
    // a checkpoint holds the parameters and two moments of each
    size_t saved_bytes = 3 * sizeof(float) * (size_t)es_grow_run_policy_parameters(grow);
    ES_TRY(find_host_bytes(grow, 0, &need->sure_bytes));
    ES_TRY(find_host_bytes(grow, strcmp(grow->settings->policy, "wait") != 0 ? n_seeds : 0,
                           &need->peak_bytes));
    need->sure_bytes += saved_bytes;
    need->peak_bytes += saved_bytes;
    return ES_STATUS_OK;
}

// --- a step ---

static void count_phases(EsGrowRun *grow) {
    EsGrowthTimes times = es_growth_times(grow->group->runner->growth);
    int64_t now_ns = es_clock_ns();
    es_run_phase_end(grow->run, ES_PHASE_TRAIN, now_ns - (int64_t)(times.train_ms * 1e6));
    es_run_phase_end(grow->run, ES_PHASE_VALIDATE, now_ns - (int64_t)(times.validate_ms * 1e6));
}

// --- networks to keep ---

// The environment with the best validation accuracy among those not taken yet, the first of equals;
// -1: the others have diverged.
static int64_t find_best(const EsGrowthResult *results, int64_t n_envs,
                         const unsigned char *is_taken) {
    int64_t best = -1;
    for (int64_t e = 0; e < n_envs; e++) {
        if (!is_taken[e] && isfinite(results[e].validation_loss) &&
            (best < 0 || results[e].validation_accuracy > results[best].validation_accuracy)) {
            best = e;
        }
    }
    return best;
}

static EsStatus keep_network(EsGrowRun *grow, int64_t env, int rank, EsDevice *cpu) {
    const EsGrowSettings *settings = grow->settings;
    const EsGrowthResult *result = &es_growth_results(grow->runner.growth)[env];
    char name[64], folder[ES_RUN_PATH_BYTES];
    EsGrownNetwork *network = NULL;
    ES_TRY(es_grown_network_take(grow->runner.growth, env, cpu, &network));
    EsGrownOrigin *origin = &network->origin;
    *origin = (EsGrownOrigin){.version = ES_VERSION,
                              .command = "grow",
                              .seed = settings->run.seed,
                              .episode = grow->moment.first_episode + env,
                              .validation_accuracy = result->validation_accuracy,
                              .test_accuracy = result->test_accuracy};
    snprintf(origin->data, sizeof origin->data, "%s", grow->runner.dataset.name);
    snprintf(origin->data_sha256, sizeof origin->data_sha256, "%s", grow->runner.data_hash);
    snprintf(origin->policy, sizeof origin->policy, "%s", settings->policy);
    EsStatus status = ES_STATUS_OK;
    if (es_run_is_writer(grow->run)) {
        snprintf(name, sizeof name, ES_RUN_NETWORKS "/%d", rank);
        es_run_folder_path(es_run_folder(grow->run), name, folder);
        ES_TRY_GOTO(es_folder_make(folder));
        status = es_grown_network_save(network, folder);
    }
done:
    es_grown_network_destroy(network);
    return status;
}

// The best networks of the last round, as they were validated last: before the last decision,
// which may prune, blend or set back. Nothing follows from the test.
static EsStatus keep_best(EsGrowRun *grow) {
    EsGrowth *growth = grow->runner.growth;
    unsigned char *is_taken = NULL;
    EsDevice *cpu = NULL;
    EsStatus status = ES_STATUS_OK;
    if (grow->runner.dataset.test.count > 0) {
        ES_TRY(es_growth_test(growth));
    }
    ES_TRY_GOTO(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &cpu));
    ES_TRY_GOTO(es_allocate((size_t)grow->settings->n_envs, (void **)&is_taken));
    for (int rank = 1; rank <= grow->settings->keep_best && status == ES_STATUS_OK; rank++) {
        int64_t env = find_best(es_growth_results(growth), grow->settings->n_envs, is_taken);
        if (env < 0) {
            es_log(ES_LOG_WARNING, "only %d networks are kept: the others have diverged", rank - 1);
            break;
        }
        is_taken[env] = 1;
        status = keep_network(grow, env, rank, cpu);
    }
done:
    es_device_close(cpu);
    es_release(is_taken);
    return status;
}

static int is_last_step(const EsGrowRun *grow, int64_t step) {
    return grow->moment.time.round == grow->settings->run.n_rounds &&
           step + 1 == es_growth_settings(grow->group->runner->growth)->episode_steps;
}

static EsStatus step_measured(void *context, int64_t step) {
    EsGrowRun *grow = context;
    if (es_run_must_drop(grow->run)) {
        return ES_FAIL(INTERRUPTED, "the round was dropped");
    }
    grow->moment.time.step = step;
    count_phases(grow);
    es_grow_events_measured(grow->group->events, &grow->moment, grow->group->runner->decide_ms);
    return grow->settings->keep_best > 0 && is_last_step(grow, step) ? keep_best(grow)
                                                                     : ES_STATUS_OK;
}

static void count_refusals(EsGrowRun *grow) {
    const int32_t *refusal = es_growth_snapshot(grow->group->runner->growth)->state.env.refusal;
    for (int64_t e = 0; e < grow->group->n_envs; e++) {
        if (refusal[e] != ES_REFUSAL_NONE && refusal[e] != ES_REFUSAL_ROLLED_BACK) {
            grow->n_refused++;
            grow->last_refusal = refusal[e];
        }
    }
}

// Reports, once each, seeds rewarded without a contribution.
static void check_rewards(EsGrowRun *grow) {
    const EsGrowthState *state = &es_growth_snapshot(grow->group->runner->growth)->state;
    const EsGrowthModel *model = es_growth_model(grow->group->runner->growth);
    for (int64_t i = 0; i < (int64_t)grow->group->n_envs * state->n_slots; i++) {
        EsSeed seed = es_seed_load(&state->seed, (size_t)i);
        float accuracy = state->env.accuracy[i / state->n_slots];
        float committed = state->env.committed_accuracy[i / state->n_slots];
        int has_joint = accuracy >= 0 && committed >= 0;
        int is_measured = seed.contribution_age >= 0 && seed.contribution_age <= 1 &&
                          seed.accuracy_now >= 0 && seed.accuracy_germination >= 0;
        if (!is_measured || seed.number == grow->suspected[i]) {
            continue;
        }
        EsRewardHealth health = {
            .env = grow->group->first_env + i / state->n_slots,
            .slot = model->slots[i % state->n_slots].name,
            .contribution = (double)seed.contribution,
            .improvement = (double)(seed.accuracy_now - seed.accuracy_germination),
            .joint = has_joint ? (double)(accuracy - committed) : es_missing_real()};
        int64_t n_before = es_run_anomalies(grow->run)->n_rows;
        es_anomaly_check_reward(es_run_detector(grow->run), &health, 1,
                                es_run_anomalies(grow->run));
        if (es_run_anomalies(grow->run)->n_rows > n_before) {
            grow->suspected[i] = seed.number;
        }
    }
    es_run_emit_anomalies(grow->run, grow->moment.time);
}

static EsStatus step_decided(void *context, int64_t step) {
    EsGrowRun *grow = context;
    const Group *group = grow->group;
    (void)step;
    const EsGrowthState *state = &es_growth_snapshot(group->runner->growth)->state;
    if (grow->is_trained) {
        ES_TRY(es_policy_training_record(group->policy, state, group->runner->rewards,
                                         grow->settings->reward.rollback_penalty));
    }
    es_run_phase_end(grow->run, ES_PHASE_DECIDE,
                     es_clock_ns() - (int64_t)(group->runner->decide_ms * 1e6));
    es_grow_events_decided(group->events, &grow->moment, group->runner->actions,
                           es_growth_masks(group->runner->growth), group->policy);
    es_grow_events_rewarded(group->events, &grow->moment, group->runner);
    count_refusals(grow);
    check_rewards(grow);
    es_hub_tick(grow->moment.hub);
    return ES_STATUS_OK;
}

// --- a round ---

// Describes the slots of an environment.
static void describe_slots(const EsGrowth *growth, int64_t env, char *text, size_t bytes) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    size_t used = 0;
    text[0] = '\0';
    for (int s = 0; s < state->n_slots; s++) {
        size_t i = (size_t)(env * state->n_slots + s);
        if (es_stage_in(state->seed.stage[i], ES_STAGES_LIVING) && used < bytes) {
            used += (size_t)snprintf(text + used, bytes - used, "%s%s %s %s", used > 0 ? ", " : "",
                                     es_growth_model(growth)->slots[s].name,
                                     es_blueprint_id_name(state->seed.blueprint[i]),
                                     es_stage_name(state->seed.stage[i]));
        }
    }
}

static int count_seeds(const EsGrowthState *state, int64_t env) {
    int n = 0;
    for (int s = 0; s < state->n_slots; s++) {
        n += es_stage_in(state->seed.stage[env * state->n_slots + s], ES_STAGES_LIVING);
    }
    return n;
}

// Keeps how the group's episodes ended: its hosts, or the comparison that runs on them, go on.
static void keep_endings(EsGrowRun *grow) {
    const Group *group = grow->group;
    const EsGrowth *growth = group->runner->growth;
    const EsGrowthResult *results = es_growth_results(growth);
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    const double *totals = es_reward_totals(group->runner->reward);
    for (int64_t e = 0; e < group->n_envs; e++) {
        EsGrowEnding *ending = &grow->endings[group->first_env + e];
        *ending =
            (EsGrowEnding){.validation_loss = results[e].validation_loss,
                           .validation_accuracy = results[e].validation_accuracy,
                           .control_accuracy = group->runner->n_controls > 0
                                                   ? results[group->n_envs].validation_accuracy
                                                   : es_missing_real(),
                           .parameter_ratio = group->runner->parameter_ratio[e],
                           .reward = totals[e],
                           .n_seeds = count_seeds(state, e),
                           .n_fossils = state->env.n_fossils[e],
                           .n_pruned = state->env.n_pruned[e],
                           .n_rollbacks = state->env.n_rollbacks[e]};
        describe_slots(growth, e, ending->seeds, sizeof ending->seeds);
        snprintf(ending->task, sizeof ending->task, "%s", group->runner->task);
    }
}

static void count_work(const EsGrowRun *grow, EsRoundReport *report) {
    const EsGrowthOptions *options = es_growth_options(grow->group->runner->growth);
    int64_t n_steps = (int64_t)grow->group->n_envs * options->settings.episode_steps;
    report->n_steps += n_steps;
    report->n_images += n_steps * options->step_batches * options->batch;
}

static void summarise(const EsGrowRun *grow, EsRoundReport *report) {
    const EsGrowEnding *endings = grow->endings;
    int n_envs = grow->settings->n_envs;
    double ignored = 0;
    report->accuracy =
        es_mean(&endings[0].validation_accuracy, n_envs, sizeof *endings, &report->accuracy_std);
    if (n_envs == 1) {
        report->accuracy_std = es_missing_real(); // one host has no spread
    }
    report->loss = es_mean(&endings[0].validation_loss, n_envs, sizeof *endings, &ignored);
    report->reward = es_mean(&endings[0].reward, n_envs, sizeof *endings, &ignored);
    report->n_seeds = report->n_fossils = 0;
    report->has_diverged = 1;
    for (int64_t e = 0; e < n_envs; e++) {
        report->has_diverged &= !isfinite(endings[e].validation_loss);
        report->n_fossils += endings[e].n_fossils;
        report->n_seeds += endings[e].n_seeds;
    }
    report->n_episodes = n_envs;
}

static EsStatus update_policy(EsGrowRun *grow, EsRoundReport *round) {
    EsPpoReport report;
    // with tasks others have acted for it
    EsRecurrentHealth health = has_tasks(grow) ? grow->health : es_policy_health(grow->policy);
    int64_t start_ns = es_clock_ns();
    // with tasks all episodes have ended, and actors have handed their rows over
    const EsGrowthState *state =
        has_tasks(grow) ? NULL : &es_growth_snapshot(grow->runner.growth)->state;
    ES_TRY(es_policy_training_update(grow->policy, state, &report));
    round->has_diverged |= report.is_skipped;
    double update_ms = es_run_phase_end(grow->run, ES_PHASE_UPDATE, start_ns);
    EsUpdatedPolicy policy = {ES_N_HEADS, es_head_name, &health, 1};
    es_update_emit(grow->run, grow->moment.time, &report, &policy, (double)grow->settings->ppo.rate,
                   update_ms);
    return ES_STATUS_OK;
}

// Runs the episodes of the group at hand and takes down what they came to.
static EsStatus run_group(EsGrowRun *grow, EsRoundReport *report) {
    const Group *group = grow->group;
    EsGrowWatch watch = {grow, step_measured, step_decided};
    memset(grow->suspected, 0,
           sizeof *grow->suspected * (size_t)group->n_envs *
               (size_t)es_growth_settings(group->runner->growth)->n_slots);
    grow->moment.time.step = 0;
    group->runner->keeps_logits = es_hub_wants(grow->moment.hub, ES_EVENT_DECISION_TAKEN, 0);
    ES_TRY(es_grow_episode_run(group->runner, group->policy,
                               grow->moment.first_episode + group->first_env, &watch));
    group->runner->keeps_logits = 0; // the comparison records no decisions
    grow->moment.time.step = -1;
    ES_TRY(es_growth_attribute(group->runner->growth));
    es_grow_events_ended(group->events, &grow->moment, group->runner);
    keep_endings(grow);
    count_work(grow, report);
    return es_growth_append_state(group->runner->growth, grow->hash);
}

// Hands the rows of the group to the policy that learns. What is easy or hard about a task is no
// merit of a decision: an episode counts relative to the mean of the others of its group, which do
// not depend on its decisions, so that the expected gradient stays what it is.
static EsStatus collect_rows(EsGrowRun *grow, const Group *group) {
    double *baseline = NULL, sum = 0;
    const double *totals = es_reward_totals(group->runner->reward);
    size_t n = (size_t)group->n_envs;
    int is_relative = grow->settings->tasks.is_relative; // of 2 or more, as was checked
    ES_TRY(es_allocate(sizeof *baseline * n, (void **)&baseline));
    for (size_t e = 0; e < n; e++) {
        sum += totals[e];
    }
    for (size_t e = 0; e < n; e++) {
        baseline[e] = is_relative ? (sum - totals[e]) / (double)(n - 1) : 0;
    }
    EsStatus status = es_policy_training_collect(grow->policy, group->policy,
                                                 &es_growth_snapshot(group->runner->growth)->state,
                                                 baseline, group->first_env, group->n_envs);
    es_release(baseline);
    return status;
}

// One task of the round: its own hosts and data, and a policy that acts for the one that learns.
static EsStatus run_task(EsGrowRun *grow, int g, EsRoundReport *report) {
    int n_envs = es_grow_settings_group_envs(grow->settings);
    Group group = {.first_env = g * n_envs, .n_envs = n_envs};
    ES_TRY(es_grow_episode_draw_task(grow->settings, grow->moment.first_episode + group.first_env,
                                     grow->device, &group.task));
    grow->n_tasks++;
    grow->n_redrawn += group.task.n_redrawn;
    group.settings = of_group(grow, &group);
    grow->group = &group;
    grow->moment.envs = grow->envs + group.first_env;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(open_group(grow, &group));
    ES_TRY_GOTO(run_group(grow, report));
    if (grow->is_trained) {
        grow->health = es_policy_health(group.policy);
        status = collect_rows(grow, &group);
    }
done:
    close_group(&group);
    grow->group = NULL;
    return status;
}

static EsStatus run_tasks(EsGrowRun *grow, EsRoundReport *report) {
    ES_TRY(es_policy_begin(grow->policy, grow->moment.first_episode));
    for (int g = 0; g < grow->settings->tasks.n_groups; g++) {
        ES_TRY(run_task(grow, g, report));
    }
    return ES_STATUS_OK;
}

// Emits what growing gained over the hosts that waited, mean over the round's episodes.
static void emit_gain(const EsGrowRun *grow) {
    double gain = 0, share = 1.0 / grow->settings->n_envs;
    if (!grow->settings->tasks.is_paired) {
        return;
    }
    for (int e = 0; e < grow->settings->n_envs; e++) {
        gain += share * (grow->endings[e].validation_accuracy - grow->endings[e].control_accuracy);
    }
    EsMetricEvent row = es_metric("esper.tasks.gain", gain);
    es_emit_metric(grow->moment.hub, grow->moment.time, &row, 1);
}

// The hash is of hosts as their episodes left them, and of the policy as the update did.
static EsStatus run_round(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    EsGrowRun *grow = context;
    grow->run = run;
    grow->moment = (EsGrowMoment){.hub = es_run_hub(run),
                                  .time = {.round = round, .step = 0},
                                  .first_episode = (round - 1) * grow->settings->n_envs};
    grow->group = &grow->whole;
    report->n_steps = report->n_images = 0;
    es_state_hash_begin(grow->hash);
    ES_TRY(has_tasks(grow) ? run_tasks(grow, report) : run_group(grow, report));
    summarise(grow, report);
    grow->has_endings = 1;
    if (has_tasks(grow)) {
        emit_gain(grow);
    }
    if (grow->is_trained) {
        ES_TRY(update_policy(grow, report));
    }
    ES_TRY(es_policy_training_append_state(grow->policy, grow->hash));
    snprintf(report->state_hash, sizeof report->state_hash, "%016llx",
             (unsigned long long)es_state_hash_value(grow->hash));
    return ES_STATUS_OK;
}

// --- the end ---

// With hosts of its own where fewer will do.
static EsStatus evaluate(EsGrowRun *grow, const char *text, EsRun *run) {
    const char *name = grow->settings->policy;
    EsGrowSettings settings = *grow->settings;
    EsEpisodeRunner runner;
    settings.n_envs = es_grow_settings_evaluated_envs(&settings);
    if (has_tasks(grow) || settings.n_envs == grow->settings->n_envs) {
        return es_grow_evaluate(&grow->runner, name, text, run, &grow->evaluation);
    }
    ES_TRY(es_grow_episode_create_like(&grow->runner, &settings, &runner));
    EsStatus status = es_grow_evaluate(&runner, name, text, run, &grow->evaluation);
    es_grow_episode_destroy(&runner);
    return status;
}

// A policy that was trained is compared as the file that others will open.
static EsStatus finish(void *context, EsRun *run) {
    EsGrowRun *grow = context;
    char path[ES_RUN_PATH_BYTES];
    const char *text = grow->settings->policy;
    if (grow->is_trained) {
        es_run_folder_path(es_run_folder(run), POLICY_FILE, path);
        ES_TRY(es_run_is_writer(run) ? es_policy_save(grow->policy, path) : ES_STATUS_OK);
        ES_TRY(es_ranks_barrier(grow->settings->run.ranks, "the policy's file"));
        text = path;
    }
    if (es_grow_settings_evaluated(grow->settings) == 0) {
        return ES_STATUS_OK;
    }
    return evaluate(grow, text, run);
}

// --- state: every round begins with new hosts, so that the policy is all there is to keep ---

static void describe(void *context, EsRunStartedEvent *row) {
    const EsGrowRun *grow = context;
    row->task = grow->settings->task;
    row->n_envs = grow->settings->n_envs;
    row->n_host_parameters = es_growth_model(grow->runner.growth)->layout.n_host_weights;
}

static EsStatus save(void *context, EsCheckpoint *checkpoint) {
    const EsGrowRun *grow = context;
    char path[ES_RUN_PATH_BYTES];
    ES_TRY(es_checkpoint_put_text(checkpoint, "data_sha256", grow->runner.data_hash));
    ES_TRY(es_checkpoint_put_text(checkpoint, "policy_sha256", es_policy_hash(grow->policy)));
    if (!grow->is_trained) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_checkpoint_add_file(checkpoint, TRAINING_FILE, path));
    ES_TRY(es_policy_training_save(grow->policy, path));
    ES_TRY(es_checkpoint_add_file(checkpoint, POLICY_FILE, path));
    return es_policy_save(grow->policy, path);
}

static EsStatus load(void *context, const EsCheckpoint *checkpoint) {
    EsGrowRun *grow = context;
    char path[ES_RUN_PATH_BYTES];
    ES_TRY(es_checkpoint_check_input(checkpoint, "data_sha256", grow->runner.data_hash,
                                     "the data set"));
    ES_TRY(es_checkpoint_check_input(checkpoint, "policy_sha256", es_policy_hash(grow->policy),
                                     es_policy_kind(grow->policy) == ES_POLICY_SCRIPT
                                         ? "the schedule"
                                         : "the file of the policy"));
    return grow->is_trained ? es_policy_training_load(
                                  grow->policy, es_checkpoint_path(checkpoint, TRAINING_FILE, path))
                            : ES_STATUS_OK;
}

EsRunWork es_grow_run_work(EsGrowRun *grow) {
    return (EsRunWork){.context = grow,
                       .describe = describe,
                       .round = run_round,
                       .save = save,
                       .load = load,
                       .finish = finish};
}

// --- looking at it ---

int64_t es_grow_run_refusals(const EsGrowRun *grow, const char **last) {
    *last = es_refusal_message(grow->last_refusal);
    return grow->n_refused;
}

int64_t es_grow_run_redraws(const EsGrowRun *grow, int64_t *n_tasks) {
    *n_tasks = grow->n_tasks;
    return grow->n_redrawn;
}

EsEpisodeRunner *es_grow_run_runner(EsGrowRun *grow) { return &grow->runner; }

int64_t es_grow_run_policy_parameters(const EsGrowRun *grow) {
    EsPolicySpec spec;
    int n_slots = es_growth_settings(grow->runner.growth)->n_slots;
    int64_t n_host = es_growth_model(grow->runner.growth)->layout.n_host_weights;
    return grow->is_trained &&
                   es_grow_settings_spec(grow->settings, n_slots, n_host, &spec) == ES_STATUS_OK
               ? es_policy_spec_count(&spec)
               : 0;
}

#define TASKS_TRIED 8 // whose mean stands for all

static EsStatus draw_tried(const EsGrowRun *grow, int g, EsTask *task) {
    return es_grow_episode_draw_task(grow->settings,
                                     (int64_t)g * es_grow_settings_group_envs(grow->settings),
                                     grow->device, task);
}

int es_grow_run_mean_steps(const EsGrowRun *grow) {
    int sum = 0;
    if (!has_tasks(grow)) {
        return es_growth_settings(grow->runner.growth)->episode_steps;
    }
    for (int g = 0; g < TASKS_TRIED; g++) {
        EsTask task;
        if (draw_tried(grow, g, &task) != ES_STATUS_OK) { // the first round says why
            return es_growth_settings(grow->runner.growth)->episode_steps;
        }
        sum += task.n_steps;
    }
    return sum / TASKS_TRIED;
}

// The first step of the runner's hosts, and a decision of theirs.
static EsStatus try_step(EsEpisodeRunner *runner, EsPolicy *policy, double *step_seconds,
                         double *decide_seconds) {
    EsGrowth *growth = runner->growth;
    ES_TRY(es_growth_reset(growth, 0));
    for (int i = 0; i < 2; i++) { // the first one is cold
        ES_TRY(es_policy_begin(policy, 0));
        int64_t start_ns = es_clock_ns();
        ES_TRY(es_policy_decide(policy, &es_growth_snapshot(growth)->state, es_growth_masks(growth),
                                runner->actions));
        *decide_seconds = es_clock_seconds_since(start_ns);
    }
    EsGrowthTimes times = es_growth_times(growth);
    *step_seconds = (times.train_ms + times.validate_ms) * 1e-3 + *decide_seconds;
    return ES_STATUS_OK;
}

// Adds a share of what a step of task g takes.
static EsStatus try_task(EsGrowRun *grow, int g, double share, double *step_seconds,
                         double *decide_seconds) {
    int n_envs = es_grow_settings_group_envs(grow->settings);
    Group group = {.n_envs = n_envs};
    double step = 0, decision = 0;
    ES_TRY(draw_tried(grow, g, &group.task));
    group.settings = of_group(grow, &group);
    EsStatus status = open_group(grow, &group);
    if (status == ES_STATUS_OK) {
        status = try_step(&group.own, group.policy, &step, &decision);
    }
    *step_seconds += share * step;
    *decide_seconds += share * decision;
    close_group(&group);
    return status;
}

EsStatus es_grow_run_predict(EsGrowRun *grow, double *step_seconds, double *update_seconds) {
    double decide_seconds = 0;
    *step_seconds = 0;
    if (has_tasks(grow)) {
        double share = (double)grow->settings->tasks.n_groups / TASKS_TRIED;
        for (int g = 0; g < TASKS_TRIED; g++) {
            ES_TRY(try_task(grow, g, share, step_seconds, &decide_seconds));
        }
    } else {
        ES_TRY(try_step(&grow->runner, grow->policy, step_seconds, &decide_seconds));
    }
    // every pass has gradients, and costs about three without; rows are as many as the longest
    // episode has steps
    *update_seconds =
        grow->is_trained ? decide_seconds * es_growth_settings(grow->runner.growth)->episode_steps *
                               3 * grow->settings->ppo.n_epochs
                         : 0;
    return ES_STATUS_OK;
}

const EsGrowEnding *es_grow_run_endings(const EsGrowRun *grow) {
    return grow->has_endings ? grow->endings : NULL;
}

const EsGrowEvaluation *es_grow_run_evaluation(const EsGrowRun *grow) { return grow->evaluation; }
