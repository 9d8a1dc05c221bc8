// Building blocks of seeds: layers, group norms, and a seed with its blend on a channel group.
#ifndef ES_GROWTH_FUSED_SEED_PASS_CUH
#define ES_GROWTH_FUSED_SEED_PASS_CUH

#include "growth/fused/fused_seed_begin.cuh"

// --- sums ---

// Passes over the maps of a chunk, and sums over them.
//
// Image-channel groups, numbered image * channel groups + channel group, are [row][column] each;
// tile.at(0, image-channel group, row, column) is the offset of a pixel. Data common to all pixels
// of an image-channel group is read once: `make` takes an image-channel group and returns the
// function that is called with each of its pixels.

// visit(row, column) for each of the image-channel groups' pixels, each in one thread and always
// the same.
template <typename Make>
static __device__ __forceinline__ void es_seed_each(int n_c8, EsTile tile, Make make) {
    int pixels = tile.pixels();
    EsThreadMap mine = es_thread_map(pixels);
    for (int c8 = mine.c8; c8 < n_c8; c8 += mine.c8_step) {
        auto visit = make(c8);
        for (int pixel = mine.first; pixel < pixels; pixel += mine.step) {
            int row = tile.row_of(pixel);
            visit(row, pixel - row * tile.size);
        }
    }
}

// Rounds n threads up to whole warps.
static __device__ __forceinline__ int es_whole_warps(int n) { return (n + 31) / 32 * 32; }

// Two sums per channel of n_c8 channel groups of `count` positions. Channel groups are cut into
// slices, 1 to 8, so that all warps have as much to do: add(channel group, slice, n_slices, sums)
// adds positions 32 slice + lane and every 32 n_slices-th from there. Slices are added in a fixed
// order: finish(i, first, second) once for channel i % 8 of channel group i / 8, in whole warps, so
// that i may lie past the last. Begins and ends with a barrier.
template <typename Add, typename Finish>
static __device__ __forceinline__ void es_seed_slices(int n_c8, int count, float *kept, Add add,
                                                      Finish finish) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int log_slices = max(4 - __ffs(n_c8), 0);
    while (log_slices > 0 && 32 << log_slices > count) {
        log_slices--;
    }
    log_slices = n_c8 << log_slices > ES_SEED_TASKS ? 0 : log_slices;
    int n_slices = 1 << log_slices;
    __syncthreads(); // summands may be fresh, and `kept` still be read
    for (int task = warp; task < n_c8 << log_slices; task += ES_FUSED_WARPS) {
        float sums[2][8] = {};
        add(task >> log_slices, task & (n_slices - 1), n_slices, sums);
        float sum = es_warp_sums(sums);
        if (lane % 2 == 0) {
            kept[task * 16 + lane / 2] = sum;
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < es_whole_warps(n_c8 * 8); i += ES_FUSED_THREADS) {
        const float *of = kept + (min(i / 8, n_c8 - 1) << log_slices) * 16 + i % 8;
        float first = of[0], second = of[8];
#pragma unroll
        for (int s = 1; s < 8; s++) { // all loads at once
            first += s < n_slices ? of[s * 16] : 0.0f;
            second += s < n_slices ? of[s * 16 + 8] : 0.0f;
        }
        finish(i, first, second);
    }
    __syncthreads();
}

// Sums as they are, [2][n], anywhere.
struct EsSeedTotals {
    float *totals;
    int n;

    __device__ void operator()(int i, float first, float second) const {
        if (i < n) {
            totals[i] = first;
            totals[n + i] = second;
        }
    }
};

// The same position by position: visit(position, sums) adds one.
template <typename Make, typename Finish>
static __device__ __forceinline__ void es_seed_finish_sums(int n_c8, int count, float *kept,
                                                           Make make, Finish finish) {
    auto add = [&](int c8, int slice, int n_slices, float(&sums)[2][8]) {
        auto visit = make(c8);
        for (int i = slice * 32 + (int)threadIdx.x % 32; i < count; i += 32 * n_slices) {
            visit(i, sums);
        }
    };
    es_seed_slices(n_c8, count, kept, add, finish);
}

template <typename Make>
static __device__ __forceinline__ void es_seed_sums(int n_c8, int count, float *kept, float *totals,
                                                    Make make) {
    EsSeedTotals finish = {totals, n_c8 * ES_C8};
    es_seed_finish_sums(n_c8, count, kept, make, finish);
}

// Rounds 8 values to T.
static __device__ __forceinline__ void es_c8_round(float (&)[8], float) {}
template <typename T> static __device__ __forceinline__ void es_c8_round(float (&v)[8], T) {
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
    int table = kernel == 3           ? ES_SEED_TAPS_3X3
                : in.border           ? ES_SEED_TAPS_PADDED
                : in.n_c8 == w.n_c8() ? ES_SEED_TAPS_MAP
                                      : ES_SEED_TAPS_NARROW;
    return w.s.offsets + es_seed_table(w.n_c8(), table);
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
    if (P::C8 > 0 && in_tile.n_c8 == P::C8 && out_tile.n_c8 == P::C8) {
        EsTile from = w.wide(in_tile.border), to = w.wide(out_tile.border);
        if (kernel == 3) {
            es_tile_convolve(EsKnown<9 * P::C8, P::C8>(), in, from, offsets, 9 * P::C8, packed, out,
                             to, n_images, is_tf32);
        } else {
            es_tile_convolve(EsKnown<P::C8, P::C8>(), in, from, offsets, P::C8, packed, out, to,
                             n_images, is_tf32);
        }
        return;
    }
    es_tile_convolve(in, w.tile(in_tile), offsets, es_tap_c8(in_tile, kernel), packed, out,
                     w.tile(out_tile), n_images, is_tf32);
}

// Begins with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_rectify(const EsSeedWork<T, P> &w, T *tile,
                                                    EsTile shape) {
    tile = es_shared(tile);
    shape = w.tile(shape);
    __syncthreads();
    es_seed_each(w.at.n_images * shape.n_c8, shape, [=](int c8) {
        return [=](int row, int column) {
            T *at = tile + shape.at(0, c8, row, column) * ES_C8;
            float v[8];
            es_c8_load(v, at);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                v[c] = es_rectified(v[c]);
            }
            es_c8_store(at, v);
        };
    });
}

// to = depthwise 3x3 (tensor 0) of a tile with a border, or its input gradient. Begins with a
// barrier. A diagonal matrix per channel group and tap: on the tensor cores that costs less than
// eight multiply-adds.
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
    int stride = w.stride(), n_c8 = map.n_c8, sign = is_backward ? -1 : 1;
    for (int i = threadIdx.x; !is_backward && i < 9 * stride; i += ES_FUSED_THREADS) {
        int tap = i / stride, channel = i - tap * stride;
        taps[i] = channel < w.channels() ? parameter[channel * 9 + tap] : 0.0f;
    }
    __syncthreads();
    es_seed_each(w.at.n_images * n_c8, map, [=](int c8) {
        const float *weight = taps + c8 % n_c8 * ES_C8;
        return [=](int row, int column) {
            const float *centre = from + padded.at(0, c8, row, column) * ES_C8;
            float sum[8] = {};
#pragma unroll
            for (int tap = 0; tap < 9; tap++) {
                int shift = sign * ((tap / 3 - 1) * padded.side() + tap % 3 - 1);
                float near[8], tap_weight[8];
                es_c8_load(near, centre + shift * ES_C8);
                es_c8_load(tap_weight, weight + tap * stride);
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    sum[c] = fmaf(tap_weight[c], near[c], sum[c]);
                }
            }
            es_c8_store(to + map.at(0, c8, row, column) * ES_C8, sum);
        };
    });
}

// --- group norm ---

// The sum over a group of lanes, in all of them: for known shapes a group is 8 or 16 neighbouring
// lanes.
static __device__ __forceinline__ float es_group_sum(float value, int width) {
    for (int step = 1; step < width; step *= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
    }
    return value;
}

// Element i of a norm's vectors. Of channels that do not exist all is 0.
static __device__ __forceinline__ void es_group_set(const EsGroupNorm &norm, int i, int channel,
                                                    bool is_there, float mean, float variance) {
    float inv_std =
        is_there ? 1.0f / sqrtf((variance < 0.0f ? 0.0f : variance) + ES_FUSED_EPSILON) : 0.0f;
    float scale = inv_std * norm.gamma[channel];
    norm.mean[i] = mean;
    norm.inv_std[i] = inv_std;
    norm.scale[i] = scale;
    norm.shift[i] = fmaf(-mean, scale, norm.beta[channel]);
}

// From sums of v - v_0 and their squares per image and channel, v_0 the channel's first pixel: the
// norm of each image's group. Statistics of channels are put together as
// n var = sum over channels of (squares - sum^2 / n + n (channel's mean - mean)^2), which loses
// nothing to a mean far from 0. Sums are w.s.totals. Ends with a barrier.
template <typename T, typename P>
static __device__ __forceinline__ void es_group_combine(const EsSeedWork<T, P> &w, const T *tile,
                                                        EsTile shape, EsGroupNorm norm) {
    int stride = w.stride(), n_channels = w.channels(), n = w.at.n_images * stride;
    int width = w.s.width;
    float per_pixel = w.s.per_pixel, per_channel = w.s.per_channel;
    float *means = w.s.offset, *squares = w.s.totals + n;
    for (int i = threadIdx.x; i < n; i += ES_FUSED_THREADS) {
        float sum = w.s.totals[i];
        const T *first = tile + shape.at(0, i / ES_C8, 0, 0) * ES_C8;
        means[i] = fmaf(sum, per_pixel, (float)first[i % ES_C8]);
        squares[i] = fmaf(-sum * per_pixel, sum, squares[i]) * per_pixel;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += ES_FUSED_THREADS) {
        int channel = i - w.image_of_element(i) * stride;
        int first = i - channel + es_divide(channel, width, w.s.by_width) * width;
        bool is_there = channel < n_channels;
        float mean = 0.0f, variance = 0.0f;
        for (int j = first; is_there && j < first + width; j++) {
            mean += means[j];
        }
        mean *= per_channel;
        for (int j = first; is_there && j < first + width; j++) {
            float apart = means[j] - mean;
            variance += fmaf(apart, apart, squares[j]);
        }
        es_group_set(norm, i, channel, is_there, mean, variance * per_channel);
    }
    __syncthreads();
}

// The same for known shapes, a lane per image and channel, without a barrier.
template <typename T, typename P> struct EsGroupCombine {
    const T *tile;
    EsTile shape;
    EsGroupNorm norm;
    int n, width;
    float per_pixel, per_channel;

    __device__ EsGroupCombine(const EsSeedWork<T, P> &w, const T *of, EsTile of_shape,
                              const EsGroupNorm &to)
        : tile(of), shape(of_shape), norm(to), n(w.at.n_images * w.stride()), width(w.s.width),
          per_pixel(w.s.per_pixel), per_channel(w.s.per_channel) {}
    __device__ void operator()(int i, float sum, float square) const {
        int c8 = min(i, n - 1) / ES_C8, c = i % ES_C8;
        float first = (float)tile[shape.at(0, c8, 0, 0) * ES_C8 + c];
        float channel_mean = fmaf(sum, per_pixel, first);
        float mean = es_group_sum(channel_mean, width) * per_channel;
        float apart = channel_mean - mean;
        float variance = fmaf(-sum * per_pixel, sum, square) * per_pixel;
        variance = es_group_sum(fmaf(apart, apart, variance), width) * per_channel;
        if (i < n) {
            es_group_set(norm, i, c8 % P::C8 * ES_C8 + c, true, mean, variance);
        }
    }
};

// Statistics per image and group of a tile, for a norm whose gamma and beta are loaded. Begins and
// ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_group_statistics(const EsSeedWork<T, P> &w, const T *tile,
                                                        EsTile shape, EsGroupNorm norm) {
    shape = w.wide(shape.border);
    tile = es_shared(tile);
    int n_c8 = w.at.n_images * shape.n_c8;
    auto make = [=](int c8) {
        float first[8];
        es_c8_load(first, tile + shape.at(0, c8, 0, 0) * ES_C8);
        return [=](int pixel, float(&sums)[2][8]) {
            float v[8];
            es_c8_load(v, tile + shape.at_pixel(0, c8, pixel) * ES_C8);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                float apart = v[c] - first[c];
                sums[0][c] += apart;
                sums[1][c] = fmaf(apart, apart, sums[1][c]);
            }
        };
    };
    if constexpr (P::C8 > 0) {
        es_seed_finish_sums(n_c8, shape.pixels(), w.s.kept, make,
                            EsGroupCombine<T, P>(w, tile, shape, norm));
    } else {
        es_seed_sums(n_c8, shape.pixels(), w.s.kept, w.s.totals, make);
        es_group_combine(w, tile, shape, norm);
    }
}

// The norm of one image-channel group, in registers.
struct EsGroupNormC8 {
    float scale[8], shift[8];

    __device__ EsGroupNormC8(const EsGroupNorm &norm, int c8) {
        es_c8_load(scale, norm.scale + c8 * ES_C8);
        es_c8_load(shift, norm.shift + c8 * ES_C8);
    }
    // The norm's output, as it would be stored.
    template <typename T> __device__ void apply(const float (&v)[8], float (&y)[8], T) const {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            y[c] = fmaf(v[c], scale[c], shift[c]);
        }
        es_c8_round(y, T());
    }
};

// --- the seed ---

// A seed and its blend on one image-channel group, in registers.
template <typename T> struct EsSeedC8 {
    EsGroupNormC8 norm;
    float share, mix;
    int blueprint, mode;

    template <typename P>
    __device__ EsSeedC8(const EsSeedWork<T, P> &w, int c8)
        : norm(w.s.norm[0], c8), share(w.s.share[w.image_of(c8)]), mix(w.mix),
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
        es_c8_round(s, T());
    }

    // The slot's output, rounded as stored.
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
            // es_blend_value, with the common factors hoisted
            bool is_near_x = share < 0.5f;
            float weight = is_near_x ? share : share - 1.0f;
#pragma unroll
            for (int c = 0; c < 8; c++) {
                y[c] = (is_near_x ? x[c] : s[c]) + weight * (s[c] - x[c]);
            }
        }
        es_c8_round(y, T());
    }
};

#endif
