// Kernels of an acting step: layers with their norms on the way in, the LSTM, and a tail of small
// layers. policy_inference_tile.cuh says how a tile is computed.
//
// E environments, R rows of a layer, K inputs, N outputs, H units of the LSTM.
#include "control/policy/policy_inference_tile.cuh"

// --- layers ---

// Tile `block` of a layer: those of a job stand together, row tiles of one column tile first.
template <int M, bool IS_SPLIT>
static __device__ void compute_tile(Tile<M> &tile, const EsActLayer &layer, int block) {
    int j = 0, n_row_tiles, n_tiles;
    for (;; j++) {
        n_row_tiles = ((int)layer.job[j].n_rows + 16 * M - 1) / (16 * M);
        n_tiles = (layer.job[j].n_outputs + ES_ACT_COLUMNS - 1) / ES_ACT_COLUMNS;
        if (block < n_row_tiles * n_tiles) {
            break;
        }
        block -= n_row_tiles * n_tiles;
    }
    const EsActJob &job = layer.job[j];
    int column_tile = block / n_row_tiles;
    int64_t row0 = (int64_t)(block % n_row_tiles) * 16 * M;
    int column0 = column_tile * ES_ACT_COLUMNS, lane = (int)threadIdx.x % 32;
    int column = column0 + lane / 4;
    WeightRows weight = {job.weight + (int64_t)column * job.input.width,
                         (int64_t)8 * job.input.width,
                         column < job.n_outputs ? (job.n_outputs - column + 7) / 8 : 0};
    join_norms<M>(tile.norms, job.input, row0, job.n_rows);
    __syncthreads();
    Sums<M> sums = {};
    add_product<M, IS_SPLIT>(sums, job.input, tile.norms, row0, job.n_rows, weight,
                             (int)threadIdx.x / 32);
    leave_tile<M>(tile, sums);

    unsigned local = threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    if (local >= 16 * M) { // whole warps
        return;
    }
    int64_t row = row0 + local;
    bool is_row = row < job.n_rows;
    int first = column0 + 4 * (int)part, n_own = min(4, job.n_outputs - first);
    float *y = job.y + first + row * job.pitch;
    if (job.n_members > 1) {
        uint32_t env = (uint32_t)row / (uint32_t)job.n_members;
        uint32_t member = (uint32_t)row - env * (uint32_t)job.n_members;
        y = job.y + first + (int64_t)env * job.pitch + (int64_t)member * job.member_pitch;
    }
    float value[4];
    for (int i = 0; i < 4; i++) {
        value[i] = 0.0f;
        if (i < n_own) {
            float bias = job.bias != NULL ? job.bias[first + i] : 0.0f;
            value[i] = join_warps<M>(tile, local, 4 * part + i) + bias;
        }
        if (i < n_own && is_row) {
            y[i] = value[i];
        }
    }
    float *left = job.sums != NULL && is_row ? job.sums + 2 * (row * n_tiles + column_tile) : NULL;
    leave_sums<4>(left, value, n_own, (float)min(ES_ACT_COLUMNS, job.n_outputs - column0), part);
}

// grid: tiles of all jobs
template <int M, bool IS_SPLIT>
static __global__ void __launch_bounds__(ES_THREADS, 2)
    layer_kernel(const __grid_constant__ EsActLayer layer) {
    __shared__ Tile<M> tile;
    compute_tile<M, IS_SPLIT>(tile, layer, (int)blockIdx.x);
}

// --- the LSTM ---

static __device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// One cell from the sums of its gates; returns h.
template <int M>
static __device__ float finish_cell(const EsActLstm &lstm, const Tile<M> &tile, unsigned local,
                                    unsigned part, int64_t row, int unit) {
    int H = lstm.n_hidden;
    int64_t at = row * H + unit;
    float gate[4];
    for (int g = 0; g < 4; g++) {
        gate[g] = join_warps<M>(tile, local, 8 * g + part) + lstm.bias[g * H + unit] +
                  lstm.gates_h[4 * row * H + g * H + unit];
    }
    bool is_reset = lstm.is_reset != NULL && lstm.is_reset[row] != 0;
    float before = is_reset ? 0.0f : lstm.c_before[at];
    float c = sigmoid(gate[1]) * before + sigmoid(gate[0]) * tanhf(gate[2]);
    float h = sigmoid(gate[3]) * tanhf(c);
    lstm.c_after[at] = c;
    lstm.h_after[at] = h;
    if (lstm.x_after != NULL) {
        float x = normalise(lstm.x.x[row * lstm.x.pitch + unit], tile.norms[local],
                            lstm.x.gamma[unit], lstm.x.beta[unit]);
        lstm.x_after[at] = rectify(x);
    }
    return h;
}

// grid (row tiles, unit tiles): a group of 8 columns is a gate of 8 units. A published network has
// about one tile for each multiprocessor, so a block may have all registers.
template <int M, bool IS_SPLIT>
static __global__ void __launch_bounds__(ES_THREADS, 1)
    lstm_kernel(const __grid_constant__ EsActLstm lstm) {
    __shared__ Tile<M> tile;
    int64_t row0 = (int64_t)blockIdx.x * 16 * M;
    int unit0 = (int)blockIdx.y * ES_ACT_UNITS, H = lstm.n_hidden;
    int warp = (int)threadIdx.x / 32, unit = unit0 + (int)threadIdx.x % 32 / 4;
    WeightRows weight = {lstm.weight + (int64_t)unit * H, (int64_t)H * H, 4};
    join_norms<M>(tile.norms, lstm.x, row0, lstm.n_rows);
    __syncthreads();
    Sums<M> sums = {};
    if (lstm.x.source == ES_ACT_PLAIN) {
        add_product_of<M, IS_SPLIT, ES_ACT_PLAIN, true, 2>(sums, lstm.x, tile.norms, row0,
                                                           lstm.n_rows, weight, warp);
    } else {
        add_product_of<M, IS_SPLIT, ES_ACT_NORMALISED, true, 2>(sums, lstm.x, tile.norms, row0,
                                                                lstm.n_rows, weight, warp);
    }
    leave_tile<M>(tile, sums);

    unsigned local = threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    if (local >= 16 * M) { // whole warps
        return;
    }
    int64_t row = row0 + local;
    bool is_row = row < lstm.n_rows;
    float h[1] = {is_row ? finish_cell<M>(lstm, tile, local, part, row, unit0 + (int)part) : 0.0f};
    float *left = is_row ? lstm.h_sums + 2 * (row * (H / ES_ACT_UNITS) + blockIdx.y) : NULL;
    leave_sums<1>(left, h, 1, (float)ES_ACT_UNITS, part);
}

// --- the tail ---

// Sums of this lane's share of W x for N_ROWS rows of W [N, K] from n0 on: adjacent lanes read
// adjacent weights, four at a time where K is a multiple of four.
template <int N_ROWS>
static __device__ __forceinline__ void add_rows(float (&sum)[N_ROWS], const float *weight,
                                                const float *x, int width, int n0, int n_outputs) {
    int lane = (int)threadIdx.x % 32;
    if (width % 4 == 0) {
        for (int k = 4 * lane; k < width; k += 4 * 32) {
            float w[N_ROWS][4];
#pragma unroll
            for (int i = 0; i < N_ROWS; i++) {
                load4<true>(w[i], n0 + i < n_outputs ? weight + (n0 + i) * width : NULL, k, width);
            }
#pragma unroll
            for (int i = 0; i < N_ROWS; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    sum[i] = fmaf(w[i][j], x[k + j], sum[i]);
                }
            }
        }
        return;
    }
    for (int k = lane; k < width; k += 32) {
#pragma unroll
        for (int i = 0; i < N_ROWS; i++) {
            float w = n0 + i < n_outputs ? weight[(n0 + i) * width + k] : 0.0f;
            sum[i] = fmaf(w, x[k], sum[i]);
        }
    }
}

// y[n] = W x + b for this warp's rows of W [N, K], N_ROWS at a time so that their loads overlap.
// x is in shared memory.
template <int N_ROWS>
static __device__ void multiply_rows(float *y, const float *weight, const float *bias,
                                     const float *x, int width, int n_outputs, bool is_rectified) {
    int lane = (int)threadIdx.x % 32;
    for (int n0 = (int)threadIdx.x / 32 * N_ROWS; n0 < n_outputs; n0 += WARPS * N_ROWS) {
        float sum[N_ROWS] = {};
        add_rows<N_ROWS>(sum, weight, x, width, n0, n_outputs);
#pragma unroll
        for (int i = 0; i < N_ROWS; i++) {
            float value = es_warp_sum(sum[i]);
            if (lane == 0 && n0 + i < n_outputs) {
                value += bias[n0 + i];
                y[n0 + i] = is_rectified ? rectify(value) : value;
            }
        }
    }
}

// to = ReLU(LN(x)), which may stand where x does
static __device__ void normalise_row(float *to, const float *x, const float *gamma,
                                     const float *beta, int width) {
    float sum = 0.0f, squares = 0.0f;
    for (int k = (int)threadIdx.x; k < width; k += ES_THREADS) {
        sum += x[k];
    }
    RowNorm norm;
    norm.mean = es_block_sum(sum) / (float)width;
    for (int k = (int)threadIdx.x; k < width; k += ES_THREADS) {
        squares += (x[k] - norm.mean) * (x[k] - norm.mean);
    }
    norm.inv_std = 1.0f / sqrtf(es_block_sum(squares) / (float)width + EPSILON);
    for (int k = (int)threadIdx.x; k < width; k += ES_THREADS) {
        to[k] = rectify(normalise(x[k], norm, gamma[k], beta[k]));
    }
}

struct TailInputs {
    float first[ES_POLICY_WIDTH_MAX / 2]; // of the head; version 2: of the value's second layer
    float value[ES_POLICY_WIDTH_MAX / 4];
    float last[ES_POLICY_WIDTH_MAX / 8];
};

// inputs.value = those of the value's third layer
static __device__ void read_value(TailInputs &inputs, const EsActTail &tail, int64_t row) {
    int H = tail.n_hidden;
    const float *x = tail.value_x + row * (H / 4);
    if (tail.value_weight1 != NULL) {
        normalise_row(inputs.first, tail.value_x + row * (H / 2), tail.first_gamma, tail.first_beta,
                      H / 2);
        __syncthreads();
        multiply_rows<8>(inputs.value, tail.value_weight1, tail.value_bias1, inputs.first, H / 2,
                         H / 4, false);
        __syncthreads();
        x = inputs.value;
    }
    normalise_row(inputs.value, x, tail.gamma, tail.beta, H / 4);
}

// One row: the state moves on, then the head's logits and the value.
static __device__ void finish_row(TailInputs &inputs, const EsActTail &tail, int64_t row) {
    int H = tail.n_hidden;
    for (int k = (int)threadIdx.x; tail.n_logits > 0 && k < H / 2; k += ES_THREADS) {
        inputs.first[k] = rectify(tail.head_x[row * (H / 2) + k]);
    }
    for (int k = (int)threadIdx.x; tail.h != NULL && k < H; k += ES_THREADS) {
        tail.h[row * H + k] = tail.h_after[row * H + k];
        tail.c[row * H + k] = tail.c_after[row * H + k];
    }
    read_value(inputs, tail, row);
    __syncthreads();
    multiply_rows<8>(inputs.last, tail.value_weight2, tail.value_bias2, inputs.value, H / 4, H / 8,
                     true);
    multiply_rows<4>(tail.logits + row * tail.pitch, tail.head_weight, tail.head_bias, inputs.first,
                     H / 2, tail.n_logits, false);
    __syncthreads();
    multiply_rows<4>(tail.value + row, tail.value_weight3, tail.value_bias3, inputs.last, H / 8, 1,
                     false);
}

static __global__ void tail_kernel(const __grid_constant__ EsActTail tail) {
    __shared__ TailInputs inputs;
    finish_row(inputs, tail, blockIdx.x);
}

// grid: rows of the tail, then tiles of all jobs
template <int M, bool IS_SPLIT>
static __global__ void __launch_bounds__(ES_THREADS, 2)
    last_kernel(const __grid_constant__ EsActLayer layer, const __grid_constant__ EsActTail tail) {
    __shared__ union {
        Tile<M> tile;
        TailInputs inputs;
    } memory;
    if (blockIdx.x < tail.n_rows) {
        finish_row(memory.inputs, tail, blockIdx.x);
    } else {
        compute_tile<M, IS_SPLIT>(memory.tile, layer, (int)(blockIdx.x - tail.n_rows));
    }
}

// --- launching ---

// 16 rows suffice for few environments; 32 halve how often weights are read.
static bool is_narrow(int64_t n_rows) { return n_rows <= 16; }

static bool is_narrow_layer(const EsActLayer *layer) {
    int64_t n_rows = 0;
    for (int j = 0; j < layer->n_jobs; j++) {
        n_rows = ES_MAX(n_rows, layer->job[j].n_rows);
    }
    return is_narrow(n_rows);
}

static int64_t count_blocks(const EsActLayer *layer) {
    int64_t rows = is_narrow_layer(layer) ? 16 : 32, n_blocks = 0;
    for (int j = 0; j < layer->n_jobs; j++) {
        n_blocks += es_ceil_div(layer->job[j].n_rows, rows) *
                    es_ceil_div(layer->job[j].n_outputs, ES_ACT_COLUMNS);
    }
    return n_blocks;
}

static void run_layer(EsStream *stream, const EsActLayer *layer, int is_tf32) {
    EsLaunch launch(stream, "policy_act_layer");
    dim3 grid((unsigned)count_blocks(layer));
    if (is_narrow_layer(layer)) {
        launch.start(is_tf32 ? layer_kernel<1, false> : layer_kernel<1, true>, grid, ES_THREADS,
                     *layer);
    } else {
        launch.start(is_tf32 ? layer_kernel<2, false> : layer_kernel<2, true>, grid, ES_THREADS,
                     *layer);
    }
}

static void run_last(EsStream *stream, const EsActLayer *layer, const EsActTail *tail,
                     int is_tf32) {
    EsLaunch launch(stream, "policy_act_last");
    dim3 grid((unsigned)(tail->n_rows + count_blocks(layer)));
    if (is_narrow_layer(layer)) {
        launch.start(is_tf32 ? last_kernel<1, false> : last_kernel<1, true>, grid, ES_THREADS,
                     *layer, *tail);
    } else {
        launch.start(is_tf32 ? last_kernel<2, false> : last_kernel<2, true>, grid, ES_THREADS,
                     *layer, *tail);
    }
}

static void run_lstm(EsStream *stream, const EsActLstm *lstm, int is_tf32) {
    EsLaunch launch(stream, "policy_act_lstm");
    dim3 grid((unsigned)es_ceil_div(lstm->n_rows, is_narrow(lstm->n_rows) ? 16 : 32),
              (unsigned)(lstm->n_hidden / ES_ACT_UNITS));
    if (is_narrow(lstm->n_rows)) {
        launch.start(is_tf32 ? lstm_kernel<1, false> : lstm_kernel<1, true>, grid, ES_THREADS,
                     *lstm);
    } else {
        launch.start(is_tf32 ? lstm_kernel<2, false> : lstm_kernel<2, true>, grid, ES_THREADS,
                     *lstm);
    }
}

static void run_tail(EsStream *stream, const EsActTail *tail) {
    EsLaunch launch(stream, "policy_act_tail");
    launch.start(tail_kernel, dim3((unsigned)tail->n_rows), ES_THREADS, *tail);
}

static const EsActKernels kernels = {run_layer, run_lstm, run_tail, run_last};

const EsActKernels *es_policy_act_kernels_cuda(void) { return &kernels; }
