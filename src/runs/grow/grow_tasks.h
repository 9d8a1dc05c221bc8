// A distribution of tasks, [tasks] in the configuration of growth: hosts, generated data and
// training drawn from ranges. A task is a function of the run's seed and the number of its first
// episode, so that a resumed run meets the same ones, and held-out episodes have tasks that no
// training has seen.
//
//     EsTask task; es_task_draw(&settings.tasks, seed, first_episode, &task);
//     printf("%s\n", task.text);
//
// A round is made of groups: environments with one task and one episode, the first one's (the same
// initial weights and batches), and a control beside them that only waits.
#ifndef ES_RUNS_GROW_TASKS_H
#define ES_RUNS_GROW_TASKS_H

#include "data/generated_images.h"
#include "growth/host/host.h"

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
    int is_relative;  // learning takes an episode's reward relative to the others of its group
#define X(NAME, name, start, least, most, kind, help) char name[ES_TASK_RANGE_BYTES];
    ES_TASK_RANGES(X)
#undef X
} EsTaskSettings;

#define ES_TASK_TEXT_BYTES 384

typedef struct EsTask {
    int64_t number; // the first of its episodes
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

// The task with the most of everything, which takes the most memory and time, and slots and steps
// that a policy must have room for; and the one with the least.
void es_task_largest(const EsTaskSettings *settings, EsTask *task);
void es_task_smallest(const EsTaskSettings *settings, EsTask *task);

#endif
