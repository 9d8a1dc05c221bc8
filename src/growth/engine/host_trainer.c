// Trains hosts without seeds: a plan, or on CUDA the fused executor where it can run the host.
#include "growth/engine/host_trainer.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "growth/fused/fused_step.h"
#include "kernels/ops/schedule_rules.h"
#include "network/plan/graph_capture.h"

// Images per host in one evaluation run.
#define EVALUATION_BATCH 256

// A graph with the plan that runs it.
typedef struct Program {
    EsGraph *graph; // owned
    EsPlan *plan;   // owned
    EsValueId images, labels, episode, step, index;
    EsLoss loss;
    int64_t batch;
} Program;

struct EsHostTrainer {
    EsHostTrainerOptions options;
    const EsDataset *dataset; // borrowed
    EsDevice *device;         // borrowed
    EsStream *stream;         // owned
    EsStore *store;           // owned
    EsStore *average;         // owned: averaged weights, which are evaluated; NULL without
    EsOptimiser *optimiser;   // owned
    Program train;
    int has_trained;
    // CUDA, where the host allows it: the fused executor instead of the training plan
    EsGrowthModel model;
    EsFusedStep *fused; // owned, nullable
    char
        not_fused[256]; // why neither it nor the CPU's vector engine is tried, or why not; "": else
    EsGraphCapture graph_capture;
    EsTensor instance_envs;  // i32 [E]: 0, 1, ...
    Program evaluate[2];     // full batches, and the rest of a split; made when first needed
    EsTensor images, labels; // the whole data set, as graphs see it
    EsTensor episode, step;  // i32 [E], [1]
    EsTensor index;          // i32 [E, EVALUATION_BATCH]
    int32_t *index_cpu;      // owned, pinned
    EsHostResult *sums;      // owned [E]
    EsTensor results;        // i32 [3, E]: loss (f32), correct, invalid of a run, as they go home
    void *results_cpu;       // owned, pinned: the same
    float *loss_cpu;         // in it [E]
    int32_t *count_cpu;      // in it [2 E]: correct, invalid
};

EsHostTrainerOptions es_host_trainer_defaults(const EsHostSpec *host, int64_t n_envs) {
    EsHostTrainerOptions options = {.host = *host,
                                    .n_envs = n_envs,
                                    .batch = host->batch,
                                    .seed = 42,
                                    .precision = ES_DTYPE_F32,
                                    .is_tf32 = 1,
                                    .mode = ES_COMPILE_DEFAULT,
                                    .optimiser = es_optimiser_defaults(ES_OPTIMISER_SGD)};
    return options;
}

static EsStatus create_tensor(EsHostTrainer *t, EsDtype dtype, int rank, const int64_t *dims,
                              const void *values, EsTensor *tensor) {
    ES_TRY(es_device_create_tensor(t->device, dtype, rank, dims, tensor));
    if (values != NULL) {
        ES_TRY(es_stream_copy(t->stream, tensor->data, values, es_tensor_bytes(tensor),
                              ES_COPY_TO_DEVICE));
        ES_TRY(es_stream_synchronize(t->stream));
    }
    return ES_STATUS_OK;
}

// Inputs, batch, host and loss. Training draws its own samples; evaluation is given their index.
static EsStatus build_program(EsHostTrainer *t, Program *program, int64_t batch, int is_training) {
    const EsGrowthInputs inputs = es_growth_inputs(t->dataset);
    EsGatherOptions gather =
        es_growth_gather(t->dataset, is_training ? &t->options.recipe : NULL, t->options.seed);
    EsSampleOrder order = {
        .seed = t->options.seed, .n_samples = t->dataset->train.count, .n_shares = 1};
    program->batch = batch;
    ES_TRY(es_graph_create(t->options.n_envs, &program->graph));
    EsGraph *graph = program->graph;
    program->images = es_graph_shared_input(graph, "data set", inputs.dtype, 4, inputs.dims);
    program->labels = es_graph_shared_input(graph, "data labels", ES_DTYPE_U16, 1, inputs.dims);
    program->episode = es_graph_input(graph, "episode", ES_DTYPE_I32, 0, NULL);
    program->step = es_graph_shared_input(graph, "step", ES_DTYPE_I32, 1, (int64_t[]){1});
    program->index =
        is_training ? es_graph_gather_order(graph, order, batch, program->episode, program->step)
                    : es_graph_input(graph, "index", ES_DTYPE_I32, 1, &batch);
    EsValueId images = es_graph_gather_images(graph, gather, program->images, program->index,
                                              program->episode, program->step);
    EsValueId labels = es_graph_gather_labels(graph, program->labels, program->index);
    EsValueId logits = es_host_build(graph, &t->options.host, images, is_training);
    program->loss = es_graph_cross_entropy(graph, logits, labels);
    if (is_training) {
        es_graph_smooth_labels(graph, program->loss, t->options.recipe.smoothing);
        ES_TRY(es_graph_differentiate(graph, program->loss.loss));
    }
    return es_graph_status(graph);
}

static EsStatus create_plan(EsHostTrainer *t, Program *program, EsOptimiser *optimiser) {
    EsStore *store = optimiser == NULL && t->average != NULL ? t->average : t->store;
    // the fused executor alone has f16; the plan then evaluates
    EsDtype precision = t->options.precision == ES_DTYPE_F16 ? ES_DTYPE_F32 : t->options.precision;
    EsPlanOptions options = {.mode = t->options.mode,
                             .activation_dtype = precision,
                             .optimiser = optimiser,
                             .step = optimiser != NULL ? program->step : ES_NO_VALUE};
    ES_TRY(es_plan_create(program->graph, store, &options, &program->plan));
    ES_TRY(es_plan_bind(program->plan, program->images, &t->images));
    ES_TRY(es_plan_bind(program->plan, program->labels, &t->labels));
    ES_TRY(es_plan_bind(program->plan, program->episode, &t->episode));
    return es_plan_bind(program->plan, program->step, &t->step);
}

static EsStatus create_memory(EsHostTrainer *t) {
    const EsDataset *dataset = t->dataset;
    const EsGrowthInputs inputs = es_growth_inputs(dataset);
    int64_t n_envs = t->options.n_envs;
    ES_TRY(create_tensor(t, inputs.dtype, 4, inputs.dims, inputs.values, &t->images));
    ES_TRY(create_tensor(t, ES_DTYPE_U16, 1, &dataset->n_images, dataset->labels, &t->labels));
    ES_TRY(create_tensor(t, ES_DTYPE_I32, 1, (int64_t[]){1}, NULL, &t->step));
    ES_TRY(
        create_tensor(t, ES_DTYPE_I32, 2, (int64_t[]){n_envs, EVALUATION_BATCH}, NULL, &t->index));
    size_t per_env = (size_t)n_envs * sizeof(float);
    ES_TRY(es_device_allocate_host(t->device, per_env * EVALUATION_BATCH, (void **)&t->index_cpu));
    ES_TRY(create_tensor(t, ES_DTYPE_I32, 2, (int64_t[]){3, n_envs}, NULL, &t->results));
    ES_TRY(es_device_allocate_host(t->device, 3 * per_env, &t->results_cpu));
    t->loss_cpu = t->results_cpu;
    t->count_cpu = (int32_t *)t->results_cpu + n_envs;
    ES_TRY(es_allocate((size_t)n_envs * sizeof *t->sums, (void **)&t->sums));
    for (int64_t e = 0; e < n_envs; e++) {
        t->index_cpu[e] = t->options.first_episode + (int32_t)e;
    }
    return create_tensor(t, ES_DTYPE_I32, 1, &n_envs, t->index_cpu, &t->episode);
}

// The fused executor where it can run this host; else the plan's report says why not.
static EsStatus create_fused(EsHostTrainer *t) {
    const EsHostTrainerOptions *options = &t->options;
    int64_t n_envs = options->n_envs;
    int needs_fused = options->precision == ES_DTYPE_F16;
    int is_cuda = es_device_info(t->device)->kind == ES_DEVICE_CUDA;
    int is_asked = options->mode != ES_COMPILE_DEFAULT || options->is_generic;
    if (!is_cuda || is_asked) {
        snprintf(t->not_fused, sizeof t->not_fused, "%s", is_asked ? "as was asked for" : "");
        return needs_fused ? ES_FAIL(UNSUPPORTED, "float16 runs fused on CUDA alone")
                           : ES_STATUS_OK;
    }
    t->model = (EsGrowthModel){.host = options->host,
                               .n_envs = n_envs,
                               .seed = options->seed,
                               .recipe = options->recipe,
                               .dataset = t->dataset};
    ES_TRY(es_growth_layout_create(&t->model));
    EsStatus status = es_fused_step_check(&t->model, t->device, options->precision);
    if (status != ES_STATUS_OK) {
        snprintf(t->not_fused, sizeof t->not_fused, "not fused, which is slower: %.220s",
                 es_status_detail());
        return needs_fused || status != ES_STATUS_UNSUPPORTED ? status : ES_STATUS_OK;
    }
    EsFusedOptions fused = {.model = &t->model,
                            .store = t->store,
                            .images = t->images,
                            .labels = t->labels,
                            .episode = t->episode,
                            .precision = options->precision,
                            .is_tf32 = options->is_tf32,
                            .batch = options->batch,
                            .max_instances = n_envs,
                            .max_evaluated = options->batch};
    for (int64_t e = 0; e < n_envs; e++) {
        t->index_cpu[e] = (int32_t)e;
    }
    ES_TRY(create_tensor(t, ES_DTYPE_I32, 1, &n_envs, t->index_cpu, &t->instance_envs));
    return es_fused_step_create(&fused, &t->fused);
}

static EsStatus queue_fused(void *context, EsStream *stream) {
    EsHostTrainer *t = context;
    const EsFusedInstances instances = {.n_instances = t->options.n_envs,
                                        .env = t->instance_envs.data};
    const EsFusedBatch batch = {.step = t->step.data};
    es_fused_step_train(t->fused, stream, &instances, &batch);
    es_optimiser_step(t->optimiser, stream);
    es_kernels_of(t->device)->count_steps(stream, &t->step);
    return ES_STATUS_OK;
}

// Averages that begin as the weights do, where the recipe has them.
static EsStatus create_average(EsHostTrainer *t) {
    if (t->options.recipe.average <= 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_store_create_twin(t->store, &t->average));
    memcpy(t->average->parameters.data, t->store->parameters.data,
           es_tensor_bytes(&t->store->parameters));
    memcpy(t->average->states.data, t->store->states.data, es_tensor_bytes(&t->store->states));
    return ES_STATUS_OK;
}

// A GPU trains hosts without seeds by fewer recipes than growth has there.
static EsStatus check_recipe(const EsRecipe *recipe, const EsDevice *device) {
    ES_TRY(es_recipe_check(recipe, device));
    if (es_device_info(device)->kind == ES_DEVICE_CPU) {
        return ES_STATUS_OK;
    }
    if (recipe->average > 0) {
        return ES_FAIL(UNSUPPORTED,
                       "averaged weights (recipe.average = %g) of hosts without seeds are kept on "
                       "the CPU alone: use --device cpu, or average = 0",
                       (double)recipe->average);
    }
    return recipe->decay != ES_DECAY_STEP
               ? ES_STATUS_OK
               : ES_FAIL(UNSUPPORTED, "recipe.schedule = step of hosts without seeds runs on the "
                                      "CPU alone: use --device cpu, or schedule = linear or "
                                      "cosine");
}

EsStatus es_host_trainer_create(const EsHostTrainerOptions *options, const EsDataset *dataset,
                                EsDevice *device, EsHostTrainer **trainer_out) {
    *trainer_out = NULL;
    ES_TRY(es_host_check(&options->host));
    ES_TRY(check_recipe(&options->recipe, device));
    ES_TRY(es_growth_check_dataset(&options->host, dataset));
    EsHostTrainer *t = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *t, (void **)&t));
    t->options = *options;
    t->dataset = dataset;
    t->device = device;
    t->stream = options->stream;
    if (t->stream == NULL) {
        ES_TRY_GOTO(es_stream_create(device, &t->stream));
    }
    ES_TRY_GOTO(create_memory(t));
    ES_TRY_GOTO(build_program(t, &t->train, options->batch, 1));
    ES_TRY_GOTO(es_store_create(t->train.graph, device, &t->store));
    ES_TRY_GOTO(
        es_store_initialise(t->store, t->train.graph, t->stream, options->seed, t->index_cpu));
    ES_TRY_GOTO(create_average(t));
    ES_TRY_GOTO(es_optimiser_create(t->train.graph, t->store, &options->optimiser, &t->optimiser));
    t->optimiser->rates.is_nesterov = options->recipe.nesterov;
    t->optimiser->rates.schedule = es_recipe_schedule(&options->recipe, options->n_updates);
    if (t->optimiser->rates.schedule.n_updates > 0) {
        t->optimiser->rates.update = t->step;
    }
    ES_TRY_GOTO(create_plan(t, &t->train, t->optimiser));
    ES_TRY_GOTO(create_fused(t));
done:
    if (status != ES_STATUS_OK) {
        es_host_trainer_destroy(t);
        return status;
    }
    *trainer_out = t;
    return ES_STATUS_OK;
}

static void destroy_program(Program *program) {
    es_plan_destroy(program->plan);
    es_graph_destroy(program->graph);
    memset(program, 0, sizeof *program);
}

void es_host_trainer_destroy(EsHostTrainer *t) {
    if (t == NULL) {
        return;
    }
    es_graph_capture_destroy(&t->graph_capture);
    es_fused_step_destroy(t->fused);
    destroy_program(&t->train);
    destroy_program(&t->evaluate[0]);
    destroy_program(&t->evaluate[1]);
    es_optimiser_destroy(t->optimiser);
    es_store_destroy(t->average);
    es_store_destroy(t->store);
    EsTensor *const tensors[] = {&t->images, &t->labels,        &t->episode, &t->step,
                                 &t->index,  &t->instance_envs, &t->results};
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        es_device_destroy_tensor(tensors[i]);
    }
    es_device_release_host(t->device, t->index_cpu);
    es_device_release_host(t->device, t->results_cpu);
    es_release(t->sums);
    if (t->options.stream == NULL) {
        es_stream_destroy(t->stream);
    }
    es_release(t);
}

// On the CPU, where a step has ended when its call returns.
static void update_average(EsHostTrainer *t) {
    int64_t update = *(const int32_t *)t->step.data - 1;
    float share = es_average_share(t->options.recipe.average, update);
    es_average_update(t->stream, share, &t->store->parameters, &t->average->parameters);
    es_average_update(t->stream, share, &t->store->states, &t->average->states);
}

// The learning rates of the epoch that the next update belongs to, where the recipe lowers them by
// epochs; on the CPU.
static void set_epoch_rates(EsHostTrainer *t) {
    float *learning_rate = t->optimiser->rates.learning_rate.data;
    int64_t update = *(const int32_t *)t->step.data;
    int64_t epoch = t->options.epoch_updates > 0 ? update / t->options.epoch_updates : 0;
    float share = es_recipe_epoch_share(&t->options.recipe, epoch);
    for (int64_t e = 0; e < t->options.n_envs; e++) {
        learning_rate[e] = t->options.optimiser.learning_rate * share;
    }
}

EsStatus es_host_trainer_train(EsHostTrainer *t, int64_t n_steps) {
    t->has_trained |= n_steps > 0;
    for (int64_t i = 0; i < n_steps; i++) {
        if (t->options.recipe.decay == ES_DECAY_STEP) {
            set_epoch_rates(t);
        }
        ES_TRY(t->fused != NULL
                   ? es_graph_capture_run(&t->graph_capture, t->stream, 1, queue_fused, t)
                   : es_plan_run(t->train.plan, t->stream));
        if (t->average != NULL) {
            update_average(t);
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_host_trainer_wait(EsHostTrainer *t) {
    ES_TRY(es_stream_synchronize(t->stream));
    return es_device_status(t->device);
}

// Packs loss and counts of a program's last run and brings them to CPU memory in one copy. Waits.
static EsStatus fetch_results(EsHostTrainer *t, const Program *program) {
    int64_t n_envs = t->options.n_envs;
    EsFusedResults results;
    if (t->fused != NULL && program == &t->train) {
        results = es_fused_step_trained(t->fused);
    } else {
        results.loss = es_plan_tensor(program->plan, program->loss.loss);
        results.n_correct = es_plan_tensor(program->plan, program->loss.n_correct);
        results.n_invalid = es_plan_tensor(program->plan, program->loss.n_invalid);
    }
    const void *const parts[] = {results.loss.data, results.n_correct.data, results.n_invalid.data};
    for (size_t i = 0; i < ES_COUNT_OF(parts); i++) {
        ES_TRY(es_stream_copy(t->stream, (int32_t *)t->results.data + (int64_t)i * n_envs, parts[i],
                              (size_t)n_envs * sizeof(int32_t), ES_COPY_ON_DEVICE));
    }
    ES_TRY(es_stream_copy(t->stream, t->results_cpu, t->results.data, es_tensor_bytes(&t->results),
                          ES_COPY_TO_HOST));
    ES_TRY(es_host_trainer_wait(t));
    for (int64_t e = 0; e < n_envs; e++) {
        if (t->count_cpu[n_envs + e] > 0) {
            return ES_FAIL(INPUT, "%d labels of a batch of %lld are outside 0..%d",
                           t->count_cpu[n_envs + e], (long long)program->batch,
                           t->options.host.n_classes - 1);
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_host_trainer_last_batch(EsHostTrainer *t, EsHostResult *results) {
    if (!t->has_trained) {
        return ES_FAIL(ARGUMENT, "there is no last batch before the first");
    }
    ES_TRY(fetch_results(t, &t->train));
    for (int64_t e = 0; e < t->options.n_envs; e++) {
        results[e].loss = (double)t->loss_cpu[e];
        results[e].accuracy = 100.0 * t->count_cpu[e] / (double)t->train.batch;
    }
    return ES_STATUS_OK;
}

// Samples [first, first + program->batch) of the data set through every host, added to sums.
static EsStatus evaluate_batch(EsHostTrainer *t, Program *program, int64_t first) {
    int64_t n_envs = t->options.n_envs, batch = program->batch;
    for (int64_t i = 0; i < n_envs * batch; i++) {
        t->index_cpu[i] = (int32_t)(first + i % batch);
    }
    ES_TRY(es_stream_copy(t->stream, t->index.data, t->index_cpu,
                          (size_t)(n_envs * batch) * sizeof(int32_t), ES_COPY_TO_DEVICE));
    ES_TRY(es_plan_run(program->plan, t->stream));
    ES_TRY(fetch_results(t, program));
    for (int64_t e = 0; e < n_envs; e++) {
        t->sums[e].loss += (double)t->loss_cpu[e] * (double)batch;
        t->sums[e].accuracy += t->count_cpu[e];
    }
    return ES_STATUS_OK;
}

// The evaluation program for this batch size, made on first use or when the size of the rest
// changes.
static EsStatus evaluation_program(EsHostTrainer *t, int64_t batch, Program **program_out) {
    Program *program = &t->evaluate[batch == EVALUATION_BATCH ? 0 : 1];
    *program_out = program;
    if (program->batch == batch) {
        return ES_STATUS_OK;
    }
    destroy_program(program);
    EsStatus status = ES_STATUS_OK;
    EsTensor index = es_tensor_view(t->index.data, ES_DTYPE_I32, t->device, 2,
                                    (int64_t[]){t->options.n_envs, batch});
    ES_TRY_GOTO(build_program(t, program, batch, 0));
    ES_TRY_GOTO(create_plan(t, program, NULL));
    ES_TRY_GOTO(es_plan_bind(program->plan, program->index, &index));
done:
    if (status != ES_STATUS_OK) {
        destroy_program(program);
    }
    return status;
}

EsStatus es_host_trainer_evaluate(EsHostTrainer *t, const EsSplit *split, EsHostResult *results) {
    int64_t first = es_split_first(t->dataset, split);
    if (split->count < 1) {
        return ES_FAIL(ARGUMENT, "an empty split cannot be evaluated");
    }
    memset(t->sums, 0, (size_t)t->options.n_envs * sizeof *t->sums);
    for (int64_t done = 0; done < split->count;) {
        int64_t batch = ES_MIN(EVALUATION_BATCH, split->count - done);
        Program *program = NULL;
        ES_TRY(evaluation_program(t, batch, &program));
        ES_TRY(evaluate_batch(t, program, first + done));
        done += batch;
    }
    for (int64_t e = 0; e < t->options.n_envs; e++) {
        results[e].loss = t->sums[e].loss / (double)split->count;
        results[e].accuracy = 100.0 * t->sums[e].accuracy / (double)split->count;
    }
    return ES_STATUS_OK;
}

EsTensor es_host_trainer_step(const EsHostTrainer *t) { return t->step; }

EsStore *es_host_trainer_store(EsHostTrainer *t) { return t->store; }

EsStore *es_host_trainer_average(EsHostTrainer *t) { return t->average; }

const EsGraph *es_host_trainer_graph(const EsHostTrainer *t) { return t->train.graph; }

EsOptimiser *es_host_trainer_optimiser(EsHostTrainer *t) { return t->optimiser; }

EsPlanReport es_host_trainer_report(const EsHostTrainer *t) {
    EsPlanReport report = es_plan_report(t->train.plan);
    if (t->fused != NULL) {
        report.is_fused = 1;
        report.is_captured = t->graph_capture.capture != NULL;
        report.capture_ms = t->graph_capture.capture_ms;
        report.activation_bytes = es_fused_step_bytes(t->fused);
        snprintf(report.fallback, sizeof report.fallback, "%s", t->graph_capture.fallback);
    } else if (t->not_fused[0] != '\0') {
        snprintf(report.fallback, sizeof report.fallback, "%s", t->not_fused);
    }
    return report;
}
