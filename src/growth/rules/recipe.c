// A recipe as the parts of training read it: optimiser, schedule, augmentation, and the devices
// that run it.
#include "growth/rules/recipe.h"

#include <math.h>
#include <string.h>

EsRecipe es_recipe_plain(void) {
    EsRecipe recipe;
    memset(&recipe, 0, sizeof recipe);
    recipe.momentum = 0.9f;
    recipe.weight_decay = 5e-4f;
    recipe.beta1 = 0.9f;
    recipe.beta2 = 0.999f;
    recipe.step_epochs = 10;
    recipe.step_factor = 0.5f;
    return recipe;
}

EsStatus es_recipe_check(const EsRecipe *recipe, const EsDevice *device) {
    if (es_device_info(device)->kind == ES_DEVICE_CPU) {
        return ES_STATUS_OK;
    }
    if (recipe->optimiser != ES_RECIPE_SGD) {
        return ES_FAIL(UNSUPPORTED, "recipe.optimiser = adamw trains on the CPU alone: use "
                                    "--device cpu, or optimiser = sgd");
    }
    return ES_STATUS_OK;
}

EsLearningRateSchedule es_recipe_schedule(const EsRecipe *recipe, int64_t n_updates) {
    int is_moving = recipe->decay != ES_DECAY_CONSTANT || recipe->warmup > 0;
    EsLearningRateSchedule schedule = {(EsDecay)recipe->decay, recipe->warmup, recipe->final_share,
                                       is_moving ? n_updates : 0};
    return schedule;
}

float es_recipe_epoch_share(const EsRecipe *recipe, int64_t epoch) {
    if (recipe->decay != ES_DECAY_STEP) {
        return 1.0f;
    }
    int64_t n_steps = epoch / recipe->step_epochs;
    return (float)pow((double)recipe->step_factor, (double)n_steps);
}

EsOptimiserOptions es_recipe_optimiser(const EsRecipe *recipe, float learning_rate) {
    int is_sgd = recipe->optimiser == ES_RECIPE_SGD;
    EsOptimiserOptions options =
        es_optimiser_defaults(is_sgd ? ES_OPTIMISER_SGD : ES_OPTIMISER_ADAMW);
    options.learning_rate = learning_rate;
    options.weight_decay = recipe->weight_decay;
    options.momentum = recipe->momentum;
    options.beta1 = recipe->beta1;
    options.beta2 = recipe->beta2;
    return options;
}

EsGatherOptions es_recipe_gather(const EsRecipe *recipe, uint64_t seed) {
    EsGatherOptions gather;
    memset(&gather, 0, sizeof gather);
    gather.seed = seed;
    gather.pad = recipe->pad;
    gather.flip = recipe->flip;
    gather.border = (EsBorder)recipe->border;
    gather.erase = recipe->erase;
    return gather;
}
