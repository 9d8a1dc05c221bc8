// Maps of a few images in shared memory, and what the fused kernels do with them: convolutions and
// their gradients, on the tensor cores for 16-bit types, with plain multiply-adds for float.
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
    return (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(a)) |
           (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(b)) << 16;
}

static __device__ __forceinline__ uint32_t es_pair_bits(float a, float b, __half) {
    return (uint32_t)__half_as_ushort(__float2half_rn(a)) |
           (uint32_t)__half_as_ushort(__float2half_rn(b)) << 16;
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

// What a value becomes when it is stored as T.
static __device__ __forceinline__ float es_rounded(float v, float) { return v; }
static __device__ __forceinline__ float es_rounded(float v, __nv_bfloat16) {
    return __bfloat162float(__float2bfloat16_rn(v));
}
static __device__ __forceinline__ float es_rounded(float v, __half) {
    return __half2float(__float2half_rn(v));
}

// --- tiles ---

struct EsTile {
    int units, size, border;

    __host__ __device__ int side() const { return size + 2 * border; }
    __host__ __device__ int plane() const { return side() * side(); }
    __host__ __device__ int pixels() const { return size * size; }
    __host__ __device__ int image_units() const { return units * plane(); }
    // In units from the start of the tile.
    __host__ __device__ int at(int image, int unit, int row, int column) const {
        return (image * units + unit) * plane() + (row + border) * side() + column + border;
    }
};

template <typename T> static __host__ __device__ size_t es_tile_bytes(EsTile tile, int n_images) {
    return (size_t)n_images * (size_t)tile.image_units() * ES_FUSED_UNIT * sizeof(T);
}

// Zero everything; cheaper than finding the border.
template <typename T> static __device__ void es_tile_clear(T *tile, EsTile shape, int n_images) {
    uint4 *words = (uint4 *)tile;
    int n_words = (int)(es_tile_bytes<T>(shape, n_images) / sizeof(uint4));
    for (int i = threadIdx.x; i < n_words; i += ES_FUSED_THREADS) {
        words[i] = make_uint4(0, 0, 0, 0);
    }
}

// Where each unit of a convolution's inputs lies: tap by tap, unit by unit, in elements from a
// pixel's own unit 0. [kernel^2 * units], one more when that is odd.
static __host__ __device__ __forceinline__ int es_tap_units(EsTile in, int kernel) {
    return kernel * kernel * in.units;
}

static __device__ void es_tap_offsets(int *offsets, EsTile in, int kernel) {
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
// lanes of two words. float: for each output unit and input unit [8 inputs][8 outputs].

template <typename T> static __host__ __device__ size_t es_packed_bytes(int n_taps, int out_units) {
    int n_steps = (n_taps + 1) / 2;
    return sizeof(T) == 4 ? (size_t)out_units * (size_t)n_taps * 64 * sizeof(float)
                          : (size_t)out_units * (size_t)n_steps * 32 * sizeof(uint2);
}

// --- convolution ---

// out[pixel][o] = sum over taps and inputs; out has any border, which is left alone. The first
// n_images of both tiles.
static __device__ void es_tile_convolve(const float *in, EsTile in_tile, const int *offsets,
                                        int n_taps, const void *packed, float *out, EsTile out_tile,
                                        int n_images) {
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
            for (int c = 0; c < 8; c++) {
                float w[8];
                es_unit_load(w, weights + q * 64 + c * 8);
#pragma unroll
                for (int o = 0; o < 8; o++) {
                    sum[o] = fmaf(x[c], w[o], sum[o]);
                }
            }
        }
        es_unit_store(out + out_tile.at(image, unit, row, column) * ES_FUSED_UNIT, sum);
    }
}

// A warp takes 16 pixels and up to 4 output units at a time.
template <typename T>
static __device__ void es_tile_convolve(const T *in, EsTile in_tile, const int *offsets, int n_taps,
                                        const void *packed, T *out, EsTile out_tile, int n_images) {
    constexpr int UNITS = 4;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int pixels = out_tile.pixels(), n_pixels = n_images * pixels;
    int n_steps = (n_taps + 1) / 2, n_groups = (out_tile.units + UNITS - 1) / UNITS;
    int n_tasks = (n_pixels + 15) / 16 * n_groups;
    for (int task = warp; task < n_tasks; task += ES_FUSED_WARPS) {
        int first_unit = task % n_groups * UNITS, first = task / n_groups * 16;
        int n_units = min(UNITS, out_tile.units - first_unit);
        int m = first + lane % 16;
        m = m < n_pixels ? m : 0;
        int pixel = m % pixels;
        const T *from =
            in +
            in_tile.at(m / pixels, 0, pixel / out_tile.size, pixel % out_tile.size) * ES_FUSED_UNIT;
        const uint2 *weights = (const uint2 *)packed + (int64_t)first_unit * n_steps * 32 + lane;
        float sum[UNITS][4] = {};
        for (int k = 0; k < n_steps; k++) {
            uint32_t a[4];
            es_load_matrix_x4(a, from + offsets[2 * k + lane / 16]);
#pragma unroll
            for (int u = 0; u < UNITS; u++) {
                if (u < n_units) {
                    uint2 w = __ldg(weights + (u * n_steps + k) * 32);
                    const uint32_t b[2] = {w.x, w.y};
                    es_multiply_matrix<T>(sum[u], a, b);
                }
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int to = first + lane / 4 + half * 8;
            int p = to % pixels;
            if (to < n_pixels) {
                int at = out_tile.at(to / pixels, first_unit, p / out_tile.size, p % out_tile.size);
#pragma unroll
                for (int u = 0; u < UNITS; u++) {
                    if (u < n_units) {
                        *(uint32_t *)(out + (at + u * out_tile.plane()) * ES_FUSED_UNIT +
                                      2 * (lane % 4)) =
                            es_pair_bits(sum[u][2 * half], sum[u][2 * half + 1], T());
                    }
                }
            }
        }
    }
}

// --- gradient of weights ---
//
// Sums over the tile's images and pixels of d[o] in[q, c], as [q][o of units][8 c], q over taps and
// input units as in es_tap_offsets.

static __host__ __device__ __forceinline__ int es_weight_part_length(int n_taps, int out_units) {
    return n_taps * out_units * ES_FUSED_UNIT * ES_FUSED_UNIT;
}

// Shared memory that es_tile_weight_gradient needs besides the tiles, in bytes. Slices of pixels
// are added up there.
#define ES_FUSED_SCRATCH_BYTES (ES_FUSED_WARPS / 2 * 5 * 128 * 4)

// A thread sums one [q][o] and 8 inputs. Contains barriers for the 16-bit version alone; callers
// treat both as if.
static __device__ void es_tile_weight_gradient(const float *in, EsTile in_tile, const int *offsets,
                                               int n_taps, const float *d, EsTile d_tile,
                                               int n_images, const float *zeros, float *scratch,
                                               float *part) {
    (void)zeros, (void)scratch;
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

// A warp takes 16 output channels, up to 5 input units and a slice of the pixels. `zeros` is a unit
// of zeros in shared memory, read in place of pixels past the last.
template <typename T>
static __device__ void es_tile_weight_gradient(const T *in, EsTile in_tile, const int *offsets,
                                               int n_taps, const T *d, EsTile d_tile, int n_images,
                                               const T *zeros, float *scratch, float *part) {
    constexpr int TAPS = 5;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int pixels = d_tile.pixels(), n_pixels = n_images * pixels;
    int n_chunks = (n_pixels + 15) / 16;
    int n_pairs = (d_tile.units + 1) / 2, n_sets = (n_taps + TAPS - 1) / TAPS;
    int n_jobs = n_pairs * n_sets;
    int n_slices = n_jobs < ES_FUSED_WARPS ? ES_FUSED_WARPS / n_jobs : 1;
    int n_rounds = (n_jobs * n_slices + ES_FUSED_WARPS - 1) / ES_FUSED_WARPS;
    for (int round = 0; round < n_rounds; round++) {
        int task = round * ES_FUSED_WARPS + warp;
        bool is_active = task < n_jobs * n_slices;
        int job = task % n_jobs, slice = task / n_jobs;
        int first_tap = job / n_pairs * TAPS, n_here = min(TAPS, n_taps - first_tap);
        int unit0 = job % n_pairs * 2, unit1 = min(unit0 + 1, d_tile.units - 1);
        float sum[TAPS][4] = {};
        for (int chunk = slice; is_active && chunk < n_chunks; chunk += n_slices) {
            // lanes name pixels 0-7 of both units, then 8-15; of the inputs 0-7, then 8-15
            int m = chunk * 16 + lane % 8 + lane / 16 * 8;
            int pixel = m % pixels, image = m / pixels;
            int row = pixel / d_tile.size, column = pixel % d_tile.size;
            int unit = lane / 8 % 2 == 0 ? unit0 : unit1;
            const T *of =
                m < n_pixels ? d + d_tile.at(image, unit, row, column) * ES_FUSED_UNIT : zeros;
            uint32_t a[4];
            es_load_matrix_x4_transposed(a, of);
            int m_in = chunk * 16 + lane % 16;
            bool is_inside = m_in < n_pixels;
            int pixel_in = m_in % pixels;
            const T *from =
                in + in_tile.at(m_in / pixels, 0, pixel_in / d_tile.size, pixel_in % d_tile.size) *
                         ES_FUSED_UNIT;
#pragma unroll
            for (int t = 0; t < TAPS; t++) {
                if (t < n_here) {
                    uint32_t b[2];
                    es_load_matrix_x2_transposed(b,
                                                 is_inside ? from + offsets[first_tap + t] : zeros);
                    es_multiply_matrix<T>(sum[t], a, b);
                }
            }
        }
        // slices in their order; with one slice straight to memory
        for (int s = 0; s < n_slices; s++) {
            bool is_last = s == n_slices - 1;
#pragma unroll
            for (int t = 0; t < TAPS; t++) {
                float *kept = scratch + ((job * TAPS + t) * 32 + lane) * 4;
                for (int i = 0; is_active && slice == s && t < n_here && i < 4; i++) {
                    sum[t][i] += s > 0 ? kept[i] : 0.0f;
                    if (!is_last) {
                        kept[i] = sum[t][i];
                    }
                }
                int o = unit0 * ES_FUSED_UNIT + lane / 4;
                float *to =
                    part +
                    ((int64_t)(first_tap + t) * d_tile.units * ES_FUSED_UNIT + o) * ES_FUSED_UNIT +
                    2 * (lane % 4);
                if (is_active && slice == s && is_last && t < n_here) {
                    *(float2 *)to = make_float2(sum[t][0], sum[t][1]);
                    if (unit0 + 1 < d_tile.units) {
                        *(float2 *)(to + ES_FUSED_UNIT * ES_FUSED_UNIT) =
                            make_float2(sum[t][2], sum[t][3]);
                    }
                }
            }
            if (n_slices > 1) {
                __syncthreads();
            }
        }
    }
}

// --- sums per channel ---

// Two sums per channel over `count` positions: visit(unit, position, values) adds what position
// contributes to values[2][8]. A warp takes one unit and a slice of the positions; lanes, then
// slices are added in a fixed order. totals [2][units * 8] may be anywhere. `kept` is
// [ES_FUSED_WARPS][2][8] of shared memory. Begins and ends with a barrier.
template <typename Visit>
static __device__ void es_channel_sums(int units, int count, float *kept, float *totals,
                                       Visit visit) {
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
#pragma unroll
        for (int c = 0; c < 8; c++) {
            float sum = es_warp_sum(values[0][c]), other = es_warp_sum(values[1][c]);
            if (lane == 0) {
                kept[warp * 16 + c] = sum;
                kept[warp * 16 + 8 + c] = other;
            }
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

#endif
