// Element by element over [E, P].
#include "kernels/cuda/cuda_common.cuh"
#include "kernels/ops/schedule_rules.h"

// Counts of gradients that are not finite, [E, n_spans].
struct Counts {
    EsEnvs<const int32_t> count; // without data: everything counts as finite
    int64_t n_spans;

    __device__ bool is_skipped(int64_t env) const {
        for (int64_t span = 0; count.data != NULL && span < n_spans; span++) {
            if (count.at(env)[span] > 0) {
                return true;
            }
        }
        return false;
    }
};

static Counts counts_of(EsIn n_nonfinite) {
    Counts counts = {es_in<int32_t>(n_nonfinite), n_nonfinite == NULL ? 0 : n_nonfinite->dim[1]};
    return counts;
}

#define PER_THREAD (ES_TILE / ES_THREADS)

static __global__ void sgd_step_kernel(const float *learning_rate, const float *momentum_rate,
                                       const float *weight_decay, bool is_nesterov,
                                       EsLearningRateSchedule schedule, const int32_t *update,
                                       Counts nonfinite, EsEnvs<const float> gradient,
                                       EsEnvs<float> momentum, EsEnvs<float> parameter,
                                       EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    const float *gradients = gradient.at(span.env);
    float *buffers = momentum.at(span.env), *parameters = parameter.at(span.env);
    if (nonfinite.is_skipped(span.env)) {
        return;
    }
    // all loads before the first store: the compiler cannot know that they are of other memory
    float value[PER_THREAD], gradient_of[PER_THREAD], buffer[PER_THREAD];
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        uint32_t j = span.j + k * ES_THREADS;
        if (j < span.end) {
            value[k] = parameters[j];
            gradient_of[k] = gradients[j];
            buffer[k] = buffers[j];
        }
    }
    float share = update != NULL ? es_schedule_share(&schedule, update[0]) : 1.0f;
    float step = learning_rate[span.env] * share, keep = momentum_rate[span.env],
          decay = weight_decay[span.env];
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        uint32_t j = span.j + k * ES_THREADS;
        if (j < span.end) {
            float d = gradient_of[k] + decay * value[k];
            float moved = keep * buffer[k] + d;
            buffers[j] = moved;
            parameters[j] = value[k] - step * (is_nesterov ? d + keep * moved : moved);
        }
    }
}

static __global__ void adam_count_kernel(int32_t *n_steps, Counts nonfinite, int64_t n_envs) {
    int64_t env = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (env < n_envs) {
        n_steps[env] += !nonfinite.is_skipped(env);
    }
}

static __global__ void adam_step_kernel(EsAdamOptions options, const float *learning_rate,
                                        Counts nonfinite, EsEnvs<const float> gradient,
                                        EsEnvs<float> moment1, EsEnvs<float> moment2,
                                        const int32_t *n_steps, EsEnvs<float> parameter,
                                        EsTiles tiles) {
    // one pow in double per block, not per thread
    __shared__ float correction[2];
    EsTileSpan span = es_tile_span(tiles);
    const float *gradients = gradient.at(span.env);
    float *firsts = moment1.at(span.env), *seconds = moment2.at(span.env);
    float *parameters = parameter.at(span.env);
    // the same for the whole block
    if (nonfinite.is_skipped(span.env)) {
        return;
    }
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
        parameters[j] -= learning_rate[span.env] * (first / correction[0]) / denominator;
    }
}

void es_sgd_step_finite_cuda(EsStream *s, const EsSgdRates *rates, EsIn n_nonfinite, EsIn gradient,
                             EsOut momentum, EsOut parameter) {
    EsLaunch launch(s, "sgd_step");
    EsTiles tiles = es_tiles(parameter->dim[1]);
    launch.start(sgd_step_kernel, es_tiles_grid(tiles, parameter->dim[0]), ES_THREADS,
                 es_data<float>(&rates->learning_rate), es_data<float>(&rates->momentum),
                 es_data<float>(&rates->weight_decay), rates->is_nesterov != 0, rates->schedule,
                 es_data<int32_t>(&rates->update), counts_of(n_nonfinite), es_in<float>(gradient),
                 es_out<float>(momentum), es_out<float>(parameter), tiles);
}

void es_sgd_step_cuda(EsStream *s, const EsSgdRates *rates, EsIn gradient, EsOut momentum,
                      EsOut parameter) {
    es_sgd_step_finite_cuda(s, rates, NULL, gradient, momentum, parameter);
}

void es_adam_step_finite_cuda(EsStream *s, EsAdamOptions options, EsIn learning_rate,
                              EsIn n_nonfinite, EsIn gradient, EsOut moment1, EsOut moment2,
                              EsOut n_steps, EsOut parameter) {
    EsLaunch launch(s, "adam_step");
    EsTiles tiles = es_tiles(parameter->dim[1]);
    int64_t n_envs = parameter->dim[0];
    launch.start(adam_count_kernel, dim3((unsigned)es_ceil_div(n_envs, ES_THREADS)), ES_THREADS,
                 es_data<int32_t>(n_steps), counts_of(n_nonfinite), n_envs);
    launch.start(adam_step_kernel, es_tiles_grid(tiles, n_envs), ES_THREADS, options,
                 es_data<float>(learning_rate), counts_of(n_nonfinite), es_in<float>(gradient),
                 es_out<float>(moment1), es_out<float>(moment2), es_data<int32_t>(n_steps),
                 es_out<float>(parameter), tiles);
}

void es_adam_step_cuda(EsStream *s, EsAdamOptions options, EsIn learning_rate, EsIn gradient,
                       EsOut moment1, EsOut moment2, EsOut n_steps, EsOut parameter) {
    es_adam_step_finite_cuda(s, options, learning_rate, NULL, gradient, moment1, moment2, n_steps,
                             parameter);
}
