// The lives of decision_parity_life.h on CUDA, a thread per environment.
#include <cstdlib>

#include "control/decision_parity_life.h"
#include "kernels/cuda/cuda_launch.cuh"
#include "tensor/device_cuda.h"

#define THREADS 64

struct LivesCuda {
    LifeSettings *kinds_device; // owned [LIFE_KINDS]
    LifeWorld *worlds_device;   // owned [n_envs]
    uint32_t n_envs;
};

static __global__ void life_step_kernel(const LifeSettings *kinds, LifeWorld *worlds,
                                        uint32_t n_envs, uint32_t step) {
    uint32_t env = blockIdx.x * blockDim.x + threadIdx.x;
    if (env < n_envs) {
        life_step(kinds, &worlds[env], env, step);
    }
}

static EsStatus fill(LivesCuda *lives, const LifeSettings *kinds) {
    size_t kind_bytes = LIFE_KINDS * sizeof *kinds;
    size_t world_bytes = lives->n_envs * sizeof(LifeWorld);
    ES_CUDA_TRY(cudaMalloc(&lives->kinds_device, kind_bytes));
    ES_CUDA_TRY(cudaMalloc(&lives->worlds_device, world_bytes));
    ES_CUDA_TRY(cudaMemcpy(lives->kinds_device, kinds, kind_bytes, cudaMemcpyHostToDevice));
    ES_CUDA_TRY(cudaMemset(lives->worlds_device, 0, world_bytes));
    return ES_STATUS_OK;
}

EsStatus lives_cuda_create(const LifeSettings *kinds, uint32_t n_envs, LivesCuda **lives_out) {
    LivesCuda *lives = (LivesCuda *)calloc(1, sizeof *lives);
    *lives_out = NULL;
    if (lives == NULL) {
        return ES_FAIL(MEMORY, "not enough memory for %u lives", n_envs);
    }
    lives->n_envs = n_envs;
    EsStatus status = fill(lives, kinds);
    if (status != ES_STATUS_OK) {
        lives_cuda_destroy(lives);
        return status;
    }
    *lives_out = lives;
    return ES_STATUS_OK;
}

EsStatus lives_cuda_step(LivesCuda *lives, uint32_t step, LifeWorld *worlds) {
    uint32_t n_blocks = (lives->n_envs + THREADS - 1) / THREADS;
    ES_CUDA_TRY(es_launch_kernel(life_step_kernel, n_blocks, THREADS, 0, NULL, lives->kinds_device,
                                 lives->worlds_device, lives->n_envs, step));
    ES_CUDA_TRY(cudaMemcpy(worlds, lives->worlds_device, lives->n_envs * sizeof *worlds,
                           cudaMemcpyDeviceToHost));
    return ES_STATUS_OK;
}

void lives_cuda_destroy(LivesCuda *lives) {
    if (lives != NULL) {
        cudaFree(lives->kinds_device);
        cudaFree(lives->worlds_device);
        free(lives);
    }
}
