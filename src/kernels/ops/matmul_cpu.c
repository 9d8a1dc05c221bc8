// Letters: M rows of c, N columns of c, K the summed axis, E environments.
#include "kernels/env_data.h"
#include "kernels/kernels.h"

// A piece owns ROWS rows of c. It walks panels of op(b), COLUMNS wide and DEPTH deep, copied so
// that the inner loop runs over adjacent floats for either storage order of b: 32 KiB, the size of
// a first-level cache.
#define ROWS    32
#define COLUMNS 64
#define DEPTH   128

typedef struct Product {
    EsIn a, b;
    EsOut c;
    int64_t M, N, K;
    int64_t a_row, a_column; // strides of op(a) in elements
    int64_t b_row, b_column; // strides of op(b)
    float beta;
    int64_t n_blocks; // pieces of one environment
} Product;

static void scale_rows(const Product *p, float *c, int64_t n_rows) {
    for (int64_t i = 0; i < n_rows * p->N; i++) {
        // the old c may be anything, even NaN, when beta is 0
        c[i] = p->beta == 0.0f ? 0.0f : p->beta * c[i];
    }
}

// panel[k, j] = op(b)[k0 + k, j0 + j], with zeros to the right of the last column
static void copy_panel(const Product *p, const float *b, int64_t k0, int64_t depth, int64_t j0,
                       int64_t width, float panel[DEPTH][COLUMNS]) {
    for (int64_t k = 0; k < depth; k++) {
        const float *row = b + (k0 + k) * p->b_row + j0 * p->b_column;
        for (int64_t j = 0; j < COLUMNS; j++) {
            panel[k][j] = j < width ? row[j * p->b_column] : 0.0f;
        }
    }
}

// Each element of c is a sum over K in ascending order, in parts of DEPTH that are added in
// ascending order: a function of K alone, not of M, N or the thread.
static void multiply_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Product *p = context;
    int64_t e = piece / p->n_blocks;
    int64_t row0 = piece % p->n_blocks * ROWS;
    int64_t n_rows = ES_MIN(ROWS, p->M - row0);
    const float *a = es_env_f32(p->a, e) + row0 * p->a_row;
    const float *b = es_env_f32(p->b, e);
    float *c = es_env_f32(p->c, e) + row0 * p->N;
    float panel[DEPTH][COLUMNS];

    scale_rows(p, c, n_rows);
    for (int64_t j0 = 0; j0 < p->N; j0 += COLUMNS) {
        int64_t width = ES_MIN(COLUMNS, p->N - j0);
        for (int64_t k0 = 0; k0 < p->K; k0 += DEPTH) {
            int64_t depth = ES_MIN(DEPTH, p->K - k0);
            copy_panel(p, b, k0, depth, j0, width, panel);
            for (int64_t i = 0; i < n_rows; i++) {
                float sum[COLUMNS] = {0};
                for (int64_t k = 0; k < depth; k++) {
                    float factor = a[i * p->a_row + (k0 + k) * p->a_column];
                    for (int64_t j = 0; j < COLUMNS; j++) {
                        sum[j] += factor * panel[k][j];
                    }
                }
                for (int64_t j = 0; j < width; j++) {
                    c[i * p->N + j0 + j] += sum[j];
                }
            }
        }
    }
}

void es_matmul_cpu(EsStream *s, int trans_a, int trans_b, float beta, EsIn a, EsIn b, EsOut c) {
    int64_t E = c->dim[0], M = c->dim[1], N = c->dim[2];
    int64_t K = a->dim[trans_a ? 1 : 2];
    Product product = {
        .a = a,
        .b = b,
        .c = c,
        .M = M,
        .N = N,
        .K = K,
        .a_row = trans_a ? 1 : K,
        .a_column = trans_a ? M : 1,
        .b_row = trans_b ? 1 : N,
        .b_column = trans_b ? K : 1,
        .beta = beta,
        .n_blocks = (M + ROWS - 1) / ROWS,
    };
    es_stream_parallel(s, E * product.n_blocks, multiply_rows, &product);
}
