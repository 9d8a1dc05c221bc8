// Forward convolution and input gradient of the vector engine by Winograd's F(4x4, 3x3)
// (lanes_winograd.h), compiled once per vector width.
//
// Two tiles at a time: their windows are transformed for all input channels ("points", in the
// second-level cache), then for every OUT output channels the products of the 36 points
// ("products", in the first-level cache) and the transformation back, which stores the tiles, takes
// their 2x2 maxima and their sums. Packed weights are [block of OUT][point][input][OUT]; eight
// accumulators hide the latency of the multiply-add, and more would push the products out of the
// first-level cache.
#include <string.h>

#include "kernels/lanes/lanes_winograd.h"

#define OUT     ES_LANES_TILE_OUT
#define N_TILES 2 // at a time
// input channels, up to which one tile at a time is faster: points and products of two would not
// fit the first-level cache together
#define FEW_INPUTS 4

static int n_blocks(int n_out) { return (n_out + OUT - 1) / OUT; }

size_t LANES_FUNCTION(winograd_packed_count)(int n_in, int n_out) {
    return (size_t)(n_blocks(n_out) * OUT) * (size_t)n_in * POINTS;
}

// G w G^T of LANES filters, taps [9][LANES]; point p goes to points + p * stride, of which the
// first n are written.
LANES_INLINE void transform_filters(const float *taps, int n, float *points, ptrdiff_t stride) {
    Vector column[WINDOW][3], point[WINDOW];
    for (int v = 0; v < 3; v++) {
        Vector w[3] = {load(taps + v * LANES), load(taps + (3 + v) * LANES),
                       load(taps + (6 + v) * LANES)};
        filter_to_points(w, point);
        for (int r = 0; r < WINDOW; r++) {
            column[r][v] = point[r];
        }
    }
    for (int r = 0; r < WINDOW; r++) {
        filter_to_points(column[r], point);
        for (int c = 0; c < WINDOW; c++) {
            memcpy(points + (r * WINDOW + c) * stride, &point[c], sizeof(float) * (size_t)n);
        }
    }
}

void LANES_FUNCTION(winograd_pack)(const float *weight, const float *sign, int n_in, int n_out,
                                   int is_flipped, float *packed) {
    // the filter from input i to output o of the convolution that is packed
    ptrdiff_t out_step = is_flipped ? 9 : (ptrdiff_t)n_in * 9,
              in_step = is_flipped ? (ptrdiff_t)n_out * 9 : 9;
    // a vector takes OUT outputs times LANES / OUT inputs, which lie side by side in the packed
    // order
    for (int block = 0; block < n_blocks(n_out); block++) {
        for (int first = 0; first < n_in; first += LANES / OUT) {
            int n = ES_MIN(LANES, (n_in - first) * OUT);
            _Alignas(64) float taps[9 * LANES] = {0};
            for (int k = 0; k < n; k++) {
                int o = block * OUT + k % OUT, i = first + k / OUT;
                if (o < n_out) {
                    const float *filter = weight + o * out_step + i * in_step;
                    float factor = sign == NULL ? 1.0f : sign[is_flipped ? i : o];
                    for (int t = 0; t < 9; t++) {
                        taps[t * LANES + k] = filter[is_flipped ? 8 - t : t] * factor;
                    }
                }
            }
            float *points = packed + ((size_t)block * POINTS * (size_t)n_in + (size_t)first) * OUT;
            if (n == LANES) {
                transform_filters(taps, LANES, points, (ptrdiff_t)n_in * OUT);
            } else {
                transform_filters(taps, n, points, (ptrdiff_t)n_in * OUT);
            }
        }
    }
}

// products[o][k] = sum over inputs of packed[input][o] * points[input][k], for one point.
LANES_INLINE void multiply_points(const float *points, const float *packed, int n_in,
                                  const int n_tiles, float *products) {
    Vector sum[OUT][N_TILES];
    for (int o = 0; o < OUT; o++) {
        for (int k = 0; k < n_tiles; k++) {
            sum[o][k] = broadcast(0.0f);
        }
    }
    for (int i = 0; i < n_in; i++) {
        Vector in[N_TILES];
        for (int k = 0; k < n_tiles; k++) {
            in[k] = load(points + (i * n_tiles + k) * LANES);
        }
        for (int o = 0; o < OUT; o++) {
            Vector weight = broadcast(packed[i * OUT + o]);
            for (int k = 0; k < n_tiles; k++) {
                sum[o][k] += weight * in[k];
            }
        }
    }
    for (int o = 0; o < OUT; o++) {
        for (int k = 0; k < n_tiles; k++) {
            store(products + (o * n_tiles + k) * LANES, sum[o][k]);
        }
    }
}

// The 2x2 maxima of a tile of channel o.
LANES_INLINE void store_maxima(const EsLaneMap *pooled, int o, int row, int column, const int whole,
                               const int has_nan, Vector y[TILE][TILE]) {
    float *to = pooled->data + o * pooled->plane + row / 2 * pooled->row + column / 2 * LANES;
    for (int r = 0; r < TILE; r += 2) {
        for (int c = 0; c < TILE; c += 2) {
            if (!whole && ((row + r) / 2 >= pooled->height || (column + c) / 2 >= pooled->width)) {
                continue;
            }
            Vector a = y[r][c], b = y[r][c + 1], d = y[r + 1][c], e = y[r + 1][c + 1];
            store(to + r / 2 * pooled->row + c / 2 * LANES,
                  has_nan ? larger_or_nan(larger_or_nan(a, b), larger_or_nan(d, e))
                          : larger(larger(a, b), larger(d, e)));
        }
    }
}

// Store a tile of channel o, take its sums and maxima. Of a tile that is not whole the outputs
// beyond the map become 0 first.
LANES_INLINE void finish_tile(const LaneConvTask *task, int o, int row, int column, const int whole,
                              Vector y[TILE][TILE]) {
    const EsLaneMap *map = task->y;
    float *to =
        map->data != NULL ? map->data + o * map->plane + row * map->row + column * LANES : NULL;
    for (int r = 0; r < TILE; r++) {
        for (int c = 0; c < TILE; c++) {
            if (!whole && (row + r >= map->height || column + c >= map->width)) {
                y[r][c] = broadcast(0.0f);
            } else if (to != NULL) {
                store(to + r * map->row + c * LANES, y[r][c]);
            }
        }
    }
    int may_have_nan = 1;
    if (task->sums != NULL) {
        float *sums = task->sums + (size_t)o * 2 * LANES;
        Vector total = load(sums), squares = load(sums + LANES);
        for (int r = 0; r < TILE; r++) {
            total += (y[r][0] + y[r][1]) + (y[r][2] + y[r][3]);
            for (int c = 0; c < TILE; c++) {
                squares += y[r][c] * y[r][c];
            }
        }
        store(sums, total);
        store(sums + LANES, squares);
        // a NaN in the tile would have reached its total
        may_have_nan = any_nan(total);
    }
    if (task->pooled != NULL && may_have_nan) {
        store_maxima(task->pooled, o, row, column, whole, 1, y);
    } else if (task->pooled != NULL) {
        store_maxima(task->pooled, o, row, column, whole, 0, y);
    }
}

// A^T . A of the products of one tile and channel, `stride` floats between points. With a single
// input channel (weight not NULL, OUT floats between points) the products are made here.
LANES_INLINE void transform_products(const LaneConvTask *task, const float *products,
                                     ptrdiff_t stride, const float *weight, int o, int row,
                                     int column) {
    Vector half[TILE][WINDOW], y[TILE][TILE];
    for (int c = 0; c < WINDOW; c++) {
        Vector point[WINDOW], out[TILE];
        for (int r = 0; r < WINDOW; r++) {
            int p = r * WINDOW + c;
            Vector product = load(products + p * stride);
            point[r] = weight != NULL ? product * broadcast(weight[p * OUT]) : product;
        }
        points_to_tile(point, out);
        for (int r = 0; r < TILE; r++) {
            half[r][c] = out[r];
        }
    }
    for (int r = 0; r < TILE; r++) {
        points_to_tile(half[r], y[r]);
    }
    if (task->bias != NULL) {
        Vector bias = broadcast(task->bias[o]);
        for (int r = 0; r < TILE; r++) {
            for (int c = 0; c < TILE; c++) {
                y[r][c] += bias;
            }
        }
    }
    if (is_whole(task->y, row, column)) {
        finish_tile(task, o, row, column, 1, y);
    } else {
        finish_tile(task, o, row, column, 0, y);
    }
}

// Ask for the lines of y that one row of a tile will be stored to: y lies in the third-level cache
// or beyond, and the products give it the time to come. `step` counts rows over channels and tiles.
LANES_INLINE void fetch_row(const EsLaneMap *y, int o, const int *row, const int *column,
                            const int n_tiles, int step) {
    int channel = o + step / (TILE * n_tiles), k = step / TILE % n_tiles;
    if (y->data != NULL && step < OUT * TILE * n_tiles && channel < y->channels &&
        row[k] + step % TILE < y->height) {
        const float *to =
            y->data + channel * y->plane + (row[k] + step % TILE) * y->row + column[k] * LANES;
        for (int c = 0; c < TILE; c++) {
            __builtin_prefetch(to + c * LANES, 1, 2);
        }
    }
}

// Tiles first, .. first + n_tiles - 1 of the map, counted row by row.
LANES_INLINE void conv_tiles(const LaneConvTask *task, int first, const int n_tiles, float *points,
                             float *products) {
    const EsLaneMap *x = task->x;
    int n_in = x->channels, n_out = task->y->channels, tiles_per_row = count_tiles(task->y->width);
    int row[N_TILES], column[N_TILES];
    // an odd number of cache lines between points: a power of two would map them all to a few cache
    // sets
    ptrdiff_t stride = (ptrdiff_t)((n_in * n_tiles) | 1) * LANES;
    for (int k = 0; k < n_tiles; k++) {
        row[k] = (first + k) / tiles_per_row * TILE;
        column[k] = (first + k) % tiles_per_row * TILE;
        for (int i = 0; i < n_in; i++) {
            transform_input(x, i, row[k], column[k], points + (i * n_tiles + k) * LANES, stride);
        }
    }
    const float *packed = task->packed;
    for (int o = 0; o < n_out; o += OUT, packed += (size_t)(POINTS * n_in) * OUT) {
        for (int p = 0; p < POINTS && n_in > 1; p++) {
            fetch_row(task->y, o, row, column, n_tiles, p);
            multiply_points(points + p * stride, packed + (size_t)(p * n_in) * OUT, n_in, n_tiles,
                            products + p * OUT * n_tiles * LANES);
        }
        for (int j = 0; j < OUT && o + j < n_out; j++) {
            for (int k = 0; k < n_tiles; k++) {
                if (n_in > 1) {
                    transform_products(task, products + (j * n_tiles + k) * LANES,
                                       OUT * n_tiles * LANES, NULL, o + j, row[k], column[k]);
                } else {
                    transform_products(task, points + k * LANES, stride, packed + j, o + j, row[k],
                                       column[k]);
                }
            }
        }
    }
}

void LANES_FUNCTION(winograd_conv)(const LaneConvTask *task) {
    _Alignas(64) float points[POINTS * (ES_LANES_WINOGRAD_CHANNELS * N_TILES + 1) * LANES];
    _Alignas(64) float products[POINTS * OUT * N_TILES * LANES];
    int n_tiles = count_tiles(task->y->height) * count_tiles(task->y->width);
    int tile = 0;
    for (; tile + N_TILES <= n_tiles && task->x->channels > FEW_INPUTS; tile += N_TILES) {
        conv_tiles(task, tile, N_TILES, points, products);
    }
    for (; tile < n_tiles; tile++) {
        conv_tiles(task, tile, 1, points, products);
    }
}
