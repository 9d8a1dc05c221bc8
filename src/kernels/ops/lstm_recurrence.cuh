// The recurrence of an LSTM over all steps as one cooperative kernel per direction, for
// environments that share one set of f32 weights.
//
// Rows of all environments meet in groups of ROW_GROUP. A block owns UNIT_GROUP units: the 32 rows
// of W_h that make their gates stay in its registers, as fragments of the tensor cores, split for
// products in three TF32 parts. It takes every n_lanes-th group of rows, one after the other.
//
// Forward, the warps of a block share the depth of W_h h: a lane reads four adjacent values of h
// from where the other blocks stored them in y, which is filled with UNWRITTEN before. Backward, a
// block has the gradients of its own 32 gates, and multiplies them into a part of d_h for all
// units. Each block adds up the parts of all blocks for its units, in order. The lowest bit of a
// part says in which round it was written; two slots alternate. A block that overwrites a slot has
// read what the readers of that slot made of it, so that they are done with it.
#ifndef ES_KERNELS_LSTM_RECURRENCE_CUH
#define ES_KERNELS_LSTM_RECURRENCE_CUH

#include "kernels/cuda/cuda_common.cuh"
#include "kernels/cuda/cuda_matrix.cuh"

#define UNIT_GROUP    8
#define ROW_GROUP     8
#define CELLS         (UNIT_GROUP * ROW_GROUP)
#define DEPTH         16 // of h that a warp takes at a time: four lanes of four
#define WARPS         (ES_THREADS / 32)
#define HIDDEN_MAX    512
#define UNWRITTEN     0xFFFFFFFFu
#define TURN_GATE     72 // strides of partial sums in shared memory: gate and row
#define TURN_ROW      9
#define VALUE_ROW     48 // stride of a row of gradients
#define PART_GROUPS   16 // threads that share the parts of a cell
#define PART_STRIDE   68 // of the sums of one such thread
#define FORWARD_BYTES (2 * WARPS * 4 * TURN_GATE * sizeof(float))
// and CELLS floats for each group of rows
#define BACKWARD_BYTES ((PART_GROUPS * PART_STRIDE + 2 * ROW_GROUP * VALUE_ROW) * sizeof(float))

static __device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

static_assert(WARPS == ROW_GROUP && UNIT_GROUP * 4 == 32, "a warp finishes a row of a group");

struct Recurrence {
    const float *recurrent, *bias;        // [4D, D], [4D]: of all environments
    EsEnvs<const uint8_t> reset;          // nullable
    EsEnvs<const float> h_start, c_start; // nullable
    EsEnvs<float> gates, c, y;
    EsEnvs<const float> d_y;
    EsEnvs<float> d_gates, parts;              // parts: two groups of rows in each environment
    EsEnvs<float> d_h_start, d_c_start;        // nullable
    int n_steps, n_rows, n_all_rows, n_hidden; // n_rows: of an environment
    int n_unit_groups, n_row_groups, n_lanes;
};

// A row of a group: where it is, and whether it is one.
struct Place {
    int env, n;
    bool is_there;

    __device__ int64_t at_step(const Recurrence &p, int t) const {
        return (int64_t)t * p.n_rows + n;
    }
    __device__ bool is_reset(const Recurrence &p, int t) const {
        return p.reset.data != NULL && p.reset.at(env)[at_step(p, t)] != 0;
    }
};

static __device__ __forceinline__ Place place_of(const Recurrence &p, int row) {
    Place place = {row / p.n_rows, row % p.n_rows, row < p.n_all_rows};
    return place;
}

// The cell before step t, of one unit of a row that is there.
static __device__ __forceinline__ float state_before(const Recurrence &p, const Place &at, int t,
                                                     int unit) {
    if (at.is_reset(p, t)) {
        return 0.0f;
    }
    if (t > 0) {
        return p.c.at(at.env)[at.at_step(p, t - 1) * p.n_hidden + unit];
    }
    return p.c_start.data == NULL ? 0.0f : p.c_start.at(at.env)[(int64_t)at.n * p.n_hidden + unit];
}

// A fragment [16, 8] of weights, split.
struct SplitWeights {
    uint32_t high[4], low[4];

    __device__ void set(int i, float x) { es_split_tf32(x, high[i], low[i]); }
};

// The sum of a product and that of its two corrections.
struct SplitSums {
    float sum[4], rest[4];

    __device__ void add(const SplitWeights &a, const uint32_t (&high)[2],
                        const uint32_t (&low)[2]) {
        es_multiply_tf32(rest, a.low, high);
        es_multiply_tf32(rest, a.high, low);
        es_multiply_tf32(sum, a.high, high);
    }
};

static __device__ __forceinline__ void split_pair(float x, float y, uint32_t (&high)[2],
                                                  uint32_t (&low)[2]) {
    es_split_tf32(x, high[0], low[0]);
    es_split_tf32(y, high[1], low[1]);
}

// Lane (g, q) holds rows g and g + 8 of a fragment. Of the 16 elements of a depth it has 4q to 4q +
// 3: two products of depth 8, whose columns q and q + 4 are elements 4q + 2s and the next.
template <int CHUNKS> struct GateWeights {
    SplitWeights part[CHUNKS][2][2]; // [s][pair of gates]

    __device__ void load(const Recurrence &p, int first_unit, int warp, int g, int q) {
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int k = (warp + WARPS * i) * DEPTH + 4 * q;
#pragma unroll
            for (int j = 0; j < 16; j++) {
                int s = j / 8, pair = j / 4 % 2, element = j % 4;
                int64_t row = (2 * pair + element % 2) * p.n_hidden + first_unit + g;
                int column = k + 2 * s + element / 2;
                part[i][s][pair].set(
                    element, column < p.n_hidden ? p.recurrent[row * p.n_hidden + column] : 0.0f);
            }
        }
    }
};

static __device__ __forceinline__ bool is_written(uint4 v) {
    return v.x != UNWRITTEN && v.y != UNWRITTEN && v.z != UNWRITTEN && v.w != UNWRITTEN;
}

// This lane's elements of h before step t for a row; waits for them.
template <int CHUNKS>
static __device__ __forceinline__ void read_state(const Recurrence &p, const Place &at, int t,
                                                  int warp, int q, uint4 (&h)[CHUNKS]) {
    const float *from = NULL;
    if (at.is_there && !at.is_reset(p, t)) {
        if (t > 0) {
            from = p.y.at(at.env) + at.at_step(p, t - 1) * p.n_hidden;
        } else if (p.h_start.data != NULL) {
            from = p.h_start.at(at.env) + (int64_t)at.n * p.n_hidden;
        }
    }
    bool is_here;
    do {
        is_here = true;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int k = (warp + WARPS * i) * DEPTH + 4 * q;
            h[i] = from != NULL && k < p.n_hidden ? es_exchange_load(from + k)
                                                  : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            is_here = is_here && (t == 0 || is_written(h[i]));
        }
        if (!is_here) {
            es_exchange_pause();
        }
    } while (!is_here);
    __syncwarp();
}

// This warp's part of W_h h for the 32 gates and 8 rows, into shared memory.
template <int CHUNKS>
static __device__ __forceinline__ void multiply_state(const GateWeights<CHUNKS> &weights,
                                                      const uint4 (&h)[CHUNKS], int g, int q,
                                                      float *partial) {
    SplitSums sums[2] = {};
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        uint32_t high[2][2], low[2][2];
        split_pair(__uint_as_float(h[i].x), __uint_as_float(h[i].y), high[0], low[0]);
        split_pair(__uint_as_float(h[i].z), __uint_as_float(h[i].w), high[1], low[1]);
#pragma unroll
        for (int s = 0; s < 2; s++) {
#pragma unroll
            for (int pair = 0; pair < 2; pair++) {
                sums[pair].add(weights.part[i][s][pair], high[s], low[s]);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
        int pair = j / 4, element = j % 4;
        partial[(2 * pair + element / 2) * TURN_GATE + (2 * q + element % 2) * TURN_ROW + g] =
            sums[pair].sum[element] + sums[pair].rest[element];
    }
}

// Lane (g, q) of warp r ends row r of a group: gate q of unit g. The cell is lane q = 0's, which
// alone knows the one before.
static __device__ __forceinline__ void finish_cell(const Recurrence &p, const Place &at, int t,
                                                   int unit, int q, float total, float before) {
    float gate = q == 2 ? tanhf(total) : sigmoid(total);
    int quad = (int)threadIdx.x % 32 & ~3;
    float in = __shfl_sync(0xFFFFFFFFu, gate, quad);
    float forget = __shfl_sync(0xFFFFFFFFu, gate, quad + 1);
    float fresh = __shfl_sync(0xFFFFFFFFu, gate, quad + 2);
    float out = __shfl_sync(0xFFFFFFFFu, gate, quad + 3);
    float cell = forget * before + in * fresh;
    float state = out * tanhf(cell);
    if (!at.is_there) {
        return;
    }
    int64_t row = at.at_step(p, t);
    if (q == 0) {
        // first: the other blocks wait for it. A NaN that looks unwritten becomes another NaN.
        bool looks_unwritten = __float_as_uint(state) == UNWRITTEN;
        es_exchange_store(p.y.at(at.env) + row * p.n_hidden + unit,
                          looks_unwritten ? __uint_as_float(0x7FFFFFFFu) : state);
        p.c.at(at.env)[row * p.n_hidden + unit] = cell;
    }
    p.gates.at(at.env)[(row * 4 + q) * p.n_hidden + unit] = gate;
}

template <int CHUNKS>
static __global__ void __launch_bounds__(ES_THREADS, 1)
    recurrence_forward_kernel(const __grid_constant__ Recurrence p) {
    ES_DYNAMIC_SHARED(shared_bytes);
    int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, q = (int)threadIdx.x % 4;
    int first_unit = (int)blockIdx.x % p.n_unit_groups * UNIT_GROUP;
    int lane = (int)blockIdx.x / p.n_unit_groups, unit = first_unit + g;
    GateWeights<CHUNKS> weights;
    weights.load(p, first_unit, warp, g, q);
    float bias = p.bias[q * p.n_hidden + unit];
    int turn = 0;
    for (int t = 0; t < p.n_steps; t++) {
        for (int group = lane; group < p.n_row_groups; group += p.n_lanes) {
            // two buffers in turn: one barrier keeps a buffer's writers behind its readers
            float *partial = (float *)shared_bytes + turn * WARPS * 4 * TURN_GATE;
            turn ^= 1;
            Place at = place_of(p, group * ROW_GROUP + warp);
            float input = bias, before = 0.0f;
            if (at.is_there) {
                input += p.gates.at(at.env)[(at.at_step(p, t) * 4 + q) * p.n_hidden + unit];
                before = q == 0 ? state_before(p, at, t, unit) : 0.0f;
            }
            uint4 h[CHUNKS];
            read_state<CHUNKS>(p, place_of(p, group * ROW_GROUP + g), t, warp, q, h);
            multiply_state<CHUNKS>(weights, h, g, q, partial + warp * 4 * TURN_GATE);
            __syncthreads();
            float total = 0.0f;
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                total += partial[(w * 4 + q) * TURN_GATE + warp * TURN_ROW + g];
            }
            finish_cell(p, at, t, unit, q, input + total, before);
        }
    }
}

// Rows of W_h^T: lane (g, q) holds units g and g + 8 of a group of 16, of a block's 32 gates those
// that GateWeights has of a depth.
template <int CHUNKS> struct StateWeights {
    SplitWeights part[CHUNKS][2][2]; // [half of the gates][s]

    __device__ void load(const Recurrence &p, int first_unit, int warp, int g, int q) {
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int first = (warp + WARPS * i) * 16 + g;
#pragma unroll
            for (int j = 0; j < 16; j++) {
                int half = j / 8, s = j / 4 % 2, element = j % 4;
                int k = half * DEPTH + 4 * q + 2 * s + element / 2;
                int64_t row = k / UNIT_GROUP * p.n_hidden + first_unit + k % UNIT_GROUP;
                int column = first + 8 * (element % 2);
                part[i][half][s].set(
                    element, column < p.n_hidden ? p.recurrent[row * p.n_hidden + column] : 0.0f);
            }
        }
    }
};

// The parts of d_h that a group's gradients of step T - 1 - round have: [reader][writer][CELLS].
static __device__ __forceinline__ float *parts_of(const Recurrence &p, int group, int round) {
    int64_t slot = 2 * (group % 2) + round % 2;
    return p.parts.at(group / 2) + slot * p.n_hidden * p.n_hidden;
}

static __device__ __forceinline__ uint32_t mark_of(int round) { return (uint32_t)round / 2 % 2; }

// Adds up what all blocks have for cell (row of this warp, g); the same bits in all four lanes.
template <int CHUNKS>
static __device__ __forceinline__ float gather_parts(const Recurrence &p, int group, int round,
                                                     int reader, int g, int q, float *sums) {
    int writer = (int)threadIdx.x / PART_GROUPS, cells = (int)threadIdx.x % PART_GROUPS * 4;
    const float *from =
        parts_of(p, group, round) + (int64_t)reader * p.n_unit_groups * CELLS + cells;
    uint32_t mark = mark_of(round), wrong;
    uint4 part[CHUNKS];
    do {
        wrong = 0;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int w = writer + PART_GROUPS * i;
            part[i] = w < p.n_unit_groups ? es_exchange_load(from + w * CELLS)
                                          : make_uint4(mark, mark, mark, mark);
        }
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            wrong |=
                (part[i].x ^ mark) | (part[i].y ^ mark) | (part[i].z ^ mark) | (part[i].w ^ mark);
        }
        if (wrong & 1) {
            es_exchange_pause();
        }
    } while (wrong & 1);
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        if (writer + PART_GROUPS * i < p.n_unit_groups) {
            sum.x += __uint_as_float(part[i].x);
            sum.y += __uint_as_float(part[i].y);
            sum.z += __uint_as_float(part[i].z);
            sum.w += __uint_as_float(part[i].w);
        }
    }
    *(float4 *)(sums + writer * PART_STRIDE + cells) = sum;
    __syncthreads();
    int cell = (int)threadIdx.x / 32 * UNIT_GROUP + g;
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < PART_GROUPS / 4; i++) {
        total += sums[(q * (PART_GROUPS / 4) + i) * PART_STRIDE + cell];
    }
    total += __shfl_xor_sync(0xFFFFFFFFu, total, 1);
    return total + __shfl_xor_sync(0xFFFFFFFFu, total, 2);
}

// Multiplies the gradients of a block's gates, [8 rows][32] in shared memory, into this block's
// part of d_h for all units.
template <int CHUNKS>
static __device__ __forceinline__ void
publish_parts(const Recurrence &p, const StateWeights<CHUNKS> &weights, int group, int round,
              int writer, int warp, int g, int q, const float *values) {
    uint32_t high[2][2][2], low[2][2][2], mark = mark_of(round);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float4 four = *(const float4 *)(values + g * VALUE_ROW + half * DEPTH + 4 * q);
        split_pair(four.x, four.y, high[half][0], low[half][0]);
        split_pair(four.z, four.w, high[half][1], low[half][1]);
    }
    float *parts = parts_of(p, group, round) + (int64_t)writer * CELLS;
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        int tile = warp + WARPS * i;
        if (tile * 16 >= p.n_hidden) {
            break;
        }
        SplitSums sums = {};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            sums.add(weights.part[i][half][0], high[half][0], low[half][0]);
            sums.add(weights.part[i][half][1], high[half][1], low[half][1]);
        }
#pragma unroll
        for (int element = 0; element < 4; element++) {
            int64_t reader = 2 * tile + element / 2;
            uint32_t bits = __float_as_uint(sums.sum[element] + sums.rest[element]);
            es_exchange_store(parts + reader * p.n_unit_groups * CELLS +
                                  (2 * q + element % 2) * UNIT_GROUP + g,
                              __uint_as_float((bits & ~1u) | mark));
        }
    }
}

// Values of cell (row, unit) that a step of backward reads: lane q its gate.
struct CellValues {
    float gate, cell, before, d_y;
    bool is_reset, was_reset; // at this step, at the later one
};

static __device__ __forceinline__ CellValues read_cell(const Recurrence &p, const Place &at, int t,
                                                       int unit, int q) {
    CellValues v = {0.0f, 0.0f, 0.0f, 0.0f, true, true};
    if (at.is_there) {
        int64_t row = at.at_step(p, t);
        v.gate = p.gates.at(at.env)[(row * 4 + q) * p.n_hidden + unit];
        v.cell = p.c.at(at.env)[row * p.n_hidden + unit];
        v.before = state_before(p, at, t, unit);
        v.d_y = p.d_y.at(at.env)[row * p.n_hidden + unit];
        v.is_reset = at.is_reset(p, t);
        v.was_reset = t + 1 < p.n_steps && at.is_reset(p, t + 1);
    }
    return v;
}

// Gradient of gate q before its activation; d_cell of this step in, of the one before it out.
static __device__ __forceinline__ float cell_gradient(const CellValues &v, int q, float d_h,
                                                      float &d_cell) {
    int quad = (int)threadIdx.x % 32 & ~3;
    float in = __shfl_sync(0xFFFFFFFFu, v.gate, quad);
    float forget = __shfl_sync(0xFFFFFFFFu, v.gate, quad + 1);
    float fresh = __shfl_sync(0xFFFFFFFFu, v.gate, quad + 2);
    float out = __shfl_sync(0xFFFFFFFFu, v.gate, quad + 3);
    float squashed = tanhf(v.cell);
    float d = d_h * out * (1.0f - squashed * squashed) + d_cell;
    d_cell = v.is_reset ? 0.0f : d * forget;
    float result = d * fresh * in * (1.0f - in);
    result = q == 1 ? d * v.before * forget * (1.0f - forget) : result;
    result = q == 2 ? d * in * (1.0f - fresh * fresh) : result;
    return q == 3 ? d_h * squashed * out * (1.0f - out) : result;
}

template <int CHUNKS>
static __global__ void __launch_bounds__(ES_THREADS, 1)
    recurrence_backward_kernel(const __grid_constant__ Recurrence p) {
    ES_DYNAMIC_SHARED(shared_bytes);
    float *sums = (float *)shared_bytes, *values = sums + PART_GROUPS * PART_STRIDE;
    float *d_cells = values + 2 * ROW_GROUP * VALUE_ROW; // [groups of this block][CELLS]
    int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, q = (int)threadIdx.x % 4;
    int unit_group = (int)blockIdx.x % p.n_unit_groups, unit = unit_group * UNIT_GROUP + g;
    int lane = (int)blockIdx.x / p.n_unit_groups, cell = warp * UNIT_GROUP + g;
    StateWeights<CHUNKS> weights;
    weights.load(p, unit_group * UNIT_GROUP, warp, g, q);
    int turn = 0; // of two buffers of values
    for (int round = 0; round < p.n_steps; round++) {
        int t = p.n_steps - 1 - round;
        for (int group = lane; group < p.n_row_groups; group += p.n_lanes) {
            float *d_cell_later = d_cells + group / p.n_lanes * CELLS + cell;
            Place at = place_of(p, group * ROW_GROUP + warp);
            CellValues v = read_cell(p, at, t, unit, q);
            float d_h = v.d_y, d_cell = 0.0f;
            if (round > 0) {
                float later = gather_parts<CHUNKS>(p, group, round - 1, unit_group, g, q, sums);
                d_h += v.was_reset ? 0.0f : later;
                d_cell = *d_cell_later;
            }
            float d_gate = cell_gradient(v, q, d_h, d_cell);
            float *own = values + turn * ROW_GROUP * VALUE_ROW;
            turn ^= 1;
            own[warp * VALUE_ROW + q * UNIT_GROUP + g] = at.is_there ? d_gate : 0.0f;
            if (q == 0) {
                *d_cell_later = d_cell;
            }
            __syncthreads();
            if (t > 0 || p.d_h_start.data != NULL) {
                publish_parts<CHUNKS>(p, weights, group, round, unit_group, warp, g, q, own);
            }
            if (at.is_there) {
                p.d_gates.at(at.env)[(at.at_step(p, t) * 4 + q) * p.n_hidden + unit] = d_gate;
            }
            if (at.is_there && t == 0 && q == 0 && p.d_c_start.data != NULL) {
                p.d_c_start.at(at.env)[(int64_t)at.n * p.n_hidden + unit] = d_cell;
            }
        }
    }
    for (int group = lane; group < p.n_row_groups && p.d_h_start.data != NULL; group += p.n_lanes) {
        Place at = place_of(p, group * ROW_GROUP + warp);
        float d_h = gather_parts<CHUNKS>(p, group, p.n_steps - 1, unit_group, g, q, sums);
        __syncthreads(); // the sums were read
        if (at.is_there && q == 0) {
            p.d_h_start.at(at.env)[(int64_t)at.n * p.n_hidden + unit] =
                at.is_reset(p, 0) ? 0.0f : d_h;
        }
    }
}

typedef void (*RecurrenceKernel)(Recurrence);

static RecurrenceKernel recurrence_kernel(int64_t n_hidden, bool is_backward) {
    if (n_hidden <= WARPS * DEPTH) {
        return is_backward ? recurrence_backward_kernel<1> : recurrence_forward_kernel<1>;
    }
    if (n_hidden <= 2 * WARPS * DEPTH) {
        return is_backward ? recurrence_backward_kernel<2> : recurrence_forward_kernel<2>;
    }
    return is_backward ? recurrence_backward_kernel<4> : recurrence_forward_kernel<4>;
}

// f32, environments in places that a lane can read four floats of at a time; or absent
static bool is_plain(EsIn tensor) {
    return tensor == NULL || (tensor->dtype == ES_DTYPE_F32 && (uintptr_t)tensor->data % 16 == 0 &&
                              tensor->stride[0] % 4 == 0);
}

static bool is_shared(const EsTensor *weight, int64_t n_envs) {
    return n_envs == 1 || weight->stride[0] == 0;
}

// Poses the recurrence of both directions; false where steps are to be launched one by one: other
// types, sizes or weights than above, no step, no row, and backward more than 163 groups of rows
// (1,304 rows of all environments), whose cells a block's shared memory has no place for.
static bool pose_recurrence(EsLaunch &launch, bool is_backward, const EsLstmWeights *weights,
                            EsIn x, EsIn reset, EsIn h_start, EsIn c_start, EsIn gates, EsIn c,
                            EsIn y, Recurrence &p, size_t &shared_bytes) {
    int64_t n_envs = x->dim[0], n_hidden = y->dim[3], n_all_rows = n_envs * x->dim[2];
    const EsTensor *tensors[] = {x, h_start, c_start, gates, c, y};
    bool fits = n_hidden % DEPTH == 0 && n_hidden <= HIDDEN_MAX && n_all_rows < INT32_MAX / 8 &&
                x->dim[1] < INT32_MAX && is_shared(&weights->recurrent, n_envs) &&
                is_shared(&weights->bias_recurrent, n_envs);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        fits = fits && is_plain(tensors[i]);
    }
    p.n_row_groups = fits ? (int)es_ceil_div(n_all_rows, ROW_GROUP) : 0;
    shared_bytes =
        is_backward ? BACKWARD_BYTES + p.n_row_groups * CELLS * sizeof(float) : FORWARD_BYTES;
    if (!fits || n_all_rows == 0 || x->dim[1] == 0 || shared_bytes > ES_SHARED_BYTES_FREE) {
        return false;
    }
    p.recurrent = es_data<float>(&weights->recurrent);
    p.bias = es_data<float>(&weights->bias_recurrent);
    p.reset = es_in<uint8_t>(reset);
    p.h_start = es_in<float>(h_start);
    p.c_start = es_in<float>(c_start);
    p.gates = es_out<float>(gates);
    p.c = es_out<float>(c);
    p.y = es_out<float>(y);
    p.n_steps = (int)x->dim[1];
    p.n_rows = (int)x->dim[2];
    p.n_all_rows = (int)n_all_rows;
    p.n_hidden = (int)n_hidden;
    p.n_unit_groups = (int)n_hidden / UNIT_GROUP;
    int64_t n_resident =
        launch.count_resident(recurrence_kernel(n_hidden, is_backward), ES_THREADS, shared_bytes);
    p.n_lanes = (int)min(n_resident / p.n_unit_groups, (int64_t)p.n_row_groups);
    return p.n_lanes > 0;
}

static void start_recurrence(EsLaunch &launch, bool is_backward, const Recurrence &p,
                             size_t shared_bytes) {
    launch.start_cooperative(recurrence_kernel(p.n_hidden, is_backward),
                             dim3((unsigned)(p.n_unit_groups * p.n_lanes)), ES_THREADS,
                             shared_bytes, p);
}

#endif
