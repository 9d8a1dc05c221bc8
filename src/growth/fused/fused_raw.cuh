// The convolution of a block whose shape is known when compiled, in 16-bit types: from a tile in
// shared memory straight to the raw output in device memory, with the sums of its statistics and
// the pooled values.
//
// A product has 16 pixels: 8 neighbours in each of two rows that a pool reads together. So a lane
// holds two channels of a column's two pixels, and the window's other column is four lanes away.
#ifndef ES_GROWTH_FUSED_RAW_CUH
#define ES_GROWTH_FUSED_RAW_CUH

#include "growth/fused/fused_convolve.cuh"

// --- the pooled values ---
//
// The pixel of a window whose z = scale x + shift is largest has the largest x where gamma is above
// 0, the smallest where it is below; where gamma is 0 all are equal and the first is taken. NaN
// wins. So pooling needs no statistics of the batch. Where different x round to one z, gradients
// that choose by z (float, incubated seeds) may take another of them: a difference of rounding.

static __device__ __forceinline__ uint32_t es_pair_larger(uint32_t a, uint32_t b, __nv_bfloat16) {
    __nv_bfloat162 larger = __hmax2_nan(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
    return *(const uint32_t *)&larger;
}

static __device__ __forceinline__ uint32_t es_pair_larger(uint32_t a, uint32_t b, __half) {
    __half2 larger = __hmax2_nan(*(const __half2 *)&a, *(const __half2 *)&b);
    return *(const uint32_t *)&larger;
}

// For two neighbouring channels, as masks of a pair of 16-bit numbers.
struct EsPoolOrder {
    uint32_t sign;    // signs to turn over: gamma is below 0
    uint32_t by_size; // not 0: the larger one; else the first

    __device__ __forceinline__ EsPoolOrder(float gamma0, float gamma1) {
        sign = (gamma0 < 0.0f ? 0x8000u : 0u) | (gamma1 < 0.0f ? 0x80000000u : 0u);
        by_size = (gamma0 == 0.0f ? 0u : 0xFFFFu) | (gamma1 == 0.0f ? 0u : 0xFFFF0000u);
    }
    // Of two pairs, each with `sign` turned over.
    template <typename T>
    __device__ __forceinline__ uint32_t of(uint32_t first, uint32_t second, T) const {
        return (es_pair_larger(first, second, T()) & by_size) | (first & ~by_size);
    }
};

// --- known shapes ---

template <int IN, int OUT, int SIZE> struct EsRawShape {
    static constexpr int STEPS = (9 * IN + 1) / 2;
    static constexpr int C8 = OUT >= 2 && 2 * STEPS <= ES_FUSED_KEPT_STEPS ? 2 : 1;
    static constexpr int GROUPS = OUT / C8;                 // of output channel groups
    static constexpr int SHARING = ES_FUSED_WARPS / GROUPS; // warps that share a group's pixels
    static constexpr int SIDE = SIZE + 2, HALF = SIZE / 2;
    static constexpr int SETS = SIZE * SIZE / 32; // of an image, each of two products' pixels
    // From a product's pixels to those of the next: beside them, or the next two rows.
    static constexpr int NEXT_COLUMNS = SIZE > 8 ? 8 : 0, NEXT_ROWS = SIZE > 8 ? 0 : 2;
    static_assert(SIZE % 8 == 0 && OUT % C8 == 0 && ES_FUSED_WARPS % GROUPS == 0, "shape");
};

// Offset of channel group q of a pixel's 9 IN inputs, in elements from its own channel group 0.
// Past the last the last again: weights there are 0.
template <int IN, int SIZE> static __host__ __device__ constexpr int es_raw_tap(int q) {
    int i = q < 9 * IN ? q : 9 * IN - 1, tap = i / IN;
    return ((i % IN * (SIZE + 2) + tap / 3 - 1) * (SIZE + 2) + tap % 3 - 1) * ES_C8;
}

// One lane's share of two sums per channel: of channels 2 (lane % 4) and the next of each channel
// group.
template <int C8> struct EsRawSums { float of[C8][2][2]; }; // [c8][sum][channel]

// Of x and x^2.
template <typename T, int C8>
static __device__ __forceinline__ void es_raw_add(EsRawSums<C8> &sums, int u, uint32_t bits) {
    float2 v = es_pair_floats(bits, T());
    float(&of)[2][2] = sums.of[u];
    of[0][0] += v.x, of[1][0] = fmaf(v.x, v.x, of[1][0]);
    of[0][1] += v.y, of[1][1] = fmaf(v.y, v.y, of[1][1]);
}

// The products of 32 pixels: `from` is the lane's pixel of the first 16 in the tile.
template <typename T, int IN, int OUT, int SIZE>
static __device__ __forceinline__ void es_raw_multiply(
    const T *from,
    const uint2 (&weights)[EsRawShape<IN, OUT, SIZE>::STEPS][EsRawShape<IN, OUT, SIZE>::C8],
    float (&sum)[2][EsRawShape<IN, OUT, SIZE>::C8][4]) {
    using Shape = EsRawShape<IN, OUT, SIZE>;
    constexpr int NEXT = (Shape::NEXT_ROWS * Shape::SIDE + Shape::NEXT_COLUMNS) * ES_C8;
    int is_second = (int)threadIdx.x / 16 % 2; // of a step's two input channel groups
#pragma unroll
    for (int k = 0; k < Shape::STEPS; k++) {
        constexpr auto tap = es_raw_tap<IN, SIZE>;
        const T *at = from + is_second * (tap(2 * k + 1) - tap(2 * k)) + tap(2 * k);
        uint32_t a[2][4];
        es_load_matrix_x4(a[0], at);
        es_load_matrix_x4(a[1], at + NEXT);
#pragma unroll
        for (int u = 0; u < Shape::C8; u++) {
            const uint32_t b[2] = {weights[k][u].x, weights[k][u].y};
            es_multiply_matrix<T>(sum[0][u], a[0], b);
            es_multiply_matrix<T>(sum[1][u], a[1], b);
        }
    }
}

// Store one channel group of 32 pixels: raw at `raw`, the windows' pooled values at `pooled`, both
// the lane's own places; add to the statistics.
template <typename T, int SIZE, int NEXT, int C8>
static __device__ __forceinline__ void
es_raw_store(const float (&first)[4], const float (&second)[4], const EsPoolOrder &pool, T *raw,
             T *pooled, int u, EsRawSums<C8> &sums) {
    bool is_right = threadIdx.x & 4; // column of the window
    uint32_t pooled_words[2];
#pragma unroll
    for (int t = 0; t < 2; t++) {
        const float(&v)[4] = t == 0 ? first : second;
        uint32_t upper = es_pair_bits(v[0], v[1], T()), lower = es_pair_bits(v[2], v[3], T());
        *(uint32_t *)(raw + t * NEXT) = upper;
        *(uint32_t *)(raw + t * NEXT + SIZE * ES_C8) = lower;
        es_raw_add<T>(sums, u, upper);
        es_raw_add<T>(sums, u, lower);
        uint32_t mine = pool.of(upper ^ pool.sign, lower ^ pool.sign, T());
        uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, mine, 4);
        pooled_words[t] =
            pool.of(is_right ? other : mine, is_right ? mine : other, T()) ^ pool.sign;
    }
    // both lanes of a window have its pick: one stores the first product's, one the second's
    *(uint32_t *)pooled = is_right ? pooled_words[1] : pooled_words[0];
}

// The chunk's images from `in`, a tile with border 1, into raw and pooled, each [image][c8]
// [pixel][8] from the chunk's first image on. gamma: of the block's channels, of which n_out exist.
template <typename T, int IN, int OUT, int SIZE>
static __device__ __forceinline__ void
es_raw_convolve(const T *in, const void *packed, const float *gamma, int n_out, int n_images,
                T *raw, T *pooled, EsRawSums<EsRawShape<IN, OUT, SIZE>::C8> &sums) {
    using Shape = EsRawShape<IN, OUT, SIZE>;
    constexpr int C8 = Shape::C8, HALF = Shape::HALF;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int first_c8 = warp % Shape::GROUPS * C8, channel = 2 * (lane % 4);
    uint2 weights[Shape::STEPS][C8];
#pragma unroll
    for (int i = 0; i < Shape::STEPS * C8; i++) {
        weights[i / C8][i % C8] = __ldg((const uint2 *)packed +
                                        ((first_c8 + i % C8) * Shape::STEPS + i / C8) * 32 + lane);
    }
    float gammas[C8][2];
#pragma unroll
    for (int i = 0; i < 2 * C8; i++) {
        int c = (first_c8 + i / 2) * ES_C8 + channel + i % 2;
        gammas[i / 2][i % 2] = c < n_out ? gamma[c] : 1.0f;
    }
    // row and column of the lane's pixel in a product as it is loaded, and as it is held
    in += ((1 + lane / 8 % 2) * Shape::SIDE + 1 + lane % 8) * ES_C8;
    raw += (first_c8 * SIZE * SIZE + lane / 4) * ES_C8 + channel;
    pooled += (first_c8 * HALF * HALF + lane / 8 + lane / 4 % 2 * 4) * ES_C8 + channel;
    for (int set = warp / Shape::GROUPS; set < n_images * Shape::SETS; set += Shape::SHARING) {
        int image = set / Shape::SETS, tile = set % Shape::SETS * 2;
        int row = tile / (SIZE / 8) * 2, column = tile % (SIZE / 8) * 8;
        float sum[2][C8][4] = {};
        es_raw_multiply<T, IN, OUT, SIZE>(
            in + ((image * IN * Shape::SIDE + row) * Shape::SIDE + column) * ES_C8, weights, sum);
        T *to = raw + ((image * OUT * SIZE + row) * SIZE + column) * ES_C8;
        T *to_pooled = pooled + ((image * OUT * HALF + row / 2) * HALF + column / 2) * ES_C8;
#pragma unroll
        for (int u = 0; u < C8; u++) {
            constexpr int NEXT = (Shape::NEXT_ROWS * SIZE + Shape::NEXT_COLUMNS) * ES_C8;
            es_raw_store<T, SIZE, NEXT>(
                sum[0][u], sum[1][u], EsPoolOrder(gammas[u][0], gammas[u][1]),
                to + u * SIZE * SIZE * ES_C8, to_pooled + u * HALF * HALF * ES_C8, u, sums);
        }
    }
}

// The chunk's two sums over its images into totals [2][padded channels]: lanes, then warps in
// their order. `kept` is [ES_FUSED_WARPS][C8][2][8] of shared memory. Contains a barrier.
template <int OUT, int GROUPS, int C8>
static __device__ __forceinline__ void es_raw_sum(const EsRawSums<C8> &sums, float *kept,
                                                  float *totals) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < C8 * 4; i++) {
        float v = sums.of[i / 4][i / 2 % 2][i % 2];
        for (int step = 4; step < 32; step *= 2) {
            v += __shfl_xor_sync(0xFFFFFFFFu, v, step);
        }
        if (lane < 4) {
            kept[warp * C8 * 16 + i / 2 * 8 + 2 * lane + i % 2] = v;
        }
    }
    __syncthreads();
    int group = (int)threadIdx.x / (C8 * 16), i = (int)threadIdx.x % (C8 * 16);
    if (group < GROUPS) {
        float total = 0.0f;
        for (int w = group; w < ES_FUSED_WARPS; w += GROUPS) {
            total += kept[w * C8 * 16 + i];
        }
        int channel = (group * C8 + i / 16) * ES_C8 + i % 8;
        totals[i / 8 % 2 * OUT * ES_C8 + channel] = total;
    }
}

#endif
