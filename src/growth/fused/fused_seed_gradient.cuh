// Pieces of a seed's backward pass: the gradient of the slot's output, through blend and group
// norm, and through the small networks of gate and attention.
//
// d_h = k_h g and d_s = k_s g for the gradient g of y, with numbers of the image, in all modes but
// MULTIPLY, so that sums of g do for those of d_s.
//
// Gradients of parameters are sums over the chunk's images and go to w.partial.
#ifndef ES_GROWTH_FUSED_SEED_GRADIENT_CUH
#define ES_GROWTH_FUSED_SEED_GRADIENT_CUH

#include "growth/fused/fused_seed_run.cuh"

template <typename T, typename P>
static __device__ __forceinline__ float *es_seed_partial(const EsSeedWork<T, P> &w, int k) {
    return w.partial + w.partial_offset[k];
}

template <typename T, typename P>
static __device__ __forceinline__ float *es_gate_partial(const EsSeedWork<T, P> &w, int k) {
    return w.partial + w.gate_offset[k];
}

// k_s: the seed's share of a gradient of the image.
template <typename T, typename P>
static __device__ __forceinline__ float es_seed_share_of_seed(const EsSeedWork<T, P> &w,
                                                              int image) {
    return w.is_mixed ? w.s.share[image] : 1.0f;
}

// --- the gradient of y ---

// Gradient of one image-channel group: from memory, or the classifier's, the same at all pixels,
// rounded as stored, because sums must agree with the stored values.
template <typename T> struct EsSeedSource {
    const T *from;           // nullable
    const float *classifier; // else
    float per_pixel;

    int pixels;

    // Starts at the chunk's first image-channel group, with maps of n_pixels.
    template <typename P>
    __device__ EsSeedSource(const EsSeedWork<T, P> &w, int n_pixels, float of_pixel)
        : from(w.memory.d_output), classifier(w.memory.d_classifier), per_pixel(of_pixel),
          pixels(n_pixels) {}
    // Of another.
    __device__ EsSeedSource of(int c8) const {
        EsSeedSource source = *this;
        source.from += from != NULL ? c8 * pixels * ES_C8 : 0;
        source.classifier += c8 * ES_C8;
        return source;
    }
    __device__ void load(int pixel, EsC8Words<T> &words) const {
        if (from != NULL) {
            words.fetch(from + pixel * ES_C8);
            return;
        }
        float g[8];
        es_c8_load(g, classifier);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            g[c] *= per_pixel;
        }
        es_words_pack(words, g);
    }
};

// Add a pixel to sums of g and g (v - mean); with attention, whose mean is 0, of g x.
static __device__ __forceinline__ void es_seed_add(const float (&g)[8], const float (&v)[8],
                                                   const float *mean, float (&sums)[2][8]) {
    float m[8];
    es_c8_load(m, mean);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        sums[0][c] += g[c];
        sums[1][c] = fmaf(g[c], v[c] - m[c], sums[1][c]);
    }
}

// A map without a pool behind it.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_d_plain(const EsSeedWork<T, P> &w) {
    EsTile map = w.map(), branch_tile = w.branch_tile();
    const T *branch = w.branch;
    const float *means = w.s.norm[0].mean;
    T *d = w.s.d;
    int pixels = map.pixels();
    EsSeedSource<T> all(w, pixels, w.s.per_pixel);
    es_seed_sums(w.at.n_images * map.n_c8, pixels, w.s.kept, w.s.totals, [&](int c8) {
        EsSeedSource<T> source = all.of(c8);
        return [=](int pixel, float(&sums)[2][8]) {
            EsC8Words<T> words;
            float g[8], v[8];
            source.load(pixel, words);
            es_c8_load(v, branch + branch_tile.at_pixel(0, c8, pixel) * ES_C8);
            words.store(d + (c8 * pixels + pixel) * ES_C8);
            es_words_unpack(words, g);
            es_seed_add(g, v, means + c8 * ES_C8, sums);
        };
    });
}

// Winners in a window of the host's map, for a seed that is incubated. Of rectified values: where
// all are 0 the first is taken.
template <typename T>
static __device__ __forceinline__ uint32_t es_seed_host_winners(const EsNormC8 &norm, const T *raw,
                                                                int size) {
    float x[4][8], z[8];
    int winner[8];
    uint32_t code[8];
    es_window_load(raw, size, x);
    es_window_choose(norm, x, z, winner);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        code[c] = z[c] <= 0.0f ? 0 : es_winner_code(winner[c]);
    }
    return es_winner_bits(code);
}

// A map that a pool reads: a window's gradient belongs to its winner. The others add nothing.
template <bool IS_MIXED, typename T, typename P>
static __device__ __noinline__ void es_seed_d_pooled(const EsSeedWork<T, P> &w) {
    EsTile map = w.map(), branch_tile = w.branch_tile(), out = w.pooled();
    const T *branch = w.branch, *raw = w.memory.raw;
    const uint16_t *winners = w.memory.winners;
    const float *means = w.s.norm[0].mean;
    T *d = w.s.d;
    int pixels = out.pixels();
    EsNormTable table = es_norm_table(w.s.host_norm, map.n_c8);
    EsSeedSource<T> all(w, pixels, 4.0f * w.s.per_pixel);
    es_seed_sums(w.at.n_images * map.n_c8, pixels, w.s.kept, w.s.totals, [&](int c8) {
        EsSeedSource<T> source = all.of(c8);
        int channels = c8 - w.image_of(c8) * map.n_c8; // channel group of its image
        return [=](int pixel, float(&sums)[2][8]) {
            int row = out.row_of(pixel), column = pixel - row * out.size;
            int first = map.at(0, c8, 2 * row, 2 * column) * ES_C8;
            EsC8Words<T> g_words, v_words;
            float g[8], v[8];
            uint32_t bits;
            source.load(pixel, g_words);
            if (IS_MIXED) {
                bits = __ldg(winners + c8 * pixels + pixel);
            } else {
                bits = es_seed_host_winners(EsNormC8(table, channels), raw + first, map.size);
            }
            es_window_pool(bits, branch + branch_tile.at(0, c8, 2 * row, 2 * column) * ES_C8,
                           branch_tile.side(), v_words);
            es_window_scatter(bits, d + first, map.size, g_words);
            es_words_unpack(g_words, g);
            es_words_unpack(v_words, v);
            es_seed_add(g, v, means + c8 * ES_C8, sums);
        };
    });
}

// A pixel's gradients when y is a product: d_h and d_s.
template <typename T>
static __device__ __forceinline__ void es_seed_split(const EsSeedC8<T> &seed, const float (&x)[8],
                                                     const float (&v)[8], const float (&g)[8],
                                                     float (&d_h)[8], float (&d_s)[8]) {
    float s[8];
    seed.value(x, v, s);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        EsBlendGradient gradient =
            es_blend_gradient(ES_BLEND_MULTIPLY, seed.share, x[c], s[c], g[c]);
        d_h[c] = gradient.h, d_s[c] = gradient.s;
    }
}

// Sums as es_seed_add has them, of d_s. Begins and ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_sum_split(const EsSeedWork<T, P> &w) {
    EsTile map = w.map(), padded = w.padded(), branch_tile = w.branch_tile();
    const T *branch = w.branch, *x = w.s.x, *d = w.s.d;
    const float *means = w.s.norm[0].mean;
    es_seed_sums(w.at.n_images * map.n_c8, map.pixels(), w.s.kept, w.s.totals, [&](int c8) {
        EsSeedC8<T> seed(w, c8);
        return [=](int pixel, float(&sums)[2][8]) {
            float u[8], v[8], g[8], d_h[8], d_s[8];
            es_c8_load(u, x + padded.at_pixel(0, c8, pixel) * ES_C8);
            es_c8_load(v, branch + branch_tile.at_pixel(0, c8, pixel) * ES_C8);
            es_c8_load(g, d + map.at_pixel(0, c8, pixel) * ES_C8);
            es_seed_split(seed, u, v, g, d_h, d_s);
            es_seed_add(d_s, v, means + c8 * ES_C8, sums);
        };
    });
}

// d = gradient of y; in w.s.totals the sums of es_seed_add, of g, or of d_s with MULTIPLY. Begins
// and ends with a barrier.
template <typename T, typename P>
static __device__ void es_seed_d_output(const EsSeedWork<T, P> &w) {
    if (w.is_pooled() && w.is_mixed) {
        es_seed_d_pooled<true>(w);
    } else if (w.is_pooled()) {
        es_seed_d_pooled<false>(w);
    } else {
        es_seed_d_plain(w);
    }
    if (w.slot.mode == ES_BLEND_MULTIPLY) {
        es_seed_sum_split(w);
    }
}

// Sums of g into those of d_s. Ends with a barrier where there is anything to do.
template <typename T, typename P>
static __device__ void es_seed_scale_sums(const EsSeedWork<T, P> &w) {
    int n = w.at.n_images * w.stride();
    // without a gate all images have the same share
    if (w.slot.mode != ES_BLEND_GATE && es_seed_share_of_seed(w, 0) == 1.0f) {
        return;
    }
    for (int i = threadIdx.x; i < 2 * n; i += ES_FUSED_THREADS) {
        w.s.totals[i] *= es_seed_share_of_seed(w, w.image_of_element(i < n ? i : i - n));
    }
    __syncthreads();
}

// --- group norm ---

// The gradient through the norm: d_v = d scale + v slope + level, with the averages over the group
// m of d gamma and n of d gamma x_hat, slope = -inv_std^2 n and level = -inv_std m - slope mean.
struct EsGroupSlope {
    float scale[8], slope[8], level[8];

    template <typename T, typename P>
    __device__ EsGroupSlope(const EsSeedWork<T, P> &w, int which, int c8) {
        es_c8_load(scale, w.s.norm[which].scale + c8 * ES_C8);
        es_c8_load(slope, w.s.tilt + c8 * ES_C8);
        es_c8_load(level, w.s.offset + c8 * ES_C8);
    }
    __device__ float of(float d, float v, int c) const {
        return fmaf(d, scale[c], fmaf(v, slope[c], level[c]));
    }
};

// Sums over element i's group of sums of d gamma and d gamma (v - mean); in whole warps.
template <typename T, typename P>
static __device__ __forceinline__ float2 es_group_add(const EsSeedWork<T, P> &w, const float *gamma,
                                                      int i, int channel) {
    int width = w.s.width, n = w.at.n_images * w.stride();
    const float *sums = w.s.totals + i - channel, *products = sums + n;
    if constexpr (P::C8 > 0) {
        return make_float2(es_group_sum(sums[channel] * gamma[channel], width),
                           es_group_sum(products[channel] * gamma[channel], width));
    }
    float2 sum = {};
    int first = es_divide(channel, width, w.s.by_width) * width;
    for (int c = first; channel < w.channels() && c < first + width; c++) {
        sum.x = fmaf(sums[c], gamma[c], sum.x);
        sum.y = fmaf(products[c], gamma[c], sum.y);
    }
    return sum;
}

// From the sums of d and d (v - mean) per image and channel in w.s.totals, times `factor`:
// gradients of gamma and beta (tensors k and k + 1), slopes in w.s.tilt and levels in w.s.offset.
// Ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_group_finish(const EsSeedWork<T, P> &w, EsGroupNorm norm,
                                                    int k, float factor) {
    int stride = w.stride(), n_images = w.at.n_images, n = n_images * stride;
    float scale = factor * w.s.per_channel * w.s.per_pixel;
    const float *sums = w.s.totals, *products = w.s.totals + n;
    float *d_gamma = es_seed_partial(w, k), *d_beta = es_seed_partial(w, k + 1);
    for (int lane = threadIdx.x; lane < es_whole_warps(n); lane += ES_FUSED_THREADS) {
        int i = min(lane, n - 1);
        float2 sum = es_group_add(w, norm.gamma, i, i - w.image_of_element(i) * stride);
        float inv_std = norm.inv_std[i];
        float slope = -inv_std * inv_std * inv_std * sum.y * scale;
        if (lane < n) {
            w.s.tilt[i] = slope;
            w.s.offset[i] = -inv_std * sum.x * scale - slope * norm.mean[i];
        }
    }
    // by the last warps, while the first are at the slopes
    for (int c = ES_FUSED_THREADS - 1 - (int)threadIdx.x; c < stride; c += ES_FUSED_THREADS) {
        float sum = 0.0f, product = 0.0f;
        for (int image = 0; image < n_images; image++) {
            int i = image * stride + c;
            sum += sums[i];
            product = fmaf(products[i], norm.inv_std[i], product);
        }
        d_beta[c] = factor * sum;
        d_gamma[c] = factor * product;
    }
    __syncthreads();
}

// --- small networks ---

// weight_partial[j][c] = sum over images of d[j] x[c]; d and x are vectors, of n_out and n_in
// numbers.
template <typename T, typename P>
static __device__ void es_seed_outer(const EsSeedWork<T, P> &w, const float *d, int n_out,
                                     const float *x, int n_in, float *weight_partial) {
    int stride = w.stride();
    for (int i = threadIdx.x; i < n_out * n_in; i += ES_FUSED_THREADS) {
        float sum = 0.0f;
        for (int image = 0; image < w.at.n_images; image++) {
            sum = fmaf(d[image * stride + i / n_in], x[image * stride + i % n_in], sum);
        }
        weight_partial[i] = sum;
    }
}

// partial[j] = sum over images of d[j]
template <typename T, typename P>
static __device__ void es_seed_sum_images(const EsSeedWork<T, P> &w, const float *d, int n,
                                          float *partial) {
    for (int i = threadIdx.x; i < n; i += ES_FUSED_THREADS) {
        float sum = 0.0f;
        for (int image = 0; image < w.at.n_images; image++) {
            sum += d[image * w.stride() + i];
        }
        partial[i] = sum;
    }
}

// d_average[c] += sum over j of weight[j][c] d_hidden[j]. Begins and ends with a barrier.
template <typename T, typename P>
static __device__ void es_seed_d_average(const EsSeedWork<T, P> &w, const float *weight,
                                         int width) {
    int stride = w.stride(), n_channels = w.channels();
    __syncthreads();
    for (int i = threadIdx.x; i < w.at.n_images * stride; i += ES_FUSED_THREADS) {
        int channel = i % stride;
        float sum = 0.0f;
        for (int j = 0; channel < n_channels && j < width; j++) {
            sum = fmaf(weight[j * n_channels + channel], w.s.d_hidden[i - channel + j], sum);
        }
        w.s.d_average[i] += sum;
    }
    __syncthreads();
}

// The sum of g (s - x) of an image's channel, from the sums of g and g (v - mean), on which all
// seeds but for roundings are lines; with NORM, that of g (n - x), n the norm's output.
template <typename T, typename P>
static __device__ __forceinline__ float es_seed_difference(const EsSeedWork<T, P> &w, int i) {
    const EsGroupNorm &norm = w.s.norm[0];
    float sum = w.s.totals[i], product = w.s.totals[w.at.n_images * w.stride() + i];
    float scale = norm.scale[i], mean = norm.mean[i];
    if (w.slot.blueprint == ES_BLUEPRINT_ATTENTION) {
        return (scale - 1.0f) * product;
    }
    float level = fmaf(mean, scale, norm.shift[i]); // y at the mean
    return w.slot.blueprint == ES_BLUEPRINT_NORM ? (scale - 1.0f) * product + (level - mean) * sum
                                                 : scale * product + level * sum;
}

// Gradients of the gate's parameters, and through it of d_average, from the sums of
// es_seed_d_output. Ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_gate_backward(const EsSeedWork<T, P> &w) {
    int stride = w.stride(), width = es_blueprint_narrow(w.channels());
    const float *out = es_gate_parameter(w, 2);
    // d of the number before the sigmoid, at the start of each image of w.s.tilt
    for (int image = threadIdx.x; image < w.at.n_images; image += ES_FUSED_THREADS) {
        float sum = 0.0f, gate = w.s.gate[image];
        float of_sum = w.slot.blueprint == ES_BLUEPRINT_NORM ? w.mix : 1.0f;
        for (int c = 0; c < stride; c++) {
            sum += es_seed_difference(w, image * stride + c);
        }
        w.s.tilt[image * stride] =
            es_blend_clamp(w.slot.alpha) * of_sum * sum * gate * (1.0f - gate);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < w.at.n_images * width; i += ES_FUSED_THREADS) {
        int image = i / width, j = i % width, at = image * stride + j;
        w.s.d_hidden[at] = w.s.hidden[at] > 0.0f ? out[j] * w.s.tilt[image * stride] : 0.0f;
    }
    es_seed_outer(w, w.s.tilt, 1, w.s.hidden, width, es_gate_partial(w, 2));
    es_seed_sum_images(w, w.s.tilt, 1, es_gate_partial(w, 3));
    es_seed_d_average(w, es_gate_parameter(w, 0), width);
    es_seed_outer(w, w.s.d_hidden, width, w.s.average, w.channels(), es_gate_partial(w, 0));
    es_seed_sum_images(w, w.s.d_hidden, width, es_gate_partial(w, 1));
    __syncthreads();
}

// The same for attention, from the sums of d_s x: d of the numbers before the sigmoid in
// w.s.offset. Ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_attend_backward(const EsSeedWork<T, P> &w) {
    int stride = w.stride(), n_channels = w.channels();
    int width = es_blueprint_squeezed(n_channels);
    const float *excite = es_seed_parameter(w, 1);
    const float *factor = w.s.norm[0].scale, *hidden = w.s.norm[1].mean;
    const float *products = w.s.totals + w.at.n_images * stride;
    for (int i = threadIdx.x; i < w.at.n_images * stride; i += ES_FUSED_THREADS) {
        w.s.offset[i] = products[i] * factor[i] * (1.0f - factor[i]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < w.at.n_images * width; i += ES_FUSED_THREADS) {
        int image = i / width, j = i % width, at = image * stride + j;
        float sum = 0.0f;
        for (int c = 0; c < n_channels; c++) {
            sum = fmaf(excite[c * width + j], w.s.offset[image * stride + c], sum);
        }
        w.s.d_hidden[at] = hidden[at] > 0.0f ? sum : 0.0f;
    }
    es_seed_outer(w, w.s.offset, n_channels, hidden, width, es_seed_partial(w, 1));
    es_seed_sum_images(w, w.s.offset, n_channels, es_seed_partial(w, 2));
    es_seed_d_average(w, es_seed_parameter(w, 0), width);
    es_seed_outer(w, w.s.d_hidden, width, w.s.average, n_channels, es_seed_partial(w, 0));
    __syncthreads();
}

#endif
