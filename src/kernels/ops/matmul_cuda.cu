// Tiles of c in registers, tiles of a and b in shared memory, f32 multiply-add; the sum over k runs
// in order.
#include "kernels/ops/matmul_cuda.cuh"

#define SIDE 16 // threads along each side of a tile, and the depth of a step over k

// Sizes and strides of a product, apart from the typed pointers.
struct ProductShape {
    int64_t m, n, k;
    int64_t a_env, a_row, a_column;
    int64_t b_env, b_row, b_column;
    int64_t c_env, c_row, c_column;
    int64_t skip_env;
    uint32_t tiles_m, tiles_n;
    float beta;
    int rounds_b;
};

static __device__ __forceinline__ float operand(float value, int rounds) {
    return rounds ? es_weight<__nv_bfloat16>(value) : value;
}

// tile[k][row] of TILE rows by SIDE columns from row0, k0 of a matrix; zero outside. Consecutive
// threads follow the axis that is contiguous in memory.
template <int TILE, typename T>
static __device__ void load_tile(float (*tile)[TILE + 1], const T *matrix, int64_t row0, int64_t k0,
                                 int64_t n_rows, int64_t n_k, int64_t row_stride, int64_t k_stride,
                                 const uint8_t *skip_row, const uint8_t *skip_k, int rounds) {
    bool is_along_k = k_stride == 1;
    int row = is_along_k ? (int)threadIdx.x / SIDE : (int)threadIdx.x % TILE;
    int k = is_along_k ? (int)threadIdx.x % SIDE : (int)threadIdx.x / TILE;
    int row_step = is_along_k ? SIDE : 0, k_step = is_along_k ? 0 : SIDE * SIDE / TILE;
    int rows_left = (int)min(n_rows - row0, (int64_t)TILE);
    int k_left = (int)min(n_k - k0, (int64_t)SIDE);
    const T *element = matrix + (row0 + row) * row_stride + (k0 + k) * k_stride;
    int64_t step = row_step * row_stride + k_step * k_stride;
#pragma unroll
    for (int part = 0; part < TILE / SIDE; part++) {
        bool is_inside = row < rows_left && k < k_left;
        is_inside = is_inside && (skip_row == NULL || skip_row[row0 + row] == 0);
        is_inside = is_inside && (skip_k == NULL || skip_k[k0 + k] == 0);
        tile[k][row] = is_inside ? operand(es_load(element), rounds) : 0.0f;
        row += row_step;
        k += k_step;
        element += step;
    }
}

template <int TILE, typename A, typename B, typename C>
static __global__ void __launch_bounds__(SIDE *SIDE, 2)
    matmul_kernel(const A *a, const B *b, C *c, EsEnvs<const float> bias, const uint8_t *skip_row,
                  const uint8_t *skip_k, ProductShape shape) {
    constexpr int PER = TILE / SIDE;
    __shared__ float tile_a[SIDE][TILE + 1];
    __shared__ float tile_b[SIDE][TILE + 1];
    uint32_t tile = blockIdx.x;
    int64_t column0 = (int64_t)(tile % shape.tiles_n) * TILE;
    tile /= shape.tiles_n;
    int64_t row0 = (int64_t)(tile % shape.tiles_m) * TILE;
    int64_t env = tile / shape.tiles_m;
    a += env * shape.a_env;
    b += env * shape.b_env;
    c += env * shape.c_env;
    skip_row = skip_row == NULL ? NULL : skip_row + env * shape.skip_env;
    skip_k = skip_k == NULL ? NULL : skip_k + env * shape.skip_env;
    int tx = (int)threadIdx.x % SIDE, ty = (int)threadIdx.x / SIDE;

    float sum[PER][PER] = {};
#pragma unroll 1
    for (int64_t k0 = 0; k0 < shape.k; k0 += SIDE) {
        load_tile<TILE>(tile_a, a, row0, k0, shape.m, shape.k, shape.a_row, shape.a_column,
                        skip_row, NULL, 0);
        load_tile<TILE>(tile_b, b, column0, k0, shape.n, shape.k, shape.b_column, shape.b_row, NULL,
                        skip_k, shape.rounds_b);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SIDE; k++) {
            float left[PER], right[PER];
#pragma unroll
            for (int i = 0; i < PER; i++) {
                left[i] = tile_a[k][ty + i * SIDE];
                right[i] = tile_b[k][tx + i * SIDE];
            }
#pragma unroll
            for (int i = 0; i < PER; i++) {
#pragma unroll
                for (int j = 0; j < PER; j++) {
                    sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < PER; i++) {
#pragma unroll
        for (int j = 0; j < PER; j++) {
            int64_t row = row0 + ty + i * SIDE, column = column0 + tx + j * SIDE;
            if (row < shape.m && column < shape.n) {
                C *out = c + row * shape.c_row + column * shape.c_column;
                float value = sum[i][j] + (bias.data == NULL ? 0.0f : bias.at(env)[column]);
                es_store(out, shape.beta == 0.0f ? value : value + shape.beta * es_load(out));
            }
        }
    }
}

template <int TILE, typename A, typename B, typename C>
static void start_tiles(EsLaunch &launch, const EsProduct &p) {
    ProductShape shape;
    shape.m = p.m;
    shape.n = p.n;
    shape.k = p.k;
    shape.a_env = p.a.env_stride;
    shape.a_row = p.a.row_stride;
    shape.a_column = p.a.column_stride;
    shape.b_env = p.b.env_stride;
    shape.b_row = p.b.row_stride;
    shape.b_column = p.b.column_stride;
    shape.c_env = p.c.env_stride;
    shape.c_row = p.c.row_stride;
    shape.c_column = p.c.column_stride;
    shape.skip_env = p.skip_env_stride;
    shape.tiles_m = (uint32_t)es_ceil_div(p.m, TILE);
    shape.tiles_n = (uint32_t)es_ceil_div(p.n, TILE);
    shape.beta = p.beta;
    shape.rounds_b = p.rounds_b;
    dim3 grid((unsigned)(p.n_envs * shape.tiles_m * shape.tiles_n));
    launch.start(matmul_kernel<TILE, A, B, C>, grid, SIDE * SIDE, (const A *)p.a.data,
                 (const B *)p.b.data, (C *)p.c.data, p.bias, p.skip_row, p.skip_k, shape);
}

template <typename A, typename B, typename C>
static void start_typed(EsLaunch &launch, const EsProduct &product) {
    // the choice depends on the shape alone, so equal calls give equal bits
    if (product.m <= 32 || product.n <= 32) {
        start_tiles<32, A, B, C>(launch, product);
    } else {
        start_tiles<64, A, B, C>(launch, product);
    }
}

void es_product_start(EsLaunch &launch, const EsProduct &product) {
    ES_DISPATCH_DTYPE(product.a.dtype, A,
                      ES_DISPATCH_DTYPE(product.b.dtype, B,
                                        ES_DISPATCH_DTYPE(product.c.dtype, C,
                                                          start_typed<A, B, C>(launch, product))));
}

void es_matmul_cuda(EsStream *s, int trans_a, int trans_b, float beta, EsIn a, EsIn b, EsOut c) {
    EsLaunch launch(s, "matmul");
    EsProduct product = {};
    product.n_envs = c->dim[0];
    product.m = c->dim[1];
    product.n = c->dim[2];
    product.k = a->dim[trans_a ? 1 : 2];
    product.a = es_matrix(a, a->dim[2], trans_a);
    product.b = es_matrix(b, b->dim[2], trans_b);
    product.c = es_matrix(c, product.n, 0);
    product.beta = beta;
    product.rounds_b = a->dtype == ES_DTYPE_BF16;
    es_product_start(launch, product);
}

// --- column sums ---

#define SUM_COLUMNS 32
#define SUM_ROWS    8

template <typename T>
static __global__ void column_sums_kernel(EsEnvs<const T> x, EsEnvs<float> sum, EsEnvs<float> copy,
                                          int64_t n_rows, int64_t n_columns,
                                          uint32_t blocks_per_env) {
    __shared__ double partial[SUM_ROWS][SUM_COLUMNS];
    int64_t env = blockIdx.x / blocks_per_env;
    int64_t column = (int64_t)(blockIdx.x % blocks_per_env) * SUM_COLUMNS + threadIdx.x;
    double total = 0.0;
    if (column < n_columns) {
        const T *base = x.at(env) + column;
        for (int64_t row = threadIdx.y; row < n_rows; row += SUM_ROWS) {
            total += (double)es_load(base + row * n_columns);
        }
    }
    partial[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && column < n_columns) {
        for (int i = 1; i < SUM_ROWS; i++) {
            total += partial[i][threadIdx.x];
        }
        sum.at(env)[column] = (float)total;
        if (copy.data != NULL) {
            copy.at(env)[column] = (float)total;
        }
    }
}

void es_column_sums_start(EsLaunch &launch, EsIn x, int64_t n_rows, int64_t n_columns, EsOut sum,
                          EsOut copy) {
    uint32_t blocks_per_env = (uint32_t)es_ceil_div(n_columns, SUM_COLUMNS);
    dim3 grid((unsigned)(x->dim[0] * blocks_per_env)), block(SUM_COLUMNS, SUM_ROWS);
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(column_sums_kernel<T>, grid, block, es_in<T>(x),
                                   es_out<float>(sum), es_out<float>(copy), n_rows, n_columns,
                                   blocks_per_env));
}
