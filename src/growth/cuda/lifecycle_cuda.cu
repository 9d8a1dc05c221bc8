// The loops of lifecycle.c as kernels: a thread per environment over the rules, which give the same
// bits as on the CPU (contraction is off).
#include "growth/cuda/growth_arrays.h"
#include "growth/rules/seed_fields.h"
#include "kernels/cuda/cuda_common.cuh"

// few: an environment is a long chain of dependent reads, so they should spread over many units
#define THREADS 32

static dim3 grid_of(const EsGrowthArrays *arrays) {
    return dim3((unsigned)es_ceil_div(arrays->n_envs, THREADS));
}

static __global__ void reset_kernel(const __grid_constant__ EsGrowthArrays arrays,
                                    int64_t first_episode, int64_t period) {
    int32_t e = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (e >= arrays.n_envs) {
        return;
    }
    EsHostState host;
    es_env_reset(arrays.settings, &host.env, host.seeds);
    es_host_state_store(&arrays.state, e, &host);
    arrays.episode[e] = (int32_t)(first_episode + e % period);
    arrays.loss_scale[e] = ES_LOSS_SCALE_START;
    arrays.n_good[e] = 0;
}

static __global__ void measure_kernel(const __grid_constant__ EsGrowthArrays arrays) {
    int32_t e = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (e >= arrays.n_envs) {
        return;
    }
    const EsGrowthSettings *settings = arrays.settings;
    EsHostState host;
    EsAblation list = arrays.ablations[e];
    EsInteractions pairs;
    memset(&pairs, 0, sizeof pairs);
    es_host_state_load(&arrays.state, e, &host);
    es_env_measure(settings, &host.env, host.seeds, arrays.loss_row[e], arrays.accuracy_row[e]);
    for (int32_t s = 0; s < arrays.n_slots; s++) {
        es_gradient_record(settings, &host.seeds[s],
                           &arrays.seed_sums[(int64_t)e * arrays.n_slots + s],
                           &arrays.host_sums[e]);
    }
    es_contribution_record(settings, &host.env, host.seeds, &list,
                           arrays.accuracy + (int64_t)e * ES_ABLATION_PATTERNS_MAX, &pairs);
    arrays.masks[e] = es_env_masks(settings, &host.env, host.seeds);
    arrays.pairs[e] = pairs;
    es_host_state_store(&arrays.state, e, &host);
}

static __global__ void decide_kernel(const __grid_constant__ EsGrowthArrays arrays) {
    int32_t e = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (e >= arrays.n_envs) {
        return;
    }
    EsHostState host;
    EsAction action = arrays.actions[e];
    es_host_state_load(&arrays.state, e, &host);
    es_env_apply(arrays.settings, &host.env, host.seeds, &action);
    es_env_tick(arrays.settings, &host.env, host.seeds);
    es_host_state_store(&arrays.state, e, &host);
    if (host.env.requests & ES_ENV_REQUEST_RESET_SCALER) {
        arrays.loss_scale[e] = ES_LOSS_SCALE_START;
        arrays.n_good[e] = 0;
    }
}

void es_growth_cuda_reset(const EsGrowthArrays *arrays, EsStream *stream, int64_t first_episode,
                          int64_t period) {
    EsLaunch launch(stream, "growth_reset");
    launch.start(reset_kernel, grid_of(arrays), THREADS, *arrays, first_episode, period);
}

void es_growth_cuda_measure(const EsGrowthArrays *arrays, EsStream *stream) {
    EsLaunch launch(stream, "growth_measure");
    launch.start(measure_kernel, grid_of(arrays), THREADS, *arrays);
}

void es_growth_cuda_decide(const EsGrowthArrays *arrays, EsStream *stream) {
    EsLaunch launch(stream, "growth_decide");
    launch.start(decide_kernel, grid_of(arrays), THREADS, *arrays);
}
