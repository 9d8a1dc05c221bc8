// wgrad of a convolution, from tiles of its input and of its output's gradient.
//
// Sums over the tile's images and pixels of d[o] in[q, c], as [q][padded o][8 c], q over taps and
// input channel groups as in es_tap_offsets.
#ifndef ES_GROWTH_FUSED_WGRAD_CUH
#define ES_GROWTH_FUSED_WGRAD_CUH

#include "growth/fused/fused_tf32.cuh"

static __host__ __device__ __forceinline__ int es_weight_partial_length(int n_taps, int out_c8) {
    return n_taps * out_c8 * ES_C8 * ES_C8;
}

// Input channel groups that a warp takes at a time.
#define ES_FUSED_TAPS 10

static constexpr __host__ __device__ __forceinline__ int es_weight_slices(int n_jobs) {
    return n_jobs > ES_FUSED_WARPS / 2 ? 1 : n_jobs > 2 ? 2 : ES_FUSED_WARPS / n_jobs;
}

// Shared memory that es_tile_wgrad needs besides the tiles, in bytes: slices of pixels
// are added up there.
static constexpr __host__ __device__ __forceinline__ size_t es_weight_scratch_bytes(int n_taps,
                                                                                    int out_c8) {
    int n_jobs = (out_c8 + 1) / 2 * ((n_taps + ES_FUSED_TAPS - 1) / ES_FUSED_TAPS);
    return (size_t)n_jobs * (size_t)(es_weight_slices(n_jobs) / 2) * ES_FUSED_TAPS * 128 * 4;
}

// A thread sums one [q][o] and 8 inputs. Contains barriers for the 16-bit version alone; callers
// treat both as if.
static __device__ void es_tile_wgrad(const float *in, EsTile in_tile, const int *offsets,
                                     int n_taps, const float *d, EsTile d_tile, int n_images,
                                     const float *zeros, float *scratch, float *partial,
                                     int is_tf32) {
    (void)zeros, (void)scratch;
    if (is_tf32) {
        es_tile_wgrad_tf32(in, in_tile, offsets, n_taps, d, d_tile, n_images, partial);
        return;
    }
    int n_out = d_tile.n_c8 * ES_C8, n_tasks = n_taps * n_out;
    for (int task = threadIdx.x; task < n_tasks; task += ES_FUSED_THREADS) {
        int o = task % n_out, q = task / n_out;
        float sum[8] = {};
        for (int image = 0; image < n_images; image++) {
            for (int row = 0; row < d_tile.size; row++) {
                const float *from = in + in_tile.at(image, 0, row, 0) * ES_C8 + offsets[q];
                const float *of = d + d_tile.at(image, o / ES_C8, row, 0) * ES_C8 + o % 8;
                for (int column = 0; column < d_tile.size; column++) {
                    float x[8], g = of[column * ES_C8];
                    es_c8_load(x, from + column * ES_C8);
#pragma unroll
                    for (int c = 0; c < 8; c++) {
                        sum[c] = fmaf(g, x[c], sum[c]);
                    }
                }
            }
        }
        es_c8_store(partial + (int64_t)task * ES_C8, sum);
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

// Sums over every n_slices-th chunk of 16 pixels of d of two channel groups and the first n_here
// inputs at the given shifts: lanes 0-15 have the shift of the first of a pair, the others of the
// second. `zeros` is a channel group of zeros in shared memory, read in place of pixels past the
// last.
template <typename T>
static __device__ __forceinline__ void
es_weight_sum_pixels(const T *in, const EsTile &in_tile, const int (&shift)[ES_FUSED_TAPS / 2],
                     int n_here, const T *d, const EsTile &d_tile, int c80, int c81, int n_images,
                     const T *zeros, int slice, int n_slices, float (&sum)[ES_FUSED_TAPS][4]) {
    int lane = threadIdx.x % 32;
    int pixels = d_tile.pixels(), n_pixels = n_images * pixels;
    int c8_shift = (lane / 8 % 2 == 0 ? c80 : c81) * d_tile.plane();
    for (int chunk = slice; chunk * 16 < n_pixels; chunk += n_slices) {
        // of d: pixels 0-7 of both channel groups, then 8-15
        int m = chunk * 16 + lane % 8 + lane / 16 * 8;
        int image = d_tile.image_of(m);
        const T *of = m < n_pixels
                          ? d + (d_tile.at_pixel(image, 0, m - image * pixels) + c8_shift) * ES_C8
                          : zeros;
        uint32_t a[4];
        es_load_matrix_x4_transposed(a, of);
        int m_in = chunk * 16 + lane % 16, image_in = d_tile.image_of(m_in);
        bool is_inside = m_in < n_pixels;
        const T *from = is_inside
                            ? in + in_tile.at_pixel(image_in, 0, m_in - image_in * pixels) * ES_C8
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

// A warp takes 16 output channels, up to ES_FUSED_TAPS input channel groups and a slice of the
// pixels.
template <typename T>
static __device__ __forceinline__ void
es_tile_wgrad(const T *in, const EsTile &in_tile, const int *offsets, int n_taps, const T *d,
              const EsTile &d_tile, int n_images, const T *zeros, float *scratch, float *partial,
              int is_tf32) {
    (void)is_tf32;
    constexpr int PAIRS = ES_FUSED_TAPS / 2;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n_c8 = (d_tile.n_c8 + 1) / 2;
    int n_jobs = n_c8 * ((n_taps + ES_FUSED_TAPS - 1) / ES_FUSED_TAPS);
    int n_slices = es_weight_slices(n_jobs);
    int n_rounds = (n_jobs * n_slices + ES_FUSED_WARPS - 1) / ES_FUSED_WARPS;
    int row_length = d_tile.n_c8 * ES_C8 * ES_C8;
    for (int round = 0; round < n_rounds; round++) {
        int task = round * ES_FUSED_WARPS + warp;
        bool is_active = task < n_jobs * n_slices;
        int job = task % n_jobs, slice = task / n_jobs;
        int first_tap = job / n_c8 * ES_FUSED_TAPS;
        int n_here = min(ES_FUSED_TAPS, n_taps - first_tap);
        int c80 = job % n_c8 * 2, c81 = min(c80 + 1, d_tile.n_c8 - 1);
        int shift[PAIRS];
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            shift[p] = offsets[min(first_tap + 2 * p + lane / 16, n_taps - 1)];
        }
        float sum[ES_FUSED_TAPS][4] = {};
        if (is_active) {
            es_weight_sum_pixels(in, in_tile, shift, n_here, d, d_tile, c80, c81, n_images, zeros,
                                 slice, n_slices, sum);
        }
        float *to = partial + (int64_t)first_tap * row_length + (c80 * ES_C8 + lane / 4) * ES_C8 +
                    2 * (lane % 4);
        es_weight_add_slices(sum, is_active, job, n_jobs, slice, n_slices, scratch);
#pragma unroll
        for (int t = 0; t < ES_FUSED_TAPS; t++) {
            if (is_active && slice == 0 && t < n_here) {
                *(float2 *)(to + t * row_length) = make_float2(sum[t][0], sum[t][1]);
                if (c80 + 1 < d_tile.n_c8) {
                    *(float2 *)(to + t * row_length + ES_C8 * ES_C8) =
                        make_float2(sum[t][2], sum[t][3]);
                }
            }
        }
    }
}

// Shapes of a 3x3 convolution that are known when compiled: input and output channel groups, and
// maps of SIZE in two tiles with a border of 1.
template <int IN, int OUT, int SIZE> struct EsKnownMaps {
    static constexpr int SIDE = SIZE + 2, PLANE = SIDE * SIDE;
    static constexpr int PAIRS = (9 * IN + 1) / 2; // of es_tap_offsets' inputs
    // A warp takes one output channel group and a slice of every image's rows.
    static constexpr int SLICES = ES_FUSED_WARPS / OUT;
    static constexpr int ROWS = SIZE / SLICES;

    // es_tap_offsets' input q; past the last, that one again.
    static __device__ __forceinline__ int offset(int q) {
        q = min(q, 9 * IN - 1);
        int tap = q / IN, c8 = q % IN;
        return (c8 * PLANE + (tap / 3 - 1) * SIDE + tap % 3 - 1) * ES_C8;
    }
    // Pixel i of a map, from its first.
    static __device__ __forceinline__ int pixel(int i) {
        return (i / SIZE * SIDE + i % SIZE) * ES_C8;
    }
};

// Sums of one output channel group over the rows that start at `in` and `d` in the first of
// n_images images: sum[p] is [inputs 2 p and 2 p + 1, 8 channels each][8 outputs]. Two inputs fill
// the product's 16 rows, so that a single output channel group leaves nothing of it empty.
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
        in += IN * Maps::PLANE * ES_C8;
        d += OUT * Maps::PLANE * ES_C8;
    }
}

// The same for known shapes. Slices share the adding up: slice p % SLICES of a channel group
// finishes pair p. Contains a barrier. `scratch` as for any shape.
template <typename T, int IN, int OUT, int SIZE>
static __device__ __forceinline__ void es_tile_wgrad(EsKnownMaps<IN, OUT, SIZE> known, const T *in,
                                                     const T *d, int n_images, float *scratch,
                                                     float *partial) {
    using Maps = EsKnownMaps<IN, OUT, SIZE>;
    constexpr int OTHERS = Maps::SLICES - 1;
    static_assert(OUT * Maps::PAIRS * OTHERS * 512 <= es_weight_scratch_bytes(9 * IN, OUT), "");
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int c8 = warp % OUT, slice = warp / OUT;
    int first = ((slice * Maps::ROWS + 1) * Maps::SIDE + 1) * ES_C8;
    float sum[Maps::PAIRS][4] = {};
    es_weight_sum_rows(known, in + first, d + first + c8 * Maps::PLANE * ES_C8, n_images, sum);
    float4 *kept = (float4 *)scratch + c8 * 32 + lane; // [pair][other slices][c8][lane]
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
    partial += (c8 * ES_C8 + 2 * (lane % 4)) * ES_C8 + lane / 4;
#pragma unroll
    for (int p = 0; p < Maps::PAIRS; p++) {
        float *to = partial + 2 * p * OUT * ES_C8 * ES_C8;
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
                    to[(i / 2 * OUT * ES_C8 + i % 2) * ES_C8] = sum[p][i];
                }
            }
        }
    }
}

// Of a depthwise 3x3's weights, as [tap % 2][tap / 2][padded channels]; offsets as for
// es_tile_depthwise. A warp takes one channel group, all taps and a slice of the pixels; products
// of an input channel with other outputs are summed, too, and ignored.
template <typename T>
static __device__ __forceinline__ void
es_tile_depthwise_wgrad(const T *in, const EsTile &in_tile, const int *offsets, const T *d,
                        const EsTile &d_tile, int n_images, const T *zeros, float *scratch,
                        float *partial) {
    constexpr int PAIRS = ES_FUSED_TAPS / 2;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n_c8 = d_tile.n_c8, n_slices = es_weight_slices(n_c8);
    int n_rounds = (n_c8 * n_slices + ES_FUSED_WARPS - 1) / ES_FUSED_WARPS;
    int shift[PAIRS];
#pragma unroll
    for (int p = 0; p < PAIRS; p++) {
        shift[p] = offsets[min(2 * p + lane / 16, ES_DEPTHWISE_TAPS - 1)];
    }
    for (int round = 0; round < n_rounds; round++) {
        int task = round * ES_FUSED_WARPS + warp, slice = task / n_c8;
        int c8 = task - slice * n_c8;
        bool is_active = slice < n_slices;
        float sum[ES_FUSED_TAPS][4] = {};
        if (is_active) {
            es_weight_sum_pixels(in + c8 * in_tile.plane() * ES_C8, in_tile, shift,
                                 ES_DEPTHWISE_TAPS, d, d_tile, c8, c8, n_images, zeros, slice,
                                 n_slices, sum);
        }
        es_weight_add_slices(sum, is_active, c8, n_c8, slice, n_slices, scratch);
        // lane has inputs 2 (lane % 4) and the next of output lane / 4
        if (is_active && slice == 0 && lane / 8 == lane % 4) {
            float *to = partial + c8 * ES_C8 + lane / 4;
#pragma unroll
            for (int t = 0; t < ES_DEPTHWISE_TAPS; t++) {
                to[(t % 2 * PAIRS + t / 2) * n_c8 * ES_C8] =
                    lane / 4 % 2 == 0 ? sum[t][0] : sum[t][1];
            }
        }
    }
}

#endif
