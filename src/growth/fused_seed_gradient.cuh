// Pieces of a seed's backward pass: the gradient of what the slot hands on, through blend and group
// norm, and through the small networks of gate and attention; sums for the host's batch norm.
//
// Gradients of parameters are sums over the part's images and go to w.part; the gradient of what
// entered the slot goes to device memory (es_seed_d_input), where terms are added one after the
// other, always by the same thread.
#ifndef ES_GROWTH_FUSED_SEED_GRADIENT_CUH
#define ES_GROWTH_FUSED_SEED_GRADIENT_CUH

#include "growth/fused_seed_run.cuh"

template <typename T>
static __device__ __forceinline__ float *es_seed_part(const EsSeedWork<T> &w, int k) {
    return w.part + es_seed_part_offset(w.place->n_channels, w.slot.blueprint, k);
}

template <typename T>
static __device__ __forceinline__ float *es_gate_part(const EsSeedWork<T> &w, int k) {
    return w.part + es_seed_part_offset(w.place->n_channels, ES_SEED_GATE, k);
}

// The gradient of what entered the slot, at a unit.
template <typename T>
static __device__ __forceinline__ T *es_seed_d_input(const EsSeedWork<T> &w, const EsSpot &spot) {
    const EsFusedMemory &memory = w.args->memory[w.place->block];
    int pixels = w.s.map.pixels();
    return es_row_image<T>(*w.args, w.at, w.place->is_after_pool ? memory.d_middle : memory.d_relu,
                           w.at.first + spot.image, w.s.map.units * pixels) +
           (spot.unit * pixels + spot.pixel) * ES_FUSED_UNIT;
}

// Call function(spot) for every unit of the part's maps, each in one thread and always the same.
template <typename T, typename Function>
static __device__ __forceinline__ void es_seed_each(const EsSeedWork<T> &w, Function function) {
    EsTile map = w.s.map;
    int pixels = map.pixels(), count = w.at.n_images * map.units * pixels;
    for (int i = threadIdx.x; i < count; i += ES_FUSED_THREADS) {
        int image_unit = map.image_of(i);
        function(EsSpot(image_unit, i - image_unit * pixels, map));
    }
}

// --- the gradient of y ---

// Number of the window's first largest pixel: of the host's map where the seed is incubated, else
// of what the slot handed on.
template <typename T>
static __device__ __forceinline__ void es_seed_winner(const EsSeedWork<T> &w, int image_unit,
                                                      int first, int (&winner)[8]) {
    EsTile map = w.s.map;
    float best[8];
    if (!w.is_mixed) {
        EsSpot spot(image_unit, first, map);
        const T *raw = es_row_image<T>(*w.args, w.at, w.args->memory[w.place->block].raw,
                                       w.at.first + spot.image, map.units * map.pixels()) +
                       (spot.unit * map.pixels() + first) * ES_FUSED_UNIT;
        float x[8];
        es_window_largest(es_norm_table(w.s.host_norm, map.units), spot.unit, raw, map.size, best,
                          x, winner);
        // of rectified values: where all are 0 the first is taken
#pragma unroll
        for (int c = 0; c < 8; c++) {
            winner[c] = best[c] <= 0.0f ? 0 : winner[c];
        }
        return;
    }
    for (int k = 0; k < 4; k++) {
        float y[8];
        es_seed_blend(w, EsSpot(image_unit, first + k / 2 * map.size + k % 2, map), y);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            bool wins = k == 0 || es_is_larger(y[c], best[c]);
            best[c] = wins ? y[c] : best[c];
            winner[c] = wins ? k : winner[c];
        }
    }
}

// d = gradient of y. Ends with a barrier.
template <typename T> static __device__ __noinline__ void es_seed_d_output(const EsSeedWork<T> &w) {
    const EsFusedArguments &args = *w.args;
    const EsFusedBlock &block = *w.block;
    EsTile map = w.s.map;
    int b = w.place->block, is_pooled = !w.place->is_after_pool && block.has_pool;
    void *memory = !w.place->is_after_pool && es_row_mixes(args, w.at.row, block.slot[1])
                       ? args.memory[b].d_middle
                       : args.memory[b].d_out;
    int out_size = is_pooled ? block.out_size : map.size, pixels = out_size * out_size;
    int count = w.at.n_images * map.units * pixels;
    for (int i = threadIdx.x; i < count; i += ES_FUSED_THREADS) {
        int image_unit = i / pixels, pixel = i % pixels;
        float g[8];
        es_load_gradient<T>(args, w.at, b, block, memory, image_unit / map.units,
                            image_unit % map.units, pixel, g);
        if (!is_pooled) {
            es_unit_store(w.s.d + i * ES_FUSED_UNIT, g);
            continue;
        }
        int first = 2 * (pixel / out_size) * map.size + 2 * (pixel % out_size), winner[8];
        es_seed_winner(w, image_unit, first, winner);
        for (int k = 0; k < 4; k++) {
            float v[8];
#pragma unroll
            for (int c = 0; c < 8; c++) {
                v[c] = winner[c] == k ? g[c] : 0.0f;
            }
            EsSpot spot(image_unit, first + k / 2 * map.size + k % 2, map);
            es_unit_store(w.s.d + spot.in(map), v);
        }
    }
    __syncthreads();
}

// --- blend ---

// What a unit of the slot's input and seed gets from the gradient of y: d_h and d_s; x and s are
// their values.
template <typename T>
static __device__ __forceinline__ void es_seed_split(const EsSeedWork<T> &w, const EsSpot &spot,
                                                     float (&x)[8], float (&s)[8], float (&d_h)[8],
                                                     float (&d_s)[8]) {
    float g[8], share = w.s.share[spot.image];
    es_unit_load(x, w.s.x + spot.in(w.s.padded));
    es_unit_load(g, w.s.d + spot.in(w.s.map));
    es_seed_value(w, spot, x, s);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        d_h[c] = w.is_mixed ? g[c] : 0.0f;
        d_s[c] = w.is_mixed ? 0.0f : g[c];
        if (share != 0.0f) {
            EsBlendGradient gradient = es_blend_gradient(w.slot.mode, share, x[c], s[c], g[c]);
            d_h[c] = gradient.h, d_s[c] = gradient.s;
        }
    }
}

// --- group norm ---

// From the sums of d and d x_hat per image and channel in w.s.totals: gradients of gamma and beta
// (tensors k and k + 1), and the averages that d_x needs in w.s.tilt and w.s.offset. Ends with a
// barrier.
template <typename T>
static __device__ __noinline__ void es_group_finish(const EsSeedWork<T> &w, EsGroupNorm norm,
                                                    int k) {
    int stride = w.s.stride, n_images = w.at.n_images;
    const float *sums = w.s.totals, *products = w.s.totals + n_images * stride;
    float *d_gamma = es_seed_part(w, k), *d_beta = es_seed_part(w, k + 1);
    es_group_average(w, sums, norm.gamma, w.s.offset);
    es_group_average(w, products, norm.gamma, w.s.tilt);
    for (int c = threadIdx.x; c < stride; c += ES_FUSED_THREADS) {
        float sum = 0.0f, product = 0.0f;
        for (int image = 0; image < n_images; image++) {
            sum += sums[image * stride + c];
            product += products[image * stride + c];
        }
        d_beta[c] = sum;
        d_gamma[c] = product;
    }
    __syncthreads();
}

// x_hat of a unit of the norm's input.
static __device__ __forceinline__ float es_group_x_hat(const EsGroupNorm &norm, int i, float v) {
    return (v - norm.mean[i]) * norm.inv_std[i];
}

// d_v = inv_std (d gamma - average(d gamma) - x_hat average(d gamma x_hat)), averages over the
// group.
template <typename T>
static __device__ __forceinline__ float
es_group_d_input(const EsSeedWork<T> &w, const EsGroupNorm &norm, const EsSpot &spot, int c,
                 float v, float d) {
    int channel = spot.unit * ES_FUSED_UNIT + c, i = spot.image * w.s.stride + channel;
    return norm.inv_std[i] *
           (d * norm.gamma[channel] - w.s.offset[i] - es_group_x_hat(norm, i, v) * w.s.tilt[i]);
}

// --- small networks ---

// weight_part[j][c] = sum over images of d[j] x[c]; d and x are vectors, of n_out and n_in numbers.
template <typename T>
static __device__ void es_seed_outer(const EsSeedWork<T> &w, const float *d, int n_out,
                                     const float *x, int n_in, float *weight_part) {
    int stride = w.s.stride;
    for (int i = threadIdx.x; i < n_out * n_in; i += ES_FUSED_THREADS) {
        float sum = 0.0f;
        for (int image = 0; image < w.at.n_images; image++) {
            sum = fmaf(d[image * stride + i / n_in], x[image * stride + i % n_in], sum);
        }
        weight_part[i] = sum;
    }
}

// part[j] = sum over images of d[j]
template <typename T>
static __device__ void es_seed_sum_images(const EsSeedWork<T> &w, const float *d, int n,
                                          float *part) {
    for (int i = threadIdx.x; i < n; i += ES_FUSED_THREADS) {
        float sum = 0.0f;
        for (int image = 0; image < w.at.n_images; image++) {
            sum += d[image * w.s.stride + i];
        }
        part[i] = sum;
    }
}

// d_average[c] += sum over j of weight[j][c] d_hidden[j]. Begins and ends with a barrier.
template <typename T>
static __device__ void es_seed_d_average(const EsSeedWork<T> &w, const float *weight, int width) {
    int stride = w.s.stride, n_channels = w.place->n_channels;
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

// Gradients of the gate's parameters, and what comes back through it to d_average. Begins and ends
// with a barrier.
template <typename T>
static __device__ __noinline__ void es_seed_gate_backward(const EsSeedWork<T> &w) {
    EsTile map = w.s.map;
    int stride = w.s.stride, width = es_seed_narrow(w.place->n_channels);
    const float *out = es_gate_parameter(w, 2);
    es_channel_sums(w.at.n_images * map.units, map.pixels(), w.s.kept, w.s.totals,
                    [&](int image_unit, int pixel, float(&sums)[2][8]) {
                        EsSpot spot(image_unit, pixel, map);
                        float x[8], s[8], g[8];
                        es_unit_load(x, w.s.x + spot.in(w.s.padded));
                        es_unit_load(g, w.s.d + spot.in(map));
                        es_seed_value(w, spot, x, s);
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            sums[0][c] = fmaf(g[c], s[c] - x[c], sums[0][c]);
                        }
                    });
    // d of the number before the sigmoid, at the start of each image of w.s.tilt
    for (int image = threadIdx.x; image < w.at.n_images; image += ES_FUSED_THREADS) {
        float sum = 0.0f, gate = w.s.gate[image];
        for (int c = 0; c < stride; c++) {
            sum += w.s.totals[image * stride + c];
        }
        w.s.tilt[image * stride] = es_blend_clamp(w.slot.alpha) * sum * gate * (1.0f - gate);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < w.at.n_images * width; i += ES_FUSED_THREADS) {
        int image = i / width, j = i % width, at = image * stride + j;
        w.s.d_hidden[at] = w.s.hidden[at] > 0.0f ? out[j] * w.s.tilt[image * stride] : 0.0f;
    }
    es_seed_outer(w, w.s.tilt, 1, w.s.hidden, width, es_gate_part(w, 2));
    es_seed_sum_images(w, w.s.tilt, 1, es_gate_part(w, 3));
    es_seed_d_average(w, es_gate_parameter(w, 0), width);
    es_seed_outer(w, w.s.d_hidden, width, w.s.average, w.place->n_channels, es_gate_part(w, 0));
    es_seed_sum_images(w, w.s.d_hidden, width, es_gate_part(w, 1));
    __syncthreads();
}

// The same for attention: d of the numbers before the sigmoid in w.s.offset. Begins and ends with a
// barrier.
template <typename T>
static __device__ __noinline__ void es_seed_attend_backward(const EsSeedWork<T> &w) {
    EsTile map = w.s.map;
    int stride = w.s.stride, n_channels = w.place->n_channels;
    int width = es_seed_squeezed(n_channels);
    const float *excite = es_seed_parameter(w, 1);
    const float *factor = w.s.norm[0].mean, *hidden = w.s.norm[1].mean;
    es_channel_sums(w.at.n_images * map.units, map.pixels(), w.s.kept, w.s.totals,
                    [&](int image_unit, int pixel, float(&sums)[2][8]) {
                        float x[8], s[8], d_h[8], d_s[8];
                        es_seed_split(w, EsSpot(image_unit, pixel, map), x, s, d_h, d_s);
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            sums[0][c] = fmaf(d_s[c], x[c], sums[0][c]);
                        }
                    });
    for (int i = threadIdx.x; i < w.at.n_images * stride; i += ES_FUSED_THREADS) {
        w.s.offset[i] = w.s.totals[i] * factor[i] * (1.0f - factor[i]);
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
    es_seed_outer(w, w.s.offset, n_channels, hidden, width, es_seed_part(w, 1));
    es_seed_sum_images(w, w.s.offset, n_channels, es_seed_part(w, 2));
    es_seed_d_average(w, es_seed_parameter(w, 0), width);
    es_seed_outer(w, w.s.d_hidden, width, w.s.average, n_channels, es_seed_part(w, 0));
    __syncthreads();
}

// --- sums for the host's batch norm ---

// The raw output under the image's unit, at a pixel.
template <typename T>
static __device__ __forceinline__ const T *es_seed_raw(const EsSeedWork<T> &w, const EsSpot &spot,
                                                       int raw_pixel) {
    int raw_pixels = w.block->size * w.block->size;
    return es_row_image<T>(*w.args, w.at, w.args->memory[w.place->block].raw,
                           w.at.first + spot.image, w.s.map.units * raw_pixels) +
           (spot.unit * raw_pixels + raw_pixel) * ES_FUSED_UNIT;
}

// A slot after the pool: each gradient belongs to the winner of its window.
template <typename T>
static __device__ __noinline__ void es_seed_sum_pooled(const EsSeedWork<T> &w) {
    EsTile map = w.s.map;
    int size = w.block->size, pixels = map.pixels();
    EsNormTable table = es_norm_table(w.s.host_norm, map.units);
    es_channel_sums(map.units, w.at.n_images * pixels, w.s.kept,
                    es_norm_part(*w.args, w.at, w.place->block),
                    [&](int unit, int i, float(&sums)[2][8]) {
                        EsSpot spot(i / pixels * map.units + unit, i % pixels, map);
                        float g[8], x[8], z[8];
                        es_window_value(table, unit,
                                        es_seed_raw(w, spot, 2 * spot.row * size + 2 * spot.column),
                                        *w.block, z, x);
                        es_unit_load(g, es_seed_d_input(w, spot));
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            es_norm_add(z[c], x[c], g[c], sums, c);
                        }
                    });
}

template <typename T> static __device__ __noinline__ void es_seed_sum_full(const EsSeedWork<T> &w) {
    EsTile map = w.s.map;
    int pixels = map.pixels();
    EsNormTable table = es_norm_table(w.s.host_norm, map.units);
    es_channel_sums(map.units, w.at.n_images * pixels, w.s.kept,
                    es_norm_part(*w.args, w.at, w.place->block),
                    [&](int unit, int i, float(&sums)[2][8]) {
                        EsSpot spot(i / pixels * map.units + unit, i % pixels, map);
                        float g[8], x[8], z[8];
                        es_unit_load(x, es_seed_raw(w, spot, spot.pixel));
                        es_unit_load(g, es_seed_d_input(w, spot));
                        es_norm_apply(table, unit, x, z);
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            es_norm_add(z[c], x[c], g[c], sums, c);
                        }
                    });
}

// Of the gradient of what entered the slot. Another mixing slot between this one and the norm will
// do it.
template <typename T> static __device__ void es_seed_sum_host_norm(const EsSeedWork<T> &w) {
    if (!w.place->is_after_pool) {
        es_seed_sum_full(w);
    } else if (!es_row_mixes(*w.args, w.at.row, w.block->slot[0])) {
        es_seed_sum_pooled(w);
    } else {
        return;
    }
    es_norm_finish_sums(*w.args, w.at, w.place->block);
}

#endif
