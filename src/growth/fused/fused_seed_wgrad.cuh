// Gradients of the weights of depthwise and 1x1 convolutions, 16-bit types and known shapes alone.
//
// Sums over pixels of d times input on the tensor cores. 32 pixels of a channel group are one
// matrix load: lane l has pixel l of the set, whole rows of the map, so the next set is a constant
// further. Warps take sets in turn and leave their sums in shared memory, where threads add them up
// in the order of the warps.
#ifndef ES_GROWTH_FUSED_SEED_WGRAD_CUH
#define ES_GROWTH_FUSED_SEED_WGRAD_CUH

#include "growth/fused/fused_seed_gradient.cuh"

// Offset in a tile, in elements, of pixel `lane` of set `set` of an image-channel group.
template <typename P>
static __device__ __forceinline__ int es_seed_set_at(const EsTile &tile, int c8, int set) {
    constexpr int ROWS = 32 / P::SIZE;
    int lane = threadIdx.x % 32;
    return tile.at(0, c8, set * ROWS + lane / P::SIZE, lane % P::SIZE) * ES_C8;
}

// sums += the product of one or two channel groups' d and an input over 32 pixels; d of the second
// is zero where there is one.
template <typename T>
static __device__ __forceinline__ void es_seed_add_product(float (&sums)[4], const uint32_t (&d)[4],
                                                           const uint32_t (&second)[4],
                                                           const uint32_t (&in)[4]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t a[4] = {d[2 * half], second[2 * half], d[2 * half + 1],
                               second[2 * half + 1]};
        const uint32_t b[2] = {in[2 * half], in[2 * half + 1]};
        es_multiply_matrix<T>(sums, a, b);
    }
}

// Of a depthwise 3x3, as es_tile_depthwise_wgrad: input and d with a border. The warps of a channel
// group share its sets. Begins with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_depthwise_wgrad(const EsSeedWork<T, P> &w, const T *in,
                                                            const T *d, float *partial) {
    constexpr int C8 = P::C8, SHARING = ES_FUSED_WARPS / C8, CHANNELS = C8 * 8;
    constexpr int SETS = P::SIZE * P::SIZE / 32, TAPS = ES_DEPTHWISE_TAPS;
    const EsTile padded = {C8, P::SIZE, 1};
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sums[TAPS][4] = {}, *kept = w.s.scratch; // [warp][tap][8]
    in = es_shared(in), d = es_shared(d);
    __syncthreads();
    for (int c8 = warp / SHARING; c8 < w.at.n_images * C8; c8 += C8) {
#pragma unroll 2
        for (int set = warp % SHARING; set < SETS; set += SHARING) {
            int at = es_seed_set_at<P>(padded, c8, set);
            const uint32_t nothing[4] = {};
            uint32_t a[4], b[4];
            es_load_matrix_x4_transposed(a, d + at);
#pragma unroll
            for (int tap = 0; tap < TAPS; tap++) {
                int shift = (tap / 3 - 1) * padded.side() + tap % 3 - 1;
                es_load_matrix_x4_transposed(b, in + at + shift * ES_C8);
                es_seed_add_product<T>(sums[tap], a, nothing, b);
            }
        }
    }
    // lane has inputs 2 (lane % 4) and the next of output lane / 4: one lane of four has the wanted
    // value
    if (lane / 8 == lane % 4) {
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            kept[(warp * TAPS + tap) * 8 + lane / 4] =
                lane / 4 % 2 == 0 ? sums[tap][0] : sums[tap][1];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TAPS * CHANNELS; i += ES_FUSED_THREADS) {
        int tap = i / CHANNELS, channel = i % CHANNELS;
        const float *of = kept + (channel / 8 * SHARING * TAPS + tap) * 8 + channel % 8;
        float sum = of[0];
#pragma unroll
        for (int s = 1; s < SHARING; s++) {
            sum += of[s * TAPS * 8];
        }
        partial[(tap % 2 * (ES_FUSED_TAPS / 2) + tap / 2) * CHANNELS + channel] = sum;
    }
}

// Of a 1x1 convolution between the place's channels, as es_tile_wgrad. A warp takes two
// channel groups of d and all of the input; those of a pair share the sets. Begins with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_pointwise_wgrad(const EsSeedWork<T, P> &w, const T *in,
                                                            EsTile in_tile, const T *d,
                                                            EsTile d_tile, float *partial) {
    constexpr int C8 = P::C8, PAIRS = (C8 + 1) / 2, SHARING = ES_FUSED_WARPS / PAIRS;
    constexpr int SETS = P::SIZE * P::SIZE / 32, CHANNELS = C8 * 8;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pair = warp / SHARING;
    float sums[C8][4] = {};
    float4 *kept = (float4 *)(float *)w.s.scratch; // [warp][channel group of the input][lane]
    in = es_shared(in), d = es_shared(d);
    in_tile = w.wide(in_tile.border), d_tile = w.wide(d_tile.border);
    __syncthreads();
    for (int i = warp % SHARING; i < w.at.n_images * SETS; i += SHARING) {
        int first = i / SETS * C8, set = i % SETS;
        uint32_t a[2][4] = {}, b[4];
        es_load_matrix_x4_transposed(a[0], d + es_seed_set_at<P>(d_tile, first + 2 * pair, set));
        if (C8 > 1) {
            es_load_matrix_x4_transposed(a[1],
                                         d + es_seed_set_at<P>(d_tile, first + 2 * pair + 1, set));
        }
#pragma unroll
        for (int q = 0; q < C8; q++) {
            es_load_matrix_x4_transposed(b, in + es_seed_set_at<P>(in_tile, first + q, set));
            es_seed_add_product<T>(sums[q], a[0], a[1], b);
        }
    }
#pragma unroll
    for (int q = 0; q < C8; q++) {
        kept[(warp * C8 + q) * 32 + lane] =
            make_float4(sums[q][0], sums[q][1], sums[q][2], sums[q][3]);
    }
    __syncthreads();
    // two inputs of an output: [channel group of the input][output][pair]
    for (int i = threadIdx.x; i < C8 * CHANNELS * 4; i += ES_FUSED_THREADS) {
        int q = i / (CHANNELS * 4), output = i / 4 % CHANNELS, from = output % 8 * 4 + i % 4;
        const float2 *of =
            (const float2 *)(kept + (output / 16 * SHARING * C8 + q) * 32 + from) + output / 8 % 2;
        float2 sum = of[0];
#pragma unroll
        for (int s = 1; s < SHARING; s++) {
            float2 other = of[s * C8 * 64];
            sum.x += other.x, sum.y += other.y;
        }
        ((float2 *)partial)[i] = sum;
    }
}

#endif
