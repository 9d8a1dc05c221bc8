// A thread per element, four of them; the gradient of g takes a block per environment, in double,
// in a fixed order.
#include "kernels/cuda/cuda_common.cuh"

#define SUM_THREADS 1024

template <typename T>
static __global__ void norm_mix_forward_kernel(const T *x, const T *n, EsEnvs<const float> g, T *y,
                                               EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    float t = tanhf(*g.at(span.env));
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        int64_t at = span.env * tiles.count + j;
        float value = es_load(x + at);
        es_store(y + at, value + t * (es_load(n + at) - value));
    }
}

template <typename T>
static __global__ void norm_mix_backward_kernel(EsEnvs<const float> g, const T *d_y, T *d_x, T *d_n,
                                                EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    float t = tanhf(*g.at(span.env));
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        int64_t at = span.env * tiles.count + j;
        float d = es_load(d_y + at);
        if (d_x != NULL) {
            es_store(d_x + at, (1.0f - t) * d);
        }
        if (d_n != NULL) {
            es_store(d_n + at, t * d);
        }
    }
}

template <typename T>
static __global__ void norm_mix_backward_sums_kernel(const T *x, const T *n, EsEnvs<const float> g,
                                                     const T *d_y, EsEnvs<float> d_g,
                                                     int64_t count) {
    int64_t env = blockIdx.x;
    double sum = 0.0;
    for (int64_t at = env * count + threadIdx.x; at < (env + 1) * count; at += blockDim.x) {
        sum += (double)es_load(d_y + at) * ((double)es_load(n + at) - (double)es_load(x + at));
    }
    sum = es_block_sum(sum);
    if (threadIdx.x == 0) {
        double t = tanh((double)*g.at(env));
        *d_g.at(env) = (float)((1.0 - t) * (1.0 + t) * sum);
    }
}

void es_norm_mix_forward_cuda(EsStream *s, EsIn x, EsIn n, EsIn g, EsOut y) {
    EsLaunch launch(s, "norm_mix_forward");
    EsTiles tiles = es_tiles(es_tensor_count(x) / x->dim[0]);
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(norm_mix_forward_kernel<T>, es_tiles_grid(tiles, x->dim[0]),
                                   ES_THREADS, es_data<T>(x), es_data<T>(n), es_in<float>(g),
                                   es_data<T>(y), tiles));
}

void es_norm_mix_backward_cuda(EsStream *s, EsIn x, EsIn n, EsIn g, EsIn d_y, EsOut d_x, EsOut d_n,
                               EsOut d_g) {
    EsLaunch launch(s, "norm_mix_backward");
    int64_t count = es_tensor_count(x) / x->dim[0];
    EsTiles tiles = es_tiles(count);
    dim3 grid = es_tiles_grid(tiles, x->dim[0]), sum_grid((unsigned)x->dim[0]);
    ES_DISPATCH_DTYPE(
        x->dtype, T,
        if (d_g != NULL) {
            launch.start(norm_mix_backward_sums_kernel<T>, sum_grid,
                         es_block_for(count, SUM_THREADS), es_data<T>(x), es_data<T>(n),
                         es_in<float>(g), es_data<T>(d_y), es_out<float>(d_g), count);
        } launch.start(norm_mix_backward_kernel<T>, grid, ES_THREADS, es_in<float>(g),
                       es_data<T>(d_y), es_data<T>(d_x), es_data<T>(d_n), tiles));
}
