// A convolution of one input channel with the batch norm, ReLU and 2x2 maximum behind it, and its
// gradients, by way of its patches (lanes.h); compiled once per vector width.
//
// A patch is the 3x3 neighbourhood of a position. With a single channel the sums over all positions
// of the patches and of their products are few numbers, and they give the statistics of every
// output channel before anything is convolved: the convolution can run on normalised weights, and
// keep nothing but the rectified maxima. Backward, only the position that won each window has a
// gradient of its own; the means that batch norm subtracts follow from the same sums.
//
// The convolution runs Winograd's F(4, 3) along rows: with one input channel the second dimension
// would cost more additions than it saves products.
#include "kernels/lanes/lanes_winograd.h"

#define TAPS 9 // of a patch

// --- sums of patches ---

// The positions fall into 3x3 regions, {first, inner, last} row by column, because a patch at the
// edge lacks a row or column: with A[s][t] the sum over positions p of x[p + s] x[p + t], put q =
// p + s, so A[s][t] is the sum of x[q] x[q + t - s] over the regions whose q - s lies inside.
typedef struct Region {
    int row, row_end, column, column_end;
} Region;

#define STRIP 64 // positions summed in registers before they are added

// Sums over one strip of x[q] x[q + d] for the 13 displacements d (half of a 5x5 square; the other
// half is the same by symmetry) and of x[q]. first_d, last_d: columns that may be nonzero.
LANES_INLINE void add_strip(const EsLaneMap *x, Region region, const int has_below,
                            const int first_d, const int last_d, Vector valid, int is_first,
                            float *sums) {
    Vector product[ES_LANES_PATCH_SHIFTS], total = broadcast(0.0f);
    for (int i = 0; i < ES_LANES_PATCH_SHIFTS; i++) {
        product[i] = broadcast(0.0f);
    }
    for (int r = region.row; r < region.row_end; r++) {
        const float *line = x->data + r * x->row;
        for (int c = region.column; c < region.column_end; c++) {
            const float *q = line + c * LANES;
            Vector value = load(q);
            total += value;
            for (int d = 0; d <= last_d; d++) {
                product[d] += value * load(q + d * LANES);
            }
            for (int d = first_d; d <= last_d && has_below; d++) {
                product[5 + d] += value * load(q + x->row + d * LANES);
                product[10 + d] += value * load(q + 2 * x->row + d * LANES);
            }
        }
    }
    for (int i = 0; i <= ES_LANES_PATCH_SHIFTS; i++) {
        float *to = sums + i * LANES;
        Vector sum = (i < ES_LANES_PATCH_SHIFTS ? product[i] : total) * valid;
        store(to, is_first ? sum : load(to) + sum);
    }
}

LANES_INLINE void add_region(const EsLaneMap *x, Region region, const int has_below,
                             const int first_d, const int last_d, Vector valid, int is_first,
                             float *sums) {
    int n_rows = ES_MAX(1, STRIP / ES_MAX(1, region.column_end - region.column));
    // an empty region has one strip, which clears its sums
    for (int row = region.row; row == region.row || row < region.row_end; row += n_rows) {
        Region strip = region;
        strip.row = row;
        strip.row_end = ES_MIN(row + n_rows, region.row_end);
        add_strip(x, strip, has_below, first_d, last_d, valid, is_first && row == region.row, sums);
    }
}

void LANES_FUNCTION(patch_sums)(const EsLaneMap *x, int n_valid, int is_first, float *accumulator) {
    const int rows[4] = {0, 1, x->height - 1, x->height},
              columns[4] = {0, 1, x->width - 1, x->width};
    Vector valid = first_lanes(n_valid);
    for (int i = 0; i < 3; i++) {
        Region left = {rows[i], rows[i + 1], columns[0], columns[1]};
        Region inner = {rows[i], rows[i + 1], columns[1], columns[2]};
        Region right = {rows[i], rows[i + 1], columns[2], columns[3]};
        float *sums = accumulator + i * 3 * ES_LANES_PATCH_REGION * LANES;
        if (i < 2) {
            add_region(x, left, 1, -1, 2, valid, is_first, sums);
            add_region(x, inner, 1, -2, 2, valid, is_first, sums + ES_LANES_PATCH_REGION * LANES);
            add_region(x, right, 1, -2, 1, valid, is_first,
                       sums + 2 * ES_LANES_PATCH_REGION * LANES);
        } else {
            add_region(x, left, 0, -1, 2, valid, is_first, sums);
            add_region(x, inner, 0, -2, 2, valid, is_first, sums + ES_LANES_PATCH_REGION * LANES);
            add_region(x, right, 0, -2, 1, valid, is_first,
                       sums + 2 * ES_LANES_PATCH_REGION * LANES);
        }
    }
}

// --- the convolution ---

#define LINES 16 // rows of outputs at a time

void LANES_FUNCTION(patch_pack)(const float *weight, const float *scale, int n_out, float *packed) {
    for (int o = 0; o < n_out; o++) {
        for (int u = 0; u < 3; u++) {
            const float *w = weight + o * TAPS + u * 3;
            Vector row[3], point[WINDOW];
            for (int v = 0; v < 3; v++) {
                row[v] = broadcast(w[v] * scale[o]);
            }
            filter_to_points(row, point);
            for (int p = 0; p < WINDOW; p++) {
                packed[o * ES_LANES_PATCH_FILTER + u * WINDOW + p] = point[p][0];
            }
        }
    }
}

// Four bits per lane and window: in the top row, in the bottom row, whether the right of the two is
// larger; whether the bottom one is; whether the maximum passes the ReLU.
typedef uint16_t Word __attribute__((may_alias));

static inline Word *words_of(const EsLaneMap *choice, int channel, int row, int column) {
    return (Word *)(choice->data + channel * choice->plane + row * choice->row) +
           column * ES_LANES_CHOICE_WORDS;
}

// Without choices a NaN is looked for in every maximum; with them it shows in the shift (lanes.h).
LANES_INLINE void finish_window(const Vector v[4], Vector shift, const int has_choice, float *y,
                                Word *choice) {
    Vector zero = broadcast(0.0f);
    if (!has_choice) {
        Vector z = larger_or_nan(larger_or_nan(v[0], v[1]), larger_or_nan(v[2], v[3])) + shift;
        store(y, larger(zero, z));
        return;
    }
    // chosen, not taken as maxima: comparisons are needed anyway, and multiplications leave few
    // slots where they and maxima run
    Choice top_right = greater(v[1], v[0]), bottom_right = greater(v[3], v[2]);
    Vector top = choose(top_right, v[1], v[0]), bottom = choose(bottom_right, v[3], v[2]);
    Choice lower = greater(bottom, top);
    Vector z = choose(lower, bottom, top) + shift;
    Choice passes = not_at_most(z, zero);
    store(y, choose(passes, z, zero));
    choice[0] = (Word)bits_of(top_right);
    choice[1] = (Word)bits_of(bottom_right);
    choice[2] = (Word)bits_of(lower);
    choice[3] = (Word)bits_of(passes);
}

// One row of points: `upper_row` of the filter adds to the upper row of outputs, `upper_row` - 1 to
// the lower one, where the filter has them.
LANES_INLINE void add_line(const float *points, const float *filter, const int upper_row,
                           Vector upper[WINDOW], Vector lower[WINDOW]) {
    for (int p = 0; p < WINDOW; p++) {
        Vector in = load(points + (upper_row * WINDOW + p) * LANES);
        if (upper_row == 0) {
            upper[p] = in * broadcast(filter[p]);
        } else if (upper_row < 3) {
            upper[p] += in * broadcast(filter[upper_row * WINDOW + p]);
        }
        if (upper_row == 1) {
            lower[p] = in * broadcast(filter[p]);
        } else if (upper_row > 1) {
            lower[p] += in * broadcast(filter[(upper_row - 1) * WINDOW + p]);
        }
    }
}

// Two rows of a tile, one row of its windows, from four rows of points. Without choices there is no
// address to count from: `choice` is NULL.
LANES_INLINE void conv_rows(const float *points, const float *filter, Vector shift,
                            const int has_choice, float *y, Word *choice) {
    Vector upper[WINDOW], lower[WINDOW], top[TILE], bottom[TILE];
    add_line(points, filter, 0, upper, lower);
    add_line(points, filter, 1, upper, lower);
    add_line(points, filter, 2, upper, lower);
    add_line(points, filter, 3, upper, lower);
    points_to_tile(upper, top);
    points_to_tile(lower, bottom);
    for (int k = 0; k < 2; k++) {
        Vector window[4] = {top[2 * k], top[2 * k + 1], bottom[2 * k], bottom[2 * k + 1]};
        finish_window(window, shift, has_choice, y + k * LANES,
                      has_choice ? choice + k * ES_LANES_CHOICE_WORDS : NULL);
    }
}

LANES_INLINE void conv_patches(const EsLaneMap *x, const float *packed, const float *shift,
                               const int has_choice, const EsLaneMap *y, const EsLaneMap *choice) {
    _Alignas(64) float points[(LINES + 2) * WINDOW * LANES];
    for (int first = 0; first < x->height; first += LINES) {
        int n_lines = ES_MIN(LINES, x->height - first);
        for (int column = 0; column < x->width; column += TILE) {
            for (int line = 0; line < n_lines + 2; line++) {
                const float *from = x->data + (first + line - 1) * x->row + (column - 1) * LANES;
                Vector in[WINDOW], point[WINDOW];
                for (int k = 0; k < WINDOW; k++) {
                    in[k] = load(from + k * LANES);
                }
                window_to_points(in, point);
                for (int p = 0; p < WINDOW; p++) {
                    store(points + (line * WINDOW + p) * LANES, point[p]);
                }
            }
            for (int o = 0; o < y->channels; o++) {
                for (int line = 0; line < n_lines; line += 2) {
                    int row = (first + line) / 2;
                    conv_rows(points + line * WINDOW * LANES, packed + o * ES_LANES_PATCH_FILTER,
                              broadcast(shift[o]), has_choice,
                              y->data + o * y->plane + row * y->row + column / 2 * LANES,
                              has_choice ? words_of(choice, o, row, column / 2) : NULL);
                }
            }
        }
    }
}

void LANES_FUNCTION(patch_forward)(const EsLaneMap *x, const float *packed, const float *shift,
                                   const EsLaneMap *y, const EsLaneMap *choice) {
    if (choice->data != NULL) {
        conv_patches(x, packed, shift, 1, y, choice);
    } else {
        conv_patches(x, packed, shift, 0, y, choice);
    }
}

// --- the gradient ---

// Add d times the patch of the position that won the window; x points at the window's own top left
// element.
LANES_INLINE void add_window(const float *x, ptrdiff_t row, const Word *words, Vector d,
                             Vector sum[TAPS + 1]) {
    unsigned is_lower = words[2], is_right = (words[1] & is_lower) | (words[0] & ~is_lower);
    Choice lower = choice_of(is_lower), right = choice_of(is_right);
    d = choose(choice_of(words[3]), d, broadcast(0.0f));
    // [row][column of the 4x4 neighbourhood], the row chosen
    Vector chosen[3][4];
    for (int c = 0; c < 4; c++) {
        Vector v[4];
        for (int r = 0; r < 4; r++) {
            v[r] = load(x + (r - 1) * row + (c - 1) * LANES);
        }
        for (int r = 0; r < 3; r++) {
            chosen[r][c] = choose(lower, v[r + 1], v[r]);
        }
    }
    for (int t = 0; t < TAPS; t++) {
        sum[t] += d * choose(right, chosen[t / 3][t % 3 + 1], chosen[t / 3][t % 3]);
    }
    sum[TAPS] += d;
}

void LANES_FUNCTION(patch_backward_weight)(const EsLaneMap *x, const EsLaneMap *d_y,
                                           const EsLaneMap *choice, int is_first,
                                           float *accumulator) {
    for (int o = 0; o < d_y->channels; o++) {
        float *sums = accumulator + o * ES_LANES_PATCH_GRADIENT * LANES;
        Vector sum[TAPS + 1];
        for (int t = 0; t <= TAPS; t++) {
            sum[t] = is_first ? broadcast(0.0f) : load(sums + t * LANES);
        }
        for (int r = 0; r < d_y->height; r++) {
            const float *d = d_y->data + o * d_y->plane + r * d_y->row;
            const float *window = x->data + 2 * r * x->row;
            const Word *words = words_of(choice, o, r, 0);
            for (int k = 0; k < d_y->width; k++) {
                add_window(window + 2 * k * LANES, x->row, words + k * ES_LANES_CHOICE_WORDS,
                           load(d + k * LANES), sum);
            }
        }
        for (int t = 0; t <= TAPS; t++) {
            store(sums + t * LANES, sum[t]);
        }
    }
}

void LANES_FUNCTION(lane_totals)(const float *accumulator, size_t shard_stride, int n_shards,
                                 int count, double *totals) {
    for (int i = 0; i < count; i++) {
        Vector sum = load(accumulator + i * LANES);
        for (int shard = 1; shard < n_shards; shard++) {
            sum += load(accumulator + (size_t)shard * shard_stride + i * LANES);
        }
        totals[i] = lane_sum(sum);
    }
}
