// SGD, Adam and AdamW over whole slabs: norms and clipping first, then one step for all
// environments; and averages of weights.
#include "network/slab_optimiser.h"

#include <string.h>

#include "base/memory.h"
#include "kernels/env_data.h"
#include "kernels/ops/schedule_rules.h"

EsOptimiserOptions es_optimiser_defaults(EsOptimiserKind kind) {
    EsOptimiserOptions sgd = {
        .kind = ES_OPTIMISER_SGD, .learning_rate = 0.01f, .momentum = 0.9f, .weight_decay = 5e-4f};
    EsOptimiserOptions adam = {
        .kind = kind, .learning_rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
    return kind == ES_OPTIMISER_SGD ? sgd : adam;
}

// Offsets and lengths of all parameters, in graph order.
static EsStatus upload_spans(EsOptimiser *optimiser, const EsGraph *graph, EsStream *stream) {
    int64_t(*spans)[2] = NULL;
    ES_TRY(es_allocate(sizeof *spans * (size_t)ES_MAX(optimiser->n_spans, 1), (void **)&spans));
    int count = 0;
    for (int i = 0; i < graph->n_values; i++) {
        const EsValue *value = &graph->values[i];
        if (value->role == ES_ROLE_PARAMETER) {
            spans[count][0] = value->slab_offset;
            spans[count][1] = es_value_count(value);
            count++;
        }
    }
    EsStatus status = es_stream_copy(stream, optimiser->spans.data, spans,
                                     es_tensor_bytes(&optimiser->spans), ES_COPY_TO_DEVICE);
    if (status == ES_STATUS_OK) {
        status = es_stream_synchronize(stream);
    }
    es_release(spans);
    return status;
}

static EsStatus upload_constant(EsTensor *tensor, EsStream *stream, float value) {
    int64_t count = es_tensor_count(tensor);
    float *values = NULL;
    ES_TRY(es_allocate((size_t)count * sizeof(float), (void **)&values));
    for (int64_t i = 0; i < count; i++) {
        values[i] = value;
    }
    EsStatus status = es_stream_copy(stream, tensor->data, values, (size_t)count * sizeof(float),
                                     ES_COPY_TO_DEVICE);
    if (status == ES_STATUS_OK) {
        status = es_stream_synchronize(stream);
    }
    es_release(values);
    return status;
}

static EsStatus create_tensors(EsOptimiser *optimiser, const EsGraph *graph) {
    EsDevice *device = optimiser->store->device;
    int64_t n_envs = optimiser->store->parameters.dim[0], n_spans = optimiser->n_spans;
    const int64_t slab[] = {n_envs, graph->n_parameters}, per_span[] = {n_envs, n_spans},
                  per_group[] = {n_envs, 1};
    ES_TRY(
        es_device_create_tensor(device, ES_DTYPE_F32, 1, &n_envs, &optimiser->rates.learning_rate));
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_F32, 1, &n_envs, &optimiser->rates.momentum));
    ES_TRY(
        es_device_create_tensor(device, ES_DTYPE_F32, 1, &n_envs, &optimiser->rates.weight_decay));
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_F32, 2, slab, &optimiser->moment1));
    if (optimiser->options.kind != ES_OPTIMISER_SGD) {
        ES_TRY(es_device_create_tensor(device, ES_DTYPE_F32, 2, slab, &optimiser->moment2));
        ES_TRY(es_device_create_tensor(device, ES_DTYPE_I32, 1, &n_envs, &optimiser->n_steps));
    }
    if (optimiser->options.kind == ES_OPTIMISER_ADAMW) {
        ES_TRY(
            es_device_create_tensor(device, ES_DTYPE_F32, 1, &n_envs, &optimiser->scheduled_rate));
    }
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_I64, 2, (int64_t[]){n_spans, 2},
                                   &optimiser->spans));
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_I32, 1, &n_spans, &optimiser->groups));
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_F32, 2, per_group, &optimiser->max_norm));
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_F64, 2, per_span, &optimiser->sum_squares));
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_I32, 2, per_span, &optimiser->n_nonfinite));
    return es_device_create_tensor(device, ES_DTYPE_F32, 2, per_group, &optimiser->group_norm);
}

static EsStatus check_options(const EsOptimiserOptions *options, const EsDevice *device) {
    if (options->kind == ES_OPTIMISER_ADAM && options->weight_decay != 0.0f) {
        return ES_FAIL(UNSUPPORTED, "Adam has no weight decay, %g was asked for; AdamW has",
                       (double)options->weight_decay);
    }
    if (options->kind == ES_OPTIMISER_ADAMW &&
        (es_device_info(device)->kind != ES_DEVICE_CPU || options->skips_nonfinite)) {
        return ES_FAIL(UNSUPPORTED, "AdamW runs on the CPU, and skips no steps");
    }
    return ES_STATUS_OK;
}

EsStatus es_optimiser_create(const EsGraph *graph, EsStore *store,
                             const EsOptimiserOptions *options, EsOptimiser **optimiser_out) {
    *optimiser_out = NULL;
    ES_TRY(es_store_check(store, graph));
    ES_TRY(check_options(options, store->device));
    EsOptimiser *optimiser = NULL;
    EsStream *stream = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *optimiser, (void **)&optimiser));
    optimiser->options = *options;
    optimiser->store = store;
    for (int i = 0; i < graph->n_values; i++) {
        optimiser->n_spans += graph->values[i].role == ES_ROLE_PARAMETER;
    }
    ES_TRY_GOTO(create_tensors(optimiser, graph));
    ES_TRY_GOTO(es_stream_create(store->device, &stream));
    ES_TRY_GOTO(upload_spans(optimiser, graph, stream));
    ES_TRY_GOTO(upload_constant(&optimiser->rates.learning_rate, stream, options->learning_rate));
    ES_TRY_GOTO(upload_constant(&optimiser->rates.momentum, stream, options->momentum));
    ES_TRY_GOTO(upload_constant(&optimiser->rates.weight_decay, stream, options->weight_decay));
    ES_TRY_GOTO(upload_constant(&optimiser->max_norm, stream, options->max_norm));
done:
    es_stream_destroy(stream);
    if (status != ES_STATUS_OK) {
        es_optimiser_destroy(optimiser);
        return status;
    }
    *optimiser_out = optimiser;
    return ES_STATUS_OK;
}

void es_optimiser_destroy(EsOptimiser *optimiser) {
    if (optimiser == NULL) {
        return;
    }
    EsTensor *const tensors[] = {&optimiser->rates.learning_rate,
                                 &optimiser->rates.momentum,
                                 &optimiser->rates.weight_decay,
                                 &optimiser->moment1,
                                 &optimiser->moment2,
                                 &optimiser->n_steps,
                                 &optimiser->scheduled_rate,
                                 &optimiser->spans,
                                 &optimiser->groups,
                                 &optimiser->max_norm,
                                 &optimiser->sum_squares,
                                 &optimiser->n_nonfinite,
                                 &optimiser->group_norm};
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        es_device_destroy_tensor(tensors[i]);
    }
    es_release(optimiser);
}

EsStatus es_optimiser_set_rates(EsOptimiser *optimiser, EsStream *stream,
                                const float *learning_rate, const float *momentum,
                                const float *weight_decay) {
    const float *const values[] = {learning_rate, momentum, weight_decay};
    EsTensor *const tensors[] = {&optimiser->rates.learning_rate, &optimiser->rates.momentum,
                                 &optimiser->rates.weight_decay};
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        if (values[i] != NULL) {
            ES_TRY(es_stream_copy(stream, tensors[i]->data, values[i], es_tensor_bytes(tensors[i]),
                                  ES_COPY_TO_DEVICE));
        }
    }
    return es_stream_synchronize(stream);
}

static int is_measured(const EsOptimiser *optimiser) {
    const EsOptimiserOptions *options = &optimiser->options;
    return options->max_norm > 0.0f || options->measures || options->skips_nonfinite;
}

EsStatus es_optimiser_set_clip(EsOptimiser *optimiser, EsStream *stream, float max_norm) {
    if (!is_measured(optimiser)) {
        return ES_FAIL(ARGUMENT, "this optimiser measures no norms, so it cannot clip them");
    }
    return upload_constant(&optimiser->max_norm, stream, max_norm);
}

EsStatus es_optimiser_read_norms(const EsOptimiser *optimiser, EsStream *stream, float *norm,
                                 double *sum_squares, int32_t *n_nonfinite) {
    void *const to[] = {norm, sum_squares, n_nonfinite};
    const EsTensor *const from[] = {&optimiser->group_norm, &optimiser->sum_squares,
                                    &optimiser->n_nonfinite};
    if (!is_measured(optimiser)) {
        return ES_FAIL(ARGUMENT, "this optimiser measures no norms");
    }
    for (size_t i = 0; i < ES_COUNT_OF(to); i++) {
        if (to[i] != NULL) {
            ES_TRY(es_stream_copy(stream, to[i], from[i]->data, es_tensor_bytes(from[i]),
                                  ES_COPY_TO_HOST));
        }
    }
    return es_stream_synchronize(stream);
}

EsStatus es_optimiser_reset(EsOptimiser *optimiser, EsStream *stream) {
    EsTensor *const tensors[] = {&optimiser->moment1, &optimiser->moment2, &optimiser->n_steps};
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        if (tensors[i]->data != NULL) {
            ES_TRY(es_stream_fill(stream, tensors[i]->data, 0, es_tensor_bytes(tensors[i])));
        }
    }
    return ES_STATUS_OK;
}

static void update(EsOptimiser *optimiser, EsStream *stream, const EsTensor *gradients) {
    const EsKernels *kernels = es_kernels_of(optimiser->store->device);
    const EsOptimiserOptions *options = &optimiser->options;
    const EsTensor *parameters = &optimiser->store->parameters,
                   *learning_rate = &optimiser->rates.learning_rate;
    const EsTensor *counts = &optimiser->n_nonfinite, *moment1 = &optimiser->moment1;
    const EsTensor *moment2 = &optimiser->moment2, *n_steps = &optimiser->n_steps;
    EsAdamOptions adam = {options->beta1, options->beta2, options->epsilon};
    if (options->kind == ES_OPTIMISER_ADAMW) {
        es_adamw_step(stream, adam, &optimiser->rates, &optimiser->scheduled_rate, gradients,
                      moment1, moment2, n_steps, parameters);
    } else if (options->kind == ES_OPTIMISER_ADAM && options->skips_nonfinite) {
        kernels->adam_step_finite(stream, adam, learning_rate, counts, gradients, moment1, moment2,
                                  n_steps, parameters);
    } else if (options->kind == ES_OPTIMISER_ADAM) {
        kernels->adam_step(stream, adam, learning_rate, gradients, moment1, moment2, n_steps,
                           parameters);
    } else if (options->skips_nonfinite) {
        kernels->sgd_step_finite(stream, &optimiser->rates, counts, gradients, moment1, parameters);
    } else {
        kernels->sgd_step(stream, &optimiser->rates, gradients, moment1, parameters);
    }
}

void es_optimiser_step(EsOptimiser *optimiser, EsStream *stream) {
    const EsKernels *kernels = es_kernels_of(optimiser->store->device);
    EsTensor gradients = optimiser->store->gradients;
    if (optimiser->store->is_shared) {
        EsTensor sum = es_tensor_slice(&gradients, 0, 0, 1);
        if (gradients.dim[0] > 1) {
            kernels->tree_sum(stream, &gradients, &sum);
        }
        gradients = sum;
    }
    if (is_measured(optimiser)) {
        kernels->slab_norms(stream, &gradients, &optimiser->spans, &optimiser->sum_squares,
                            &optimiser->n_nonfinite);
        kernels->slab_clip(stream, &optimiser->spans, &optimiser->groups, &optimiser->sum_squares,
                           &optimiser->max_norm, &gradients, &optimiser->group_norm);
    }
    update(optimiser, stream, &gradients);
}

// --- AdamW ---

// parameters of a piece of work
#define WEIGHTS_PER_PIECE 16384

typedef struct Shrinkage {
    const EsTensor *rate, *weight_decay; // [E]
    const EsTensor *parameter;           // [E, P]
    int64_t n_blocks;                    // of a row
} Shrinkage;

static void shrink(void *context, int64_t piece, int worker) {
    (void)worker;
    const Shrinkage *job = context;
    int64_t e = piece / job->n_blocks, begin = piece % job->n_blocks * WEIGHTS_PER_PIECE;
    int64_t n = ES_MIN(WEIGHTS_PER_PIECE, job->parameter->dim[1] - begin);
    float *parameter = es_env_f32(job->parameter, e) + begin;
    float factor = 1.0f - *es_env_f32(job->rate, e) * *es_env_f32(job->weight_decay, e);
    for (int64_t i = 0; i < n; i++) {
        parameter[i] *= factor;
    }
}

static int64_t blocks_of(const EsTensor *slab) {
    return (slab->dim[1] + WEIGHTS_PER_PIECE - 1) / WEIGHTS_PER_PIECE;
}

void es_adamw_step(EsStream *stream, EsAdamOptions options, const EsSgdRates *rates,
                   const EsTensor *scheduled_rate, const EsTensor *gradient,
                   const EsTensor *moment1, const EsTensor *moment2, const EsTensor *n_steps,
                   const EsTensor *parameter) {
    const int32_t *update = rates->update.data; // nullable
    float share = update != NULL ? es_schedule_share(&rates->schedule, *update) : 1.0f;
    for (int64_t e = 0; e < parameter->dim[0]; e++) {
        *es_env_f32(scheduled_rate, e) = *es_env_f32(&rates->learning_rate, e) * share;
    }
    Shrinkage job = {scheduled_rate, &rates->weight_decay, parameter, blocks_of(parameter)};
    es_stream_parallel(stream, parameter->dim[0] * job.n_blocks, shrink, &job);
    es_kernels_of(parameter->device)
        ->adam_step(stream, options, scheduled_rate, gradient, moment1, moment2, n_steps,
                    parameter);
}

// --- averaged weights ---

typedef struct Average {
    float share;
    const EsTensor *weights, *average;
    int64_t n_blocks; // of a row
} Average;

// Weights that stay leave the average of them as it is, bit for bit.
static void update_average(void *context, int64_t piece, int worker) {
    (void)worker;
    const Average *job = context;
    int64_t e = piece / job->n_blocks, begin = piece % job->n_blocks * WEIGHTS_PER_PIECE;
    int64_t n = ES_MIN(WEIGHTS_PER_PIECE, job->weights->dim[1] - begin);
    const float *ES_RESTRICT weights = es_env_f32(job->weights, e) + begin;
    float *ES_RESTRICT average = es_env_f32(job->average, e) + begin;
    float rest = 1.0f - job->share;
    for (int64_t i = 0; i < n; i++) {
        average[i] += rest * (weights[i] - average[i]);
    }
}

void es_average_update(EsStream *stream, float share, const EsTensor *weights,
                       const EsTensor *average) {
    Average job = {share, weights, average, blocks_of(weights)};
    es_stream_parallel(stream, weights->dim[0] * job.n_blocks, update_average, &job);
}
