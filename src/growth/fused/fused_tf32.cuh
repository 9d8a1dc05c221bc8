// Convolutions of float tiles and their weights' gradients on the tensor cores, in TF32: operands
// are rounded to the nearest TF32 on their way into registers (weights when they are packed), sums
// are f32, and tiles stay float. fused_convolve.cuh and fused_wgrad.cuh choose.
#ifndef ES_GROWTH_FUSED_TF32_CUH
#define ES_GROWTH_FUSED_TF32_CUH

#include "growth/fused/fused_tile.cuh"
#include "kernels/cuda/cuda_matrix.cuh"

// Input channel groups that a warp sums at a time: a 3x3 kernel of one channel group.
#define ES_TF32_TAPS 9

// The a operand of 16 pixels and a channel group. `row` is es_tf32_row of this lane's pixel.
//
// Pixels are 32 bytes apart, so that the same half of eight of them would meet every bank twice.
// Matrices therefore take the first half of four pixels and the second half of the next four; lanes
// that hold the latter exchange halves.
static __device__ __forceinline__ void es_tf32_load(uint32_t (&a)[4], const float *row) {
    uint32_t r[4];
    es_load_matrix_x4(r, row);
    bool is_exchanged = threadIdx.x % 32 >= 16;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        a[i] = es_tf32(__uint_as_float(is_exchanged ? r[i ^ 2] : r[i]));
    }
}

static __device__ __forceinline__ int es_tf32_row(int lane) {
    return (lane / 16 ^ lane / 4 % 2) * (ES_C8 / 2);
}

// A warp takes 32 pixels and up to 4 output channel groups at a time. Not inlined: added to those
// of the kernels its registers would spill in the loop.
static __device__ __noinline__ void es_tile_convolve_tf32(const float *in, EsTile in_tile,
                                                          const int *offsets, int n_taps,
                                                          const void *packed, float *out,
                                                          EsTile out_tile, int n_images) {
    constexpr int C8 = 4, TILES = 2;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int pixels = out_tile.pixels(), n_pixels = n_images * pixels;
    int n_groups = (out_tile.n_c8 + C8 - 1) / C8;
    int n_sets = (n_pixels + 16 * TILES - 1) / (16 * TILES);
    for (int task = warp; task < n_sets * n_groups; task += ES_FUSED_WARPS) {
        int first_c8 = task % n_groups * C8, first = task / n_groups * 16 * TILES;
        int n_c8 = min(C8, out_tile.n_c8 - first_c8);
        int from[TILES];
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            int m = first + t * 16 + lane % 16;
            m = m < n_pixels ? m : 0;
            int image = out_tile.image_of(m);
            from[t] = in_tile.at_pixel(image, 0, m - image * pixels) * ES_C8 + es_tf32_row(lane);
        }
        const uint2 *weights = (const uint2 *)packed + (int64_t)first_c8 * n_taps * 32 + lane;
        float sum[TILES][C8][4] = {};
#pragma unroll 2
        for (int q = 0; q < n_taps; q++) {
            uint32_t a[TILES][4];
            int shift = offsets[q];
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                es_tf32_load(a[t], in + (from[t] + shift));
            }
#pragma unroll
            for (int u = 0; u < C8; u++) {
                if (u < n_c8) {
                    uint2 w = __ldg(weights + (u * n_taps + q) * 32);
                    const uint32_t b[2] = {w.x, w.y};
#pragma unroll
                    for (int t = 0; t < TILES; t++) {
                        es_multiply_tf32(sum[t][u], a[t], b);
                    }
                }
            }
        }
#pragma unroll
        for (int t = 0; t < 2 * TILES; t++) {
            int m = first + lane / 4 + t * 8;
            if (m < n_pixels) {
                int image = out_tile.image_of(m);
                float *to = out + out_tile.at_pixel(image, first_c8, m - image * pixels) * ES_C8 +
                            2 * (lane % 4);
#pragma unroll
                for (int u = 0; u < C8; u++) {
                    if (u < n_c8) {
                        const float(&v)[4] = sum[t / 2][u];
                        *(float2 *)(to + u * out_tile.plane() * ES_C8) =
                            make_float2(v[t % 2 * 2], v[t % 2 * 2 + 1]);
                    }
                }
            }
        }
    }
}

// Sums over all pixels of d of two channel groups (`second` floats apart) and inputs at the given
// shifts.
static __device__ __forceinline__ void
es_tf32_sum_pixels(const float *in, EsTile in_tile, const float *d, EsTile d_tile, int second,
                   int n_images, const int (&shift)[ES_TF32_TAPS], int n_here,
                   float (&sum)[ES_TF32_TAPS][4]) {
    int lane = threadIdx.x % 32, pixels = d_tile.pixels(), n_pixels = n_images * pixels;
    for (int first = 0; first < n_pixels; first += 8) {
        uint32_t a[4];
        const float *from[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            // past the last pixel d is 0; the input may then be any that is there
            int m = first + h * 4 + lane % 4;
            bool is_inside = m < n_pixels;
            m = is_inside ? m : 0;
            int image = d_tile.image_of(m), pixel = m - image * pixels;
            const float *of = d + d_tile.at_pixel(image, 0, pixel) * ES_C8 + lane / 4;
            a[2 * h] = is_inside ? es_tf32(of[0]) : 0;
            a[2 * h + 1] = is_inside ? es_tf32(of[second]) : 0;
            from[h] = in + in_tile.at_pixel(image, 0, pixel) * ES_C8 + lane / 4;
        }
#pragma unroll
        for (int t = 0; t < ES_TF32_TAPS; t++) {
            if (t < n_here) {
                const uint32_t b[2] = {es_tf32(from[0][shift[t]]), es_tf32(from[1][shift[t]])};
                es_multiply_tf32(sum[t], a, b);
            }
        }
    }
}

// A warp takes 16 output channels and some of the input channel groups, as few as keep all warps
// busy; four neighbouring pixels of a channel group are 32 floats, one of each bank.
static __device__ void es_tile_wgrad_tf32(const float *in, EsTile in_tile, const int *offsets,
                                          int n_taps, const float *d, EsTile d_tile, int n_images,
                                          float *partial) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n_c8 = (d_tile.n_c8 + 1) / 2;
    int n_each = min(ES_TF32_TAPS, (n_c8 * n_taps + ES_FUSED_WARPS - 1) / ES_FUSED_WARPS);
    int n_jobs = n_c8 * ((n_taps + n_each - 1) / n_each);
    int row_length = d_tile.n_c8 * ES_C8 * ES_C8;
    for (int job = warp; job < n_jobs; job += ES_FUSED_WARPS) {
        int first_tap = job / n_c8 * n_each, n_here = min(n_each, n_taps - first_tap);
        int c8 = job % n_c8 * 2;
        bool has_second = c8 + 1 < d_tile.n_c8;
        int shift[ES_TF32_TAPS];
#pragma unroll
        for (int t = 0; t < ES_TF32_TAPS; t++) {
            shift[t] = offsets[min(first_tap + t, n_taps - 1)];
        }
        float sum[ES_TF32_TAPS][4] = {};
        es_tf32_sum_pixels(in, in_tile, d + c8 * d_tile.plane() * ES_C8, d_tile,
                           has_second ? d_tile.plane() * ES_C8 : 0, n_images, shift, n_here, sum);
        float *to = partial + (int64_t)first_tap * row_length + (c8 * ES_C8 + lane / 4) * ES_C8 +
                    2 * (lane % 4);
#pragma unroll
        for (int t = 0; t < ES_TF32_TAPS; t++) {
            if (t < n_here) {
                *(float2 *)(to + t * row_length) = make_float2(sum[t][0], sum[t][1]);
                if (has_second) {
                    *(float2 *)(to + t * row_length + ES_C8 * ES_C8) =
                        make_float2(sum[t][2], sum[t][3]);
                }
            }
        }
    }
}

#endif
