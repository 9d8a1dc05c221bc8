// The update after each batch of training: norms of the gradients of every tensor that an
// environment has, clipping of the host and of each seed by its own norm, and SGD. update_host of
// growth_train.c is the specification; with equal gradients and norms the weights have equal bits.
//
// A group is the host (0) or a slot's seed with its gate (1 + s).
#include "growth/cuda/growth_arrays.h"
#include "kernels/cuda/cuda_common.cuh"
#include "kernels/ops/schedule_rules.h"

// Sums over a piece of a tensor, and over a whole one.
typedef struct TensorSums {
    double sum_squares; // of the finite elements
    int32_t n_nonfinite;
    int32_t is_there;
    int64_t count;
} TensorSums;

// --- norms ---

// The tensor at a place in this environment; a gate that is not asked has no gradient.
static __device__ bool find_span(const EsGrowthArrays &arrays, int64_t env,
                                 const EsGrowthPlace &place, EsGrowthSpan *span) {
    EsGrowthRange range = arrays.map->host;
    if (place.section != ES_GROWTH_SECTION_HOST) {
        EsFusedSlot slot = arrays.train_slots[env * arrays.n_slots + place.slot];
        bool is_gate = place.section == ES_GROWTH_SECTION_GATE;
        if (slot.blueprint == ES_NO_SEED || (is_gate && slot.mode != ES_BLEND_GATE)) {
            return false;
        }
        range =
            is_gate ? arrays.map->gate[place.slot] : arrays.map->seed[place.slot][slot.blueprint];
    }
    if (place.number >= range.n) {
        return false;
    }
    *span = arrays.spans[range.first + place.number];
    return true;
}

static __device__ __forceinline__ bool is_finite(float x) {
    return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u;
}

// Scales are powers of 2, so taking them out is exact.
static __device__ void sum_piece(const EsGrowthArrays &arrays, int64_t env, int32_t number) {
    EsGrowthPiece piece = arrays.pieces[number];
    EsGrowthSpan span;
    if (!find_span(arrays, env, piece.place, &span) || piece.first >= span.tensor.count) {
        return;
    }
    const float *x = arrays.gradients + env * arrays.n_parameters + span.offset + piece.first;
    int32_t count = (int32_t)min(span.tensor.count - piece.first, (int64_t)ES_GROWTH_PIECE);
    double unscale = arrays.is_scaled ? 1.0 / (double)arrays.loss_scale[env] : 1.0, sum = 0;
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
        arrays.sum_squares[env * arrays.n_pieces + number] = sum;
        arrays.n_nonfinite[env * arrays.n_pieces + number] = n_nonfinite;
    }
}

static __device__ TensorSums sum_tensor(const EsGrowthArrays &arrays, int64_t env, int32_t place) {
    TensorSums sums = {0, 0, 0, 0};
    EsGrowthSpan span;
    if (!find_span(arrays, env, arrays.places[place], &span)) {
        return sums;
    }
    int64_t first = env * arrays.n_pieces + arrays.first_piece[place];
    sums.is_there = 1;
    sums.count = span.tensor.count;
    for (int64_t k = 0; k * ES_GROWTH_PIECE < span.tensor.count; k++) {
        sums.sum_squares += arrays.sum_squares[first + k];
        sums.n_nonfinite += arrays.n_nonfinite[first + k];
    }
    return sums;
}

// --- groups ---

typedef struct GroupSums {
    double sum_squares; // of the finite elements
    int32_t n_nonfinite;
    EsGradientSums measured;
} GroupSums;

static __device__ GroupSums sum_group(const EsGrowthArrays &arrays, int64_t env, int32_t group,
                                      const TensorSums *tensors) {
    GroupSums sums = {0, 0, es_gradient_sums_empty()};
    for (int32_t p = arrays.groups.first[group]; p < arrays.groups.first[group + 1]; p++) {
        TensorSums tensor = tensors[p];
        if (tensor.is_there) {
            sums.sum_squares += tensor.sum_squares;
            sums.n_nonfinite += tensor.n_nonfinite;
            es_gradient_add(arrays.settings, &sums.measured,
                            tensor.n_nonfinite > 0 ? es_math_infinity() : tensor.sum_squares,
                            tensor.count, arrays.rates.clip[env]);
        }
    }
    return sums;
}

static __device__ void move_scale(const EsGrowthArrays &arrays, int64_t env, bool has_overflown) {
    float scale = arrays.loss_scale[env];
    int32_t n_good = has_overflown ? 0 : arrays.n_good[env] + 1;
    arrays.unscale[env] = 1.0f / scale;
    if (has_overflown) {
        scale = fmaxf(scale * 0.5f, 1.0f);
    } else if (n_good >= ES_LOSS_SCALE_STEPS) {
        scale = fminf(scale * 2.0f, ES_LOSS_SCALE_MAX);
        n_good = 0;
    }
    arrays.loss_scale[env] = scale;
    arrays.n_good[env] = n_good;
}

static __device__ void add_batch(const EsGrowthArrays &arrays, int64_t env) {
    arrays.train_loss[env] += (double)arrays.trained_loss[env];
    arrays.train_correct[env] += arrays.trained_correct[env];
    arrays.n_invalid[env] += arrays.trained_invalid[env];
}

// Neither weights nor momentum of a seed on its way out move.
static __device__ bool is_at_rest(const EsGrowthArrays &arrays, int64_t env, int32_t group) {
    int64_t i = env * arrays.n_slots + group - 1;
    return group > 0 && (arrays.train_slots[i].blueprint == ES_NO_SEED ||
                         arrays.state.seed.alpha_mode[i] == ES_ALPHA_DOWN);
}

// Derives a group's norms from its sums. Float16: gradients of a batch that overflowed are no
// gradients.
static __device__ void finish_group(const EsGrowthArrays &arrays, int64_t env, int32_t group,
                                    const GroupSums &sums, bool has_overflown, int is_measured) {
    float limit = arrays.rates.clip[env];
    float factor = limit / ((float)sqrt(sums.sum_squares) + 1e-6f);
    bool is_left = has_overflown || is_at_rest(arrays, env, group);
    arrays.clip_factor[env * (1 + arrays.n_slots) + group] = is_left ? -1.0f
                                                             : limit > 0.0f && factor < 1.0f
                                                                 ? factor
                                                                 : 1.0f;
    // an overflow at a scale that can still fall says nothing about the network
    if (!is_measured || (has_overflown && arrays.loss_scale[env] > 1.0f)) {
        return;
    }
    if (group > 0) {
        arrays.seed_sums[env * arrays.n_slots + group - 1] = sums.measured;
    } else {
        arrays.host_sums[env] = sums.measured;
        arrays.results[env].host_gradient_norm = sqrt(sums.measured.sum_squares);
    }
}

// Shares that the averages of a group's parts keep, and their counts: an average moves with its
// weights. That of a gate which is not asked yet counts along.
static __device__ void count_average(const EsGrowthArrays &arrays, int64_t env, int32_t group) {
    int64_t row = env * ES_GROWTH_PARTS(arrays.n_slots);
    bool is_left = arrays.clip_factor[env * (1 + arrays.n_slots) + group] < 0.0f;
    int32_t first = group == 0 ? ES_GROWTH_HOST : ES_GROWTH_GATE(group - 1);
    int32_t end = group == 0 ? first + 1 : first + 2;
    for (int32_t part = first; part < end; part++) {
        bool is_gate = group > 0 && part == first;
        bool is_there =
            !is_left && (!is_gate || arrays.train_slots[env * arrays.n_slots + group - 1].has_gate);
        int32_t *n_updates = &arrays.average_updates[row + part];
        arrays.average_share[row + part] =
            is_there ? es_average_share(arrays.average_decay, *n_updates) : -1.0f;
        *n_updates += is_there;
    }
}

// A block per (environment, piece of a tensor); the environment's last one adds them up, a thread
// per tensor, then one per group.
static __global__ void __launch_bounds__(ES_THREADS)
    measure_kernel(const __grid_constant__ EsGrowthArrays arrays, int is_measured) {
    ES_DYNAMIC_SHARED(memory);
    TensorSums *tensors = (TensorSums *)memory; // [n_places]
    int64_t env = blockIdx.x / arrays.n_pieces;
    sum_piece(arrays, env, (int32_t)(blockIdx.x % arrays.n_pieces));
    if (!es_block_is_last(&arrays.n_arrived[env], arrays.n_pieces)) {
        return;
    }
    for (int32_t p = (int32_t)threadIdx.x; p < arrays.n_places; p += ES_THREADS) {
        tensors[p] = sum_tensor(arrays, env, p);
    }
    __syncthreads();
    int32_t group = (int32_t)threadIdx.x;
    GroupSums sums = {0, 0, es_gradient_sums_empty()};
    if (group <= arrays.n_slots) {
        sums = sum_group(arrays, env, group, tensors);
    }
    bool has_overflown = __syncthreads_or(arrays.is_scaled && sums.n_nonfinite > 0) != 0;
    if (group <= arrays.n_slots) {
        finish_group(arrays, env, group, sums, has_overflown, is_measured);
    }
    if (group <= arrays.n_slots && arrays.average_decay > 0.0f) {
        count_average(arrays, env, group);
    }
    __syncthreads(); // all groups have looked at the scale
    if (threadIdx.x == 0) {
        add_batch(arrays, env);
        if (arrays.is_scaled) {
            move_scale(arrays, env, has_overflown);
        }
    }
}

// --- SGD ---

#define PER_THREAD (ES_GROWTH_CHUNK / ES_THREADS)

// As sgd_step (kernels/kernel_list.h), of the gradients as they are scaled and clipped.
static __global__ void sgd_kernel(const __grid_constant__ EsGrowthArrays arrays,
                                  const int32_t *update) {
    int64_t env = blockIdx.x / arrays.n_parameter_chunks;
    EsGrowthChunk chunk = arrays.chunks[blockIdx.x % arrays.n_parameter_chunks];
    bool is_host = chunk.section == ES_GROWTH_SECTION_HOST;
    int32_t group = is_host ? 0 : 1 + chunk.slot;
    float factor = arrays.clip_factor[env * (1 + arrays.n_slots) + group];
    if (factor < 0.0f) {
        return;
    }
    int64_t end = chunk.end;
    if (!is_host) {
        EsFusedSlot slot = arrays.train_slots[env * arrays.n_slots + chunk.slot];
        bool is_gate = chunk.section == ES_GROWTH_SECTION_GATE;
        if (is_gate && slot.mode != ES_BLEND_GATE) {
            return;
        }
        // beyond the blueprint in use everything is 0 and stays so
        end = is_gate ? end : min(end, arrays.map->seed[chunk.slot][slot.blueprint].end);
    }
    int64_t row = env * arrays.n_parameters;
    float learning_rate =
        is_host ? arrays.rates.host_learning_rate[env] : arrays.rates.seed_learning_rate[env];
    float decay = is_host ? arrays.rates.host_decay[env] : 0.0f;
    float keep = arrays.rates.momentum[env];
    if (arrays.epoch_share != NULL) {
        learning_rate *= arrays.epoch_share[arrays.state.env.step[env] - 1];
    }
    if (arrays.schedule.n_updates > 0) {
        learning_rate *= es_schedule_share(&arrays.schedule, update[0]);
    }
    float unscale = arrays.is_scaled ? arrays.unscale[env] : 1.0f;
    float value[PER_THREAD], gradient[PER_THREAD], buffer[PER_THREAD];
    // all loads before the first store: the compiler cannot know that they are of other memory
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int64_t j = chunk.first + k * ES_THREADS + threadIdx.x;
        if (j < end) {
            value[k] = arrays.parameters[row + j];
            gradient[k] = arrays.gradients[row + j];
            buffer[k] = arrays.momentum[row + j];
        }
    }
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int64_t j = chunk.first + k * ES_THREADS + threadIdx.x;
        if (j < end) {
            float d = gradient[k] * unscale * factor + decay * value[k];
            float moved = keep * buffer[k] + d;
            arrays.momentum[row + j] = moved;
            arrays.parameters[row + j] =
                value[k] - learning_rate * (arrays.is_nesterov ? d + keep * moved : moved);
        }
    }
}

// --- averages ---

// As es_average_update, part by part; statistics are the host's.
static __global__ void average_kernel(const __grid_constant__ EsGrowthArrays arrays) {
    int64_t env = blockIdx.x / arrays.n_chunks;
    EsGrowthChunk chunk = arrays.chunks[blockIdx.x % arrays.n_chunks];
    bool is_state = chunk.section == ES_GROWTH_SECTION_STATE;
    int32_t part = chunk.section == ES_GROWTH_SECTION_GATE   ? ES_GROWTH_GATE(chunk.slot)
                   : chunk.section == ES_GROWTH_SECTION_SEED ? ES_GROWTH_SEED(chunk.slot)
                                                             : ES_GROWTH_HOST;
    float share = arrays.average_share[env * ES_GROWTH_PARTS(arrays.n_slots) + part];
    if (share < 0.0f) {
        return;
    }
    int64_t row = env * (is_state ? arrays.n_states : arrays.n_parameters);
    const float *weights = (is_state ? arrays.states : arrays.parameters) + row;
    float *average = (is_state ? arrays.average_states : arrays.average) + row;
    float rest = 1.0f - share;
    for (int64_t j = chunk.first + threadIdx.x; j < chunk.end; j += ES_THREADS) {
        average[j] += rest * (weights[j] - average[j]);
    }
}

void es_growth_cuda_update(const EsGrowthArrays *arrays, const int32_t *update, EsStream *stream,
                           int is_measured) {
    EsLaunch launch(stream, "growth_update");
    int64_t n_envs = arrays->n_envs;
    launch.start_shared(measure_kernel, dim3((unsigned)(n_envs * arrays->n_pieces)), ES_THREADS,
                        (size_t)arrays->n_places * sizeof(TensorSums), *arrays, is_measured);
    launch.start(sgd_kernel, dim3((unsigned)(n_envs * arrays->n_parameter_chunks)), ES_THREADS,
                 *arrays, update);
    if (arrays->average_decay > 0.0f) {
        launch.start(average_kernel, dim3((unsigned)(n_envs * arrays->n_chunks)), ES_THREADS,
                     *arrays);
    }
}
