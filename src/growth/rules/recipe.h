// The recipe that hosts are trained by: course of the learning rate, SGD, labels, augmentation. One
// for `esper hosts`, `grow` and `fit`, so that networks that grew are compared with networks that
// were trained as well as they were.
//
// The defaults of its keys are a constant learning rate and crops from a black border, as runs were
// recorded before there were recipes: such a run is resumed as it began.
#ifndef ES_GROWTH_RECIPE_H
#define ES_GROWTH_RECIPE_H

#include "network/slab_optimiser.h"

ES_EXTERN_C_BEGIN

typedef enum EsRecipeOptimiser { ES_RECIPE_SGD, ES_RECIPE_ADAMW } EsRecipeOptimiser;

typedef struct EsRecipe {
    int optimiser;      // EsRecipeOptimiser
    float weight_decay; // seeds have none
    float momentum;     // SGD
    int nesterov;
    float beta1, beta2; // AdamW: shares of its moments that an update keeps
    // the learning rate over an episode, or a run of hosts: EsDecay, and shares of its updates and
    // of the rate (kernels/ops/schedule_rules.h)
    int decay;
    float warmup, final_share;
    int step_epochs; // ES_DECAY_STEP: epochs (steps of an episode, rounds of hosts) between drops,
    float step_factor; // of the learning rate to this share
    float smoothing;   // of labels
    float average;     // share of the averaged weights that an update keeps; 0 = no average
    // augmentation of training images (kernels/kernel_list.h); border: EsBorder
    int pad, flip, border;
    float erase;
} EsRecipe;

// Keys of a configuration for a recipe `m` in settings of type T; pad and flip are keys of the
// run's own section.
#define ES_RECIPE_CONFIG_KEYS(T, m)                                                                \
    ES_RECIPE_CONFIG_KEYS_FROM(T, m, "off", "constant", "0", "0", "black", "0")

// The same with defaults by which small networks reach the accuracies that they are known for.
#define ES_RECIPE_CONFIG_KEYS_TUNED(T, m)                                                          \
    ES_RECIPE_CONFIG_KEYS_FROM(T, m, "on", "cosine", "0.1", "0.999", "reflect", "0.2")

#define ES_RECIPE_CONFIG_KEYS_FROM(T, m, nesterov_, decay_, warmup_, average_, border_, erase_)    \
    ES_CONFIG_CHOICE(T, m.optimiser, "recipe", "optimiser", "sgd", "sgd|adamw",                    \
                     "rule of the updates of hosts and seeds"),                                    \
        ES_CONFIG_FLOAT(T, m.momentum, "recipe", "momentum", "0.9", 0, 0.9999, "momentum of SGD"), \
        ES_CONFIG_FLOAT(T, m.weight_decay, "recipe", "weight_decay", "0.0005", 0, 1,               \
                        "weight decay of hosts"),                                                  \
        ES_CONFIG_BOOL(T, m.nesterov, "recipe", "nesterov", nesterov_, "Nesterov momentum"),       \
        ES_CONFIG_FLOAT(T, m.beta1, "recipe", "beta1", "0.9", 0, 0.9999,                           \
                        "first moment of AdamW: share kept by an update"),                         \
        ES_CONFIG_FLOAT(T, m.beta2, "recipe", "beta2", "0.999", 0, 0.999999,                       \
                        "second moment of AdamW: share kept by an update"),                        \
        ES_CONFIG_CHOICE(T, m.decay, "recipe", "schedule", decay_, "constant|linear|cosine|step",  \
                         "course of the learning rate over an episode or run"),                    \
        ES_CONFIG_INT(T, m.step_epochs, "recipe", "step_epochs", "10", 1, 1000000,                 \
                      "schedule = step: epochs between two drops"),                                \
        ES_CONFIG_FLOAT(T, m.step_factor, "recipe", "step_factor", "0.5", 0, 1,                    \
                        "schedule = step: share of the learning rate left by a drop"),             \
        ES_CONFIG_FLOAT(T, m.warmup, "recipe", "warmup", warmup_, 0, 1,                            \
                        "share of the updates in which the learning rate rises from 0"),           \
        ES_CONFIG_FLOAT(T, m.final_share, "recipe", "final", "0", 0, 1,                            \
                        "share of the learning rate that is left at the end"),                     \
        ES_CONFIG_FLOAT(T, m.smoothing, "recipe", "smoothing", "0", 0, 0.999,                      \
                        "label smoothing: weight shared by all classes"),                          \
        ES_CONFIG_FLOAT(T, m.average, "recipe", "average", average_, 0, 0.999999,                  \
                        "share of the averaged weights kept by an update; 0 = no average"),        \
        ES_CONFIG_CHOICE(T, m.border, "recipe", "border", border_, "black|mean|reflect",           \
                         "pixels around an image, for crops (pad)"),                               \
        ES_CONFIG_FLOAT(T, m.erase, "recipe", "erase", erase_, 0, 1,                               \
                        "probability that a rectangle of a training image is erased")

// SGD with momentum 0.9 and weight decay 5e-4, nothing else; moments 0.9 and 0.999 for AdamW,
// halves every 10 epochs for a schedule of steps.
EsRecipe es_recipe_plain(void);

// UNSUPPORTED where the device cannot train by this recipe: a GPU has no AdamW.
EsStatus es_recipe_check(const EsRecipe *recipe, const EsDevice *device);

// The course of the learning rate over n_updates; 0 updates where it stays as it is.
EsLearningRateSchedule es_recipe_schedule(const EsRecipe *recipe, int64_t n_updates);

// The share of the learning rate in epoch number `epoch`, from 0 on, that a schedule of steps
// leaves; 1 for the others, whose course is in the schedule of updates.
float es_recipe_epoch_share(const EsRecipe *recipe, int64_t epoch);

// The optimiser of hosts at this learning rate; Nesterov and the schedule are in its rates.
EsOptimiserOptions es_recipe_optimiser(const EsRecipe *recipe, float learning_rate);

// Augmentation of training images; normalisation is left to the caller.
EsGatherOptions es_recipe_gather(const EsRecipe *recipe, uint64_t seed);

ES_EXTERN_C_END

#endif
