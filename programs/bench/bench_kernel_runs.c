#include "bench/bench_kernel_runs.h"

#include "base/memory.h"
#include "base/random_rules.h"

#define N_SAMPLES 2000 // images of the data set the gather cases read

static const EsNormOptions norm_options = {1e-5f, 0.1f, 1};

// --- tensors ---

static EsStatus make_tensor(EsKernelState *state, EsTensor *tensor, EsDtype dtype, int rank,
                            const int64_t *dims) {
    ES_ASSERT(state->n_tensors < ES_BENCH_TENSORS_MAX);
    void *memory = NULL;
    *tensor = es_tensor_view(NULL, dtype, state->device, rank, dims);
    ES_TRY(es_device_allocate(state->device, es_tensor_bytes(tensor), &memory));
    state->memory[state->n_tensors++] = memory;
    tensor->data = memory;
    return ES_STATUS_OK;
}

static EsStatus upload(EsKernelState *state, const EsTensor *tensor, const void *values) {
    ES_TRY(es_stream_copy(state->stream, tensor->data, values, es_tensor_bytes(tensor),
                          ES_COPY_TO_DEVICE));
    return es_stream_synchronize(state->stream);
}

static uint32_t draw_word(const EsKernelState *state, int64_t i) {
    EsRandom4 r =
        es_random_draw(1, (uint32_t)state->n_tensors, ES_PURPOSE_EVALUATION, 0, (uint32_t)(i / 4));
    return r.word[i % 4];
}

// f32: uniform in [-scale, scale); i32: uniform in [0, scale); u8: any byte
static EsStatus make_random(EsKernelState *state, EsTensor *tensor, EsDtype dtype, double scale,
                            int rank, const int64_t *dims) {
    ES_TRY(make_tensor(state, tensor, dtype, rank, dims));
    void *values = NULL;
    ES_TRY(es_allocate(es_tensor_bytes(tensor), &values));
    for (int64_t i = 0; i < es_tensor_count(tensor); i++) {
        uint32_t word = draw_word(state, i);
        if (dtype == ES_DTYPE_F32) {
            ((float *)values)[i] = (float)((2.0 * (double)es_random_uniform(word) - 1.0) * scale);
        } else if (dtype == ES_DTYPE_I32) {
            ((int32_t *)values)[i] = (int32_t)es_random_below(word, (uint32_t)scale);
        } else {
            ((unsigned char *)values)[i] = (unsigned char)word;
        }
    }
    EsStatus status = upload(state, tensor, values);
    es_release(values);
    return status;
}

// f32, every element the same
static EsStatus make_constant(EsKernelState *state, EsTensor *tensor, float value, int rank,
                              const int64_t *dims) {
    ES_TRY(make_tensor(state, tensor, ES_DTYPE_F32, rank, dims));
    float *values = NULL;
    ES_TRY(es_allocate(es_tensor_bytes(tensor), (void **)&values));
    for (int64_t i = 0; i < es_tensor_count(tensor); i++) {
        values[i] = value;
    }
    EsStatus status = upload(state, tensor, values);
    es_release(values);
    return status;
}

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define RANDOM(field, ...)                                                                         \
    ES_TRY(make_random(state, &state->field, ES_DTYPE_F32, 1.0, DIMS(__VA_ARGS__)))
#define EMPTY(field, dtype, ...)                                                                   \
    ES_TRY(make_tensor(state, &state->field, ES_DTYPE_##dtype, DIMS(__VA_ARGS__)))

// --- convolution, normalisation, pooling, activation ---

EsStatus es_bench_make_conv2d(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    RANDOM(x, s->E, s->N, s->I, s->H, s->H);
    RANDOM(d_y, s->E, s->N, s->O, s->H, s->H);
    RANDOM(weight, s->E, s->O, s->I, 3, 3);
    EMPTY(y, F32, s->E, s->N, s->O, s->H, s->H);
    EMPTY(d_x, F32, s->E, s->N, s->I, s->H, s->H);
    EMPTY(d_weight, F32, s->E, s->O, s->I, 3, 3);
    return ES_STATUS_OK;
}

void es_bench_run_conv2d_forward(EsKernelState *s) {
    s->kernels->conv2d_forward(s->stream, &s->x, &s->weight, NULL, &s->y);
}

void es_bench_run_conv2d_backward_input(EsKernelState *s) {
    s->kernels->conv2d_backward_input(s->stream, &s->weight, &s->d_y, &s->d_x);
}

void es_bench_run_conv2d_backward_weight(EsKernelState *s) {
    s->kernels->conv2d_backward_weight(s->stream, &s->x, &s->d_y, &s->d_weight, NULL);
}

// weight and bias are gamma and beta here
EsStatus es_bench_make_maps(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    RANDOM(x, s->E, s->N, s->O, s->H, s->H);
    RANDOM(d_y, s->E, s->N, s->O, s->H, s->H);
    EMPTY(y, F32, s->E, s->N, s->O, s->H, s->H);
    EMPTY(d_x, F32, s->E, s->N, s->O, s->H, s->H);
    RANDOM(weight, s->E, s->O);
    RANDOM(bias, s->E, s->O);
    RANDOM(d_weight, s->E, s->O);
    RANDOM(d_bias, s->E, s->O);
    RANDOM(mean, s->E, s->O);
    ES_TRY(make_constant(state, &state->inv_std, 1.0f, DIMS(s->E, s->O)));
    EMPTY(running_mean, F32, s->E, s->O);
    EMPTY(running_variance, F32, s->E, s->O);
    return ES_STATUS_OK;
}

void es_bench_run_batchnorm_statistics(EsKernelState *s) {
    s->kernels->batchnorm_statistics(s->stream, norm_options, &s->x, &s->mean, &s->inv_std,
                                     &s->running_mean, &s->running_variance);
}

void es_bench_run_batchnorm_apply(EsKernelState *s) {
    s->kernels->batchnorm_apply(s->stream, &s->x, &s->mean, &s->inv_std, &s->weight, &s->bias,
                                &s->y);
}

void es_bench_run_batchnorm_backward_sums(EsKernelState *s) {
    s->kernels->batchnorm_backward_sums(s->stream, &s->x, &s->mean, &s->inv_std, &s->d_y,
                                        &s->d_weight, &s->d_bias);
}

void es_bench_run_batchnorm_backward_input(EsKernelState *s) {
    s->kernels->batchnorm_backward_input(s->stream, &s->x, &s->mean, &s->inv_std, &s->weight,
                                         &s->d_weight, &s->d_bias, &s->d_y, &s->d_x);
}

void es_bench_run_activation_forward(EsKernelState *s) {
    s->kernels->activation_forward(s->stream, ES_ACTIVATION_RELU, &s->x, &s->y);
}

void es_bench_run_activation_backward(EsKernelState *s) {
    s->kernels->activation_backward(s->stream, ES_ACTIVATION_RELU, &s->x, &s->d_y, &s->d_x);
}

EsStatus es_bench_make_pool(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    RANDOM(x, s->E, s->N, s->O, s->H, s->H);
    RANDOM(d_y, s->E, s->N, s->O, s->H / 2, s->H / 2);
    EMPTY(y, F32, s->E, s->N, s->O, s->H / 2, s->H / 2);
    EMPTY(d_x, F32, s->E, s->N, s->O, s->H, s->H);
    return ES_STATUS_OK;
}

void es_bench_run_pool_forward(EsKernelState *s) {
    s->kernels->pool_forward(s->stream, ES_POOL_MAX2, &s->x, &s->y);
}

void es_bench_run_pool_backward(EsKernelState *s) {
    s->kernels->pool_backward(s->stream, ES_POOL_MAX2, &s->x, &s->d_y, &s->d_x);
}

// --- dense layers, loss, recurrence ---

EsStatus es_bench_make_linear(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    RANDOM(x, s->E, s->N, s->I);
    RANDOM(d_y, s->E, s->N, s->O);
    RANDOM(weight, s->E, s->O, s->I);
    RANDOM(bias, s->E, s->O);
    EMPTY(y, F32, s->E, s->N, s->O);
    EMPTY(d_x, F32, s->E, s->N, s->I);
    EMPTY(d_weight, F32, s->E, s->O, s->I);
    EMPTY(d_bias, F32, s->E, s->O);
    return ES_STATUS_OK;
}

void es_bench_run_linear_forward(EsKernelState *s) {
    s->kernels->linear_forward(s->stream, &s->x, &s->weight, &s->bias, &s->y);
}

void es_bench_run_linear_backward_input(EsKernelState *s) {
    s->kernels->linear_backward_input(s->stream, &s->weight, &s->d_y, &s->d_x);
}

void es_bench_run_linear_backward_weight(EsKernelState *s) {
    s->kernels->linear_backward_weight(s->stream, &s->x, &s->d_y, &s->d_weight, &s->d_bias);
}

// weight and bias are gamma and beta here
EsStatus es_bench_make_layernorm(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    RANDOM(x, s->E, s->N, s->O);
    RANDOM(d_y, s->E, s->N, s->O);
    EMPTY(y, F32, s->E, s->N, s->O);
    EMPTY(d_x, F32, s->E, s->N, s->O);
    RANDOM(weight, s->E, s->O);
    RANDOM(bias, s->E, s->O);
    EMPTY(d_weight, F32, s->E, s->O);
    EMPTY(d_bias, F32, s->E, s->O);
    RANDOM(mean, s->E, s->N);
    return make_constant(state, &state->inv_std, 1.0f, DIMS(s->E, s->N));
}

void es_bench_run_layernorm_forward(EsKernelState *s) {
    s->kernels->layernorm_forward(s->stream, norm_options, &s->x, &s->weight, &s->bias, &s->mean,
                                  &s->inv_std, &s->y);
}

void es_bench_run_layernorm_backward(EsKernelState *s) {
    s->kernels->layernorm_backward(s->stream, &s->x, &s->mean, &s->inv_std, &s->weight, &s->d_y,
                                   &s->d_x, &s->d_weight, &s->d_bias);
}

// d_weight holds b transposed, for the second variant
EsStatus es_bench_make_matmul(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    RANDOM(x, s->E, s->N, s->I);
    RANDOM(weight, s->E, s->I, s->O);
    RANDOM(d_weight, s->E, s->O, s->I);
    EMPTY(y, F32, s->E, s->N, s->O);
    return ES_STATUS_OK;
}

void es_bench_run_matmul(EsKernelState *s) {
    s->kernels->matmul(s->stream, 0, s->variant, 0.0f, &s->x,
                       s->variant == 0 ? &s->weight : &s->d_weight, &s->y);
}

EsStatus es_bench_make_cross_entropy(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    RANDOM(x, s->E, s->N, s->O);
    ES_TRY(make_random(state, &state->labels, ES_DTYPE_I32, (double)s->O, DIMS(s->E, s->N)));
    EMPTY(d_x, F32, s->E, s->N, s->O);
    EMPTY(loss, F32, s->E);
    EMPTY(n_correct, I32, s->E);
    EMPTY(n_invalid, I32, s->E);
    return ES_STATUS_OK;
}

void es_bench_run_cross_entropy_forward(EsKernelState *s) {
    s->kernels->cross_entropy_forward(s->stream, &s->x, &s->labels, &s->loss, &s->n_correct,
                                      &s->n_invalid);
}

void es_bench_run_cross_entropy_backward(EsKernelState *s) {
    s->kernels->cross_entropy_backward(s->stream, &s->x, &s->labels, NULL, &s->d_x);
}

// as parameters in a shared store: one set for all environments
static void share(const EsKernelState *state, EsTensor *tensor) {
    if (state->settings.is_shared) {
        tensor->stride[0] = 0;
    }
}

static EsStatus make_lstm_weights(EsKernelState *state, EsLstmWeights *weights) {
    const EsKernelSettings *s = &state->settings;
    // 1/sqrt(D): the default initialisation, which keeps states in range over any number of steps
    double scale = 0.088;
    ES_TRY(make_random(state, &weights->input, ES_DTYPE_F32, scale, DIMS(s->E, 4 * s->O, s->I)));
    ES_TRY(
        make_random(state, &weights->recurrent, ES_DTYPE_F32, scale, DIMS(s->E, 4 * s->O, s->O)));
    ES_TRY(make_random(state, &weights->bias_input, ES_DTYPE_F32, scale, DIMS(s->E, 4 * s->O)));
    return make_random(state, &weights->bias_recurrent, ES_DTYPE_F32, scale, DIMS(s->E, 4 * s->O));
}

void es_bench_run_lstm_forward(EsKernelState *s) {
    const EsTensor *start = s->settings.is_shared ? &s->start : NULL;
    s->kernels->lstm_forward(s->stream, &s->lstm, &s->x, NULL, start, start, &s->gates, &s->c,
                             &s->y);
}

EsStatus es_bench_make_lstm(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    RANDOM(x, s->E, s->T, s->N, s->I);
    RANDOM(start, s->E, s->N, s->O);
    RANDOM(d_y, s->E, s->T, s->N, s->O);
    EMPTY(d_x, F32, s->E, s->T, s->N, s->I);
    EMPTY(y, F32, s->E, s->T, s->N, s->O);
    EMPTY(c, F32, s->E, s->T, s->N, s->O);
    EMPTY(gates, F32, s->E, s->T, s->N, 4 * s->O);
    EMPTY(d_gates, F32, s->E, s->T, s->N, 4 * s->O);
    ES_TRY(make_lstm_weights(state, &state->lstm));
    share(state, &state->lstm.input);
    share(state, &state->lstm.recurrent);
    share(state, &state->lstm.bias_input);
    share(state, &state->lstm.bias_recurrent);
    ES_TRY(make_lstm_weights(state, &state->d_lstm));
    es_bench_run_lstm_forward(state); // the backward case reads gates, c and y
    return ES_STATUS_OK;
}

void es_bench_run_lstm_backward(EsKernelState *s) {
    const EsTensor *start = s->settings.is_shared ? &s->start : NULL;
    s->kernels->lstm_backward(s->stream, &s->lstm, &s->x, NULL, start, start, &s->gates, &s->c,
                              &s->y, &s->d_y, &s->d_gates, &s->d_x, NULL, NULL, &s->d_lstm);
}

// --- slabs and data ---

// weight: parameters, d_weight: gradients, x and y: optimiser state
EsStatus es_bench_make_slab(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    // the tensors of cifar_baseline: three convolutions, three gammas, three betas, the classifier
    static const int64_t lengths[] = {216, 8, 8, 1152, 16, 16, 4608, 32, 32, 320, 10};
    int64_t spans[ES_COUNT_OF(lengths)][2], n_parameters = 0;
    for (size_t i = 0; i < ES_COUNT_OF(lengths); i++) {
        spans[i][0] = n_parameters;
        spans[i][1] = lengths[i];
        n_parameters += lengths[i];
    }
    ES_ASSERT(n_parameters == s->P);
    const int64_t n_spans = ES_COUNT_OF(lengths);
    RANDOM(weight, s->E, s->P);
    RANDOM(d_weight, s->E, s->P);
    EMPTY(x, F32, s->E, s->P);
    EMPTY(y, F32, s->E, s->P);
    EMPTY(spans, I64, n_spans, 2);
    ES_TRY(upload(state, &state->spans, spans));
    EMPTY(groups, I32, n_spans);
    EMPTY(sum_squares, F64, s->E, n_spans);
    EMPTY(n_nonfinite, I32, s->E, n_spans);
    EMPTY(group_norm, F32, s->E, 1);
    // far above any norm: the slab is scaled by 1 and does not shrink from run to run
    ES_TRY(make_constant(state, &state->max_norm, 1e9f, DIMS(s->E, 1)));
    EMPTY(step, I32, s->E);
    ES_TRY(make_constant(state, &state->rates.rate, 1e-4f, DIMS(s->E)));
    ES_TRY(make_constant(state, &state->rates.momentum, 0.9f, DIMS(s->E)));
    return make_constant(state, &state->rates.weight_decay, 5e-4f, DIMS(s->E));
}

// the same for a slab without spans
EsStatus es_bench_make_parameters(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    RANDOM(weight, s->E, s->P);
    RANDOM(d_weight, s->E, s->P);
    EMPTY(x, F32, s->E, s->P);
    EMPTY(y, F32, s->E, s->P);
    EMPTY(step, I32, s->E);
    return make_constant(state, &state->rates.rate, 1e-4f, DIMS(s->E));
}

void es_bench_run_slab_norms(EsKernelState *s) {
    s->kernels->slab_norms(s->stream, &s->d_weight, &s->spans, &s->sum_squares, &s->n_nonfinite);
}

void es_bench_run_slab_clip(EsKernelState *s) {
    s->kernels->slab_clip(s->stream, &s->spans, &s->groups, &s->sum_squares, &s->max_norm,
                          &s->d_weight, &s->group_norm);
}

void es_bench_run_sgd_step(EsKernelState *s) {
    s->kernels->sgd_step(s->stream, &s->rates, &s->d_weight, &s->x, &s->weight);
}

void es_bench_run_adam_step(EsKernelState *s) {
    EsAdamOptions options = {0.9f, 0.999f, 1e-8f};
    s->kernels->adam_step(s->stream, options, &s->rates.rate, &s->d_weight, &s->x, &s->y, &s->step,
                          &s->weight);
}

EsStatus es_bench_make_gather(EsKernelState *state) {
    const EsKernelSettings *s = &state->settings;
    ES_TRY(make_random(state, &state->images, ES_DTYPE_U8, 0, DIMS(N_SAMPLES, s->O, s->H, s->H)));
    ES_TRY(make_random(state, &state->index, ES_DTYPE_I32, N_SAMPLES, DIMS(s->E, s->N)));
    ES_TRY(make_random(state, &state->episode, ES_DTYPE_I32, 1000, DIMS(s->E)));
    EMPTY(step, I32, 1);
    EMPTY(y, F32, s->E, s->N, s->O, s->H, s->H);
    return ES_STATUS_OK;
}

void es_bench_run_gather_order(EsKernelState *s) {
    const EsSampleOrder order = {.seed = 1, .n_samples = N_SAMPLES, .n_shares = 1};
    s->kernels->gather_order(s->stream, &order, &s->episode, &s->step, &s->index);
}

void es_bench_run_gather_images(EsKernelState *s) {
    EsGatherOptions options = {1, 4, 1, {0.5f, 0.5f, 0.5f, 0.5f}, {4.0f, 4.0f, 4.0f, 4.0f}};
    s->kernels->gather_images(s->stream, &options, &s->images, &s->index, &s->episode, &s->step,
                              &s->y);
}
