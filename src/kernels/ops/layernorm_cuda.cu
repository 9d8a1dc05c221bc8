// One block per row; the gradients of gamma and beta take a block per COLUMNS features. Sums in
// double, in a fixed order.
// Letters: E environments, N rows, D features.
#include "kernels/cuda/cuda_common.cuh"

#define COLUMNS   32
#define ROW_LANES 8

template <typename T>
static __global__ void layernorm_forward_kernel(float epsilon, const T *x,
                                                EsEnvs<const float> gamma, EsEnvs<const float> beta,
                                                EsEnvs<float> mean, EsEnvs<float> inv_std, T *y,
                                                uint32_t n_rows, uint32_t n_features) {
    int64_t base = (int64_t)blockIdx.x * n_features;
    int64_t env = blockIdx.x / n_rows;
    uint32_t row = blockIdx.x % n_rows;
    double sum = 0.0, sum_squares = 0.0;
    for (uint32_t d = threadIdx.x; d < n_features; d += blockDim.x) {
        double value = (double)es_load(x + base + d);
        sum += value;
        sum_squares += value * value;
    }
    double average = es_block_sum(sum) / n_features;
    double variance = es_block_sum(sum_squares) / n_features - average * average;
    // rounding may leave a constant row below 0; written so that NaN stays
    variance = variance < 0.0 ? 0.0 : variance;
    float center = (float)average, scale = (float)(1.0 / sqrt(variance + (double)epsilon));
    if (threadIdx.x == 0) {
        mean.at(env)[row] = center;
        inv_std.at(env)[row] = scale;
    }
    for (uint32_t d = threadIdx.x; d < n_features; d += blockDim.x) {
        float normal = (es_load(x + base + d) - center) * scale;
        es_store(y + base + d, normal * gamma.at(env)[d] + beta.at(env)[d]);
    }
}

// With g = d_y gamma and averages over the row: d_x = inv_std (g - average(g) - xhat average(g
// xhat)).
template <typename T>
static __global__ void layernorm_backward_kernel(const T *x, EsEnvs<const float> mean,
                                                 EsEnvs<const float> inv_std,
                                                 EsEnvs<const float> gamma, const T *d_y, T *d_x,
                                                 uint32_t n_rows, uint32_t n_features) {
    int64_t base = (int64_t)blockIdx.x * n_features;
    int64_t env = blockIdx.x / n_rows;
    uint32_t row = blockIdx.x % n_rows;
    const float *gammas = gamma.at(env);
    float center = mean.at(env)[row], scale = inv_std.at(env)[row];
    double sum = 0.0, sum_normal = 0.0;
    for (uint32_t d = threadIdx.x; d < n_features; d += blockDim.x) {
        double g = (double)es_load(d_y + base + d) * (double)gammas[d];
        sum += g;
        sum_normal += g * ((double)es_load(x + base + d) - (double)center);
    }
    float offset = (float)(es_block_sum(sum) / n_features);
    float tilt = (float)(es_block_sum(sum_normal) * (double)scale / n_features);
    for (uint32_t d = threadIdx.x; d < n_features; d += blockDim.x) {
        float normal = (es_load(x + base + d) - center) * scale;
        // rounded before the subtraction, as `offset` was: in a row of one feature the two cancel
        float g = __fmul_rn(es_load(d_y + base + d), gammas[d]);
        es_store(d_x + base + d, scale * (g - offset - normal * tilt));
    }
}

template <typename T>
static __global__ void
layernorm_backward_sums_kernel(const T *x, EsEnvs<const float> mean, EsEnvs<const float> inv_std,
                               const T *d_y, EsEnvs<float> d_gamma, EsEnvs<float> d_beta,
                               uint32_t n_rows, uint32_t n_features, uint32_t blocks_per_env) {
    __shared__ double partial[2][ROW_LANES][COLUMNS];
    int64_t env = blockIdx.x / blocks_per_env;
    uint32_t d = blockIdx.x % blocks_per_env * COLUMNS + threadIdx.x;
    double sum = 0.0, sum_normal = 0.0;
    if (d < n_features) {
        for (uint32_t n = threadIdx.y; n < n_rows; n += ROW_LANES) {
            int64_t row = env * n_rows + n;
            double d_out = (double)es_load(d_y + row * n_features + d);
            double centred = (double)es_load(x + row * n_features + d) - (double)mean.at(env)[n];
            sum += d_out;
            sum_normal += d_out * centred * (double)inv_std.at(env)[n];
        }
    }
    partial[0][threadIdx.y][threadIdx.x] = sum;
    partial[1][threadIdx.y][threadIdx.x] = sum_normal;
    __syncthreads();
    if (threadIdx.y == 0 && d < n_features) {
        for (int lane = 1; lane < ROW_LANES; lane++) {
            sum += partial[0][lane][threadIdx.x];
            sum_normal += partial[1][lane][threadIdx.x];
        }
        d_beta.at(env)[d] = (float)sum;
        d_gamma.at(env)[d] = (float)sum_normal;
    }
}

void es_layernorm_forward_cuda(EsStream *s, EsNormOptions options, EsIn x, EsIn gamma, EsIn beta,
                               EsOut mean, EsOut inv_std, EsOut y) {
    EsLaunch launch(s, "layernorm_forward");
    int64_t n_rows = x->dim[1], n_features = x->dim[2];
    dim3 grid((unsigned)(x->dim[0] * n_rows)), block(es_block_for(n_features, ES_THREADS));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(layernorm_forward_kernel<T>, grid, block, options.epsilon,
                                   es_data<T>(x), es_in<float>(gamma), es_in<float>(beta),
                                   es_out<float>(mean), es_out<float>(inv_std), es_data<T>(y),
                                   n_rows, n_features));
}

void es_layernorm_backward_cuda(EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn d_y,
                                EsOut d_x, EsOut d_gamma, EsOut d_beta) {
    EsLaunch launch(s, "layernorm_backward");
    int64_t n_envs = x->dim[0], n_rows = x->dim[1], n_features = x->dim[2];
    uint32_t blocks_per_env = (uint32_t)es_ceil_div(n_features, COLUMNS);
    dim3 sum_grid((unsigned)(n_envs * blocks_per_env)), sum_block(COLUMNS, ROW_LANES);
    dim3 grid((unsigned)(n_envs * n_rows)), block(es_block_for(n_features, ES_THREADS));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(layernorm_backward_sums_kernel<T>, sum_grid, sum_block,
                                   es_data<T>(x), es_in<float>(mean), es_in<float>(inv_std),
                                   es_data<T>(d_y), es_out<float>(d_gamma), es_out<float>(d_beta),
                                   n_rows, n_features, blocks_per_env);
                      launch.start(layernorm_backward_kernel<T>, grid, block, es_data<T>(x),
                                   es_in<float>(mean), es_in<float>(inv_std), es_in<float>(gamma),
                                   es_data<T>(d_y), es_data<T>(d_x), n_rows, n_features));
}
