// The fused step as growth's executor: all environments in the same launches. What a slot does is
// data in device memory, so that nothing has to be known about a step before it is queued.
#include "growth/cuda/growth_on_device.h"

// Passes of equal length over the validation images.
static int64_t images_per_pass(const EsGrowth *growth) {
    int64_t n = growth->options.n_validation_images;
    int64_t most = ES_MAX(ES_GROWTH_EVALUATED_MAX / growth->on_device->max_trials, 8);
    int64_t n_passes = (n + most - 1) / most;
    return (n + n_passes - 1) / n_passes;
}

static EsStatus create(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    EsFusedOptions options = {.model = &growth->model,
                              .store = growth->store,
                              .evaluated = growth->evaluated,
                              .images = d->images,
                              .labels = d->labels,
                              .episode = growth->episode,
                              .precision = growth->options.precision,
                              .is_tf32 = growth->options.is_tf32,
                              .batch = growth->options.batch,
                              .max_instances = d->max_trials,
                              .max_evaluated = images_per_pass(growth)};
    return es_fused_step_create(&options, &d->fused);
}

static void destroy(EsGrowth *growth) { es_fused_step_destroy(growth->on_device->fused); }

static EsStatus begin_step(EsGrowth *growth) {
    (void)growth;
    return ES_STATUS_OK;
}

static EsStatus train(EsGrowth *growth, const int32_t *step) {
    const EsGrowthArrays *arrays = &growth->on_device->arrays;
    EsFusedInstances instances = {
        .n_instances = arrays->n_envs, .env = arrays->train_env, .slots = arrays->train_slots};
    EsFusedBatch batch = {.step = step,
                          .loss_scale = arrays->is_scaled ? arrays->loss_scale : NULL};
    es_fused_step_train(growth->on_device->fused, growth->stream, &instances, &batch);
    return ES_STATUS_OK;
}

// A trial is an instance in a table here: there is nothing to find.
static EsStatus prepare_trial(EsGrowth *growth, EsGrowthTrial *trial) {
    (void)growth, (void)trial;
    return ES_STATUS_OK;
}

static EsStatus evaluate(EsGrowth *growth, const EsGrowthTrial *trials, int64_t n,
                         int64_t first_image, int64_t n_images) {
    const EsGrowthArrays *arrays = &growth->on_device->arrays;
    int64_t n_all = (int64_t)arrays->n_envs * arrays->max_patterns;
    EsFusedInstances instances = {.n_instances = trials == NULL ? n_all : n,
                                  .n_active = arrays->n_trials,
                                  .env = arrays->trial_env,
                                  .slots = arrays->trial_slots};
    es_fused_step_evaluate(growth->on_device->fused, growth->stream, &instances, first_image,
                           n_images);
    return ES_STATUS_OK;
}

static EsFusedResults trained(const EsGrowth *growth) {
    return es_fused_step_trained(growth->on_device->fused);
}

static EsFusedResults evaluated(const EsGrowth *growth) {
    return es_fused_step_evaluated(growth->on_device->fused);
}

static size_t bytes(const EsGrowth *growth) {
    return es_fused_step_bytes(growth->on_device->fused);
}

const EsGrowthExecutor *es_growth_executor_fused(void) {
    static const EsGrowthExecutor executor = {.name = "fused kernels",
                                              .create = create,
                                              .destroy = destroy,
                                              .begin_step = begin_step,
                                              .train = train,
                                              .prepare_trial = prepare_trial,
                                              .evaluate = evaluate,
                                              .trained = trained,
                                              .evaluated = evaluated,
                                              .bytes = bytes};
    return &executor;
}
