// The life of an EsGrowth, the order of a step on the CPU, and the way from the public calls to the
// backend that was chosen. The parts of a step are in the files beside it.
#include "growth/engine/growth.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "growth/engine/growth_internal.h"
#include "growth/fused/fused_step.h"
#include "tensor/profile.h"

EsGrowthOptions es_growth_defaults(const EsHostSpec *host, const EsSlot *slots, int n_slots,
                                   int64_t n_envs) {
    int is_tiny = strcmp(host->name, "tiny") == 0;
    EsGrowthOptions options = {
        .host = *host,
        .n_slots = n_slots,
        .settings = is_tiny ? es_growth_settings_tiny(n_slots, host->n_classes)
                            : es_growth_settings_default(n_slots, host->n_classes),
        .n_envs = n_envs,
        .batch = host->batch,
        .step_batches = 8,
        .n_validation_images = 2000,
        .seed = 42,
        .is_tf32 = 1,
        .mode = ES_COMPILE_DEFAULT,
        // a plan to train, and two per pattern to validate, at most 18 of them
        .plan_capacity = (int)ES_MIN(64 + 40 * n_envs, 16384),
        .host_learning_rate = 0.01f,
        .seed_learning_rate = 0.01f,
        .recipe = es_recipe_plain(),
        .clip = 1.0f,
        .gradient_stride = 10};
    memcpy(options.slots, slots, sizeof *slots * (size_t)n_slots);
    options.settings.blueprints = es_slots_blueprints(host) & ES_BLUEPRINTS_ALL;
    return options;
}

EsGrowthRates es_growth_options_rates(const EsGrowthOptions *options) {
    return (EsGrowthRates){.host_learning_rate = options->host_learning_rate,
                           .seed_learning_rate = options->seed_learning_rate,
                           .momentum = options->recipe.momentum,
                           .weight_decay = options->recipe.weight_decay,
                           .clip = options->clip};
}

int64_t es_growth_episode_period(const EsGrowthOptions *options) {
    return options->is_paired ? 1 : options->n_envs / ES_MAX(options->n_variants, 1);
}

EsLearningRateSchedule es_growth_schedule(const EsGrowthOptions *options) {
    return es_recipe_schedule(&options->recipe,
                              options->settings.episode_steps * options->step_batches);
}

// --- create ---

static EsStatus check_options(const EsGrowthOptions *options, const EsDataset *dataset,
                              const EsDevice *device) {
    const EsHostSpec *host = &options->host;
    ES_TRY(es_host_check(host));
    ES_TRY(es_recipe_check(&options->recipe, device));
    ES_TRY(es_growth_check_dataset(host, dataset));
    if (options->n_slots < 1 || options->n_slots > ES_SLOTS_MAX || options->n_envs < 1 ||
        options->step_batches < 1 || options->gradient_stride < 1 || options->plan_capacity < 8) {
        return ES_FAIL(ARGUMENT,
                       "growth needs 1..%d slots, and at least one environment, one batch per "
                       "step, a gradient stride of 1 and 8 plans; given are %d, %lld, %lld, %d, %d",
                       ES_SLOTS_MAX, options->n_slots, (long long)options->n_envs,
                       (long long)options->step_batches, options->gradient_stride,
                       options->plan_capacity);
    }
    if (es_device_info(device)->kind != ES_DEVICE_CPU && es_ranks_count(options->ranks) > 1) {
        return ES_FAIL(UNSUPPORTED, "%d ranks: several share a run on the CPU alone",
                       es_ranks_count(options->ranks));
    }
    if (es_device_info(device)->kind != ES_DEVICE_CPU &&
        options->aggregation != ES_AGGREGATION_NONE) {
        return ES_FAIL(UNSUPPORTED, "gradients by route run on the CPU; choose --device cpu");
    }
    if (es_device_info(device)->kind == ES_DEVICE_CPU && options->precision != ES_DTYPE_F32) {
        return ES_FAIL(UNSUPPORTED, "the CPU computes in F32; %s is asked for",
                       es_dtype_name(options->precision));
    }
    if (options->n_shares < 0 || options->n_shares > INT32_MAX) {
        return ES_FAIL(ARGUMENT, "%lld shares of the training images",
                       (long long)options->n_shares);
    }
    if (options->n_variants > 1 &&
        (options->is_paired || options->n_envs % options->n_variants != 0)) {
        return ES_FAIL(ARGUMENT, "%lld environments are not %d variants of the same episodes",
                       (long long)options->n_envs, options->n_variants);
    }
    if (options->settings.episode_steps > INT32_MAX / options->step_batches) {
        return ES_FAIL(ARGUMENT, "%d steps of %lld batches are more than can be counted",
                       options->settings.episode_steps, (long long)options->step_batches);
    }
    if (options->batch < 1 || options->batch > dataset->train.count) {
        return ES_FAIL(ARGUMENT, "a batch of %lld does not fit the %lld training images",
                       (long long)options->batch, (long long)dataset->train.count);
    }
    if (options->n_validation_images < 1 ||
        options->n_validation_images > dataset->validation.count) {
        return ES_FAIL(ARGUMENT, "%lld validation images are asked for, the data set has %lld",
                       (long long)options->n_validation_images,
                       (long long)dataset->validation.count);
    }
    return ES_STATUS_OK;
}

EsDtype es_growth_device_precision(const EsDeviceInfo *device) {
    if (device->kind == ES_DEVICE_CPU) {
        return ES_DTYPE_F32;
    }
    return device->capability >= 80 ? ES_DTYPE_BF16 : ES_DTYPE_F16;
}

// Outline of the host and the course of its learning rate, as observations have them.
static void fill_outline(const EsGrowth *growth, EsGrowthSettings *settings) {
    const EsHostSpec *host = &growth->model.host;
    const EsRecipe *recipe = &growth->options.recipe;
    settings->n_host_parameters = (int32_t)ES_MIN(growth->model.layout.n_host_weights, INT32_MAX);
    settings->n_classes = host->n_classes;
    settings->n_blocks = host->n_blocks;
    settings->rate_decay = recipe->decay;
    settings->rate_warmup = recipe->warmup;
    settings->rate_final = recipe->final_share;
    settings->rate_steps = recipe->step_epochs;
    settings->rate_factor = recipe->step_factor;
    for (int s = 0; s < growth->model.n_slots; s++) {
        const EsSlot *slot = &growth->model.slots[s];
        int has_pool = es_host_block(host, slot->column).has_pool;
        int side = host->image_size;
        for (int b = 0; b < slot->column + slot->row; b++) {
            side = es_host_block(host, b).has_pool ? side / 2 : side;
        }
        settings->slot_channels[s] = (int32_t)slot->n_channels;
        settings->slot_side[s] = side;
        settings->slot_pool[s] = !has_pool        ? ES_SLOT_POOL_NONE
                                 : slot->row == 0 ? ES_SLOT_POOL_BEFORE
                                                  : ES_SLOT_POOL_AFTER;
    }
}

static void fill_settings(EsGrowth *growth) {
    EsGrowthSettings *settings = &growth->options.settings;
    fill_outline(growth, settings);
    settings->n_slots = growth->model.n_slots;
    settings->blueprints &= es_slots_blueprints(&growth->model.host);
    for (int s = 0; s < growth->model.n_slots; s++) {
        const EsSlot *slot = &growth->model.slots[s];
        settings->slot_row[s] = slot->row;
        settings->slot_column[s] = slot->column;
        settings->gate_parameters[s] = (int32_t)es_graph_gate_parameter_count(slot->n_channels);
        for (int b = 0; b < ES_BLUEPRINT_END; b++) {
            settings->blueprint_parameters[s][b] =
                es_growth_fits(growth, b)
                    ? (int32_t)es_blueprint_parameter_count((EsBlueprint)b, slot->n_channels)
                    : 0;
        }
    }
}

EsStatus es_growth_check_fused(const EsHostSpec *host, const EsSlot *slots, int n_slots,
                               const EsDevice *device, EsDtype precision) {
    EsGrowthModel model = {.host = *host, .n_slots = n_slots, .n_envs = 1};
    if (es_device_info(device)->kind == ES_DEVICE_CPU) {
        return ES_STATUS_OK;
    }
    memcpy(model.slots, slots, sizeof *slots * (size_t)n_slots);
    ES_TRY(es_growth_layout_create(&model));
    return es_fused_step_check(&model, device, precision);
}

EsDtype es_growth_auto_precision(const EsHostSpec *host, const EsSlot *slots, int n_slots,
                                 const EsDevice *device) {
    EsDtype precision = es_growth_device_precision(es_device_info(device));
    int is_refused = precision == ES_DTYPE_F16 &&
                     es_growth_check_fused(host, slots, n_slots, device, precision) != ES_STATUS_OK;
    return host->kind == ES_HOST_DENSE || is_refused ? ES_DTYPE_F32 : precision;
}

EsStatus es_growth_choose_executor(const EsGrowthModel *model, const EsDevice *device,
                                   EsDtype precision, int is_generic, int *is_fused,
                                   char not_fused[256]) {
    EsStatus status = is_generic ? ES_FAIL(UNSUPPORTED, "as was asked for")
                                 : es_fused_step_check(model, device, precision);
    *is_fused = status == ES_STATUS_OK;
    not_fused[0] = '\0';
    if (status == ES_STATUS_UNSUPPORTED) {
        snprintf(not_fused, 256, "not fused, which is slower: %.220s", es_status_detail());
        status = ES_STATUS_OK;
    }
    ES_TRY(status);
    return !*is_fused && precision == ES_DTYPE_F16
               ? ES_FAIL(UNSUPPORTED, "%s; float16 runs fused alone: choose bfloat16 or off (f32)",
                         not_fused)
               : ES_STATUS_OK;
}

static EsStatus create_model(EsGrowth *growth, const EsDataset *dataset) {
    const EsGrowthOptions *options = &growth->options;
    EsGrowthModel *model = &growth->model;
    model->host = options->host;
    model->n_slots = options->n_slots;
    memcpy(model->slots, options->slots, sizeof model->slots);
    model->n_envs = options->n_envs;
    model->seed = options->seed;
    model->n_shares = ES_MAX(options->n_shares, 1);
    model->recipe = options->recipe;
    model->dataset = dataset;
    ES_TRY(es_growth_layout_create(model));
    fill_settings(growth);
    int32_t budget = growth->options.settings.max_parameters;
    if (budget > 0 && budget < model->layout.n_host_weights) {
        return ES_FAIL(CONFIG, "a budget of %d parameters is too small: the host alone has %lld",
                       budget, (long long)model->layout.n_host_weights);
    }
    return es_growth_settings_check(&growth->options.settings);
}

// Averages of all weights, where the recipe has them, and the counts of updates behind them.
static EsStatus create_average(EsGrowth *growth) {
    EsGrowthAverage *average = &growth->average;
    growth->evaluated = growth->store;
    if (growth->options.recipe.average <= 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_store_create_twin(growth->store, &average->store));
    growth->evaluated = average->store;
    const EsTensor *parameters = &average->store->parameters, *states = &average->store->states;
    ES_TRY(es_device_create_tensor(growth->device, ES_DTYPE_F32, 2, parameters->dim,
                                   &average->saved_parameters));
    ES_TRY(es_device_create_tensor(growth->device, ES_DTYPE_F32, 2, states->dim,
                                   &average->saved_states));
    const int64_t counts[] = {growth->options.n_envs, ES_GROWTH_PARTS(growth->model.n_slots)};
    return es_device_create_tensor(growth->device, ES_DTYPE_I32, 2, counts, &average->n_updates);
}

// The rest of AdamW's memory beside the momentum.
static EsStatus create_moments(EsGrowth *growth) {
    if (growth->options.recipe.optimiser != ES_RECIPE_ADAMW) {
        return ES_STATUS_OK;
    }
    const int64_t counts[] = {growth->options.n_envs, ES_GROWTH_PARTS(growth->model.n_slots)};
    ES_TRY(es_device_create_tensor(growth->device, ES_DTYPE_F32, 2, growth->momentum.dim,
                                   &growth->moment2));
    return es_device_create_tensor(growth->device, ES_DTYPE_I32, 2, counts, &growth->adam_steps);
}

static EsStatus create_rates(EsGrowth *growth) {
    const EsGrowthRates *given = growth->options.rates;
    size_t bytes = sizeof *growth->rates * (size_t)growth->options.n_envs;
    growth->options.rates = NULL; // the caller's
    if (given == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(bytes, (void **)&growth->rates));
    memcpy(growth->rates, given, bytes);
    return ES_STATUS_OK;
}

EsGrowthRates es_growth_rates(const EsGrowth *growth, int64_t env) {
    return growth->rates != NULL ? growth->rates[env] : es_growth_options_rates(&growth->options);
}

static EsStatus create_slabs(EsGrowth *growth) {
    const EsGrowthLayout *layout = &growth->model.layout;
    int64_t n_envs = growth->options.n_envs;
    ES_TRY(es_stream_create(growth->device, &growth->stream));
    ES_TRY(
        es_allocate(sizeof *growth->episode_ids * (size_t)n_envs, (void **)&growth->episode_ids));
    ES_TRY(es_store_create_sized(growth->device, n_envs, layout->n_parameters, layout->n_states,
                                 &growth->store));
    const int64_t parameters[] = {n_envs, layout->n_parameters},
                  states[] = {n_envs, layout->n_states};
    ES_TRY(es_device_create_tensor(growth->device, ES_DTYPE_F32, 2, parameters, &growth->momentum));
    ES_TRY(es_device_create_tensor(growth->device, ES_DTYPE_F32, 2, parameters,
                                   &growth->saved_parameters));
    ES_TRY(es_device_create_tensor(growth->device, ES_DTYPE_F32, 2, states, &growth->saved_states));
    ES_TRY(es_device_create_tensor(growth->device, ES_DTYPE_I32, 1, &n_envs, &growth->episode));
    ES_TRY(create_moments(growth));
    return create_average(growth);
}

static EsStatus create_workers(EsGrowth *growth) {
    size_t n_spans = (size_t)es_growth_plans_max_spans(&growth->model);
    growth->n_workers = es_thread_pool_size(es_stream_pool(growth->stream));
    growth->has_team =
        es_growth_team_share(growth->n_workers, growth->n_own) > 0 ||
        (es_ranks_count(growth->options.ranks) > 1 && growth->n_workers > 1); // it may own others
    int n_made = growth->n_workers + growth->has_team;
    ES_TRY(es_allocate(sizeof *growth->workers * (size_t)n_made, (void **)&growth->workers));
    for (int w = 0; w < n_made; w++) {
        EsGrowthWorker *worker = &growth->workers[w];
        ES_TRY(w < growth->n_workers ? es_plan_worker_create(growth->device, &worker->runner)
                                     : es_plan_team_create(growth->device, &worker->runner));
        worker->stream = es_plan_worker_stream(worker->runner);
        ES_TRY(es_allocate(sizeof(double) * n_spans, (void **)&worker->sum_squares));
        ES_TRY(es_allocate(sizeof(int32_t) * n_spans, (void **)&worker->n_nonfinite));
        ES_TRY(es_growth_routes_create_worker(growth, worker));
    }
    return ES_STATUS_OK;
}

// An array in CPU memory: where its address goes, and its size.
typedef struct ArrayRequest {
    void *pointer; // to the pointer that takes the memory
    size_t bytes;
} ArrayRequest;

static EsStatus allocate_arrays(const ArrayRequest *arrays, size_t n_arrays) {
    for (size_t i = 0; i < n_arrays; i++) {
        void *memory = NULL;
        ES_TRY(es_allocate(arrays[i].bytes, &memory));
        memcpy(arrays[i].pointer, &memory, sizeof memory);
    }
    return ES_STATUS_OK;
}

static EsStatus create_arrays(EsGrowth *growth) {
    size_t n = (size_t)growth->options.n_envs, n_slots = (size_t)growth->model.n_slots;
    const ArrayRequest arrays[] = {
        {&growth->trials,
         sizeof *growth->trials * ES_MAX(n * ES_ABLATION_PATTERNS_MAX, ES_GROWTH_MIN_TRIALS)},
        {&growth->shapley, sizeof(double) * n * n_slots},
        {&growth->shapley_error, sizeof(double) * n * n_slots},
    };
    return allocate_arrays(arrays, ES_COUNT_OF(arrays));
}

// Creates the parts that exist on the CPU alone.
static EsStatus create_cpu_arrays(EsGrowth *growth) {
    size_t n = (size_t)growth->options.n_envs, n_slots = (size_t)growth->model.n_slots;
    const ArrayRequest arrays[] = {
        {&growth->slab, es_growth_state_bytes((int32_t)n, (int32_t)n_slots)},
        {&growth->masks, sizeof *growth->masks * n},
        {&growth->results, sizeof *growth->results * n},
        {&growth->ablations, sizeof *growth->ablations * n},
        {&growth->pairs, sizeof *growth->pairs * n},
        {&growth->accuracy, sizeof(float) * n * ES_ABLATION_PATTERNS_MAX},
        {&growth->loss_row, sizeof(float) * n},
        {&growth->accuracy_row, sizeof(float) * n},
        {&growth->host_sums, sizeof *growth->host_sums * n},
        {&growth->seed_sums, sizeof *growth->seed_sums * n * n_slots},
        {&growth->train_plans, sizeof(EsGrowthPlan *) * n},
        {&growth->n_invalid, sizeof(int32_t) * n},
    };
    ES_TRY(allocate_arrays(arrays, ES_COUNT_OF(arrays)));
    es_growth_state_bind(&growth->shown.state, growth->slab, (int32_t)n, (int32_t)n_slots);
    return ES_STATUS_OK;
}

static EsStatus create_on_cpu(EsGrowth *growth) {
    EsGrowthPlansOptions plans = {.model = &growth->model,
                                  .store = growth->store,
                                  .evaluated = growth->evaluated,
                                  .episode = &growth->episode,
                                  .precision = growth->options.precision,
                                  .mode = growth->options.mode,
                                  .capacity = growth->options.plan_capacity};
    ES_TRY(create_cpu_arrays(growth));
    ES_TRY(es_growth_routes_create(growth));
    ES_TRY(es_growth_plans_create(&plans, &growth->plans));
    return create_workers(growth);
}

static void destroy_on_cpu(EsGrowth *growth) {
    for (int w = 0; growth->workers != NULL && w < growth->n_workers + growth->has_team; w++) {
        EsGrowthWorker *worker = &growth->workers[w];
        es_plan_worker_destroy(worker->runner);
        es_release(worker->sum_squares);
        es_release(worker->n_nonfinite);
        es_release(worker->routes);
    }
    es_growth_plans_destroy(growth->plans);
}

// --- memory that plans will take ---

// Every plan that a host of this topology needs: to train, to validate, and for the last images.
static EsStatus measure_plans(EsGrowth *growth, const EsTopology *topology, size_t *plan_bytes,
                              size_t *worker_bytes) {
    int64_t n_images = growth->options.n_validation_images;
    int64_t batch = ES_MIN(n_images, ES_GROWTH_EVALUATION_BATCH);
    const int64_t batches[] = {growth->options.batch, batch, n_images % batch};
    *plan_bytes = *worker_bytes = 0;
    for (size_t i = 0; i < ES_COUNT_OF(batches); i++) {
        size_t own_bytes = 0, run_bytes = 0;
        if (batches[i] > 0) {
            ES_TRY(es_growth_plans_measure(growth->plans, topology, batches[i], i == 0, &own_bytes,
                                           &run_bytes));
        }
        *plan_bytes += own_bytes;
        *worker_bytes = ES_MAX(*worker_bytes, run_bytes);
    }
    return ES_STATUS_OK;
}

// Estimates the topologies that hosts of up to n_seeds meet in n_episodes: each slot gets a seed of
// any blueprint, with a gate or without. A policy draws few of them often: 16 hosts with 2 slots
// met 36 of 289 in their first round and 93 in 20, as the geometric mean of one round's seeds and
// all says.
static double count_topologies(const EsGrowth *growth, int64_t n_episodes, int n_seeds,
                               int n_blueprints) {
    const EsGrowthOptions *options = &growth->options;
    int n_kinds = 2 + (options->n_validation_images > ES_GROWTH_EVALUATION_BATCH &&
                       options->n_validation_images % ES_GROWTH_EVALUATION_BATCH != 0);
    double all = 0, of_k = 1; // with k seeds
    for (int k = 0; k <= n_seeds; k++) {
        all += of_k;
        of_k *= 2.0 * n_blueprints * (growth->model.n_slots - k) / (k + 1);
    }
    double n_first = 1 + (double)n_seeds * (double)options->n_envs;
    double n_met = ES_MIN(1 + (double)n_seeds * (double)n_episodes, sqrt(n_first * all));
    return ES_MIN(ES_MIN(n_met, all), (double)options->plan_capacity / n_kinds);
}

// Plans of the topologies to come, and the memory of the workers that run them.
static EsStatus measure_episodes(EsGrowth *growth, int64_t n_episodes, int n_seeds, size_t *bytes) {
    double plan_bytes = 0;
    size_t worker_bytes = 0;
    n_seeds = ES_MIN(n_seeds, growth->model.n_slots);
    int n_blueprints = 0, n_measured = 0;
    for (int b = 0; b < ES_BLUEPRINT_END; b++) {
        n_blueprints += es_growth_fits(growth, b);
    }
    for (int b = 0; b < ES_BLUEPRINT_END && (n_seeds > 0 || n_measured == 0); b++) {
        EsTopology topology = es_topology_empty();
        size_t of_plans = 0, of_worker = 0;
        if (!es_growth_fits(growth, b)) {
            continue;
        }
        for (int s = 0; s < n_seeds; s++) {
            topology.blueprint[s] = (int8_t)b;
            topology.has_gate[s] = 1;
        }
        ES_TRY(measure_plans(growth, &topology, &of_plans, &of_worker));
        plan_bytes += (double)of_plans;
        n_measured++;
        worker_bytes = ES_MAX(worker_bytes, of_worker);
    }
    *bytes = worker_bytes * (size_t)(growth->n_workers + growth->has_team) +
             (size_t)(count_topologies(growth, n_episodes, n_seeds, n_blueprints) * plan_bytes /
                      n_measured);
    return ES_STATUS_OK;
}

// --- the backend of the CPU ---

// Train and validate the environments of this rank.
static EsStatus run_own(EsGrowth *growth) {
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        growth->results[e].host_gradient_norm = ES_NOT_MEASURED;
    }
    ES_TRY(es_growth_balance(growth));
    es_profile_range_begin(growth->device, NULL, "train");
    ES_TRY(es_growth_train(growth));
    es_profile_range_end(growth->device, NULL);
    es_profile_range_begin(growth->device, NULL, "validate");
    ES_TRY(es_growth_validate(growth));
    es_profile_range_end(growth->device, NULL);
    return ES_STATUS_OK;
}

// Train, validate, and everything the rules make of it: the state is then ready for a decision.
static EsStatus run_to_decision(EsGrowth *growth) {
    const EsGrowthSettings *settings = &growth->options.settings;
    ES_TRY(growth->has_run_own ? ES_STATUS_OK : run_own(growth));
    growth->has_run_own = 0;
    ES_TRY(es_growth_gather_step(growth));
    int64_t start_ns = es_clock_ns();
    es_profile_range_begin(growth->device, NULL, "measure");
    es_lifecycle_measure(&growth->shown.state, settings, growth->loss_row, growth->accuracy_row);
    es_lifecycle_record_gradients(&growth->shown.state, settings, growth->host_sums,
                                  growth->seed_sums);
    es_lifecycle_record_contributions(&growth->shown.state, settings, growth->ablations,
                                      growth->accuracy, growth->pairs);
    es_lifecycle_masks(&growth->shown.state, settings, growth->masks);
    es_profile_range_end(growth->device, NULL);
    growth->shown.step = growth->shown.state.env.step[0];
    growth->shown.moment = ES_GROWTH_MEASURED;
    growth->times.decide_ms = es_clock_seconds_since(start_ns) * 1e3;
    return ES_STATUS_OK;
}

static EsStatus reset_on_cpu(EsGrowth *growth, int64_t first_episode) {
    int32_t *episode = growth->episode.data;
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        int64_t id = first_episode + e % es_growth_episode_period(&growth->options);
        episode[e] = growth->episode_ids[e] = (int32_t)id;
    }
    ES_TRY(es_growth_weights_reset(growth));
    es_lifecycle_reset(&growth->shown.state, &growth->options.settings);
    es_growth_weights_update(growth);
    return ES_STATUS_OK;
}

// Also of seeds planted before: the same bits again.
static EsStatus plant_on_cpu(EsGrowth *growth, int64_t env) {
    es_growth_weights_update_env(growth, env);
    return ES_STATUS_OK;
}

static EsStatus decide_on_cpu(EsGrowth *growth, const EsAction *actions) {
    es_lifecycle_apply(&growth->shown.state, &growth->options.settings, actions);
    es_lifecycle_tick(&growth->shown.state, &growth->options.settings);
    growth->shown.moment = ES_GROWTH_DECIDED;
    es_growth_weights_update(growth);
    return ES_STATUS_OK;
}

static const EsGrowthBackend cpu_backend = {.create = create_on_cpu,
                                            .destroy = destroy_on_cpu,
                                            .reset = reset_on_cpu,
                                            .decide = decide_on_cpu,
                                            .advance = run_to_decision,
                                            .advance_own = run_own,
                                            .plant = plant_on_cpu,
                                            .begin_trials = es_growth_begin_trials,
                                            .prepare_trial = es_growth_prepare_trial,
                                            .run_trials = es_growth_run_trials,
                                            .measure_episodes = measure_episodes};

// --- life ---

static EsStatus choose_backend(EsGrowth *growth) {
    int is_cpu = es_device_info(growth->device)->kind == ES_DEVICE_CPU;
    growth->backend = is_cpu ? &cpu_backend : es_growth_backend_cuda();
    return growth->backend != NULL
               ? ES_STATUS_OK
               : ES_FAIL(UNSUPPORTED, "this build has no CUDA; growth runs on the CPU");
}

EsStatus es_growth_create(const EsGrowthOptions *options, const EsDataset *dataset,
                          EsDevice *device, EsGrowth **growth_out) {
    *growth_out = NULL;
    ES_TRY(check_options(options, dataset, device));
    EsGrowth *growth = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *growth, (void **)&growth));
    growth->options = *options;
    growth->device = device;
    ES_TRY_GOTO(create_model(growth, dataset));
    ES_TRY_GOTO(create_rates(growth));
    ES_TRY_GOTO(es_growth_owners_create(growth));
    ES_TRY_GOTO(create_slabs(growth));
    ES_TRY_GOTO(choose_backend(growth));
    ES_TRY_GOTO(create_arrays(growth));
    ES_TRY_GOTO(es_growth_weights_create(growth));
    ES_TRY_GOTO(growth->backend->create(growth));
done:
    if (status != ES_STATUS_OK) {
        es_growth_destroy(growth);
        return status;
    }
    *growth_out = growth;
    return ES_STATUS_OK;
}

void es_growth_destroy(EsGrowth *growth) {
    if (growth == NULL) {
        return;
    }
    if (growth->backend != NULL) {
        growth->backend->destroy(growth);
    }
    es_growth_weights_destroy(growth);
    es_growth_owners_destroy(growth);
    EsTensor *const tensors[] = {&growth->momentum,
                                 &growth->saved_parameters,
                                 &growth->saved_states,
                                 &growth->episode,
                                 &growth->average.saved_parameters,
                                 &growth->average.saved_states,
                                 &growth->average.n_updates,
                                 &growth->moment2,
                                 &growth->adam_steps};
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        es_device_destroy_tensor(tensors[i]);
    }
    es_store_destroy(growth->average.store);
    es_store_destroy(growth->store);
    es_stream_destroy(growth->stream);
    void *const arrays[] = {
        growth->workers,      growth->slab,      growth->masks,     growth->results,
        growth->ablations,    growth->pairs,     growth->accuracy,  growth->loss_row,
        growth->accuracy_row, growth->host_sums, growth->seed_sums, growth->train_plans,
        growth->n_invalid,    growth->trials,    growth->shapley,   growth->shapley_error,
        growth->episode_ids,  growth->rates,     growth->routes};
    for (size_t i = 0; i < ES_COUNT_OF(arrays); i++) {
        es_release(arrays[i]);
    }
    es_release(growth);
}

// --- steps ---

EsStatus es_growth_begin(EsGrowth *growth, int64_t first_episode) {
    growth->has_run_own = 0;
    return growth->backend->reset(growth, first_episode);
}

EsStatus es_growth_reset(EsGrowth *growth, int64_t first_episode) {
    ES_TRY(es_growth_begin(growth, first_episode));
    return growth->backend->advance(growth);
}

EsStatus es_growth_plant(EsGrowth *growth, int64_t env, int slot, int blueprint, int style) {
    const EsGrowthSettings *settings = &growth->options.settings;
    EsGrowthState *state = &growth->shown.state;
    size_t i = (size_t)(env * state->n_slots + slot);
    if (slot < 0 || slot >= state->n_slots || style < 0 || style >= ES_N_STYLES ||
        !es_blueprint_is_legal(settings, blueprint) || state->seed.stage[i] != ES_STAGE_DORMANT) {
        return ES_FAIL(ARGUMENT, "no seed of blueprint %d and style %d can stand in slot %d",
                       blueprint, style, slot);
    }
    ES_ASSERT(state->env.step[env] == 1);
    EsAction action = es_action_wait();
    action.head[ES_HEAD_SLOT] = (int8_t)slot;
    action.head[ES_HEAD_BLUEPRINT] = (int8_t)blueprint;
    action.head[ES_HEAD_STYLE] = (int8_t)style;
    EsSeed seed = es_seed_load(&state->seed, i);
    EsGrowthEnv host = es_growth_env_load(&state->env, (size_t)env);
    if (!es_env_germinate(settings, &host, &seed, &action)) {
        return ES_FAIL(ARGUMENT, "slot %d does not take a seed at the first step", slot);
    }
    seed.stage = ES_STAGE_FOSSILIZED;
    es_alpha_set(&seed, 1);
    host.n_fossils++;
    es_seed_store(&state->seed, i, &seed);
    es_growth_env_store(&state->env, (size_t)env, &host);
    return growth->backend->plant(growth, env);
}

EsStatus es_growth_decide(EsGrowth *growth, const EsAction *actions) {
    if (es_growth_is_over(growth)) {
        return ES_FAIL(ARGUMENT, "the episode is over after %d steps; reset begins another",
                       growth->options.settings.episode_steps);
    }
    return growth->backend->decide(growth, actions);
}

EsStatus es_growth_decide_prepared(EsGrowth *growth, const EsAction *actions,
                                   EsSeedPreparation *preparation) {
    growth->preparation = preparation;
    EsStatus status = es_growth_decide(growth, actions);
    growth->preparation = NULL;
    ES_TRY(status);
    return preparation != NULL ? es_seed_preparation_adopt(preparation, growth->plans)
                               : ES_STATUS_OK;
}

EsStatus es_growth_advance(EsGrowth *growth) {
    return es_growth_is_over(growth) ? ES_STATUS_OK : growth->backend->advance(growth);
}

EsStatus es_growth_advance_own(EsGrowth *growth) {
    if (es_growth_is_over(growth) || growth->backend->advance_own == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(growth->backend->advance_own(growth));
    growth->has_run_own = 1;
    return ES_STATUS_OK;
}

EsStatus es_growth_step(EsGrowth *growth, const EsAction *actions) {
    ES_TRY(es_growth_decide(growth, actions));
    return es_growth_advance(growth);
}

EsStatus es_growth_settle_prunes(EsGrowth *growth, const int32_t *n_settled) {
    es_lifecycle_settle_prunes(&growth->shown.state, n_settled);
    return growth->backend->settle_prunes != NULL ? growth->backend->settle_prunes(growth)
                                                  : ES_STATUS_OK;
}

int es_growth_is_over(const EsGrowth *growth) {
    return growth->shown.state.env.step[0] > growth->options.settings.episode_steps;
}

EsStatus es_growth_episode_bytes(EsGrowth *growth, int64_t n_episodes, int n_seeds, size_t *bytes) {
    *bytes = 0;
    return growth->backend->measure_episodes(growth, n_episodes, n_seeds, bytes);
}

// --- queued work ---

static const EsGrowthQueue *queue_of(const EsGrowth *growth) {
    ES_ASSERT(growth->backend->queue != NULL);
    return growth->backend->queue;
}

const EsGrowthDevice *es_growth_device(const EsGrowth *growth) {
    return growth->backend->queue != NULL ? growth->backend->queue->device(growth) : NULL;
}

EsGrowthDeviceReport es_growth_device_report(const EsGrowth *growth) {
    return growth->backend->queue != NULL ? growth->backend->queue->report(growth)
                                          : (EsGrowthDeviceReport){0};
}

EsStatus es_growth_queue_reset(EsGrowth *growth, int64_t first_episode) {
    return queue_of(growth)->queue_reset(growth, first_episode);
}

EsStatus es_growth_queue_advance(EsGrowth *growth) {
    return queue_of(growth)->queue_advance(growth);
}

EsStatus es_growth_queue_decision(EsGrowth *growth) {
    return queue_of(growth)->queue_decision(growth);
}

EsStatus es_growth_queue_report(EsGrowth *growth, EsGrowthMoment moment) {
    return queue_of(growth)->queue_report(growth, moment);
}

EsStatus es_growth_queue_collect(EsGrowth *growth) {
    return queue_of(growth)->queue_collect(growth);
}

EsStatus es_growth_receive(EsGrowth *growth, EsGrowthMoment moment) {
    return queue_of(growth)->receive(growth, moment);
}

EsStatus es_growth_reserve_report(EsGrowth *growth, size_t bytes, void **device_memory) {
    return queue_of(growth)->reserve_report(growth, bytes, device_memory);
}

const void *es_growth_received_report(const EsGrowth *growth) {
    return queue_of(growth)->received_report(growth);
}

// --- looking at it ---

const EsGrowthOptions *es_growth_options(const EsGrowth *growth) { return &growth->options; }

const EsGrowthSettings *es_growth_settings(const EsGrowth *growth) {
    return &growth->options.settings;
}

const EsGrowthSnapshot *es_growth_snapshot(const EsGrowth *growth) { return &growth->shown; }

const EsActionMasks *es_growth_masks(const EsGrowth *growth) { return growth->masks; }

const EsGrowthResult *es_growth_results(const EsGrowth *growth) { return growth->results; }

const EsRouteReport *es_growth_routes(const EsGrowth *growth) { return growth->routes; }

const EsAblation *es_growth_ablations(const EsGrowth *growth) { return growth->ablations; }

const float *es_growth_ablation_accuracy(const EsGrowth *growth) { return growth->accuracy; }

const double *es_growth_shapley(const EsGrowth *growth) { return growth->shapley; }

const double *es_growth_shapley_error(const EsGrowth *growth) { return growth->shapley_error; }

int64_t es_growth_parameter_count(const EsGrowth *growth, int64_t env) {
    int64_t n = growth->model.layout.n_host_weights;
    for (int s = 0; s < growth->model.n_slots; s++) {
        size_t i = (size_t)(env * growth->model.n_slots + s);
        if (es_stage_in(growth->shown.state.seed.stage[i], ES_STAGES_LIVING)) {
            n += growth->shown.state.seed.n_parameters[i];
        }
    }
    return n;
}

double es_growth_flops(const EsGrowth *growth, int64_t env) {
    const EsGrowthState *state = &growth->shown.state;
    double count = es_host_flops(&growth->model.host);
    for (int s = 0; s < state->n_slots; s++) {
        size_t i = (size_t)(env * state->n_slots + s);
        int blueprint = state->seed.blueprint[i];
        if (es_stage_in(state->seed.stage[i], ES_STAGES_LIVING) && es_blueprint_exists(blueprint)) {
            count += es_blueprint_flops((EsBlueprint)blueprint, growth->model.slots[s].n_channels,
                                        growth->options.settings.slot_side[s]);
        }
    }
    return count;
}

double es_growth_parameter_ratio(const EsGrowth *growth, int64_t env) {
    int64_t n_host = growth->model.layout.n_host_weights;
    return 1.0 + (double)(es_growth_parameter_count(growth, env) - n_host) / (double)n_host;
}

int64_t es_growth_episode(const EsGrowth *growth, int64_t env) { return growth->episode_ids[env]; }

// The f32 slabs that an episode fills, without gradients; returns how many.
#define SLABS_MAX 10
static int list_slabs(const EsGrowth *growth, const EsTensor *slabs[SLABS_MAX]) {
    const EsGrowthAverage *average = &growth->average;
    int n = 0;
    slabs[n++] = &growth->store->parameters;
    slabs[n++] = &growth->store->states;
    slabs[n++] = &growth->momentum;
    slabs[n++] = &growth->saved_parameters;
    slabs[n++] = &growth->saved_states;
    if (growth->moment2.data != NULL) {
        slabs[n++] = &growth->moment2;
    }
    if (average->store != NULL) {
        slabs[n++] = &average->store->parameters;
        slabs[n++] = &average->store->states;
        slabs[n++] = &average->saved_parameters;
        slabs[n++] = &average->saved_states;
    }
    return n;
}

size_t es_growth_weight_bytes(const EsGrowth *growth) {
    const EsTensor *slabs[SLABS_MAX];
    int n = list_slabs(growth, slabs);
    size_t bytes = es_tensor_bytes(&growth->store->gradients);
    for (int i = 0; i < n; i++) {
        bytes += es_tensor_bytes(slabs[i]);
    }
    return bytes;
}

const EsGrowthModel *es_growth_model(const EsGrowth *growth) { return &growth->model; }

EsStore *es_growth_store(EsGrowth *growth) { return growth->store; }

static EsStatus read_row(EsGrowth *growth, const EsTensor *slab, int64_t env, int64_t count,
                         float *to) {
    const float *row = (const float *)slab->data + env * slab->stride[0];
    return es_stream_copy(growth->stream, to, row, sizeof *to * (size_t)count, ES_COPY_TO_HOST);
}

EsStatus es_growth_read_weights(EsGrowth *growth, int64_t env, float *parameters, float *states) {
    const EsGrowthLayout *layout = &growth->model.layout;
    const EsStore *store = growth->evaluated;
    EsRanks *ranks = growth->options.ranks;
    int owner = growth->owner[env];
    if (owner == es_ranks_number(ranks)) {
        ES_TRY(read_row(growth, &store->parameters, env, layout->n_parameters, parameters));
        ES_TRY(read_row(growth, &store->states, env, layout->n_states, states));
        ES_TRY(es_stream_synchronize(growth->stream));
    }
    ES_TRY(es_ranks_broadcast(ranks, "weights", owner, parameters,
                              sizeof *parameters * (size_t)layout->n_parameters));
    return es_ranks_broadcast(ranks, "running statistics", owner, states,
                              sizeof *states * (size_t)layout->n_states);
}

// Rows belong to ranks: each hashes its own, and all join them in order.
static EsStatus append_slab(EsGrowth *growth, EsStateHash *hash, const EsTensor *slab,
                            uint64_t *rows) {
    EsRankColumn column = {rows, sizeof *rows};
    if (growth->n_own == growth->options.n_envs) {
        ES_TRY(es_state_hash_rows(hash, growth->stream, slab, rows));
    }
    for (int64_t i = 0; i < growth->n_own && growth->n_own < growth->options.n_envs; i++) {
        EsTensor row = es_tensor_slice(slab, 0, growth->own[i], 1);
        ES_TRY(es_state_hash_rows(hash, growth->stream, &row, &rows[growth->own[i]]));
    }
    ES_TRY(es_growth_share_rows(growth, "state hash", &column, 1));
    es_state_hash_join(hash, rows, slab->dim[1] > 0 ? growth->options.n_envs : 0);
    return ES_STATUS_OK;
}

static EsStatus append_device_counts(EsGrowth *growth, EsStateHash *hash, const EsTensor *counts) {
    size_t bytes = es_tensor_bytes(counts);
    void *copy = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(bytes, &copy));
    ES_TRY_GOTO(es_stream_copy(growth->stream, copy, counts->data, bytes, ES_COPY_TO_HOST));
    ES_TRY_GOTO(es_stream_synchronize(growth->stream));
    es_state_hash_append_bytes(hash, copy, bytes);
done:
    es_release(copy);
    return status;
}

static EsStatus append_counts(EsGrowth *growth, EsStateHash *hash, const EsTensor *counts) {
    size_t bytes = es_tensor_bytes(counts);
    EsRankColumn column = {counts->data, bytes / (size_t)growth->options.n_envs};
    if (growth->on_device != NULL) {
        return append_device_counts(growth, hash, counts);
    }
    ES_TRY(es_growth_share_rows(growth, "counts", &column, 1));
    es_state_hash_append_bytes(hash, counts->data, bytes);
    return ES_STATUS_OK;
}

EsStatus es_growth_append_state(EsGrowth *growth, EsStateHash *hash) {
    const EsTensor *slabs[SLABS_MAX];
    int n = list_slabs(growth, slabs);
    uint64_t *rows = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *rows * (size_t)growth->options.n_envs, (void **)&rows));
    for (int i = 0; i < n && status == ES_STATUS_OK; i++) {
        status = append_slab(growth, hash, slabs[i], rows);
    }
    es_release(rows);
    ES_TRY(status);
    const EsTensor *const counts[] = {&growth->adam_steps, &growth->average.n_updates};
    for (size_t i = 0; i < ES_COUNT_OF(counts); i++) {
        if (counts[i]->data != NULL) {
            ES_TRY(append_counts(growth, hash, counts[i]));
        }
    }
    es_state_hash_append_bytes(
        hash, growth->slab,
        es_growth_state_bytes((int32_t)growth->options.n_envs, growth->model.n_slots));
    return ES_STATUS_OK;
}

EsGrowthPlansReport es_growth_plans(const EsGrowth *growth) {
    return growth->plans == NULL ? (EsGrowthPlansReport){0} : es_growth_plans_report(growth->plans);
}

int es_growth_is_fused(const EsGrowth *growth) { return es_growth_device_report(growth).is_fused; }

const char *es_growth_executor(const EsGrowth *growth, char text[ES_EXECUTOR_BYTES]) {
    if (growth->on_device != NULL) {
        EsGrowthDeviceReport report = es_growth_device_report(growth);
        snprintf(text, ES_EXECUTOR_BYTES, "%s%s",
                 report.is_fused ? "fused kernels" : "plans of single operations: ",
                 report.is_fused ? "" : report.fallback);
        return text;
    }
    EsGrowthPlansReport plans = es_growth_plans(growth);
    snprintf(text, ES_EXECUTOR_BYTES, "%s%s",
             plans.fallback[0] == '\0' ? "vector engine" : "single operations: ", plans.fallback);
    return text;
}

EsGrowthTimes es_growth_times(const EsGrowth *growth) { return growth->times; }
