// The instances that every environment runs, as rows of EsFusedSlot (in training one each, in
// validation one for every set of seeds that is switched off), and the results of a step.
#include "growth/cuda/growth_parts.h"
#include "growth/rules/alpha_rules.h"
#include "kernels/cuda/cuda_common.cuh"

#define SCAN_THREADS 256

static __device__ EsFusedSlot empty_slot() {
    EsFusedSlot slot = {ES_NO_SEED, ES_BLEND_NONE, 0.0f, 0};
    return slot;
}

static __device__ EsFusedSlot slot_of(const EsGrowthParts &parts, int64_t i) {
    const EsSeedView &seed = parts.state.seed;
    EsFusedSlot slot = {seed.blueprint[i], es_slot_blend_mode(seed.stage[i], seed.algorithm[i]),
                        seed.alpha[i], seed.algorithm[i] == ES_ALGORITHM_GATE};
    return slot;
}

// --- training ---

static __device__ void begin_env(const EsGrowthParts &parts, int64_t e) {
    for (int64_t i = e * parts.n_slots; i < (e + 1) * parts.n_slots; i++) {
        EsFusedSlot slot = slot_of(parts, i);
        parts.train_slots[i] = slot.mode == ES_BLEND_NONE ? empty_slot() : slot;
        parts.seed_sums[i] = es_gradient_sums_empty();
    }
    parts.host_sums[e] = es_gradient_sums_empty();
    parts.results[e].host_gradient_norm = ES_NOT_MEASURED;
    parts.train_loss[e] = 0;
    parts.train_correct[e] = 0;
    parts.n_invalid[e] = 0;
}

static __global__ void begin_step_kernel(const __grid_constant__ EsGrowthParts parts) {
    int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (i < parts.n_envs) {
        begin_env(parts, i);
    }
    if (i < parts.step_batches) {
        // all environments are in the same step
        parts.batch_number[i] = (int32_t)((parts.state.env.step[0] - 1) * parts.step_batches + i);
    }
}

void es_growth_cuda_begin_step(const EsGrowthParts *parts, EsStream *stream) {
    EsLaunch launch(stream, "growth_begin_step");
    int64_t count = ES_MAX((int64_t)parts->n_envs, parts->step_batches);
    launch.start(begin_step_kernel, dim3((unsigned)es_ceil_div(count, ES_THREADS)), ES_THREADS,
                 *parts);
}

// --- trials ---

// The list depends on stages and alphas alone, so nothing else is read.
static __device__ EsAblation list_env(const EsGrowthParts &parts, int32_t e) {
    EsSeed seeds[ES_SLOTS_MAX];
    for (int32_t s = 0; s < parts.n_slots; s++) {
        int64_t i = (int64_t)e * parts.n_slots + s;
        seeds[s].stage = parts.state.seed.stage[i];
        seeds[s].alpha = parts.state.seed.alpha[i];
    }
    return es_ablation_list(parts.settings, seeds);
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
static __global__ void list_kernel(const __grid_constant__ EsGrowthParts parts) {
    __shared__ int32_t before;
    if (threadIdx.x == 0) {
        before = 0;
    }
    for (int32_t first = 0; first < parts.n_envs; first += SCAN_THREADS) {
        int32_t e = first + (int32_t)threadIdx.x, count = 0;
        if (e < parts.n_envs) {
            EsAblation list = list_env(parts, e);
            parts.ablations[e] = list;
            count = es_ablation_count(&list);
        }
        int32_t end = scan_block(count); // its barriers make `before` visible
        int32_t base = before;
        if (e < parts.n_envs) {
            parts.first_trial[e] = base + end - count;
        }
        __syncthreads();
        if (threadIdx.x == SCAN_THREADS - 1) {
            before = base + end;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *parts.n_trials = before;
    }
}

static __device__ void fill_trial(const EsGrowthParts &parts, int64_t r, int64_t e, int32_t off) {
    for (int32_t s = 0; s < parts.n_slots; s++) {
        int64_t i = e * parts.n_slots + s;
        int is_on = es_slot_is_on(parts.state.seed.stage[i], parts.state.seed.alpha[i], off, s);
        parts.trial_slots[r * parts.n_slots + s] = is_on ? slot_of(parts, i) : empty_slot();
    }
}

static __global__ void list_rows_kernel(const __grid_constant__ EsGrowthParts parts) {
    int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    int64_t e = i / parts.max_patterns;
    int32_t k = (int32_t)(i % parts.max_patterns);
    if (e >= parts.n_envs || k >= es_ablation_count(&parts.ablations[e])) {
        return;
    }
    int64_t r = parts.first_trial[e] + k;
    int32_t off = es_ablation_slots_off(&parts.ablations[e], k);
    parts.trial_env[r] = (int32_t)e;
    parts.trial_off[r] = off;
    fill_trial(parts, r, e, off);
}

static __global__ void fill_rows_kernel(const __grid_constant__ EsGrowthParts parts, int64_t n) {
    int64_t r = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (r < n) {
        fill_trial(parts, r, parts.trial_env[r], parts.trial_off[r]);
    }
}

void es_growth_cuda_list_trials(const EsGrowthParts *parts, EsStream *stream) {
    EsLaunch launch(stream, "growth_list_trials");
    int64_t n_rows = (int64_t)parts->n_envs * parts->max_patterns;
    launch.start(list_kernel, dim3(1), SCAN_THREADS, *parts);
    launch.start(list_rows_kernel, dim3((unsigned)es_ceil_div(n_rows, ES_THREADS)), ES_THREADS,
                 *parts);
}

void es_growth_cuda_fill_trials(const EsGrowthParts *parts, EsStream *stream, int64_t n) {
    EsLaunch launch(stream, "growth_fill_trials");
    launch.start(fill_rows_kernel, dim3((unsigned)es_ceil_div(n, ES_THREADS)), ES_THREADS, *parts,
                 n);
}

// --- results ---

static __global__ void results_kernel(const __grid_constant__ EsGrowthParts parts) {
    int64_t e = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (e >= parts.n_envs) {
        return;
    }
    EsGrowthResult *result = &parts.results[e];
    double n_batches = (double)parts.step_batches, n_images = (double)parts.n_validation_images;
    result->train_loss = parts.train_loss[e] / n_batches;
    result->train_accuracy =
        100.0 * (double)parts.train_correct[e] / (double)(parts.step_batches * parts.batch);
    int64_t first = parts.first_trial[e];
    int32_t n_invalid = 0;
    for (int32_t k = 0; k < es_ablation_count(&parts.ablations[e]); k++) {
        double accuracy = 100.0 * (double)parts.evaluated_correct[first + k] / n_images;
        parts.accuracy[e * ES_ABLATION_PATTERNS_MAX + k] = (float)accuracy;
        n_invalid += parts.evaluated_invalid[first + k];
        if (k == 0) {
            double loss = (double)parts.evaluated_loss[first] / n_images;
            result->validation_loss = loss;
            result->validation_accuracy = accuracy;
            result->test_loss = result->test_accuracy = es_math_nan();
            parts.loss_row[e] = (float)loss;
            parts.accuracy_row[e] = (float)accuracy;
        }
    }
    parts.n_invalid[parts.n_envs + e] = n_invalid;
}

void es_growth_cuda_results(const EsGrowthParts *parts, EsStream *stream) {
    EsLaunch launch(stream, "growth_results");
    launch.start(results_kernel, dim3((unsigned)es_ceil_div(parts->n_envs, ES_THREADS)), ES_THREADS,
                 *parts);
}
