// The transformations of Winograd's F(4x4, 3x3) for the vector engine (Lavin and Gray 2015, section
// 4), one image per lane.
//
// A tile of 4x4 outputs reads a window of 6x6 inputs; both sides are brought to 36 points at which
// the convolution is a product: y = A^T [(G w G^T) . (B^T x B)] A. That takes 36 multiplications
// where the direct way takes 144. The gradient of the weights uses the same points: d_w = G^T [(A
// d_y A^T) . (B^T x B)] G, summed over tiles before the last step. Rounding errors grow by about 8
// against the direct way: relative errors of 1e-6 by norm instead of 1e-7.
//
// Tiles at the lower and the right edge may hang over the map. Beyond it and its border inputs and
// gradients are 0, and outputs are dropped.
//
// The one-dimensional steps below are those of the points 0, 1, -1, 2, -2 and infinity; adds and
// fused multiply-adds are balanced, because they run side by side.
#ifndef ES_KERNELS_LANES_WINOGRAD_H
#define ES_KERNELS_LANES_WINOGRAD_H

#include "kernels/lanes/lanes_internal.h"

#define TILE   4 // outputs of a tile, per side
#define WINDOW 6 // its inputs, per side
#define POINTS 36

// B^T: a row or column of the window to points.
LANES_INLINE void window_to_points(const Vector x[WINDOW], Vector point[WINDOW]) {
    Vector two = broadcast(2.0f), four = broadcast(4.0f);
    Vector far = x[4] - four * x[2], far_odd = x[3] - four * x[1];
    Vector near = x[4] - x[2], near_odd = x[3] - x[1];
    point[0] = four * (x[0] - x[2]) + near;
    point[1] = far + far_odd;
    point[2] = far - far_odd;
    point[3] = near + two * near_odd;
    point[4] = near - two * near_odd;
    point[5] = (x[5] - x[3]) - four * near_odd;
}

// Two of the six points of one row of the window: pair 0 is (0, 5), 1 (1, 2), 2 (3, 4).
LANES_INLINE void row_to_points(const float *x, const int pair, Vector *first, Vector *second) {
    Vector two = broadcast(2.0f), four = broadcast(4.0f);
    Vector x1 = load(x + LANES), x2 = load(x + 2 * LANES), x3 = load(x + 3 * LANES),
           x4 = load(x + 4 * LANES);
    if (pair == 0) {
        *first = four * (load(x) - x2) + (x4 - x2);
        *second = (load(x + 5 * LANES) - x3) - four * (x3 - x1);
    } else if (pair == 1) {
        Vector far = x4 - four * x2, far_odd = x3 - four * x1;
        *first = far + far_odd;
        *second = far - far_odd;
    } else {
        Vector near = x4 - x2, near_odd = x3 - x1;
        *first = near + two * near_odd;
        *second = near - two * near_odd;
    }
}

// Two of the six columns of points: row_to_points across, window_to_points down. Everything between
// the loads and the stores stays in registers.
LANES_INLINE void transform_columns(const float *x, ptrdiff_t row, const int pair, float *first_to,
                                    float *second_to, ptrdiff_t stride) {
    Vector first[WINDOW], second[WINDOW], point[WINDOW];
    for (int r = 0; r < WINDOW; r++) {
        row_to_points(x + r * row, pair, &first[r], &second[r]);
    }
    window_to_points(first, point);
    for (int r = 0; r < WINDOW; r++) {
        store(first_to + r * WINDOW * stride, point[r]);
    }
    window_to_points(second, point);
    for (int r = 0; r < WINDOW; r++) {
        store(second_to + r * WINDOW * stride, point[r]);
    }
}

// B^T x B of the window whose top left is x; point p goes to points + p * stride. Across first,
// because the elements of a row lie at constant distances: a fifth faster than down first.
LANES_ALONE void transform_window(const float *x, ptrdiff_t row, float *points, ptrdiff_t stride) {
    transform_columns(x, row, 1, points + stride, points + 2 * stride, stride);
    transform_columns(x, row, 2, points + 3 * stride, points + 4 * stride, stride);
    transform_columns(x, row, 0, points, points + 5 * stride, stride);
}

static inline int count_tiles(int size) { return (size + TILE - 1) / TILE; }

// Is all of the tile inside the map?
static inline int is_whole(const EsLaneMap *map, int row, int column) {
    return row + TILE <= map->height && column + TILE <= map->width;
}

// B^T x B of the window of any tile of a channel, by the tile's first row and column.
LANES_INLINE void transform_input(const EsLaneMap *x, int channel, int row, int column,
                                  float *points, ptrdiff_t stride) {
    const float *corner = x->data + channel * x->plane + (row - 1) * x->row + (column - 1) * LANES;
    if (is_whole(x, row, column)) {
        transform_window(corner, x->row, points, stride);
        return;
    }
    _Alignas(64) float window[POINTS * LANES];
    int n_rows = ES_MIN(WINDOW, x->height + 2 - row),
        n_columns = ES_MIN(WINDOW, x->width + 2 - column);
    for (int r = 0; r < WINDOW; r++) {
        for (int c = 0; c < WINDOW; c++) {
            store(window + (r * WINDOW + c) * LANES, r < n_rows && c < n_columns
                                                         ? load(corner + r * x->row + c * LANES)
                                                         : broadcast(0.0f));
        }
    }
    transform_window(window, WINDOW * LANES, points, stride);
}

// G: a row or column of a filter to points.
LANES_INLINE void filter_to_points(const Vector w[3], Vector point[WINDOW]) {
    Vector sixth = broadcast(1.0f / 6.0f), even = (w[0] + w[2]) * sixth, odd = w[1] * sixth;
    Vector half_odd = odd * broadcast(0.5f), far = w[0] * broadcast(1.0f / 24.0f) + w[2] * sixth;
    point[0] = w[0] * broadcast(0.25f);
    point[1] = -even - odd;
    point[2] = odd - even;
    point[3] = far + half_odd;
    point[4] = far - half_odd;
    point[5] = w[2];
}

// G^T, each result times 24, 12 and 6: points_to_filter_scale undoes it.
LANES_INLINE void points_to_filter(const Vector point[WINDOW], Vector w[3]) {
    Vector six = broadcast(6.0f), four = broadcast(4.0f), two = broadcast(2.0f);
    Vector even1 = point[1] + point[2], even2 = point[3] + point[4];
    Vector odd1 = point[2] - point[1], odd2 = point[3] - point[4];
    w[0] = (even2 + six * point[0]) - four * even1;
    w[1] = odd2 + two * odd1;
    w[2] = (even2 - even1) + six * point[5];
}

static inline float points_to_filter_scale(int row, int column) {
    const float scale[3] = {1.0f / 24.0f, 1.0f / 12.0f, 1.0f / 6.0f};
    return scale[row] * scale[column];
}

// A^T: points to a row or column of outputs.
LANES_INLINE void points_to_tile(const Vector point[WINDOW], Vector y[TILE]) {
    Vector two = broadcast(2.0f), four = broadcast(4.0f), eight = broadcast(8.0f);
    Vector even1 = point[1] + point[2], even2 = point[3] + point[4];
    Vector odd1 = point[1] - point[2], odd2 = point[3] - point[4];
    y[0] = point[0] + even1 + even2;
    y[1] = odd1 + two * odd2;
    y[2] = even1 + four * even2;
    y[3] = (odd1 + eight * odd2) + point[5];
}

// A: a row or column of the gradient of the outputs to points.
LANES_INLINE void tile_to_points(const Vector y[TILE], Vector point[WINDOW]) {
    Vector two = broadcast(2.0f), four = broadcast(4.0f);
    Vector even1 = y[0] + y[2], odd1 = y[1] + y[3], even2 = y[0] + four * y[2],
           odd2 = y[1] + four * y[3];
    point[0] = y[0];
    point[1] = even1 + odd1;
    point[2] = even1 - odd1;
    point[3] = even2 + two * odd2;
    point[4] = even2 - two * odd2;
    point[5] = y[3];
}

#endif
