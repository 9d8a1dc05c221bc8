// Backward at a slot: the seed runs again on each image, then gradients of its parameters and,
// where it mixes, of what entered the slot. Tiles are reused as fused_seed.cuh says.
#include "growth/fused_seed_gradient.cuh"

// --- layers ---

// Tensor k's gradient: a convolution that read `in` and whose output has gradient d. Begins with a
// barrier.
template <typename T>
static __device__ __noinline__ void weight_gradient(const EsSeedWork<T> &w, int k, const T *in,
                                                    EsTile in_tile, const T *d, EsTile d_tile) {
    int kernel = es_seed_tensor(w.place->n_channels, w.slot.blueprint, k).kernel;
    __syncthreads();
    es_tap_offsets(w.s.offsets, in_tile, kernel);
    __syncthreads();
    es_tile_weight_gradient(in, in_tile, w.s.offsets, es_tap_units(in_tile, kernel), d, d_tile,
                            w.at.n_images, w.s.zeros, w.s.scratch, es_seed_part(w, k));
}

// d where the ReLU let its value pass. Begins with a barrier.
template <typename T>
static __device__ __noinline__ void mask_rectified(const EsSeedWork<T> &w, const T *rectified,
                                                   EsTile rectified_tile, T *d, EsTile d_tile) {
    es_seed_transform(w, d, d_tile, d, d_tile, [&](const EsSpot &spot, float(&v)[8]) {
        float r[8];
        es_unit_load(r, rectified + spot.in(rectified_tile));
#pragma unroll
        for (int c = 0; c < 8; c++) {
            v[c] = r[c] > 0.0f ? v[c] : 0.0f;
        }
    });
}

// From the gradient of y to that of the branch before its norm (tensors k and k + 1), into `to`;
// where the seed mixes, what reaches the slot's input beside the branch goes to its memory. Begins
// and ends with a barrier.
template <typename T>
static __device__ __noinline__ void differentiate_top(const EsSeedWork<T> &w, int k, T *to,
                                                      EsTile to_tile) {
    const EsGroupNorm norm = w.s.norm[0];
    const T *branch = w.branch;
    EsTile map = w.s.map, branch_tile = w.branch_tile;
    es_channel_sums(w.at.n_images * map.units, map.pixels(), w.s.kept, w.s.totals,
                    [&](int image_unit, int pixel, float(&sums)[2][8]) {
                        EsSpot spot(image_unit, pixel, map);
                        float v[8], x[8], s[8], d_h[8], d_s[8];
                        es_seed_split(w, spot, x, s, d_h, d_s);
                        es_unit_load(v, branch + spot.in(branch_tile));
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            float x_hat =
                                es_group_x_hat(norm, image_unit * ES_FUSED_UNIT + c, v[c]);
                            sums[0][c] += d_s[c];
                            sums[1][c] = fmaf(d_s[c], x_hat, sums[1][c]);
                        }
                    });
    es_group_finish(w, norm, k);
    float scale = 1.0f / (float)map.pixels();
    es_seed_each(w, [&](const EsSpot &spot) {
        const float *d_average = w.s.d_average + spot.image * w.s.stride + spot.unit * 8;
        float v[8], x[8], s[8], d_h[8], d_s[8];
        es_seed_split(w, spot, x, s, d_h, d_s);
        es_unit_load(v, branch + spot.in(branch_tile));
#pragma unroll
        for (int c = 0; c < 8; c++) {
            v[c] = es_group_d_input(w, norm, spot, c, v[c], d_s[c]);
            d_h[c] += d_s[c] + d_average[c] * scale;
        }
        es_unit_store(to + spot.in(to_tile), v);
        if (w.is_mixed) {
            es_unit_store(es_seed_d_input(w, spot), d_h);
        }
    });
    __syncthreads();
}

// Add a tile to the gradient of what entered the slot. Begins with a barrier.
template <typename T>
static __device__ __noinline__ void add_to_input(const EsSeedWork<T> &w, const T *tile,
                                                 EsTile shape) {
    __syncthreads();
    es_seed_each(w, [&](const EsSpot &spot) {
        T *to = es_seed_d_input(w, spot);
        float sum[8], v[8];
        es_unit_load(sum, to);
        es_unit_load(v, tile + spot.in(shape));
#pragma unroll
        for (int c = 0; c < 8; c++) {
            sum[c] += v[c];
        }
        es_unit_store(to, sum);
    });
}

// --- blueprints ---

// One convolution of any kernel.
template <typename T>
static __device__ __noinline__ void differentiate_conv(const EsSeedWork<T> &w) {
    differentiate_top(w, 1, w.branch, w.branch_tile);
    weight_gradient(w, 0, w.s.x, w.s.padded, w.branch, w.branch_tile);
    if (w.is_mixed) {
        es_seed_convolve(w, 0, 1, w.branch, w.branch_tile, w.s.a, w.s.map);
        add_to_input(w, w.s.a, w.s.map);
    }
}

// Two taps of every channel at a time: sums of d_m times the shifted input. d_m is in n. Begins and
// ends with a barrier.
template <typename T>
static __device__ __noinline__ void depthwise_weight_gradient(const EsSeedWork<T> &w) {
    EsTile padded = w.s.padded;
    const T *x = w.s.x, *d_m = w.s.n;
    int units = padded.units, pixels = padded.pixels();
    es_channel_sums(5 * units, w.at.n_images * pixels, w.s.kept, es_seed_part(w, 0),
                    [&](int pair_unit, int i, float(&sums)[2][8]) {
                        EsSpot spot(i / pixels * units + pair_unit % units, i % pixels, padded);
                        float d[8], v[8];
                        es_unit_load(d, d_m + spot.in(padded));
#pragma unroll
                        for (int k = 0; k < 2; k++) {
                            int tap = 2 * (pair_unit / units) + k;
                            if (tap < 9) {
                                int shift = (tap / 3 - 1) * padded.side() + tap % 3 - 1;
                                es_unit_load(v, x + spot.in(padded) + shift * ES_FUSED_UNIT);
#pragma unroll
                                for (int c = 0; c < 8; c++) {
                                    sums[k][c] = fmaf(d[c], v[c], sums[k][c]);
                                }
                            }
                        }
                    });
}

template <typename T>
static __device__ __noinline__ void differentiate_depthwise(const EsSeedWork<T> &w) {
    EsTile padded = w.s.padded;
    const T *d_m = w.s.n;
    const float *weight = es_seed_parameter(w, 0);
    int n_channels = w.place->n_channels;
    differentiate_top(w, 2, w.branch, w.branch_tile);
    weight_gradient(w, 1, w.s.a, w.s.map, w.branch, w.branch_tile);
    es_seed_convolve(w, 1, 1, w.branch, w.branch_tile, w.s.n, padded);
    depthwise_weight_gradient(w);
    if (!w.is_mixed) {
        return;
    }
    es_seed_transform(w, d_m, padded, w.s.a, w.s.map, [&](const EsSpot &spot, float(&v)[8]) {
        float sum[8] = {};
        for (int tap = 0; tap < 9; tap++) {
            int shift = (1 - tap / 3) * padded.side() + 1 - tap % 3;
            es_unit_load(v, d_m + spot.in(padded) + shift * ES_FUSED_UNIT);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                int channel = spot.unit * ES_FUSED_UNIT + c;
                float tap_weight = channel < n_channels ? weight[channel * 9 + tap] : 0.0f;
                sum[c] = fmaf(tap_weight, v[c], sum[c]);
            }
        }
#pragma unroll
        for (int c = 0; c < 8; c++) {
            v[c] = sum[c];
        }
    });
    add_to_input(w, w.s.a, w.s.map);
}

template <typename T>
static __device__ __noinline__ void differentiate_bottleneck(const EsSeedWork<T> &w) {
    EsTile narrow = w.s.narrow, narrow_padded = w.s.narrow_padded, map = w.s.map;
    T *r1 = w.s.n, *r2 = w.s.a, *d_branch = w.s.d, *d_r2 = w.s.c, *d_r1 = w.s.a;
    differentiate_top(w, 3, d_branch, map);
    weight_gradient(w, 2, r2, narrow, d_branch, map);
    es_tile_clear(d_r2, narrow_padded, w.at.n_images); // the branch was there, without a border
    es_seed_convolve(w, 2, 1, d_branch, map, d_r2, narrow_padded);
    mask_rectified(w, r2, narrow, d_r2, narrow_padded);
    weight_gradient(w, 1, r1, narrow_padded, d_r2, narrow_padded);
    es_seed_convolve(w, 1, 1, d_r2, narrow_padded, d_r1, narrow);
    mask_rectified(w, r1, narrow_padded, d_r1, narrow);
    weight_gradient(w, 0, w.s.x, w.s.padded, d_r1, narrow);
    if (w.is_mixed) {
        es_seed_convolve(w, 0, 1, d_r1, narrow, w.s.d, map);
        add_to_input(w, w.s.d, map);
    }
}

// Through the ReLU and the norm between conv_heavy's convolutions: n holds the gradient of the
// ReLU's output and becomes that of the first convolution's, whose output is in a. Begins with a
// barrier.
template <typename T>
static __device__ __noinline__ void differentiate_middle(const EsSeedWork<T> &w) {
    const EsGroupNorm norm = w.s.norm[1];
    EsTile map = w.s.map, padded = w.s.padded;
    // the gradient of the norm's output at a unit, and the norm's input there
    auto load = [&](const EsSpot &spot, float(&d)[8], float(&v)[8]) {
        float y[8];
        es_unit_load(d, w.s.n + spot.in(padded));
        es_unit_load(v, w.s.a + spot.in(map));
        es_group_apply<T>(norm, w.s.stride, spot, v, y);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            d[c] = y[c] > 0.0f ? d[c] : 0.0f;
        }
    };
    es_channel_sums(w.at.n_images * map.units, map.pixels(), w.s.kept, w.s.totals,
                    [&](int image_unit, int pixel, float(&sums)[2][8]) {
                        float d[8], v[8];
                        load(EsSpot(image_unit, pixel, map), d, v);
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            int i = image_unit * ES_FUSED_UNIT + c;
                            sums[0][c] += d[c];
                            sums[1][c] = fmaf(d[c], es_group_x_hat(norm, i, v[c]), sums[1][c]);
                        }
                    });
    es_group_finish(w, norm, 1);
    es_seed_each(w, [&](const EsSpot &spot) {
        float d[8], v[8];
        load(spot, d, v);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            d[c] = es_group_d_input(w, norm, spot, c, v[c], d[c]);
        }
        es_unit_store(w.s.n + spot.in(padded), d);
    });
}

template <typename T>
static __device__ __noinline__ void differentiate_conv_heavy(const EsSeedWork<T> &w) {
    EsTile padded = w.s.padded;
    differentiate_top(w, 4, w.branch, w.branch_tile);
    weight_gradient(w, 3, w.s.n, padded, w.branch, w.branch_tile);
    es_seed_convolve(w, 3, 1, w.branch, w.branch_tile, w.s.n, padded);
    differentiate_middle(w);
    weight_gradient(w, 0, w.s.x, padded, w.s.n, padded);
    if (w.is_mixed) {
        es_seed_convolve(w, 0, 1, w.s.n, padded, w.s.a, w.s.map);
        add_to_input(w, w.s.a, w.s.map);
    }
}

template <typename T>
static __device__ __noinline__ void differentiate_attention(const EsSeedWork<T> &w) {
    const float *factor = w.s.norm[0].mean;
    float scale = 1.0f / (float)w.s.map.pixels();
    es_seed_attend_backward(w);
    if (!w.is_mixed) {
        return;
    }
    es_seed_each(w, [&](const EsSpot &spot) {
        int i = spot.image * w.s.stride + spot.unit * ES_FUSED_UNIT;
        float x[8], s[8], d_h[8], d_s[8];
        es_seed_split(w, spot, x, s, d_h, d_s);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            d_h[c] += d_s[c] * factor[i + c] + w.s.d_average[i + c] * scale;
        }
        es_unit_store(es_seed_d_input(w, spot), d_h);
    });
}

// s = x + t (n - x), n the norm of x: d_n = t d_s, and d_g = (1 - t^2) sum of d_s (n - x).
template <typename T>
static __device__ __noinline__ void differentiate_norm(const EsSeedWork<T> &w) {
    const EsGroupNorm norm = w.s.norm[0];
    EsTile map = w.s.map;
    float mix = w.mix, scale = 1.0f / (float)map.pixels();
    es_channel_sums(w.at.n_images * map.units, map.pixels(), w.s.kept, w.s.totals,
                    [&](int image_unit, int pixel, float(&sums)[2][8]) {
                        EsSpot spot(image_unit, pixel, map);
                        float x[8], s[8], n[8], d_h[8], d_s[8];
                        es_seed_split(w, spot, x, s, d_h, d_s);
                        es_group_apply<T>(norm, w.s.stride, spot, x, n);
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            sums[0][c] = fmaf(d_s[c], n[c] - x[c], sums[0][c]);
                        }
                    });
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = 0; i < w.at.n_images * w.s.stride; i++) {
            sum += w.s.totals[i];
        }
        *es_seed_part(w, 2) = (1.0f - mix) * (1.0f + mix) * sum;
    }
    es_channel_sums(w.at.n_images * map.units, map.pixels(), w.s.kept, w.s.totals,
                    [&](int image_unit, int pixel, float(&sums)[2][8]) {
                        float x[8], s[8], d_h[8], d_s[8];
                        es_seed_split(w, EsSpot(image_unit, pixel, map), x, s, d_h, d_s);
#pragma unroll
                        for (int c = 0; c < 8; c++) {
                            int i = image_unit * ES_FUSED_UNIT + c;
                            sums[0][c] = fmaf(mix, d_s[c], sums[0][c]);
                            sums[1][c] =
                                fmaf(mix * d_s[c], es_group_x_hat(norm, i, x[c]), sums[1][c]);
                        }
                    });
    es_group_finish(w, norm, 0);
    if (!w.is_mixed) {
        return;
    }
    es_seed_each(w, [&](const EsSpot &spot) {
        int i = spot.image * w.s.stride + spot.unit * ES_FUSED_UNIT;
        float x[8], s[8], d_h[8], d_s[8];
        es_seed_split(w, spot, x, s, d_h, d_s);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            d_h[c] += (1.0f - mix) * d_s[c] + w.s.d_average[i + c] * scale +
                      es_group_d_input(w, norm, spot, c, x[c], mix * d_s[c]);
        }
        es_unit_store(es_seed_d_input(w, spot), d_h);
    });
}

template <typename T>
static __global__ void __launch_bounds__(ES_FUSED_THREADS, ES_SEED_BACKWARD_BLOCKS)
    fused_seed_backward_kernel(const __grid_constant__ EsFusedArguments args, int slot,
                               int images_per_part, int part_length) {
    ES_DYNAMIC_SHARED(memory);
    __shared__ EsSeedWork<T> w;
    if (!es_seed_begin(args, slot, images_per_part, 1, memory, w)) {
        return;
    }
    if (threadIdx.x == 0) {
        w.part =
            args.seed_parts[slot] + ((int64_t)w.at.row * w.at.n_parts + w.at.part) * part_length;
    }
    es_seed_run(w);
    es_seed_d_output(w);
    if (w.slot.mode == ES_BLEND_GATE) {
        es_seed_gate_backward(w);
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
    if (w.is_mixed) {
        es_seed_sum_host_norm(w);
    }
}

extern "C" size_t es_fused_seed_backward_bytes(const EsFusedPlace *place, EsDtype precision,
                                               int n_images) {
    size_t bytes = 0;
    ES_DISPATCH_FUSED(precision, T, EsSeedShared<T> s; s.carve(*place, n_images, 1, NULL);
                      bytes = s.bytes);
    return bytes;
}

extern "C" void es_fused_seed_backward(EsStream *stream, EsDtype precision,
                                       const EsFusedArguments *args, int slot,
                                       int images_per_part) {
    EsLaunch launch(stream, "fused_seed_backward");
    int64_t n_parts = es_ceil_div(args->n_images, images_per_part);
    const EsFusedPlace *place = &args->net.place[slot];
    ES_ASSERT(n_parts == args->n_seed_parts[slot]);
    size_t bytes = es_fused_seed_backward_bytes(place, precision, images_per_part);
    ES_DISPATCH_FUSED(precision, T,
                      launch.start_shared(fused_seed_backward_kernel<T>,
                                          dim3((unsigned)(args->rows.n_rows * n_parts)),
                                          ES_FUSED_THREADS, bytes, *args, slot, images_per_part,
                                          es_fused_seed_part_length(place)));
}
