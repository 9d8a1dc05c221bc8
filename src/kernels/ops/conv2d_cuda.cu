// A thread computes a vertical strip of STRIP pixels, so that consecutive threads read consecutive
// columns, for several output channels at once; weights are staged in shared memory, images come
// through the L1 cache. The gradient of the input is the same convolution with flipped weights and
// the channels' roles exchanged.
// Letters: E environments, N images, I input and O output channels,
// H W size, K kernel size.
#include "kernels/cuda/cuda_common.cuh"

#define STRIP           4
#define OUT_TILE        8  // output channels of a block in the forward kernel
#define IN_CHUNK        16 // input channels whose weights are staged at a time
#define FORWARD_THREADS 128
#define WEIGHT_THREADS  256

struct ConvShape {
    uint32_t n_images, n_in, n_out, height, width;
    uint32_t strips_per_column; // ceil(H / STRIP)
    uint32_t n_strips;          // of one environment: N * strips_per_column * W
    uint32_t blocks_per_env;
};

static ConvShape conv_shape(EsIn in, int64_t n_out, int64_t strips_per_block) {
    int64_t strips_per_column = es_ceil_div(in->dim[3], STRIP);
    int64_t n_strips = in->dim[1] * strips_per_column * in->dim[4];
    ES_ASSERT(n_strips < INT32_MAX);
    ConvShape shape;
    shape.n_images = (uint32_t)in->dim[1];
    shape.n_in = (uint32_t)in->dim[2];
    shape.n_out = (uint32_t)n_out;
    shape.height = (uint32_t)in->dim[3];
    shape.width = (uint32_t)in->dim[4];
    shape.strips_per_column = (uint32_t)strips_per_column;
    shape.n_strips = (uint32_t)n_strips;
    shape.blocks_per_env = (uint32_t)es_ceil_div(n_strips, strips_per_block);
    return shape;
}

// Position of strip `s` in an environment.
struct Strip {
    uint32_t image;
    int row, column;
};

static __device__ __forceinline__ Strip strip_at(const ConvShape &shape, uint32_t s) {
    uint32_t column = s % shape.width;
    uint32_t above = s / shape.width;
    Strip strip = {above / shape.strips_per_column, (int)(above % shape.strips_per_column) * STRIP,
                   (int)column};
    return strip;
}

// STRIP + K - 1 pixels of one column from row `row`, zero outside the plane.
template <int K, typename T>
static __device__ __forceinline__ void load_column(float (&pixels)[STRIP + K - 1], const T *plane,
                                                   int row, int column, const ConvShape &shape) {
    bool is_inside = column >= 0 && column < (int)shape.width;
#pragma unroll
    for (int j = 0; j < STRIP + K - 1; j++) {
        int r = row + j;
        bool is_valid = is_inside && r >= 0 && r < (int)shape.height;
        pixels[j] = is_valid ? es_load(plane + (int64_t)r * shape.width + column) : 0.0f;
    }
}

// Weights of `n_staged` input channels from in0 for OUT_TILE output channels from out0, as
// [in][tap][out].
template <typename T, int K, bool IS_BACKWARD>
static __device__ __forceinline__ void stage_weights(float *staged, const float *weight,
                                                     uint32_t in0, uint32_t n_staged, uint32_t out0,
                                                     const ConvShape &shape) {
    for (uint32_t slot = threadIdx.x; slot < n_staged * K * K * OUT_TILE; slot += FORWARD_THREADS) {
        uint32_t out = out0 + slot % OUT_TILE;
        uint32_t tap = slot / OUT_TILE % (K * K);
        uint32_t in = in0 + slot / (OUT_TILE * K * K);
        float value = 0.0f;
        if (out < shape.n_out) {
            // backward: `in` is an output channel of the layer and `out` one of its inputs
            int64_t pair =
                IS_BACKWARD ? (int64_t)in * shape.n_out + out : (int64_t)out * shape.n_in + in;
            value = es_weight<T>(weight[pair * (K * K) + (IS_BACKWARD ? K * K - 1 - tap : tap)]);
        }
        staged[slot] = value;
    }
}

template <typename T, int K, bool IS_BACKWARD>
static __global__ void __launch_bounds__(FORWARD_THREADS, 4)
    conv2d_kernel(const T *x, EsEnvs<const float> weight, EsEnvs<const float> bias, T *y,
                  ConvShape shape) {
    __shared__ alignas(16) float staged[IN_CHUNK * K * K * OUT_TILE];
    int64_t env = blockIdx.x / shape.blocks_per_env;
    uint32_t s = (blockIdx.x % shape.blocks_per_env) * FORWARD_THREADS + threadIdx.x;
    uint32_t out0 = blockIdx.y * OUT_TILE;
    bool is_active = s < shape.n_strips;
    Strip strip = strip_at(shape, is_active ? s : 0);
    int64_t plane = (int64_t)shape.height * shape.width;
    int64_t image = env * shape.n_images + strip.image;
    const T *input = x + image * shape.n_in * plane;
    const float *weights = weight.at(env);

    float sum[OUT_TILE][STRIP] = {};
    for (uint32_t in0 = 0; in0 < shape.n_in; in0 += IN_CHUNK) {
        uint32_t n_staged = min((uint32_t)IN_CHUNK, shape.n_in - in0);
        __syncthreads();
        stage_weights<T, K, IS_BACKWARD>(staged, weights, in0, n_staged, out0, shape);
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = 0; is_active && i < n_staged; i++) {
            const T *channel = input + (int64_t)(in0 + i) * plane;
#pragma unroll(K <= 3 ? K : 1)
            for (int v = 0; v < K; v++) {
                float pixels[STRIP + K - 1];
                load_column<K>(pixels, channel, strip.row - K / 2, strip.column + v - K / 2, shape);
#pragma unroll
                for (int u = 0; u < K; u++) {
                    const float *taps = staged + (i * K * K + u * K + v) * OUT_TILE;
                    float4 low = *(const float4 *)taps, high = *(const float4 *)(taps + 4);
                    float w[OUT_TILE] = {low.x,  low.y,  low.z,  low.w,
                                         high.x, high.y, high.z, high.w};
#pragma unroll
                    for (int o = 0; o < OUT_TILE; o++) {
#pragma unroll
                        for (int p = 0; p < STRIP; p++) {
                            sum[o][p] = fmaf(w[o], pixels[p + u], sum[o][p]);
                        }
                    }
                }
            }
        }
    }
    T *output = y + image * shape.n_out * plane;
#pragma unroll
    for (int o = 0; o < OUT_TILE; o++) {
        float shift = bias.data == NULL || out0 + o >= shape.n_out ? 0.0f : bias.at(env)[out0 + o];
#pragma unroll
        for (int p = 0; p < STRIP; p++) {
            if (is_active && out0 + o < shape.n_out && strip.row + p < (int)shape.height) {
                int64_t position = (int64_t)(strip.row + p) * shape.width + strip.column;
                es_store(output + (int64_t)(out0 + o) * plane + position, sum[o][p] + shift);
            }
        }
    }
}

// d_weight of (environment, input channel, OUTS output channels): threads walk the strips of the
// batch, each with all taps in registers; then a tree over the block.
template <typename T, int K, int OUTS>
static __global__ void __launch_bounds__(WEIGHT_THREADS)
    conv2d_backward_weight_kernel(const T *x, const T *d_y, EsEnvs<float> d_weight,
                                  ConvShape shape) {
    constexpr int N_SUMS = OUTS * K * K, N_WARPS = WEIGHT_THREADS / 32;
    __shared__ float partial[N_WARPS][N_SUMS];
    int64_t env = blockIdx.x / shape.n_in;
    uint32_t in = blockIdx.x % shape.n_in;
    uint32_t out0 = blockIdx.y * OUTS;
    int64_t plane = (int64_t)shape.height * shape.width;

    float sum[OUTS][K * K] = {};
    for (uint32_t s = threadIdx.x; s < shape.n_strips; s += WEIGHT_THREADS) {
        Strip strip = strip_at(shape, s);
        int64_t image = env * shape.n_images + strip.image;
        const T *channel = x + (image * shape.n_in + in) * plane;
        const T *d_out = d_y + (image * shape.n_out + out0) * plane;
        float d[OUTS][STRIP];
#pragma unroll
        for (int o = 0; o < OUTS; o++) {
#pragma unroll
            for (int p = 0; p < STRIP; p++) {
                bool is_valid = out0 + o < shape.n_out && strip.row + p < (int)shape.height;
                int64_t position = (int64_t)(strip.row + p) * shape.width + strip.column;
                d[o][p] = is_valid ? es_load(d_out + o * plane + position) : 0.0f;
            }
        }
#pragma unroll
        for (int v = 0; v < K; v++) {
            float pixels[STRIP + K - 1];
            load_column<K>(pixels, channel, strip.row - K / 2, strip.column + v - K / 2, shape);
#pragma unroll
            for (int u = 0; u < K; u++) {
#pragma unroll
                for (int o = 0; o < OUTS; o++) {
#pragma unroll
                    for (int p = 0; p < STRIP; p++) {
                        sum[o][u * K + v] = fmaf(d[o][p], pixels[p + u], sum[o][u * K + v]);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < N_SUMS; i++) {
        float total = es_warp_sum(sum[i / (K * K)][i % (K * K)]);
        if (threadIdx.x % 32 == 0) {
            partial[threadIdx.x / 32][i] = total;
        }
    }
    __syncthreads();
    if (threadIdx.x < N_SUMS) {
        uint32_t out = out0 + threadIdx.x / (K * K), tap = threadIdx.x % (K * K);
        float total = partial[0][threadIdx.x];
        for (int warp = 1; warp < N_WARPS; warp++) {
            total += partial[warp][threadIdx.x];
        }
        if (out < shape.n_out) {
            d_weight.at(env)[((int64_t)out * shape.n_in + in) * (K * K) + tap] = total;
        }
    }
}

// One block per (environment, output channel).
template <typename T>
static __global__ void conv2d_backward_bias_kernel(const T *d_y, EsEnvs<float> d_bias,
                                                   uint32_t n_images, uint32_t n_out,
                                                   uint32_t plane) {
    int64_t env = blockIdx.x / n_out;
    uint32_t out = blockIdx.x % n_out;
    double sum = 0.0;
    for (EsChannelWalk at(plane); at.n < n_images; at.advance()) {
        sum +=
            (double)es_load(d_y + ((env * n_images + at.n) * n_out + out) * (int64_t)plane + at.p);
    }
    sum = es_block_sum(sum);
    if (threadIdx.x == 0) {
        d_bias.at(env)[out] = (float)sum;
    }
}

template <int K, bool IS_BACKWARD>
static void start_conv2d(EsLaunch &launch, EsIn in, EsIn weight, EsIn bias, EsOut out) {
    ConvShape shape = conv_shape(in, out->dim[2], FORWARD_THREADS);
    dim3 grid((unsigned)(in->dim[0] * shape.blocks_per_env),
              (unsigned)es_ceil_div(shape.n_out, OUT_TILE));
    ES_DISPATCH_DTYPE(in->dtype, T,
                      launch.start(conv2d_kernel<T, K, IS_BACKWARD>, grid, FORWARD_THREADS,
                                   es_data<T>(in), es_in<float>(weight), es_in<float>(bias),
                                   es_data<T>(out), shape));
}

// OUTS keeps OUTS * K * K sums in registers.
template <int K, int OUTS>
static void start_backward_weight(EsLaunch &launch, EsIn x, EsIn d_y, EsOut d_weight) {
    ConvShape shape = conv_shape(x, d_y->dim[2], WEIGHT_THREADS);
    dim3 grid((unsigned)(x->dim[0] * shape.n_in), (unsigned)es_ceil_div(shape.n_out, OUTS));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(conv2d_backward_weight_kernel<T, K, OUTS>, grid, WEIGHT_THREADS,
                                   es_data<T>(x), es_data<T>(d_y), es_out<float>(d_weight), shape));
}

template <bool IS_BACKWARD>
static void start_for_size(EsLaunch &launch, EsIn in, EsIn weight, EsIn bias, EsOut out) {
    int64_t size = weight->dim[4];
    ES_ASSERT(size == 1 || size == 3 || size == 5 || size == 7);
    switch (size) {
    case 1:
        return start_conv2d<1, IS_BACKWARD>(launch, in, weight, bias, out);
    case 3:
        return start_conv2d<3, IS_BACKWARD>(launch, in, weight, bias, out);
    case 5:
        return start_conv2d<5, IS_BACKWARD>(launch, in, weight, bias, out);
    default:
        return start_conv2d<7, IS_BACKWARD>(launch, in, weight, bias, out);
    }
}

void es_conv2d_forward_cuda(EsStream *s, EsIn x, EsIn weight, EsIn bias, EsOut y) {
    EsLaunch launch(s, "conv2d_forward");
    start_for_size<false>(launch, x, weight, bias, y);
}

void es_conv2d_backward_input_cuda(EsStream *s, EsIn weight, EsIn d_y, EsOut d_x) {
    EsLaunch launch(s, "conv2d_backward_input");
    start_for_size<true>(launch, d_y, weight, NULL, d_x);
}

void es_conv2d_backward_weight_cuda(EsStream *s, EsIn x, EsIn d_y, EsOut d_weight, EsOut d_bias) {
    EsLaunch launch(s, "conv2d_backward_weight");
    int64_t size = d_weight->dim[4];
    ES_ASSERT(size == 1 || size == 3 || size == 5 || size == 7);
    switch (size) {
    case 1:
        start_backward_weight<1, 8>(launch, x, d_y, d_weight);
        break;
    case 3:
        start_backward_weight<3, 8>(launch, x, d_y, d_weight);
        break;
    case 5:
        start_backward_weight<5, 2>(launch, x, d_y, d_weight);
        break;
    default:
        start_backward_weight<7, 1>(launch, x, d_y, d_weight);
    }
    if (d_bias != NULL) {
        int64_t plane = d_y->dim[3] * d_y->dim[4];
        dim3 grid((unsigned)(d_y->dim[0] * d_y->dim[2]));
        dim3 block(es_block_for(d_y->dim[1] * plane, 512));
        ES_DISPATCH_DTYPE(d_y->dtype, T,
                          launch.start(conv2d_backward_bias_kernel<T>, grid, block, es_data<T>(d_y),
                                       es_out<float>(d_bias), d_y->dim[1], d_y->dim[2], plane));
    }
}
