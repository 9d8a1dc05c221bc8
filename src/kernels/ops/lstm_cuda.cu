// Where environments share f32 weights, W_x x of all steps is one product and the recurrence one
// kernel in either direction. Elsewhere forward takes one kernel per step, which sums W_x x + W_h h
// in f32 and activates without storing the sums in between, and backward one kernel over the cells
// and one product per step. The weight gradients of all steps are products of their own.
// Letters: E environments, T steps, N rows, I inputs, D units.
#include "kernels/cuda/cuda_matrix.cuh"
#include "kernels/ops/matmul_cuda.cuh"

// Memory of either activation type: gates and cells may be f32 where x and y are bf16.
struct Mixed {
    void *data;     // NULL for a nullable tensor that is absent
    int64_t stride; // elements between environments
    int is_bf16;
};

static Mixed mixed(EsIn tensor) {
    Mixed values = {es_data<void>(tensor), tensor == NULL ? 0 : tensor->stride[0],
                    tensor != NULL && tensor->dtype == ES_DTYPE_BF16};
    return values;
}

static __device__ __forceinline__ float load(const Mixed &values, int64_t env, int64_t j) {
    j += env * values.stride;
    return values.is_bf16 ? es_load((const __nv_bfloat16 *)values.data + j)
                          : es_load((const float *)values.data + j);
}

static __device__ __forceinline__ void store(const Mixed &values, int64_t env, int64_t j,
                                             float value) {
    j += env * values.stride;
    if (values.is_bf16) {
        es_store((__nv_bfloat16 *)values.data + j, value);
    } else {
        es_store((float *)values.data + j, value);
    }
}

struct LstmShape {
    int64_t n_steps, n_rows, n_in, n_hidden;
    int64_t t; // the step at work
};

// Offsets of a thread's cell (e, n, d); rows count within its environment.
struct Cell {
    int64_t env, n, d;
    int64_t row;    // of [T, N] at step t
    int64_t before; // of [T, N] at step t - 1
};

static __device__ __forceinline__ Cell cell_at(const LstmShape &shape, int64_t env, int64_t n,
                                               int64_t d) {
    Cell cell;
    cell.env = env;
    cell.n = n;
    cell.d = d;
    cell.row = shape.t * shape.n_rows + n;
    cell.before = cell.row - shape.n_rows;
    return cell;
}

static __device__ __forceinline__ bool is_reset(const EsEnvs<const uint8_t> &reset,
                                                const Cell &at) {
    return reset.data != NULL && reset.at(at.env)[at.row] != 0;
}

static __device__ __forceinline__ float cell_before(const LstmShape &shape, const Cell &at,
                                                    const EsEnvs<const uint8_t> &reset,
                                                    const Mixed &c, const Mixed &c_start) {
    if (is_reset(reset, at)) {
        return 0.0f;
    }
    if (shape.t > 0) {
        return load(c, at.env, at.before * shape.n_hidden + at.d);
    }
    return c_start.data == NULL ? 0.0f : load(c_start, at.env, at.n * shape.n_hidden + at.d);
}

static __device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// --- forward ---

// A block computes STEP_ROWS rows by STEP_HIDDEN units, all four gates; a thread two rows of one
// unit.
#define STEP_ROWS    32
#define STEP_HIDDEN  16
#define STEP_DEPTH   16
#define STEP_COLUMNS (4 * STEP_HIDDEN)

struct LstmStep {
    EsEnvs<const float> input, recurrent, bias_input, bias_recurrent;
    EsEnvs<const uint8_t> reset; // nullable
    Mixed x, h, c_start, gates, c, y;
    int64_t h_row; // first row of h in its environment
    LstmShape shape;
    uint32_t row_tiles, unit_tiles;
    int rounds; // weights are rounded to bf16
};

struct StepTiles {
    float rows[STEP_DEPTH][STEP_ROWS + 1];
    float columns[STEP_DEPTH][STEP_COLUMNS + 1];
};

// sum[r][g] += rows of `values` times the four gates' rows of `weight` [4D, width]; `skip`
// (nullable) marks rows that are 0.
static __device__ void add_product(float (&sum)[2][4], StepTiles &tiles, const Mixed &values,
                                   int64_t env, int64_t first_row, const float *weight,
                                   int64_t width, int64_t row0, int64_t unit0, const uint8_t *skip,
                                   const LstmStep &step) {
    int tx = (int)threadIdx.x % STEP_HIDDEN, ty = (int)threadIdx.x / STEP_HIDDEN;
    for (int64_t k0 = 0; k0 < width; k0 += STEP_DEPTH) {
        for (int slot = (int)threadIdx.x; slot < STEP_ROWS * STEP_DEPTH; slot += ES_THREADS) {
            int64_t n = row0 + slot / STEP_DEPTH, k = k0 + slot % STEP_DEPTH;
            bool is_inside = n < step.shape.n_rows && k < width && (skip == NULL || skip[n] == 0);
            tiles.rows[slot % STEP_DEPTH][slot / STEP_DEPTH] =
                is_inside ? load(values, env, (first_row + n) * width + k) : 0.0f;
        }
        for (int slot = (int)threadIdx.x; slot < STEP_COLUMNS * STEP_DEPTH; slot += ES_THREADS) {
            int column = slot / STEP_DEPTH;
            int64_t unit = unit0 + column % STEP_HIDDEN, k = k0 + slot % STEP_DEPTH;
            int64_t row = column / STEP_HIDDEN * step.shape.n_hidden + unit;
            bool is_inside = unit < step.shape.n_hidden && k < width;
            float w = is_inside ? weight[row * width + k] : 0.0f;
            tiles.columns[slot % STEP_DEPTH][column] =
                step.rounds ? es_weight<__nv_bfloat16>(w) : w;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < STEP_DEPTH; k++) {
            float low = tiles.rows[k][ty], high = tiles.rows[k][ty + STEP_ROWS / 2];
#pragma unroll
            for (int g = 0; g < 4; g++) {
                float w = tiles.columns[k][g * STEP_HIDDEN + tx];
                sum[0][g] = fmaf(low, w, sum[0][g]);
                sum[1][g] = fmaf(high, w, sum[1][g]);
            }
        }
        __syncthreads();
    }
}

static __device__ void store_cell(const LstmStep &step, const Cell &at, const float (&sum)[4]) {
    int64_t n_hidden = step.shape.n_hidden;
    int64_t gate = at.row * 4 * n_hidden + at.d;
    const float *bias_input = step.bias_input.at(at.env) + at.d;
    const float *bias_recurrent = step.bias_recurrent.at(at.env) + at.d;
    float total[4];
#pragma unroll
    for (int g = 0; g < 4; g++) {
        total[g] = sum[g] + bias_input[g * n_hidden] + bias_recurrent[g * n_hidden];
    }
    float in = sigmoid(total[0]), forget = sigmoid(total[1]);
    float fresh = tanhf(total[2]), out = sigmoid(total[3]);
    float before = cell_before(step.shape, at, step.reset, step.c, step.c_start);
    float cell = forget * before + in * fresh;
    store(step.gates, at.env, gate, in);
    store(step.gates, at.env, gate + n_hidden, forget);
    store(step.gates, at.env, gate + 2 * n_hidden, fresh);
    store(step.gates, at.env, gate + 3 * n_hidden, out);
    store(step.c, at.env, at.row * n_hidden + at.d, cell);
    store(step.y, at.env, at.row * n_hidden + at.d, out * tanhf(cell));
}

static __global__ void lstm_forward_kernel(const __grid_constant__ LstmStep step) {
    __shared__ StepTiles tiles;
    const LstmShape &shape = step.shape;
    uint32_t tile = blockIdx.x;
    int64_t unit0 = (int64_t)(tile % step.unit_tiles) * STEP_HIDDEN;
    tile /= step.unit_tiles;
    int64_t row0 = (int64_t)(tile % step.row_tiles) * STEP_ROWS;
    int64_t env = tile / step.row_tiles;
    int64_t first_row = shape.t * shape.n_rows;

    float sum[2][4] = {};
    add_product(sum, tiles, step.x, env, first_row, step.input.at(env), shape.n_in, row0, unit0,
                NULL, step);
    if (step.h.data != NULL) {
        const uint8_t *skip = step.reset.data == NULL ? NULL : step.reset.at(env) + first_row;
        add_product(sum, tiles, step.h, env, step.h_row, step.recurrent.at(env), shape.n_hidden,
                    row0, unit0, skip, step);
    }
    int64_t unit = unit0 + threadIdx.x % STEP_HIDDEN;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t n = row0 + threadIdx.x / STEP_HIDDEN + half * (STEP_ROWS / 2);
        if (n < shape.n_rows && unit < shape.n_hidden) {
            store_cell(step, cell_at(shape, env, n, unit), sum[half]);
        }
    }
}

// --- backward ---

// Gradients from step t to step t - 1 wait in the latter's rows of d_gates, which it overwrites:
// the gradient of the cell in the first quarter, that of h in the second. Each thread reads its own
// two values before it writes.
static __global__ void lstm_backward_kernel(EsEnvs<const uint8_t> reset, Mixed c_start, Mixed gates,
                                            Mixed c, Mixed d_y, Mixed d_gates, Mixed d_c_start,
                                            LstmShape shape, EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    int64_t n_hidden = shape.n_hidden;
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        Cell at = cell_at(shape, span.env, j / (uint32_t)n_hidden, j % (uint32_t)n_hidden);
        int64_t gate = at.row * 4 * n_hidden + at.d;
        bool is_last = shape.t + 1 == shape.n_steps;
        float d_cell_later = is_last ? 0.0f : load(d_gates, at.env, gate);
        float d_h_later = is_last ? 0.0f : load(d_gates, at.env, gate + n_hidden);
        float in = load(gates, at.env, gate), forget = load(gates, at.env, gate + n_hidden);
        float fresh = load(gates, at.env, gate + 2 * n_hidden),
              out = load(gates, at.env, gate + 3 * n_hidden);
        float squashed = tanhf(load(c, at.env, at.row * n_hidden + at.d));
        float before = cell_before(shape, at, reset, c, c_start);
        float d_h = load(d_y, at.env, at.row * n_hidden + at.d) + d_h_later;
        float d_cell = d_h * out * (1.0f - squashed * squashed) + d_cell_later;
        store(d_gates, at.env, gate, d_cell * fresh * in * (1.0f - in));
        store(d_gates, at.env, gate + n_hidden, d_cell * before * forget * (1.0f - forget));
        store(d_gates, at.env, gate + 2 * n_hidden, d_cell * in * (1.0f - fresh * fresh));
        store(d_gates, at.env, gate + 3 * n_hidden, d_h * squashed * out * (1.0f - out));
        float d_before = is_reset(reset, at) ? 0.0f : d_cell * forget;
        if (shape.t > 0) {
            store(d_gates, at.env, at.before * 4 * n_hidden + at.d, d_before);
        } else if (d_c_start.data != NULL) {
            store(d_c_start, at.env, at.n * n_hidden + at.d, d_before);
        }
    }
}

// --- the recurrence as one kernel ---
//
// Where all environments share one set of f32 weights, their rows meet in groups of ROW_GROUP, and
// one cooperative launch runs all steps of either direction. A block owns UNIT_GROUP units: the 32
// rows of W_h that make their gates stay in its registers, as fragments of the tensor cores, split
// for products in three TF32 parts. It takes every n_lanes-th group of rows, one after the other.
//
// Forward, the warps of a block share the depth of W_h h: a lane reads four adjacent values of h
// from where the other blocks stored them in y, which is filled with UNWRITTEN before. Backward, a
// block has the gradients of its own 32 gates, and multiplies them into a part of d_h for all
// units. Each block adds up the parts of all blocks for its units, in order. The lowest bit of a
// part says in which round it was written; two slots alternate. A block that overwrites a slot has
// read what the readers of that slot made of it, so that they are done with it.

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
#define PART_STRIDE   68 //
#define FORWARD_BYTES (2 * WARPS * 4 * TURN_GATE * sizeof(float))
// and CELLS floats for each group of rows
#define BACKWARD_BYTES ((PART_GROUPS * PART_STRIDE + 2 * ROW_GROUP * VALUE_ROW) * sizeof(float))

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

// What a step of backward reads of cell (row, unit): lane q its gate.
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

// Poses the recurrence of both directions; false where steps are to be launched one by one.
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
    if (!fits || n_all_rows == 0 || shared_bytes > ES_SHARED_BYTES_FREE) {
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

static LstmShape lstm_shape(EsIn x, EsIn y) {
    LstmShape shape = {x->dim[1], x->dim[2], x->dim[3], y->dim[3], 0};
    return shape;
}

// Columns [column, column + width) of the rows of step t in a tensor [E, T, N, row_width].
static EsMatrix step_rows(EsIn sequence, int64_t t, int64_t column) {
    int64_t row_width = sequence->dim[3], step = sequence->dim[2] * row_width;
    size_t skipped_bytes = (size_t)(t * step + column) * es_dtype_bytes(sequence->dtype);
    EsMatrix matrix = {(unsigned char *)sequence->data + skipped_bytes, sequence->dtype,
                       sequence->stride[0], row_width, 1};
    return matrix;
}

// The same rows seen from the other side: [row_width, rows].
static EsMatrix transposed(EsMatrix matrix) {
    EsMatrix turned = matrix;
    turned.row_stride = matrix.column_stride;
    turned.column_stride = matrix.row_stride;
    return turned;
}

static const uint8_t *resets_from(EsIn reset, int64_t t, int64_t n_rows) {
    return reset == NULL ? NULL : (const uint8_t *)reset->data + t * n_rows;
}

// A product of E environments with the fields all of this file's have in common.
static EsProduct product_of(EsIn x, EsIn reset, int64_t m, int64_t n, int64_t k) {
    EsProduct product = {};
    product.n_envs = x->dim[0];
    product.m = m;
    product.n = n;
    product.k = k;
    product.skip_env_stride = reset == NULL ? 0 : reset->stride[0];
    return product;
}

// One launch per step, for weights of each environment's own and other types and sizes.
static void start_forward_steps(EsLaunch &launch, const EsLstmWeights *weights, EsIn x, EsIn reset,
                                EsIn h_start, EsIn c_start, EsOut gates, EsOut c, EsOut y) {
    LstmStep step = {};
    step.input = es_in<float>(&weights->input);
    step.recurrent = es_in<float>(&weights->recurrent);
    step.bias_input = es_in<float>(&weights->bias_input);
    step.bias_recurrent = es_in<float>(&weights->bias_recurrent);
    step.reset = es_in<uint8_t>(reset);
    step.x = mixed(x);
    step.c_start = mixed(c_start);
    step.gates = mixed(gates);
    step.c = mixed(c);
    step.y = mixed(y);
    step.shape = lstm_shape(x, y);
    step.rounds = x->dtype == ES_DTYPE_BF16;
    step.row_tiles = (uint32_t)es_ceil_div(step.shape.n_rows, STEP_ROWS);
    step.unit_tiles = (uint32_t)es_ceil_div(step.shape.n_hidden, STEP_HIDDEN);
    dim3 grid((unsigned)(x->dim[0] * step.row_tiles * step.unit_tiles));
    for (int64_t t = 0; t < step.shape.n_steps; t++) {
        step.shape.t = t;
        step.h = t > 0 ? mixed(y) : mixed(h_start);
        step.h_row = t > 0 ? (t - 1) * step.shape.n_rows : 0;
        launch.start(lstm_forward_kernel, grid, ES_THREADS, step);
    }
}

// gates = W_x x + b_x for all steps at once
static void start_inputs(EsLaunch &launch, const EsLstmWeights *weights, EsIn x, EsOut gates) {
    int64_t n_gates = gates->dim[3], n_in = x->dim[3];
    EsProduct inputs = product_of(x, NULL, x->dim[1] * x->dim[2], n_gates, n_in);
    inputs.a = es_matrix(x, n_in, 0);
    inputs.b = es_matrix(&weights->input, n_in, 1);
    inputs.c = es_matrix(gates, n_gates, 0);
    inputs.bias = es_in<float>(&weights->bias_input);
    es_product_start(launch, inputs);
}

void es_lstm_forward_cuda(EsStream *s, const EsLstmWeights *weights, EsIn x, EsIn reset,
                          EsIn h_start, EsIn c_start, EsOut gates, EsOut c, EsOut y) {
    EsLaunch launch(s, "lstm_forward");
    Recurrence recurrence = {};
    size_t shared_bytes = 0;
    if (!pose_recurrence(launch, false, weights, x, reset, h_start, c_start, gates, c, y,
                         recurrence, shared_bytes)) {
        start_forward_steps(launch, weights, x, reset, h_start, c_start, gates, c, y);
        return;
    }
    start_inputs(launch, weights, x, gates);
    size_t n_envs = (size_t)y->dim[0];
    launch.fill(y->data, (int)(UNWRITTEN & 0xFF), es_tensor_bytes(y) / n_envs,
                (size_t)y->stride[0] * sizeof(float), n_envs);
    start_recurrence(launch, false, recurrence, shared_bytes);
}

// d_W_h = sum over the steps of d_gates_t^T h_{t-1}: the steps from 1 in one product, then the
// start.
static void start_recurrent_gradient(EsLaunch &launch, LstmShape shape, EsIn x, EsIn reset,
                                     EsIn h_start, EsIn y, EsIn d_gates, EsOut d_recurrent) {
    int64_t n_gates = 4 * shape.n_hidden;
    bool is_written = false;
    if (shape.n_steps > 1) {
        int64_t n_later = (shape.n_steps - 1) * shape.n_rows;
        EsProduct later = product_of(x, reset, n_gates, shape.n_hidden, n_later);
        later.a = transposed(step_rows(d_gates, 1, 0));
        later.b = step_rows(y, 0, 0);
        later.c = es_matrix(d_recurrent, shape.n_hidden, 0);
        later.skip_k = resets_from(reset, 1, shape.n_rows);
        es_product_start(launch, later);
        is_written = true;
    }
    if (h_start != NULL) {
        EsProduct first = product_of(x, reset, n_gates, shape.n_hidden, shape.n_rows);
        first.a = transposed(step_rows(d_gates, 0, 0));
        first.b = es_matrix(h_start, shape.n_hidden, 0);
        first.c = es_matrix(d_recurrent, shape.n_hidden, 0);
        first.beta = is_written ? 1.0f : 0.0f;
        first.skip_k = resets_from(reset, 0, shape.n_rows);
        es_product_start(launch, first);
        is_written = true;
    }
    if (!is_written) {
        launch.fill_zero(d_recurrent);
    }
}

static void start_input_gradients(EsLaunch &launch, const LstmShape &shape,
                                  const EsLstmWeights *weights, EsIn x, EsIn d_gates, EsOut d_x,
                                  const EsLstmWeights *d_weights) {
    int64_t n_gates = 4 * shape.n_hidden, n_all = shape.n_steps * shape.n_rows;
    EsProduct weight = product_of(x, NULL, n_gates, shape.n_in, n_all);
    weight.a = es_matrix(d_gates, n_gates, 1);
    weight.b = es_matrix(x, shape.n_in, 0);
    weight.c = es_matrix(&d_weights->input, shape.n_in, 0);
    es_product_start(launch, weight);
    es_column_sums_start(launch, d_gates, n_all, n_gates, &d_weights->bias_input,
                         &d_weights->bias_recurrent);
    if (d_x != NULL) {
        EsProduct input = product_of(x, NULL, n_all, shape.n_in, n_gates);
        input.a = es_matrix(d_gates, n_gates, 0);
        input.b = es_matrix(&weights->input, shape.n_in, 0);
        input.rounds_b = x->dtype == ES_DTYPE_BF16;
        input.c = es_matrix(d_x, shape.n_in, 0);
        es_product_start(launch, input);
    }
}

static void start_backward_steps(EsLaunch &launch, const EsLstmWeights *weights, EsIn x, EsIn reset,
                                 EsIn c_start, EsIn gates, EsIn c, EsIn y, EsIn d_y, EsOut d_gates,
                                 EsOut d_h_start, EsOut d_c_start) {
    LstmShape shape = lstm_shape(x, y);
    int64_t n_gates = 4 * shape.n_hidden;
    EsTiles tiles = es_tiles(shape.n_rows * shape.n_hidden);
    for (shape.t = shape.n_steps - 1; shape.t >= 0; shape.t--) {
        launch.start(lstm_backward_kernel, es_tiles_grid(tiles, x->dim[0]), ES_THREADS,
                     es_in<uint8_t>(reset), mixed(c_start), mixed(gates), mixed(c), mixed(d_y),
                     mixed(d_gates), mixed(d_c_start), shape, tiles);
        if (shape.t > 0 || d_h_start != NULL) {
            EsProduct state = product_of(x, reset, shape.n_rows, shape.n_hidden, n_gates);
            state.a = step_rows(d_gates, shape.t, 0);
            state.b = es_matrix(&weights->recurrent, shape.n_hidden, 0);
            state.rounds_b = x->dtype == ES_DTYPE_BF16;
            state.c = shape.t > 0 ? step_rows(d_gates, shape.t - 1, shape.n_hidden)
                                  : es_matrix(d_h_start, shape.n_hidden, 0);
            state.skip_row = resets_from(reset, shape.t, shape.n_rows);
            es_product_start(launch, state);
        }
    }
}

// Adds the gradients to a recurrence. Blocks exchange parts in d_recurrent, which is written behind
// it: 4 D^2 floats of an environment are two groups of rows with two slots each.
static bool pose_gradients(Recurrence &p, EsIn d_y, EsOut d_gates, EsOut d_h_start, EsOut d_c_start,
                           EsOut d_recurrent) {
    p.d_y = es_in<float>(d_y);
    p.d_gates = es_out<float>(d_gates);
    p.d_h_start = es_out<float>(d_h_start);
    p.d_c_start = es_out<float>(d_c_start);
    p.parts = es_out<float>(d_recurrent);
    return is_plain(d_y) && is_plain(d_gates) && is_plain(d_h_start) && is_plain(d_c_start) &&
           is_plain(d_recurrent) && p.n_row_groups <= 2 * d_recurrent->dim[0];
}

void es_lstm_backward_cuda(EsStream *s, const EsLstmWeights *weights, EsIn x, EsIn reset,
                           EsIn h_start, EsIn c_start, EsIn gates, EsIn c, EsIn y, EsIn d_y,
                           EsOut d_gates, EsOut d_x, EsOut d_h_start, EsOut d_c_start,
                           const EsLstmWeights *d_weights) {
    EsLaunch launch(s, "lstm_backward");
    LstmShape shape = lstm_shape(x, y);
    const EsTensor *parts = &d_weights->recurrent;
    Recurrence recurrence = {};
    size_t shared_bytes = 0;
    if (pose_recurrence(launch, true, weights, x, reset, h_start, c_start, gates, c, y, recurrence,
                        shared_bytes) &&
        pose_gradients(recurrence, d_y, d_gates, d_h_start, d_c_start, parts)) {
        // marks of a round that is not the first
        launch.fill(parts->data, 0xFF, 4 * sizeof(float) * (size_t)(y->dim[3] * y->dim[3]),
                    (size_t)parts->stride[0] * sizeof(float),
                    (size_t)es_ceil_div(recurrence.n_row_groups, 2));
        start_recurrence(launch, true, recurrence, shared_bytes);
    } else {
        start_backward_steps(launch, weights, x, reset, c_start, gates, c, y, d_y, d_gates,
                             d_h_start, d_c_start);
    }
    start_input_gradients(launch, shape, weights, x, d_gates, d_x, d_weights);
    start_recurrent_gradient(launch, shape, x, reset, h_start, y, d_gates, &d_weights->recurrent);
}
