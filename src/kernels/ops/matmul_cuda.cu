// Tiles of c in registers, tiles of a and b in shared memory; the sum over k runs in order, and no
// element's depends on the size of the tile. f32 on the tensor cores, in three TF32 products; other
// types by f32 multiply-add.
#include "kernels/cuda/cuda_matrix.cuh"
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

// --- f32 on the tensor cores ---

// A block of four warps has a tile of WARPS_M x WARPS_N warps, each M_TILES x N_TILES fragments of
// 16 x 8. Both operands come as tiles [rows][TILE_K], rows along the side that c has. While one
// pair of tiles is multiplied, the next one is on its way to registers.
//
// Columns q and q + 4 of a fragment are elements 2q and 2q + 1 of k, in a and b alike, so that a
// lane reads both at once where k is contiguous.

#define TENSOR_THREADS 128
#define TILE_K         16
#define ALONG_STRIDE   24 // of a row, where k is contiguous: neither way meets a bank twice
#define ACROSS_PAD     4  // beyond a row of elements of one k

// One operand: element (row, k) of the environment lies at row * row_stride + k * k_stride, one of
// which is 1.
struct Operand {
    const float *data;
    int64_t env_stride, row_stride, k_stride;
    int64_t n_rows;
    int is_aligned; // four elements along the contiguous axis may be read at once
};

struct TensorProduct {
    Operand a, b;
    float *c;
    int64_t c_env, c_row, c_column;
    int64_t k;
    EsEnvs<const float> bias; // nullable
    const uint8_t *skip_k;    // nullable
    int64_t skip_env;
    uint32_t tiles_m, tiles_n;
    float beta;
    int is_paired; // two adjacent columns of c may be written at once
};

template <int ROWS, bool ALONG_K> struct OperandTile {
    static constexpr int STRIDE = ALONG_K ? ALONG_STRIDE : ROWS + ACROSS_PAD;
    static constexpr int FLOATS = ALONG_K ? ROWS * ALONG_STRIDE : TILE_K * STRIDE;
    static constexpr int PIECES = ROWS * TILE_K / 4 / TENSOR_THREADS; // of four floats

    static constexpr int ROW_STEP = ALONG_K ? TENSOR_THREADS / (TILE_K / 4) : 0; // between pieces
    static constexpr int K_STEP = ALONG_K ? 0 : TENSOR_THREADS / (ROWS / 4);

    int row, k;        // of this thread's first piece in a tile
    int n_rows, n_k;   // that are there, counted from the tile's first row and from k = 0
    const float *from; // its place in the first tile
    int64_t piece_step, k_stride;
    int is_aligned;
    const uint8_t *skip_k; // nullable
    float4 piece[PIECES];

    __device__ __forceinline__ void begin(const Operand &operand, int64_t env, int64_t row0,
                                          int64_t count_k, const uint8_t *skipped) {
        int index = (int)threadIdx.x;
        row = ALONG_K ? index / (TILE_K / 4) : index % (ROWS / 4) * 4;
        k = ALONG_K ? index % (TILE_K / 4) * 4 : index / (ROWS / 4);
        n_rows = (int)min(operand.n_rows - row0, (int64_t)ROWS);
        n_k = (int)count_k;
        from = operand.data + env * operand.env_stride + (row0 + row) * operand.row_stride +
               k * operand.k_stride;
        piece_step = ROW_STEP * operand.row_stride + K_STEP * operand.k_stride;
        k_stride = operand.k_stride;
        is_aligned = operand.is_aligned && skipped == NULL;
        skip_k = skipped;
    }

    // Starts reading the tile from k0 on; zero outside of the operand.
    __device__ __forceinline__ void load(int k0) {
        const float *p = from + k0 * k_stride;
#pragma unroll
        for (int i = 0; i < PIECES; i++, p += piece_step) {
            int r = row + i * ROW_STEP, at = k0 + k + i * K_STEP;
            int left = ALONG_K ? n_k - at : n_rows - r;
            float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (r < n_rows && at < n_k) {
                if (is_aligned && left >= 4) {
                    v = *(const float4 *)p;
                } else {
                    v.x = is_kept(at) ? p[0] : 0.0f;
                    v.y = left > 1 && is_kept(at + ALONG_K) ? p[1] : 0.0f;
                    v.z = left > 2 && is_kept(at + 2 * ALONG_K) ? p[2] : 0.0f;
                    v.w = left > 3 && is_kept(at + 3 * ALONG_K) ? p[3] : 0.0f;
                }
            }
            piece[i] = v;
        }
    }

    __device__ __forceinline__ void store(float *tile) const {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            int r = row + i * ROW_STEP, at = k + i * K_STEP;
            *(float4 *)(tile + (ALONG_K ? r * STRIDE + at : at * STRIDE + r)) = piece[i];
        }
    }

    // Elements k and k + 1 of a row.
    static __device__ __forceinline__ float2 read(const float *tile, int row, int k) {
        if (ALONG_K) {
            return *(const float2 *)(tile + row * STRIDE + k);
        }
        return make_float2(tile[k * STRIDE + row], tile[(k + 1) * STRIDE + row]);
    }

  private:
    __device__ __forceinline__ bool is_kept(int at) const {
        return skip_k == NULL || skip_k[at] == 0;
    }
};

// Tile c += tile a times tile b over 8 of k, for this warp's fragments from (row, column).
template <int M_TILES, int N_TILES, typename TileA, typename TileB>
static __device__ __forceinline__ void multiply_tiles(float (&sum)[M_TILES][N_TILES][4],
                                                      const float *a, const float *b, int row,
                                                      int column, int k) {
    uint32_t a_high[M_TILES][4], a_low[M_TILES][4], b_high[N_TILES][2], b_low[N_TILES][2];
#pragma unroll
    for (int i = 0; i < M_TILES; i++) {
        float2 upper = TileA::read(a, row + i * 16, k), lower = TileA::read(a, row + i * 16 + 8, k);
        es_split_tf32(upper.x, a_high[i][0], a_low[i][0]);
        es_split_tf32(lower.x, a_high[i][1], a_low[i][1]);
        es_split_tf32(upper.y, a_high[i][2], a_low[i][2]);
        es_split_tf32(lower.y, a_high[i][3], a_low[i][3]);
    }
#pragma unroll
    for (int j = 0; j < N_TILES; j++) {
        float2 pair = TileB::read(b, column + j * 8, k);
        es_split_tf32(pair.x, b_high[j][0], b_low[j][0]);
        es_split_tf32(pair.y, b_high[j][1], b_low[j][1]);
    }
    // the small ones first, and none waits for the one before it
#pragma unroll
    for (int part = 0; part < 3; part++) {
#pragma unroll
        for (int i = 0; i < M_TILES; i++) {
#pragma unroll
            for (int j = 0; j < N_TILES; j++) {
                es_multiply_tf32(sum[i][j], part == 0 ? a_low[i] : a_high[i],
                                 part == 1 ? b_low[j] : b_high[j]);
            }
        }
    }
}

// Writes columns `column` and the next of a row of c.
static __device__ __forceinline__ void write_pair(const TensorProduct &p, int64_t env, int64_t row,
                                                  int64_t column, float x, float y) {
    if (row >= p.a.n_rows || column >= p.b.n_rows) {
        return;
    }
    bool has_second = column + 1 < p.b.n_rows;
    float *out = p.c + env * p.c_env + row * p.c_row + column * p.c_column;
    if (p.bias.data != NULL) {
        x += p.bias.at(env)[column];
        y += has_second ? p.bias.at(env)[column + 1] : 0.0f;
    }
    if (p.beta != 0.0f) {
        x += p.beta * out[0];
        y += has_second ? p.beta * out[p.c_column] : 0.0f;
    }
    if (p.is_paired && has_second) {
        *(float2 *)out = make_float2(x, y);
    } else {
        out[0] = x;
        if (has_second) {
            out[p.c_column] = y;
        }
    }
}

template <int WARPS_M, int WARPS_N, int M_TILES, int N_TILES, bool A_ALONG_K, bool B_ALONG_K>
static __global__ void __launch_bounds__(TENSOR_THREADS, M_TILES *N_TILES > 8 ? 2 : 3)
    tensor_product_kernel(const __grid_constant__ TensorProduct p) {
    constexpr int ROWS = WARPS_M * M_TILES * 16, COLUMNS = WARPS_N * N_TILES * 8;
    typedef OperandTile<ROWS, A_ALONG_K> TileA;
    typedef OperandTile<COLUMNS, B_ALONG_K> TileB;
    static_assert(WARPS_M * WARPS_N * 32 == TENSOR_THREADS, "four warps");
    __shared__ alignas(16) float tile_a[2][TileA::FLOATS];
    __shared__ alignas(16) float tile_b[2][TileB::FLOATS];
    uint32_t tile = blockIdx.x;
    int64_t column0 = (int64_t)(tile % p.tiles_n) * COLUMNS;
    tile /= p.tiles_n;
    int64_t row0 = (int64_t)(tile % p.tiles_m) * ROWS, env = tile / p.tiles_m;
    const uint8_t *skip_k = p.skip_k == NULL ? NULL : p.skip_k + env * p.skip_env;
    int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, q = (int)threadIdx.x % 4;
    int row = warp / WARPS_N * M_TILES * 16 + g, column = warp % WARPS_N * N_TILES * 8 + g;

    float sum[M_TILES][N_TILES][4] = {};
    TileA next_a;
    TileB next_b;
    next_a.begin(p.a, env, row0, p.k, NULL);
    next_b.begin(p.b, env, column0, p.k, skip_k);
    next_a.load(0);
    next_b.load(0);
    int turn = 0;
#pragma unroll 1
    for (int k0 = 0; k0 < (int)p.k; k0 += TILE_K, turn ^= 1) {
        next_a.store(tile_a[turn]);
        next_b.store(tile_b[turn]);
        __syncthreads(); // also: nobody reads the other pair of tiles any more
        if (k0 + TILE_K < (int)p.k) {
            next_a.load(k0 + TILE_K);
            next_b.load(k0 + TILE_K);
        }
#pragma unroll
        for (int k = 0; k < TILE_K; k += 8) {
            multiply_tiles<M_TILES, N_TILES, TileA, TileB>(sum, tile_a[turn], tile_b[turn], row,
                                                           column, k + 2 * q);
        }
    }
#pragma unroll
    for (int i = 0; i < M_TILES; i++) {
#pragma unroll
        for (int j = 0; j < N_TILES; j++) {
            int64_t at = row0 + row + i * 16, first = column0 + column - g + j * 8 + 2 * q;
            write_pair(p, env, at, first, sum[i][j][0], sum[i][j][1]);
            write_pair(p, env, at + 8, first, sum[i][j][2], sum[i][j][3]);
        }
    }
}

template <int WARPS_M, int WARPS_N, int M_TILES, int N_TILES>
static void start_tensor_tiles(EsLaunch &launch, TensorProduct p, int64_t n_envs) {
    p.tiles_m = (uint32_t)es_ceil_div(p.a.n_rows, WARPS_M * M_TILES * 16);
    p.tiles_n = (uint32_t)es_ceil_div(p.b.n_rows, WARPS_N * N_TILES * 8);
    dim3 grid((unsigned)(n_envs * p.tiles_m * p.tiles_n));
    bool a_along = p.a.k_stride == 1, b_along = p.b.k_stride == 1;
    if (a_along && b_along) {
        launch.start(tensor_product_kernel<WARPS_M, WARPS_N, M_TILES, N_TILES, true, true>, grid,
                     TENSOR_THREADS, p);
    } else if (a_along) {
        launch.start(tensor_product_kernel<WARPS_M, WARPS_N, M_TILES, N_TILES, true, false>, grid,
                     TENSOR_THREADS, p);
    } else if (b_along) {
        launch.start(tensor_product_kernel<WARPS_M, WARPS_N, M_TILES, N_TILES, false, true>, grid,
                     TENSOR_THREADS, p);
    } else {
        launch.start(tensor_product_kernel<WARPS_M, WARPS_N, M_TILES, N_TILES, false, false>, grid,
                     TENSOR_THREADS, p);
    }
}

static Operand operand_of(const EsMatrix &matrix, int64_t row_stride, int64_t k_stride,
                          int64_t n_rows) {
    int64_t across = k_stride == 1 ? row_stride : k_stride;
    int is_aligned =
        (uintptr_t)matrix.data % 16 == 0 && across % 4 == 0 && matrix.env_stride % 4 == 0;
    Operand operand = {
        (const float *)matrix.data, matrix.env_stride, row_stride, k_stride, n_rows, is_aligned};
    return operand;
}

static bool is_for_tensor_cores(const EsProduct &p) {
    bool is_f32 = p.a.dtype == ES_DTYPE_F32 && p.b.dtype == ES_DTYPE_F32 &&
                  p.c.dtype == ES_DTYPE_F32 && !p.rounds_b;
    bool is_contiguous = (p.a.row_stride == 1 || p.a.column_stride == 1) &&
                         (p.b.row_stride == 1 || p.b.column_stride == 1);
    return is_f32 && is_contiguous && p.skip_row == NULL && p.k < INT32_MAX - TILE_K;
}

// Enough tiles of 128 x 64 that multiprocessors have two of them.
#define MANY_TILES 264

static void start_on_tensor_cores(EsLaunch &launch, const EsProduct &product) {
    TensorProduct p = {};
    const EsMatrix &a = product.a, &b = product.b, &c = product.c;
    p.a = operand_of(a, a.row_stride, a.column_stride, product.m);
    p.b = operand_of(b, b.column_stride, b.row_stride, product.n);
    p.c = (float *)c.data;
    p.c_env = c.env_stride;
    p.c_row = c.row_stride;
    p.c_column = c.column_stride;
    p.k = product.k;
    p.bias = product.bias;
    p.skip_k = product.skip_k;
    p.skip_env = product.skip_env_stride;
    p.beta = product.beta;
    p.is_paired = c.column_stride == 1 && c.row_stride % 2 == 0 && c.env_stride % 2 == 0 &&
                  (uintptr_t)c.data % 8 == 0;
    int64_t n_large = product.n_envs * es_ceil_div(product.m, 128) * es_ceil_div(product.n, 64);
    if (product.n <= 32) {
        start_tensor_tiles<4, 1, 1, 4>(launch, p, product.n_envs);
    } else if (product.m <= 32) {
        start_tensor_tiles<1, 4, 2, 2>(launch, p, product.n_envs);
    } else if (n_large < MANY_TILES) {
        start_tensor_tiles<2, 2, 2, 4>(launch, p, product.n_envs);
    } else {
        start_tensor_tiles<2, 2, 4, 4>(launch, p, product.n_envs);
    }
}

// Environments that share b and lie behind each other are rows of one product.
static EsProduct merge_environments(EsProduct p) {
    bool is_shared = p.b.env_stride == 0 && (p.bias.data == NULL || p.bias.stride == 0) &&
                     p.skip_row == NULL && p.skip_k == NULL;
    bool is_one_block = p.a.column_stride == 1 && p.a.env_stride == p.m * p.a.row_stride &&
                        p.c.column_stride == 1 && p.c.env_stride == p.m * p.c.row_stride;
    if (p.n_envs > 1 && is_shared && is_one_block) {
        p.m *= p.n_envs;
        p.n_envs = 1;
    }
    return p;
}

void es_product_start(EsLaunch &launch, const EsProduct &separate) {
    EsProduct product = merge_environments(separate);
    if (is_for_tensor_cores(product)) {
        start_on_tensor_cores(launch, product);
        return;
    }
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
