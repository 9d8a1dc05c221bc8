// A thread serves the four elements that share one draw.
#include "base/random_rules.h"
#include "kernels/cuda/cuda_common.cuh"

template <typename T>
static __global__ void dropout_kernel(EsDropoutOptions options, const int32_t *episode,
                                      const int32_t *step, const T *x, T *y, int64_t n_elements,
                                      uint32_t blocks_per_env) {
    int64_t env = blockIdx.x / blocks_per_env;
    int64_t quad = (int64_t)(blockIdx.x % blocks_per_env) * ES_THREADS + threadIdx.x;
    float keep = 1.0f - options.probability;
    uint32_t draw = (options.layer << 24) ^ (uint32_t)quad;
    EsRandom4 r = es_random_draw(options.seed, (uint32_t)episode[env], ES_PURPOSE_DROPOUT,
                                 (uint32_t)step[0], draw);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int64_t j = quad * 4 + i;
        if (j < n_elements) {
            bool is_kept = es_random_uniform(r.word[i]) >= options.probability;
            float value = is_kept ? es_load(x + env * n_elements + j) / keep : 0.0f;
            es_store(y + env * n_elements + j, value);
        }
    }
}

void es_dropout_cuda(EsStream *s, EsDropoutOptions options, EsIn episode, EsIn step, EsIn x,
                     EsOut y) {
    EsLaunch launch(s, "dropout");
    int64_t n_elements = es_tensor_count(x) / ES_MAX(x->dim[0], 1);
    uint32_t blocks_per_env = (uint32_t)es_ceil_div(n_elements, 4 * ES_THREADS);
    dim3 grid((unsigned)(x->dim[0] * blocks_per_env));
    ES_DISPATCH_DTYPE(x->dtype, T,
                      launch.start(dropout_kernel<T>, grid, ES_THREADS, options,
                                   es_data<int32_t>(episode), es_data<int32_t>(step), es_data<T>(x),
                                   es_data<T>(y), n_elements, blocks_per_env));
}
