// The kernels of PPO: thread per environment (advantages), per row and head (terms, gradients),
// and sums over rows in a fixed tree. The arithmetic is that of the rules, without contraction.
//
// R rows, K heads.
#include "kernels/cuda/cuda_common.cuh"
#include "learning/ppo_internal.h"
#include "learning/ppo_rules.h"
#include "learning/rollout_rules.h"

#define SUM_THREADS 128

static dim3 blocks_for(int64_t n_threads) {
    return dim3((unsigned)es_ceil_div(n_threads, SUM_THREADS));
}

static __device__ __forceinline__ int64_t thread_index(void) {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

// Logits of the heads before h.
static __device__ __forceinline__ int head_offset(const EsPolicyShape *shape, int h) {
    int offset = 0;
    for (int before = 0; before < h; before++) {
        offset += shape->head_size[before];
    }
    return offset;
}

// --- rows ---

static __global__ void finish_kernel(EsRolloutView rows, EsAdvantageOptions options) {
    int64_t env = thread_index();
    if (env < rows.shape.n_envs) {
        es_rollout_view_finish(&rows, env, &options);
    }
}

void es_ppo_finish_cuda(EsStream *stream, const EsRolloutView *rows,
                        const EsAdvantageOptions *options) {
    EsLaunch launch(stream, "ppo_finish");
    launch.start(finish_kernel, blocks_for(rows->shape.n_envs), SUM_THREADS, *rows, *options);
}

static __global__ void scale_kernel(EsRolloutView rows, EsPpoScales scales, float *advantage,
                                    float *value_target) {
    int64_t row = thread_index();
    if (row < rows.n_rows) {
        double distance = (double)rows.advantage[row] - scales.advantage_mean;
        advantage[row] = rows.is_valid[row] ? (float)(distance / scales.advantage_divisor) : 0.0f;
        value_target[row] = (float)((double)rows.returns[row] / scales.value);
    }
}

void es_ppo_scale_cuda(EsStream *stream, const EsRolloutView *rows, const EsPpoScales *scales,
                       float *advantage, float *value_target) {
    EsLaunch launch(stream, "ppo_scale");
    launch.start(scale_kernel, blocks_for(rows->n_rows), SUM_THREADS, *rows, *scales, advantage,
                 value_target);
}

// --- loss ---

// Thread (h, row), so that the threads of a warp have heads of one size.
static __global__ void terms_kernel(EsPpoProblem p, double *log_probability, EsPpoSpace space) {
    int64_t R = p.rollout.n_rows;
    const EsPolicyShape *shape = &p.rollout.shape.policy;
    int64_t i = thread_index();
    if (i >= R * shape->n_heads) {
        return;
    }
    int h = (int)(i / R);
    int64_t row = i % R, at = row * shape->n_heads + h;
    double scratch[ES_CHOICE_MAX];
    EsPpoHeadTerms terms = {0, 0, 0};
    if (es_ppo_trains_actor(&p, row) && es_ppo_head_counts(&p, row, h)) {
        terms = es_ppo_head_terms(&p, row, h, head_offset(shape, h), scratch);
    }
    log_probability[at] = terms.log_probability;
    space.entropy[at] = terms.entropy;
    space.n_legal[at] = terms.n_legal;
}

static __device__ __forceinline__ EsPpoHeadTerms load_terms(const EsPpoSpace *space,
                                                            const double *log_probability,
                                                            int64_t at) {
    EsPpoHeadTerms terms = {log_probability[at], space->entropy[at], space->n_legal[at]};
    return terms;
}

static __device__ __forceinline__ void join(EsPpoHeadLoss *sums, const EsPpoHeadLoss *more) {
    es_ppo_head_join(sums, more);
}
static __device__ __forceinline__ void join(EsPpoRowSums *sums, const EsPpoRowSums *more) {
    es_ppo_rows_join(sums, more);
}
static __device__ __forceinline__ void join(EsPpoPair *sums, const EsPpoPair *more) {
    sums->n += more->n;
    sums->mean_x += more->mean_x;
    sums->mean_y += more->mean_y;
    sums->xx += more->xx;
    sums->yy += more->yy;
    sums->xy += more->xy;
    sums->ee += more->ee;
}

// parts [blockDim.x], a power of two; the sum of all ends in parts[0], and every thread may read
// it.
template <typename Sums> static __device__ void join_block(Sums *parts) {
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            join(&parts[threadIdx.x], &parts[threadIdx.x + half]);
        }
    }
    __syncthreads();
}

static __device__ void sum_head(const EsPpoProblem &p, const double *log_probability,
                                const EsPpoSpace &space, int h, int64_t first, int64_t end,
                                EsPpoHeadLoss *parts) {
    int n_heads = p.rollout.shape.policy.n_heads;
    EsPpoHeadLoss sums;
    memset(&sums, 0, sizeof sums);
    for (int64_t row = first + threadIdx.x; row < end; row += blockDim.x) {
        if (es_ppo_trains_actor(&p, row) && es_ppo_head_counts(&p, row, h)) {
            EsPpoHeadTerms terms = load_terms(&space, log_probability, row * n_heads + h);
            es_ppo_head_add(&p, row, h, &terms, &sums);
        }
    }
    parts[threadIdx.x] = sums;
    join_block(parts);
}

static __device__ void sum_rows(const EsPpoProblem &p, const double *log_probability,
                                const EsPpoSpace &space, int64_t first, int64_t end,
                                EsPpoRowSums *parts) {
    int n_heads = p.rollout.shape.policy.n_heads;
    EsPpoRowSums sums = es_ppo_rows_start();
    for (int64_t row = first + threadIdx.x; row < end; row += blockDim.x) {
        if (!p.rollout.is_valid[row]) {
            continue;
        }
        es_ppo_add_values(&p, row, &sums);
        if (!es_ppo_trains_actor(&p, row)) {
            continue;
        }
        double joint = 0;
        for (int h = 0; h < n_heads; h++) {
            if (es_ppo_head_counts(&p, row, h)) {
                EsPpoHeadTerms terms = load_terms(&space, log_probability, row * n_heads + h);
                es_ppo_add_choice(&p, row, h, &terms, &joint, &sums);
            }
        }
        es_ppo_add_joint(&p, joint, &sums);
    }
    parts[threadIdx.x] = sums;
    join_block(parts);
}

// Block (head, chunk): the sums of one head, or after the last head those of rows.
static __global__ void sums_kernel(EsPpoProblem p, const double *log_probability,
                                   EsPpoSpace space) {
    __shared__ EsPpoHeadLoss head_parts[SUM_THREADS];
    __shared__ EsPpoRowSums row_parts[SUM_THREADS];
    int h = (int)(blockIdx.x / ES_PPO_CHUNKS), chunk = (int)(blockIdx.x % ES_PPO_CHUNKS);
    int64_t R = p.rollout.n_rows;
    int64_t first = R * chunk / ES_PPO_CHUNKS, end = R * (chunk + 1) / ES_PPO_CHUNKS;
    if (h < p.rollout.shape.policy.n_heads) {
        sum_head(p, log_probability, space, h, first, end, head_parts);
        if (threadIdx.x == 0) {
            space.head_parts[blockIdx.x] = head_parts[0];
        }
    } else {
        sum_rows(p, log_probability, space, first, end, row_parts);
        if (threadIdx.x == 0) {
            space.row_parts[chunk] = row_parts[0];
        }
    }
}

// One block, a thread per head.
static __global__ void close_kernel(EsPpoProblem p, EsPpoSpace space) {
    EsPpoLoss *loss = &space.numbers->loss;
    int h = (int)threadIdx.x;
    if (h < p.rollout.shape.policy.n_heads) {
        EsPpoHeadLoss sums = space.head_parts[h * ES_PPO_CHUNKS];
        for (int chunk = 1; chunk < ES_PPO_CHUNKS; chunk++) {
            es_ppo_head_join(&sums, &space.head_parts[h * ES_PPO_CHUNKS + chunk]);
        }
        loss->head[h] = sums;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        EsPpoRowSums sums = space.row_parts[0];
        for (int chunk = 1; chunk < ES_PPO_CHUNKS; chunk++) {
            es_ppo_rows_join(&sums, &space.row_parts[chunk]);
        }
        es_ppo_close(&p, &sums, loss);
    }
}

void es_ppo_loss_cuda(EsStream *stream, const EsPpoProblem *problem, double *log_probability,
                      const EsPpoSpace *space) {
    int64_t K = problem->rollout.shape.policy.n_heads;
    EsLaunch launch(stream, "ppo_loss");
    launch.start(terms_kernel, blocks_for(problem->rollout.n_rows * K), SUM_THREADS, *problem,
                 log_probability, *space);
    launch.start(sums_kernel, dim3((unsigned)(K + 1) * ES_PPO_CHUNKS), SUM_THREADS, *problem,
                 log_probability, *space);
    launch.start(close_kernel, 1, 32, *problem, *space);
}

// --- targets ---

// One sweep of a thread over measured targets: means first, then products around them.
static __device__ void sweep_targets(const EsPpoProblem &p, int is_second, EsPpoPair *pair) {
    int64_t n_targets = p.rollout.shape.n_targets, n = p.rollout.n_rows * n_targets;
    for (int64_t at = threadIdx.x; at < n; at += blockDim.x) {
        int64_t row = at / n_targets;
        if (!p.rollout.is_valid[row] || !p.rollout.has_target[at]) {
            continue;
        }
        int64_t from = es_output_row(&p.rollout.shape, p.shard_envs, row) * n_targets;
        double guess = (double)p.outputs.auxiliary[from + at % n_targets];
        if (is_second) {
            es_ppo_pair_add_products(pair, es_ppo_target(&p, at), guess);
        } else {
            es_ppo_pair_add_means(pair, es_ppo_target(&p, at), guess);
        }
    }
}

static __global__ void targets_kernel(EsPpoProblem p, EsPpoPair *result) {
    __shared__ EsPpoPair parts[SUM_THREADS];
    EsPpoPair pair = {0, 0, 0, 0, 0, 0, 0};
    sweep_targets(p, 0, &pair);
    parts[threadIdx.x] = pair;
    join_block(parts);
    EsPpoPair means = parts[0];
    es_ppo_pair_close_means(&means);
    pair = means;
    sweep_targets(p, 1, &pair);
    pair.n = pair.mean_x = pair.mean_y = 0;
    __syncthreads(); // the sums of the first sweep were read
    parts[threadIdx.x] = pair;
    join_block(parts);
    if (threadIdx.x == 0) {
        *result = parts[0];
        result->n = means.n;
        result->mean_x = means.mean_x;
        result->mean_y = means.mean_y;
    }
}

void es_ppo_compare_targets_cuda(EsStream *stream, const EsPpoProblem *problem,
                                 const EsPpoSpace *space) {
    EsLaunch launch(stream, "ppo_compare_targets");
    launch.start(targets_kernel, 1, SUM_THREADS, *problem, &space->numbers->targets);
}

// --- gradients ---

static __device__ void clear_values(const EsPpoProblem &p, int64_t row,
                                    const EsOutputs &gradients) {
    int64_t to = es_output_row(&p.rollout.shape, p.shard_envs, row);
    int64_t n_targets = gradients.auxiliary != NULL ? p.rollout.shape.n_targets : 0;
    gradients.value[to] = 0.0f;
    if (gradients.action_value != NULL) {
        gradients.action_value[to] = 0.0f;
    }
    for (int64_t k = 0; k < n_targets; k++) {
        gradients.auxiliary[to * n_targets + k] = 0.0f;
    }
}

// Thread (h, row): the logits of one head, or after the last head the values of the row.
static __global__ void gradient_kernel(EsPpoProblem p, const double *log_probability,
                                       const EsPpoLoss *loss, EsOutputs gradients) {
    int64_t R = p.rollout.n_rows, i = thread_index();
    const EsPolicyShape *shape = &p.rollout.shape.policy;
    if (i >= R * (shape->n_heads + 1)) {
        return;
    }
    int h = (int)(i / R);
    int64_t row = i % R;
    if (h == shape->n_heads) {
        clear_values(p, row, gradients);
        if (p.rollout.is_valid[row]) {
            es_ppo_value_gradient(&p, row, loss, &gradients);
        }
        return;
    }
    double scratch[ES_CHOICE_MAX];
    int offset = head_offset(shape, h);
    float *d_logits = gradients.logits +
                      es_output_row(&p.rollout.shape, p.shard_envs, row) * shape->n_logits + offset;
    for (int k = 0; k < shape->head_size[h]; k++) {
        d_logits[k] = 0.0f;
    }
    if (es_ppo_trains_actor(&p, row)) {
        es_ppo_head_gradient(&p, row, h, offset, log_probability[row * shape->n_heads + h], loss,
                             scratch, gradients.logits);
    }
}

void es_ppo_gradient_cuda(EsStream *stream, const EsPpoProblem *problem,
                          const double *log_probability, const EsPpoSpace *space,
                          const EsOutputs *gradients) {
    int64_t n_parts = problem->rollout.shape.policy.n_heads + 1;
    EsLaunch launch(stream, "ppo_gradient");
    launch.start(gradient_kernel, blocks_for(problem->rollout.n_rows * n_parts), SUM_THREADS,
                 *problem, log_probability, &space->numbers->loss, *gradients);
}
