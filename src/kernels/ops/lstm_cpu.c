// E environments, T steps, N rows, I inputs, D units. The products with the inputs are done for all
// steps at once; each step is left with the product with the state before it.
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/ops/lstm_job.h"

// A tile is ROWS rows by HIDDEN_TILE units in the forward pass (all four gates: COLUMNS columns),
// by COLUMNS units in the backward pass. It walks panels of the recurrent weights, DEPTH deep,
// copied so that the inner loop runs over adjacent floats: 32 KiB, the size of a first-level cache.
#define ROWS        32
#define HIDDEN_TILE 16
#define COLUMNS     64
#define DEPTH       128

typedef void (*TileFunction)(const EsLstmJob *job, int64_t e, int64_t t, int64_t row0,
                             int64_t unit0);

typedef struct Steps {
    const EsLstmJob *job;
    TileFunction run_tile;
    int64_t first, last, direction; // of t; both ends included
    int64_t units_per_tile;
    int64_t n_row_tiles, n_unit_tiles;
    int64_t t; // the step at work, when the pieces are tiles
} Steps;

// sum[j] += sum over k of a[k * a_step] panel[k][j], k ascending
static inline void multiply_row(const float *a, int64_t a_step, int64_t depth,
                                float panel[DEPTH][COLUMNS], float sum[COLUMNS]) {
    for (int64_t k = 0; k < depth; k++) {
        float factor = a[k * a_step];
        for (int64_t j = 0; j < COLUMNS; j++) {
            sum[j] += factor * panel[k][j];
        }
    }
}

static int is_reset(const EsLstmJob *job, int64_t e, int64_t t, int64_t n) {
    return job->reset != NULL && es_env_u8(job->reset, e)[t * job->N + n] != 0;
}

// --- running tiles ---

static void run_tile_of_step(void *context, int64_t piece, int worker) {
    (void)worker;
    const Steps *steps = context;
    int64_t unit_tile = piece % steps->n_unit_tiles;
    int64_t row_tile = piece / steps->n_unit_tiles % steps->n_row_tiles;
    int64_t e = piece / (steps->n_unit_tiles * steps->n_row_tiles);
    steps->run_tile(steps->job, e, steps->t, row_tile * ROWS, unit_tile * steps->units_per_tile);
}

static void run_environment(void *context, int64_t e, int worker) {
    (void)worker;
    const Steps *steps = context;
    const EsLstmJob *job = steps->job;
    for (int64_t t = steps->first; t != steps->last + steps->direction; t += steps->direction) {
        for (int64_t row0 = 0; row0 < job->N; row0 += ROWS) {
            for (int64_t unit0 = 0; unit0 < job->D; unit0 += steps->units_per_tile) {
                steps->run_tile(job, e, t, row0, unit0);
            }
        }
    }
}

// One environment per piece while that keeps all threads busy, otherwise one tile per piece and a
// barrier per step. A tile computes the same either way, so the choice does not show in the
// results.
static void run_steps(EsStream *s, Steps *steps) {
    const EsLstmJob *job = steps->job;
    steps->n_row_tiles = (job->N + ROWS - 1) / ROWS;
    steps->n_unit_tiles = (job->D + steps->units_per_tile - 1) / steps->units_per_tile;
    if (job->T == 0) {
        return;
    }
    if (job->E >= es_thread_pool_size(es_stream_pool(s))) {
        es_stream_parallel(s, job->E, run_environment, steps);
        return;
    }
    for (steps->t = steps->first; steps->t != steps->last + steps->direction;
         steps->t += steps->direction) {
        es_stream_parallel(s, job->E * steps->n_row_tiles * steps->n_unit_tiles, run_tile_of_step,
                           steps);
    }
}

// --- forward ---

static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// panel[k][g HIDDEN_TILE + j] = recurrent[g D + unit0 + j, k0 + k], with zeros beyond the last unit
static void copy_gate_panel(const EsLstmJob *job, int64_t e, int64_t unit0, int64_t k0,
                            int64_t depth, float panel[DEPTH][COLUMNS]) {
    int64_t D = job->D;
    for (int64_t column = 0; column < COLUMNS; column++) {
        int64_t unit = unit0 + column % HIDDEN_TILE;
        const float *row =
            es_env_f32(job->recurrent, e) + (column / HIDDEN_TILE * D + unit) * D + k0;
        for (int64_t k = 0; k < depth; k++) {
            panel[k][column] = unit < D ? row[k] : 0.0f;
        }
    }
}

// gates += W_h h for the rows and units of a tile
static void add_recurrent(const EsLstmJob *job, const float *h, int64_t e, int64_t t, int64_t row0,
                          int64_t unit0) {
    int64_t D = job->D;
    int64_t n_hidden = ES_MIN(HIDDEN_TILE, D - unit0);
    float panel[DEPTH][COLUMNS];
    for (int64_t k0 = 0; k0 < D; k0 += DEPTH) {
        int64_t depth = ES_MIN(DEPTH, D - k0);
        copy_gate_panel(job, e, unit0, k0, depth, panel);
        for (int64_t n = row0; n < ES_MIN(row0 + ROWS, job->N); n++) {
            if (is_reset(job, e, t, n)) {
                continue;
            }
            float sum[COLUMNS] = {0};
            multiply_row(h + n * D + k0, 1, depth, panel, sum);
            float *gates = es_env_f32(job->gates, e) + (t * job->N + n) * 4 * D + unit0;
            for (int64_t g = 0; g < 4; g++) {
                for (int64_t j = 0; j < n_hidden; j++) {
                    gates[g * D + j] += sum[g * HIDDEN_TILE + j];
                }
            }
        }
    }
}

static void forward_tile(const EsLstmJob *job, int64_t e, int64_t t, int64_t row0, int64_t unit0) {
    int64_t D = job->D;
    const float *h_before = es_lstm_state_before(job, job->y, job->h_start, e, t, 0);
    const float *c_before = es_lstm_state_before(job, job->c, job->c_start, e, t, 0);
    if (h_before != NULL) {
        add_recurrent(job, h_before, e, t, row0, unit0);
    }
    const float *bias = es_env_f32(job->bias_recurrent, e);
    for (int64_t n = row0; n < ES_MIN(row0 + ROWS, job->N); n++) {
        int64_t row = t * job->N + n;
        float *gates = es_env_f32(job->gates, e) + row * 4 * D;
        float *c_row = es_env_f32(job->c, e) + row * D;
        float *y = es_env_f32(job->y, e) + row * D;
        int has_before = c_before != NULL && !is_reset(job, e, t, n);
        for (int64_t unit = unit0; unit < ES_MIN(unit0 + HIDDEN_TILE, D); unit++) {
            float i = sigmoid(gates[unit] + bias[unit]);
            float f = sigmoid(gates[D + unit] + bias[D + unit]);
            float g = tanhf(gates[2 * D + unit] + bias[2 * D + unit]);
            float o = sigmoid(gates[3 * D + unit] + bias[3 * D + unit]);
            float c = f * (has_before ? c_before[n * D + unit] : 0.0f) + i * g;
            gates[unit] = i;
            gates[D + unit] = f;
            gates[2 * D + unit] = g;
            gates[3 * D + unit] = o;
            c_row[unit] = c;
            y[unit] = o * tanhf(c);
        }
    }
}

// --- backward ---

// d_h += d_gates of step t times W_h for COLUMNS units: the gradient that step t passes to the
// states before it
static void add_d_state(const EsLstmJob *job, int64_t e, int64_t t, int64_t row0, int64_t unit0,
                        float d_h[ROWS][COLUMNS]) {
    int64_t D = job->D;
    int64_t n_hidden = ES_MIN(COLUMNS, D - unit0);
    float panel[DEPTH][COLUMNS];
    for (int64_t k0 = 0; k0 < 4 * D; k0 += DEPTH) {
        int64_t depth = ES_MIN(DEPTH, 4 * D - k0);
        for (int64_t k = 0; k < depth; k++) {
            const float *row = es_env_f32(job->recurrent, e) + (k0 + k) * D + unit0;
            for (int64_t j = 0; j < COLUMNS; j++) {
                panel[k][j] = j < n_hidden ? row[j] : 0.0f;
            }
        }
        for (int64_t n = row0; n < ES_MIN(row0 + ROWS, job->N); n++) {
            if (!is_reset(job, e, t, n)) {
                const float *d_gates = es_env_f32(job->d_gates, e) + (t * job->N + n) * 4 * D;
                float sum[COLUMNS] = {0};
                multiply_row(d_gates + k0, 1, depth, panel, sum);
                for (int64_t j = 0; j < COLUMNS; j++) {
                    d_h[n - row0][j] += sum[j];
                }
            }
        }
    }
}

static void backward_cells(const EsLstmJob *job, int64_t e, int64_t t, int64_t n, int64_t unit0,
                           const float d_h[COLUMNS]) {
    int64_t D = job->D;
    int64_t row = t * job->N + n;
    const float *gates = es_env_f32(job->gates, e) + row * 4 * D;
    const float *c = es_env_f32(job->c, e) + row * D;
    float *d_gates = es_env_f32(job->d_gates, e) + row * 4 * D;
    const float *c_before = es_lstm_state_before(job, job->c, job->c_start, e, t, 0);
    float *d_before = es_lstm_d_cell_before(job, e, t, n);
    int reset = is_reset(job, e, t, n);
    for (int64_t unit = unit0; unit < ES_MIN(unit0 + COLUMNS, D); unit++) {
        float i = gates[unit], f = gates[D + unit], g = gates[2 * D + unit],
              o = gates[3 * D + unit];
        float squashed = tanhf(c[unit]);
        float before = c_before != NULL && !reset ? c_before[n * D + unit] : 0.0f;
        float d_y = d_h[unit - unit0];
        float d_later = t + 1 < job->T ? d_gates[unit] : 0.0f;
        float d_c = d_y * o * (1.0f - squashed * squashed) + d_later;
        d_gates[unit] = d_c * g * i * (1.0f - i);
        d_gates[D + unit] = d_c * before * f * (1.0f - f);
        d_gates[2 * D + unit] = d_c * i * (1.0f - g * g);
        d_gates[3 * D + unit] = d_y * squashed * o * (1.0f - o);
        if (d_before != NULL) {
            d_before[unit] = reset ? 0.0f : d_c * f;
        }
    }
}

static void backward_tile(const EsLstmJob *job, int64_t e, int64_t t, int64_t row0, int64_t unit0) {
    int64_t n_rows = ES_MIN(ROWS, job->N - row0);
    int64_t n_hidden = ES_MIN(COLUMNS, job->D - unit0);
    float d_h[ROWS][COLUMNS] = {{0}};
    if (t + 1 < job->T) {
        add_d_state(job, e, t + 1, row0, unit0, d_h);
    }
    // step -1 stands for the start: only the gradient of its h is left to write
    const float *d_y = es_env_f32(job->d_y, e) + (ES_MAX(t, 0) * job->N + row0) * job->D + unit0;
    for (int64_t r = 0; r < n_rows; r++) {
        if (t < 0) {
            float *d_h_start = es_env_f32(job->d_h_start, e) + (row0 + r) * job->D + unit0;
            memcpy(d_h_start, d_h[r], (size_t)n_hidden * sizeof(float));
            continue;
        }
        for (int64_t j = 0; j < n_hidden; j++) {
            d_h[r][j] += d_y[r * job->D + j];
        }
        backward_cells(job, e, t, row0 + r, unit0, d_h[r]);
    }
}

// panel[k][j] = h before row first + k of the T N rows, unit unit0 + j; 0 after a reset and beyond
// the last unit
static void copy_state_panel(const EsLstmJob *job, int64_t e, int64_t first, int64_t depth,
                             int64_t unit0, float panel[DEPTH][COLUMNS]) {
    int64_t n_hidden = ES_MIN(COLUMNS, job->D - unit0);
    for (int64_t k = 0; k < depth; k++) {
        int64_t t = (first + k) / job->N, n = (first + k) % job->N;
        const float *h = es_lstm_state_before(job, job->y, job->h_start, e, t, 0);
        int is_zero = h == NULL || is_reset(job, e, t, n);
        for (int64_t j = 0; j < COLUMNS; j++) {
            panel[k][j] = is_zero || j >= n_hidden ? 0.0f : h[n * job->D + unit0 + j];
        }
    }
}

// ROWS rows of the gradient of W_h: sum over all steps and rows of d_gates^T h
static void sum_d_recurrent(void *context, int64_t piece, int worker) {
    (void)worker;
    const EsLstmJob *job = context;
    int64_t D = job->D, depth_all = job->T * job->N;
    int64_t e = piece / job->n_row_blocks;
    int64_t row0 = piece % job->n_row_blocks * ROWS;
    int64_t n_rows = ES_MIN(ROWS, 4 * D - row0);
    float *d_weight = es_env_f32(job->d_recurrent, e) + row0 * D;
    memset(d_weight, 0, (size_t)(n_rows * D) * sizeof(float));
    float panel[DEPTH][COLUMNS];
    for (int64_t unit0 = 0; unit0 < D; unit0 += COLUMNS) {
        int64_t n_hidden = ES_MIN(COLUMNS, D - unit0);
        for (int64_t first = 0; first < depth_all; first += DEPTH) {
            int64_t depth = ES_MIN(DEPTH, depth_all - first);
            copy_state_panel(job, e, first, depth, unit0, panel);
            const float *d_gates = es_env_f32(job->d_gates, e) + first * 4 * D + row0;
            for (int64_t r = 0; r < n_rows; r++) {
                float sum[COLUMNS] = {0};
                multiply_row(d_gates + r, 4 * D, depth, panel, sum);
                for (int64_t j = 0; j < n_hidden; j++) {
                    d_weight[r * D + unit0 + j] += sum[j];
                }
            }
        }
    }
}

#include "kernels/ops/lstm_passes.h"
