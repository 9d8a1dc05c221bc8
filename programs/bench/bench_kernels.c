// The suite "kernels": single operations at the shapes of the `cifar_baseline` host (3-8-16-32
// channels, 32x32 images, 6,418 parameters) and of the policy network. f32 on every device.
//
// Letters: E environments, N images or rows, I O channels or features in and out, H height = width,
// T time, P parameters.
#include <string.h>

#include "base/memory.h"
#include "base/random_rules.h"
#include "bench/bench_suite.h"
#include "kernels/kernels.h"

#define MAX_TENSORS 24

typedef struct KernelFixture KernelFixture;

typedef struct KernelSettings {
    int64_t E, N, I, O, H, T, P;
    int is_shared; // all environments read the weights of the first
    double work;   // in units of 1e9: GFLOP or GB of one run
    EsStatus (*make)(KernelFixture *fixture);
    void (*run)(KernelFixture *fixture);
} KernelSettings;

struct KernelFixture {
    EsDevice *device;         // borrowed
    EsStream *stream;         // borrowed
    const EsKernels *kernels; // borrowed
    KernelSettings settings;
    int variant;               // the one to run
    void *memory[MAX_TENSORS]; // owned, device memory of the tensors below
    int n_tensors;
    EsTensor x, y, d_x, d_y, weight, d_weight, bias, d_bias;
    EsTensor mean, inv_std, running_mean, running_variance;
    EsTensor labels, loss, n_correct, n_invalid;
    EsTensor spans, groups, sum_squares, n_nonfinite, max_norm, group_norm;
    EsTensor images, index, episode, step;
    EsTensor gates, c, d_gates;
    EsTensor start; // of h and c, where is_shared
    EsLstmWeights lstm, d_lstm;
    EsSgdRates rates;
};

#define N_SAMPLES 2000 // images of the data set the gather cases read

static const EsNormOptions norm_options = {1e-5f, 0.1f, 1};

// --- tensors ---

static EsStatus make_tensor(KernelFixture *fixture, EsTensor *tensor, EsDtype dtype, int rank,
                            const int64_t *dims) {
    ES_ASSERT(fixture->n_tensors < MAX_TENSORS);
    void *memory = NULL;
    *tensor = es_tensor_view(NULL, dtype, fixture->device, rank, dims);
    ES_TRY(es_device_allocate(fixture->device, es_tensor_bytes(tensor), &memory));
    fixture->memory[fixture->n_tensors++] = memory;
    tensor->data = memory;
    return ES_STATUS_OK;
}

static EsStatus upload(KernelFixture *fixture, const EsTensor *tensor, const void *values) {
    ES_TRY(es_stream_copy(fixture->stream, tensor->data, values, es_tensor_bytes(tensor),
                          ES_COPY_TO_DEVICE));
    return es_stream_synchronize(fixture->stream);
}

static uint32_t draw_word(const KernelFixture *fixture, int64_t i) {
    EsRandom4 r = es_random_draw(1, (uint32_t)fixture->n_tensors, ES_PURPOSE_EVALUATION, 0,
                                 (uint32_t)(i / 4));
    return r.word[i % 4];
}

// f32: uniform in [-scale, scale); i32: uniform in [0, scale); u8: any byte
static EsStatus make_random(KernelFixture *fixture, EsTensor *tensor, EsDtype dtype, double scale,
                            int rank, const int64_t *dims) {
    ES_TRY(make_tensor(fixture, tensor, dtype, rank, dims));
    void *values = NULL;
    ES_TRY(es_allocate(es_tensor_bytes(tensor), &values));
    for (int64_t i = 0; i < es_tensor_count(tensor); i++) {
        uint32_t word = draw_word(fixture, i);
        if (dtype == ES_DTYPE_F32) {
            ((float *)values)[i] = (float)((2.0 * (double)es_random_uniform(word) - 1.0) * scale);
        } else if (dtype == ES_DTYPE_I32) {
            ((int32_t *)values)[i] = (int32_t)es_random_below(word, (uint32_t)scale);
        } else {
            ((unsigned char *)values)[i] = (unsigned char)word;
        }
    }
    EsStatus status = upload(fixture, tensor, values);
    es_release(values);
    return status;
}

// f32, every element the same
static EsStatus make_constant(KernelFixture *fixture, EsTensor *tensor, float value, int rank,
                              const int64_t *dims) {
    ES_TRY(make_tensor(fixture, tensor, ES_DTYPE_F32, rank, dims));
    float *values = NULL;
    ES_TRY(es_allocate(es_tensor_bytes(tensor), (void **)&values));
    for (int64_t i = 0; i < es_tensor_count(tensor); i++) {
        values[i] = value;
    }
    EsStatus status = upload(fixture, tensor, values);
    es_release(values);
    return status;
}

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define RANDOM(field, ...)                                                                         \
    ES_TRY(make_random(fixture, &fixture->field, ES_DTYPE_F32, 1.0, DIMS(__VA_ARGS__)))
#define EMPTY(field, dtype, ...)                                                                   \
    ES_TRY(make_tensor(fixture, &fixture->field, ES_DTYPE_##dtype, DIMS(__VA_ARGS__)))

// --- convolution, normalisation, pooling, activation ---

// Allocate and fill the tensors of a family by its settings. Allocations are in `memory`,
// also on failure.
static EsStatus make_conv2d(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
    RANDOM(x, s->E, s->N, s->I, s->H, s->H);
    RANDOM(d_y, s->E, s->N, s->O, s->H, s->H);
    RANDOM(weight, s->E, s->O, s->I, 3, 3);
    EMPTY(y, F32, s->E, s->N, s->O, s->H, s->H);
    EMPTY(d_x, F32, s->E, s->N, s->I, s->H, s->H);
    EMPTY(d_weight, F32, s->E, s->O, s->I, 3, 3);
    return ES_STATUS_OK;
}

// Queue one operation; the tensors are those of its family.
static void run_conv2d_forward(KernelFixture *s) {
    s->kernels->conv2d_forward(s->stream, &s->x, &s->weight, NULL, &s->y);
}

static void run_conv2d_backward_input(KernelFixture *s) {
    s->kernels->conv2d_backward_input(s->stream, &s->weight, &s->d_y, &s->d_x);
}

static void run_conv2d_backward_weight(KernelFixture *s) {
    s->kernels->conv2d_backward_weight(s->stream, &s->x, &s->d_y, &s->d_weight, NULL);
}

// weight and bias are gamma and beta here
static EsStatus make_maps(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
    RANDOM(x, s->E, s->N, s->O, s->H, s->H);
    RANDOM(d_y, s->E, s->N, s->O, s->H, s->H);
    EMPTY(y, F32, s->E, s->N, s->O, s->H, s->H);
    EMPTY(d_x, F32, s->E, s->N, s->O, s->H, s->H);
    RANDOM(weight, s->E, s->O);
    RANDOM(bias, s->E, s->O);
    RANDOM(d_weight, s->E, s->O);
    RANDOM(d_bias, s->E, s->O);
    RANDOM(mean, s->E, s->O);
    ES_TRY(make_constant(fixture, &fixture->inv_std, 1.0f, DIMS(s->E, s->O)));
    EMPTY(running_mean, F32, s->E, s->O);
    EMPTY(running_variance, F32, s->E, s->O);
    return ES_STATUS_OK;
}

static void run_batchnorm_statistics(KernelFixture *s) {
    s->kernels->batchnorm_statistics(s->stream, norm_options, &s->x, &s->mean, &s->inv_std,
                                     &s->running_mean, &s->running_variance);
}

static void run_batchnorm_apply(KernelFixture *s) {
    s->kernels->batchnorm_apply(s->stream, &s->x, &s->mean, &s->inv_std, &s->weight, &s->bias,
                                &s->y);
}

static void run_batchnorm_backward_sums(KernelFixture *s) {
    s->kernels->batchnorm_backward_sums(s->stream, &s->x, &s->mean, &s->inv_std, &s->d_y,
                                        &s->d_weight, &s->d_bias);
}

static void run_batchnorm_backward_input(KernelFixture *s) {
    s->kernels->batchnorm_backward_input(s->stream, &s->x, &s->mean, &s->inv_std, &s->weight,
                                         &s->d_weight, &s->d_bias, &s->d_y, &s->d_x);
}

static void run_activation_forward(KernelFixture *s) {
    s->kernels->activation_forward(s->stream, ES_ACTIVATION_RELU, &s->x, &s->y);
}

static void run_activation_backward(KernelFixture *s) {
    s->kernels->activation_backward(s->stream, ES_ACTIVATION_RELU, &s->x, &s->d_y, &s->d_x);
}

static EsStatus make_pool(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
    RANDOM(x, s->E, s->N, s->O, s->H, s->H);
    RANDOM(d_y, s->E, s->N, s->O, s->H / 2, s->H / 2);
    EMPTY(y, F32, s->E, s->N, s->O, s->H / 2, s->H / 2);
    EMPTY(d_x, F32, s->E, s->N, s->O, s->H, s->H);
    return ES_STATUS_OK;
}

static void run_pool_forward(KernelFixture *s) {
    s->kernels->pool_forward(s->stream, ES_POOL_MAX2, &s->x, &s->y);
}

static void run_pool_backward(KernelFixture *s) {
    s->kernels->pool_backward(s->stream, ES_POOL_MAX2, &s->x, &s->d_y, &s->d_x);
}

// --- dense layers, loss, recurrence ---

static EsStatus make_linear(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
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

static void run_linear_forward(KernelFixture *s) {
    s->kernels->linear_forward(s->stream, &s->x, &s->weight, &s->bias, &s->y);
}

static void run_linear_backward_input(KernelFixture *s) {
    s->kernels->linear_backward_input(s->stream, &s->weight, &s->d_y, &s->d_x);
}

static void run_linear_backward_weight(KernelFixture *s) {
    s->kernels->linear_backward_weight(s->stream, &s->x, &s->d_y, &s->d_weight, &s->d_bias);
}

// weight and bias are gamma and beta here
static EsStatus make_layernorm(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
    RANDOM(x, s->E, s->N, s->O);
    RANDOM(d_y, s->E, s->N, s->O);
    EMPTY(y, F32, s->E, s->N, s->O);
    EMPTY(d_x, F32, s->E, s->N, s->O);
    RANDOM(weight, s->E, s->O);
    RANDOM(bias, s->E, s->O);
    EMPTY(d_weight, F32, s->E, s->O);
    EMPTY(d_bias, F32, s->E, s->O);
    RANDOM(mean, s->E, s->N);
    return make_constant(fixture, &fixture->inv_std, 1.0f, DIMS(s->E, s->N));
}

static void run_layernorm_forward(KernelFixture *s) {
    s->kernels->layernorm_forward(s->stream, norm_options, &s->x, &s->weight, &s->bias, &s->mean,
                                  &s->inv_std, &s->y);
}

static void run_layernorm_backward(KernelFixture *s) {
    s->kernels->layernorm_backward(s->stream, &s->x, &s->mean, &s->inv_std, &s->weight, &s->d_y,
                                   &s->d_x, &s->d_weight, &s->d_bias);
}

// d_weight holds b transposed, for the second variant
static EsStatus make_matmul(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
    RANDOM(x, s->E, s->N, s->I);
    RANDOM(weight, s->E, s->I, s->O);
    RANDOM(d_weight, s->E, s->O, s->I);
    EMPTY(y, F32, s->E, s->N, s->O);
    return ES_STATUS_OK;
}

static void run_matmul(KernelFixture *s) {
    s->kernels->matmul(s->stream, 0, s->variant, 0.0f, &s->x,
                       s->variant == 0 ? &s->weight : &s->d_weight, &s->y);
}

static EsStatus make_cross_entropy(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
    RANDOM(x, s->E, s->N, s->O);
    ES_TRY(make_random(fixture, &fixture->labels, ES_DTYPE_I32, (double)s->O, DIMS(s->E, s->N)));
    EMPTY(d_x, F32, s->E, s->N, s->O);
    EMPTY(loss, F32, s->E);
    EMPTY(n_correct, I32, s->E);
    EMPTY(n_invalid, I32, s->E);
    return ES_STATUS_OK;
}

static void run_cross_entropy_forward(KernelFixture *s) {
    s->kernels->cross_entropy_forward(s->stream, 0, &s->x, &s->labels, &s->loss, &s->n_correct,
                                      &s->n_invalid);
}

static void run_cross_entropy_backward(KernelFixture *s) {
    s->kernels->cross_entropy_backward(s->stream, 0, &s->x, &s->labels, NULL, &s->d_x);
}

// as parameters in a shared store: one set for all environments
static void share(const KernelFixture *fixture, EsTensor *tensor) {
    if (fixture->settings.is_shared) {
        tensor->stride[0] = 0;
    }
}

static EsStatus make_lstm_weights(KernelFixture *fixture, EsLstmWeights *weights) {
    const KernelSettings *s = &fixture->settings;
    // 1/sqrt(D): the default initialisation, which keeps states in range over any number of steps
    double scale = 0.088;
    ES_TRY(make_random(fixture, &weights->input, ES_DTYPE_F32, scale, DIMS(s->E, 4 * s->O, s->I)));
    ES_TRY(
        make_random(fixture, &weights->recurrent, ES_DTYPE_F32, scale, DIMS(s->E, 4 * s->O, s->O)));
    ES_TRY(make_random(fixture, &weights->bias_input, ES_DTYPE_F32, scale, DIMS(s->E, 4 * s->O)));
    return make_random(fixture, &weights->bias_recurrent, ES_DTYPE_F32, scale,
                       DIMS(s->E, 4 * s->O));
}

static void run_lstm_forward(KernelFixture *s) {
    const EsTensor *start = s->settings.is_shared ? &s->start : NULL;
    s->kernels->lstm_forward(s->stream, &s->lstm, &s->x, NULL, start, start, &s->gates, &s->c,
                             &s->y);
}

static EsStatus make_lstm(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
    RANDOM(x, s->E, s->T, s->N, s->I);
    RANDOM(start, s->E, s->N, s->O);
    RANDOM(d_y, s->E, s->T, s->N, s->O);
    EMPTY(d_x, F32, s->E, s->T, s->N, s->I);
    EMPTY(y, F32, s->E, s->T, s->N, s->O);
    EMPTY(c, F32, s->E, s->T, s->N, s->O);
    EMPTY(gates, F32, s->E, s->T, s->N, 4 * s->O);
    EMPTY(d_gates, F32, s->E, s->T, s->N, 4 * s->O);
    ES_TRY(make_lstm_weights(fixture, &fixture->lstm));
    share(fixture, &fixture->lstm.input);
    share(fixture, &fixture->lstm.recurrent);
    share(fixture, &fixture->lstm.bias_input);
    share(fixture, &fixture->lstm.bias_recurrent);
    ES_TRY(make_lstm_weights(fixture, &fixture->d_lstm));
    run_lstm_forward(fixture); // the backward case reads gates, c and y
    return ES_STATUS_OK;
}

static void run_lstm_backward(KernelFixture *s) {
    const EsTensor *start = s->settings.is_shared ? &s->start : NULL;
    s->kernels->lstm_backward(s->stream, &s->lstm, &s->x, NULL, start, start, &s->gates, &s->c,
                              &s->y, &s->d_y, &s->d_gates, &s->d_x, NULL, NULL, &s->d_lstm);
}

// --- slabs and data ---

// weight: parameters, d_weight: gradients, x and y: optimiser state
static EsStatus make_slab(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
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
    ES_TRY(upload(fixture, &fixture->spans, spans));
    EMPTY(groups, I32, n_spans);
    EMPTY(sum_squares, F64, s->E, n_spans);
    EMPTY(n_nonfinite, I32, s->E, n_spans);
    EMPTY(group_norm, F32, s->E, 1);
    // far above any norm: the slab is scaled by 1 and does not shrink from run to run
    ES_TRY(make_constant(fixture, &fixture->max_norm, 1e9f, DIMS(s->E, 1)));
    EMPTY(step, I32, s->E);
    ES_TRY(make_constant(fixture, &fixture->rates.learning_rate, 1e-4f, DIMS(s->E)));
    ES_TRY(make_constant(fixture, &fixture->rates.momentum, 0.9f, DIMS(s->E)));
    return make_constant(fixture, &fixture->rates.weight_decay, 5e-4f, DIMS(s->E));
}

// the same for a slab without spans
static EsStatus make_parameters(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
    RANDOM(weight, s->E, s->P);
    RANDOM(d_weight, s->E, s->P);
    EMPTY(x, F32, s->E, s->P);
    EMPTY(y, F32, s->E, s->P);
    EMPTY(step, I32, s->E);
    return make_constant(fixture, &fixture->rates.learning_rate, 1e-4f, DIMS(s->E));
}

static void run_slab_norms(KernelFixture *s) {
    s->kernels->slab_norms(s->stream, &s->d_weight, &s->spans, &s->sum_squares, &s->n_nonfinite);
}

static void run_slab_clip(KernelFixture *s) {
    s->kernels->slab_clip(s->stream, &s->spans, &s->groups, &s->sum_squares, &s->max_norm,
                          &s->d_weight, &s->group_norm);
}

static void run_sgd_step(KernelFixture *s) {
    s->kernels->sgd_step(s->stream, &s->rates, &s->d_weight, &s->x, &s->weight);
}

static void run_adam_step(KernelFixture *s) {
    EsAdamOptions options = {0.9f, 0.999f, 1e-8f};
    s->kernels->adam_step(s->stream, options, &s->rates.learning_rate, &s->d_weight, &s->x, &s->y,
                          &s->step, &s->weight);
}

static EsStatus make_gather(KernelFixture *fixture) {
    const KernelSettings *s = &fixture->settings;
    ES_TRY(
        make_random(fixture, &fixture->images, ES_DTYPE_U8, 0, DIMS(N_SAMPLES, s->O, s->H, s->H)));
    ES_TRY(make_random(fixture, &fixture->index, ES_DTYPE_I32, N_SAMPLES, DIMS(s->E, s->N)));
    ES_TRY(make_random(fixture, &fixture->episode, ES_DTYPE_I32, 1000, DIMS(s->E)));
    EMPTY(step, I32, 1);
    EMPTY(y, F32, s->E, s->N, s->O, s->H, s->H);
    return ES_STATUS_OK;
}

static void run_gather_order(KernelFixture *s) {
    const EsSampleOrder order = {.seed = 1, .n_samples = N_SAMPLES, .n_shares = 1};
    s->kernels->gather_order(s->stream, &order, &s->episode, &s->step, &s->index);
}

static void run_gather_images(KernelFixture *s) {
    EsGatherOptions options = {.seed = 1,
                               .pad = 4,
                               .flip = 1,
                               .mean = {0.5f, 0.5f, 0.5f, 0.5f},
                               .inv_std = {4.0f, 4.0f, 4.0f, 4.0f}};
    s->kernels->gather_images(s->stream, &options, &s->images, &s->index, &s->episode, &s->step,
                              &s->y);
}

#define N_CLASSES 10

static void end_kernel(void *context) {
    KernelFixture *fixture = context;
    for (int i = 0; i < fixture->n_tensors; i++) {
        es_device_release(fixture->device, fixture->memory[i]);
    }
    es_release(fixture);
}

static EsStatus begin_kernel(const EsBenchCase *bench_case, const EsBench *bench, void **context) {
    KernelFixture *fixture = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->device = bench->device;
    fixture->stream = bench->stream;
    fixture->kernels = es_kernels_of(bench->device);
    memcpy(&fixture->settings, bench_case->settings, sizeof fixture->settings);
    EsStatus status = fixture->settings.make(fixture);
    if (status != ES_STATUS_OK) {
        end_kernel(fixture);
        return status;
    }
    *context = fixture;
    return ES_STATUS_OK;
}

static EsStatus run_kernel(void *context, int variant) {
    KernelFixture *fixture = context;
    fixture->variant = variant;
    fixture->settings.run(fixture);
    return ES_STATUS_OK;
}

static double kernel_work(const EsBenchCase *bench_case) {
    const KernelSettings *settings = bench_case->settings;
    return settings->work;
}

#define KERNEL(name_, parameters_, unit_, peer_, ...)                                              \
    {                                                                                              \
        .name = name_, .parameters = parameters_,                                                  \
        .settings = &(const KernelSettings){__VA_ARGS__}, .begin = begin_kernel,                   \
        .run = run_kernel, .end = end_kernel, .work = kernel_work, .rate_unit = unit_,             \
        .peer = peer_                                                                              \
    }

// 2 I O 9 operations per position
#define CONV2D(name_, i, o, h)                                                                     \
    KERNEL(#name_, "E=4 N=128 I=" #i " O=" #o " H=" #h, "GFLOP/s", NULL, .E = 4, .N = 128, .I = i, \
           .O = o, .H = h, .work = 2e-9 * 4 * 128 * 9 * (i) * (o) * (h) * (h),                     \
           .make = make_conv2d, .run = run_##name_)
#define CONV2D_ALL(i, o, h)                                                                        \
    CONV2D(conv2d_forward, i, o, h), CONV2D(conv2d_backward_input, i, o, h),                       \
        CONV2D(conv2d_backward_weight, i, o, h)

// n_passes = how many times a whole map is read or written
#define MAPS(name_, make_, n_passes)                                                               \
    KERNEL(#name_, "E=4 N=128 C=8 H=32", "GB/s", NULL, .E = 4, .N = 128, .O = 8, .H = 32,          \
           .work = 4e-9 * (n_passes)*4 * 128 * 8 * 32 * 32, .make = make_, .run = run_##name_)

#define LINEAR(name_)                                                                              \
    KERNEL(#name_, "E=4 N=128 I=32 O=10", "GFLOP/s", NULL, .E = 4, .N = 128, .I = 32, .O = 10,     \
           .work = 2e-9 * 4 * 128 * 32 * 10, .make = make_linear, .run = run_##name_)

// products with the input and the recurrent weights; backward does each twice
#define LSTM(name_, n_steps, n_products)                                                           \
    KERNEL(#name_, "T=" #n_steps " N=64 D=128", "GFLOP/s", NULL, .E = 1, .N = 64, .I = 128,        \
           .O = 128, .T = n_steps, .work = 2e-9 * (n_products) * (n_steps)*64 * 4 * 128 * 128,     \
           .make = make_lstm, .run = run_##name_)

#define SLAB(name_, n_passes)                                                                      \
    KERNEL(#name_, "E=64 P=6418", "GB/s", NULL, .E = 64, .P = 6418,                                \
           .work = 4e-9 * (n_passes)*64 * 6418, .make = make_slab, .run = run_##name_)

// The policy network: acting is one step of n rows, training 8 shards of 30 steps that share the
// weights.
#define POLICY_ACT(n, i, o)                                                                        \
    KERNEL("linear_forward", "policy acts N=" #n " I=" #i " O=" #o, "GFLOP/s", NULL, .E = 1,       \
           .N = n, .I = i, .O = o, .work = 2e-9 * (n) * (i) * (o), .make = make_linear,            \
           .run = run_linear_forward)
#define POLICY_LEARN(name_, n, i, o)                                                               \
    KERNEL(#name_, "policy learns E=8 N=" #n " I=" #i " O=" #o, "GFLOP/s", NULL, .E = 8, .N = n,   \
           .I = i, .O = o, .work = 2e-9 * 8 * (n) * (i) * (o), .make = make_linear,                \
           .run = run_##name_)
#define POLICY_LEARN_ALL(n, i, o)                                                                  \
    POLICY_LEARN(linear_forward, n, i, o), POLICY_LEARN(linear_backward_input, n, i, o),           \
        POLICY_LEARN(linear_backward_weight, n, i, o)
#define POLICY_LSTM(name_, what, e, t, n, d, n_products)                                           \
    KERNEL(#name_, "policy " what " E=" #e " T=" #t " N=" #n " D=" #d, "GFLOP/s", NULL, .E = e,    \
           .N = n, .I = d, .O = d, .T = t, .is_shared = 1,                                         \
           .work = 2e-9 * (n_products) * (e) * (t) * (n)*4.0 * (d) * (d), .make = make_lstm,       \
           .run = run_##name_)
#define POLICY_LSTM_LEARN(n, d)                                                                    \
    POLICY_LSTM(lstm_forward, "learns", 8, 30, n, d, 2),                                           \
        POLICY_LSTM(lstm_backward, "learns", 8, 30, n, d, 4)
#define POLICY_NORM(name_, n_passes)                                                               \
    KERNEL(#name_, "policy learns E=8 N=480 D=512", "GB/s", NULL, .E = 8, .N = 480, .O = 512,      \
           .work = 4e-9 * (n_passes)*8 * 480 * 512, .make = make_layernorm, .run = run_##name_)

static const EsBenchCase cases[] = {
    CONV2D_ALL(3, 8, 32),
    CONV2D_ALL(8, 16, 16),
    CONV2D_ALL(16, 32, 8),
    MAPS(batchnorm_statistics, make_maps, 1),
    MAPS(batchnorm_apply, make_maps, 2),
    MAPS(batchnorm_backward_sums, make_maps, 2),
    MAPS(batchnorm_backward_input, make_maps, 3),
    MAPS(activation_forward, make_maps, 2),
    MAPS(activation_backward, make_maps, 3),
    MAPS(pool_forward, make_pool, 1.25),
    MAPS(pool_backward, make_pool, 2.25),
    LINEAR(linear_forward),
    LINEAR(linear_backward_input),
    LINEAR(linear_backward_weight),
    KERNEL("cross_entropy_forward", "E=4 N=128 K=10", "GB/s", NULL, .E = 4, .N = 128,
           .O = N_CLASSES, .work = 4e-9 * 4 * 128 * 10, .make = make_cross_entropy,
           .run = run_cross_entropy_forward),
    KERNEL("cross_entropy_backward", "E=4 N=128 K=10", "GB/s", NULL, .E = 4, .N = 128,
           .O = N_CLASSES, .work = 8e-9 * 4 * 128 * 10, .make = make_cross_entropy,
           .run = run_cross_entropy_backward),
    KERNEL("matmul", "E=1 M=64 K=512 N=2048", "GFLOP/s", "b stored transposed", .E = 1, .N = 64,
           .I = 512, .O = 2048, .work = 2e-9 * 64 * 512 * 2048, .make = make_matmul,
           .run = run_matmul),
    LSTM(lstm_forward, 1, 2),
    LSTM(lstm_forward, 8, 2),
    LSTM(lstm_forward, 30, 2),
    LSTM(lstm_backward, 1, 4),
    LSTM(lstm_backward, 8, 4),
    LSTM(lstm_backward, 30, 4),
    POLICY_ACT(1, 512, 2048),
    POLICY_ACT(16, 512, 2048),
    POLICY_ACT(64, 512, 2048),
    POLICY_ACT(64, 512, 512),
    POLICY_ACT(1, 128, 512),
    POLICY_ACT(64, 256, 13),
    POLICY_ACT(1, 64, 256),
    POLICY_ACT(64, 64, 256),
    POLICY_LEARN_ALL(480, 512, 512),
    POLICY_LEARN_ALL(60, 64, 32),
    POLICY_LEARN_ALL(480, 256, 13),
    POLICY_LSTM(lstm_forward, "acts", 1, 1, 1, 512, 2),
    POLICY_LSTM(lstm_forward, "acts", 1, 1, 64, 512, 2),
    POLICY_LSTM(lstm_forward, "acts", 1, 1, 16, 64, 2),
    POLICY_LSTM_LEARN(2, 512),
    POLICY_LSTM_LEARN(16, 512),
    POLICY_LSTM_LEARN(2, 64),
    POLICY_LSTM_LEARN(16, 64),
    POLICY_NORM(layernorm_forward, 2),
    POLICY_NORM(layernorm_backward, 5),
    KERNEL("adam_step", "policy learns P=4006502", "GB/s", NULL, .E = 1, .P = 4006502,
           .work = 4e-9 * 7 * 4006502, .make = make_parameters, .run = run_adam_step),
    SLAB(slab_norms, 1),
    SLAB(slab_clip, 2),
    SLAB(sgd_step, 5),
    SLAB(adam_step, 7),
    KERNEL("gather_order", "E=4 N=128 M=2000", "GB/s", NULL, .E = 4, .N = 128, .O = 3, .H = 32,
           .work = 4e-9 * 4 * 128, .make = make_gather, .run = run_gather_order),
    KERNEL("gather_images", "E=4 N=128 C=3 H=32", "GB/s", NULL, .E = 4, .N = 128, .O = 3, .H = 32,
           .work = 5e-9 * 4 * 128 * 3 * 32 * 32, .make = make_gather, .run = run_gather_images),
};

const EsBenchSuite es_bench_kernels = {
    .name = "kernels",
    .summary = "single operations at the shapes of the hosts and the policy",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
};
