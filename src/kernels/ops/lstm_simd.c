// The LSTM layer for 8 and 16 floats per vector. Letters as in lstm_cpu.c.
//
// A tile is a few units of all rows at one step: their recurrent products, then their cells. Where
// all environments share one set of weights (a stride of 0) a tile takes the rows of all of them,
// so that large weights are read once per step.
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/ops/lstm_job.h"
#include "kernels/ops/matmul_simd.h"
#include "kernels/simd.h"

#define ROWS        ES_SIMD_ROWS
#define HIDDEN_TILE 16              // of a forward tile, with four gates each
#define COLUMNS     ES_SIMD_COLUMNS // units of a backward tile
#define DEPTH       ES_SIMD_DEPTH
// recurrent weights that stay in a second-level cache from step to step
#define SMALL_WEIGHTS_BYTES (512 << 10)

// Rows of environments [first_env, end_env), which have the same weights, at step t.
typedef struct Tile {
    int64_t t, first_env, end_env, unit0;
} Tile;

typedef struct Steps {
    const EsLstmJob *job;
    void (*run_tile)(const EsLstmJob *job, const Tile *tile);
    int64_t first, last, direction; // of t; both ends included
    int64_t units_per_tile, n_tiles;
    int64_t t;             // the step at work, when the pieces are tiles
    int64_t envs_per_tile; // E with shared weights, else 1
} Steps;

// A row of a tile.
typedef struct TileRow {
    int64_t e, n;
    int is_reset;
} TileRow;

static TileRow row_at(const EsLstmJob *job, const Tile *tile, int64_t t, int64_t r) {
    TileRow row = {.e = tile->first_env + r / job->N, .n = r % job->N};
    row.is_reset =
        job->reset != NULL && t >= 0 && es_env_u8(job->reset, row.e)[t * job->N + row.n] != 0;
    return row;
}

// --- running tiles ---

static void run_tile_of_step(void *context, int64_t piece, int worker) {
    (void)worker;
    const Steps *steps = context;
    int64_t env = piece / steps->n_tiles * steps->envs_per_tile;
    Tile tile = {steps->t, env, env + steps->envs_per_tile,
                 piece % steps->n_tiles * steps->units_per_tile};
    steps->run_tile(steps->job, &tile);
}

static void run_environment(void *context, int64_t e, int worker) {
    (void)worker;
    const Steps *steps = context;
    for (int64_t t = steps->first; t != steps->last + steps->direction; t += steps->direction) {
        for (int64_t i = 0; i < steps->n_tiles; i++) {
            Tile tile = {t, e, e + 1, i * steps->units_per_tile};
            steps->run_tile(steps->job, &tile);
        }
    }
}

// One environment per piece while that keeps all threads busy and reading its weights anew is
// cheap; otherwise one tile per piece and a barrier per step. A row's results are the same either
// way.
static void run_steps(EsStream *s, Steps *steps) {
    const EsLstmJob *job = steps->job;
    int is_shared = job->recurrent->stride[0] == 0 && job->bias_recurrent->stride[0] == 0;
    steps->n_tiles = (job->D + steps->units_per_tile - 1) / steps->units_per_tile;
    steps->envs_per_tile = is_shared ? job->E : 1;
    if (job->T == 0 || job->E == 0) {
        return;
    }
    int is_small = job->D * job->D * 4 * (int64_t)sizeof(float) <= SMALL_WEIGHTS_BYTES;
    if (job->E >= es_thread_pool_size(es_stream_pool(s)) && (is_small || !is_shared)) {
        es_stream_parallel(s, job->E, run_environment, steps);
        return;
    }
    int64_t n_pieces = job->E / steps->envs_per_tile * steps->n_tiles;
    for (steps->t = steps->first; steps->t != steps->last + steps->direction;
         steps->t += steps->direction) {
        es_stream_parallel(s, n_pieces, run_tile_of_step, steps);
    }
}

// --- forward ---

// gates += W_h h for rows [first, end) of a tile
static void add_recurrent(const EsLstmJob *job, const Tile *tile, int64_t first, int64_t end) {
    int64_t D = job->D, n_hidden = ES_MIN(HIDDEN_TILE, D - tile->unit0);
    EsSimdRows rows = {.count = 0};
    for (int64_t r = first; r < end; r++) {
        TileRow row = row_at(job, tile, tile->t, r);
        const float *h = es_lstm_state_before(job, job->y, job->h_start, row.e, tile->t, row.n);
        if (h != NULL && !row.is_reset) {
            rows.a[rows.count] = h;
            rows.c[rows.count++] =
                es_env_f32(job->gates, row.e) + (tile->t * job->N + row.n) * 4 * D;
        }
    }
    const float *weight = es_env_f32(job->recurrent, tile->first_env);
    for (int64_t g = 0; g < 4; g++) {
        int64_t column = g * D + tile->unit0;
        ES_CPU_KERNEL(rows_times_transposed)
        (&rows, weight + column * D, D, n_hidden, D, 1.0f, column);
    }
}

static void update_cells(const EsLstmJob *job, const Tile *tile, TileRow row) {
    int64_t D = job->D, at = tile->t * job->N + row.n;
    const float *bias = es_env_f32(job->bias_recurrent, row.e);
    const float *before =
        row.is_reset ? NULL
                     : es_lstm_state_before(job, job->c, job->c_start, row.e, tile->t, row.n);
    float *gates = es_env_f32(job->gates, row.e) + at * 4 * D;
    float *c_row = es_env_f32(job->c, row.e) + at * D;
    float *y = es_env_f32(job->y, row.e) + at * D;
    int64_t end = ES_MIN(tile->unit0 + HIDDEN_TILE, D);
    for (int64_t unit = tile->unit0; unit < end; unit += LANES) {
        int64_t count = ES_MIN(LANES, end - unit);
        Vector sum[4];
        for (int g = 0; g < 4; g++) {
            int64_t column = g * D + unit;
            sum[g] = load_first(gates + column, count) + load_first(bias + column, count);
        }
        Vector i = logistic(sum[0]), f = logistic(sum[1]);
        Vector g = hyperbolic_tangent(sum[2]), o = logistic(sum[3]);
        Vector c = i * g;
        if (before != NULL) {
            c += f * load_first(before + unit, count);
        }
        store_first(gates + unit, count, i);
        store_first(gates + D + unit, count, f);
        store_first(gates + 2 * D + unit, count, g);
        store_first(gates + 3 * D + unit, count, o);
        store_first(c_row + unit, count, c);
        store_first(y + unit, count, o * hyperbolic_tangent(c));
    }
}

static void forward_tile(const EsLstmJob *job, const Tile *tile) {
    int64_t n_rows = (tile->end_env - tile->first_env) * job->N;
    for (int64_t first = 0; first < n_rows; first += ROWS) {
        int64_t end = ES_MIN(first + ROWS, n_rows);
        add_recurrent(job, tile, first, end);
        for (int64_t r = first; r < end; r++) {
            update_cells(job, tile, row_at(job, tile, tile->t, r));
        }
    }
}

// --- backward ---

// d_h [row - first][unit - unit0] += d_gates of step t times W_h: the gradient that step t passes
// to the states before it
static void add_d_state(const EsLstmJob *job, const Tile *tile, int64_t t, int64_t first,
                        int64_t end, float d_h[ROWS][COLUMNS]) {
    int64_t D = job->D, n_hidden = ES_MIN(COLUMNS, D - tile->unit0);
    EsSimdRows rows = {.count = 0};
    for (int64_t r = first; r < end; r++) {
        TileRow row = row_at(job, tile, t, r);
        if (!row.is_reset) {
            rows.a[rows.count] = es_env_f32(job->d_gates, row.e) + (t * job->N + row.n) * 4 * D;
            rows.c[rows.count++] = d_h[r - first];
        }
    }
    _Alignas(64) float copy[DEPTH][COLUMNS];
    const float *weight = es_env_f32(job->recurrent, tile->first_env) + tile->unit0;
    int is_copied = rows.count >= ES_SIMD_ROWS_PER_COPY || n_hidden % LANES != 0;
    for (int64_t k0 = 0; k0 < 4 * D; k0 += DEPTH) {
        int64_t depth = ES_MIN(DEPTH, 4 * D - k0);
        for (int64_t k = 0; is_copied && k < depth; k++) {
            for (int64_t j = 0; j < n_hidden; j += LANES) {
                store(copy[k] + j,
                      load_first(weight + (k0 + k) * D + j, ES_MIN(LANES, n_hidden - j)));
            }
        }
        const float *panel = is_copied ? copy[0] : weight + k0 * D;
        ES_CPU_KERNEL(rows_times_panel)
        (&rows, 1, panel, is_copied ? COLUMNS : D, depth, n_hidden, 1.0f, 0);
        for (int64_t i = 0; i < rows.count; i++) {
            rows.a[i] += depth;
        }
    }
}

// d_h: gradient of the row's units from later steps
static void backward_cells(const EsLstmJob *job, const Tile *tile, TileRow row,
                           const float d_h[COLUMNS]) {
    int64_t D = job->D, t = tile->t, at = t * job->N + row.n;
    const float *gates = es_env_f32(job->gates, row.e) + at * 4 * D;
    const float *c = es_env_f32(job->c, row.e) + at * D;
    const float *d_y = es_env_f32(job->d_y, row.e) + at * D;
    float *d_gates = es_env_f32(job->d_gates, row.e) + at * 4 * D;
    const float *c_before =
        row.is_reset ? NULL : es_lstm_state_before(job, job->c, job->c_start, row.e, t, row.n);
    float *d_before = es_lstm_d_cell_before(job, row.e, t, row.n);
    Vector one = broadcast(1.0f), zero = broadcast(0.0f);
    int64_t end = ES_MIN(tile->unit0 + COLUMNS, D);
    for (int64_t unit = tile->unit0; unit < end; unit += LANES) {
        int64_t n = ES_MIN(LANES, end - unit);
        Vector i = load_first(gates + unit, n), f = load_first(gates + D + unit, n);
        Vector g = load_first(gates + 2 * D + unit, n), o = load_first(gates + 3 * D + unit, n);
        Vector squashed = hyperbolic_tangent(load_first(c + unit, n));
        Vector before = c_before != NULL ? load_first(c_before + unit, n) : zero;
        Vector d_state = load(d_h + unit - tile->unit0) + load_first(d_y + unit, n);
        Vector d_later = t + 1 < job->T ? load_first(d_gates + unit, n) : zero;
        Vector d_c = d_state * o * (one - squashed * squashed) + d_later;
        store_first(d_gates + unit, n, d_c * g * i * (one - i));
        store_first(d_gates + D + unit, n, d_c * before * f * (one - f));
        store_first(d_gates + 2 * D + unit, n, d_c * i * (one - g * g));
        store_first(d_gates + 3 * D + unit, n, d_state * squashed * o * (one - o));
        if (d_before != NULL) {
            store_first(d_before + unit, n, row.is_reset ? zero : d_c * f);
        }
    }
}

static void backward_tile(const EsLstmJob *job, const Tile *tile) {
    int64_t n_rows = (tile->end_env - tile->first_env) * job->N;
    size_t width_bytes = (size_t)ES_MIN(COLUMNS, job->D - tile->unit0) * sizeof(float);
    _Alignas(64) float d_h[ROWS][COLUMNS];
    for (int64_t first = 0; first < n_rows; first += ROWS) {
        int64_t end = ES_MIN(first + ROWS, n_rows);
        memset(d_h, 0, sizeof d_h);
        if (tile->t + 1 < job->T) {
            add_d_state(job, tile, tile->t + 1, first, end, d_h);
        }
        for (int64_t r = first; r < end; r++) {
            TileRow row = row_at(job, tile, tile->t, r);
            if (tile->t < 0) {
                // step -1 stands for the start: only the gradient of its h is left to write
                memcpy(es_env_f32(job->d_h_start, row.e) + row.n * job->D + tile->unit0,
                       d_h[r - first], width_bytes);
            } else {
                backward_cells(job, tile, row, d_h[r - first]);
            }
        }
    }
}

typedef struct StartStates {
    const EsLstmJob *job;
    int64_t e;
} StartStates;

// the h that row k of the T N rows started from; NULL: 0
static const float *find_state(const void *context, int64_t k) {
    const StartStates *states = context;
    const EsLstmJob *job = states->job;
    if (job->reset != NULL && es_env_u8(job->reset, states->e)[k] != 0) {
        return NULL;
    }
    return es_lstm_state_before(job, job->y, job->h_start, states->e, k / job->N, k % job->N);
}

// A block of rows of the gradient of W_h: sum over all steps and rows of d_gates^T h
static void sum_d_recurrent(void *context, int64_t piece, int worker) {
    (void)worker;
    const EsLstmJob *job = context;
    int64_t D = job->D, e = piece / job->n_row_blocks, row0 = piece % job->n_row_blocks * ROWS;
    StartStates states = {job, e};
    EsSimdProduct product = {.a = es_env_f32(job->d_gates, e) + row0,
                             .a_row = 1,
                             .a_column = 4 * D,
                             .b_column = 1,
                             .find_b_row = find_state,
                             .context = &states,
                             .c = es_env_f32(job->d_recurrent, e) + row0 * D,
                             .c_row = D,
                             .n_rows = ES_MIN(ROWS, 4 * D - row0),
                             .n_columns = D,
                             .depth = job->T * job->N};
    ES_CPU_KERNEL(product_block)(&product);
}

#include "kernels/ops/lstm_passes.h"
