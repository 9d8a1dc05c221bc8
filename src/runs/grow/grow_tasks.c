// Ranges of tasks, and the draws from them: a host, its data, its training.
#include "runs/grow/grow_tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/math_rules.h"
#include "base/random_rules.h"

#define SIDE_LEAST    4   // pixels that pools leave
#define CHANNELS_MOST 256 // of a block, so that widths do not multiply without end

// --- ranges ---

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

// --- drawing ---

// The source of a task's draws, or of the numbers at one end of the ranges.
typedef struct Source {
    const EsTaskSettings *settings;
    uint64_t seed;
    uint32_t number;
    int end; // -1: the least, 1: the most, 0: draws
} Source;

static uint32_t draw_word(const Source *source, int which, int index) {
    return es_random_draw(source->seed, source->number, ES_PURPOSE_TASK, (uint32_t)which,
                          (uint32_t)index)
        .word[0];
}

// A number of the range `which`; `index` tells apart several of one range.
static double draw_number(const Source *source, int which, int index) {
    Range range;
    EsStatus status = parse_range(source->settings, which, &range);
    ES_ASSERT(status == ES_STATUS_OK); // they were checked
    uint32_t word = draw_word(source, which, index);
    if (source->end != 0) {
        double last = range.numbers[0];
        for (int k = 1; k < range.n; k++) {
            last = (range.numbers[k] - last) * source->end > 0 ? range.numbers[k] : last;
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

// Pools in blocks drawn by lot, as many as leave SIDE_LEAST pixels.
static void draw_pools(const Source *source, EsHostSpec *host) {
    int n = ES_MIN(draw_whole(source, ES_TASK_POOLS, 0), host->n_blocks);
    while (n > 0 && host->image_size >> n < SIDE_LEAST) {
        n--;
    }
    EsRandom4 key = es_random_draw(source->seed, source->number, ES_PURPOSE_TASK, ES_TASK_POOLS, 1);
    for (int i = 0; i < n; i++) {
        host->blocks[es_random_permute((uint32_t)i, (uint32_t)host->n_blocks, key)].has_pool = 1;
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
    EsRandom4 key = es_random_draw(source->seed, source->number, ES_PURPOSE_TASK, ES_TASK_SLOTS, 1);
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
    for (int i = 0; i < task->host.n_blocks; i++) {
        const EsHostBlock *block = &task->host.blocks[i];
        used += (size_t)snprintf(blocks + used, sizeof blocks - used, " %dk%d%s", block->n_channels,
                                 block->kernel, block->has_pool ? "p" : "");
    }
    if (task->max_parameters > 0) {
        snprintf(budget, sizeof budget, "budget %d", task->max_parameters);
    }
    snprintf(task->text, sizeof task->text,
             "blocks%s, slots %s; %d x %d x %d, %d classes of %d, difficulty %.2f, noise %.2f, %d "
             "images; batch %d x %d, rates %.3g and %.3g, %d steps; %lld parameters, %s",
             blocks, task->slots, task->host.image_size, task->host.image_size,
             task->host.image_channels, task->host.n_classes, task->images.n_variants, difficulty,
             (double)task->images.noise, task->n_images, task->batch, task->step_batches,
             (double)task->host_learning_rate, (double)task->seed_learning_rate, task->n_steps,
             (long long)es_host_parameter_count(&task->host), budget);
}

static void draw(const Source *source, EsTask *task) {
    *task = (EsTask){.number = source->number};
    draw_host(source, task);
    draw_slots(source, task);
    draw_images(source, task);
    draw_training(source, task);
    describe(task, draw_number(source, ES_TASK_DIFFICULTY, 0));
}

void es_task_draw(const EsTaskSettings *settings, uint64_t seed, int64_t number, EsTask *task) {
    const Source source = {settings, seed, (uint32_t)number, 0};
    draw(&source, task);
}

void es_task_largest(const EsTaskSettings *settings, EsTask *task) {
    const Source source = {settings, 0, 0, 1};
    draw(&source, task);
}

void es_task_smallest(const EsTaskSettings *settings, EsTask *task) {
    const Source source = {settings, 0, 0, -1};
    draw(&source, task);
}
