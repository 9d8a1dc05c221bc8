// What follows each batch of training: norms of the gradients of every tensor that an environment
// has, clipping of the host and of each seed by its own norm, and SGD. update_host of
// growth_train.c is the specification; with equal gradients and norms the weights have equal bits.
//
// A group is the host (0) or a slot's seed with its gate (1 + s).
#include "growth/growth_parts.h"
#include "kernels/cuda_common.cuh"

#define NORM_THREADS 128

// --- norms ---

// The tensor at a place in this environment; a gate that is not asked has no gradient.
static __device__ bool find_span(const EsGrowthParts &parts, int64_t env,
                                 const EsGrowthPlace &place, EsGrowthSpan *span) {
    EsGrowthRange range = parts.map->host;
    if (place.part != ES_GROWTH_PART_HOST) {
        EsFusedSlot slot = parts.train_slots[env * parts.n_slots + place.slot];
        bool is_gate = place.part == ES_GROWTH_PART_GATE;
        if (slot.blueprint == ES_NO_SEED || (is_gate && slot.mode != ES_BLEND_GATE)) {
            return false;
        }
        range = is_gate ? parts.map->gate[place.slot] : parts.map->seed[place.slot][slot.blueprint];
    }
    if (place.number >= range.n) {
        return false;
    }
    *span = parts.spans[range.first + place.number];
    return true;
}

static __device__ __forceinline__ bool is_finite(float x) {
    return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u;
}

// A block per (environment, place). Scales are powers of 2, so taking them out is exact.
static __global__ void norms_kernel(const __grid_constant__ EsGrowthParts parts) {
    int64_t env = blockIdx.x / parts.n_places;
    EsGrowthSpan span;
    if (!find_span(parts, env, parts.places[blockIdx.x % parts.n_places], &span)) {
        return;
    }
    const float *x = parts.gradients + env * parts.n_parameters + span.offset;
    double unscale = parts.is_scaled ? 1.0 / (double)parts.loss_scale[env] : 1.0, sum = 0;
    int32_t n_nonfinite = 0;
    for (int64_t i = threadIdx.x; i < span.tensor.count; i += NORM_THREADS) {
        bool is_counted = is_finite(x[i]);
        double value = is_counted ? (double)x[i] * unscale : 0.0;
        sum += value * value;
        n_nonfinite += !is_counted;
    }
    sum = es_block_sum(sum);
    n_nonfinite = es_block_sum(n_nonfinite);
    if (threadIdx.x == 0) {
        parts.sum_squares[blockIdx.x] = sum;
        parts.n_nonfinite[blockIdx.x] = n_nonfinite;
    }
}

// --- groups ---

typedef struct GroupSums {
    double sum_squares; // of the finite elements
    int32_t n_nonfinite;
    EsGradientSums measured;
} GroupSums;

static __device__ GroupSums sum_group(const EsGrowthParts &parts, int64_t env, int32_t group) {
    GroupSums sums = {0, 0, es_gradient_sums_empty()};
    for (int32_t p = parts.groups.first[group]; p < parts.groups.first[group + 1]; p++) {
        EsGrowthSpan span;
        if (!find_span(parts, env, parts.places[p], &span)) {
            continue;
        }
        double sum = parts.sum_squares[env * parts.n_places + p];
        int32_t n_nonfinite = parts.n_nonfinite[env * parts.n_places + p];
        sums.sum_squares += sum;
        sums.n_nonfinite += n_nonfinite;
        es_gradient_add(parts.settings, &sums.measured, n_nonfinite > 0 ? es_math_infinity() : sum,
                        span.tensor.count, parts.rates.clip[env]);
    }
    return sums;
}

// Float16: gradients of this batch that overflowed are no gradients.
static __device__ bool is_overflown(const EsGrowthParts &parts, int64_t env) {
    for (int32_t group = 0; parts.is_scaled && group <= parts.n_slots; group++) {
        if (sum_group(parts, env, group).n_nonfinite > 0) {
            return true;
        }
    }
    return false;
}

static __device__ void move_scale(const EsGrowthParts &parts, int64_t env, bool has_overflown) {
    float scale = parts.loss_scale[env];
    int32_t n_good = has_overflown ? 0 : parts.n_good[env] + 1;
    parts.unscale[env] = 1.0f / scale;
    if (has_overflown) {
        scale = fmaxf(scale * 0.5f, 1.0f);
    } else if (n_good >= ES_LOSS_SCALE_STEPS) {
        scale = fminf(scale * 2.0f, ES_LOSS_SCALE_MAX);
        n_good = 0;
    }
    parts.loss_scale[env] = scale;
    parts.n_good[env] = n_good;
}

static __device__ void add_batch(const EsGrowthParts &parts, int64_t env) {
    parts.train_loss[env] += (double)parts.trained_loss[env];
    parts.train_correct[env] += parts.trained_correct[env];
    parts.n_invalid[env] += parts.trained_invalid[env];
}

// Neither weights nor momentum of a seed on its way out move.
static __device__ bool is_at_rest(const EsGrowthParts &parts, int64_t env, int32_t group) {
    int64_t i = env * parts.n_slots + group - 1;
    return group > 0 && (parts.train_slots[i].blueprint == ES_NO_SEED ||
                         parts.state.seed.alpha_mode[i] == ES_ALPHA_DOWN);
}

// A thread per (environment, group). The thread of the host also does what is once per environment:
// no other reads what it writes.
static __global__ void groups_kernel(const __grid_constant__ EsGrowthParts parts, int is_measured) {
    int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x, n_groups = 1 + parts.n_slots;
    int64_t env = i / n_groups;
    int32_t group = (int32_t)(i % n_groups);
    if (env >= parts.n_envs) {
        return;
    }
    GroupSums sums = sum_group(parts, env, group);
    bool has_overflown = is_overflown(parts, env);
    float limit = parts.rates.clip[env];
    float factor = limit / ((float)sqrt(sums.sum_squares) + 1e-6f);
    bool is_left = has_overflown || is_at_rest(parts, env, group);
    parts.clip_factor[i] = is_left ? -1.0f : limit > 0.0f && factor < 1.0f ? factor : 1.0f;
    // what overflowed at a scale that can still fall says nothing about the network
    bool is_told = is_measured && !(has_overflown && parts.loss_scale[env] > 1.0f);
    if (group > 0) {
        if (is_told) {
            parts.seed_sums[env * parts.n_slots + group - 1] = sums.measured;
        }
        return;
    }
    if (is_told) {
        parts.host_sums[env] = sums.measured;
        parts.results[env].host_gradient_norm = sqrt(sums.measured.sum_squares);
    }
    add_batch(parts, env);
}

// A kernel of its own: the threads of an environment's groups all look at the scale.
static __global__ void scales_kernel(const __grid_constant__ EsGrowthParts parts) {
    int64_t env = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (env < parts.n_envs) {
        move_scale(parts, env, is_overflown(parts, env));
    }
}

// --- SGD ---

// d = gradient + decay p; buffer = momentum buffer + d; p -= rate buffer
static __global__ void sgd_kernel(const __grid_constant__ EsGrowthParts parts) {
    int64_t env = blockIdx.x / parts.n_parameter_chunks;
    EsGrowthChunk chunk = parts.chunks[blockIdx.x % parts.n_parameter_chunks];
    bool is_host = chunk.part == ES_GROWTH_PART_HOST;
    int32_t group = is_host ? 0 : 1 + chunk.slot;
    float factor = parts.clip_factor[env * (1 + parts.n_slots) + group];
    if (factor < 0.0f) {
        return;
    }
    int64_t end = chunk.end;
    if (!is_host) {
        EsFusedSlot slot = parts.train_slots[env * parts.n_slots + chunk.slot];
        bool is_gate = chunk.part == ES_GROWTH_PART_GATE;
        if (is_gate && slot.mode != ES_BLEND_GATE) {
            return;
        }
        // beyond the blueprint in use everything is 0 and stays so
        end = is_gate ? end : min(end, parts.map->seed[chunk.slot][slot.blueprint].end);
    }
    int64_t row = env * parts.n_parameters;
    float rate = is_host ? parts.rates.host_rate[env] : parts.rates.seed_rate[env];
    float decay = is_host ? parts.rates.host_decay[env] : 0.0f;
    float keep = parts.rates.momentum[env];
    float unscale = parts.is_scaled ? parts.unscale[env] : 1.0f;
    for (int64_t j = row + chunk.first + threadIdx.x; j < row + end; j += ES_THREADS) {
        float value = parts.parameters[j];
        float d = parts.gradients[j] * unscale * factor + decay * value;
        float buffer = keep * parts.momentum[j] + d;
        parts.momentum[j] = buffer;
        parts.parameters[j] = value - rate * buffer;
    }
}

void es_growth_cuda_update(const EsGrowthParts *parts, EsStream *stream, int is_measured) {
    EsLaunch launch(stream, "growth_update");
    int64_t n_envs = parts->n_envs, n_groups = n_envs * (1 + parts->n_slots);
    launch.start(norms_kernel, dim3((unsigned)(n_envs * parts->n_places)), NORM_THREADS, *parts);
    launch.start(groups_kernel, dim3((unsigned)es_ceil_div(n_groups, ES_THREADS)), ES_THREADS,
                 *parts, is_measured);
    if (parts->is_scaled) {
        launch.start(scales_kernel, dim3((unsigned)es_ceil_div(n_envs, ES_THREADS)), ES_THREADS,
                     *parts);
    }
    launch.start(sgd_kernel, dim3((unsigned)(n_envs * parts->n_parameter_chunks)), ES_THREADS,
                 *parts);
}
