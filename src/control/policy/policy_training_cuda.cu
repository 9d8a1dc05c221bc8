// Kernels of policy_training_device.c: rows of a rollout into the inputs of the training plan, and
// norms into a report.
#include "control/policy/policy_training_internal.h"
#include "kernels/cuda/cuda_common.cuh"

// A thread per value of a column: row r of the rollout becomes a row of the shards.
template <typename T>
static __global__ void scatter_kernel(EsRolloutShape shape, int64_t shard_envs, int64_t width,
                                      const T *from, T *to) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < shape.n_steps * shape.n_envs * width) {
        to[es_output_row(&shape, shard_envs, i / width) * width + i % width] = from[i];
    }
}

static __global__ void scatter_ops_kernel(EsRolloutShape shape, int64_t shard_envs,
                                          const int16_t *action, float *one_hot) {
    int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < shape.n_steps * shape.n_envs) {
        float *to = one_hot + es_output_row(&shape, shard_envs, row) * ES_N_GROWTH_OPS;
        int op = action[row * shape.policy.n_heads + ES_HEAD_OP];
        for (int k = 0; k < ES_N_GROWTH_OPS; k++) {
            to[k] = k == op ? 1.0f : 0.0f;
        }
    }
}

template <typename T>
static void scatter(EsLaunch *launch, const EsRolloutView *rows, int64_t shard_envs, int64_t width,
                    const T *from, T *to) {
    dim3 grid((unsigned)es_ceil_div(rows->n_rows * width, ES_THREADS));
    launch->start(scatter_kernel<T>, grid, ES_THREADS, rows->shape, shard_envs, width, from, to);
}

void es_policy_scatter_cuda(EsStream *stream, const EsRolloutView *rows, int64_t shard_envs,
                            const EsPolicyRowInputs *inputs) {
    EsLaunch launch(stream, "policy_scatter");
    scatter(&launch, rows, shard_envs, rows->shape.n_features, rows->features, inputs->features);
    scatter(&launch, rows, shard_envs, rows->shape.n_ids, rows->ids, inputs->blueprints);
    scatter(&launch, rows, shard_envs, 1, rows->is_reset, inputs->is_reset);
    dim3 grid((unsigned)es_ceil_div(rows->n_rows, ES_THREADS));
    launch.start(scatter_ops_kernel, grid, ES_THREADS, rows->shape, shard_envs, rows->action,
                 inputs->op);
}

// One thread: there are some forty tensors.
static __global__ void report_kernel(int n_tensors, const int32_t *part_of,
                                     const double *sum_squares, const int32_t *n_nonfinite,
                                     EsStepReport *report) {
    es_policy_fill_report(n_tensors, part_of, sum_squares, n_nonfinite, report);
}

void es_policy_report_cuda(EsStream *stream, int n_tensors, const int32_t *part_of,
                           const double *sum_squares, const int32_t *n_nonfinite,
                           EsStepReport *report) {
    EsLaunch launch(stream, "policy_report");
    launch.start(report_kernel, 1, 1, n_tensors, part_of, sum_squares, n_nonfinite, report);
}
