// The gradient of raw outputs through batch norm, ReLU and 2x2 pool, a window at a time.
//
// d_x = scale (d_z - sum(d_z) / M - x_hat sum(d_z x_hat) / M), M = N H W.
#ifndef ES_GROWTH_FUSED_WINDOW_GRADIENT_CUH
#define ES_GROWTH_FUSED_WINDOW_GRADIENT_CUH

#include "growth/fused/fused_instance.cuh"

// Sixteen bytes as words.
static __device__ __forceinline__ void es_load_words(uint32_t (&words)[4], const void *from) {
    uint4 bits = *(const uint4 *)from;
    words[0] = bits.x, words[1] = bits.y, words[2] = bits.z, words[3] = bits.w;
}

// The gradient through batch norm of one channel group, in registers: with the means over the batch
// of d_z and d_z x_hat, m and n, slope = -scale n inv_std and level = -scale m - slope mean.
struct EsNormGradient {
    EsNormC8 forward;
    float slope[8], level[8];
    uint32_t rises[4]; // 0xFFFF for each channel whose z rises with x

    // From a table in shared memory [3][channels]: slopes, levels, and as 16 bits each `rises`.
    __device__ EsNormGradient(const EsNormTable &norm, const float *table, int n_channels, int c8)
        : forward(norm, c8) {
        es_c8_load(slope, table + c8 * ES_C8);
        es_c8_load(level, table + n_channels + c8 * ES_C8);
        es_load_words(rises, (const uint16_t *)(table + 2 * n_channels) + c8 * ES_C8);
    }
    static __device__ void write(float *table, int n_channels, int c, float slope, float level,
                                 bool is_rising) {
        table[c] = slope;
        table[n_channels + c] = level;
        ((uint16_t *)(table + 2 * n_channels))[c] = is_rising ? 0xFFFF : 0;
    }
    // The gradient of raw value x, where d_z is 0.
    __device__ float base(float x, int c) const { return fmaf(slope[c], x, level[c]); }
    // The same, where g is the gradient of max(z, 0).
    __device__ float whole(float x, float g, int c) const {
        float z = fmaf(x, forward.scale[c], forward.shift[c]), base_only = base(x, c);
        return z > 0.0f ? fmaf(forward.scale[c], g, base_only) : base_only;
    }
};

// The gradient of a window's raw outputs, of which `raw` is the first, from the gradient g of their
// pooled value. `to` is the first one's place in a tile of `side` columns.
static __device__ __forceinline__ void es_window_gradient(const float *raw, int size,
                                                          const EsNormGradient &norm,
                                                          const float (&g)[8], float *to,
                                                          int side) {
    float x[4][8], z[8], scaled[8];
    int winner[8];
    es_window_load(raw, size, x);
    es_window_choose(norm.forward, x, z, winner);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        scaled[c] = z[c] > 0.0f ? norm.forward.scale[c] * g[c] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            x[k][c] = norm.base(x[k][c], c) + (winner[c] == k ? scaled[c] : 0.0f);
        }
        es_c8_store(to + (k / 2 * side + k % 2) * ES_C8, x[k]);
    }
}

// Two channels of a window in 16 bits each: 0xFFFF for the winner of each, and the winner. z is
// monotone in x, so that the largest or smallest x has the largest z. Where an x is NaN, so are the
// batch's statistics, and with them every gradient.
template <typename Pair>
static __device__ __forceinline__ uint32_t es_choose_pair(const uint32_t (&x)[4], uint32_t rises,
                                                          uint32_t (&wins)[4]) {
    const Pair(&v)[4] = (const Pair(&)[4])x;
    Pair largest = __hmax2_nan(__hmax2_nan(v[0], v[1]), __hmax2_nan(v[2], v[3]));
    Pair smallest = __hmin2_nan(__hmin2_nan(v[0], v[1]), __hmin2_nan(v[2], v[3]));
    uint32_t chosen = (*(uint32_t *)&largest & rises) | (*(uint32_t *)&smallest & ~rises);
    Pair best = *(Pair *)&chosen;
    uint32_t earlier = 0; // the first of equal ones
#pragma unroll
    for (int k = 0; k < 3; k++) {
        wins[k] = __heq2_mask(v[k], best) & ~earlier;
        earlier |= wins[k];
    }
    wins[3] = ~earlier;
    return chosen;
}
static __device__ __forceinline__ uint32_t es_choose_pair(const uint32_t (&x)[4], uint32_t rises,
                                                          uint32_t (&wins)[4], __nv_bfloat16) {
    return es_choose_pair<__nv_bfloat162>(x, rises, wins);
}
static __device__ __forceinline__ uint32_t es_choose_pair(const uint32_t (&x)[4], uint32_t rises,
                                                          uint32_t (&wins)[4], __half) {
    return es_choose_pair<__half2>(x, rises, wins);
}

template <typename T>
static __device__ __forceinline__ void es_window_gradient(const T *raw, int size,
                                                          const EsNormGradient &norm,
                                                          const float (&g)[8], T *to, int side) {
    uint32_t x[4][4]; // [two channels][pixel]
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t words[4];
        es_load_words(words, raw + (k / 2 * size + k % 2) * ES_C8);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i][k] = words[i];
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t wins[4];
        float2 best = es_pair_floats(es_choose_pair(x[i], norm.rises[i], wins, T()), T());
        uint32_t d_best = es_pair_bits(norm.whole(best.x, g[2 * i], 2 * i),
                                       norm.whole(best.y, g[2 * i + 1], 2 * i + 1), T());
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float2 v = es_pair_floats(x[i][k], T());
            uint32_t base = es_pair_bits(norm.base(v.x, 2 * i), norm.base(v.y, 2 * i + 1), T());
            x[i][k] = (wins[k] & d_best) | (~wins[k] & base);
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        *(uint4 *)(to + (k / 2 * side + k % 2) * ES_C8) =
            make_uint4(x[0][k], x[1][k], x[2][k], x[3][k]);
    }
}

#endif
