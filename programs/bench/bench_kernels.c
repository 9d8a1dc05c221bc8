// The suite "kernels": single operations at the shapes of the `cifar_baseline` host (3-8-16-32
// channels, 32x32 images, 6,418 parameters) and of the policy network. f32 on every device.
//
// Letters: E environments, N images or rows, I O channels or features in and out, H height = width,
// T time, P parameters.
#include <string.h>

#include "base/memory.h"
#include "bench/bench_kernel_runs.h"
#include "bench/bench_suite.h"

#define N_CLASSES 10

static void end_kernel(void *context) {
    EsKernelState *state = context;
    for (int i = 0; i < state->n_tensors; i++) {
        es_device_release(state->device, state->memory[i]);
    }
    es_release(state);
}

static EsStatus begin_kernel(const EsBenchCase *bench_case, const EsBench *bench, void **context) {
    EsKernelState *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->device = bench->device;
    state->stream = bench->stream;
    state->kernels = es_kernels_of(bench->device);
    memcpy(&state->settings, bench_case->settings, sizeof state->settings);
    EsStatus status = state->settings.make(state);
    if (status != ES_STATUS_OK) {
        end_kernel(state);
        return status;
    }
    *context = state;
    return ES_STATUS_OK;
}

static EsStatus run_kernel(void *context, int variant) {
    EsKernelState *state = context;
    state->variant = variant;
    state->settings.run(state);
    return ES_STATUS_OK;
}

static double kernel_work(const EsBenchCase *bench_case) {
    const EsKernelSettings *settings = bench_case->settings;
    return settings->work;
}

#define KERNEL(name_, parameters_, unit_, peer_, ...)                                              \
    {                                                                                              \
        .name = name_, .parameters = parameters_,                                                  \
        .settings = &(const EsKernelSettings){__VA_ARGS__}, .begin = begin_kernel,                 \
        .run = run_kernel, .end = end_kernel, .work = kernel_work, .rate_unit = unit_,             \
        .peer = peer_                                                                              \
    }

// 2 I O 9 operations per position
#define CONV2D(name_, i, o, h)                                                                     \
    KERNEL(#name_, "E=4 N=128 I=" #i " O=" #o " H=" #h, "GFLOP/s", NULL, .E = 4, .N = 128, .I = i, \
           .O = o, .H = h, .work = 2e-9 * 4 * 128 * 9 * (i) * (o) * (h) * (h),                     \
           .make = es_bench_make_conv2d, .run = es_bench_run_##name_)
#define CONV2D_ALL(i, o, h)                                                                        \
    CONV2D(conv2d_forward, i, o, h), CONV2D(conv2d_backward_input, i, o, h),                       \
        CONV2D(conv2d_backward_weight, i, o, h)

// n_passes = how many times a whole map is read or written
#define MAPS(name_, make_, n_passes)                                                               \
    KERNEL(#name_, "E=4 N=128 C=8 H=32", "GB/s", NULL, .E = 4, .N = 128, .O = 8, .H = 32,          \
           .work = 4e-9 * (n_passes)*4 * 128 * 8 * 32 * 32, .make = make_,                         \
           .run = es_bench_run_##name_)

#define LINEAR(name_)                                                                              \
    KERNEL(#name_, "E=4 N=128 I=32 O=10", "GFLOP/s", NULL, .E = 4, .N = 128, .I = 32, .O = 10,     \
           .work = 2e-9 * 4 * 128 * 32 * 10, .make = es_bench_make_linear,                         \
           .run = es_bench_run_##name_)

// products with the input and the recurrent weights; backward does each twice
#define LSTM(name_, n_steps, n_products)                                                           \
    KERNEL(#name_, "T=" #n_steps " N=64 D=128", "GFLOP/s", NULL, .E = 1, .N = 64, .I = 128,        \
           .O = 128, .T = n_steps, .work = 2e-9 * (n_products) * (n_steps)*64 * 4 * 128 * 128,     \
           .make = es_bench_make_lstm, .run = es_bench_run_##name_)

#define SLAB(name_, n_passes)                                                                      \
    KERNEL(#name_, "E=64 P=6418", "GB/s", NULL, .E = 64, .P = 6418,                                \
           .work = 4e-9 * (n_passes)*64 * 6418, .make = es_bench_make_slab,                        \
           .run = es_bench_run_##name_)

// The policy network: acting is one step of n rows, training 8 shards of 30 steps that share the
// weights.
#define POLICY_ACT(n, i, o)                                                                        \
    KERNEL("linear_forward", "policy acts N=" #n " I=" #i " O=" #o, "GFLOP/s", NULL, .E = 1,       \
           .N = n, .I = i, .O = o, .work = 2e-9 * (n) * (i) * (o), .make = es_bench_make_linear,   \
           .run = es_bench_run_linear_forward)
#define POLICY_LEARN(name_, n, i, o)                                                               \
    KERNEL(#name_, "policy learns E=8 N=" #n " I=" #i " O=" #o, "GFLOP/s", NULL, .E = 8, .N = n,   \
           .I = i, .O = o, .work = 2e-9 * 8 * (n) * (i) * (o), .make = es_bench_make_linear,       \
           .run = es_bench_run_##name_)
#define POLICY_LEARN_ALL(n, i, o)                                                                  \
    POLICY_LEARN(linear_forward, n, i, o), POLICY_LEARN(linear_backward_input, n, i, o),           \
        POLICY_LEARN(linear_backward_weight, n, i, o)
#define POLICY_LSTM(name_, what, e, t, n, d, n_products)                                           \
    KERNEL(#name_, "policy " what " E=" #e " T=" #t " N=" #n " D=" #d, "GFLOP/s", NULL, .E = e,    \
           .N = n, .I = d, .O = d, .T = t, .is_shared = 1,                                         \
           .work = 2e-9 * (n_products) * (e) * (t) * (n)*4.0 * (d) * (d),                          \
           .make = es_bench_make_lstm, .run = es_bench_run_##name_)
#define POLICY_LSTM_LEARN(n, d)                                                                    \
    POLICY_LSTM(lstm_forward, "learns", 8, 30, n, d, 2),                                           \
        POLICY_LSTM(lstm_backward, "learns", 8, 30, n, d, 4)
#define POLICY_NORM(name_, n_passes)                                                               \
    KERNEL(#name_, "policy learns E=8 N=480 D=512", "GB/s", NULL, .E = 8, .N = 480, .O = 512,      \
           .work = 4e-9 * (n_passes)*8 * 480 * 512, .make = es_bench_make_layernorm,               \
           .run = es_bench_run_##name_)

static const EsBenchCase cases[] = {
    CONV2D_ALL(3, 8, 32),
    CONV2D_ALL(8, 16, 16),
    CONV2D_ALL(16, 32, 8),
    MAPS(batchnorm_statistics, es_bench_make_maps, 1),
    MAPS(batchnorm_apply, es_bench_make_maps, 2),
    MAPS(batchnorm_backward_sums, es_bench_make_maps, 2),
    MAPS(batchnorm_backward_input, es_bench_make_maps, 3),
    MAPS(activation_forward, es_bench_make_maps, 2),
    MAPS(activation_backward, es_bench_make_maps, 3),
    MAPS(pool_forward, es_bench_make_pool, 1.25),
    MAPS(pool_backward, es_bench_make_pool, 2.25),
    LINEAR(linear_forward),
    LINEAR(linear_backward_input),
    LINEAR(linear_backward_weight),
    KERNEL("cross_entropy_forward", "E=4 N=128 K=10", "GB/s", NULL, .E = 4, .N = 128,
           .O = N_CLASSES, .work = 4e-9 * 4 * 128 * 10, .make = es_bench_make_cross_entropy,
           .run = es_bench_run_cross_entropy_forward),
    KERNEL("cross_entropy_backward", "E=4 N=128 K=10", "GB/s", NULL, .E = 4, .N = 128,
           .O = N_CLASSES, .work = 8e-9 * 4 * 128 * 10, .make = es_bench_make_cross_entropy,
           .run = es_bench_run_cross_entropy_backward),
    KERNEL("matmul", "E=1 M=64 K=512 N=2048", "GFLOP/s", "b stored transposed", .E = 1, .N = 64,
           .I = 512, .O = 2048, .work = 2e-9 * 64 * 512 * 2048, .make = es_bench_make_matmul,
           .run = es_bench_run_matmul),
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
           .work = 4e-9 * 7 * 4006502, .make = es_bench_make_parameters,
           .run = es_bench_run_adam_step),
    SLAB(slab_norms, 1),
    SLAB(slab_clip, 2),
    SLAB(sgd_step, 5),
    SLAB(adam_step, 7),
    KERNEL("gather_order", "E=4 N=128 M=2000", "GB/s", NULL, .E = 4, .N = 128, .O = 3, .H = 32,
           .work = 4e-9 * 4 * 128, .make = es_bench_make_gather, .run = es_bench_run_gather_order),
    KERNEL("gather_images", "E=4 N=128 C=3 H=32", "GB/s", NULL, .E = 4, .N = 128, .O = 3, .H = 32,
           .work = 5e-9 * 4 * 128 * 3 * 32 * 32, .make = es_bench_make_gather,
           .run = es_bench_run_gather_images),
};

const EsBenchSuite es_bench_kernels = {
    .name = "kernels",
    .summary = "single operations at the shapes of the hosts and the policy",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
};
