// Maps of a few images in shared memory.
//
// A tile is [image][c8][row][column][8 channels], with a border of zeros around every map where a
// 3x3 convolution reads it. Eight neighbouring pixels of a channel group are 128 contiguous bytes,
// so that matrix loads meet no bank twice.
//
// All functions on tiles, here and in fused_convolve.cuh and fused_wgrad.cuh, are called by every
// thread of a block of ES_FUSED_THREADS; none of them begins or ends with a barrier unless it says
// so.
#ifndef ES_GROWTH_FUSED_TILE_CUH
#define ES_GROWTH_FUSED_TILE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "growth/fused/fused_net.h"
#include "kernels/cuda/cuda_common.cuh"

// --- channel groups ---

// A channel group: eight channels of a pixel, 16 bytes in the 16-bit types, as floats in registers.

// Run a statement with T standing for the type of a precision.
#define ES_DISPATCH_FUSED(precision, T, ...)                                                       \
    do {                                                                                           \
        if ((precision) == ES_DTYPE_BF16) {                                                        \
            typedef __nv_bfloat16 T;                                                               \
            __VA_ARGS__;                                                                           \
        } else if ((precision) == ES_DTYPE_F16) {                                                  \
            typedef __half T;                                                                      \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef float T;                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

static __device__ __forceinline__ void es_c8_load(float (&v)[8], const float *p) {
    float4 low = ((const float4 *)p)[0], high = ((const float4 *)p)[1];
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
}

static __device__ __forceinline__ void es_c8_store(float *p, const float (&v)[8]) {
    ((float4 *)p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    ((float4 *)p)[1] = make_float4(v[4], v[5], v[6], v[7]);
}

static __device__ __forceinline__ float2 es_pair_floats(uint32_t bits, __nv_bfloat16) {
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000u));
}

static __device__ __forceinline__ float2 es_pair_floats(uint32_t bits, __half) {
    return make_float2(__half2float(__ushort_as_half((unsigned short)(bits & 0xFFFFu))),
                       __half2float(__ushort_as_half((unsigned short)(bits >> 16))));
}

static __device__ __forceinline__ uint32_t es_pair_bits(float a, float b, __nv_bfloat16) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *(const uint32_t *)&pair;
}

static __device__ __forceinline__ uint32_t es_pair_bits(float a, float b, __half) {
    __half2 pair = __floats2half2_rn(a, b);
    return *(const uint32_t *)&pair;
}

template <typename T> static __device__ __forceinline__ void es_c8_load(float (&v)[8], const T *p) {
    uint4 bits = *(const uint4 *)p;
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = es_pair_floats(words[i], T());
        v[2 * i] = pair.x, v[2 * i + 1] = pair.y;
    }
}

template <typename T>
static __device__ __forceinline__ void es_c8_store(T *p, const float (&v)[8]) {
    *(uint4 *)p = make_uint4(es_pair_bits(v[0], v[1], T()), es_pair_bits(v[2], v[3], T()),
                             es_pair_bits(v[4], v[5], T()), es_pair_bits(v[6], v[7], T()));
}

template <typename T> static __device__ __forceinline__ void es_c8_zero(T *p) {
    const float zeros[8] = {};
    es_c8_store(p, zeros);
}

// As it is, 16 bytes at a time.
template <typename T> static __device__ __forceinline__ void es_c8_copy(T *to, const T *from) {
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 2; i++) {
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    }
}

// Returns a value rounded to T.
static __device__ __forceinline__ float es_rounded(float v, float) { return v; }
static __device__ __forceinline__ float es_rounded(float v, __nv_bfloat16) {
    return __bfloat162float(__float2bfloat16_rn(v));
}
static __device__ __forceinline__ float es_rounded(float v, __half) {
    return __half2float(__float2half_rn(v));
}

// --- tiles ---

#define ES_FUSED_WARPS (ES_FUSED_THREADS / 32)

// n / d for n >= 0; `reciprocal` is es_fused_reciprocal(d), or 0 where d is a constant.
static __device__ __forceinline__ int es_divide(int n, int d, uint32_t reciprocal) {
    return reciprocal != 0 ? (int)__umulhi((uint32_t)n, reciprocal)
                           : (int)((uint32_t)n / (uint32_t)d);
}

struct EsTile {
    int n_c8, size, border;
    uint32_t by_size = 0, by_pixels = 0; // es_fused_reciprocal of size and size^2, or 0

    __host__ __device__ int side() const { return size + 2 * border; }
    __host__ __device__ int plane() const { return side() * side(); }
    __host__ __device__ int pixels() const { return size * size; }
    __host__ __device__ int image_c8() const { return n_c8 * plane(); }
    // In channel groups from the start of the tile.
    __host__ __device__ int at(int image, int c8, int row, int column) const {
        return (image * n_c8 + c8) * plane() + (row + border) * side() + column + border;
    }
    __device__ int row_of(int pixel) const { return es_divide(pixel, size, by_size); }
    // Of pixel i of all images in a row.
    __device__ int image_of(int i) const { return es_divide(i, pixels(), by_pixels); }
    __device__ int at_pixel(int image, int c8, int pixel) const {
        int row = border == 0 ? 0 : row_of(pixel);
        return border == 0 ? (image * n_c8 + c8) * pixels() + pixel
                           : at(image, c8, row, pixel - row * size);
    }
};

// Assignment of channel groups and the `count` pixels of each to the threads of a block: a thread
// takes channel groups c8, c8 + c8_step, ... and in each of them pixels first, first + step, ...
struct EsThreadMap {
    int c8, c8_step, first, step;
};

static __device__ __forceinline__ EsThreadMap es_thread_map(int count) {
    int shift = 31 - __clz(ES_FUSED_THREADS); // of the width, a power of two: no division
    while (shift > 5 && 1 << (shift - 1) >= count) {
        shift--;
    }
    int width = 1 << shift;
    EsThreadMap map = {(int)threadIdx.x >> shift, ES_FUSED_THREADS >> shift,
                       (int)threadIdx.x & (width - 1), width};
    return map;
}

template <typename T> static __host__ __device__ size_t es_tile_bytes(EsTile tile, int n_images) {
    return (size_t)n_images * (size_t)tile.image_c8() * ES_C8 * sizeof(T);
}

// Zero everything.
template <typename T>
static __device__ __forceinline__ void es_tile_clear(T *tile, EsTile shape, int n_images) {
    uint4 *words = (uint4 *)tile;
    int n_words = (int)(es_tile_bytes<T>(shape, n_images) / sizeof(uint4));
    for (int i = threadIdx.x; i < n_words; i += ES_FUSED_THREADS) {
        words[i] = make_uint4(0, 0, 0, 0);
    }
}

// Zero the borders alone, where everything inside is written anyway; a warp per map: top row,
// bottom row, then the sides.
template <typename T>
static __device__ __forceinline__ void es_tile_clear_border(T *tile, const EsTile &shape,
                                                            int n_images) {
    int side = shape.side(), n_maps = shape.border * n_images * shape.n_c8;
    for (int map = threadIdx.x / 32; map < n_maps; map += ES_FUSED_WARPS) {
        for (int i = threadIdx.x % 32; i < 4 * (side - 1); i += 32) {
            int j = i - 2 * side, at = i < side ? i : i + side * (side - 2);
            at = j < 0 ? at : (j % 2 == 0 ? 0 : side - 1) + side * (1 + j / 2);
            es_c8_zero(tile + (map * side * side + at) * ES_C8);
        }
    }
}

// Table of offsets of a convolution's input channel groups: tap by tap, channel group by channel
// group, in elements from a pixel's own channel group 0. [kernel^2 * n_c8], one more when that is
// odd.
static __host__ __device__ __forceinline__ int es_tap_c8(EsTile in, int kernel) {
    return kernel * kernel * in.n_c8;
}

static __device__ __forceinline__ void es_tap_offsets(int *offsets, EsTile in, int kernel) {
    int n = es_tap_c8(in, kernel);
    for (int q = threadIdx.x; q < n + (n & 1); q += ES_FUSED_THREADS) {
        int tap = q / in.n_c8, c8 = q % in.n_c8;
        int row = tap / kernel - kernel / 2, column = tap % kernel - kernel / 2;
        offsets[q] = q < n ? (c8 * in.plane() + row * in.side() + column) * ES_C8 : 0;
    }
}

// Taps of a depthwise 3x3.
#define ES_DEPTHWISE_TAPS 9

// --- sums per channel ---

// Sums over a warp of 16 numbers: lanes 2 i and 2 i + 1 get that of number i. Each exchange halves
// the numbers that a lane still adds up.
static __device__ __forceinline__ float es_warp_sums(const float (&values)[2][8]) {
    int lane = threadIdx.x % 32;
    float v[8];
#pragma unroll
    for (int c = 0; c < 8; c++) {
        bool is_upper = lane & 16;
        float mine = is_upper ? values[1][c] : values[0][c];
        v[c] = mine + __shfl_xor_sync(0xFFFFFFFFu, is_upper ? values[0][c] : values[1][c], 16);
    }
#pragma unroll
    for (int half = 4; half > 0; half /= 2) {
#pragma unroll
        for (int c = 0; c < half; c++) {
            bool is_upper = lane & 2 * half;
            float mine = is_upper ? v[c + half] : v[c];
            v[c] = mine + __shfl_xor_sync(0xFFFFFFFFu, is_upper ? v[c] : v[c + half], 2 * half);
        }
    }
    return v[0] + __shfl_xor_sync(0xFFFFFFFFu, v[0], 1);
}

// Two sums per channel over `count` positions: visit(channel group, position, values) adds the
// position's terms to values[2][8]. A warp takes one channel group and a slice of the positions;
// lanes, then slices are added in a fixed order. totals [2][n_c8 * 8] may be anywhere. `kept` is
// [ES_FUSED_WARPS][2][8] of shared memory. Begins and ends with a barrier.
template <typename Visit>
static __device__ __forceinline__ void es_channel_sums(int n_c8, int count, float *kept,
                                                       float *totals, Visit visit) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n_slices = n_c8 < ES_FUSED_WARPS ? ES_FUSED_WARPS / n_c8 : 1;
    __syncthreads(); // summands may be fresh, and `kept` still be read
    for (int first = 0; first < n_c8; first += ES_FUSED_WARPS) {
        int n_here = min(n_c8 - first, ES_FUSED_WARPS);
        int c8 = warp % n_here, slice = warp / n_here;
        float values[2][8] = {};
        for (int i = slice * 32 + lane; slice < n_slices && i < count; i += n_slices * 32) {
            visit(first + c8, i, values);
        }
        float sum = es_warp_sums(values);
        if (lane % 2 == 0) {
            kept[warp * 16 + lane / 2] = sum;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < n_here * 16; i += ES_FUSED_THREADS) {
            float total = kept[i];
            for (int s = 1; s < n_slices; s++) {
                total += kept[s * n_here * 16 + i];
            }
            int which = i / 8 % 2, channel = (first + i / 16) * ES_C8 + i % 8;
            totals[which * n_c8 * ES_C8 + channel] = total;
        }
        __syncthreads();
    }
}

#endif
