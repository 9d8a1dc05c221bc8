#include "runs/grow_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "base/statistics.h"
#include "growth/growth_names.h"
#include "growth/host_data.h"
#include "growth/schedule.h"
#include "runs/grow_events.h"
#include "runs/run_inputs.h"

typedef enum PolicyKind { POLICY_WAIT, POLICY_SCRIPT } PolicyKind;

struct EsGrowRun {
    const EsGrowSettings *settings; // borrowed
    EsDataset dataset;              // owned
    EsGrowth *growth;               // owned
    EsGrowEvents *events;           // owned
    EsAction *actions;              // owned [E]
    PolicyKind policy;
    EsSchedule schedule; // owned
    EsHostSpec host;     // owned where it comes from a file
    int64_t n_refused;   // operations of this sitting that the rules refused
    int32_t last_refusal;
    char data_hash[ES_SHA256_TEXT_BYTES];
    char policy_hash[ES_SHA256_TEXT_BYTES]; // of a script's file, "" otherwise
};

// --- settings ---

static const EsConfigKey keys[] = {
    ES_RUN_CONFIG_KEYS(EsGrowSettings, run, "grow", "10"),
    ES_CONFIG_TEXT(EsGrowSettings, task, "grow", "task", "tiny",
                   "host and its data set, or the path of a host described in a file"),
    ES_CONFIG_TEXT(EsGrowSettings, data, "grow", "data", "",
                   "tiny, generated, cifar10 or idx instead of the task's"),
    ES_CONFIG_TEXT(EsGrowSettings, folder, "grow", "folder", "",
                   "where cifar10 or idx files are (empty: ES_DATA_DIR)"),
    ES_CONFIG_TEXT(EsGrowSettings, slots, "grow", "slots", "r0c0,r0c1",
                   "where seeds can be put: r0c0,r0c1,... or all"),
    ES_CONFIG_TEXT(EsGrowSettings, policy, "grow", "policy", "wait",
                   "wait, or script:FILE for a written schedule"),
    ES_CONFIG_INT(EsGrowSettings, n_envs, "grow", "envs", "16", 1, 4096,
                  "hosts that grow side by side"),
    ES_CONFIG_INT(EsGrowSettings, max_seeds, "grow", "max_seeds", "0", 0, 16,
                  "living seeds and fossils of a host, 0 = no limit"),
    ES_CONFIG_INT(EsGrowSettings, episode_steps, "grow", "episode_steps", "0", 0, 100000,
                  "steps of an episode, 0 = the task's"),
    ES_CONFIG_INT(EsGrowSettings, batch, "grow", "batch", "0", 0, 65536,
                  "images per update, 0 = the task's"),
    ES_CONFIG_INT(EsGrowSettings, step_batches, "grow", "step_batches", "8", 1, 100000,
                  "updates of a host per step"),
    ES_CONFIG_INT(EsGrowSettings, validation_images, "grow", "validation_images", "2000", 1,
                  10000000,
                  "images that judge every step, the same for all; fewer when the set has fewer"),
    ES_CONFIG_CHOICE(EsGrowSettings, gates, "grow", "gates", "permissive", "permissive|strict",
                     "what a seed must show before it goes on"),
    ES_CONFIG_BOOL(EsGrowSettings, auto_forward, "grow", "auto_forward", "on",
                   "stages advance on their own when their gate opens"),
    ES_CONFIG_INT(EsGrowSettings, data_seed, "grow", "data_seed", "1", 0, 2147483647,
                  "seed of a generated data set"),
    ES_CONFIG_INT(EsGrowSettings, pad, "grow", "pad", "0", 0, 16,
                  "random crop from a border of N pixels"),
    ES_CONFIG_BOOL(EsGrowSettings, flip, "grow", "flip", "off", "random horizontal flip"),
    ES_CONFIG_FLOAT(EsGrowSettings, host_rate, "grow", "host_rate", "0.01", 1e-9, 1e3,
                    "learning rate of hosts"),
    ES_CONFIG_FLOAT(EsGrowSettings, seed_rate, "grow", "seed_rate", "0.01", 1e-9, 1e3,
                    "learning rate of seeds"),
    ES_CONFIG_FLOAT(EsGrowSettings, clip, "grow", "clip", "1", 1e-6, 1e6,
                    "largest norm of a host's and of a seed's gradient"),
    ES_CONFIG_INT(EsGrowSettings, gradient_stride, "grow", "gradient_stride", "10", 1, 100000,
                  "batches between measurements of gradients; the first of a step always is"),
    ES_CONFIG_BOOL(EsGrowSettings, unfused, "grow", "unfused", "off",
                   "run operation by operation, for debugging"),
};

EsConfig es_grow_run_config(EsGrowSettings *settings) {
    EsConfig config = {keys, ES_COUNT_OF(keys), settings, sizeof *settings};
    memset(settings, 0, sizeof *settings);
    es_config_reset(&config);
    return config;
}

// --- set-up ---

static EsStatus open_policy(EsGrowRun *grow, const EsGrowthOptions *options) {
    static const char script[] = "script:";
    const char *policy = grow->settings->policy;
    if (strcmp(policy, "wait") == 0) {
        grow->policy = POLICY_WAIT;
        return ES_STATUS_OK;
    }
    if (strncmp(policy, script, sizeof script - 1) == 0) {
        EsScheduleLimits limits = {.slots = options->slots,
                                   .n_slots = options->n_slots,
                                   .n_envs = options->n_envs,
                                   .n_steps = options->settings.episode_steps,
                                   .blueprints = options->settings.blueprints};
        grow->policy = POLICY_SCRIPT;
        ES_TRY(es_schedule_load(policy + sizeof script - 1, &limits, &grow->schedule));
        return es_sha256_file(policy + sizeof script - 1, grow->policy_hash, NULL);
    }
    return ES_FAIL(ARGUMENT, "policy \"%.100s\" is none of wait, script:FILE", policy);
}

static EsGrowthOptions growth_options(const EsGrowSettings *settings, const EsHostSpec *host,
                                      const EsSlot *slots, int n_slots, int64_t n_validation) {
    EsGrowthOptions options = es_growth_defaults(host, slots, n_slots, settings->n_envs);
    options.batch = settings->batch > 0 ? settings->batch : options.batch;
    options.step_batches = settings->step_batches;
    options.n_validation_images = n_validation;
    options.seed = (uint64_t)settings->run.seed;
    options.n_threads = settings->run.n_threads;
    options.pad = settings->pad;
    options.flip = settings->flip;
    options.mode = settings->unfused ? ES_COMPILE_OFF : ES_COMPILE_DEFAULT;
    options.host_rate = settings->host_rate;
    options.seed_rate = settings->seed_rate;
    options.clip = settings->clip;
    options.gradient_stride = settings->gradient_stride;
    options.settings.max_seeds = settings->max_seeds;
    options.settings.is_strict = settings->gates == 1;
    options.settings.auto_forward = settings->auto_forward ? ES_AUTO_FORWARD_ALL : 0;
    if (settings->episode_steps > 0) {
        options.settings.episode_steps = settings->episode_steps;
    }
    return options;
}

static EsStatus create_parts(EsGrowRun *grow) {
    const EsGrowSettings *settings = grow->settings;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    ES_TRY(es_host_find(settings->task, &grow->host));
    if (strcmp(settings->run.device, "cpu") != 0) {
        return ES_FAIL(UNSUPPORTED, "growth runs on the CPU so far; device \"%s\" is asked for",
                       settings->run.device);
    }
    EsThreadPool *pool = NULL;
    ES_TRY(es_thread_pool_create(&pool, settings->run.n_threads));
    EsStatus status = es_host_open_dataset(&grow->host, settings->data, settings->folder,
                                           (uint64_t)settings->data_seed, pool, &grow->dataset);
    es_thread_pool_destroy(pool);
    ES_TRY(status);
    ES_TRY(es_slots_parse(&grow->host, settings->slots, slots, &n_slots));
    EsGrowthOptions options =
        growth_options(settings, &grow->host, slots, n_slots,
                       ES_MIN(settings->validation_images, grow->dataset.validation.count));
    ES_TRY(open_policy(grow, &options));
    es_dataset_fingerprint(&grow->dataset, grow->data_hash);
    ES_TRY(es_growth_create(&options, &grow->dataset, &grow->growth));
    ES_TRY(es_grow_events_create(grow->growth, &grow->events));
    return es_allocate(sizeof *grow->actions * (size_t)settings->n_envs, (void **)&grow->actions);
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
    es_grow_events_destroy(grow->events);
    es_growth_destroy(grow->growth);
    es_dataset_destroy(&grow->dataset);
    es_schedule_destroy(&grow->schedule);
    es_host_unload(&grow->host);
    es_release(grow->actions);
    es_release(grow);
}

// --- a round ---

static void choose_actions(EsGrowRun *grow, int32_t step) {
    int64_t n_envs = grow->settings->n_envs;
    if (grow->policy == POLICY_SCRIPT) {
        es_schedule_actions(&grow->schedule, step, n_envs, grow->actions);
        return;
    }
    for (int64_t e = 0; e < n_envs; e++) {
        grow->actions[e] = es_action_wait();
    }
}

static void count_refusals(EsGrowRun *grow) {
    const int32_t *refusal = es_growth_state(grow->growth)->env.refusal;
    for (int64_t e = 0; e < grow->settings->n_envs; e++) {
        if (refusal[e] != ES_REFUSAL_NONE && refusal[e] != ES_REFUSAL_ROLLED_BACK) {
            grow->n_refused++;
            grow->last_refusal = refusal[e];
        }
    }
}

static void summarise(const EsGrowRun *grow, EsRoundReport *report) {
    const EsGrowthResult *results = es_growth_results(grow->growth);
    const EsGrowthState *state = es_growth_state(grow->growth);
    int n_envs = grow->settings->n_envs;
    double loss_std = 0;
    report->accuracy =
        es_mean(&results[0].validation_accuracy, n_envs, sizeof *results, &report->accuracy_std);
    if (n_envs == 1) {
        report->accuracy_std = es_missing_real(); // one host has no spread
    }
    report->loss = es_mean(&results[0].validation_loss, n_envs, sizeof *results, &loss_std);
    report->n_seeds = report->n_fossils = 0;
    for (int64_t e = 0; e < n_envs; e++) {
        report->n_fossils += state->env.n_fossils[e];
        for (int s = 0; s < state->n_slots; s++) {
            report->n_seeds +=
                es_stage_in(state->seed.stage[e * state->n_slots + s], ES_STAGES_LIVING);
        }
    }
}

static void count_phases(EsGrowRun *grow, EsRun *run) {
    EsGrowthTimes times = es_growth_times(grow->growth);
    int64_t now_ns = es_clock_ns();
    es_run_phase_end(run, ES_PHASE_TRAIN, now_ns - (int64_t)(times.train_ms * 1e6));
    es_run_phase_end(run, ES_PHASE_VALIDATE, now_ns - (int64_t)(times.validate_ms * 1e6));
    es_run_phase_end(run, ES_PHASE_DECIDE, now_ns - (int64_t)(times.decide_ms * 1e6));
}

static EsStatus run_round(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    EsGrowRun *grow = context;
    EsHub *hub = es_run_hub(run);
    int64_t n_envs = grow->settings->n_envs, first_episode = (round - 1) * n_envs;
    EsEventTime time = {.round = round, .step = 0};
    ES_TRY(es_growth_reset(grow->growth, first_episode));
    while (!es_growth_is_over(grow->growth)) {
        if (es_run_must_drop(run)) {
            return ES_FAIL(INTERRUPTED, "the round was dropped");
        }
        count_phases(grow, run);
        es_grow_events_measured(grow->events, hub, time, first_episode);
        choose_actions(grow, (int32_t)time.step + 1);
        ES_TRY(es_growth_decide(grow->growth, grow->actions));
        es_grow_events_decided(grow->events, hub, time, first_episode, grow->actions);
        count_refusals(grow);
        ES_TRY(es_growth_advance(grow->growth));
        es_hub_tick(hub);
        time.step++;
    }
    ES_TRY(es_growth_attribute(grow->growth));
    es_grow_events_ended(grow->events, hub, (EsEventTime){.round = round, .step = -1},
                         first_episode);
    summarise(grow, report);
    const EsGrowthModel *model = es_growth_model(grow->growth);
    int64_t batch = grow->settings->batch > 0 ? grow->settings->batch : model->host.batch;
    report->n_episodes = n_envs;
    report->n_steps = n_envs * time.step;
    report->n_images = report->n_steps * grow->settings->step_batches * batch;
    return ES_STATUS_OK;
}

// --- state: every round begins afresh, so a run of a fixed policy has none between rounds ---

static void describe(void *context, EsRunStartedEvent *row) {
    const EsGrowRun *grow = context;
    row->task = grow->settings->task;
    row->n_envs = grow->settings->n_envs;
    row->n_host_parameters = es_growth_model(grow->growth)->layout.n_host_weights;
}

static EsStatus save(void *context, EsRunCheckpoint *checkpoint) {
    const EsGrowRun *grow = context;
    ES_TRY(es_run_checkpoint_put_text(checkpoint, "data_sha256", grow->data_hash));
    return es_run_checkpoint_put_text(checkpoint, "policy_sha256", grow->policy_hash);
}

static EsStatus load(void *context, const EsRunCheckpoint *checkpoint) {
    const EsGrowRun *grow = context;
    ES_TRY(es_run_input_check(checkpoint, "data_sha256", grow->data_hash, "the data set"));
    return es_run_input_check(checkpoint, "policy_sha256", grow->policy_hash, "the schedule");
}

EsRunWork es_grow_run_work(EsGrowRun *grow) {
    return (EsRunWork){
        .context = grow, .describe = describe, .round = run_round, .save = save, .load = load};
}

int64_t es_grow_run_refusals(const EsGrowRun *grow, const char **last) {
    *last = es_refusal_message(grow->last_refusal);
    return grow->n_refused;
}

EsGrowth *es_grow_run_growth(EsGrowRun *grow) { return grow->growth; }

const EsDataset *es_grow_run_dataset(const EsGrowRun *grow) { return &grow->dataset; }
