// The sums take one block per (environment, channel), in double, in a fixed order; the rest is
// element by element.
// Letters: E environments, N images, C channels, plane = H W.
#include "kernels/cuda/cuda_common.cuh"

#define SUM_THREADS 512

struct NormShape {
    uint32_t n_images, n_channels, plane;
};

static NormShape norm_shape(EsIn x) {
    NormShape shape = {(uint32_t)x->dim[1], (uint32_t)x->dim[2], (uint32_t)(x->dim[3] * x->dim[4])};
    return shape;
}

static dim3 sum_block(const NormShape &shape) {
    return dim3(es_block_for((int64_t)shape.n_images * shape.plane, SUM_THREADS));
}

// Parameters and statistics of the batch, [C] per environment each.
struct NormTables {
    EsEnvs<const float> mean, inv_std, gamma, beta, d_gamma, d_beta;
};

template <typename T>
static __global__ void
batchnorm_statistics_kernel(EsNormOptions options, const T *x, EsEnvs<float> mean,
                            EsEnvs<float> inv_std, EsEnvs<float> running_mean,
                            EsEnvs<float> running_variance, NormShape shape) {
    int64_t env = blockIdx.x / shape.n_channels;
    uint32_t channel = blockIdx.x % shape.n_channels;
    double sum = 0.0, sum_squares = 0.0;
    for (EsChannelWalk at(shape.plane); at.n < shape.n_images; at.advance()) {
        int64_t row = (env * shape.n_images + at.n) * shape.n_channels + channel;
        double value = (double)es_load(x + row * shape.plane + at.p);
        sum += value;
        sum_squares += value * value;
    }
    sum = es_block_sum(sum);
    sum_squares = es_block_sum(sum_squares);
    if (threadIdx.x != 0) {
        return;
    }
    double n = (double)shape.n_images * shape.plane;
    double average = sum / n;
    double variance = sum_squares / n - average * average;
    // rounding may leave a constant channel below 0; written so that NaN stays
    variance = variance < 0.0 ? 0.0 : variance;
    mean.at(env)[channel] = (float)average;
    inv_std.at(env)[channel] = (float)(1.0 / sqrt(variance + (double)options.epsilon));
    if (running_mean.data != NULL) {
        double unbiased = n > 1.0 ? variance * n / (n - 1.0) : variance;
        double share = (double)options.momentum;
        float *long_mean = running_mean.at(env) + channel;
        float *long_variance = running_variance.at(env) + channel;
        *long_mean = (float)((1.0 - share) * (double)*long_mean + share * average);
        *long_variance = (float)((1.0 - share) * (double)*long_variance + share * unbiased);
    }
}

static __global__ void batchnorm_from_running_kernel(EsNormOptions options,
                                                     EsEnvs<const float> running_mean,
                                                     EsEnvs<const float> running_variance,
                                                     EsEnvs<float> mean, EsEnvs<float> inv_std,
                                                     int64_t n_channels, int64_t count) {
    int64_t j = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (j < count) {
        int64_t env = j / n_channels, channel = j % n_channels;
        double variance = (double)running_variance.at(env)[channel];
        mean.at(env)[channel] = running_mean.at(env)[channel];
        inv_std.at(env)[channel] = (float)(1.0 / sqrt(variance + (double)options.epsilon));
    }
}

template <typename T>
static __global__ void batchnorm_apply_kernel(const T *x, NormTables tables, T *y, NormShape shape,
                                              EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    int64_t base = span.env * tiles.count;
    const float *mean = tables.mean.at(span.env), *inv_std = tables.inv_std.at(span.env);
    const float *gamma = tables.gamma.at(span.env), *beta = tables.beta.at(span.env);
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        uint32_t c = j / shape.plane % shape.n_channels;
        float normal = (es_load(x + base + j) - mean[c]) * inv_std[c];
        es_store(y + base + j, normal * gamma[c] + beta[c]);
    }
}

template <typename T>
static __global__ void batchnorm_backward_sums_kernel(const T *x, NormTables tables, const T *d_y,
                                                      EsEnvs<float> d_gamma, EsEnvs<float> d_beta,
                                                      NormShape shape) {
    int64_t env = blockIdx.x / shape.n_channels;
    uint32_t channel = blockIdx.x % shape.n_channels;
    float center = tables.mean.at(env)[channel], scale = tables.inv_std.at(env)[channel];
    double sum = 0.0, sum_centred = 0.0;
    for (EsChannelWalk at(shape.plane); at.n < shape.n_images; at.advance()) {
        int64_t row = (env * shape.n_images + at.n) * shape.n_channels + channel;
        int64_t j = row * shape.plane + at.p;
        double d = (double)es_load(d_y + j);
        sum += d;
        sum_centred += d * ((double)es_load(x + j) - (double)center);
    }
    sum = es_block_sum(sum);
    sum_centred = es_block_sum(sum_centred);
    if (threadIdx.x == 0) {
        d_beta.at(env)[channel] = (float)sum;
        d_gamma.at(env)[channel] = (float)(sum_centred * (double)scale);
    }
}

template <typename T>
static __global__ void batchnorm_backward_input_kernel(const T *x, NormTables tables, const T *d_y,
                                                       T *d_x, NormShape shape, EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    int64_t base = span.env * tiles.count;
    const float *mean = tables.mean.at(span.env), *inv_std = tables.inv_std.at(span.env);
    const float *gamma = tables.gamma.at(span.env);
    const float *d_gamma = tables.d_gamma.at(span.env), *d_beta = tables.d_beta.at(span.env);
    float inv_n = 1.0f / ((float)shape.n_images * (float)shape.plane);
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        uint32_t c = j / shape.plane % shape.n_channels;
        float normal = (es_load(x + base + j) - mean[c]) * inv_std[c];
        float d = es_load(d_y + base + j) - d_beta[c] * inv_n - normal * (d_gamma[c] * inv_n);
        es_store(d_x + base + j, gamma[c] * inv_std[c] * d);
    }
}

// Absent tables stay NULL and are not read.
static NormTables norm_tables(EsIn mean, EsIn inv_std, EsIn gamma, EsIn beta, EsIn d_gamma,
                              EsIn d_beta) {
    NormTables tables = {es_in<float>(mean), es_in<float>(inv_std), es_in<float>(gamma),
                         es_in<float>(beta), es_in<float>(d_gamma), es_in<float>(d_beta)};
    return tables;
}

void es_batchnorm_statistics_cuda(EsStream *s, EsNormOptions options, EsIn x, EsOut mean,
                                  EsOut inv_std, EsOut running_mean, EsOut running_variance) {
    EsLaunch launch(s, "batchnorm_statistics");
    NormShape shape = norm_shape(x);
    dim3 grid((unsigned)(x->dim[0] * x->dim[2]));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(batchnorm_statistics_kernel<T>, grid, sum_block(shape), options,
                                   es_data<T>(x), es_out<float>(mean), es_out<float>(inv_std),
                                   es_out<float>(running_mean), es_out<float>(running_variance),
                                   shape));
}

void es_batchnorm_from_running_cuda(EsStream *s, EsNormOptions options, EsIn running_mean,
                                    EsIn running_variance, EsOut mean, EsOut inv_std) {
    EsLaunch launch(s, "batchnorm_from_running");
    int64_t count = es_tensor_count(mean);
    dim3 grid((unsigned)es_ceil_div(count, ES_THREADS));
    launch.start(batchnorm_from_running_kernel, grid, ES_THREADS, options,
                 es_in<float>(running_mean), es_in<float>(running_variance), es_out<float>(mean),
                 es_out<float>(inv_std), mean->dim[1], count);
}

void es_batchnorm_apply_cuda(EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn beta,
                             EsOut y) {
    EsLaunch launch(s, "batchnorm_apply");
    NormShape shape = norm_shape(x);
    NormTables tables = norm_tables(mean, inv_std, gamma, beta, NULL, NULL);
    EsTiles tiles = es_tiles((int64_t)shape.n_images * shape.n_channels * shape.plane);
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(batchnorm_apply_kernel<T>, es_tiles_grid(tiles, x->dim[0]),
                                   ES_THREADS, es_data<T>(x), tables, es_data<T>(y), shape, tiles));
}

void es_batchnorm_backward_sums_cuda(EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn d_y,
                                     EsOut d_gamma, EsOut d_beta) {
    EsLaunch launch(s, "batchnorm_backward_sums");
    NormShape shape = norm_shape(x);
    NormTables tables = norm_tables(mean, inv_std, NULL, NULL, NULL, NULL);
    dim3 grid((unsigned)(x->dim[0] * x->dim[2]));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(batchnorm_backward_sums_kernel<T>, grid, sum_block(shape),
                                   es_data<T>(x), tables, es_data<T>(d_y), es_out<float>(d_gamma),
                                   es_out<float>(d_beta), shape));
}

void es_batchnorm_backward_input_cuda(EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma,
                                      EsIn d_gamma, EsIn d_beta, EsIn d_y, EsOut d_x) {
    EsLaunch launch(s, "batchnorm_backward_input");
    NormShape shape = norm_shape(x);
    NormTables tables = norm_tables(mean, inv_std, gamma, NULL, d_gamma, d_beta);
    EsTiles tiles = es_tiles((int64_t)shape.n_images * shape.n_channels * shape.plane);
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(batchnorm_backward_input_kernel<T>,
                                   es_tiles_grid(tiles, x->dim[0]), ES_THREADS, es_data<T>(x),
                                   tables, es_data<T>(d_y), es_data<T>(d_x), shape, tiles));
}
