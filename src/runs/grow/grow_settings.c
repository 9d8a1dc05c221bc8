// The configuration of a run of growth: its keys with their limits, values derived from them, and
// tasks drawn from its ranges.
#include "runs/grow/grow_settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/math_rules.h"
#include "base/random_rules.h"
#include "control/policy/policy.h"
#include "growth/host/host_file.h"

// hidden units of the policy where the settings leave it to the task: as published for the presets,
// and for hosts that a file describes by their size
#define HIDDEN_SMALL     64
#define HIDDEN           512
#define SMALL_PARAMETERS 10000

// held-out episodes of a learned policy where the settings do not say
#define EVALUATED 64

#define SIDE_LEAST    4   // pixels that pools leave
#define CHANNELS_MOST 256 // of a block, so that widths do not multiply without end

#define ATTEMPT_STRIDE 64 // of the draws of a task, which are fewer
_Static_assert(ES_N_TASK_RANGES < ATTEMPT_STRIDE, "draws of one attempt are those of the next");

#define DEVICE_KERNEL 3 // the largest, and the most blocks, that an executor of a GPU takes
#define DEVICE_BLOCKS 6

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
    ES_CONFIG_CHOICE(EsGrowSettings, aggregation, "grow", "aggregation", "none", "none|seed",
                     "seed: one gradient per seed, weighted, conflicts taken off (CPU; slower)"),
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
    ES_CONFIG_BOOL(EsGrowSettings, tasks.is_paired, "tasks", "paired", "on",
                   "the hosts of a group share an episode with a control that only waits"),
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
    ES_CONFIG_CHOICE(EsGrowSettings, hidden_inputs, "policy", "hide", "none", "none|budget|place",
                     "for ablations: what version 2 does not see; run a policy as it was trained"),
    ES_PPO_SETTINGS(PPO_KEY) // ends in a comma
    ES_CONFIG_FLOAT(EsGrowSettings, floor_scale, "ppo", "floor_scale", "1", 0, 5,
                    "factor of the least probabilities of legal values, 0 = none"),
    ES_REWARD_CONFIG_KEYS(EsGrowSettings, reward),
    ES_CONFIG_INT(EsGrowSettings, n_evaluated, "evaluate", "episodes", "-1", -1, 1000000,
                  "held-out episodes per policy at the end; -1 = 64 for learned policies, else 0"),
    ES_CONFIG_TEXT(EsGrowSettings, against, "evaluate", "against",
                   "wait,random,heuristic,wider,deeper",
                   "policies to compare with on the same episodes: names, script:FILE, files; and "
                   "networks of the final size: wider, deeper, scratch, topologies; search: random "
                   "topologies for the same training FLOPs; budget2, budget4: larger budgets"),
    ES_CONFIG_BOOL(EsGrowSettings, is_greedy, "evaluate", "greedy", "off",
                   "learned policies take the most likely action instead of drawing"),
    ES_CONFIG_TEXT(EsGrowSettings, sweep, "evaluate", "sweep", "",
                   "instead of policies, compare rates of hosts side by side: key=a,b;key=c,d of "
                   "grow.host_rate, grow.seed_rate, grow.clip, recipe.momentum, "
                   "recipe.weight_decay; --sweep sets it"),
};

EsConfig es_grow_run_config(EsGrowSettings *settings) {
    EsConfig config = {keys, ES_COUNT_OF(keys), settings, sizeof *settings};
    memset(settings, 0, sizeof *settings);
    es_config_reset(&config);
    return config;
}

// --- ranges of tasks ---

typedef enum Kind { WHOLE, REAL, LOG, LOG_WHOLE } Kind;

typedef struct Declared {
    const char *name;
    size_t offset; // of its text in the settings
    double least, most;
    Kind kind;
} Declared;

static const Declared declared[ES_N_TASK_RANGES] = {
#define X(NAME, name, start, least, most, kind, help)                                              \
    {#name, offsetof(EsTaskSettings, name), least, most, kind},
    ES_TASK_RANGES(X)
#undef X
};

// One to ES_TASK_CHOICES_MAX numbers to choose from, or everything between two.
typedef struct Range {
    double numbers[ES_TASK_CHOICES_MAX];
    int n;
    int is_span; // numbers[0] to numbers[1]
} Range;

static int is_whole(Kind kind) { return kind == WHOLE || kind == LOG_WHOLE; }

static EsStatus fail_range(const Declared *d, const char *text) {
    return ES_FAIL(CONFIG,
                   "[tasks] %s = %s: expected a %snumber, a range LOW..HIGH or a list of at most "
                   "%d, from %g to %g",
                   d->name, text, is_whole(d->kind) ? "whole " : "", ES_TASK_CHOICES_MAX, d->least,
                   d->most);
}

static EsStatus parse_range(const EsTaskSettings *settings, int which, Range *range) {
    const Declared *d = &declared[which];
    const char *text = (const char *)settings + d->offset, *at = text;
    *range = (Range){.n = 0};
    for (;;) {
        char *end = NULL;
        double number = strtod(at, &end);
        // "2..4": strtod takes "2." where a second period follows
        end -= end > at + 1 && end[-1] == '.' && end[0] == '.';
        if (end == at || range->n == ES_TASK_CHOICES_MAX ||
            !(number >= d->least && number <= d->most) ||
            (is_whole(d->kind) && number != floor(number))) {
            return fail_range(d, text);
        }
        range->numbers[range->n++] = number;
        at = end + strspn(end, " \t");
        if (*at == '\0') {
            break;
        }
        int is_span = strncmp(at, "..", 2) == 0 && range->n == 1;
        if (!is_span && (*at != ',' || range->is_span)) {
            return fail_range(d, text);
        }
        range->is_span |= is_span;
        at += is_span ? 2 : 1;
    }
    int is_ordered = !range->is_span || (range->n == 2 && range->numbers[0] <= range->numbers[1]);
    return is_ordered ? ES_STATUS_OK : fail_range(d, text);
}

EsStatus es_tasks_check(const EsTaskSettings *settings) {
    Range range;
    for (int i = 0; i < ES_N_TASK_RANGES; i++) {
        ES_TRY(parse_range(settings, i, &range));
        for (int k = 0; k < range.n; k++) {
            int number = (int)range.numbers[k];
            if ((i == ES_TASK_IMAGE_SIZE && number % 4 != 0) ||
                (i == ES_TASK_KERNEL && number % 2 == 0)) {
                return ES_FAIL(CONFIG, "[tasks] %s: %d is not %s", declared[i].name, number,
                               i == ES_TASK_KERNEL ? "odd" : "a multiple of 4");
            }
        }
        if (range.is_span && (i == ES_TASK_IMAGE_SIZE || i == ES_TASK_KERNEL)) {
            return ES_FAIL(CONFIG, "[tasks] %s takes a list, such as %s", declared[i].name,
                           i == ES_TASK_KERNEL ? "3,5" : "8,12,16");
        }
    }
    return ES_STATUS_OK;
}

// --- drawing a task ---

// The source of a task's draws, or of the numbers at one end of the ranges.
typedef struct Source {
    const EsTaskSettings *settings;
    uint64_t seed;
    uint32_t number;
    int attempt;   // 0, 1, ...: other tasks of the same number
    int end;       // -1: the least, 1: the most, 0: draws
    int pools_end; // of the number of pools, likewise
} Source;

static EsRandom4 draw_words(const Source *source, int which, int index) {
    return es_random_draw(source->seed, source->number, ES_PURPOSE_TASK,
                          (uint32_t)(which + ATTEMPT_STRIDE * source->attempt), (uint32_t)index);
}

static uint32_t draw_word(const Source *source, int which, int index) {
    return draw_words(source, which, index).word[0];
}

// A number of the range `which`; `index` tells apart several of one range.
static double draw_number(const Source *source, int which, int index) {
    Range range;
    EsStatus status = parse_range(source->settings, which, &range);
    ES_ASSERT(status == ES_STATUS_OK); // they were checked
    uint32_t word = draw_word(source, which, index);
    int end = which == ES_TASK_POOLS ? source->pools_end : source->end;
    if (end != 0) {
        double last = range.numbers[0];
        for (int k = 1; k < range.n; k++) {
            last = (range.numbers[k] - last) * end > 0 ? range.numbers[k] : last;
        }
        return last;
    }
    if (!range.is_span) {
        return range.numbers[es_random_below(word, (uint32_t)range.n)];
    }
    double low = range.numbers[0], high = range.numbers[1];
    double share = (double)es_random_uniform(word);
    switch (declared[which].kind) {
    case WHOLE:
        return low + (double)es_random_below(word, (uint32_t)(high - low) + 1);
    case REAL:
        return low + (high - low) * share;
    case LOG_WHOLE:
        return floor(low * es_math_exp(es_math_log(high / low) * share) + 0.5);
    default:
        return low * es_math_exp(es_math_log(high / low) * share);
    }
}

static int draw_whole(const Source *source, int which, int index) {
    return (int)draw_number(source, which, index);
}

// Pools in blocks drawn by lot, at an end of the ranges in the last ones; as many as leave
// SIDE_LEAST pixels.
static void draw_pools(const Source *source, EsHostSpec *host) {
    int n = ES_MIN(draw_whole(source, ES_TASK_POOLS, 0), host->n_blocks);
    while (n > 0 && host->image_size >> n < SIDE_LEAST) {
        n--;
    }
    EsRandom4 key = draw_words(source, ES_TASK_POOLS, 1);
    for (int i = 0; i < n; i++) {
        uint32_t drawn = es_random_permute((uint32_t)i, (uint32_t)host->n_blocks, key);
        host->blocks[source->end == 0 ? (int)drawn : host->n_blocks - 1 - i].has_pool = 1;
    }
}

static void draw_host(const Source *source, EsTask *task) {
    EsHostSpec *host = &task->host;
    *host = (EsHostSpec){.name = "task",
                         .dataset = "",
                         .image_channels = draw_whole(source, ES_TASK_CHANNELS, 0),
                         .image_size = draw_whole(source, ES_TASK_IMAGE_SIZE, 0),
                         .n_blocks = draw_whole(source, ES_TASK_BLOCKS, 0),
                         .n_classes = draw_whole(source, ES_TASK_CLASSES, 0),
                         .batch = draw_whole(source, ES_TASK_BATCH, 0)};
    double n_channels = draw_whole(source, ES_TASK_BASE, 0);
    for (int i = 0; i < host->n_blocks; i++) {
        n_channels *= i > 0 ? draw_number(source, ES_TASK_WIDTH, i) : 1;
        n_channels = es_math_clamp(floor(n_channels + 0.5), 1, CHANNELS_MOST);
        host->blocks[i] = (EsHostBlock){.n_channels = (int)n_channels,
                                        .kernel = draw_whole(source, ES_TASK_KERNEL, i),
                                        .places = ES_HOST_BEFORE_POOL | ES_HOST_AFTER_POOL};
    }
    draw_pools(source, host);
}

static void draw_slots(const Source *source, EsTask *task) {
    EsSlot all[2 * ES_SLOTS_MAX];
    int n_all = es_slots_of(&task->host, all);
    int n = ES_MIN(ES_MIN(draw_whole(source, ES_TASK_SLOTS, 0), n_all), ES_SLOTS_MAX);
    EsRandom4 key = draw_words(source, ES_TASK_SLOTS, 1);
    unsigned is_taken = 0;
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        is_taken |= 1u << es_random_permute((uint32_t)i, (uint32_t)n_all, key);
    }
    for (int s = 0; s < n_all; s++) {
        if (is_taken >> s & 1) {
            used += (size_t)snprintf(task->slots + used, sizeof task->slots - used, "%s%s",
                                     used > 0 ? "," : "", all[s].name);
        }
    }
}

// Lengths are shares of the image; d makes drawings smaller, turned, shifted and faint among
// strays.
static void draw_images(const Source *source, EsTask *task) {
    const EsHostSpec *host = &task->host;
    float side = (float)host->image_size;
    float d = (float)draw_number(source, ES_TASK_DIFFICULTY, 0);
    float pen = side * 0.02f > 0.35f ? side * 0.02f : 0.35f;
    int n_most = ES_PICTOGRAM_DRAWINGS / host->n_classes;
    task->images =
        (EsImageRecipe){.stream = 2,
                        .n_classes = host->n_classes,
                        .n_channels = host->image_channels,
                        .size = host->image_size,
                        .n_variants = ES_MIN(draw_whole(source, ES_TASK_VARIANTS, 0), n_most),
                        .half_extent = {(0.3f - 0.08f * d) * side, (0.38f - 0.04f * d) * side},
                        .aspect = 0.1f + 0.1f * d,
                        .turn = 0.05f + 0.45f * d,
                        .shift = (0.04f + 0.09f * d) * side,
                        .pen = {pen, 1.8f * pen},
                        .contrast = {0.42f - 0.12f * d, 0.5f},
                        .ground = {0.3f - 0.05f * d, 0.7f + 0.05f * d},
                        .n_strays = {0, (int)(4 * d)},
                        .stray_length = {0.15f * side, 0.35f * side},
                        .texture = 0.05f + 0.12f * d,
                        .noise = (float)draw_number(source, ES_TASK_NOISE, 0)};
    task->n_images = draw_whole(source, ES_TASK_IMAGES, 0);
    task->data_seed = (uint64_t)draw_word(source, ES_N_TASK_RANGES, 0) << 32 |
                      draw_word(source, ES_N_TASK_RANGES, 1);
}

static void draw_training(const Source *source, EsTask *task) {
    double n_host = (double)es_host_parameter_count(&task->host);
    double budget = draw_number(source, ES_TASK_BUDGET, 0);
    double free_share = (double)source->settings->free_share;
    int is_free = (double)es_random_uniform(draw_word(source, ES_TASK_BUDGET, 1)) < free_share;
    double rate = draw_number(source, ES_TASK_LEARNING_RATE, 0);
    task->batch = ES_MIN(task->host.batch, task->n_images);
    task->step_batches = draw_whole(source, ES_TASK_STEP_BATCHES, 0);
    task->n_steps = draw_whole(source, ES_TASK_STEPS, 0);
    task->host_learning_rate = (float)rate;
    task->seed_learning_rate = (float)(rate * draw_number(source, ES_TASK_SEED_FACTOR, 0));
    task->max_parameters =
        is_free && source->end == 0 ? 0 : (int)es_math_clamp(n_host * budget, 1, INT32_MAX);
}

// "blocks 4k3p 6k3, slots r0c0,r1c0; 16 x 16 x 1, 7 classes of 3, ..."
static void describe(EsTask *task, double difficulty) {
    char blocks[128] = "", budget[32] = "no budget";
    size_t used = 0;
    for (int i = 0; i < task->host.n_blocks && used < sizeof blocks; i++) {
        const EsHostBlock *block = &task->host.blocks[i];
        used += (size_t)snprintf(blocks + used, sizeof blocks - used, " %dk%d%s", block->n_channels,
                                 block->kernel, block->has_pool ? "p" : "");
    }
    if (task->max_parameters > 0) {
        snprintf(budget, sizeof budget, "budget %d", task->max_parameters);
    }
    int n_bytes = snprintf(
        task->text, sizeof task->text,
        "blocks%s, slots %s; %d x %d x %d, %d classes of %d, difficulty %.2f, noise %.2f, %d "
        "images; batch %d x %d, rates %.3g and %.3g, %d steps; %lld parameters, %s",
        blocks, task->slots, task->host.image_size, task->host.image_size,
        task->host.image_channels, task->host.n_classes, task->images.n_variants, difficulty,
        (double)task->images.noise, task->n_images, task->batch, task->step_batches,
        (double)task->host_learning_rate, (double)task->seed_learning_rate, task->n_steps,
        (long long)es_host_parameter_count(&task->host), budget);
    ES_ASSERT(n_bytes > 0); // a text too long for its field is cut
}

static void draw(const Source *source, EsTask *task) {
    *task = (EsTask){.number = source->number, .n_redrawn = source->attempt};
    draw_host(source, task);
    draw_slots(source, task);
    draw_images(source, task);
    draw_training(source, task);
    describe(task, draw_number(source, ES_TASK_DIFFICULTY, 0));
}

void es_task_draw(const EsTaskSettings *settings, uint64_t seed, int64_t number, EsTask *task) {
    const Source source = {.settings = settings, .seed = seed, .number = (uint32_t)number};
    draw(&source, task);
}

void es_task_redraw(const EsTaskSettings *settings, uint64_t seed, EsTask *task) {
    const Source source = {.settings = settings,
                           .seed = seed,
                           .number = (uint32_t)task->number,
                           .attempt = task->n_redrawn + 1};
    draw(&source, task);
}

// Returns 0 for a host that cannot be made smaller.
static int shrink_host(EsHostSpec *host) {
    int widest = 0, n_large = 0;
    for (int b = 0; b < host->n_blocks; b++) {
        n_large += host->blocks[b].kernel > DEVICE_KERNEL;
        host->blocks[b].kernel = ES_MIN(host->blocks[b].kernel, DEVICE_KERNEL);
        widest = host->blocks[b].n_channels > host->blocks[widest].n_channels ? b : widest;
    }
    if (n_large > 0) {
        return 1;
    }
    if (host->n_blocks > DEVICE_BLOCKS) { // the first ones go: pools stand in the last
        int n_gone = host->n_blocks - DEVICE_BLOCKS;
        memmove(host->blocks, host->blocks + n_gone, sizeof *host->blocks * DEVICE_BLOCKS);
        host->n_blocks = DEVICE_BLOCKS;
        return 1;
    }
    host->blocks[widest].n_channels /= 2;
    return host->blocks[widest].n_channels > 0;
}

int es_task_shrink(const EsTaskSettings *settings, EsTask *task) {
    const Source source = {.settings = settings, .end = 1, .pools_end = 1};
    if (!shrink_host(&task->host)) {
        return 0;
    }
    draw_slots(&source, task);
    draw_training(&source, task);
    describe(task, draw_number(&source, ES_TASK_DIFFICULTY, 0));
    return 1;
}

void es_task_largest(const EsTaskSettings *settings, uint64_t seed, EsTaskPools pools,
                     EsTask *task) {
    const Source source = {.settings = settings,
                           .seed = seed,
                           .end = 1,
                           .pools_end = pools == ES_TASK_POOLS_MOST ? 1 : -1};
    draw(&source, task);
}

void es_task_smallest(const EsTaskSettings *settings, EsTask *task) {
    const Source source = {.settings = settings, .end = -1, .pools_end = -1};
    draw(&source, task);
}

// --- tasks ---

int es_grow_settings_group_envs(const EsGrowSettings *settings) {
    return settings->n_envs / settings->tasks.n_groups;
}

int es_grow_settings_group_controls(const EsGrowSettings *settings) {
    return settings->tasks.is_paired ? 1 : 0;
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

// Settings of one task that are drawn instead, and would be ignored. Compared with the defaults,
// not with what was given: the configuration of a run that is resumed names every key.
static EsStatus check_ignored(const EsGrowSettings *settings) {
    EsGrowSettings usual;
    es_grow_run_config(&usual);
    const struct {
        int is_changed;
        const char *option, *instead;
    } ignored[] = {
        {strcmp(settings->task, usual.task) != 0, "--task",
         "--tasks.blocks, base, width, kernel and pools describe hosts"},
        {strcmp(settings->slots, usual.slots) != 0, "--slots", "set --tasks.slots"},
        {settings->episode_steps != usual.episode_steps, "--episode-steps", "set --tasks.steps"},
        {settings->batch != usual.batch, "--batch", "set --tasks.batch"},
        {settings->step_batches != usual.step_batches, "--step-batches",
         "set --tasks.step_batches"},
        {settings->max_parameters != usual.max_parameters, "--max-params",
         "set --tasks.budget, in parameters of the host"},
        {settings->host_learning_rate != usual.host_learning_rate, "--grow.host_rate",
         "set --tasks.learning_rate"},
        {settings->seed_learning_rate != usual.seed_learning_rate, "--grow.seed_rate",
         "set --tasks.seed_factor, over the host's"},
        {settings->keep_best > 0, "--keep-best", "it is for runs of one task"},
        {settings->data.name[0] != '\0', "--data", "it is for runs of one task"},
        {settings->data_split != 0, "--data-split", "it is for runs of one task"},
    };
    for (size_t i = 0; i < ES_COUNT_OF(ignored); i++) {
        if (ignored[i].is_changed) {
            return ES_FAIL(CONFIG,
                           "[tasks] groups = %d draws hosts, data and training, and %s would be "
                           "ignored: %s",
                           settings->tasks.n_groups, ignored[i].option, ignored[i].instead);
        }
    }
    return ES_STATUS_OK;
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
    if (es_grow_settings_train(settings) && settings->tasks.is_relative &&
        settings->n_envs == n_groups) {
        return ES_FAIL(CONFIG,
                       "[tasks] relative = on needs others to compare with, and %d hosts (--envs) "
                       "in %d groups are one each; a larger --envs, or --tasks.relative=off",
                       settings->n_envs, n_groups);
    }
    ES_TRY(check_ignored(settings));
    return es_tasks_check(&settings->tasks);
}

// --- derived values ---

int es_grow_settings_train(const EsGrowSettings *settings) {
    return strcmp(settings->policy, "ppo") == 0;
}

EsDtype es_grow_settings_precision(const EsGrowSettings *settings, EsDtype automatic) {
    static const EsDtype chosen[] = {ES_DTYPE_F32, ES_DTYPE_F32, ES_DTYPE_BF16, ES_DTYPE_F16};
    return settings->amp_dtype == 0 ? automatic : chosen[settings->amp_dtype];
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
