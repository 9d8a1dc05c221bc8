// The matrix product for 8 and 16 floats per vector. Letters as in matmul_cpu.c.
//
// Two kinds of tiles that stay in registers. Where b is stored transposed (a layer's forward
// product), rows of a meet rows of b and the lanes run along K: nothing is packed, so a product of
// one row reads the weights once and does little else. In all other cases the lanes run along the
// columns of c and a row of b is a row of vectors.
#include "kernels/ops/matmul_simd.h"
#include "kernels/env_data.h"
#include "kernels/kernels.h"

#define COLUMNS ES_SIMD_COLUMNS
#define VECTORS (COLUMNS / LANES)
#define DEPTH   ES_SIMD_DEPTH

// rows of a tile: sums and operands fill 32 or 16 registers
#define DOT_ROWS   (LANES == 16 ? 6 : 3)
#define DOTS       4
#define PANEL_ROWS 6
// of c, in a piece of a transposed product
#define PIECE_COLUMNS 64

// --- b stored transposed: lanes along K ---

LANES_INLINE void add_dots(const float *const *a, const float *b, int64_t b_row, int64_t k,
                           int64_t n, int R, int C, Vector sum[DOT_ROWS][DOTS]) {
    Vector w[DOTS];
#pragma GCC unroll 4
    for (int j = 0; j < C; j++) {
        w[j] = load_first(b + j * b_row + k, n);
    }
#pragma GCC unroll 6
    for (int i = 0; i < R; i++) {
        Vector x = load_first(a[i] + k, n);
#pragma GCC unroll 4
        for (int j = 0; j < C; j++) {
            sum[i][j] += x * w[j];
        }
    }
}

// R rows by C columns; R and C are constants of the caller
LANES_INLINE void dot_tile(const float *const *a, float *const *c, const float *b, int64_t b_row,
                           int64_t depth, float beta, int64_t c_column, int R, int C) {
    Vector sum[DOT_ROWS][DOTS] = {{{0}}};
    int64_t k = 0;
    for (; k + LANES <= depth; k += LANES) {
        add_dots(a, b, b_row, k, LANES, R, C, sum);
    }
    if (k < depth) {
        add_dots(a, b, b_row, k, depth - k, R, C, sum);
    }
#pragma GCC unroll 6
    for (int i = 0; i < R; i++) {
        Four dots = lane_sums(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
        float *to = c[i] + c_column;
        if (C == DOTS) {
            Four old = {0};
            if (beta != 0.0f) {
                old = beta * (Four) * (const FourAnywhere *)to;
            }
            *(FourAnywhere *)to = old + dots;
        } else {
            for (int j = 0; j < C; j++) {
                to[j] = (beta == 0.0f ? 0.0f : beta * to[j]) + dots[j];
            }
        }
    }
}

// all columns for R rows
LANES_INLINE void dot_rows(const EsSimdRows *rows, int64_t first, const float *b, int64_t b_row,
                           int64_t n_columns, int64_t depth, float beta, int64_t c_column, int R) {
    const float *const *a = rows->a + first;
    float *const *c = rows->c + first;
    int64_t j = 0;
    for (; j + DOTS <= n_columns; j += DOTS) {
        dot_tile(a, c, b + j * b_row, b_row, depth, beta, c_column + j, R, DOTS);
    }
    for (; j < n_columns; j++) {
        dot_tile(a, c, b + j * b_row, b_row, depth, beta, c_column + j, R, 1);
    }
}

// The height of the tiles of `count` rows, `limit` at most, so that the last is not much lower.
static int64_t tile_height(int64_t count, int64_t limit) {
    int64_t n_tiles = (count + limit - 1) / limit;
    return (count + n_tiles - 1) / n_tiles;
}

void ES_CPU_KERNEL(rows_times_transposed)(const EsSimdRows *rows, const float *b, int64_t b_row,
                                          int64_t n_columns, int64_t depth, float beta,
                                          int64_t c_column) {
    int64_t height = rows->count > 0 ? tile_height(rows->count, DOT_ROWS) : 1;
    for (int64_t i = 0; i < rows->count; i += height) {
        switch (ES_MIN(height, rows->count - i)) {
#define HEIGHT(R)                                                                                  \
    case R:                                                                                        \
        dot_rows(rows, i, b, b_row, n_columns, depth, beta, c_column, R);                          \
        break;
            HEIGHT(1)
            HEIGHT(2)
            HEIGHT(3)
#if ES_LANES == 16
            HEIGHT(4)
            HEIGHT(5)
            HEIGHT(6)
#endif
#undef HEIGHT
        }
    }
}

// --- b stored in rows: lanes along the columns of c ---

// R rows by V vectors, the last of them `n_last` floats wide; R and V are constants of the caller
LANES_INLINE void panel_tile(const float *const *a, float *const *c, int64_t a_step,
                             const float *panel, int64_t panel_row, int64_t depth, int64_t n_last,
                             float beta, int64_t c_column, int R, int V) {
    Vector sum[PANEL_ROWS][VECTORS] = {{{0}}};
    for (int64_t k = 0; k < depth; k++) {
        Vector w[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            w[v] = load_any(panel + k * panel_row + v * LANES);
        }
#pragma GCC unroll 6
        for (int i = 0; i < R; i++) {
            Vector x = broadcast(a[i][k * a_step]);
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) {
                sum[i][v] += x * w[v];
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < R; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            float *to = c[i] + c_column + v * LANES;
            int64_t n = v + 1 < V ? LANES : n_last;
            Vector old = {0};
            if (beta != 0.0f) {
                old = beta * load_first(to, n);
            }
            store_first(to, n, old + sum[i][v]);
        }
    }
}

LANES_INLINE void panel_rows(const float *const *a, float *const *c, int64_t a_step,
                             const float *panel, int64_t panel_row, int64_t depth,
                             int64_t n_columns, float beta, int64_t c_column, int R) {
    int64_t n_vectors = (n_columns + LANES - 1) / LANES;
    int64_t n_last = n_columns - (n_vectors - 1) * LANES;
    switch (n_vectors) {
#define VECTOR_COUNT(V)                                                                            \
    case V:                                                                                        \
        panel_tile(a, c, a_step, panel, panel_row, depth, n_last, beta, c_column, R, V);           \
        break;
        VECTOR_COUNT(1)
        VECTOR_COUNT(2)
#if ES_LANES == 16
        VECTOR_COUNT(3)
        VECTOR_COUNT(4)
#endif
#undef VECTOR_COUNT
    }
}

void ES_CPU_KERNEL(rows_times_panel)(const EsSimdRows *rows, int64_t a_step, const float *panel,
                                     int64_t panel_row, int64_t depth, int64_t n_columns,
                                     float beta, int64_t c_column) {
    int64_t height = rows->count > 0 ? tile_height(rows->count, PANEL_ROWS) : 1;
    for (int64_t i = 0; i < rows->count; i += height) {
        const float *const *a = rows->a + i;
        float *const *c = rows->c + i;
        switch (ES_MIN(height, rows->count - i)) {
#define HEIGHT(R)                                                                                  \
    case R:                                                                                        \
        panel_rows(a, c, a_step, panel, panel_row, depth, n_columns, beta, c_column, R);           \
        break;
            HEIGHT(1)
            HEIGHT(2)
            HEIGHT(3)
            HEIGHT(4)
            HEIGHT(5)
            HEIGHT(6)
#undef HEIGHT
        }
    }
}

// --- blocks ---

static const float *b_row_at(const EsSimdProduct *p, int64_t k) {
    return p->find_b_row != NULL ? p->find_b_row(p->context, k) : p->b + k * p->b_row;
}

// panel[k][j] = op(b)[k0 + k, j0 + j], with zeros to the right of the last column
static void copy_panel(const EsSimdProduct *p, int64_t k0, int64_t depth, int64_t j0, int64_t width,
                       float panel[DEPTH][COLUMNS]) {
    for (int64_t k = 0; k < depth; k++) {
        const float *row = b_row_at(p, k0 + k);
        int64_t n_used = row == NULL ? 0 : width;
        for (int64_t v = 0; v < COLUMNS; v += LANES) {
            int64_t n = ES_MAX(0, ES_MIN(LANES, n_used - v));
            Vector values = {0};
            if (n > 0 && p->b_column == 1) {
                values = load_first(row + j0 + v, n);
            }
            store(panel[k] + v, values);
            for (int64_t j = 0; j < n && p->b_column != 1; j++) {
                panel[k][v + j] = row[(j0 + v + j) * p->b_column];
            }
        }
    }
}

// packed[k][i] = op(a)[i, k0 + k], where the rows of op(a) are adjacent in memory
static void copy_columns(const EsSimdProduct *p, int64_t k0, int64_t depth,
                         float packed[DEPTH][ES_SIMD_ROWS]) {
    for (int64_t k = 0; k < depth; k++) {
        const float *column = p->a + (k0 + k) * p->a_column;
        for (int64_t i = 0; i < p->n_rows; i += LANES) {
            store(packed[k] + i, load_first(column + i, ES_MIN(LANES, p->n_rows - i)));
        }
    }
}

static void multiply_part(const EsSimdProduct *p, const EsSimdRows *rows, int64_t a_step,
                          int64_t k0, int64_t depth) {
    _Alignas(64) float panel[DEPTH][COLUMNS];
    float beta = k0 == 0 ? p->beta : 1.0f;
    for (int64_t j0 = 0; j0 < p->n_columns; j0 += COLUMNS) {
        int64_t width = ES_MIN(COLUMNS, p->n_columns - j0);
        int is_direct = p->n_rows < ES_SIMD_ROWS_PER_COPY && p->b_column == 1 &&
                        p->find_b_row == NULL && width % LANES == 0;
        if (is_direct) {
            ES_CPU_KERNEL(rows_times_panel)
            (rows, a_step, p->b + k0 * p->b_row + j0, p->b_row, depth, width, beta, j0);
        } else {
            copy_panel(p, k0, depth, j0, width, panel);
            ES_CPU_KERNEL(rows_times_panel)
            (rows, a_step, panel[0], COLUMNS, depth, width, beta, j0);
        }
    }
}

void ES_CPU_KERNEL(product_block)(const EsSimdProduct *p) {
    _Alignas(64) float packed[DEPTH][ES_SIMD_ROWS];
    EsSimdRows rows = {.count = p->n_rows};
    int is_packed = p->a_column != 1;
    for (int64_t i = 0; i < p->n_rows; i++) {
        rows.c[i] = p->c + i * p->c_row;
    }
    // no part at all would leave c as it was
    for (int64_t k0 = 0; k0 == 0 || k0 < p->depth; k0 += DEPTH) {
        int64_t depth = ES_MIN(DEPTH, p->depth - k0);
        if (is_packed) {
            copy_columns(p, k0, depth, packed);
        }
        for (int64_t i = 0; i < p->n_rows; i++) {
            rows.a[i] = is_packed ? packed[0] + i : p->a + i * p->a_row + k0;
        }
        multiply_part(p, &rows, is_packed ? ES_SIMD_ROWS : 1, k0, depth);
    }
}

// --- the operation ---

typedef struct Product {
    EsIn a, b;
    EsOut c;
    int64_t M, N, K;
    int trans_a, trans_b;
    float beta;
    int64_t n_row_blocks, n_column_blocks; // pieces of one environment
} Product;

// piece = (e, block of columns, block of rows)
static void multiply_transposed(void *context, int64_t piece, int worker) {
    (void)worker;
    const Product *p = context;
    int64_t row0 = piece % p->n_row_blocks * ES_SIMD_ROWS;
    int64_t column0 = piece / p->n_row_blocks % p->n_column_blocks * PIECE_COLUMNS;
    int64_t e = piece / (p->n_row_blocks * p->n_column_blocks);
    EsSimdRows rows = {.count = ES_MIN(ES_SIMD_ROWS, p->M - row0)};
    for (int64_t i = 0; i < rows.count; i++) {
        rows.a[i] = es_env_f32(p->a, e) + (row0 + i) * p->K;
        rows.c[i] = es_env_f32(p->c, e) + (row0 + i) * p->N;
    }
    ES_CPU_KERNEL(rows_times_transposed)
    (&rows, es_env_f32(p->b, e) + column0 * p->K, p->K, ES_MIN(PIECE_COLUMNS, p->N - column0), p->K,
     p->beta, column0);
}

// piece = (e, block of rows)
static void multiply_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Product *p = context;
    int64_t e = piece / p->n_row_blocks;
    int64_t row0 = piece % p->n_row_blocks * ES_SIMD_ROWS;
    EsSimdProduct block = {
        .a = es_env_f32(p->a, e) + (p->trans_a ? row0 : row0 * p->K),
        .a_row = p->trans_a ? 1 : p->K,
        .a_column = p->trans_a ? p->M : 1,
        .b = es_env_f32(p->b, e),
        .b_row = p->trans_b ? 1 : p->N,
        .b_column = p->trans_b ? p->K : 1,
        .c = es_env_f32(p->c, e) + row0 * p->N,
        .c_row = p->N,
        .n_rows = ES_MIN(ES_SIMD_ROWS, p->M - row0),
        .n_columns = p->N,
        .depth = p->K,
        .beta = p->beta,
    };
    ES_CPU_KERNEL(product_block)(&block);
}

void ES_CPU_KERNEL(matmul)(EsStream *s, int trans_a, int trans_b, float beta, EsIn a, EsIn b,
                           EsOut c) {
    Product product = {
        .a = a,
        .b = b,
        .c = c,
        .M = c->dim[1],
        .N = c->dim[2],
        .K = a->dim[trans_a ? 1 : 2],
        .trans_a = trans_a,
        .trans_b = trans_b,
        .beta = beta,
    };
    product.n_row_blocks = (product.M + ES_SIMD_ROWS - 1) / ES_SIMD_ROWS;
    product.n_column_blocks = (product.N + PIECE_COLUMNS - 1) / PIECE_COLUMNS;
    if (trans_b && !trans_a) {
        es_stream_parallel(s, c->dim[0] * product.n_row_blocks * product.n_column_blocks,
                           multiply_transposed, &product);
    } else {
        es_stream_parallel(s, c->dim[0] * product.n_row_blocks, multiply_rows, &product);
    }
}
