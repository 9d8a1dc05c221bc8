// A group of one image is contiguous: one block normalises it. The gradients of gamma and beta take
// a block per (environment, channel). Sums in double, in a fixed order.
// Letters: E environments, N
// images, C channels, G groups, plane = H W.
#include "kernels/cuda/cuda_common.cuh"

struct GroupShape {
    uint32_t n_images, n_channels, n_groups, plane;
    uint32_t width; // channels of one group
    uint32_t count; // elements of one group
};

static GroupShape group_shape(EsIn x, EsIn mean) {
    GroupShape shape;
    shape.n_images = (uint32_t)x->dim[1];
    shape.n_channels = (uint32_t)x->dim[2];
    shape.n_groups = (uint32_t)mean->dim[2];
    shape.plane = (uint32_t)(x->dim[3] * x->dim[4]);
    shape.width = shape.n_channels / shape.n_groups;
    shape.count = shape.width * shape.plane;
    return shape;
}

// Position of the thread block's group.
struct Group {
    int64_t env;
    uint32_t row;     // of [N, G] in its environment
    uint32_t channel; // its first
    int64_t base;     // its first element in the whole tensor
};

static __device__ __forceinline__ Group group_at(const GroupShape &shape) {
    uint32_t per_env = shape.n_images * shape.n_groups;
    Group group;
    group.env = blockIdx.x / per_env;
    group.row = blockIdx.x % per_env;
    group.channel = blockIdx.x % shape.n_groups * shape.width;
    group.base = (int64_t)blockIdx.x * shape.count;
    return group;
}

template <typename T>
static __global__ void groupnorm_forward_kernel(float epsilon, const T *x,
                                                EsEnvs<const float> gamma, EsEnvs<const float> beta,
                                                EsEnvs<float> mean, EsEnvs<float> inv_std, T *y,
                                                GroupShape shape) {
    Group at = group_at(shape);
    double sum = 0.0, sum_squares = 0.0;
    for (uint32_t j = threadIdx.x; j < shape.count; j += blockDim.x) {
        double value = (double)es_load(x + at.base + j);
        sum += value;
        sum_squares += value * value;
    }
    double average = es_block_sum(sum) / shape.count;
    double variance = es_block_sum(sum_squares) / shape.count - average * average;
    // rounding may leave a constant group below 0; written so that NaN stays
    variance = variance < 0.0 ? 0.0 : variance;
    float center = (float)average, scale = (float)(1.0 / sqrt(variance + (double)epsilon));
    if (threadIdx.x == 0) {
        mean.at(at.env)[at.row] = center;
        inv_std.at(at.env)[at.row] = scale;
    }
    for (uint32_t j = threadIdx.x; j < shape.count; j += blockDim.x) {
        uint32_t c = at.channel + j / shape.plane;
        es_store(y + at.base + j,
                 (es_load(x + at.base + j) - center) * scale * gamma.at(at.env)[c] +
                     beta.at(at.env)[c]);
    }
}

// With g = d_y gamma and averages over the group: d_x = inv_std (g - average(g) - xhat average(g
// xhat)).
template <typename T>
static __global__ void
groupnorm_backward_kernel(const T *x, EsEnvs<const float> mean, EsEnvs<const float> inv_std,
                          EsEnvs<const float> gamma, const T *d_y, T *d_x, GroupShape shape) {
    Group at = group_at(shape);
    const float *gammas = gamma.at(at.env) + at.channel;
    float center = mean.at(at.env)[at.row], scale = inv_std.at(at.env)[at.row];
    double sum = 0.0, sum_normal = 0.0;
    for (uint32_t j = threadIdx.x; j < shape.count; j += blockDim.x) {
        double g = (double)es_load(d_y + at.base + j) * (double)gammas[j / shape.plane];
        sum += g;
        sum_normal += g * ((double)es_load(x + at.base + j) - (double)center);
    }
    float offset = (float)(es_block_sum(sum) / shape.count);
    float tilt = (float)(es_block_sum(sum_normal) * (double)scale / shape.count);
    for (uint32_t j = threadIdx.x; j < shape.count; j += blockDim.x) {
        float normal = (es_load(x + at.base + j) - center) * scale;
        // rounded before the subtraction, as `offset` was: in a group of one value the two cancel
        float g = __fmul_rn(es_load(d_y + at.base + j), gammas[j / shape.plane]);
        es_store(d_x + at.base + j, scale * (g - offset - normal * tilt));
    }
}

template <typename T>
static __global__ void groupnorm_backward_sums_kernel(const T *x, EsEnvs<const float> mean,
                                                      EsEnvs<const float> inv_std, const T *d_y,
                                                      EsEnvs<float> d_gamma, EsEnvs<float> d_beta,
                                                      GroupShape shape) {
    int64_t env = blockIdx.x / shape.n_channels;
    uint32_t channel = blockIdx.x % shape.n_channels;
    double sum = 0.0, sum_normal = 0.0;
    for (EsChannelWalk at(shape.plane); at.n < shape.n_images; at.advance()) {
        int64_t image = env * shape.n_images + at.n;
        uint32_t group = at.n * shape.n_groups + channel / shape.width;
        int64_t j = (image * shape.n_channels + channel) * shape.plane + at.p;
        double d = (double)es_load(d_y + j);
        sum += d;
        double centred = (double)es_load(x + j) - (double)mean.at(env)[group];
        sum_normal += d * centred * (double)inv_std.at(env)[group];
    }
    sum = es_block_sum(sum);
    sum_normal = es_block_sum(sum_normal);
    if (threadIdx.x == 0) {
        d_beta.at(env)[channel] = (float)sum;
        d_gamma.at(env)[channel] = (float)sum_normal;
    }
}

void es_groupnorm_forward_cuda(EsStream *s, EsNormOptions options, EsIn x, EsIn gamma, EsIn beta,
                               EsOut mean, EsOut inv_std, EsOut y) {
    EsLaunch launch(s, "groupnorm_forward");
    GroupShape shape = group_shape(x, mean);
    dim3 grid((unsigned)es_tensor_count(mean)), block(es_block_for(shape.count, ES_THREADS));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(groupnorm_forward_kernel<T>, grid, block, options.epsilon,
                                   es_data<T>(x), es_in<float>(gamma), es_in<float>(beta),
                                   es_out<float>(mean), es_out<float>(inv_std), es_data<T>(y),
                                   shape));
}

void es_groupnorm_backward_cuda(EsStream *s, EsNormOptions options, EsIn x, EsIn mean, EsIn inv_std,
                                EsIn gamma, EsIn d_y, EsOut d_x, EsOut d_gamma, EsOut d_beta) {
    (void)options;
    EsLaunch launch(s, "groupnorm_backward");
    GroupShape shape = group_shape(x, mean);
    dim3 grid((unsigned)es_tensor_count(mean)), block(es_block_for(shape.count, ES_THREADS));
    dim3 sum_grid((unsigned)(x->dim[0] * x->dim[2]));
    dim3 sum_block(es_block_for((int64_t)shape.n_images * shape.plane, ES_THREADS));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(groupnorm_backward_sums_kernel<T>, sum_grid, sum_block,
                                   es_data<T>(x), es_in<float>(mean), es_in<float>(inv_std),
                                   es_data<T>(d_y), es_out<float>(d_gamma), es_out<float>(d_beta),
                                   shape);
                      launch.start(groupnorm_backward_kernel<T>, grid, block, es_data<T>(x),
                                   es_in<float>(mean), es_in<float>(inv_std), es_in<float>(gamma),
                                   es_data<T>(d_y), es_data<T>(d_x), shape));
}
