// With f32 weights that environments share, W_x x of all steps is one product and the recurrence
// one kernel in either direction (lstm_recurrence.cuh). Else forward takes one kernel per step,
// which sums W_x x + W_h h in f32 and activates without storing the sums in between, and backward
// one kernel over the cells and one product per step. The weight gradients of all steps are
// products of their own.
// Letters: E environments, T steps, N rows, I inputs, D units.
#include "kernels/ops/lstm_recurrence.cuh"
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
    if (x->dim[1] == 0) {
        return;
    }
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
// it: 4 D^2 floats of an environment are two groups of rows with two slots each. With more rows,
// above 16 of each environment on average, there is no room for them: steps are launched one by
// one.
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

// Of a sequence without a step.
static void fill_gradients(EsLaunch &launch, EsOut d_h_start, EsOut d_c_start,
                           const EsLstmWeights *d_weights) {
    const EsTensor *gradients[] = {d_h_start,
                                   d_c_start,
                                   &d_weights->input,
                                   &d_weights->recurrent,
                                   &d_weights->bias_input,
                                   &d_weights->bias_recurrent};
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++) {
        if (gradients[i] != NULL) {
            launch.fill_zero(gradients[i]);
        }
    }
}

void es_lstm_backward_cuda(EsStream *s, const EsLstmWeights *weights, EsIn x, EsIn reset,
                           EsIn h_start, EsIn c_start, EsIn gates, EsIn c, EsIn y, EsIn d_y,
                           EsOut d_gates, EsOut d_x, EsOut d_h_start, EsOut d_c_start,
                           const EsLstmWeights *d_weights) {
    EsLaunch launch(s, "lstm_backward");
    LstmShape shape = lstm_shape(x, y);
    if (shape.n_steps == 0) {
        fill_gradients(launch, d_h_start, d_c_start, d_weights);
        return;
    }
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
