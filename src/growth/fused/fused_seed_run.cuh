// A seed forward on the images of a chunk: its layers, the small networks of attention and gate,
// and each image's share.
#ifndef ES_GROWTH_FUSED_SEED_RUN_CUH
#define ES_GROWTH_FUSED_SEED_RUN_CUH

#include "growth/fused/fused_seed_pass.cuh"

// --- small networks on channel averages ---

// Channel averages of x. Begins and ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_average(const EsSeedWork<T, P> &w) {
    EsTile padded = w.padded();
    const T *x = w.s.x;
    float per_pixel = w.s.per_pixel;
    es_seed_sums(w.at.n_images * padded.n_c8, padded.pixels(), w.s.kept, w.s.totals, [=](int c8) {
        return [=](int pixel, float(&sums)[2][8]) {
            float v[8];
            es_c8_load(v, x + padded.at_pixel(0, c8, pixel) * ES_C8);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                sums[0][c] += v[c];
            }
        };
    });
    for (int i = threadIdx.x; i < w.at.n_images * w.stride(); i += ES_FUSED_THREADS) {
        w.s.average[i] = w.s.totals[i] * per_pixel;
    }
    __syncthreads();
}

static __device__ __forceinline__ float es_sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }

// bias + weight . x
static __device__ __forceinline__ float es_seed_dot(const float *weight, const float *x, int n,
                                                    float bias) {
    float sum = bias;
    for (int i = 0; i < n; i++) {
        sum = fmaf(weight[i], x[i], sum);
    }
    return sum;
}

// hidden[j] = relu(weight[j] . average + bias[j]) of every image; bias is nullable. Ends with a
// barrier.
template <typename T, typename P>
static __device__ void es_seed_hidden(const EsSeedWork<T, P> &w, const float *weight,
                                      const float *bias, int width, float *hidden) {
    int n_channels = w.channels();
    for (int i = threadIdx.x; i < w.at.n_images * width; i += ES_FUSED_THREADS) {
        int image = i / width, j = i % width;
        hidden[image * w.stride() + j] =
            es_rectified(es_seed_dot(weight + j * n_channels, w.s.average + image * w.stride(),
                                     n_channels, bias != NULL ? bias[j] : 0.0f));
    }
    __syncthreads();
}

// The factor of each image and channel in norm[0].scale, hidden values in norm[1].mean. Begins and
// ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_attend(const EsSeedWork<T, P> &w) {
    int width = es_blueprint_squeezed(w.channels()), stride = w.stride();
    const float *excite = es_seed_parameter(w, 1), *bias = es_seed_parameter(w, 2);
    float *hidden = w.s.norm[1].mean, *factor = w.s.norm[0].scale;
    es_seed_average(w);
    es_seed_hidden(w, es_seed_parameter(w, 0), NULL, width, hidden);
    for (int i = threadIdx.x; i < w.at.n_images * stride; i += ES_FUSED_THREADS) {
        int channel = i - w.image_of_element(i) * stride;
        w.s.norm[0].mean[i] = 0.0f;
        factor[i] = channel < w.channels()
                        ? es_sigmoid(es_seed_dot(excite + channel * width, hidden + i - channel,
                                                 width, bias[channel]))
                        : 0.0f;
    }
    __syncthreads();
}

// gate and share of each image, where a gate decides. Begins and ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_share(const EsSeedWork<T, P> &w) {
    int width = es_blueprint_narrow(w.channels());
    if (w.slot.blueprint != ES_BLUEPRINT_ATTENTION) { // attention has it already
        es_seed_average(w);
    }
    es_seed_hidden(w, es_gate_parameter(w, 0), es_gate_parameter(w, 1), width, w.s.hidden);
    for (int i = threadIdx.x; i < w.at.n_images; i += ES_FUSED_THREADS) {
        float gate = es_sigmoid(es_seed_dot(es_gate_parameter(w, 2), w.s.hidden + i * w.stride(),
                                            width, *es_gate_parameter(w, 3)));
        w.s.gate[i] = gate;
        w.s.share[i] = es_blend_share(ES_BLEND_GATE, w.slot.alpha, gate);
    }
    __syncthreads();
}

// --- layers ---

template <typename T, typename P>
static __device__ void es_seed_bottleneck(const EsSeedWork<T, P> &w) {
    T *r2 = w.is_backward ? w.s.a.pointer : w.s.c.pointer;
    es_seed_convolve<T>(w, 0, 0, w.s.x, w.padded(), w.s.n, w.narrow_padded());
    es_seed_rectify<T>(w, w.s.n, w.narrow_padded());
    es_seed_convolve<T>(w, 1, 0, w.s.n, w.narrow_padded(), r2, w.narrow());
    es_seed_rectify<T>(w, r2, w.narrow());
    es_seed_convolve<T>(w, 2, 0, r2, w.narrow(), w.branch, w.branch_tile());
}

template <typename T, typename P>
static __device__ void es_seed_conv_heavy(const EsSeedWork<T, P> &w) {
    // plain pointers: of a choice between two hinted ones nvcc 13 makes code that reads wrong
    // values
    T *first = w.is_backward ? w.s.a.pointer : w.s.n.pointer, *rectified = w.s.n.pointer;
    EsTile first_tile = w.is_backward ? w.map() : w.padded(), padded = w.padded();
    EsGroupNorm norm = w.s.norm[1];
    es_seed_convolve<T>(w, 0, 0, w.s.x, padded, first, first_tile);
    es_group_statistics<T>(w, first, first_tile, norm);
    es_seed_each(w.at.n_images * padded.n_c8, padded, [=](int c8) {
        EsGroupNormC8 of(norm, c8);
        return [=](int row, int column) {
            float v[8], y[8];
            es_c8_load(v, first + first_tile.at(0, c8, row, column) * ES_C8);
            of.apply(v, y, T());
#pragma unroll
            for (int c = 0; c < 8; c++) {
                y[c] = es_rectified(y[c]);
            }
            es_c8_store(rectified + padded.at(0, c8, row, column) * ES_C8, y);
        };
    });
    es_seed_convolve<T>(w, 3, 0, w.s.n, padded, w.branch, w.branch_tile());
}

// Everything that EsSeedC8 reads, from x on. Ends with a barrier.
template <typename T, typename P>
static __device__ __noinline__ void es_seed_run(const EsSeedWork<T, P> &w) {
    switch (w.slot.blueprint) {
    case ES_BLUEPRINT_CONV_LIGHT:
    case ES_BLUEPRINT_CONV_SMALL:
        es_seed_convolve<T>(w, 0, 0, w.s.x, w.padded(), w.branch, w.branch_tile());
        break;
    case ES_BLUEPRINT_DEPTHWISE: {
        T *m = w.is_backward ? w.s.a.pointer : w.s.n.pointer;
        es_seed_depthwise(w, (const T *)w.s.x, 0, m);
        es_seed_convolve<T>(w, 1, 0, m, w.map(), w.branch, w.branch_tile());
        break;
    }
    case ES_BLUEPRINT_BOTTLENECK:
        es_seed_bottleneck(w);
        break;
    case ES_BLUEPRINT_CONV_HEAVY:
        es_seed_conv_heavy(w);
        break;
    default:
        break;
    }
    if (w.slot.blueprint == ES_BLUEPRINT_ATTENTION) {
        es_seed_attend(w);
    } else {
        es_group_statistics<T>(w, w.branch, w.branch_tile(), w.s.norm[0]);
    }
    if (w.slot.mode == ES_BLEND_GATE) {
        es_seed_share(w);
    }
}

#endif
