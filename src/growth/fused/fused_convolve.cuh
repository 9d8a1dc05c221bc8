// Convolutions of tiles: on the tensor cores for 16-bit types, for float there in TF32 or with
// plain multiply-adds.
#ifndef ES_GROWTH_FUSED_CONVOLVE_CUH
#define ES_GROWTH_FUSED_CONVOLVE_CUH

#include "growth/fused/fused_tf32.cuh"

// --- packed weights ---
//
// 16-bit: for each output channel group and each step of two input channel groups, the b operand of
// one product: 32 lanes of two words. float: for each output channel group and input channel group
// [8 outputs][inputs 0 4 1 5 2 6 3 7], which is the b operand of one product, too; in TF32 rounded
// to it.

// Position of input i of output o among the 64.
static __host__ __device__ __forceinline__ int es_packed_place(int i, int o) {
    return o * ES_C8 + i % 4 * 2 + i / 4;
}

static __device__ __forceinline__ float es_packed_float(float weight, int is_tf32) {
    return is_tf32 ? __uint_as_float(es_tf32(weight)) : weight;
}

template <typename T> static __host__ __device__ size_t es_packed_bytes(int n_taps, int out_c8) {
    int n_steps = (n_taps + 1) / 2;
    return sizeof(T) == 4 ? (size_t)out_c8 * (size_t)n_taps * 64 * sizeof(float)
                          : (size_t)out_c8 * (size_t)n_steps * 32 * sizeof(uint2);
}

// --- convolution ---

// Taps (es_tap_c8) and output channel groups of a convolution where they are known when compiled,
// else 0.
template <int TAPS, int OUT_C8> struct EsKnown {};

// out[pixel][o] = sum over taps and inputs; out has any border, which is left alone. The first
// n_images of both tiles. `packed` is packed for is_tf32.
template <int TAPS, int OUT_C8>
static __device__ void es_tile_convolve(EsKnown<TAPS, OUT_C8>, const float *in,
                                        const EsTile &in_tile, const int *offsets, int n_taps,
                                        const void *packed, float *out, const EsTile &out_tile,
                                        int n_images, int is_tf32) {
    if (is_tf32) {
        es_tile_convolve_tf32(in, in_tile, offsets, n_taps, packed, out, out_tile, n_images);
        return;
    }
    int pixels = out_tile.pixels(), n_tasks = n_images * pixels * out_tile.n_c8;
    for (int task = threadIdx.x; task < n_tasks; task += ES_FUSED_THREADS) {
        // neighbouring threads share an output channel group, so that weights are broadcast
        int pixel = task % pixels, image = task / pixels % n_images;
        int c8 = task / (pixels * n_images);
        int row = pixel / out_tile.size, column = pixel % out_tile.size;
        const float *from = in + in_tile.at(image, 0, row, column) * ES_C8;
        const float *weights = (const float *)packed + (int64_t)c8 * n_taps * 64;
        float sum[8] = {};
        for (int q = 0; q < n_taps; q++) {
            float x[8];
            es_c8_load(x, from + offsets[q]);
#pragma unroll
            for (int o = 0; o < 8; o++) {
                float w[8];
                es_c8_load(w, weights + q * 64 + o * 8);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    sum[o] = fmaf(x[c], w[es_packed_place(c, 0)], sum[o]);
                }
            }
        }
        es_c8_store(out + out_tile.at(image, c8, row, column) * ES_C8, sum);
    }
}

// Weights that a warp keeps in registers, in steps of one output channel group; 0: it loads them as
// it goes.
#define ES_FUSED_KEPT_STEPS 20

// One group of output channel groups, for the pixels whose sets of 32 are `set`, set + set_step,
// ... STEPS is n_steps where that is known when compiled, else 0.
template <typename T, int C8, int STEPS>
static __device__ __forceinline__ void
es_convolve_c8(const T *in, const EsTile &in_tile, const int *offsets, int n_steps,
               const uint2 *weights, T *out, const EsTile &out_tile, int first_c8, int n_images,
               int set, int set_step) {
    constexpr int TILES = 2;
    constexpr bool IS_KEPT = STEPS > 0 && STEPS * C8 <= ES_FUSED_KEPT_STEPS;
    int lane = threadIdx.x % 32;
    int pixels = out_tile.pixels(), n_pixels = n_images * pixels;
    const int *offset = offsets + lane / 16;
    uint2 kept[IS_KEPT ? STEPS : 1][C8];
#pragma unroll
    for (int i = 0; IS_KEPT && i < STEPS * C8; i++) {
        kept[i / C8][i % C8] = __ldg(weights + (i % C8 * STEPS + i / C8) * 32 + lane);
    }
    for (; set * 16 * TILES < n_pixels; set += set_step) {
        int first = set * 16 * TILES;
        const T *from[TILES];
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            int m = first + t * 16 + lane % 16;
            m = m < n_pixels ? m : 0;
            int image = out_tile.image_of(m);
            from[t] = in + in_tile.at_pixel(image, 0, m - image * pixels) * ES_C8;
        }
        float sum[TILES][C8][4] = {};
#pragma unroll(STEPS > 0 ? STEPS : 2)
        for (int k = 0; k < n_steps; k++) {
            uint32_t a[TILES][4];
            int shift = offset[2 * k];
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                es_load_matrix_x4(a[t], from[t] + shift);
            }
#pragma unroll
            for (int u = 0; u < C8; u++) {
                uint2 w = IS_KEPT ? kept[IS_KEPT ? k : 0][u]
                                  : __ldg(weights + (u * n_steps + k) * 32 + lane);
                const uint32_t b[2] = {w.x, w.y};
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    es_multiply_matrix<T>(sum[t][u], a[t], b);
                }
            }
        }
#pragma unroll
        for (int t = 0; t < 2 * TILES; t++) {
            int m = first + lane / 4 + t * 8;
            if (m < n_pixels) {
                int image = out_tile.image_of(m);
                T *to = out + out_tile.at_pixel(image, first_c8, m - image * pixels) * ES_C8 +
                        2 * (lane % 4);
#pragma unroll
                for (int u = 0; u < C8; u++) {
                    const float(&v)[4] = sum[t / 2][u];
                    *(uint32_t *)(to + u * out_tile.plane() * ES_C8) =
                        es_pair_bits(v[t % 2 * 2], v[t % 2 * 2 + 1], T());
                }
            }
        }
    }
}

// Warps share groups of up to C8 output channel groups, then the pixels of each. From a group's
// inputs to the next's are input_step elements: 0 where all read the same.
template <typename T, int C8, int STEPS>
static __device__ __forceinline__ void
es_convolve_groups(const T *in, int input_step, const EsTile &in_tile, const int *offsets,
                   int n_steps, const void *packed, T *out, const EsTile &out_tile, int n_images) {
    int warp = threadIdx.x / 32, n_groups = (out_tile.n_c8 + C8 - 1) / C8;
    int n_side_by_side = n_groups < ES_FUSED_WARPS ? n_groups : ES_FUSED_WARPS;
    int n_sharing = ES_FUSED_WARPS / n_side_by_side;
    if (warp >= n_side_by_side * n_sharing) {
        return;
    }
    for (int group = warp % n_side_by_side; group < n_groups; group += n_side_by_side) {
        int first_c8 = group * C8, set = warp / n_side_by_side;
        const uint2 *weights = (const uint2 *)packed + (int64_t)first_c8 * n_steps * 32;
        const T *from = in + group * input_step;
        if (C8 == 1 || out_tile.n_c8 - first_c8 >= C8) {
            es_convolve_c8<T, C8, STEPS>(from, in_tile, offsets, n_steps, weights, out, out_tile,
                                         first_c8, n_images, set, n_sharing);
        } else {
            for (int u = first_c8; u < out_tile.n_c8; u++) {
                es_convolve_c8<T, 1, 0>(from, in_tile, offsets, n_steps,
                                        weights + (int64_t)(u - first_c8) * n_steps * 32, out,
                                        out_tile, u, n_images, set, n_sharing);
            }
        }
    }
}

template <typename T, int TAPS, int OUT_C8>
static __device__ __forceinline__ void
es_tile_convolve(EsKnown<TAPS, OUT_C8>, const T *in, const EsTile &in_tile, const int *offsets,
                 int n_taps, const void *packed, T *out, const EsTile &out_tile, int n_images,
                 int is_tf32) {
    (void)is_tf32;
    constexpr int STEPS = (TAPS + 1) / 2;
    constexpr int C8 = TAPS == 0 ? 2 : OUT_C8 >= 2 && 2 * STEPS <= ES_FUSED_KEPT_STEPS ? 2 : 1;
    es_convolve_groups<T, C8, STEPS>(in, 0, in_tile, offsets, (n_taps + 1) / 2, packed, out,
                                     out_tile, n_images);
}

// A depthwise 3x3: output channel groups each read the input channel group of their number.
// `offsets` are es_tap_offsets of a tile of one channel group; `packed` has a diagonal matrix per
// channel group and tap.
template <typename T>
static __device__ __forceinline__ void
es_tile_depthwise(const T *in, const EsTile &in_tile, const int *offsets, const void *packed,
                  T *out, const EsTile &out_tile, int n_images) {
    constexpr int STEPS = (ES_DEPTHWISE_TAPS + 1) / 2;
    es_convolve_groups<T, 1, STEPS>(in, in_tile.plane() * ES_C8, in_tile, offsets, STEPS, packed,
                                    out, out_tile, n_images);
}

// Of any size.
template <typename T>
static __device__ __forceinline__ void
es_tile_convolve(const T *in, const EsTile &in_tile, const int *offsets, int n_taps,
                 const void *packed, T *out, const EsTile &out_tile, int n_images, int is_tf32) {
    es_tile_convolve(EsKnown<0, 0>(), in, in_tile, offsets, n_taps, packed, out, out_tile, n_images,
                     is_tf32);
}

#endif
