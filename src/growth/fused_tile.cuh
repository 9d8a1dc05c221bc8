// Maps of a few images in shared memory, and what the fused kernels do with them: convolutions and
// their gradients, on the tensor cores for 16-bit types, for float there in TF32 or with plain
// multiply-adds.
//
// A tile is [image][unit][row][column][8 channels], with a border of zeros around every map where a
// 3x3 convolution reads it. Eight neighbouring pixels of a unit are 128 contiguous bytes, so that
// matrix loads meet no bank twice.
//
// All functions are called by every thread of a block of ES_FUSED_THREADS; none of them begins or
// ends with a barrier unless it says so.
#ifndef ES_GROWTH_FUSED_TILE_CUH
#define ES_GROWTH_FUSED_TILE_CUH

#include "growth/fused_net.h"
#include "kernels/cuda_common.cuh"
#include "kernels/cuda_matrix.cuh"
#include "kernels/cuda_tf32.cuh"

#define ES_FUSED_WARPS (ES_FUSED_THREADS / 32)

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

// --- units ---

static __device__ __forceinline__ void es_unit_load(float (&v)[8], const float *p) {
    float4 low = ((const float4 *)p)[0], high = ((const float4 *)p)[1];
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
}

static __device__ __forceinline__ void es_unit_store(float *p, const float (&v)[8]) {
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

template <typename T>
static __device__ __forceinline__ void es_unit_load(float (&v)[8], const T *p) {
    uint4 bits = *(const uint4 *)p;
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = es_pair_floats(words[i], T());
        v[2 * i] = pair.x, v[2 * i + 1] = pair.y;
    }
}

template <typename T>
static __device__ __forceinline__ void es_unit_store(T *p, const float (&v)[8]) {
    *(uint4 *)p = make_uint4(es_pair_bits(v[0], v[1], T()), es_pair_bits(v[2], v[3], T()),
                             es_pair_bits(v[4], v[5], T()), es_pair_bits(v[6], v[7], T()));
}

template <typename T> static __device__ __forceinline__ void es_unit_zero(T *p) {
    const float zeros[8] = {};
    es_unit_store(p, zeros);
}

// As it is, 16 bytes at a time.
template <typename T> static __device__ __forceinline__ void es_unit_copy(T *to, const T *from) {
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 2; i++) {
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    }
}

// What a value becomes when it is stored as T.
static __device__ __forceinline__ float es_rounded(float v, float) { return v; }
static __device__ __forceinline__ float es_rounded(float v, __nv_bfloat16) {
    return __bfloat162float(__float2bfloat16_rn(v));
}
static __device__ __forceinline__ float es_rounded(float v, __half) {
    return __half2float(__float2half_rn(v));
}

// --- tiles ---

// n / d for n >= 0; `reciprocal` is es_fused_reciprocal(d), or 0 where d is a constant.
static __device__ __forceinline__ int es_divide(int n, int d, uint32_t reciprocal) {
    return reciprocal != 0 ? (int)__umulhi((uint32_t)n, reciprocal)
                           : (int)((uint32_t)n / (uint32_t)d);
}

struct EsTile {
    int units, size, border;
    uint32_t by_size = 0, by_pixels = 0; // es_fused_reciprocal of size and size^2, or 0

    __host__ __device__ int side() const { return size + 2 * border; }
    __host__ __device__ int plane() const { return side() * side(); }
    __host__ __device__ int pixels() const { return size * size; }
    __host__ __device__ int image_units() const { return units * plane(); }
    // In units from the start of the tile.
    __host__ __device__ int at(int image, int unit, int row, int column) const {
        return (image * units + unit) * plane() + (row + border) * side() + column + border;
    }
    __device__ int row_of(int pixel) const { return es_divide(pixel, size, by_size); }
    // Of pixel i of all images in a row.
    __device__ int image_of(int i) const { return es_divide(i, pixels(), by_pixels); }
    __device__ int at_pixel(int image, int unit, int pixel) const {
        int row = border == 0 ? 0 : row_of(pixel);
        return border == 0 ? (image * units + unit) * pixels() + pixel
                           : at(image, unit, row, pixel - row * size);
    }
};

// How the threads of a block share units and the `count` pixels of each: a thread takes units
// unit, unit + unit_step, ... and in each of them pixels first, first + step, ...
struct EsSpread {
    int unit, unit_step, first, step;
};

static __device__ __forceinline__ EsSpread es_spread(int count) {
    int shift = 31 - __clz(ES_FUSED_THREADS); // of the width, a power of two: no division
    while (shift > 5 && 1 << (shift - 1) >= count) {
        shift--;
    }
    int width = 1 << shift;
    EsSpread spread = {(int)threadIdx.x >> shift, ES_FUSED_THREADS >> shift,
                       (int)threadIdx.x & (width - 1), width};
    return spread;
}

template <typename T> static __host__ __device__ size_t es_tile_bytes(EsTile tile, int n_images) {
    return (size_t)n_images * (size_t)tile.image_units() * ES_FUSED_UNIT * sizeof(T);
}

// Zero everything; cheaper than finding the border.
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
    int side = shape.side(), n_maps = shape.border * n_images * shape.units;
    for (int map = threadIdx.x / 32; map < n_maps; map += ES_FUSED_WARPS) {
        for (int i = threadIdx.x % 32; i < 4 * (side - 1); i += 32) {
            int j = i - 2 * side, at = i < side ? i : i + side * (side - 2);
            at = j < 0 ? at : (j % 2 == 0 ? 0 : side - 1) + side * (1 + j / 2);
            es_unit_zero(tile + (map * side * side + at) * ES_FUSED_UNIT);
        }
    }
}

// Where each unit of a convolution's inputs lies: tap by tap, unit by unit, in elements from a
// pixel's own unit 0. [kernel^2 * units], one more when that is odd.
static __host__ __device__ __forceinline__ int es_tap_units(EsTile in, int kernel) {
    return kernel * kernel * in.units;
}

static __device__ __forceinline__ void es_tap_offsets(int *offsets, EsTile in, int kernel) {
    int n = es_tap_units(in, kernel);
    for (int q = threadIdx.x; q < n + (n & 1); q += ES_FUSED_THREADS) {
        int tap = q / in.units, unit = q % in.units;
        int row = tap / kernel - kernel / 2, column = tap % kernel - kernel / 2;
        offsets[q] = q < n ? (unit * in.plane() + row * in.side() + column) * ES_FUSED_UNIT : 0;
    }
}

// --- packed weights ---
//
// 16-bit: for each output unit and each step of two input units, the b operand of one product: 32
// lanes of two words. float: for each output unit and input unit [8 outputs][inputs 0 4 1 5 2 6 3
// 7], which is the b operand of one product, too; in TF32 rounded to it.

// Where input i of output o stands among the 64.
static __host__ __device__ __forceinline__ int es_packed_place(int i, int o) {
    return o * ES_FUSED_UNIT + i % 4 * 2 + i / 4;
}

static __device__ __forceinline__ float es_packed_float(float weight, int is_tf32) {
    return is_tf32 ? __uint_as_float(es_tf32(weight)) : weight;
}

template <typename T> static __host__ __device__ size_t es_packed_bytes(int n_taps, int out_units) {
    int n_steps = (n_taps + 1) / 2;
    return sizeof(T) == 4 ? (size_t)out_units * (size_t)n_taps * 64 * sizeof(float)
                          : (size_t)out_units * (size_t)n_steps * 32 * sizeof(uint2);
}

// --- convolution ---

// fused_tf32.cuh
static __device__ __noinline__ void es_tile_convolve_tf32(const float *in, EsTile in_tile,
                                                          const int *offsets, int n_taps,
                                                          const void *packed, float *out,
                                                          EsTile out_tile, int n_images);
static __device__ void es_tile_weight_gradient_tf32(const float *in, EsTile in_tile,
                                                    const int *offsets, int n_taps, const float *d,
                                                    EsTile d_tile, int n_images, float *part);

// Taps (es_tap_units) and output units of a convolution where they are known when compiled, else 0.
template <int TAPS, int OUT_UNITS> struct EsKnown {};

// out[pixel][o] = sum over taps and inputs; out has any border, which is left alone. The first
// n_images of both tiles. `packed` is packed for is_tf32.
template <int TAPS, int OUT_UNITS>
static __device__ void es_tile_convolve(EsKnown<TAPS, OUT_UNITS>, const float *in,
                                        const EsTile &in_tile, const int *offsets, int n_taps,
                                        const void *packed, float *out, const EsTile &out_tile,
                                        int n_images, int is_tf32) {
    if (is_tf32) {
        es_tile_convolve_tf32(in, in_tile, offsets, n_taps, packed, out, out_tile, n_images);
        return;
    }
    int pixels = out_tile.pixels(), n_tasks = n_images * pixels * out_tile.units;
    for (int task = threadIdx.x; task < n_tasks; task += ES_FUSED_THREADS) {
        // neighbouring threads share an output unit, so that weights are broadcast
        int pixel = task % pixels, image = task / pixels % n_images;
        int unit = task / (pixels * n_images);
        int row = pixel / out_tile.size, column = pixel % out_tile.size;
        const float *from = in + in_tile.at(image, 0, row, column) * ES_FUSED_UNIT;
        const float *weights = (const float *)packed + (int64_t)unit * n_taps * 64;
        float sum[8] = {};
        for (int q = 0; q < n_taps; q++) {
            float x[8];
            es_unit_load(x, from + offsets[q]);
#pragma unroll
            for (int o = 0; o < 8; o++) {
                float w[8];
                es_unit_load(w, weights + q * 64 + o * 8);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    sum[o] = fmaf(x[c], w[es_packed_place(c, 0)], sum[o]);
                }
            }
        }
        es_unit_store(out + out_tile.at(image, unit, row, column) * ES_FUSED_UNIT, sum);
    }
}

// Weights that a warp keeps in registers, in steps of one output unit; 0: it loads them as it goes.
#define ES_FUSED_KEPT_STEPS 20

// One group of output units, for the pixels whose sets of 32 are `set`, set + set_step, ... STEPS
// is n_steps where that is known when compiled, else 0.
template <typename T, int UNITS, int STEPS>
static __device__ __forceinline__ void
es_convolve_units(const T *in, const EsTile &in_tile, const int *offsets, int n_steps,
                  const uint2 *weights, T *out, const EsTile &out_tile, int first_unit,
                  int n_images, int set, int set_step) {
    constexpr int TILES = 2;
    constexpr bool IS_KEPT = STEPS > 0 && STEPS * UNITS <= ES_FUSED_KEPT_STEPS;
    int lane = threadIdx.x % 32;
    int pixels = out_tile.pixels(), n_pixels = n_images * pixels;
    const int *offset = offsets + lane / 16;
    uint2 kept[IS_KEPT ? STEPS : 1][UNITS];
#pragma unroll
    for (int i = 0; IS_KEPT && i < STEPS * UNITS; i++) {
        kept[i / UNITS][i % UNITS] = __ldg(weights + (i % UNITS * STEPS + i / UNITS) * 32 + lane);
    }
    for (; set * 16 * TILES < n_pixels; set += set_step) {
        int first = set * 16 * TILES;
        const T *from[TILES];
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            int m = first + t * 16 + lane % 16;
            m = m < n_pixels ? m : 0;
            int image = out_tile.image_of(m);
            from[t] = in + in_tile.at_pixel(image, 0, m - image * pixels) * ES_FUSED_UNIT;
        }
        float sum[TILES][UNITS][4] = {};
#pragma unroll(STEPS > 0 ? STEPS : 2)
        for (int k = 0; k < n_steps; k++) {
            uint32_t a[TILES][4];
            int shift = offset[2 * k];
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                es_load_matrix_x4(a[t], from[t] + shift);
            }
#pragma unroll
            for (int u = 0; u < UNITS; u++) {
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
                T *to = out +
                        out_tile.at_pixel(image, first_unit, m - image * pixels) * ES_FUSED_UNIT +
                        2 * (lane % 4);
#pragma unroll
                for (int u = 0; u < UNITS; u++) {
                    const float(&v)[4] = sum[t / 2][u];
                    *(uint32_t *)(to + u * out_tile.plane() * ES_FUSED_UNIT) =
                        es_pair_bits(v[t % 2 * 2], v[t % 2 * 2 + 1], T());
                }
            }
        }
    }
}

// Warps share groups of up to UNITS output units, then the pixels of each. From a group's inputs to
// the next's are input_step elements: 0 where all read the same.
template <typename T, int UNITS, int STEPS>
static __device__ __forceinline__ void
es_convolve_groups(const T *in, int input_step, const EsTile &in_tile, const int *offsets,
                   int n_steps, const void *packed, T *out, const EsTile &out_tile, int n_images) {
    int warp = threadIdx.x / 32, n_groups = (out_tile.units + UNITS - 1) / UNITS;
    int n_side_by_side = n_groups < ES_FUSED_WARPS ? n_groups : ES_FUSED_WARPS;
    int n_sharing = ES_FUSED_WARPS / n_side_by_side;
    if (warp >= n_side_by_side * n_sharing) {
        return;
    }
    for (int group = warp % n_side_by_side; group < n_groups; group += n_side_by_side) {
        int first_unit = group * UNITS, set = warp / n_side_by_side;
        const uint2 *weights = (const uint2 *)packed + (int64_t)first_unit * n_steps * 32;
        const T *from = in + group * input_step;
        if (UNITS == 1 || out_tile.units - first_unit >= UNITS) {
            es_convolve_units<T, UNITS, STEPS>(from, in_tile, offsets, n_steps, weights, out,
                                               out_tile, first_unit, n_images, set, n_sharing);
        } else {
            for (int u = first_unit; u < out_tile.units; u++) {
                es_convolve_units<T, 1, 0>(from, in_tile, offsets, n_steps,
                                           weights + (int64_t)(u - first_unit) * n_steps * 32, out,
                                           out_tile, u, n_images, set, n_sharing);
            }
        }
    }
}

template <typename T, int TAPS, int OUT_UNITS>
static __device__ __forceinline__ void
es_tile_convolve(EsKnown<TAPS, OUT_UNITS>, const T *in, const EsTile &in_tile, const int *offsets,
                 int n_taps, const void *packed, T *out, const EsTile &out_tile, int n_images,
                 int is_tf32) {
    (void)is_tf32;
    constexpr int STEPS = (TAPS + 1) / 2;
    constexpr int UNITS = TAPS == 0                                            ? 2
                          : OUT_UNITS >= 2 && 2 * STEPS <= ES_FUSED_KEPT_STEPS ? 2
                                                                               : 1;
    es_convolve_groups<T, UNITS, STEPS>(in, 0, in_tile, offsets, (n_taps + 1) / 2, packed, out,
                                        out_tile, n_images);
}

// Taps of a depthwise 3x3, whose output units each read the input unit of their number. `offsets`
// are es_tap_offsets of a tile of one unit; `packed` has a diagonal matrix per unit and tap.
#define ES_DEPTHWISE_TAPS 9

template <typename T>
static __device__ __forceinline__ void
es_tile_depthwise(const T *in, const EsTile &in_tile, const int *offsets, const void *packed,
                  T *out, const EsTile &out_tile, int n_images) {
    constexpr int STEPS = (ES_DEPTHWISE_TAPS + 1) / 2;
    es_convolve_groups<T, 1, STEPS>(in, in_tile.plane() * ES_FUSED_UNIT, in_tile, offsets, STEPS,
                                    packed, out, out_tile, n_images);
}

// Of any size.
template <typename T>
static __device__ __forceinline__ void
es_tile_convolve(const T *in, const EsTile &in_tile, const int *offsets, int n_taps,
                 const void *packed, T *out, const EsTile &out_tile, int n_images, int is_tf32) {
    es_tile_convolve(EsKnown<0, 0>(), in, in_tile, offsets, n_taps, packed, out, out_tile, n_images,
                     is_tf32);
}

// --- gradient of weights ---
//
// Sums over the tile's images and pixels of d[o] in[q, c], as [q][o of units][8 c], q over taps and
// input units as in es_tap_offsets.

static __host__ __device__ __forceinline__ int es_weight_part_length(int n_taps, int out_units) {
    return n_taps * out_units * ES_FUSED_UNIT * ES_FUSED_UNIT;
}

// Input units that a warp takes at a time.
#define ES_FUSED_TAPS 10

// Shared memory that es_tile_weight_gradient needs besides the tiles, in bytes, at most: slices of
// pixels are added up there.
#define ES_FUSED_SCRATCH_BYTES (ES_FUSED_WARPS / 2 * ES_FUSED_TAPS * 128 * 4)

static constexpr __host__ __device__ __forceinline__ int es_weight_slices(int n_jobs) {
    return n_jobs > ES_FUSED_WARPS / 2 ? 1 : n_jobs > 2 ? 2 : ES_FUSED_WARPS / n_jobs;
}

// The same for one layer.
static constexpr __host__ __device__ __forceinline__ size_t es_weight_scratch_bytes(int n_taps,
                                                                                    int out_units) {
    int n_jobs = (out_units + 1) / 2 * ((n_taps + ES_FUSED_TAPS - 1) / ES_FUSED_TAPS);
    return (size_t)n_jobs * (size_t)(es_weight_slices(n_jobs) / 2) * ES_FUSED_TAPS * 128 * 4;
}

// A thread sums one [q][o] and 8 inputs. Contains barriers for the 16-bit version alone; callers
// treat both as if.
static __device__ void es_tile_weight_gradient(const float *in, EsTile in_tile, const int *offsets,
                                               int n_taps, const float *d, EsTile d_tile,
                                               int n_images, const float *zeros, float *scratch,
                                               float *part, int is_tf32) {
    (void)zeros, (void)scratch;
    if (is_tf32) {
        es_tile_weight_gradient_tf32(in, in_tile, offsets, n_taps, d, d_tile, n_images, part);
        return;
    }
    int n_out = d_tile.units * ES_FUSED_UNIT, n_tasks = n_taps * n_out;
    for (int task = threadIdx.x; task < n_tasks; task += ES_FUSED_THREADS) {
        int o = task % n_out, q = task / n_out;
        float sum[8] = {};
        for (int image = 0; image < n_images; image++) {
            for (int row = 0; row < d_tile.size; row++) {
                const float *from = in + in_tile.at(image, 0, row, 0) * ES_FUSED_UNIT + offsets[q];
                const float *of =
                    d + d_tile.at(image, o / ES_FUSED_UNIT, row, 0) * ES_FUSED_UNIT + o % 8;
                for (int column = 0; column < d_tile.size; column++) {
                    float x[8], g = of[column * ES_FUSED_UNIT];
                    es_unit_load(x, from + column * ES_FUSED_UNIT);
#pragma unroll
                    for (int c = 0; c < 8; c++) {
                        sum[c] = fmaf(g, x[c], sum[c]);
                    }
                }
            }
        }
        es_unit_store(part + (int64_t)task * ES_FUSED_UNIT, sum);
    }
}

// The slices of every job added up as a tree, the upper half onto the lower; slice 0 then has the
// sum. The warp's task is slice `slice` of job `job`. Contains barriers when there are several.
static __device__ __forceinline__ void es_weight_add_slices(float (&sum)[ES_FUSED_TAPS][4],
                                                            bool is_active, int job, int n_jobs,
                                                            int slice, int n_slices,
                                                            float *scratch) {
    int lane = threadIdx.x % 32;
    for (int half = n_slices / 2; half > 0; half /= 2) {
        bool gives = is_active && slice >= half && slice < 2 * half;
        bool takes = is_active && slice < half;
        float4 *kept =
            (float4 *)scratch + ((slice % half) * n_jobs + job) * ES_FUSED_TAPS * 32 + lane;
#pragma unroll
        for (int t = 0; gives && t < ES_FUSED_TAPS; t++) {
            kept[t * 32] = make_float4(sum[t][0], sum[t][1], sum[t][2], sum[t][3]);
        }
        __syncthreads();
#pragma unroll
        for (int t = 0; takes && t < ES_FUSED_TAPS; t++) {
            float4 other = kept[t * 32];
            sum[t][0] += other.x, sum[t][1] += other.y;
            sum[t][2] += other.z, sum[t][3] += other.w;
        }
        __syncthreads();
    }
}

// Sums over every n_slices-th chunk of 16 pixels of d of two units and the first n_here inputs at
// the given shifts: lanes 0-15 have the shift of the first of a pair, the others of the second.
// `zeros` is a unit of zeros in shared memory, read in place of pixels past the last.
template <typename T>
static __device__ __forceinline__ void
es_weight_sum_pixels(const T *in, const EsTile &in_tile, const int (&shift)[ES_FUSED_TAPS / 2],
                     int n_here, const T *d, const EsTile &d_tile, int unit0, int unit1,
                     int n_images, const T *zeros, int slice, int n_slices,
                     float (&sum)[ES_FUSED_TAPS][4]) {
    int lane = threadIdx.x % 32;
    int pixels = d_tile.pixels(), n_pixels = n_images * pixels;
    int unit_shift = (lane / 8 % 2 == 0 ? unit0 : unit1) * d_tile.plane();
    for (int chunk = slice; chunk * 16 < n_pixels; chunk += n_slices) {
        // of d: pixels 0-7 of both units, then 8-15
        int m = chunk * 16 + lane % 8 + lane / 16 * 8;
        int image = d_tile.image_of(m);
        const T *of =
            m < n_pixels
                ? d + (d_tile.at_pixel(image, 0, m - image * pixels) + unit_shift) * ES_FUSED_UNIT
                : zeros;
        uint32_t a[4];
        es_load_matrix_x4_transposed(a, of);
        int m_in = chunk * 16 + lane % 16, image_in = d_tile.image_of(m_in);
        bool is_inside = m_in < n_pixels;
        const T *from =
            is_inside ? in + in_tile.at_pixel(image_in, 0, m_in - image_in * pixels) * ES_FUSED_UNIT
                      : zeros;
        int mask = is_inside ? -1 : 0;
#pragma unroll
        for (int p = 0; p < ES_FUSED_TAPS / 2; p++) {
            if (2 * p < n_here) {
                uint32_t b[4];
                es_load_matrix_x4_transposed(b, from + (shift[p] & mask));
                const uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
                es_multiply_matrix<T>(sum[2 * p], a, b0);
                es_multiply_matrix<T>(sum[2 * p + 1], a, b1);
            }
        }
    }
}

// A warp takes 16 output channels, up to ES_FUSED_TAPS input units and a slice of the pixels.
template <typename T>
static __device__ __forceinline__ void
es_tile_weight_gradient(const T *in, const EsTile &in_tile, const int *offsets, int n_taps,
                        const T *d, const EsTile &d_tile, int n_images, const T *zeros,
                        float *scratch, float *part, int is_tf32) {
    (void)is_tf32;
    constexpr int PAIRS = ES_FUSED_TAPS / 2;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n_units = (d_tile.units + 1) / 2;
    int n_jobs = n_units * ((n_taps + ES_FUSED_TAPS - 1) / ES_FUSED_TAPS);
    int n_slices = es_weight_slices(n_jobs);
    int n_rounds = (n_jobs * n_slices + ES_FUSED_WARPS - 1) / ES_FUSED_WARPS;
    int row_length = d_tile.units * ES_FUSED_UNIT * ES_FUSED_UNIT;
    for (int round = 0; round < n_rounds; round++) {
        int task = round * ES_FUSED_WARPS + warp;
        bool is_active = task < n_jobs * n_slices;
        int job = task % n_jobs, slice = task / n_jobs;
        int first_tap = job / n_units * ES_FUSED_TAPS;
        int n_here = min(ES_FUSED_TAPS, n_taps - first_tap);
        int unit0 = job % n_units * 2, unit1 = min(unit0 + 1, d_tile.units - 1);
        int shift[PAIRS];
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            shift[p] = offsets[min(first_tap + 2 * p + lane / 16, n_taps - 1)];
        }
        float sum[ES_FUSED_TAPS][4] = {};
        if (is_active) {
            es_weight_sum_pixels(in, in_tile, shift, n_here, d, d_tile, unit0, unit1, n_images,
                                 zeros, slice, n_slices, sum);
        }
        float *to = part + (int64_t)first_tap * row_length +
                    (unit0 * ES_FUSED_UNIT + lane / 4) * ES_FUSED_UNIT + 2 * (lane % 4);
        es_weight_add_slices(sum, is_active, job, n_jobs, slice, n_slices, scratch);
#pragma unroll
        for (int t = 0; t < ES_FUSED_TAPS; t++) {
            if (is_active && slice == 0 && t < n_here) {
                *(float2 *)(to + t * row_length) = make_float2(sum[t][0], sum[t][1]);
                if (unit0 + 1 < d_tile.units) {
                    *(float2 *)(to + t * row_length + ES_FUSED_UNIT * ES_FUSED_UNIT) =
                        make_float2(sum[t][2], sum[t][3]);
                }
            }
        }
    }
}

// Shapes of a 3x3 convolution where they are known when compiled, else 0: input and output units,
// and maps of SIZE in two tiles with a border of 1.
template <int IN, int OUT, int SIZE> struct EsKnownMaps {
    static constexpr int SIDE = SIZE + 2, PLANE = SIDE * SIDE;
    static constexpr int PAIRS = (9 * IN + 1) / 2; // of es_tap_offsets' inputs
    // A warp takes one output unit and a slice of every image's rows.
    static constexpr int SLICES = ES_FUSED_WARPS / (OUT > 0 ? OUT : 1);
    static constexpr int ROWS = SIZE / SLICES;

    // es_tap_offsets' input q; past the last, that one again.
    static __device__ __forceinline__ int offset(int q) {
        q = min(q, 9 * IN - 1);
        int tap = q / IN, unit = q % IN;
        return (unit * PLANE + (tap / 3 - 1) * SIDE + tap % 3 - 1) * ES_FUSED_UNIT;
    }
    // Pixel i of a map, from its first.
    static __device__ __forceinline__ int pixel(int i) {
        return (i / SIZE * SIDE + i % SIZE) * ES_FUSED_UNIT;
    }
};

// Sums of one output unit over the rows that start at `in` and `d` in the first of n_images images:
// sum[p] is [inputs 2 p and 2 p + 1, 8 channels each][8 outputs]. Two inputs fill the product's 16
// rows, so that a single output unit leaves nothing of it empty.
template <typename T, int IN, int OUT, int SIZE>
static __device__ __forceinline__ void
es_weight_sum_rows(EsKnownMaps<IN, OUT, SIZE>, const T *in, const T *d, int n_images,
                   float (&sum)[EsKnownMaps<IN, OUT, SIZE>::PAIRS][4]) {
    using Maps = EsKnownMaps<IN, OUT, SIZE>;
    constexpr int SETS = Maps::ROWS * SIZE / 32;
    static_assert(SETS > 0, "a slice of rows has 32 pixels or more");
    int lane = threadIdx.x % 32;
    // of d: pixels 0-7, 8-15, 16-23, 24-31; of in: pixels 0-7 of two inputs, then 8-15
    d += Maps::pixel(lane);
    in += Maps::pixel(lane % 8 + lane / 16 * 8);
    int shift[Maps::PAIRS];
#pragma unroll
    for (int p = 0; p < Maps::PAIRS; p++) {
        shift[p] = lane / 8 % 2 == 0 ? Maps::offset(2 * p) : Maps::offset(2 * p + 1);
    }
    for (int image = 0; image < n_images; image++) {
#pragma unroll
        for (int set = 0; set < SETS; set++) {
            uint32_t b[4];
            es_load_matrix_x4_transposed(b, d + Maps::pixel(32 * set));
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint32_t b_half[2] = {b[2 * half], b[2 * half + 1]};
#pragma unroll
                for (int p = 0; p < Maps::PAIRS; p++) {
                    uint32_t a[4];
                    es_load_matrix_x4_transposed(a,
                                                 in + shift[p] + Maps::pixel(32 * set + 16 * half));
                    es_multiply_matrix<T>(sum[p], a, b_half);
                }
            }
        }
        in += IN * Maps::PLANE * ES_FUSED_UNIT;
        d += OUT * Maps::PLANE * ES_FUSED_UNIT;
    }
}

// The same for known shapes. Slices share the adding up: slice p % SLICES of a unit finishes pair
// p. Contains a barrier. `scratch` as for any shape.
template <typename T, int IN, int OUT, int SIZE>
static __device__ __forceinline__ void
es_tile_weight_gradient(EsKnownMaps<IN, OUT, SIZE> known, const T *in, const T *d, int n_images,
                        float *scratch, float *part) {
    using Maps = EsKnownMaps<IN, OUT, SIZE>;
    constexpr int OTHERS = Maps::SLICES - 1;
    static_assert(OUT * Maps::PAIRS * OTHERS * 512 <= es_weight_scratch_bytes(9 * IN, OUT), "");
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int unit = warp % OUT, slice = warp / OUT;
    int first = ((slice * Maps::ROWS + 1) * Maps::SIDE + 1) * ES_FUSED_UNIT;
    float sum[Maps::PAIRS][4] = {};
    es_weight_sum_rows(known, in + first, d + first + unit * Maps::PLANE * ES_FUSED_UNIT, n_images,
                       sum);
    float4 *kept = (float4 *)scratch + unit * 32 + lane; // [pair][other slices][unit][lane]
#pragma unroll
    for (int p = 0; p < Maps::PAIRS; p++) {
        int mine = slice < p % Maps::SLICES ? slice : slice - 1;
        if (slice != p % Maps::SLICES) {
            kept[(p * OTHERS + mine) * OUT * 32] =
                make_float4(sum[p][0], sum[p][1], sum[p][2], sum[p][3]);
        }
    }
    __syncthreads();
    // lane has input lane / 4 of both, and outputs 2 (lane % 4) and the next
    part += (unit * ES_FUSED_UNIT + 2 * (lane % 4)) * ES_FUSED_UNIT + lane / 4;
#pragma unroll
    for (int p = 0; p < Maps::PAIRS; p++) {
        float *to = part + 2 * p * OUT * ES_FUSED_UNIT * ES_FUSED_UNIT;
        if (slice == p % Maps::SLICES) {
#pragma unroll
            for (int s = 0; s < OTHERS; s++) {
                float4 other = kept[(p * OTHERS + s) * OUT * 32];
                sum[p][0] += other.x, sum[p][1] += other.y;
                sum[p][2] += other.z, sum[p][3] += other.w;
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (2 * p + i / 2 < 9 * IN) {
                    to[(i / 2 * OUT * ES_FUSED_UNIT + i % 2) * ES_FUSED_UNIT] = sum[p][i];
                }
            }
        }
    }
}

// Of a depthwise 3x3's weights, as [tap % 2][tap / 2][channels of units]; offsets as for
// es_tile_depthwise. A warp takes one unit, all taps and a slice of the pixels; what an input
// channel has to do with other outputs is summed, too, and left.
template <typename T>
static __device__ __forceinline__ void
es_tile_depthwise_gradient(const T *in, const EsTile &in_tile, const int *offsets, const T *d,
                           const EsTile &d_tile, int n_images, const T *zeros, float *scratch,
                           float *part) {
    constexpr int PAIRS = ES_FUSED_TAPS / 2;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n_units = d_tile.units, n_slices = es_weight_slices(n_units);
    int n_rounds = (n_units * n_slices + ES_FUSED_WARPS - 1) / ES_FUSED_WARPS;
    int shift[PAIRS];
#pragma unroll
    for (int p = 0; p < PAIRS; p++) {
        shift[p] = offsets[min(2 * p + lane / 16, ES_DEPTHWISE_TAPS - 1)];
    }
    for (int round = 0; round < n_rounds; round++) {
        int task = round * ES_FUSED_WARPS + warp, slice = task / n_units;
        int unit = task - slice * n_units;
        bool is_active = slice < n_slices;
        float sum[ES_FUSED_TAPS][4] = {};
        if (is_active) {
            es_weight_sum_pixels(in + unit * in_tile.plane() * ES_FUSED_UNIT, in_tile, shift,
                                 ES_DEPTHWISE_TAPS, d, d_tile, unit, unit, n_images, zeros, slice,
                                 n_slices, sum);
        }
        es_weight_add_slices(sum, is_active, unit, n_units, slice, n_slices, scratch);
        // lane has inputs 2 (lane % 4) and the next of output lane / 4
        if (is_active && slice == 0 && lane / 8 == lane % 4) {
            float *to = part + unit * ES_FUSED_UNIT + lane / 4;
#pragma unroll
            for (int t = 0; t < ES_DEPTHWISE_TAPS; t++) {
                to[(t % 2 * PAIRS + t / 2) * n_units * ES_FUSED_UNIT] =
                    lane / 4 % 2 == 0 ? sum[t][0] : sum[t][1];
            }
        }
    }
}

// --- sums per channel ---

// Sums over a warp of 16 numbers: lanes 2 i and 2 i + 1 get that of number i. Each exchange halves
// what a lane still adds up.
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

// Two sums per channel over `count` positions: visit(unit, position, values) adds what position
// contributes to values[2][8]. A warp takes one unit and a slice of the positions; lanes, then
// slices are added in a fixed order. totals [2][units * 8] may be anywhere. `kept` is
// [ES_FUSED_WARPS][2][8] of shared memory. Begins and ends with a barrier.
template <typename Visit>
static __device__ __forceinline__ void es_channel_sums(int units, int count, float *kept,
                                                       float *totals, Visit visit) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n_slices = units < ES_FUSED_WARPS ? ES_FUSED_WARPS / units : 1;
    __syncthreads(); // what is summed may be fresh, and `kept` still be read
    for (int first = 0; first < units; first += ES_FUSED_WARPS) {
        int n_here = min(units - first, ES_FUSED_WARPS);
        int unit = warp % n_here, slice = warp / n_here;
        float values[2][8] = {};
        for (int i = slice * 32 + lane; slice < n_slices && i < count; i += n_slices * 32) {
            visit(first + unit, i, values);
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
            int which = i / 8 % 2, channel = (first + i / 16) * ES_FUSED_UNIT + i % 8;
            totals[which * units * ES_FUSED_UNIT + channel] = total;
        }
        __syncthreads();
    }
}

#include "growth/fused_tf32.cuh"

#endif
