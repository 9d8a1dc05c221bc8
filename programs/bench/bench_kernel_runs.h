// What the suite "kernels" measures: the tensors that an operation needs, and one call of it.
//
// Letters: E environments, N images or rows, I O channels or features in and out, H height = width,
// T time, P parameters.
#ifndef ES_PROGRAMS_BENCH_KERNEL_RUNS_H
#define ES_PROGRAMS_BENCH_KERNEL_RUNS_H

#include "kernels/kernels.h"

#define ES_BENCH_TENSORS_MAX 24

typedef struct EsKernelState EsKernelState;

typedef struct EsKernelSettings {
    int64_t E, N, I, O, H, T, P;
    int is_shared; // all environments read the weights of the first
    double work;   // in units of 1e9: GFLOP or GB of one run
    EsStatus (*make)(EsKernelState *state);
    void (*run)(EsKernelState *state);
} EsKernelSettings;

struct EsKernelState {
    EsDevice *device;         // borrowed
    EsStream *stream;         // borrowed
    const EsKernels *kernels; // borrowed
    EsKernelSettings settings;
    int variant;                        // the one to run
    void *memory[ES_BENCH_TENSORS_MAX]; // owned, device memory of the tensors below
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

// Allocate and fill the tensors of a family by its settings. What was allocated is in `memory`,
// also on failure.
EsStatus es_bench_make_conv2d(EsKernelState *state);
EsStatus es_bench_make_maps(EsKernelState *state);
EsStatus es_bench_make_pool(EsKernelState *state);
EsStatus es_bench_make_linear(EsKernelState *state);
EsStatus es_bench_make_layernorm(EsKernelState *state);
EsStatus es_bench_make_matmul(EsKernelState *state);
EsStatus es_bench_make_cross_entropy(EsKernelState *state);
EsStatus es_bench_make_lstm(EsKernelState *state);
EsStatus es_bench_make_slab(EsKernelState *state);
EsStatus es_bench_make_parameters(EsKernelState *state);
EsStatus es_bench_make_gather(EsKernelState *state);

// Queue one operation; the tensors are those of its family.
void es_bench_run_conv2d_forward(EsKernelState *s);
void es_bench_run_conv2d_backward_input(EsKernelState *s);
void es_bench_run_conv2d_backward_weight(EsKernelState *s);
void es_bench_run_batchnorm_statistics(EsKernelState *s);
void es_bench_run_batchnorm_apply(EsKernelState *s);
void es_bench_run_batchnorm_backward_sums(EsKernelState *s);
void es_bench_run_batchnorm_backward_input(EsKernelState *s);
void es_bench_run_activation_forward(EsKernelState *s);
void es_bench_run_activation_backward(EsKernelState *s);
void es_bench_run_pool_forward(EsKernelState *s);
void es_bench_run_pool_backward(EsKernelState *s);
void es_bench_run_linear_forward(EsKernelState *s);
void es_bench_run_linear_backward_input(EsKernelState *s);
void es_bench_run_linear_backward_weight(EsKernelState *s);
void es_bench_run_layernorm_forward(EsKernelState *s);
void es_bench_run_layernorm_backward(EsKernelState *s);
void es_bench_run_matmul(EsKernelState *s);
void es_bench_run_cross_entropy_forward(EsKernelState *s);
void es_bench_run_cross_entropy_backward(EsKernelState *s);
void es_bench_run_lstm_forward(EsKernelState *s);
void es_bench_run_lstm_backward(EsKernelState *s);
void es_bench_run_slab_norms(EsKernelState *s);
void es_bench_run_slab_clip(EsKernelState *s);
void es_bench_run_sgd_step(EsKernelState *s);
void es_bench_run_adam_step(EsKernelState *s);
void es_bench_run_gather_order(EsKernelState *s);
void es_bench_run_gather_images(EsKernelState *s);

#endif
