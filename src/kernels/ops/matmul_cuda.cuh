// The matrix product behind matmul, linear and lstm, and the column sums behind their bias
// gradients.
#ifndef ES_KERNELS_MATMUL_CUDA_CUH
#define ES_KERNELS_MATMUL_CUDA_CUH

#include "kernels/cuda/cuda_common.cuh"

// One matrix per environment, any layout; strides count elements.
struct EsMatrix {
    void *data;
    EsDtype dtype; // f32 or bf16
    int64_t env_stride, row_stride, column_stride;
};

// c = a b + beta c + bias, with a [m, k], b [k, n], c [m, n] in each environment.
struct EsProduct {
    int64_t n_envs, m, n, k;
    EsMatrix a, b, c;
    float beta;               // 0: the old c is not read
    int rounds_b;             // b holds f32 weights that are rounded to bf16
    EsEnvs<const float> bias; // [n] per environment, nullable
    const uint8_t *skip_row;  // [m] per environment, nullable: rows of a that count as 0
    const uint8_t *skip_k;    // [k] per environment, nullable: rows of b that count as 0
    int64_t skip_env_stride;  // of either
};

void es_product_start(EsLaunch &launch, const EsProduct &product);

// sum[e, d] = sum over rows of x[e, row, d], x [E, n_rows, n_columns]; `copy` (nullable) gets the
// same values.
void es_column_sums_start(EsLaunch &launch, EsIn x, int64_t n_rows, int64_t n_columns, EsOut sum,
                          EsOut copy);

// One matrix per environment, stored [rows, columns], or its transpose.
static inline EsMatrix es_matrix(EsIn tensor, int64_t columns, int is_transposed) {
    EsMatrix matrix = {tensor->data, tensor->dtype, tensor->stride[0], is_transposed ? 1 : columns,
                       is_transposed ? columns : 1};
    return matrix;
}

#endif
