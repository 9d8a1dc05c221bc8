// A tile of a layer, shared by the kernels of an acting step. A block computes a tile of up to 32
// rows by 32 columns on tensor cores; its warps share the depth, 16 inputs at a time, and their
// sums are joined in the order of the warps. So no weight is read by two warps of a block, neither
// is an input, and both go from memory to registers, four adjacent floats a lane, without a
// barrier.
//
// R rows of a layer, K inputs, N outputs, H units of the LSTM.
#ifndef ES_CONTROL_POLICY_ACT_TILE_CUH
#define ES_CONTROL_POLICY_ACT_TILE_CUH

#include "control/policy/policy_inference_internal.h"
#include "kernels/cuda/cuda_common.cuh"
#include "kernels/cuda/cuda_matrix.cuh"

#define WARPS       8
#define DEPTH       16 // inputs a warp takes at a time: four lanes of four
#define PARTS       8  // threads that finish a row of a tile
#define EPSILON     1e-5f
#define TILE_STRIDE 40 // of a tile's rows in shared memory: neither way meets a bank twice

static_assert(WARPS * 32 == ES_THREADS, "a thread for each part of 32 rows");

struct RowNorm {
    float mean, inv_std;
};

// M groups of 16 rows, four groups of 8 columns; fragments as es_multiply_tf32 has them
template <int M> struct Sums { float group[M][4][4]; };

// --- reading ---
//
// Straight-line code: all loads of a step are in flight before the first is used.

// Elements k to k + 3 of a vector of `width`; 0 beyond it, and of an absent one. Aligned vectors
// are a multiple of 4 long.
template <bool IS_ALIGNED>
static __device__ __forceinline__ void load4(float (&to)[4], const float *vector, int k,
                                             int width) {
    if (IS_ALIGNED) {
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (vector != NULL && k < width) {
            four = *(const float4 *)(vector + k);
        }
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            to[i] = vector != NULL && k + i < width ? vector[k + i] : 0.0f;
        }
    }
}

static __device__ __forceinline__ float normalise(float x, RowNorm norm, float gamma, float beta) {
    return (x - norm.mean) * norm.inv_std * gamma + beta;
}

// NaN stays NaN, as kernels/kernel_list.h has it.
static __device__ __forceinline__ float rectify(float x) { return x <= 0.0f ? 0.0f : x; }

// The rows of a lane: 2M of them, 8 apart.
template <int M> struct Rows {
    int64_t first;
    bool is_there[2 * M]; // else a row of zeros

    __device__ const float *of(const float *base, int pitch, int i) const {
        return is_there[i] ? base + (first + 8 * i) * pitch : NULL;
    }
};

template <int M>
static __device__ __forceinline__ Rows<M> rows_of(const EsActInput &in, int64_t row0,
                                                  int64_t n_rows) {
    Rows<M> rows;
    rows.first = row0 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int64_t row = rows.first + 8 * i;
        rows.is_there[i] = row < n_rows && (in.is_reset == NULL || in.is_reset[row] == 0);
    }
    return rows;
}

// Four rows of weights of a lane.
struct WeightRows {
    const float *first;
    int64_t stride;
    int count; // rows beyond are 0

    __device__ const float *of(int n) const { return n < count ? first + n * stride : NULL; }
};

// Elements k to k + 3 of [observation; embeddings]; an unknown blueprint is 0.
static __device__ __forceinline__ void load_observed(float (&to)[4], const EsActInput &in,
                                                     int64_t row, bool is_there, int k) {
    const float *x = is_there ? in.x + row * in.pitch : NULL;
    const int32_t *blueprints = in.blueprints + row * in.n_slots;
    int32_t id[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        bool is_embedded = x != NULL && k + i >= in.pitch && k + i < in.width;
        id[i] = is_embedded ? blueprints[(k + i - in.pitch) / in.embedding_width] : -1;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float *from = x != NULL && k + i < in.pitch ? x + k + i : NULL;
        if (id[i] >= 0 && id[i] < in.n_blueprints) {
            from =
                in.embedding + id[i] * in.embedding_width + (k + i - in.pitch) % in.embedding_width;
        }
        to[i] = from != NULL ? *from : 0.0f;
    }
}

// A wider value, or the first; NaN of any stays.
static __device__ __forceinline__ float larger(float value, float largest, bool is_first) {
    return is_first || value > largest || value != value ? value : largest;
}

// Elements k to k + 3 of [ReLU(LN(x)); mean; maximum] of one row; members in their order.
static __device__ __forceinline__ void
load_pooled(float (&to)[4], const EsActInput &in, int64_t row, bool is_there, RowNorm norm, int k) {
    int own = in.norm_width, K = in.member_width;
    float scale = 1.0f / (float)in.n_members;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int d = k + i - own;
        bool is_mean = d < K;
        to[i] = 0.0f;
        if (is_there && d < 0) {
            to[i] = rectify(
                normalise(in.x[row * in.pitch + k + i], norm, in.gamma[k + i], in.beta[k + i]));
        }
        for (int s = 0; is_there && d >= 0 && d < 2 * K && s < in.n_members; s++) {
            const float *member = in.members + (row * in.n_members + s) * in.member_pitch;
            float value = rectify(member[is_mean ? d : d - K]);
            to[i] = is_mean ? to[i] + scale * value : larger(value, to[i], s == 0);
        }
    }
}

// The same of all rows, where all widths are multiples of four: the four elements are of one part,
// and loads of several rows and members are in flight.
template <int M>
static __device__ __forceinline__ void read_pooled(float (&x)[2 * M][4], const EsActInput &in,
                                                   const Rows<M> &rows,
                                                   const RowNorm (&norms)[16 * M], int k) {
    int own = in.norm_width, K = in.member_width, d = k - own;
    if (d < 0) {
        float gamma[4], beta[4];
        load4<true>(gamma, in.gamma, k, own);
        load4<true>(beta, in.beta, k, own);
#pragma unroll
        for (int i = 0; i < 2 * M; i++) {
            load4<true>(x[i], rows.of(in.x, in.pitch, i), k, own);
        }
#pragma unroll
        for (int i = 0; i < 2 * M; i++) {
            RowNorm norm = norms[threadIdx.x % 32 / 4 + 8 * i];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                x[i][j] = rectify(normalise(x[i][j], norm, gamma[j], beta[j]));
            }
        }
        return;
    }
    bool is_mean = d < K;
    float scale = 1.0f / (float)in.n_members;
    d -= is_mean ? 0 : K;
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            x[i][j] = 0.0f;
        }
    }
#pragma unroll 2
    for (int s = 0; s < in.n_members; s++) {
        float member[2 * M][4];
#pragma unroll
        for (int i = 0; i < 2 * M; i++) {
            const float *first = rows.of(in.members, in.n_members * in.member_pitch, i);
            load4<true>(member[i], first != NULL ? first + s * in.member_pitch : NULL, d, K);
        }
#pragma unroll
        for (int i = 0; i < 2 * M; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float value = rectify(member[i][j]);
                x[i][j] = is_mean ? x[i][j] + scale * value : larger(value, x[i][j], s == 0);
            }
        }
    }
}

// Rows of a residual: an environment's is that of all its slots.
template <int M, EsActSource SOURCE>
static __device__ __forceinline__ const float *residual_of(const EsActInput &in,
                                                           const Rows<M> &rows, int i) {
    if (SOURCE == ES_ACT_JOINED) {
        int64_t row = (int64_t)((uint32_t)(rows.first + 8 * i) / (uint32_t)in.n_members);
        return rows.is_there[i] ? in.residual + row * in.width : NULL;
    }
    return SOURCE == ES_ACT_RESIDUAL ? rows.of(in.residual, in.width, i) : NULL;
}

// Inputs k to k + 3 of all rows as the layer sees them. Beyond the width gamma and beta are 0, so
// normalised inputs are, too.
template <int M, EsActSource SOURCE, bool IS_ALIGNED>
static __device__ __forceinline__ void read_inputs(float (&x)[2 * M][4], const EsActInput &in,
                                                   const Rows<M> &rows,
                                                   const RowNorm (&norms)[16 * M], int k) {
    constexpr bool is_normal = SOURCE == ES_ACT_NORMALISED || SOURCE == ES_ACT_RESIDUAL;
    float residual[2 * M][4], gamma[4], beta[4];
    if (SOURCE == ES_ACT_POOLED && IS_ALIGNED) {
        read_pooled<M>(x, in, rows, norms, k);
        return;
    }
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        if (SOURCE == ES_ACT_OBSERVED) {
            load_observed(x[i], in, rows.first + 8 * i, rows.is_there[i], k);
        } else if (SOURCE == ES_ACT_POOLED) {
            load_pooled(x[i], in, rows.first + 8 * i, rows.is_there[i],
                        norms[threadIdx.x % 32 / 4 + 8 * i], k);
        } else {
            load4<IS_ALIGNED>(x[i], rows.of(in.x, in.pitch, i), k, in.width);
        }
        load4<true>(residual[i], residual_of<M, SOURCE>(in, rows, i), k, in.width);
    }
    load4<IS_ALIGNED>(gamma, is_normal ? in.gamma : NULL, k, in.width);
    load4<IS_ALIGNED>(beta, is_normal ? in.beta : NULL, k, in.width);
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        RowNorm norm = is_normal ? norms[threadIdx.x % 32 / 4 + 8 * i] : RowNorm{0.0f, 0.0f};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float value = is_normal ? normalise(x[i][j], norm, gamma[j], beta[j]) : x[i][j];
            value += residual[i][j];
            x[i][j] = in.is_rectified ? rectify(value) : value;
        }
    }
}

// --- norms of rows ---

// All of PARTS adjacent lanes get the sum.
static __device__ __forceinline__ float sum_parts(float value) {
    for (int offset = PARTS / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    }
    return value;
}

// mean = sum of the tiles' sums / K; squares about it = sum over tiles of their squares about their
// own means + n (own mean - mean)^2.
template <int M>
static __device__ void join_norms(RowNorm (&norms)[16 * M], const EsActInput &in, int64_t row0,
                                  int64_t n_rows) {
    unsigned local = threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    if (local >= 16 * M || in.sums == NULL) { // whole warps
        return;
    }
    int64_t row = row0 + local;
    int width = in.norm_width;
    int n_tiles = row < n_rows ? (width + in.sum_width - 1) / in.sum_width : 0;
    const float *sums = in.sums + 2 * row * n_tiles;
    float sum = 0.0f, squares = 0.0f;
    for (int tile = (int)part; tile < n_tiles; tile += PARTS) {
        sum += sums[2 * tile];
    }
    float mean = sum_parts(sum) / (float)width;
    for (int tile = (int)part; tile < n_tiles; tile += PARTS) {
        float count = (float)min(in.sum_width, width - tile * in.sum_width);
        float away = sums[2 * tile] / count - mean;
        squares += sums[2 * tile + 1] + count * away * away;
    }
    squares = sum_parts(squares);
    if (part == 0) {
        norms[local].mean = mean;
        norms[local].inv_std = 1.0f / sqrtf(squares / (float)width + EPSILON);
    }
}

// Sums of one tile of one row, from PARTS threads that hold some of its `count` values.
template <int N>
static __device__ __forceinline__ void leave_sums(float *sums, const float (&value)[N], int n_own,
                                                  float count, unsigned part) {
    float sum = 0.0f, squares = 0.0f;
    for (int i = 0; i < N; i++) {
        sum += i < n_own ? value[i] : 0.0f;
    }
    sum = sum_parts(sum);
    for (int i = 0; i < N; i++) {
        float away = i < n_own ? value[i] - sum / count : 0.0f;
        squares += away * away;
    }
    squares = sum_parts(squares);
    if (part == 0 && sums != NULL) {
        sums[0] = sum;
        sums[1] = squares;
    }
}

// --- products ---

// The nearest TF32 of x. A sum of a few instructions carries out of a NaN's mantissa and leaves 0
// or infinity, which is harmless where low_bits follow, since x - high is NaN; alone it is not.
template <bool IS_SPLIT> static __device__ __forceinline__ uint32_t high_bits(float x) {
    return IS_SPLIT ? (__float_as_uint(x) + 0x1000u) & 0xFFFFE000u : es_tf32(x);
}

// TF32 of the remainder after high_bits.
static __device__ __forceinline__ uint32_t low_bits(float x, uint32_t high) {
    return __float_as_uint(x - __uint_as_float(high)) & 0xFFFFE000u;
}

// sums += x w for 8 of the DEPTH inputs: a lane's elements `first` and `first` + 1. Which inputs
// these are does not matter as long as both operands agree.
template <int M, bool IS_SPLIT>
static __device__ __forceinline__ void multiply(Sums<M> &sums, const float (&x)[2 * M][4],
                                                const float (&w)[4][4], int first) {
    uint32_t w_high[4][2], w_low[4][2];
#pragma unroll
    for (int n = 0; n < 4; n++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            w_high[n][i] = high_bits<IS_SPLIT>(w[n][first + i]);
            w_low[n][i] = low_bits(w[n][first + i], w_high[n][i]);
        }
    }
#pragma unroll
    for (int m = 0; m < M; m++) {
        uint32_t x_high[4], x_low[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float value = x[2 * m + i % 2][first + i / 2];
            x_high[i] = high_bits<IS_SPLIT>(value);
            x_low[i] = low_bits(value, x_high[i]);
        }
        // the four products of a term do not wait for each other
#pragma unroll
        for (int n = 0; IS_SPLIT && n < 4; n++) {
            es_multiply_tf32(sums.group[m][n], x_low, w_high[n]);
        }
#pragma unroll
        for (int n = 0; IS_SPLIT && n < 4; n++) {
            es_multiply_tf32(sums.group[m][n], x_high, w_low[n]);
        }
#pragma unroll
        for (int n = 0; n < 4; n++) {
            es_multiply_tf32(sums.group[m][n], x_high, w_high[n]);
        }
    }
}

// sums += this warp's share of the product of rows from row0 and four rows of weights, this lane's.
// Warps take turns; `turn` is this one's.
template <int M, bool IS_SPLIT, EsActSource SOURCE, bool IS_ALIGNED, int UNROLL = 1>
static __device__ __forceinline__ void
add_product_of(Sums<M> &sums, const EsActInput &in, const RowNorm (&norms)[16 * M], int64_t row0,
               int64_t n_rows, const WeightRows &weight, int turn) {
    Rows<M> rows = rows_of<M>(in, row0, n_rows);
#pragma unroll UNROLL
    for (int k0 = turn * DEPTH; k0 < in.width; k0 += WARPS * DEPTH) {
        int k = k0 + 4 * ((int)threadIdx.x % 4);
        float w[4][4], x[2 * M][4];
#pragma unroll
        for (int n = 0; n < 4; n++) {
            load4<IS_ALIGNED>(w[n], weight.of(n), k, in.width);
        }
        read_inputs<M, SOURCE, IS_ALIGNED>(x, in, rows, norms, k);
        multiply<M, IS_SPLIT>(sums, x, w, 0);
        multiply<M, IS_SPLIT>(sums, x, w, 2);
    }
}

// The same for any layer. Of an environment's residual rows are a multiple of four long.
template <int M, bool IS_SPLIT>
static __device__ void add_product(Sums<M> &sums, const EsActInput &in,
                                   const RowNorm (&norms)[16 * M], int64_t row0, int64_t n_rows,
                                   const WeightRows &weight, int turn) {
    bool is_aligned = in.width % 4 == 0 && in.norm_width % 4 == 0 && in.member_width % 4 == 0;
#define RUN(source, aligned)                                                                       \
    add_product_of<M, IS_SPLIT, source, aligned>(sums, in, norms, row0, n_rows, weight, turn)
    switch (in.source) {
    case ES_ACT_PLAIN:
        is_aligned ? RUN(ES_ACT_PLAIN, true) : RUN(ES_ACT_PLAIN, false);
        break;
    case ES_ACT_RESIDUAL:
        RUN(ES_ACT_RESIDUAL, true);
        break;
    case ES_ACT_OBSERVED:
        is_aligned ? RUN(ES_ACT_OBSERVED, true) : RUN(ES_ACT_OBSERVED, false);
        break;
    case ES_ACT_NORMALISED:
        is_aligned ? RUN(ES_ACT_NORMALISED, true) : RUN(ES_ACT_NORMALISED, false);
        break;
    case ES_ACT_POOLED:
        is_aligned ? RUN(ES_ACT_POOLED, true) : RUN(ES_ACT_POOLED, false);
        break;
    case ES_ACT_JOINED:
        RUN(ES_ACT_JOINED, true);
        break;
    }
#undef RUN
}

template <int M> struct Tile {
    RowNorm norms[16 * M];
    float sums[WARPS][16 * M][TILE_STRIDE];
};

// Every warp's sums into shared memory.
template <int M> static __device__ void leave_tile(Tile<M> &tile, const Sums<M> &sums) {
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float *pair = &sums.group[m][n][2 * half];
                float *to = &tile.sums[warp][16 * m + lane / 4 + 8 * half][8 * n + 2 * (lane % 4)];
                *(float2 *)to = make_float2(pair[0], pair[1]);
            }
        }
    }
    __syncthreads();
}

template <int M>
static __device__ __forceinline__ float join_warps(const Tile<M> &tile, unsigned local,
                                                   unsigned column) {
    float sum = tile.sums[0][local][column];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++) {
        sum += tile.sums[warp][local][column];
    }
    return sum;
}

#endif
