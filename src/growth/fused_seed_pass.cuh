// What seeds are made of: passes over the maps of a part and sums over them, layers, group norms,
// and what a seed and its blend make of a unit.
#ifndef ES_GROWTH_FUSED_SEED_PASS_CUH
#define ES_GROWTH_FUSED_SEED_PASS_CUH

#include "growth/fused_seed_begin.cuh"

// --- passes over maps ---
//
// Image-units, numbered image * units + unit, are [row][column] each; tile.at(0, image-unit, row,
// column) is where a pixel lies. What all pixels of an image-unit need is read once: `make` takes
// an image-unit and returns what is called with each of its pixels.

// visit(row, column) for each of the image-units' pixels, each in one thread and always the same.
template <typename Make>
static __device__ __forceinline__ void es_seed_each(int n_units, EsTile tile, Make make) {
    int pixels = tile.pixels();
    EsSpread mine = es_spread(pixels);
    for (int unit = mine.unit; unit < n_units; unit += mine.unit_step) {
        auto visit = make(unit);
        for (int pixel = mine.first; pixel < pixels; pixel += mine.step) {
            int row = tile.row_of(pixel);
            visit(row, pixel - row * tile.size);
        }
    }
}

// As es_channel_sums, of n_units units of `count` positions. Units are cut into slices, 1 to 8, so
// that all warps have as much to do: add(unit, slice, n_slices, sums) adds positions 32 slice +
// lane and every 32 n_slices-th from there. Begins and ends with a barrier.
template <typename Add>
static __device__ __forceinline__ void es_seed_slices(int n_units, int count, float *kept,
                                                      float *totals, Add add) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int log_slices = max(4 - __ffs(n_units), 0);
    while (log_slices > 0 && 32 << log_slices > count) {
        log_slices--;
    }
    log_slices = n_units << log_slices > ES_SEED_TASKS ? 0 : log_slices;
    int n_slices = 1 << log_slices;
    __syncthreads(); // what is summed may be fresh, and `kept` still be read
    for (int task = warp; task < n_units << log_slices; task += ES_FUSED_WARPS) {
        int unit = task >> log_slices;
        float sums[2][8] = {};
        add(unit, task & (n_slices - 1), n_slices, sums);
        float sum = es_warp_sums(sums);
        float *to = log_slices > 0
                        ? kept + task * 16 + lane / 2
                        : totals + (lane / 16 * n_units + unit) * ES_FUSED_UNIT + lane / 2 % 8;
        if (lane % 2 == 0) {
            *to = sum;
        }
    }
    __syncthreads();
    if (log_slices > 0) {
#pragma unroll 1
        for (int i = threadIdx.x; i < n_units * 16; i += ES_FUSED_THREADS) {
            const float *of = kept + (i / 16 << log_slices) * 16 + i % 16;
            float total = of[0];
#pragma unroll
            for (int s = 1; s < 8; s++) { // all loads at once
                total += s < n_slices ? of[s * 16] : 0.0f;
            }
            totals[(i / 8 % 2 * n_units + i / 16) * ES_FUSED_UNIT + i % 8] = total;
        }
        __syncthreads();
    }
}

// The same position by position: visit(position, sums) adds one.
template <typename Make>
static __device__ __forceinline__ void es_seed_sums(int n_units, int count, float *kept,
                                                    float *totals, Make make) {
    es_seed_slices(
        n_units, count, kept, totals, [&](int unit, int slice, int n_slices, float(&sums)[2][8]) {
            auto visit = make(unit);
            for (int i = slice * 32 + (int)threadIdx.x % 32; i < count; i += 32 * n_slices) {
                visit(i, sums);
            }
        });
}

// What 8 values become when they are stored as T.
static __device__ __forceinline__ void es_unit_round(float (&)[8], float) {}
template <typename T> static __device__ __forceinline__ void es_unit_round(float (&v)[8], T) {
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        float2 pair = es_pair_floats(es_pair_bits(v[i], v[i + 1], T()), T());
        v[i] = pair.x, v[i + 1] = pair.y;
    }
}

// --- layers ---

// Offsets for a convolution that reads a tile. Not a choice between hinted pointers, of which nvcc
// 13 makes code that reads wrong values.
template <typename T, typename P>
static __device__ __forceinline__ const int *es_seed_taps(const EsSeedWork<T, P> &w,
                                                          const EsTile &in, int kernel) {
    int table = kernel == 3             ? ES_SEED_TAPS_3X3
                : in.border             ? ES_SEED_TAPS_PADDED
                : in.units == w.units() ? ES_SEED_TAPS_MAP
                                        : ES_SEED_TAPS_NARROW;
    return w.s.offsets + es_seed_table(w.units(), table);
}

// Tensor k's convolution, or its input gradient. Begins with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_convolve(const EsSeedWork<T, P> &w, int k,
                                                     int is_backward, const T *in, EsTile in_tile,
                                                     T *out, EsTile out_tile) {
    int kernel = w.kernel[k], n_images = w.at.n_images, is_tf32 = w.is_tf32;
    const unsigned char *packed = w.packed[k][is_backward];
    const int *offsets = es_seed_taps(w, in_tile, kernel);
    in = es_shared(in), out = es_shared(out);
    __syncthreads();
    if (P::UNITS > 0 && in_tile.units == P::UNITS && out_tile.units == P::UNITS) {
        EsTile from = w.wide(in_tile.border), to = w.wide(out_tile.border);
        if (kernel == 3) {
            es_tile_convolve(EsKnown<9 * P::UNITS, P::UNITS>(), in, from, offsets, 9 * P::UNITS,
                             packed, out, to, n_images, is_tf32);
        } else {
            es_tile_convolve(EsKnown<P::UNITS, P::UNITS>(), in, from, offsets, P::UNITS, packed,
                             out, to, n_images, is_tf32);
        }
        return;
    }
    es_tile_convolve(in, w.tile(in_tile), offsets, es_tap_units(in_tile, kernel), packed, out,
                     w.tile(out_tile), n_images, is_tf32);
}

// Begins with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_rectify(const EsSeedWork<T, P> &w, T *tile,
                                                    EsTile shape) {
    tile = es_shared(tile);
    shape = w.tile(shape);
    __syncthreads();
    es_seed_each(w.at.n_images * shape.units, shape, [=](int unit) {
        return [=](int row, int column) {
            T *at = tile + shape.at(0, unit, row, column) * ES_FUSED_UNIT;
            float v[8];
            es_unit_load(v, at);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                v[c] = es_rectified(v[c]);
            }
            es_unit_store(at, v);
        };
    });
}

// to = depthwise 3x3 (tensor 0) of a tile with a border, or its input gradient. Begins with a
// barrier. A diagonal matrix per unit and tap: on the tensor cores that costs less than eight
// multiply-adds.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_depthwise(const EsSeedWork<T, P> &w, const T *from,
                                                      int is_backward, T *to) {
    EsTile padded = w.padded(), map = w.map();
    from = es_shared(from), to = es_shared(to);
    __syncthreads();
    es_tile_depthwise(from, padded, w.s.offsets, w.packed[0][is_backward], to, map, w.at.n_images);
}

// float, in TF32 too: plain multiply-adds with the weights in w.s.taps, which the forward call
// fills.
template <typename P>
static __device__ __noinline__ void
es_seed_depthwise(const EsSeedWork<float, P> &w, const float *from, int is_backward, float *to) {
    EsTile padded = w.padded(), map = w.map();
    float *taps = w.s.taps;
    const float *parameter = es_seed_parameter(w, 0);
    int stride = w.stride(), units = map.units, sign = is_backward ? -1 : 1;
    for (int i = threadIdx.x; !is_backward && i < 9 * stride; i += ES_FUSED_THREADS) {
        int tap = i / stride, channel = i - tap * stride;
        taps[i] = channel < w.channels() ? parameter[channel * 9 + tap] : 0.0f;
    }
    __syncthreads();
    es_seed_each(w.at.n_images * units, map, [=](int unit) {
        const float *weight = taps + unit % units * ES_FUSED_UNIT;
        return [=](int row, int column) {
            const float *centre = from + padded.at(0, unit, row, column) * ES_FUSED_UNIT;
            float sum[8] = {};
#pragma unroll
            for (int tap = 0; tap < 9; tap++) {
                int shift = sign * ((tap / 3 - 1) * padded.side() + tap % 3 - 1);
                float near[8], tap_weight[8];
                es_unit_load(near, centre + shift * ES_FUSED_UNIT);
                es_unit_load(tap_weight, weight + tap * stride);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    sum[c] = fmaf(tap_weight[c], near[c], sum[c]);
                }
            }
            es_unit_store(to + map.at(0, unit, row, column) * ES_FUSED_UNIT, sum);
        };
    });
}

// --- group norm ---

// From sums of v - v_0 and their squares per image and channel in w.s.totals, v_0 the channel's
// first pixel: the norm of each image's group. Statistics of channels are put together as
// n var = sum over channels of (squares - sum^2 / n + n (channel's mean - mean)^2), which loses
// nothing to a mean far from 0. Ends with a barrier.
template <typename T, typename P>
static __device__ __forceinline__ void es_group_combine(const EsSeedWork<T, P> &w, const T *tile,
                                                        EsTile shape, EsGroupNorm norm) {
    int stride = w.stride(), n_channels = w.channels(), n = w.at.n_images * stride;
    int width = w.s.width;
    float per_pixel = w.s.per_pixel, per_channel = w.s.per_channel;
    float *means = w.s.offset, *squares = w.s.totals + n;
    for (int i = threadIdx.x; i < n; i += ES_FUSED_THREADS) {
        float sum = w.s.totals[i];
        const T *first = tile + shape.at(0, i / ES_FUSED_UNIT, 0, 0) * ES_FUSED_UNIT;
        means[i] = fmaf(sum, per_pixel, (float)first[i % ES_FUSED_UNIT]);
        squares[i] = fmaf(-sum * per_pixel, sum, squares[i]) * per_pixel;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += ES_FUSED_THREADS) {
        int channel = i - w.image_of_element(i) * stride;
        int first = i - channel + es_divide(channel, width, w.s.by_width) * width;
        float mean = 0.0f, variance = 0.0f, inv_std = 0.0f, scale = 0.0f, shift = 0.0f;
        if (channel < n_channels) {
#pragma unroll 4
            for (int j = first; j < first + width; j++) {
                mean += means[j];
            }
            mean *= per_channel;
#pragma unroll 4
            for (int j = first; j < first + width; j++) {
                float apart = means[j] - mean;
                variance += fmaf(apart, apart, squares[j]);
            }
            variance *= per_channel;
            inv_std = 1.0f / sqrtf((variance < 0.0f ? 0.0f : variance) + ES_FUSED_EPSILON);
            scale = inv_std * norm.gamma[channel];
            shift = fmaf(-mean, scale, norm.beta[channel]);
        }
        norm.mean[i] = mean;
        norm.inv_std[i] = inv_std;
        norm.scale[i] = scale;
        norm.shift[i] = shift;
    }
    __syncthreads();
}

// Statistics per image and group of a tile, for a norm whose gamma and beta are loaded. Begins and
// ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_group_statistics(const EsSeedWork<T, P> &w, const T *tile,
                                                        EsTile shape, EsGroupNorm norm) {
    shape = w.wide(shape.border);
    tile = es_shared(tile);
    es_seed_sums(w.at.n_images * shape.units, shape.pixels(), w.s.kept, w.s.totals, [=](int unit) {
        float first[8];
        es_unit_load(first, tile + shape.at(0, unit, 0, 0) * ES_FUSED_UNIT);
        return [=](int pixel, float(&sums)[2][8]) {
            float v[8];
            es_unit_load(v, tile + shape.at_pixel(0, unit, pixel) * ES_FUSED_UNIT);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                float apart = v[c] - first[c];
                sums[0][c] += apart;
                sums[1][c] = fmaf(apart, apart, sums[1][c]);
            }
        };
    });
    es_group_combine(w, tile, shape, norm);
}

// The norm of one image-unit, in registers.
struct EsGroupUnit {
    float scale[8], shift[8];

    __device__ EsGroupUnit(const EsGroupNorm &norm, int unit) {
        es_unit_load(scale, norm.scale + unit * ES_FUSED_UNIT);
        es_unit_load(shift, norm.shift + unit * ES_FUSED_UNIT);
    }
    // The norm's output, as it would be stored.
    template <typename T> __device__ void apply(const float (&v)[8], float (&y)[8], T) const {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            y[c] = fmaf(v[c], scale[c], shift[c]);
        }
        es_unit_round(y, T());
    }
};

// --- the seed ---

// What a seed and its blend do in one image-unit, in registers.
template <typename T> struct EsSeedUnit {
    EsGroupUnit norm;
    float share, mix;
    int blueprint, mode;

    template <typename P>
    __device__ EsSeedUnit(const EsSeedWork<T, P> &w, int unit)
        : norm(w.s.norm[0], unit), share(w.s.share[w.image_of(unit)]), mix(w.mix),
          blueprint(w.slot.blueprint), mode(w.slot.mode) {}

    // s from the slot's input x and the branch v.
    __device__ void value(const float (&x)[8], const float (&v)[8], float (&s)[8]) const {
        float y[8];
        if (blueprint == ES_BLUEPRINT_ATTENTION) {
#pragma unroll
            for (int c = 0; c < 8; c++) {
                s[c] = x[c] * norm.scale[c];
            }
        } else if (blueprint == ES_BLUEPRINT_NORM) {
            norm.apply(v, y, T());
#pragma unroll
            for (int c = 0; c < 8; c++) {
                s[c] = x[c] + mix * (y[c] - x[c]);
            }
        } else {
            norm.apply(v, y, T());
#pragma unroll
            for (int c = 0; c < 8; c++) {
                s[c] = x[c] + y[c];
            }
        }
        es_unit_round(s, T());
    }

    // What the slot hands on, as it would be stored.
    __device__ void blend(const float (&x)[8], const float (&v)[8], float (&y)[8]) const {
        float s[8];
        if (share == 0.0f) {
#pragma unroll
            for (int c = 0; c < 8; c++) {
                y[c] = x[c];
            }
            return;
        }
        value(x, v, s);
        if (mode == ES_BLEND_MULTIPLY) {
#pragma unroll
            for (int c = 0; c < 8; c++) {
                y[c] = es_blend_value(ES_BLEND_MULTIPLY, share, x[c], s[c]);
            }
        } else if (share >= 1.0f) {
#pragma unroll
            for (int c = 0; c < 8; c++) {
                y[c] = s[c];
            }
            return;
        } else {
            // es_blend_value, with what all values share taken out
            bool is_near_x = share < 0.5f;
            float part = is_near_x ? share : share - 1.0f;
#pragma unroll
            for (int c = 0; c < 8; c++) {
                y[c] = (is_near_x ? x[c] : s[c]) + part * (s[c] - x[c]);
            }
        }
        es_unit_round(y, T());
    }
};

#endif
