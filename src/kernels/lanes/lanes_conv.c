// Convolutions of the vector engine (lanes.h), compiled once per vector width.
//
// Forward and input gradient: a tile of TILE_OUT output channels by TILE_X columns stays in
// registers while all taps are added; weights are scalars broadcast from the packed order
// [tile][input channel][row][column][TILE_OUT]. Weight gradient: a tile of WEIGHT_OUT output
// channels by WEIGHT_ROWS (input channel, kernel row) pairs by all kernel columns stays in
// registers over a strip of about 64 positions, so that the strip is read from the first-level
// cache by every tile. The tile sizes fill 32 registers (16 lanes) or 16 (8 and 4 lanes) without
// spilling.
#include "kernels/lanes/lanes_internal.h"

#if ES_LANES == 16
#define TILE_X     4
#define WEIGHT_OUT 4
#else
#define TILE_X     2
#define WEIGHT_OUT 2
#endif
#define TILE_OUT ES_LANES_TILE_OUT
#define STRIP    64

// (input channel, kernel row) pairs per weight-gradient tile, so that pairs * kernel columns is
// about 6
static int weight_rows(int kernel) { return kernel == 1 ? 6 : kernel == 3 ? 2 : 1; }

static int tiles(int count, int tile) { return (count + tile - 1) / tile; }

size_t LANES_FUNCTION(packed_count)(const EsLaneFilter *f) {
    if (uses_winograd(f)) {
        return LANES_FUNCTION(winograd_packed_count)(f->n_in, f->n_out);
    }
    return (size_t)tiles(f->n_out, TILE_OUT) * TILE_OUT * (size_t)(f->n_in * f->kernel * f->kernel);
}

size_t LANES_FUNCTION(accumulator_count)(const EsLaneFilter *f) {
    if (uses_winograd_weight(f)) {
        return LANES_FUNCTION(winograd_accumulator_count)(f->n_in, f->n_out);
    }
    int rows = weight_rows(f->kernel);
    return (size_t)tiles(f->n_out, WEIGHT_OUT) * WEIGHT_OUT *
           (size_t)(tiles(f->n_in * f->kernel, rows) * rows) * (size_t)f->kernel * LANES;
}

void LANES_FUNCTION(pack_weights)(const float *weight, const float *sign, const EsLaneFilter *f,
                                  float *packed) {
    if (uses_winograd(f)) {
        LANES_FUNCTION(winograd_pack)(weight, sign, f->n_in, f->n_out, 0, packed);
        return;
    }
    int n_taps = f->n_in * f->kernel * f->kernel;
    for (int o = 0; o < tiles(f->n_out, TILE_OUT) * TILE_OUT; o++) {
        float *column = packed + (size_t)(o / TILE_OUT) * (size_t)n_taps * TILE_OUT + o % TILE_OUT;
        for (int t = 0; t < n_taps; t++) {
            float value = o < f->n_out ? weight[(size_t)o * (size_t)n_taps + (size_t)t] : 0.0f;
            column[(size_t)t * TILE_OUT] = o < f->n_out && sign != NULL ? value * sign[o] : value;
        }
    }
}

void LANES_FUNCTION(pack_weights_flipped)(const float *weight, const float *sign,
                                          const EsLaneFilter *f, float *packed) {
    EsLaneFilter flipped = {f->n_out, f->n_in, f->kernel, f->height, f->width};
    if (uses_winograd(&flipped)) {
        LANES_FUNCTION(winograd_pack)(weight, sign, f->n_out, f->n_in, 1, packed);
        return;
    }
    int n_in = f->n_in, n_out = f->n_out, square = f->kernel * f->kernel;
    for (int i = 0; i < tiles(n_in, TILE_OUT) * TILE_OUT; i++) {
        float *column =
            packed + (size_t)(i / TILE_OUT) * (size_t)(n_out * square) * TILE_OUT + i % TILE_OUT;
        for (int o = 0; o < n_out; o++) {
            for (int t = 0; t < square; t++) {
                float value =
                    i < n_in
                        ? weight[(size_t)(o * n_in + i) * (size_t)square + (size_t)(square - 1 - t)]
                        : 0.0f;
                column[(size_t)(o * square + t) * TILE_OUT] =
                    sign != NULL ? value * sign[o] : value;
            }
        }
    }
}

// All taps of n_x neighbouring columns; x points at the top left tap of the first.
LANES_INLINE void conv_tile(const EsLaneMap *x, const float *corner, const float *packed,
                            const int kernel, const int n_x, Vector sum[TILE_OUT][TILE_X]) {
    for (int i = 0; i < x->channels; i++) {
        for (int u = 0; u < kernel; u++) {
            const float *source = corner + i * x->plane + u * x->row;
            const float *w = packed + (size_t)((i * kernel + u) * kernel) * TILE_OUT;
            Vector in[TILE_X + ES_LANES_MAX_KERNEL - 1];
            for (int k = 0; k < n_x + kernel - 1; k++) {
                in[k] = load(source + k * LANES);
            }
            for (int v = 0; v < kernel; v++) {
                for (int o = 0; o < TILE_OUT; o++) {
                    Vector tap = broadcast(w[v * TILE_OUT + o]);
                    for (int k = 0; k < n_x; k++) {
                        sum[o][k] += tap * in[k + v];
                    }
                }
            }
        }
    }
}

// Store a tile, take its maxima and sums. `row`, `column` are those of its first element.
LANES_INLINE void finish_tile(const LaneConvTask *task, int first, int row, int column,
                              const int n_x, Vector sum[TILE_OUT][TILE_X]) {
    // the bound is constant and the test inside, so that the tile stays in registers
    for (int o = 0; o < TILE_OUT; o++) {
        if (first + o >= task->y->channels) {
            break;
        }
        if (task->y->data != NULL) {
            float *target =
                task->y->data + (first + o) * task->y->plane + row * task->y->row + column * LANES;
            for (int k = 0; k < n_x; k++) {
                store(target + k * LANES, sum[o][k]);
            }
        }
        if (task->sums != NULL) {
            float *sums = task->sums + (size_t)(first + o) * 2 * LANES;
            Vector total = load(sums), squares = load(sums + LANES);
            for (int k = 0; k < n_x; k++) {
                total += sum[o][k];
                squares += sum[o][k] * sum[o][k];
            }
            store(sums, total);
            store(sums + LANES, squares);
        }
        // windows of two rows: the first row leaves its maximum for the second to finish
        if (task->pooled != NULL && n_x >= 2 && row / 2 < task->pooled->height) {
            float *target = task->pooled->data + (first + o) * task->pooled->plane +
                            row / 2 * task->pooled->row + column / 2 * LANES;
            for (int k = 0; k + 1 < n_x; k += 2) {
                Vector top = larger_or_nan(sum[o][k], sum[o][k + 1]);
                store(target + k / 2 * LANES,
                      row % 2 == 0 ? top : larger_or_nan(load(target + k / 2 * LANES), top));
            }
        }
    }
}

LANES_INLINE void conv_columns(const LaneConvTask *task, int row, int column, const int kernel,
                               const int n_x) {
    const EsLaneMap *x = task->x;
    int half = kernel / 2;
    const float *corner = x->data + (row - half) * x->row + (column - half) * LANES;
    size_t tile_count = (size_t)(x->channels * kernel * kernel) * TILE_OUT;
    for (int first = 0; first < task->y->channels; first += TILE_OUT) {
        Vector sum[TILE_OUT][TILE_X];
        for (int o = 0; o < TILE_OUT; o++) {
            int channel = ES_MIN(first + o, task->y->channels - 1);
            Vector start = broadcast(task->bias != NULL ? task->bias[channel] : 0.0f);
            for (int k = 0; k < n_x; k++) {
                sum[o][k] = start;
            }
        }
        conv_tile(x, corner, task->packed + (size_t)(first / TILE_OUT) * tile_count, kernel, n_x,
                  sum);
        finish_tile(task, first, row, column, n_x, sum);
    }
}

LANES_INLINE void conv_kernel(const LaneConvTask *task, const int kernel) {
    int width = task->y->width;
    for (int row = 0; row < task->y->height; row++) {
        int column = 0;
        for (; column + TILE_X <= width; column += TILE_X) {
            conv_columns(task, row, column, kernel, TILE_X);
        }
#if TILE_X > 2
        if (column + 2 <= width) {
            conv_columns(task, row, column, kernel, 2);
            column += 2;
        }
#endif
        if (column < width) {
            conv_columns(task, row, column, kernel, 1);
        }
    }
}

static EsLaneFilter filter_of(const EsLaneMap *x, const EsLaneMap *y, int kernel) {
    return (EsLaneFilter){x->channels, y->channels, kernel, y->height, y->width};
}

static void run_conv(const LaneConvTask *task, int kernel) {
    EsLaneFilter filter = filter_of(task->x, task->y, kernel);
    if (uses_winograd(&filter)) {
        LANES_FUNCTION(winograd_conv)(task);
        return;
    }
    switch (kernel) {
    case 1:
        conv_kernel(task, 1);
        break;
    case 3:
        conv_kernel(task, 3);
        break;
    case 5:
        conv_kernel(task, 5);
        break;
    default:
        ES_ASSERT(kernel == 7);
        conv_kernel(task, 7);
    }
}

void LANES_FUNCTION(conv2d_forward)(const EsLaneMap *x, const float *packed, const float *bias,
                                    int kernel, const EsLaneMap *y) {
    LaneConvTask task = {x, packed, bias, y, NULL, NULL};
    run_conv(&task, kernel);
}

void LANES_FUNCTION(conv2d_statistics)(const EsLaneMap *x, const float *packed, int kernel,
                                       int n_valid, const EsLaneMap *y, const EsLaneMap *pooled,
                                       double *sums) {
    _Alignas(64) float lane_sums[ES_LANES_CHANNEL_LIMIT * 2 * LANES];
    ES_ASSERT(y->channels <= ES_LANES_CHANNEL_LIMIT);
    for (int i = 0; i < y->channels * 2 * LANES; i++) {
        lane_sums[i] = 0.0f;
    }
    LaneConvTask task = {x, packed, NULL, y, pooled, sums != NULL ? lane_sums : NULL};
    run_conv(&task, kernel);
    Vector valid = first_lanes(n_valid);
    for (int i = 0; i < y->channels * 2 && sums != NULL; i++) {
        sums[i] = lane_sum(load(lane_sums + i * LANES) * valid);
    }
}

// One tile of the weight gradient over rows [row_start, row_end); `d` and `source` point at row 0
// of their channels.
LANES_INLINE void weight_tile(const float *const *d, const float *const *source, ptrdiff_t d_row,
                              ptrdiff_t x_row, int row_start, int row_end, int width,
                              const int kernel, const int n_rows, const int row_capacity,
                              int is_first, float *accumulator) {
    Vector sum[WEIGHT_OUT][6][ES_LANES_MAX_KERNEL];
    const int n_out = WEIGHT_OUT;
    for (int o = 0; o < n_out; o++) {
        for (int r = 0; r < n_rows; r++) {
            for (int v = 0; v < kernel; v++) {
                sum[o][r][v] =
                    is_first ? broadcast(0.0f)
                             : load(accumulator + ((o * row_capacity + r) * kernel + v) * LANES);
            }
        }
    }
    for (int row = row_start; row < row_end; row++) {
        for (int column = 0; column < width; column++) {
            Vector gradient[WEIGHT_OUT];
            for (int o = 0; o < n_out; o++) {
                gradient[o] = load(d[o] + row * d_row + column * LANES);
            }
            for (int r = 0; r < n_rows; r++) {
                for (int v = 0; v < kernel; v++) {
                    Vector in = load(source[r] + row * x_row + (column + v) * LANES);
                    for (int o = 0; o < n_out; o++) {
                        sum[o][r][v] += gradient[o] * in;
                    }
                }
            }
        }
    }
    for (int o = 0; o < n_out; o++) {
        for (int r = 0; r < n_rows; r++) {
            for (int v = 0; v < kernel; v++) {
                store(accumulator + ((o * row_capacity + r) * kernel + v) * LANES, sum[o][r][v]);
            }
        }
    }
}

LANES_INLINE void weight_kernel(const EsLaneMap *x, const EsLaneMap *d_y, const int kernel,
                                const int n_rows, int is_first, float *accumulator) {
    int half = kernel / 2;
    int n_pairs = x->channels * kernel;
    int n_row_tiles = tiles(n_pairs, n_rows);
    size_t tile_count = (size_t)(WEIGHT_OUT * n_rows * kernel) * LANES;
    int strip_rows = ES_MAX(1, STRIP / d_y->width);
    for (int start = 0; start < d_y->height; start += strip_rows) {
        int end = ES_MIN(start + strip_rows, d_y->height);
        for (int first = 0; first < d_y->channels; first += WEIGHT_OUT) {
            // a tile past the last channel or pair computes a copy of the last one, which
            // reduce_weight leaves out
            const float *d[WEIGHT_OUT];
            for (int o = 0; o < WEIGHT_OUT; o++) {
                d[o] = d_y->data + ES_MIN(first + o, d_y->channels - 1) * d_y->plane;
            }
            for (int t = 0; t < n_row_tiles; t++) {
                const float *source[6];
                for (int r = 0; r < n_rows; r++) {
                    int pair = ES_MIN(t * n_rows + r, n_pairs - 1);
                    source[r] = x->data + pair / kernel * x->plane +
                                (pair % kernel - half) * x->row - half * LANES;
                }
                float *tile =
                    accumulator + (size_t)(first / WEIGHT_OUT * n_row_tiles + t) * tile_count;
                if (n_rows == 2 && n_pairs - t * n_rows == 1) {
                    weight_tile(d, source, d_y->row, x->row, start, end, d_y->width, kernel, 1,
                                n_rows, is_first && start == 0, tile);
                } else {
                    weight_tile(d, source, d_y->row, x->row, start, end, d_y->width, kernel, n_rows,
                                n_rows, is_first && start == 0, tile);
                }
            }
        }
    }
}

void LANES_FUNCTION(conv2d_backward_weight)(const EsLaneMap *x, const EsLaneMap *d_y, int kernel,
                                            int is_first, float *accumulator) {
    EsLaneFilter filter = filter_of(x, d_y, kernel);
    if (uses_winograd_weight(&filter)) {
        LANES_FUNCTION(winograd_weight)(x, d_y, is_first, accumulator);
        return;
    }
    switch (kernel) {
    case 1:
        weight_kernel(x, d_y, 1, 6, is_first, accumulator);
        break;
    case 3:
        weight_kernel(x, d_y, 3, 2, is_first, accumulator);
        break;
    case 5:
        weight_kernel(x, d_y, 5, 1, is_first, accumulator);
        break;
    default:
        ES_ASSERT(kernel == 7);
        weight_kernel(x, d_y, 7, 1, is_first, accumulator);
    }
}

void LANES_FUNCTION(conv2d_reduce_weight)(const float *accumulator, size_t shard_stride,
                                          int n_shards, const float *sign, const EsLaneFilter *f,
                                          float *d_weight) {
    int n_in = f->n_in, n_out = f->n_out, kernel = f->kernel;
    if (uses_winograd_weight(f)) {
        LANES_FUNCTION(winograd_reduce)
        (accumulator, shard_stride, n_shards, sign, n_in, n_out, d_weight);
        return;
    }
    int n_rows = weight_rows(kernel);
    int n_row_tiles = tiles(n_in * kernel, n_rows);
    for (int o = 0; o < n_out; o++) {
        for (int pair = 0; pair < n_in * kernel; pair++) {
            size_t tile = (size_t)(o / WEIGHT_OUT * n_row_tiles + pair / n_rows) * WEIGHT_OUT;
            size_t first =
                (((tile + (size_t)(o % WEIGHT_OUT)) * (size_t)n_rows + (size_t)(pair % n_rows)) *
                 (size_t)kernel) *
                LANES;
            for (int v = 0; v < kernel; v++) {
                Vector total = load(accumulator + first + (size_t)v * LANES);
                for (int shard = 1; shard < n_shards; shard++) {
                    total += load(accumulator + (size_t)shard * shard_stride + first +
                                  (size_t)v * LANES);
                }
                float sum = (float)lane_sum(total);
                d_weight[((size_t)o * (size_t)n_in * (size_t)kernel + (size_t)pair) *
                             (size_t)kernel +
                         (size_t)v] = sign != NULL ? sum * sign[o] : sum;
            }
        }
    }
}
