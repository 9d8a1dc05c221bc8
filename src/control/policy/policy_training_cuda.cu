// Kernels of policy_training_device.c: rows of a rollout into the inputs of the training plan, and
// norms into a report.
#include "control/policy/policy_training_internal.h"
#include "kernels/cuda/cuda_common.cuh"

// The values `first` to first + width of a row of `pitch` values.
struct Columns {
    int64_t first, width, pitch;
};

// A thread per value: row r of the rollout becomes a row of the shards.
template <typename T>
static __global__ void scatter_kernel(EsRolloutShape shape, int64_t shard_envs, Columns columns,
                                      const T *from, T *to) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < shape.n_steps * shape.n_envs * columns.width) {
        int64_t row = i / columns.width, column = i % columns.width;
        to[es_output_row(&shape, shard_envs, row) * columns.width + column] =
            from[row * columns.pitch + columns.first + column];
    }
}

static __global__ void scatter_ops_kernel(EsRolloutShape shape, int64_t shard_envs,
                                          const int16_t *action, const int32_t *ids,
                                          EsPolicyRowInputs inputs) {
    int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < shape.n_steps * shape.n_envs) {
        int64_t to = es_output_row(&shape, shard_envs, row);
        int op = action[row * shape.policy.n_heads + ES_HEAD_OP];
        for (int k = 0; k < ES_N_GROWTH_OPS; k++) {
            inputs.op[to * ES_N_GROWTH_OPS + k] = k == op ? 1.0f : 0.0f;
        }
        if (inputs.is_set) {
            es_policy_set_choice(&inputs, to, op,
                                 action[row * shape.policy.n_heads + ES_HEAD_SLOT]);
            es_policy_set_shares(&inputs, to, ids + row * shape.n_ids);
        }
    }
}

template <typename T>
static void scatter(EsLaunch *launch, const EsRolloutView *rows, int64_t shard_envs,
                    Columns columns, const T *from, T *to) {
    dim3 grid((unsigned)es_ceil_div(rows->n_rows * columns.width, ES_THREADS));
    launch->start(scatter_kernel<T>, grid, ES_THREADS, rows->shape, shard_envs, columns, from, to);
}

void es_policy_scatter_cuda(EsStream *stream, const EsRolloutView *rows, int64_t shard_envs,
                            const EsPolicyRowInputs *inputs) {
    EsLaunch launch(stream, "policy_scatter");
    int64_t D = rows->shape.n_features, n_ids = rows->shape.n_ids;
    int64_t n_own = inputs->is_set ? ES_SET_OBSERVATION_HOST : D;
    scatter(&launch, rows, shard_envs, Columns{0, n_own, D}, rows->features, inputs->features);
    if (inputs->is_set) {
        scatter(&launch, rows, shard_envs, Columns{n_own, D - n_own, D}, rows->features,
                inputs->slots);
    } else {
        scatter(&launch, rows, shard_envs, Columns{0, n_ids, n_ids}, rows->ids, inputs->blueprints);
    }
    scatter(&launch, rows, shard_envs, Columns{0, 1, 1}, rows->is_reset, inputs->is_reset);
    dim3 grid((unsigned)es_ceil_div(rows->n_rows, ES_THREADS));
    launch.start(scatter_ops_kernel, grid, ES_THREADS, rows->shape, shard_envs, rows->action,
                 rows->ids, *inputs);
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
