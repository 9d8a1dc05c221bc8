// The instances that every environment runs, as rows of EsFusedSlot (in training one each, in
// validation one for every set of seeds that is switched off), and the results of a step.
#include "growth/cuda/growth_arrays.h"
#include "growth/rules/alpha_rules.h"
#include "kernels/cuda/cuda_common.cuh"

#define SCAN_THREADS 256

static __device__ EsFusedSlot empty_slot() {
    EsFusedSlot slot = {ES_NO_SEED, ES_BLEND_NONE, 0.0f, 0};
    return slot;
}

static __device__ EsFusedSlot slot_of(const EsGrowthArrays &arrays, int64_t i) {
    const EsSeedView &seed = arrays.state.seed;
    EsFusedSlot slot = {seed.blueprint[i], es_slot_blend_mode(seed.stage[i], seed.algorithm[i]),
                        seed.alpha[i], seed.algorithm[i] == ES_ALGORITHM_GATE};
    return slot;
}

// --- training ---

static __device__ void begin_env(const EsGrowthArrays &arrays, int64_t e) {
    for (int64_t i = e * arrays.n_slots; i < (e + 1) * arrays.n_slots; i++) {
        EsFusedSlot slot = slot_of(arrays, i);
        arrays.train_slots[i] = slot.mode == ES_BLEND_NONE ? empty_slot() : slot;
        arrays.seed_sums[i] = es_gradient_sums_empty();
    }
    arrays.host_sums[e] = es_gradient_sums_empty();
    arrays.results[e].host_gradient_norm = ES_NOT_MEASURED;
    arrays.train_loss[e] = 0;
    arrays.train_correct[e] = 0;
    arrays.n_invalid[e] = 0;
}

static __global__ void begin_step_kernel(const __grid_constant__ EsGrowthArrays arrays) {
    int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (i < arrays.n_envs) {
        begin_env(arrays, i);
    }
    if (i < arrays.step_batches) {
        // all environments are in the same step
        arrays.batch_number[i] =
            (int32_t)((arrays.state.env.step[0] - 1) * arrays.step_batches + i);
    }
}

void es_growth_cuda_begin_step(const EsGrowthArrays *arrays, EsStream *stream) {
    EsLaunch launch(stream, "growth_begin_step");
    int64_t count = ES_MAX((int64_t)arrays->n_envs, arrays->step_batches);
    launch.start(begin_step_kernel, dim3((unsigned)es_ceil_div(count, ES_THREADS)), ES_THREADS,
                 *arrays);
}

// --- trials ---

// The list depends on stages and alphas alone, so nothing else is read.
static __device__ EsAblation list_env(const EsGrowthArrays &arrays, int32_t e) {
    EsSeed seeds[ES_SLOTS_MAX];
    for (int32_t s = 0; s < arrays.n_slots; s++) {
        int64_t i = (int64_t)e * arrays.n_slots + s;
        seeds[s].stage = arrays.state.seed.stage[i];
        seeds[s].alpha = arrays.state.seed.alpha[i];
    }
    return es_ablation_list(arrays.settings, seeds);
}

// Inclusive sums of one number per thread, in the order of threads.
static __device__ int32_t scan_block(int32_t value) {
    __shared__ int32_t sums[SCAN_THREADS];
    sums[threadIdx.x] = value;
    __syncthreads();
    for (unsigned step = 1; step < SCAN_THREADS; step *= 2) {
        int32_t before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
        __syncthreads();
    }
    return sums[threadIdx.x];
}

// One block: lists of all environments, and the number of trials before each.
static __global__ void list_kernel(const __grid_constant__ EsGrowthArrays arrays) {
    __shared__ int32_t before;
    if (threadIdx.x == 0) {
        before = 0;
    }
    for (int32_t first = 0; first < arrays.n_envs; first += SCAN_THREADS) {
        int32_t e = first + (int32_t)threadIdx.x, count = 0;
        if (e < arrays.n_envs) {
            EsAblation list = list_env(arrays, e);
            arrays.ablations[e] = list;
            count = es_ablation_count(&list);
        }
        int32_t end = scan_block(count); // its barriers make `before` visible
        int32_t base = before;
        if (e < arrays.n_envs) {
            arrays.first_trial[e] = base + end - count;
        }
        __syncthreads();
        if (threadIdx.x == SCAN_THREADS - 1) {
            before = base + end;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *arrays.n_trials = before;
    }
}

static __device__ void fill_trial(const EsGrowthArrays &arrays, int64_t r, int64_t e, int32_t off) {
    for (int32_t s = 0; s < arrays.n_slots; s++) {
        int64_t i = e * arrays.n_slots + s;
        int is_on = es_slot_is_on(arrays.state.seed.stage[i], arrays.state.seed.alpha[i], off, s);
        arrays.trial_slots[r * arrays.n_slots + s] = is_on ? slot_of(arrays, i) : empty_slot();
    }
}

static __global__ void list_rows_kernel(const __grid_constant__ EsGrowthArrays arrays) {
    int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    int64_t e = i / arrays.max_patterns;
    int32_t k = (int32_t)(i % arrays.max_patterns);
    if (e >= arrays.n_envs || k >= es_ablation_count(&arrays.ablations[e])) {
        return;
    }
    int64_t r = arrays.first_trial[e] + k;
    int32_t off = es_ablation_slots_off(&arrays.ablations[e], k);
    arrays.trial_env[r] = (int32_t)e;
    arrays.trial_off[r] = off;
    fill_trial(arrays, r, e, off);
}

static __global__ void fill_rows_kernel(const __grid_constant__ EsGrowthArrays arrays, int64_t n) {
    int64_t r = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (r < n) {
        fill_trial(arrays, r, arrays.trial_env[r], arrays.trial_off[r]);
    }
}

void es_growth_cuda_list_trials(const EsGrowthArrays *arrays, EsStream *stream) {
    EsLaunch launch(stream, "growth_list_trials");
    int64_t n_rows = (int64_t)arrays->n_envs * arrays->max_patterns;
    launch.start(list_kernel, dim3(1), SCAN_THREADS, *arrays);
    launch.start(list_rows_kernel, dim3((unsigned)es_ceil_div(n_rows, ES_THREADS)), ES_THREADS,
                 *arrays);
}

void es_growth_cuda_fill_trials(const EsGrowthArrays *arrays, EsStream *stream, int64_t n) {
    EsLaunch launch(stream, "growth_fill_trials");
    launch.start(fill_rows_kernel, dim3((unsigned)es_ceil_div(n, ES_THREADS)), ES_THREADS, *arrays,
                 n);
}

// --- passes of evaluation ---

static __global__ void add_pass_kernel(const float *pass_loss, const int32_t *pass_correct,
                                       const int32_t *pass_invalid, float *loss, int32_t *correct,
                                       int32_t *invalid, int64_t n, float n_images, int adds) {
    int64_t r = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (r < n) {
        loss[r] = (adds ? loss[r] : 0.0f) + pass_loss[r] * n_images;
        correct[r] = (adds ? correct[r] : 0) + pass_correct[r];
        invalid[r] = (adds ? invalid[r] : 0) + pass_invalid[r];
    }
}

void es_growth_cuda_add_pass(EsStream *stream, const EsFusedResults *pass,
                             const EsFusedResults *results, int64_t n, int64_t n_images, int adds) {
    EsLaunch launch(stream, "growth_add_pass");
    launch.start(add_pass_kernel, dim3((unsigned)es_ceil_div(n, ES_THREADS)), ES_THREADS,
                 es_data<float>(&pass->loss), es_data<int32_t>(&pass->n_correct),
                 es_data<int32_t>(&pass->n_invalid), es_data<float>(&results->loss),
                 es_data<int32_t>(&results->n_correct), es_data<int32_t>(&results->n_invalid), n,
                 (float)n_images, adds);
}

// --- results ---

static __global__ void results_kernel(const __grid_constant__ EsGrowthArrays arrays) {
    int64_t e = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (e >= arrays.n_envs) {
        return;
    }
    EsGrowthResult *result = &arrays.results[e];
    double n_batches = (double)arrays.step_batches, n_images = (double)arrays.n_validation_images;
    result->train_loss = arrays.train_loss[e] / n_batches;
    result->train_accuracy =
        100.0 * (double)arrays.train_correct[e] / (double)(arrays.step_batches * arrays.batch);
    int64_t first = arrays.first_trial[e];
    int32_t n_invalid = 0;
    for (int32_t k = 0; k < es_ablation_count(&arrays.ablations[e]); k++) {
        double accuracy = 100.0 * (double)arrays.evaluated_correct[first + k] / n_images;
        arrays.accuracy[e * ES_ABLATION_PATTERNS_MAX + k] = (float)accuracy;
        n_invalid += arrays.evaluated_invalid[first + k];
        if (k == 0) {
            double loss = (double)arrays.evaluated_loss[first] / n_images;
            result->validation_loss = loss;
            result->validation_accuracy = accuracy;
            result->test_loss = result->test_accuracy = es_math_nan();
            arrays.loss_row[e] = (float)loss;
            arrays.accuracy_row[e] = (float)accuracy;
        }
    }
    arrays.n_invalid[arrays.n_envs + e] = n_invalid;
}

void es_growth_cuda_results(const EsGrowthArrays *arrays, EsStream *stream) {
    EsLaunch launch(stream, "growth_results");
    launch.start(results_kernel, dim3((unsigned)es_ceil_div(arrays->n_envs, ES_THREADS)),
                 ES_THREADS, *arrays);
}
