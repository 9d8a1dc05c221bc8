// The end of a seed's backward pass: the gradient of the slot's input is put together, stored,
// and summed up for the host's batch norm, all in one pass.
#ifndef ES_GROWTH_FUSED_SEED_END_CUH
#define ES_GROWTH_FUSED_SEED_END_CUH

#include "growth/fused/fused_seed_gradient.cuh"

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

#endif
