// The update after each batch of training: norms of the gradients of every tensor that an
// environment has, clipping of the host and of each seed by its own norm, and SGD. update_host of
// growth_train.c is the specification; with equal gradients and norms the weights have equal bits.
//
// A group is the host (0) or a slot's seed with its gate (1 + s).
#include "growth/cuda/growth_parts.h"
#include "kernels/cuda/cuda_common.cuh"

// Sums over a piece of a tensor, and over a whole one.
typedef struct TensorSums {
    double sum_squares; // of the finite elements
    int32_t n_nonfinite;
    int32_t is_there;
    int64_t count;
} TensorSums;

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

// Scales are powers of 2, so taking them out is exact.
static __device__ void sum_piece(const EsGrowthParts &parts, int64_t env, int32_t number) {
    EsGrowthPiece piece = parts.pieces[number];
    EsGrowthSpan span;
    if (!find_span(parts, env, piece.place, &span) || piece.first >= span.tensor.count) {
        return;
    }
    const float *x = parts.gradients + env * parts.n_parameters + span.offset + piece.first;
    int32_t count = (int32_t)min(span.tensor.count - piece.first, (int64_t)ES_GROWTH_PIECE);
    double unscale = parts.is_scaled ? 1.0 / (double)parts.loss_scale[env] : 1.0, sum = 0;
    int32_t n_nonfinite = 0;
#pragma unroll
    for (int k = 0; k < ES_GROWTH_PIECE / ES_THREADS; k++) {
        int32_t i = k * ES_THREADS + (int32_t)threadIdx.x;
        float gradient = i < count ? x[i] : 0.0f;
        bool is_counted = is_finite(gradient);
        double value = is_counted ? (double)gradient * unscale : 0.0;
        sum += value * value;
        n_nonfinite += !is_counted;
    }
    sum = es_block_sum(sum);
    n_nonfinite = es_block_sum(n_nonfinite);
    if (threadIdx.x == 0) {
        parts.sum_squares[env * parts.n_pieces + number] = sum;
        parts.n_nonfinite[env * parts.n_pieces + number] = n_nonfinite;
    }
}

static __device__ TensorSums sum_tensor(const EsGrowthParts &parts, int64_t env, int32_t place) {
    TensorSums sums = {0, 0, 0, 0};
    EsGrowthSpan span;
    if (!find_span(parts, env, parts.places[place], &span)) {
        return sums;
    }
    int64_t first = env * parts.n_pieces + parts.first_piece[place];
    sums.is_there = 1;
    sums.count = span.tensor.count;
    for (int64_t k = 0; k * ES_GROWTH_PIECE < span.tensor.count; k++) {
        sums.sum_squares += parts.sum_squares[first + k];
        sums.n_nonfinite += parts.n_nonfinite[first + k];
    }
    return sums;
}

// --- groups ---

typedef struct GroupSums {
    double sum_squares; // of the finite elements
    int32_t n_nonfinite;
    EsGradientSums measured;
} GroupSums;

static __device__ GroupSums sum_group(const EsGrowthParts &parts, int64_t env, int32_t group,
                                      const TensorSums *tensors) {
    GroupSums sums = {0, 0, es_gradient_sums_empty()};
    for (int32_t p = parts.groups.first[group]; p < parts.groups.first[group + 1]; p++) {
        TensorSums tensor = tensors[p];
        if (tensor.is_there) {
            sums.sum_squares += tensor.sum_squares;
            sums.n_nonfinite += tensor.n_nonfinite;
            es_gradient_add(parts.settings, &sums.measured,
                            tensor.n_nonfinite > 0 ? es_math_infinity() : tensor.sum_squares,
                            tensor.count, parts.rates.clip[env]);
        }
    }
    return sums;
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

// Derives a group's norms from its sums. Float16: gradients of a batch that overflowed are no
// gradients.
static __device__ void finish_group(const EsGrowthParts &parts, int64_t env, int32_t group,
                                    const GroupSums &sums, bool has_overflown, int is_measured) {
    float limit = parts.rates.clip[env];
    float factor = limit / ((float)sqrt(sums.sum_squares) + 1e-6f);
    bool is_left = has_overflown || is_at_rest(parts, env, group);
    parts.clip_factor[env * (1 + parts.n_slots) + group] = is_left                         ? -1.0f
                                                           : limit > 0.0f && factor < 1.0f ? factor
                                                                                           : 1.0f;
    // an overflow at a scale that can still fall says nothing about the network
    if (!is_measured || (has_overflown && parts.loss_scale[env] > 1.0f)) {
        return;
    }
    if (group > 0) {
        parts.seed_sums[env * parts.n_slots + group - 1] = sums.measured;
    } else {
        parts.host_sums[env] = sums.measured;
        parts.results[env].host_gradient_norm = sqrt(sums.measured.sum_squares);
    }
}

// A block per (environment, piece of a tensor); the environment's last one adds them up, a thread
// per tensor, then one per group.
static __global__ void __launch_bounds__(ES_THREADS)
    measure_kernel(const __grid_constant__ EsGrowthParts parts, int is_measured) {
    ES_DYNAMIC_SHARED(memory);
    TensorSums *tensors = (TensorSums *)memory; // [n_places]
    int64_t env = blockIdx.x / parts.n_pieces;
    sum_piece(parts, env, (int32_t)(blockIdx.x % parts.n_pieces));
    if (!es_block_is_last(&parts.n_arrived[env], parts.n_pieces)) {
        return;
    }
    for (int32_t p = (int32_t)threadIdx.x; p < parts.n_places; p += ES_THREADS) {
        tensors[p] = sum_tensor(parts, env, p);
    }
    __syncthreads();
    int32_t group = (int32_t)threadIdx.x;
    GroupSums sums = {0, 0, es_gradient_sums_empty()};
    if (group <= parts.n_slots) {
        sums = sum_group(parts, env, group, tensors);
    }
    bool has_overflown = __syncthreads_or(parts.is_scaled && sums.n_nonfinite > 0) != 0;
    if (group <= parts.n_slots) {
        finish_group(parts, env, group, sums, has_overflown, is_measured);
    }
    __syncthreads(); // all groups have looked at the scale
    if (threadIdx.x == 0) {
        add_batch(parts, env);
        if (parts.is_scaled) {
            move_scale(parts, env, has_overflown);
        }
    }
}

// --- SGD ---

#define PER_THREAD (ES_GROWTH_CHUNK / ES_THREADS)

// d = gradient + decay p; buffer = momentum buffer + d; p -= learning_rate buffer
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
    float learning_rate =
        is_host ? parts.rates.host_learning_rate[env] : parts.rates.seed_learning_rate[env];
    float decay = is_host ? parts.rates.host_decay[env] : 0.0f;
    float keep = parts.rates.momentum[env];
    float unscale = parts.is_scaled ? parts.unscale[env] : 1.0f;
    float value[PER_THREAD], gradient[PER_THREAD], buffer[PER_THREAD];
    // all loads before the first store: the compiler cannot know that they are of other memory
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int64_t j = chunk.first + k * ES_THREADS + threadIdx.x;
        if (j < end) {
            value[k] = parts.parameters[row + j];
            gradient[k] = parts.gradients[row + j];
            buffer[k] = parts.momentum[row + j];
        }
    }
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int64_t j = chunk.first + k * ES_THREADS + threadIdx.x;
        if (j < end) {
            float d = gradient[k] * unscale * factor + decay * value[k];
            float moved = keep * buffer[k] + d;
            parts.momentum[row + j] = moved;
            parts.parameters[row + j] = value[k] - learning_rate * moved;
        }
    }
}

void es_growth_cuda_update(const EsGrowthParts *parts, EsStream *stream, int is_measured) {
    EsLaunch launch(stream, "growth_update");
    int64_t n_envs = parts->n_envs;
    launch.start_shared(measure_kernel, dim3((unsigned)(n_envs * parts->n_pieces)), ES_THREADS,
                        (size_t)parts->n_places * sizeof(TensorSums), *parts, is_measured);
    launch.start(sgd_kernel, dim3((unsigned)(n_envs * parts->n_parameter_chunks)), ES_THREADS,
                 *parts);
}
