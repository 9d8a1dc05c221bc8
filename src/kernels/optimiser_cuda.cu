// Element by element over [E, P].
#include "kernels/cuda_common.cuh"

static __global__ void sgd_step_kernel(const float *rate, const float *momentum_rate,
                                       const float *weight_decay, EsEnvs<const float> gradient,
                                       EsEnvs<float> momentum, EsEnvs<float> parameter,
                                       EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    const float *gradients = gradient.at(span.env);
    float *buffers = momentum.at(span.env), *parameters = parameter.at(span.env);
    float step = rate[span.env], keep = momentum_rate[span.env], decay = weight_decay[span.env];
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        float value = parameters[j];
        float buffer = keep * buffers[j] + (gradients[j] + decay * value);
        buffers[j] = buffer;
        parameters[j] = value - step * buffer;
    }
}

static __global__ void adam_count_kernel(int32_t *n_steps, int64_t n_envs) {
    int64_t env = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (env < n_envs) {
        n_steps[env] += 1;
    }
}

static __global__ void adam_step_kernel(EsAdamOptions options, const float *rate,
                                        EsEnvs<const float> gradient, EsEnvs<float> moment1,
                                        EsEnvs<float> moment2, const int32_t *n_steps,
                                        EsEnvs<float> parameter, EsTiles tiles) {
    // one pow in double per block, not per thread
    __shared__ float correction[2];
    EsTileSpan span = es_tile_span(tiles);
    const float *gradients = gradient.at(span.env);
    float *firsts = moment1.at(span.env), *seconds = moment2.at(span.env);
    float *parameters = parameter.at(span.env);
    if (threadIdx.x < 2) {
        double beta = (double)(threadIdx.x == 0 ? options.beta1 : options.beta2);
        correction[threadIdx.x] = (float)(1.0 - pow(beta, (double)n_steps[span.env]));
    }
    __syncthreads();
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        float g = gradients[j];
        float first = options.beta1 * firsts[j] + (1.0f - options.beta1) * g;
        float second = options.beta2 * seconds[j] + (1.0f - options.beta2) * (g * g);
        firsts[j] = first;
        seconds[j] = second;
        float denominator = sqrtf(second / correction[1]) + options.epsilon;
        parameters[j] -= rate[span.env] * (first / correction[0]) / denominator;
    }
}

void es_sgd_step_cuda(EsStream *s, const EsSgdRates *rates, EsIn gradient, EsOut momentum,
                      EsOut parameter) {
    EsLaunch launch(s, "sgd_step");
    EsTiles tiles = es_tiles(parameter->dim[1]);
    launch.start(sgd_step_kernel, es_tiles_grid(tiles, parameter->dim[0]), ES_THREADS,
                 es_data<float>(&rates->rate), es_data<float>(&rates->momentum),
                 es_data<float>(&rates->weight_decay), es_in<float>(gradient),
                 es_out<float>(momentum), es_out<float>(parameter), tiles);
}

void es_adam_step_cuda(EsStream *s, EsAdamOptions options, EsIn rate, EsIn gradient, EsOut moment1,
                       EsOut moment2, EsOut n_steps, EsOut parameter) {
    EsLaunch launch(s, "adam_step");
    EsTiles tiles = es_tiles(parameter->dim[1]);
    int64_t n_envs = parameter->dim[0];
    launch.start(adam_count_kernel, dim3((unsigned)es_ceil_div(n_envs, ES_THREADS)), ES_THREADS,
                 es_data<int32_t>(n_steps), n_envs);
    launch.start(adam_step_kernel, es_tiles_grid(tiles, n_envs), ES_THREADS, options,
                 es_data<float>(rate), es_in<float>(gradient), es_out<float>(moment1),
                 es_out<float>(moment2), es_data<int32_t>(n_steps), es_out<float>(parameter),
                 tiles);
}
