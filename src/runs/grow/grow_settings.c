// The configuration of a run of growth: its keys with their limits, and values derived from them.
#include "runs/grow/grow_settings.h"

#include <string.h>

#include "base/macros.h"
#include "control/policy/policy.h"
#include "growth/host/host_file.h"

// hidden units of the policy where the settings leave it to the task: as published for the presets,
// and for hosts that a file describes by their size
#define HIDDEN_SMALL     64
#define HIDDEN           512
#define SMALL_PARAMETERS 10000

// held-out episodes of a learned policy where the settings do not say
#define EVALUATED 64

// --- keys ---

#define CONFIG_float(field, section, key, start, lowest, highest, help)                            \
    ES_CONFIG_FLOAT(EsGrowSettings, field, section, key, start, lowest, highest, help)
#define CONFIG_int(field, section, key, start, lowest, highest, help)                              \
    ES_CONFIG_INT(EsGrowSettings, field, section, key, start, lowest, highest, help)

// Every number of PPO is a key but those with a DERIVED_ macro, which follow from other settings:
// its comma puts OMIT in the place of the second argument.
#define DERIVED_total_updates , OMIT
#define OMIT(...)
#define KEY_float(...)    CONFIG_float(__VA_ARGS__),
#define KEY_int(...)      CONFIG_int(__VA_ARGS__),
#define SECOND(a, b, ...) b
#define CHOOSE(...)       SECOND(__VA_ARGS__)
#define PPO_KEY(type, name, start, lowest, highest, help)                                          \
    CHOOSE(DERIVED_##name, KEY_##type, ~)(ppo.name, "ppo", #name, #start, lowest, highest, help)

#define TASK_KEY(NAME, name, start, least, most, kind, help)                                       \
    ES_CONFIG_TEXT(EsGrowSettings, tasks.name, "tasks", #name, start, help),

static const EsConfigKey keys[] = {
    ES_RUN_CONFIG_KEYS_FROM(EsGrowSettings, run, "grow", "100", 0),
    ES_CONFIG_TEXT(EsGrowSettings, task, "grow", "task", "tiny",
                   "host and its data set, or the path of a host file"),
    ES_DATA_CONFIG_KEYS(
        EsGrowSettings, data, "grow",
        "data set instead of the task's: tiny, generated, fashion-mnist, cifar10, idx, a path"),
    ES_CONFIG_TEXT(EsGrowSettings, slots, "grow", "slots", "r0c0,r0c1",
                   "slots for seeds: r0c0,r0c1,... or all"),
    ES_CONFIG_TEXT(EsGrowSettings, policy, "grow", "policy", "ppo",
                   "ppo (trains one), heuristic, random, wait, script:FILE or a policy's file"),
    ES_CONFIG_INT(EsGrowSettings, n_envs, "grow", "envs", "16", 1, 4096,
                  "hosts that grow side by side"),
    ES_CONFIG_INT(EsGrowSettings, max_seeds, "grow", "max_seeds", "0", 0, 16,
                  "maximum of living seeds and fossils of a host, 0 = no limit"),
    ES_CONFIG_INT(EsGrowSettings, max_parameters, "grow", "max_params", "0", 0, INT32_MAX,
                  "budget: maximum of parameters of a host and its seeds, 0 = no limit"),
    ES_CONFIG_INT(EsGrowSettings, episode_steps, "grow", "episode_steps", "0", 0, 100000,
                  "steps of an episode, 0 = the task's"),
    ES_CONFIG_INT(EsGrowSettings, batch, "grow", "batch", "0", 0, 65536,
                  "images per update, 0 = the task's"),
    ES_CONFIG_INT(EsGrowSettings, step_batches, "grow", "step_batches", "8", 1, 100000,
                  "updates of a host per step"),
    ES_CONFIG_INT(EsGrowSettings, validation_images, "grow", "validation_images", "2000", 1,
                  10000000,
                  "validation images of a step, the same for all; fewer when the set has fewer"),
    ES_CONFIG_CHOICE(
        EsGrowSettings, pace, "grow", "pace", "task", "task|published|short|swift|instant",
        "steps of training before a seed blends: published 10, short 3, swift 1, instant 0; "
        "task: short for tiny, else published"),
    ES_CONFIG_CHOICE(EsGrowSettings, gates, "grow", "gates", "permissive", "permissive|strict",
                     "strictness of the gates between a seed's stages"),
    ES_CONFIG_BOOL(EsGrowSettings, auto_forward, "grow", "auto_forward", "on",
                   "stages advance on their own when their gate opens"),
    ES_CONFIG_CHOICE(EsGrowSettings, data_split, "grow", "data_split", "whole", "whole|share",
                     "images a host trains on: the whole set, or its share of each pass over it"),
    ES_CONFIG_INT(EsGrowSettings, recipe.pad, "grow", "pad", "0", 0, 16,
                  "random crop from a border of N pixels"),
    ES_CONFIG_BOOL(EsGrowSettings, recipe.flip, "grow", "flip", "off", "random horizontal flip"),
    ES_CONFIG_FLOAT(EsGrowSettings, host_learning_rate, "grow", "host_rate", "0.01", 1e-9, 1e3,
                    "learning rate of hosts"),
    ES_CONFIG_FLOAT(EsGrowSettings, seed_learning_rate, "grow", "seed_rate", "0.01", 1e-9, 1e3,
                    "learning rate of seeds"),
    ES_CONFIG_FLOAT(EsGrowSettings, clip, "grow", "clip", "1", 1e-6, 1e6,
                    "maximum gradient norm of a host and of a seed"),
    ES_CONFIG_INT(EsGrowSettings, gradient_stride, "grow", "gradient_stride", "10", 1, 100000,
                  "batches between measurements of gradients; a step's first is always measured"),
    ES_CONFIG_BOOL(EsGrowSettings, unfused, "grow", "unfused", "off",
                   "run operation by operation, for debugging; on CUDA without captures"),
    ES_CONFIG_CHOICE(EsGrowSettings, amp_dtype, "grow", "amp_dtype", "auto",
                     "auto|off|bfloat16|float16",
                     "number type of hosts on CUDA; auto: bfloat16 if the GPU has "
                     "it, else float16; off on the CPU"),
    ES_CONFIG_CHOICE(EsGrowSettings, is_tf32, "grow", "tf32", "on", "off|on",
                     "float32 convolutions of hosts on CUDA multiply in TF32"),
    ES_CONFIG_INT(EsGrowSettings, keep_best, "grow", "keep_best", "0", 0, 4096,
                  "networks of the last round to write, the best by validation accuracy"),
    ES_RECIPE_CONFIG_KEYS(EsGrowSettings, recipe),
    ES_CONFIG_INT(EsGrowSettings, tasks.n_groups, "tasks", "groups", "0", 0, 1024,
                  "tasks of a round, drawn from the ranges below; 0 = the one of [grow]"),
    ES_CONFIG_FLOAT(EsGrowSettings, tasks.free_share, "tasks", "free", "0.1", 0, 1,
                    "share of tasks without a budget"),
    ES_CONFIG_BOOL(EsGrowSettings, tasks.is_relative, "tasks", "relative", "on",
                   "learn from an episode's reward less the mean of the others of its group"),
    ES_TASK_RANGES(TASK_KEY) // ends in a comma
    ES_CONFIG_INT(EsGrowSettings, policy_version, "policy", "version", "1", 1, 2,
                  "network that is trained: 1 for the host's own slots, 2 for slots of any number"),
    ES_CONFIG_INT(EsGrowSettings, n_hidden, "policy", "hidden", "0", 0, 4096,
                  "units of the LSTM, a multiple of 8; 0 = 64 for tiny and for host files below "
                  "10,000 parameters, else 512"),
    ES_CONFIG_INT(EsGrowSettings, n_features, "policy", "features", "0", 0, 4096,
                  "units of the feature layer, 0 = as hidden"),
    ES_CONFIG_FLOAT(EsGrowSettings, dropout, "policy", "dropout", "0.1", 0, 0.9,
                    "dropout of the output that predicts contributions"),
    ES_CONFIG_BOOL(EsGrowSettings, aux_stops, "policy", "aux_stops", "on",
                   "predicting contributions does not train the shared layers"),
    ES_PPO_SETTINGS(PPO_KEY) // ends in a comma
    ES_CONFIG_FLOAT(EsGrowSettings, floor_scale, "ppo", "floor_scale", "1", 0, 5,
                    "factor of the least probabilities of legal values, 0 = none"),
    ES_REWARD_CONFIG_KEYS(EsGrowSettings, reward),
    ES_CONFIG_INT(EsGrowSettings, n_evaluated, "evaluate", "episodes", "-1", -1, 1000000,
                  "held-out episodes per policy at the end; -1 = 64 for learned policies, else 0"),
    ES_CONFIG_TEXT(EsGrowSettings, against, "evaluate", "against",
                   "wait,random,heuristic,wider,deeper",
                   "policies to compare with on the same episodes: names, script:FILE, files; and "
                   "networks of the final size: wider, deeper, scratch, topologies"),
    ES_CONFIG_BOOL(EsGrowSettings, is_greedy, "evaluate", "greedy", "off",
                   "learned policies take the most likely action instead of drawing"),
};

EsConfig es_grow_run_config(EsGrowSettings *settings) {
    EsConfig config = {keys, ES_COUNT_OF(keys), settings, sizeof *settings};
    memset(settings, 0, sizeof *settings);
    es_config_reset(&config);
    return config;
}

// --- tasks ---

int es_grow_settings_group_envs(const EsGrowSettings *settings) {
    return settings->n_envs / settings->tasks.n_groups;
}

EsGrowSettings es_grow_settings_of_task(const EsGrowSettings *settings, const EsTask *task,
                                        int n_envs) {
    EsGrowSettings own = *settings;
    own.n_envs = n_envs;
    own.tasks.n_groups = 1; // these
    own.episode_steps = task->n_steps;
    own.batch = task->batch;
    own.step_batches = task->step_batches;
    own.host_learning_rate = task->host_learning_rate;
    own.seed_learning_rate = task->seed_learning_rate;
    own.max_parameters = task->max_parameters;
    snprintf(own.slots, sizeof own.slots, "%s", task->slots);
    return own;
}

EsStatus es_grow_settings_check_tasks(const EsGrowSettings *settings) {
    int n_groups = settings->tasks.n_groups;
    if (n_groups == 0) {
        return ES_STATUS_OK;
    }
    if (settings->n_envs % n_groups != 0) {
        return ES_FAIL(CONFIG,
                       "[tasks] groups: %d hosts (--envs) do not make %d groups of one size",
                       settings->n_envs, n_groups);
    }
    if (es_grow_settings_train(settings) &&
        settings->policy_version != ES_SET_OBSERVATION_VERSION) {
        return ES_FAIL(CONFIG,
                       "[tasks] groups = %d: a policy of version 1 is for the slots of one "
                       "host; --policy.version=2 is for any",
                       n_groups);
    }
    if (settings->keep_best > 0 || settings->data.name[0] != '\0' || settings->data_split != 0) {
        return ES_FAIL(CONFIG, "[tasks] draws hosts and data: --%s is for runs of one task",
                       settings->keep_best > 0          ? "keep-best"
                       : settings->data.name[0] != '\0' ? "data"
                                                        : "data-split");
    }
    return es_tasks_check(&settings->tasks);
}

// --- derived values ---

int es_grow_settings_train(const EsGrowSettings *settings) {
    return strcmp(settings->policy, "ppo") == 0;
}

EsDtype es_grow_settings_precision(const EsGrowSettings *settings, const EsDeviceInfo *device) {
    static const EsDtype chosen[] = {ES_DTYPE_F32, ES_DTYPE_F32, ES_DTYPE_BF16, ES_DTYPE_F16};
    return settings->amp_dtype == 0 ? es_growth_auto_precision(device)
                                    : chosen[settings->amp_dtype];
}

int64_t es_grow_settings_evaluated(const EsGrowSettings *settings) {
    int is_learned = es_policy_parse_kind(settings->policy) == ES_POLICY_LEARNED; // or ppo
    int64_t n = settings->n_evaluated >= 0 ? settings->n_evaluated : (is_learned ? EVALUATED : 0);
    int64_t n_group = settings->tasks.n_groups > 0 ? es_grow_settings_group_envs(settings) : 1;
    return n_group > 0 ? (n + n_group - 1) / n_group * n_group : n;
}

int es_grow_settings_evaluated_envs(const EsGrowSettings *settings) {
    int64_t n = es_grow_settings_evaluated(settings), n_envs = settings->n_envs;
    int64_t n_batches = ES_MAX((n + n_envs - 1) / n_envs, 1);
    return (int)ES_MAX((n + n_batches - 1) / n_batches, 1);
}

static int choose_hidden(const char *task, int64_t n_host_parameters) {
    int is_small = strcmp(task, "tiny") == 0 ||
                   (es_host_is_file(task) && n_host_parameters < SMALL_PARAMETERS);
    return is_small ? HIDDEN_SMALL : HIDDEN;
}

EsStatus es_grow_settings_spec(const EsGrowSettings *settings, int n_slots,
                               int64_t n_host_parameters, EsPolicySpec *spec) {
    int n_hidden = settings->n_hidden > 0 ? settings->n_hidden
                                          : choose_hidden(settings->task, n_host_parameters);
    if (n_hidden % 8 != 0) {
        return ES_FAIL(CONFIG, "[policy] hidden is %d; it must be a multiple of 8", n_hidden);
    }
    *spec = es_policy_spec_default(n_slots, n_hidden);
    spec->is_set = settings->policy_version == ES_SET_OBSERVATION_VERSION;
    spec->n_features = settings->n_features > 0 ? settings->n_features : n_hidden;
    spec->dropout = settings->dropout;
    spec->aux_stops = settings->aux_stops;
    return ES_STATUS_OK;
}

EsPpoSettings es_grow_settings_ppo(const EsGrowSettings *settings) {
    EsPpoSettings ppo = settings->ppo, published = es_policy_ppo_defaults();
    for (int h = 0; h < ES_N_HEADS; h++) {
        ppo.head[h] = published.head[h];
        ppo.head[h].floor *= settings->floor_scale;
    }
    ppo.total_updates = settings->run.n_rounds;
    return ppo;
}
