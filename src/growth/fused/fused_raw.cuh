// The convolution of a block whose shape is known when compiled, in 16-bit types: from a tile in
// shared memory straight to the raw output in device memory, with the sums of its statistics and
// the values that the pool picks.
//
// A product has 16 pixels: 8 neighbours in each of two rows that a pool reads together. So a lane
// holds two channels of a column's two pixels, and the window's other column is four lanes away.
#ifndef ES_GROWTH_FUSED_RAW_CUH
#define ES_GROWTH_FUSED_RAW_CUH

#include "growth/fused/fused_convolve.cuh"

// --- what a pool picks ---
//
// The pixel of a window whose z = scale x + shift is largest has the largest x where gamma is above
// 0, the smallest where it is below; where gamma is 0 all are equal and the first is picked. NaN
// wins. So the pick needs no statistics of the batch. Where different x round to one z, gradients
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
struct EsPick {
    uint32_t sign;    // signs to turn over: gamma is below 0
    uint32_t by_size; // not 0: the larger one; else the first

    __device__ __forceinline__ EsPick(float gamma0, float gamma1) {
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
    static constexpr int UNITS = OUT >= 2 && 2 * STEPS <= ES_FUSED_KEPT_STEPS ? 2 : 1;
    static constexpr int GROUPS = OUT / UNITS;              // of output units
    static constexpr int SHARING = ES_FUSED_WARPS / GROUPS; // warps that share a group's pixels
    static constexpr int SIDE = SIZE + 2, HALF = SIZE / 2;
    static constexpr int SETS = SIZE * SIZE / 32; // of an image, each of two products' pixels
    // From a product's pixels to those of the next: beside them, or the next two rows.
    static constexpr int NEXT_COLUMNS = SIZE > 8 ? 8 : 0, NEXT_ROWS = SIZE > 8 ? 0 : 2;
    static_assert(SIZE % 8 == 0 && OUT % UNITS == 0 && ES_FUSED_WARPS % GROUPS == 0, "shape");
};

// Where unit q of a pixel's 9 IN inputs lies, in elements from its own unit 0. Past the last the
// last again: weights there are 0.
template <int IN, int SIZE> static __host__ __device__ constexpr int es_raw_tap(int q) {
    int i = q < 9 * IN ? q : 9 * IN - 1, tap = i / IN;
    return ((i % IN * (SIZE + 2) + tap / 3 - 1) * (SIZE + 2) + tap % 3 - 1) * ES_FUSED_UNIT;
}

// One lane's share of two sums per channel: of channels 2 (lane % 4) and the next of each unit.
template <int UNITS> struct EsRawSums { float of[UNITS][2][2]; }; // [unit][sum][channel]

// Of x and x^2.
template <typename T, int UNITS>
static __device__ __forceinline__ void es_raw_add(EsRawSums<UNITS> &sums, int u, uint32_t bits) {
    float2 v = es_pair_floats(bits, T());
    float(&of)[2][2] = sums.of[u];
    of[0][0] += v.x, of[1][0] = fmaf(v.x, v.x, of[1][0]);
    of[0][1] += v.y, of[1][1] = fmaf(v.y, v.y, of[1][1]);
}

// The products of 32 pixels: `from` is the lane's pixel of the first 16 in the tile.
template <typename T, int IN, int OUT, int SIZE>
static __device__ __forceinline__ void es_raw_multiply(
    const T *from,
    const uint2 (&weights)[EsRawShape<IN, OUT, SIZE>::STEPS][EsRawShape<IN, OUT, SIZE>::UNITS],
    float (&sum)[2][EsRawShape<IN, OUT, SIZE>::UNITS][4]) {
    using Shape = EsRawShape<IN, OUT, SIZE>;
    constexpr int NEXT = (Shape::NEXT_ROWS * Shape::SIDE + Shape::NEXT_COLUMNS) * ES_FUSED_UNIT;
    int is_second = (int)threadIdx.x / 16 % 2; // of a step's two input units
#pragma unroll
    for (int k = 0; k < Shape::STEPS; k++) {
        constexpr auto tap = es_raw_tap<IN, SIZE>;
        const T *at = from + is_second * (tap(2 * k + 1) - tap(2 * k)) + tap(2 * k);
        uint32_t a[2][4];
        es_load_matrix_x4(a[0], at);
        es_load_matrix_x4(a[1], at + NEXT);
#pragma unroll
        for (int u = 0; u < Shape::UNITS; u++) {
            const uint32_t b[2] = {weights[k][u].x, weights[k][u].y};
            es_multiply_matrix<T>(sum[0][u], a[0], b);
            es_multiply_matrix<T>(sum[1][u], a[1], b);
        }
    }
}

// Store one unit of 32 pixels: raw at `raw`, the windows' picks at `picked`, both the lane's own
// places; add to the statistics.
template <typename T, int SIZE, int NEXT, int UNITS>
static __device__ __forceinline__ void
es_raw_store(const float (&first)[4], const float (&second)[4], const EsPick &pick, T *raw,
             T *picked, int u, EsRawSums<UNITS> &sums) {
    bool is_right = threadIdx.x & 4; // column of the window
    uint32_t picks[2];
#pragma unroll
    for (int t = 0; t < 2; t++) {
        const float(&v)[4] = t == 0 ? first : second;
        uint32_t upper = es_pair_bits(v[0], v[1], T()), lower = es_pair_bits(v[2], v[3], T());
        *(uint32_t *)(raw + t * NEXT) = upper;
        *(uint32_t *)(raw + t * NEXT + SIZE * ES_FUSED_UNIT) = lower;
        es_raw_add<T>(sums, u, upper);
        es_raw_add<T>(sums, u, lower);
        uint32_t mine = pick.of(upper ^ pick.sign, lower ^ pick.sign, T());
        uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, mine, 4);
        picks[t] = pick.of(is_right ? other : mine, is_right ? mine : other, T()) ^ pick.sign;
    }
    // both lanes of a window have its pick: one stores the first product's, one the second's
    *(uint32_t *)picked = is_right ? picks[1] : picks[0];
}

// The part's images from `in`, a tile with border 1, into raw and picked, each [image][unit]
// [pixel][8] from the part's first image on. gamma: of the block's channels, of which n_out exist.
template <typename T, int IN, int OUT, int SIZE>
static __device__ __forceinline__ void
es_raw_convolve(const T *in, const void *packed, const float *gamma, int n_out, int n_images,
                T *raw, T *picked, EsRawSums<EsRawShape<IN, OUT, SIZE>::UNITS> &sums) {
    using Shape = EsRawShape<IN, OUT, SIZE>;
    constexpr int UNITS = Shape::UNITS, HALF = Shape::HALF;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int first_unit = warp % Shape::GROUPS * UNITS, channel = 2 * (lane % 4);
    uint2 weights[Shape::STEPS][UNITS];
#pragma unroll
    for (int i = 0; i < Shape::STEPS * UNITS; i++) {
        weights[i / UNITS][i % UNITS] =
            __ldg((const uint2 *)packed +
                  ((first_unit + i % UNITS) * Shape::STEPS + i / UNITS) * 32 + lane);
    }
    float gammas[UNITS][2];
#pragma unroll
    for (int i = 0; i < 2 * UNITS; i++) {
        int c = (first_unit + i / 2) * ES_FUSED_UNIT + channel + i % 2;
        gammas[i / 2][i % 2] = c < n_out ? gamma[c] : 1.0f;
    }
    // row and column of the lane's pixel in a product as it is loaded, and as it is held
    in += ((1 + lane / 8 % 2) * Shape::SIDE + 1 + lane % 8) * ES_FUSED_UNIT;
    raw += (first_unit * SIZE * SIZE + lane / 4) * ES_FUSED_UNIT + channel;
    picked += (first_unit * HALF * HALF + lane / 8 + lane / 4 % 2 * 4) * ES_FUSED_UNIT + channel;
    for (int set = warp / Shape::GROUPS; set < n_images * Shape::SETS; set += Shape::SHARING) {
        int image = set / Shape::SETS, tile = set % Shape::SETS * 2;
        int row = tile / (SIZE / 8) * 2, column = tile % (SIZE / 8) * 8;
        float sum[2][UNITS][4] = {};
        es_raw_multiply<T, IN, OUT, SIZE>(
            in + ((image * IN * Shape::SIDE + row) * Shape::SIDE + column) * ES_FUSED_UNIT, weights,
            sum);
        T *to = raw + ((image * OUT * SIZE + row) * SIZE + column) * ES_FUSED_UNIT;
        T *to_picked =
            picked + ((image * OUT * HALF + row / 2) * HALF + column / 2) * ES_FUSED_UNIT;
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            constexpr int NEXT = (Shape::NEXT_ROWS * SIZE + Shape::NEXT_COLUMNS) * ES_FUSED_UNIT;
            es_raw_store<T, SIZE, NEXT>(sum[0][u], sum[1][u], EsPick(gammas[u][0], gammas[u][1]),
                                        to + u * SIZE * SIZE * ES_FUSED_UNIT,
                                        to_picked + u * HALF * HALF * ES_FUSED_UNIT, u, sums);
        }
    }
}

// The part's two sums over its images into totals [2][channels of units]: lanes, then warps in
// their order. `kept` is [ES_FUSED_WARPS][UNITS][2][8] of shared memory. Contains a barrier.
template <int OUT, int GROUPS, int UNITS>
static __device__ __forceinline__ void es_raw_sum(const EsRawSums<UNITS> &sums, float *kept,
                                                  float *totals) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < UNITS * 4; i++) {
        float v = sums.of[i / 4][i / 2 % 2][i % 2];
        for (int step = 4; step < 32; step *= 2) {
            v += __shfl_xor_sync(0xFFFFFFFFu, v, step);
        }
        if (lane < 4) {
            kept[warp * UNITS * 16 + i / 2 * 8 + 2 * lane + i % 2] = v;
        }
    }
    __syncthreads();
    int group = (int)threadIdx.x / (UNITS * 16), i = (int)threadIdx.x % (UNITS * 16);
    if (group < GROUPS) {
        float total = 0.0f;
        for (int w = group; w < ES_FUSED_WARPS; w += GROUPS) {
            total += kept[w * UNITS * 16 + i];
        }
        int channel = (group * UNITS + i / 16) * ES_FUSED_UNIT + i % 8;
        totals[i / 8 % 2 * OUT * ES_FUSED_UNIT + channel] = total;
    }
}

#endif
