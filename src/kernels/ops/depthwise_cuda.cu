// A thread computes one pixel of one channel; d_weight takes a block per (environment, channel).
// Letters: E environments, N images, C channels, H W size, K kernel size.
#include "kernels/cuda/cuda_common.cuh"

struct DepthwiseShape {
    uint32_t n_images, n_channels, height, width;
};

static DepthwiseShape depthwise_shape(EsIn x) {
    DepthwiseShape shape = {(uint32_t)x->dim[1], (uint32_t)x->dim[2], (uint32_t)x->dim[3],
                            (uint32_t)x->dim[4]};
    return shape;
}

template <typename T>
static __device__ __forceinline__ float pixel_at(const T *plane, int row, int column,
                                                 const DepthwiseShape &shape) {
    bool is_inside =
        row >= 0 && row < (int)shape.height && column >= 0 && column < (int)shape.width;
    return is_inside ? es_load(plane + (int64_t)row * shape.width + column) : 0.0f;
}

// The gradient of the input is the same with the kernel turned by half a turn.
template <typename T, int K, bool IS_BACKWARD>
static __global__ void depthwise_kernel(const T *x, EsEnvs<const float> weight, T *y,
                                        DepthwiseShape shape, EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    uint32_t plane = shape.height * shape.width;
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        uint32_t position = j % plane, channel = j / plane % shape.n_channels;
        int row = (int)(position / shape.width), column = (int)(position % shape.width);
        const T *input = x + span.env * tiles.count + (j - position);
        const float *taps = weight.at(span.env) + channel * (K * K);
        float sum = 0.0f;
#pragma unroll
        for (int tap = 0; tap < K * K; tap++) {
            float w = es_weight<T>(taps[IS_BACKWARD ? K * K - 1 - tap : tap]);
            sum = fmaf(w, pixel_at(input, row + tap / K - K / 2, column + tap % K - K / 2, shape),
                       sum);
        }
        es_store(y + span.env * tiles.count + j, sum);
    }
}

template <typename T, int K>
static __global__ void depthwise_backward_weight_kernel(const T *x, const T *d_y,
                                                        EsEnvs<float> d_weight,
                                                        DepthwiseShape shape) {
    int64_t env = blockIdx.x / shape.n_channels;
    uint32_t channel = blockIdx.x % shape.n_channels;
    uint32_t plane = shape.height * shape.width;
    float sum[K * K] = {};
    for (EsChannelWalk at(plane); at.n < shape.n_images; at.advance()) {
        int64_t base =
            ((env * shape.n_images + at.n) * shape.n_channels + channel) * (int64_t)plane;
        float d = es_load(d_y + base + at.p);
        int row = (int)(at.p / shape.width), column = (int)(at.p % shape.width);
#pragma unroll
        for (int tap = 0; tap < K * K; tap++) {
            int r = row + tap / K - K / 2, c = column + tap % K - K / 2;
            sum[tap] = fmaf(d, pixel_at(x + base, r, c, shape), sum[tap]);
        }
    }
#pragma unroll
    for (int tap = 0; tap < K * K; tap++) {
        float total = es_block_sum(sum[tap]);
        if (threadIdx.x == 0) {
            d_weight.at(env)[channel * (K * K) + tap] = total;
        }
    }
}

template <int K, bool IS_BACKWARD>
static void start_depthwise(EsLaunch &launch, EsIn x, EsIn weight, EsOut y) {
    EsTiles tiles = es_tiles(es_tensor_count(x) / ES_MAX(x->dim[0], 1));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(depthwise_kernel<T, K, IS_BACKWARD>,
                                   es_tiles_grid(tiles, x->dim[0]), ES_THREADS, es_data<T>(x),
                                   es_in<float>(weight), es_data<T>(y), depthwise_shape(x), tiles));
}

template <int K>
static void start_backward_weight(EsLaunch &launch, EsIn x, EsIn d_y, EsOut d_weight) {
    dim3 grid((unsigned)(x->dim[0] * x->dim[2]));
    dim3 block(es_block_for(x->dim[1] * x->dim[3] * x->dim[4], ES_THREADS));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(depthwise_backward_weight_kernel<T, K>, grid, block,
                                   es_data<T>(x), es_data<T>(d_y), es_out<float>(d_weight),
                                   depthwise_shape(x)));
}

template <bool IS_BACKWARD>
static void start_for_size(EsLaunch &launch, EsIn x, EsIn weight, EsOut y) {
    int64_t size = weight->dim[3];
    ES_ASSERT(size == 1 || size == 3 || size == 5 || size == 7);
    switch (size) {
    case 1:
        return start_depthwise<1, IS_BACKWARD>(launch, x, weight, y);
    case 3:
        return start_depthwise<3, IS_BACKWARD>(launch, x, weight, y);
    case 5:
        return start_depthwise<5, IS_BACKWARD>(launch, x, weight, y);
    default:
        return start_depthwise<7, IS_BACKWARD>(launch, x, weight, y);
    }
}

void es_depthwise_forward_cuda(EsStream *s, EsIn x, EsIn weight, EsOut y) {
    EsLaunch launch(s, "depthwise_forward");
    start_for_size<false>(launch, x, weight, y);
}

void es_depthwise_backward_input_cuda(EsStream *s, EsIn weight, EsIn d_y, EsOut d_x) {
    EsLaunch launch(s, "depthwise_backward_input");
    start_for_size<true>(launch, d_y, weight, d_x);
}

void es_depthwise_backward_weight_cuda(EsStream *s, EsIn x, EsIn d_y, EsOut d_weight) {
    EsLaunch launch(s, "depthwise_backward_weight");
    int64_t size = d_weight->dim[3];
    ES_ASSERT(size == 1 || size == 3 || size == 5 || size == 7);
    switch (size) {
    case 1:
        return start_backward_weight<1>(launch, x, d_y, d_weight);
    case 3:
        return start_backward_weight<3>(launch, x, d_y, d_weight);
    case 5:
        return start_backward_weight<5>(launch, x, d_y, d_weight);
    default:
        return start_backward_weight<7>(launch, x, d_y, d_weight);
    }
}
