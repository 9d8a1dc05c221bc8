// Weight gradient of the vector engine by Winograd's F(4x4, 3x3) (lanes_winograd.h), compiled once
// per vector width.
//
// At each point the gradient is a sum of products over tiles and images. Kept per image it would be
// 36 vectors per filter, far too much to touch for every group; so the gradient of the outputs is
// turned first: a vector then holds L / S output channels times S neighbouring images, and one
// accumulator vector [input][block of channels][point] serves all images. S is the smallest share
// that still gives two blocks, so that every broadcast input is used twice. The sum over a strip of
// tiles is made in registers and then added, which also keeps rounding errors small.
#include <string.h>

#include "kernels/lanes/lanes_winograd.h"

#define MAX_SHARE (LANES / ES_LANES_TILE_OUT)
// inputs per register tile, times two blocks of channels: 16 accumulators of 32 registers, or 8 of
// 16
#define TILE_IN (LANES == 16 ? 8 : 4)
// channels times tiles of a strip: the points of a strip then lie in the second-level cache
#define STRIP 192

_Static_assert(2 * ES_LANES_WINOGRAD_CHANNELS <= STRIP, "a strip holds one tile of all channels");

static int share_of(int n_out) {
    int share = 1;
    while (share < MAX_SHARE && n_out * share < 2 * LANES) {
        share *= 2;
    }
    return share;
}

// blocks of LANES / share channels
static int blocks_of(int n_out, int share) { return (n_out * share + LANES - 1) / LANES; }

size_t LANES_FUNCTION(winograd_accumulator_count)(int n_in, int n_out) {
    return (size_t)(POINTS * n_in * blocks_of(n_out, share_of(n_out))) * LANES;
}

// Interleave the elements of a and b, an element being `share` floats; the lower or the upper half
// of the result.
LANES_INLINE Vector interleave(Vector a, Vector b, const int upper, const int share) {
#if ES_LANES == 16
    if (share == 4) {
        return upper ? __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15,
                                               28, 29, 30, 31)
                     : __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21,
                                               22, 23);
    }
    if (share == 2) {
        return upper ? __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29,
                                               14, 15, 30, 31)
                     : __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7,
                                               22, 23);
    }
    return upper ? __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                                           30, 15, 31)
                 : __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                                           23);
#elif ES_LANES == 8
    if (share == 2) {
        return upper ? __builtin_shufflevector(a, b, 4, 5, 12, 13, 6, 7, 14, 15)
                     : __builtin_shufflevector(a, b, 0, 1, 8, 9, 2, 3, 10, 11);
    }
    return upper ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                 : __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
    (void)share;
    return upper ? __builtin_shufflevector(a, b, 2, 6, 3, 7)
                 : __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}

// `share` floats from memory, repeated
LANES_INLINE Vector repeat(const float *p, const int share) {
#if ES_LANES == 16 && defined(__AVX512F__)
    if (share == 4) {
        return (Vector)_mm512_broadcast_f32x4(_mm_loadu_ps(p));
    }
    if (share == 2) {
        double two;
        memcpy(&two, p, sizeof two);
        return (Vector)_mm512_set1_pd(two);
    }
#elif ES_LANES == 8 && defined(__AVX2__)
    if (share == 2) {
        double two;
        memcpy(&two, p, sizeof two);
        return (Vector)_mm256_set1_pd(two);
    }
#endif
    (void)share;
    return broadcast(*p);
}

// One pixel of a block of channels, turned: vector k of the result holds images k share, .. of all
// channels. Transposition by rounds of interleaving row i with row i + n / 2. Channels past the
// last repeat the first; reduce leaves them out.
LANES_INLINE void turn_pixel(const float *x, ptrdiff_t plane, int n_channels, const int share,
                             float *to, ptrdiff_t step) {
    const int n = LANES / share;
    Vector row[LANES], next[LANES];
    for (int c = 0; c < n; c++) {
        row[c] = load(x + (c < n_channels ? c : 0) * plane);
    }
    for (int round = 1; round < n; round *= 2) {
        for (int c = 0; c < n / 2; c++) {
            next[2 * c] = interleave(row[c], row[c + n / 2], 0, share);
            next[2 * c + 1] = interleave(row[c], row[c + n / 2], 1, share);
        }
        for (int c = 0; c < n; c++) {
            row[c] = next[c];
        }
    }
    for (int k = 0; k < n; k++) {
        store(to + k * step, row[k]);
    }
}

// The same of a pixel beyond the map.
LANES_INLINE void clear_pixel(float *to, const int n, ptrdiff_t step) {
    for (int k = 0; k < n; k++) {
        store(to + k * step, broadcast(0.0f));
    }
}

// A d A^T of a 4x4 tile of vectors; point p goes to points + p * stride.
LANES_INLINE void transform_tile(const float *d, float *points, ptrdiff_t stride) {
    Vector half[WINDOW][TILE], point[WINDOW];
    for (int c = 0; c < TILE; c++) {
        Vector in[TILE];
        for (int r = 0; r < TILE; r++) {
            in[r] = load(d + (r * TILE + c) * LANES);
        }
        tile_to_points(in, point);
        for (int r = 0; r < WINDOW; r++) {
            half[r][c] = point[r];
        }
    }
    for (int r = 0; r < WINDOW; r++) {
        tile_to_points(half[r], point);
        for (int c = 0; c < WINDOW; c++) {
            store(points + (r * WINDOW + c) * stride, point[c]);
        }
    }
}

// Layout of a strip's points, in floats.
typedef struct Strip {
    int n_tiles;
    int n_blocks;       // of output channels
    ptrdiff_t d_stride; // between points of d_y: [tile][images / share][block][L]
    ptrdiff_t x_stride; // between points of x: [input][tile][L]
} Strip;

LANES_INLINE void transform_strip(const EsLaneMap *x, const EsLaneMap *d_y, int first,
                                  const Strip *strip, const int share, float *d_points,
                                  float *x_points) {
    const int n = LANES / share;
    int tiles_per_row = count_tiles(d_y->width);
    _Alignas(64) float turned[LANES * TILE * TILE * LANES];
    for (int t = 0; t < strip->n_tiles; t++) {
        int row = (first + t) / tiles_per_row * TILE, column = (first + t) % tiles_per_row * TILE;
        for (int b = 0; b < strip->n_blocks; b++) {
            const float *corner = d_y->data + b * n * d_y->plane + row * d_y->row + column * LANES;
            for (int r = 0; r < TILE; r++) {
                for (int c = 0; c < TILE; c++) {
                    float *to = turned + (r * TILE + c) * LANES;
                    if (row + r < d_y->height && column + c < d_y->width) {
                        turn_pixel(corner + r * d_y->row + c * LANES, d_y->plane,
                                   d_y->channels - b * n, share, to, TILE * TILE * LANES);
                    } else {
                        clear_pixel(to, n, TILE * TILE * LANES);
                    }
                }
            }
            for (int k = 0; k < n; k++) {
                transform_tile(turned + k * TILE * TILE * LANES,
                               d_points + ((t * n + k) * strip->n_blocks + b) * LANES,
                               strip->d_stride);
            }
        }
        for (int i = 0; i < x->channels; i++) {
            transform_input(x, i, row, column, x_points + (i * strip->n_tiles + t) * LANES,
                            strip->x_stride);
        }
    }
}

// accumulator[i][b] += sum over tiles and images of x[i] d[b], at one point.
LANES_INLINE void add_products(const float *d, const float *x, const Strip *strip, const int share,
                               const int n_in, const int n_blocks, int is_first,
                               float *accumulator) {
    Vector sum[8][2];
    for (int i = 0; i < n_in; i++) {
        for (int b = 0; b < n_blocks; b++) {
            sum[i][b] = broadcast(0.0f);
        }
    }
    ptrdiff_t d_step = strip->n_blocks * LANES, x_step = strip->n_tiles * LANES;
    for (int k = 0; k < strip->n_tiles * (LANES / share); k++) {
        Vector gradient[2];
        for (int b = 0; b < n_blocks; b++) {
            gradient[b] = load(d + k * d_step + b * LANES);
        }
        for (int i = 0; i < n_in; i++) {
            Vector in = repeat(x + i * x_step + k * share, share);
            for (int b = 0; b < n_blocks; b++) {
                sum[i][b] += in * gradient[b];
            }
        }
    }
    for (int i = 0; i < n_in; i++) {
        for (int b = 0; b < n_blocks; b++) {
            float *to = accumulator + (i * strip->n_blocks + b) * POINTS * LANES;
            store(to, is_first ? sum[i][b] : load(to) + sum[i][b]);
        }
    }
}

LANES_INLINE void add_inputs(const float *d, const float *x, const Strip *strip, const int share,
                             int n_in, const int n_blocks, int is_first, float *accumulator) {
    int i = 0;
#define ADD_WHILE(count)                                                                           \
    for (; i + (count) <= n_in; i += (count)) {                                                    \
        add_products(d, x + i * strip->n_tiles * LANES, strip, share, count, n_blocks, is_first,   \
                     accumulator + i * strip->n_blocks * POINTS * LANES);                          \
    }
    ADD_WHILE(TILE_IN)
    ADD_WHILE(4)
    ADD_WHILE(3)
    ADD_WHILE(2)
    ADD_WHILE(1)
#undef ADD_WHILE
}

LANES_INLINE void add_weight(const EsLaneMap *x, const EsLaneMap *d_y, const int share,
                             int is_first, float *accumulator) {
    _Alignas(64) float points[POINTS * (STRIP + 2) * LANES];
    int n_in = x->channels, n_tiles = count_tiles(d_y->width) * count_tiles(d_y->height);
    int n_blocks = blocks_of(d_y->channels, share), channels = n_in + n_blocks * (LANES / share);
    int most = ES_MIN(ES_MAX(1, STRIP / channels), n_tiles);
    for (int first = 0; first < n_tiles; first += most) {
        // odd strides: a power of two would map all points to a few cache sets
        Strip strip = {.n_tiles = ES_MIN(most, n_tiles - first), .n_blocks = n_blocks};
        strip.d_stride = ((strip.n_tiles * (LANES / share) * n_blocks) | 1) * LANES;
        strip.x_stride = ((strip.n_tiles * n_in) | 1) * LANES;
        float *x_points = points + POINTS * strip.d_stride;
        transform_strip(x, d_y, first, &strip, share, points, x_points);
        for (int p = 0; p < POINTS; p++) {
            const float *d = points + p * strip.d_stride;
            float *to = accumulator + p * LANES;
            int replaces = is_first && first == 0, b = 0;
            for (; b + 2 <= n_blocks; b += 2) {
                add_inputs(d + b * LANES, x_points + p * strip.x_stride, &strip, share, n_in, 2,
                           replaces, to + b * POINTS * LANES);
            }
            if (b < n_blocks) {
                add_inputs(d + b * LANES, x_points + p * strip.x_stride, &strip, share, n_in, 1,
                           replaces, to + b * POINTS * LANES);
            }
        }
    }
}

void LANES_FUNCTION(winograd_weight)(const EsLaneMap *x, const EsLaneMap *d_y, int is_first,
                                     float *accumulator) {
    switch (share_of(d_y->channels)) {
#if ES_LANES == 16
    case 4:
        add_weight(x, d_y, 4, is_first, accumulator);
        break;
#endif
#if ES_LANES >= 8
    case 2:
        add_weight(x, d_y, 2, is_first, accumulator);
        break;
#endif
    default:
        add_weight(x, d_y, 1, is_first, accumulator);
    }
}

// Sums of `share` neighbouring lanes, at the first of them.
LANES_INLINE Vector add_neighbours(Vector v, int share) {
#if ES_LANES == 16
    if (share == 4) {
        v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    }
    if (share > 1) {
        v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    }
#elif ES_LANES == 8
    if (share > 1) {
        v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
    }
#else
    (void)share;
#endif
    return v;
}

// G^T . G of the summed points of one input and block; then the images of a vector are summed.
static void reduce_block(const Vector point[POINTS], const float *sign, int share, int n_in,
                         int n_channels, float *d_weight) {
    Vector half[3][WINDOW], out[3];
    for (int c = 0; c < WINDOW; c++) {
        Vector in[WINDOW];
        for (int r = 0; r < WINDOW; r++) {
            in[r] = point[r * WINDOW + c];
        }
        points_to_filter(in, out);
        for (int r = 0; r < 3; r++) {
            half[r][c] = out[r];
        }
    }
    for (int t = 0; t < 9; t++) {
        if (t % 3 == 0) {
            points_to_filter(half[t / 3], out);
        }
        _Alignas(64) float value[LANES];
        store(value,
              add_neighbours(out[t % 3], share) * broadcast(points_to_filter_scale(t / 3, t % 3)));
        for (int o = 0; o < n_channels; o++) {
            float sum = value[o * share];
            d_weight[(ptrdiff_t)(o * n_in) * 9 + t] = sign != NULL ? sum * sign[o] : sum;
        }
    }
}

void LANES_FUNCTION(winograd_reduce)(const float *accumulator, size_t shard_stride, int n_shards,
                                     const float *sign, int n_in, int n_out, float *d_weight) {
    int share = share_of(n_out), n_blocks = blocks_of(n_out, share), n = LANES / share;
    for (int i = 0; i < n_in; i++) {
        for (int b = 0; b < n_blocks; b++) {
            Vector point[POINTS];
            for (int p = 0; p < POINTS; p++) {
                const float *part = accumulator + (size_t)((i * n_blocks + b) * POINTS + p) * LANES;
                Vector sum = load(part);
                for (int shard = 1; shard < n_shards; shard++) {
                    sum += load(part + (size_t)shard * shard_stride);
                }
                point[p] = sum;
            }
            reduce_block(point, sign != NULL ? sign + b * n : NULL, share, n_in,
                         ES_MIN(n, n_out - b * n), d_weight + (size_t)(b * n * n_in + i) * 9);
        }
    }
}
