// Backward at a slot: the seed runs again on each image, then gradients of its parameters and,
// where it mixes, of the slot's input. Tiles are reused as fused_seed.cuh says.
#include "growth/fused/fused_names.h"

#include "growth/fused/fused_seed_gradient.cuh"

// --- the end of the backward pass ---

// The end of a seed's backward pass: the gradient of the slot's input is put together, stored,
// and summed up for the host's batch norm, all in one pass.

// The line of an image-channel group, in registers.
template <bool IS_LINE> struct EsSeedLine {
    template <typename End> __device__ EsSeedLine(const End &, int) {}
};

template <> struct EsSeedLine<true> {
    float scale[8], slope[8], level[8];

    template <typename End> __device__ EsSeedLine(const End &end, int c8) {
        es_c8_load(scale, end.scale + c8 * ES_C8);
        es_c8_load(slope, end.slope + c8 * ES_C8);
        es_c8_load(level, end.level + c8 * ES_C8);
    }
};

// Operands of the gradient of the slot's input, in [image-channel group][pixel] but for x.
template <typename T> struct EsSeedEnd {
    const T *beside;        // gradient beside the branch; with a line, that of y
    const T *through;       // gradient through it; nullable
    const float *d_average; // vector; nullable
    float per_pixel;
    int pixels;
    T *to;
    // a line: g scale + x slope + level, vectors
    EsSharedPointer<float> scale, slope, level;
    EsSharedPointer<T> x;
    EsTile x_tile;

    // At a pixel; also stored.
    template <bool IS_LINE>
    __device__ void finish(const EsSeedLine<IS_LINE> &line, int c8, int pixel,
                           float (&g)[8]) const {
        int at = (c8 * pixels + pixel) * ES_C8;
        es_c8_load(g, beside + at);
        if constexpr (IS_LINE) {
            float u[8];
            es_c8_load(u, x + x_tile.at_pixel(0, c8, pixel) * ES_C8);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                g[c] = fmaf(g[c], line.scale[c], fmaf(u[c], line.slope[c], line.level[c]));
            }
        }
        if (d_average != NULL) {
            float average[8];
            es_c8_load(average, es_shared(d_average) + c8 * ES_C8);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                g[c] = fmaf(average[c], per_pixel, g[c]);
            }
        }
        if (!IS_LINE && through != NULL) {
            float v[8];
            es_c8_load(v, es_shared(through) + at);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                g[c] += v[c];
            }
        }
        es_c8_store(es_global(to) + at, g);
        es_c8_round(g, T());
    }
};

// With the sums for the host's batch norm. A thread's raw values are asked for ES_SEED_BATCH at a
// time: one after the other they would be most of the pass. Pixels of a channel group are those of
// all images in a row, or of one where each has its line.
template <bool IS_LINE, typename T, typename P>
static __device__ __noinline__ void es_seed_end_sums(const EsSeedWork<T, P> &w, EsSeedEnd<T> end) {
    EsTile map = w.map();
    int pixels = map.pixels(), n_images = w.at.n_images, lane = threadIdx.x % 32;
    int together = IS_LINE ? 1 : n_images, count = together * pixels;
    EsNormTable table = es_norm_table(w.s.host_norm, map.n_c8);
    const T *raw = w.memory.raw;
    auto add = [=](int c8, int slice, int n_slices, float(&sums)[2][8]) {
        EsNormC8 norm(table, c8);
        int step = 32 * n_slices;
        for (int image = 0; image < n_images; image += together) {
            int of = image * map.n_c8 + c8; // image-channel group of the first
            EsSeedLine<IS_LINE> line(end, of);
            for (int first = 32 * slice + lane; first < count; first += ES_SEED_BATCH<T> * step) {
                EsC8Words<T> words[ES_SEED_BATCH<T>];
#pragma unroll
                for (int j = 0; j < ES_SEED_BATCH<T>; j++) {
                    int i = first + j * step, skipped = map.image_of(i) * (map.n_c8 - 1) * pixels;
                    if (i < count) {
                        words[j].fetch(raw + (of * pixels + i + skipped) * ES_C8);
                    }
                }
#pragma unroll
                for (int j = 0; j < ES_SEED_BATCH<T> && first + j * step < count; j++) {
                    int i = first + j * step, later = map.image_of(i);
                    float g[8], x[8], z[8];
                    end.template finish<IS_LINE>(line, of + later * map.n_c8, i - later * pixels,
                                                 g);
                    es_words_unpack(words[j], x);
                    norm.apply(x, z);
#pragma unroll
                    for (int c = 0; c < 8; c++) {
                        es_norm_add(z[c], x[c], g[c], sums, c);
                    }
                }
            }
        }
    };
    // slices of one image's pixels, as many as there are of all images'
    EsSeedTotals finish = {w.memory.norm_partial, map.n_c8 * ES_C8};
    es_seed_slices(map.n_c8, pixels, w.s.kept, add, finish);
}

template <bool IS_LINE, typename T, typename P>
static __device__ __noinline__ void es_seed_end_alone(const EsSeedWork<T, P> &w, EsSeedEnd<T> end) {
    EsTile map = w.map();
    __syncthreads();
    es_seed_each(w.at.n_images * map.n_c8, map, [=](int c8) {
        EsSeedLine<IS_LINE> line(end, c8);
        return [=](int row, int column) {
            float g[8];
            end.template finish<IS_LINE>(line, c8, row * map.size + column, g);
        };
    });
}

template <bool IS_LINE, typename T, typename P>
static __device__ void es_seed_end_any(const EsSeedWork<T, P> &w, const T *beside,
                                       const T *through) {
    bool has_average = w.slot.mode == ES_BLEND_GATE || w.slot.blueprint == ES_BLUEPRINT_ATTENTION;
    EsSeedEnd<T> end = {beside,
                        through,
                        has_average ? w.s.d_average.pointer : NULL,
                        w.s.per_pixel,
                        w.map().pixels(),
                        w.memory.d_input,
                        w.s.norm[0].scale,
                        w.s.tilt,
                        w.s.offset,
                        w.s.x,
                        w.padded()};
    if (w.memory.norm_partial != NULL) {
        es_seed_end_sums<IS_LINE>(w, end);
    } else {
        es_seed_end_alone<IS_LINE>(w, end);
    }
}

// The gradient of the slot's input, from the gradient beside the branch (w.s.d, or memory) and the
// one through it, a tile without a border, nullable; and the sums for the host's batch norm, unless
// another mixing slot between this one and the norm will make them. Begins with a barrier.
template <typename T, typename P>
static __device__ void es_seed_end(const EsSeedWork<T, P> &w, const T *beside, const T *through) {
    es_seed_end_any<false>(w, beside, through);
}

// The same for norm and attention where y is no product: d_h + d_s factor, on a line beside the
// norm's slopes, is g scale + x slope + level with numbers of the image and channel.
template <typename T, typename P>
static __device__ void es_seed_end_line(const EsSeedWork<T, P> &w) {
    float *scale = w.s.norm[0].scale;
    bool is_norm = w.slot.blueprint == ES_BLUEPRINT_NORM;
    for (int i = threadIdx.x; i < w.at.n_images * w.stride(); i += ES_FUSED_THREADS) {
        float share = w.s.share[w.image_of_element(i)];
        float factor = is_norm ? fmaf(scale[i], w.mix, 1.0f - w.mix) : scale[i];
        scale[i] = fmaf(share, factor, 1.0f - share);
        w.s.tilt[i] = is_norm ? w.s.tilt[i] : 0.0f;
        w.s.offset[i] = is_norm ? w.s.offset[i] : 0.0f;
    }
    es_seed_end_any<true, T>(w, w.s.d, NULL);
}

// --- weight gradients of known shapes ---

// Gradients of the weights of depthwise and 1x1 convolutions, 16-bit types and known shapes alone.
//
// Sums over pixels of d times input on the tensor cores. 32 pixels of a channel group are one
// matrix load: lane l has pixel l of the set, whole rows of the map, so the next set is a constant
// further. Warps take sets in turn and leave their sums in shared memory, where threads add them up
// in the order of the warps.

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

// --- layers ---

// Tensor k's gradient: a convolution that read `in` and whose output has gradient d. Begins with a
// barrier.
template <typename T, typename P>
static __device__ __noinline__ void weight_gradient(const EsSeedWork<T, P> &w, int k, const T *in,
                                                    EsTile in_tile, const T *d, EsTile d_tile) {
    int kernel = w.kernel[k], n_images = w.at.n_images, is_tf32 = w.is_tf32;
    float *partial = es_seed_partial(w, k), *scratch = w.s.scratch;
    const T *zeros = w.s.zeros;
    const int *offsets = es_seed_taps(w, in_tile, kernel);
    bool is_wide = in_tile.n_c8 == P::C8 && d_tile.n_c8 == P::C8;
    if constexpr (P::C8 > 0) {
        if (kernel == 1 && is_wide) {
            es_seed_pointwise_wgrad<T, P>(w, in, in_tile, d, d_tile, partial);
            return;
        }
    }
    in = es_shared(in), d = es_shared(d);
    __syncthreads();
    if (P::C8 > 0 && kernel == 3 && is_wide) {
        es_tile_wgrad(in, w.wide(in_tile.border), offsets, 9 * P::C8, d, w.wide(d_tile.border),
                      n_images, zeros, scratch, partial, is_tf32);
        return;
    }
    es_tile_wgrad(in, w.tile(in_tile), offsets, es_tap_c8(in_tile, kernel), d, w.tile(d_tile),
                  n_images, zeros, scratch, partial, is_tf32);
}

// d where the ReLU let its value pass. Begins with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void mask_rectified(const EsSeedWork<T, P> &w, const T *rectified,
                                                   EsTile rectified_tile, T *d, EsTile d_tile) {
    rectified_tile = w.tile(rectified_tile), d_tile = w.tile(d_tile);
    rectified = es_shared(rectified), d = es_shared(d);
    __syncthreads();
    es_seed_each(w.at.n_images * d_tile.n_c8, d_tile, [=](int c8) {
        return [=](int row, int column) {
            T *at = d + d_tile.at(0, c8, row, column) * ES_C8;
            float r[8], v[8];
            es_c8_load(v, at);
            es_c8_load(r, rectified + rectified_tile.at(0, c8, row, column) * ES_C8);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                v[c] = r[c] > 0.0f ? v[c] : 0.0f;
            }
            es_c8_store(at, v);
        };
    });
}

// From the gradient of y and its sums to the gradient of the branch before its norm (tensors k and
// k + 1), into `to`; where the seed mixes, the gradient that reaches the slot's input beside the
// branch, d_h + d_s, which is d but for MULTIPLY, into `beside`, d or memory. Ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void differentiate_top(const EsSeedWork<T, P> &w, int k, T *to,
                                                      EsTile to_tile, T *beside) {
    EsTile map = w.map(), padded = w.padded(), branch_tile = w.branch_tile();
    const T *branch = w.branch, *x = w.s.x, *d = w.s.d;
    bool is_product = w.slot.mode == ES_BLEND_MULTIPLY;
    bool is_kept = w.is_mixed && (is_product || beside != d);
    to = es_shared(to);
    es_group_finish(w, w.s.norm[0], k, 1.0f);
    es_seed_each(w.at.n_images * map.n_c8, map, [&](int c8) {
        EsGroupSlope line(w, 0, c8);
        EsSeedC8<T> seed(w, c8);
        float share = is_product ? 1.0f : es_seed_share_of_seed(w, w.image_of(c8));
        return [=](int row, int column) {
            int at = map.at(0, c8, row, column) * ES_C8;
            float v[8], g[8], d_s[8];
            es_c8_load(g, d + at);
            es_c8_load(v, branch + branch_tile.at(0, c8, row, column) * ES_C8);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                d_s[c] = share * g[c];
            }
            if (is_product) {
                float u[8], d_h[8];
                es_c8_load(u, x + padded.at(0, c8, row, column) * ES_C8);
                es_seed_split(seed, u, v, g, d_h, d_s);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    g[c] = d_h[c] + d_s[c];
                }
            }
#pragma unroll
            for (int c = 0; c < 8; c++) {
                v[c] = line.of(d_s[c], v[c], c);
            }
            if (is_kept) {
                es_c8_store(beside + at, g);
            }
            es_c8_store(to + to_tile.at(0, c8, row, column) * ES_C8, v);
        };
    });
    __syncthreads();
}

// --- blueprints ---

// One convolution of any kernel.
template <typename T, typename P>
static __device__ __noinline__ void differentiate_conv(const EsSeedWork<T, P> &w) {
    differentiate_top<T>(w, 1, w.branch, w.branch_tile(), w.s.d);
    weight_gradient<T>(w, 0, w.s.x, w.padded(), w.branch, w.branch_tile());
    if (w.is_mixed) {
        es_seed_convolve<T>(w, 0, 1, w.branch, w.branch_tile(), w.s.a, w.map());
        es_seed_end<T>(w, w.s.d, w.s.a);
    }
}

// The gradient of a depthwise convolution's weights: sums of d_m, which is in n, times the shifted
// input. Begins with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void depthwise_wgrad(const EsSeedWork<T, P> &w) {
    EsTile padded = w.padded();
    const T *x = w.s.x, *d_m = w.s.n, *zeros = w.s.zeros;
    if constexpr (P::C8 > 0) {
        es_seed_depthwise_wgrad<T, P>(w, x, d_m, es_seed_partial(w, 0));
    } else {
        __syncthreads();
        es_tile_depthwise_wgrad(x, padded, w.s.offsets, d_m, padded, w.at.n_images, zeros,
                                w.s.scratch, es_seed_partial(w, 0));
    }
}

// float: two taps of every channel at a time.
template <typename P>
static __device__ __noinline__ void depthwise_wgrad(const EsSeedWork<float, P> &w) {
    EsTile padded = w.padded();
    const float *x = w.s.x, *d_m = w.s.n;
    int n_c8 = padded.n_c8, pixels = padded.pixels();
    es_seed_sums(5 * n_c8, w.at.n_images * pixels, w.s.kept, es_seed_partial(w, 0), [=](int of) {
        int pair = of / n_c8, c8 = of - pair * n_c8, shift[2];
        for (int k = 0; k < 2; k++) {
            int tap = min(2 * pair + k, 8); // there is no tenth: its sums are not read
            shift[k] = ((tap / 3 - 1) * padded.side() + tap % 3 - 1) * ES_C8;
        }
        return [=](int i, float(&sums)[2][8]) {
            int image = padded.image_of(i);
            int at = padded.at_pixel(image, c8, i - image * pixels) * ES_C8;
            float d[8], v[2][8];
            es_c8_load(d, d_m + at);
#pragma unroll
            for (int k = 0; k < 2; k++) {
                es_c8_load(v[k], x + at + shift[k]);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    sums[k][c] = fmaf(d[c], v[k][c], sums[k][c]);
                }
            }
        };
    });
}

template <typename T, typename P>
static __device__ __noinline__ void differentiate_depthwise(const EsSeedWork<T, P> &w) {
    differentiate_top<T>(w, 2, w.branch, w.branch_tile(), w.s.d);
    weight_gradient<T>(w, 1, w.s.a, w.map(), w.branch, w.branch_tile());
    es_seed_convolve<T>(w, 1, 1, w.branch, w.branch_tile(), w.s.n, w.padded());
    depthwise_wgrad(w);
    if (w.is_mixed) {
        es_seed_depthwise(w, (const T *)w.s.n, 1, (T *)w.s.a);
        es_seed_end<T>(w, w.s.d, w.s.a);
    }
}

template <typename T, typename P>
static __device__ __noinline__ void differentiate_bottleneck(const EsSeedWork<T, P> &w) {
    EsTile narrow = w.narrow(), narrow_padded = w.narrow_padded(), map = w.map();
    T *r1 = w.s.n, *r2 = w.s.a, *d_branch = w.s.d, *d_r2 = w.s.c, *d_r1 = w.s.a;
    T *beside = w.memory.d_input; // no tile is left for it
    differentiate_top<T>(w, 3, d_branch, map, beside);
    weight_gradient<T>(w, 2, r2, narrow, d_branch, map);
    es_tile_clear(d_r2, narrow_padded, w.at.n_images); // the branch was there, without a border
    es_seed_convolve<T>(w, 2, 1, d_branch, map, d_r2, narrow_padded);
    mask_rectified<T>(w, r2, narrow, d_r2, narrow_padded);
    weight_gradient<T>(w, 1, r1, narrow_padded, d_r2, narrow_padded);
    es_seed_convolve<T>(w, 1, 1, d_r2, narrow_padded, d_r1, narrow);
    mask_rectified<T>(w, r1, narrow_padded, d_r1, narrow);
    weight_gradient<T>(w, 0, w.s.x, w.padded(), d_r1, narrow);
    if (w.is_mixed) {
        es_seed_convolve<T>(w, 0, 1, d_r1, narrow, w.s.d, map);
        es_seed_end<T>(w, beside, w.s.d);
    }
}

// Through the ReLU and the norm between conv_heavy's convolutions: n holds the gradient of the
// ReLU's output and becomes that of the first convolution's, whose output is in a. Begins with a
// barrier.
template <typename T, typename P>
static __device__ __noinline__ void differentiate_middle(const EsSeedWork<T, P> &w) {
    const EsGroupNorm norm = w.s.norm[1];
    EsTile map = w.map(), padded = w.padded();
    const T *first = w.s.a;
    T *d = w.s.n;
    int n_c8 = w.at.n_images * map.n_c8;
    es_seed_sums(n_c8, map.pixels(), w.s.kept, w.s.totals, [=](int c8) {
        EsGroupNormC8 of(norm, c8);
        return [=](int pixel, float(&sums)[2][8]) {
            T *at = d + padded.at_pixel(0, c8, pixel) * ES_C8;
            float g[8], v[8], y[8];
            es_c8_load(g, at);
            es_c8_load(v, first + (c8 * map.pixels() + pixel) * ES_C8);
            of.apply(v, y, T());
#pragma unroll
            for (int c = 0; c < 8; c++) {
                g[c] = y[c] > 0.0f ? g[c] : 0.0f;
            }
            es_c8_store(at, g);
            es_seed_add(g, v, norm.mean + c8 * ES_C8, sums);
        };
    });
    es_group_finish(w, norm, 1, 1.0f);
    es_seed_each(n_c8, map, [&](int c8) {
        EsGroupSlope line(w, 1, c8);
        return [=](int row, int column) {
            T *at = d + padded.at(0, c8, row, column) * ES_C8;
            float g[8], v[8];
            es_c8_load(g, at);
            es_c8_load(v, first + map.at(0, c8, row, column) * ES_C8);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                g[c] = line.of(g[c], v[c], c);
            }
            es_c8_store(at, g);
        };
    });
}

template <typename T, typename P>
static __device__ __noinline__ void differentiate_conv_heavy(const EsSeedWork<T, P> &w) {
    EsTile padded = w.padded();
    differentiate_top<T>(w, 4, w.branch, w.branch_tile(), w.s.d);
    weight_gradient<T>(w, 3, w.s.n, padded, w.branch, w.branch_tile());
    es_seed_convolve<T>(w, 3, 1, w.branch, w.branch_tile(), w.s.n, padded);
    differentiate_middle(w);
    weight_gradient<T>(w, 0, w.s.x, padded, w.s.n, padded);
    if (w.is_mixed) {
        es_seed_convolve<T>(w, 0, 1, w.s.n, padded, w.s.a, w.map());
        es_seed_end<T>(w, w.s.d, w.s.a);
    }
}

// Gradients below norm and attention. A product becomes d_h + d_s factor in d first.
template <typename T, typename P>
static __device__ __noinline__ void differentiate_alone(const EsSeedWork<T, P> &w) {
    if (w.slot.mode != ES_BLEND_MULTIPLY) {
        es_seed_end_line(w);
        return;
    }
    EsTile map = w.map(), padded = w.padded();
    const T *x = w.s.x;
    T *d = w.s.d;
    bool is_norm = w.slot.blueprint == ES_BLUEPRINT_NORM;
    es_seed_each(w.at.n_images * map.n_c8, map, [&](int c8) {
        EsGroupSlope line(w, 0, c8);
        EsSeedC8<T> seed(w, c8);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            line.scale[c] =
                is_norm ? fmaf(line.scale[c], seed.mix, 1.0f - seed.mix) : line.scale[c];
            line.slope[c] = is_norm ? line.slope[c] : 0.0f;
            line.level[c] = is_norm ? line.level[c] : 0.0f;
        }
        return [=](int row, int column) {
            T *at = d + map.at(0, c8, row, column) * ES_C8;
            float u[8], g[8], d_h[8], d_s[8];
            es_c8_load(g, at);
            es_c8_load(u, x + padded.at(0, c8, row, column) * ES_C8);
            es_seed_split(seed, u, u, g, d_h, d_s);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                g[c] = d_h[c] + line.of(d_s[c], u[c], c);
            }
            es_c8_store(at, g);
        };
    });
    es_seed_end<T>(w, w.s.d, NULL);
}

template <typename T, typename P>
static __device__ void differentiate_attention(const EsSeedWork<T, P> &w) {
    es_seed_attend_backward(w);
    if (w.is_mixed) {
        differentiate_alone(w);
    }
}

// s = x + t (n - x), n the norm of x: d_n = t d_s, and d_g = (1 - t^2) sum of d_s (n - x).
template <typename T, typename P>
static __device__ void differentiate_norm(const EsSeedWork<T, P> &w) {
    if (threadIdx.x < 32) {
        float sum = 0.0f;
        for (int i = threadIdx.x; i < w.at.n_images * w.stride(); i += 32) {
            sum += es_seed_difference(w, i);
        }
        sum = es_warp_sum(sum);
        if (threadIdx.x == 0) {
            *es_seed_partial(w, 2) = (1.0f - w.mix) * (1.0f + w.mix) * sum;
        }
    }
    es_group_finish(w, w.s.norm[0], 0, w.mix);
    if (w.is_mixed) {
        differentiate_alone(w);
    }
}

template <typename T, typename P>
static __global__ void __launch_bounds__(ES_FUSED_THREADS, ES_SEED_BACKWARD_BLOCKS)
    fused_seed_backward_kernel(const __grid_constant__ EsFusedArguments args,
                               const __grid_constant__ EsSeedPlan<T> plan, int slot,
                               int partial_length) {
    ES_DYNAMIC_SHARED(memory);
    ES_SEED_WORK(T, P, w);
    if (!es_seed_begin(args, plan, slot, 1, memory, w)) {
        return;
    }
    if (threadIdx.x == 0) {
        w.partial = args.seed_partials[slot] +
                    ((int64_t)w.at.instance * w.at.n_chunks + w.at.chunk) * partial_length;
    }
    es_seed_run(w);
    es_seed_d_output(w);
    if (w.slot.mode == ES_BLEND_GATE) {
        es_seed_gate_backward(w);
    }
    if (w.slot.mode != ES_BLEND_MULTIPLY) {
        es_seed_scale_sums(w);
    }
    switch (w.slot.blueprint) {
    case ES_BLUEPRINT_ATTENTION:
        differentiate_attention(w);
        break;
    case ES_BLUEPRINT_NORM:
        differentiate_norm(w);
        break;
    case ES_BLUEPRINT_DEPTHWISE:
        differentiate_depthwise(w);
        break;
    case ES_BLUEPRINT_BOTTLENECK:
        differentiate_bottleneck(w);
        break;
    case ES_BLUEPRINT_CONV_HEAVY:
        differentiate_conv_heavy(w);
        break;
    default:
        differentiate_conv(w);
        break;
    }
    if (w.is_mixed && w.memory.norm_partial != NULL) {
        es_norm_finish_sums(args, w.at, args.net.place[slot].block);
    }
}

extern "C" size_t es_fused_seed_backward_bytes(const EsFusedPlace *place, EsDtype precision,
                                               int n_images) {
    size_t bytes = 0;
    ES_DISPATCH_FUSED(precision, T, EsSeedShared<T> s; s.layout(*place, n_images, 1);
                      bytes = s.bytes);
    return bytes;
}

extern "C" void es_fused_seed_backward(EsStream *stream, EsDtype precision,
                                       const EsFusedArguments *args, int slot,
                                       int images_per_chunk) {
    EsLaunch launch(stream, es_fused_slot_name(ES_FUSED_PASS_BACKWARD, slot));
    int64_t n_chunks = es_ceil_div(args->n_images, images_per_chunk);
    const EsFusedPlace &place = args->net.place[slot];
    ES_ASSERT(n_chunks == args->n_seed_chunks[slot]);
    ES_DISPATCH_FUSED(
        precision, T, EsSeedPlan<T> plan(place, args->n_images, images_per_chunk, 1);
        ES_DISPATCH_PLACE(
            place, T, P,
            launch.start_shared(fused_seed_backward_kernel<T, P>,
                                dim3((unsigned)(args->instances.n_instances * n_chunks)),
                                ES_FUSED_THREADS, plan.shared.bytes, *args, plan, slot,
                                es_fused_seed_partial_length(&place))));
}
