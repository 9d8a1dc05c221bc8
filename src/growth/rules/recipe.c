// A recipe as the parts of training read it: schedule, augmentation, and the devices that run it.
#include "growth/rules/recipe.h"

#include <string.h>

EsRecipe es_recipe_plain(void) {
    EsRecipe recipe;
    memset(&recipe, 0, sizeof recipe);
    recipe.momentum = 0.9f;
    recipe.weight_decay = 5e-4f;
    return recipe;
}

EsStatus es_recipe_check(const EsRecipe *recipe, const EsDevice *device) {
    if (es_device_info(device)->kind != ES_DEVICE_CPU && recipe->average > 0) {
        return ES_FAIL(UNSUPPORTED,
                       "averaged weights (recipe.average = %g) are kept on the CPU alone: use "
                       "--device cpu, or leave the key out",
                       (double)recipe->average);
    }
    return ES_STATUS_OK;
}

EsLearningRateSchedule es_recipe_schedule(const EsRecipe *recipe, int64_t n_updates) {
    int is_moving = recipe->decay != ES_DECAY_CONSTANT || recipe->warmup > 0;
    EsLearningRateSchedule schedule = {(EsDecay)recipe->decay, recipe->warmup, recipe->final_share,
                                       is_moving ? n_updates : 0};
    return schedule;
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
