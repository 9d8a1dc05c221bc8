// The loops of lifecycle.c as kernels: a thread per environment over the rules, which give the same
// bits as on the CPU (contraction is off).
#include "growth/cuda/growth_parts.h"
#include "growth/rules/seed_fields.h"
#include "kernels/cuda/cuda_common.cuh"

// few: an environment is a long chain of dependent reads, so they should spread over many units
#define THREADS 32

static dim3 grid_of(const EsGrowthParts *parts) {
    return dim3((unsigned)es_ceil_div(parts->n_envs, THREADS));
}

static __global__ void reset_kernel(const __grid_constant__ EsGrowthParts parts,
                                    int64_t first_episode) {
    int32_t e = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (e >= parts.n_envs) {
        return;
    }
    EsHostState host;
    es_env_reset(parts.settings, &host.env, host.seeds);
    es_host_state_store(&parts.state, e, &host);
    parts.episode[e] = (int32_t)(first_episode + e);
    parts.loss_scale[e] = ES_LOSS_SCALE_START;
    parts.n_good[e] = 0;
}

static __global__ void measure_kernel(const __grid_constant__ EsGrowthParts parts) {
    int32_t e = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (e >= parts.n_envs) {
        return;
    }
    const EsGrowthSettings *settings = parts.settings;
    EsHostState host;
    EsAblation list = parts.ablations[e];
    EsInteractions pairs;
    memset(&pairs, 0, sizeof pairs);
    es_host_state_load(&parts.state, e, &host);
    es_env_measure(settings, &host.env, host.seeds, parts.loss_row[e], parts.accuracy_row[e]);
    for (int32_t s = 0; s < parts.n_slots; s++) {
        es_gradient_record(settings, &host.seeds[s],
                           &parts.seed_sums[(int64_t)e * parts.n_slots + s], &parts.host_sums[e]);
    }
    es_contribution_record(settings, &host.env, host.seeds, &list,
                           parts.accuracy + (int64_t)e * ES_ABLATION_PATTERNS_MAX, &pairs);
    parts.masks[e] = es_env_masks(settings, &host.env, host.seeds);
    parts.pairs[e] = pairs;
    es_host_state_store(&parts.state, e, &host);
}

static __global__ void decide_kernel(const __grid_constant__ EsGrowthParts parts) {
    int32_t e = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (e >= parts.n_envs) {
        return;
    }
    EsHostState host;
    EsAction action = parts.actions[e];
    es_host_state_load(&parts.state, e, &host);
    es_env_apply(parts.settings, &host.env, host.seeds, &action);
    es_env_tick(parts.settings, &host.env, host.seeds);
    es_host_state_store(&parts.state, e, &host);
    if (host.env.requests & ES_ENV_REQUEST_RESET_SCALER) {
        parts.loss_scale[e] = ES_LOSS_SCALE_START;
        parts.n_good[e] = 0;
    }
}

void es_growth_cuda_reset(const EsGrowthParts *parts, EsStream *stream, int64_t first_episode) {
    EsLaunch launch(stream, "growth_reset");
    launch.start(reset_kernel, grid_of(parts), THREADS, *parts, first_episode);
}

void es_growth_cuda_measure(const EsGrowthParts *parts, EsStream *stream) {
    EsLaunch launch(stream, "growth_measure");
    launch.start(measure_kernel, grid_of(parts), THREADS, *parts);
}

void es_growth_cuda_decide(const EsGrowthParts *parts, EsStream *stream) {
    EsLaunch launch(stream, "growth_decide");
    launch.start(decide_kernel, grid_of(parts), THREADS, *parts);
}
