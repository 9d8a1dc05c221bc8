// Products of blocks of matrices on one thread, for matmul_simd.c and lstm_simd.c.
//
// Rows of a and c are lists of pointers, so that a caller leaves rows out or takes them from
// several environments. Every element of c is summed over K in an order that depends on K alone:
// neither other rows and columns nor the thread change its bits.
#ifndef ES_KERNELS_MATMUL_SIMD_H
#define ES_KERNELS_MATMUL_SIMD_H

#include "kernels/simd.h"

// rows of c per block
#define ES_SIMD_ROWS 96

// columns of a tile of the second kind; its panel, ES_SIMD_DEPTH rows of b, is 32 or 8 KiB
#define ES_SIMD_COLUMNS (LANES == 16 ? 64 : 16)
#define ES_SIMD_DEPTH   128
// fewer rows than this do not repay the copy of a panel
#define ES_SIMD_ROWS_PER_COPY 13

typedef struct EsSimdRows {
    int64_t count;
    const float *a[ES_SIMD_ROWS]; // first element of each row of op(a)
    float *c[ES_SIMD_ROWS];       // column 0 of each row of c
} EsSimdRows;

// c[i][j] = beta c[i][j] + a[i] . b[j] for n_columns rows of b, `b_row` floats apart, all of
// `depth` floats. c is not read with beta = 0. Sums: lane l takes every k with k % LANES = l,
// ascending.
void ES_CPU_KERNEL(rows_times_transposed)(const EsSimdRows *rows, const float *b, int64_t b_row,
                                          int64_t n_columns, int64_t depth, float beta,
                                          int64_t c_column);

// c[i][c_column + j] = beta c + sum over k < depth of a[i][k a_step] panel[k][j], for n_columns <=
// ES_SIMD_COLUMNS. Whole vectors of the panel are read. Sums: k ascending.
void ES_CPU_KERNEL(rows_times_panel)(const EsSimdRows *rows, int64_t a_step, const float *panel,
                                     int64_t panel_row, int64_t depth, int64_t n_columns,
                                     float beta, int64_t c_column);

// A block of rows of c = beta c + op(a) b. Sums: parts of ES_SIMD_DEPTH, added ascending.
typedef struct EsSimdProduct {
    const float *a;          // element (first row of the block, 0) of op(a)
    int64_t a_row, a_column; // its strides
    const float *b;
    int64_t b_row, b_column; // strides of op(b)
    // nullable: where row k of b begins, in place of b + k b_row; NULL stands for zeros
    const float *(*find_b_row)(const void *context, int64_t k);
    const void *context;
    float *c;
    int64_t c_row;
    int64_t n_rows, n_columns, depth; // n_rows <= ES_SIMD_ROWS
    float beta;
} EsSimdProduct;

void ES_CPU_KERNEL(product_block)(const EsSimdProduct *product);

#endif
