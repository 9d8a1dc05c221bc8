// The rules of growth on the GPU and on the CPU: more than a million steps of random actions and
// measurements, all state compared bit for bit along the way.
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/random_rules.h"
#include "growth/contribution_rules.h"
#include "growth/lifecycle_rules.h"
#include "kernels/cuda_launch.cuh"

#define N_SLOTS   4
#define N_ENVS    4096
#define N_STEPS   300
#define N_COMPARE 50 // steps between comparisons
#define SEED      9

typedef struct World {
    EsGrowthEnv env;
    EsSeed seeds[N_SLOTS];
    double numbers[8]; // of functions the rules use
} World;

static __host__ __device__ EsRandom4 draw(uint32_t env, uint32_t step, uint32_t number) {
    return es_random_draw(SEED, env, ES_PURPOSE_EVALUATION, step, number);
}

static __host__ __device__ void measure(const EsGrowthSettings *settings, World *world,
                                        uint32_t env, uint32_t step) {
    EsRandom4 a = draw(env, step, 0), b = draw(env, step, 1);
    double x = a.word[0] * 0x1p-32 * 60 - 30;
    world->numbers[0] = es_math_exp(x);
    world->numbers[1] = es_math_log(x + 31);
    world->numbers[2] = es_math_tanh(x / 10);
    world->numbers[3] = es_math_sigmoid(x);
    world->numbers[4] = es_math_cos(x);
    world->numbers[5] = es_math_sqrt(x + 30);
    float loss = (float)(0.3 + es_math_sigmoid(x)), accuracy = 100 * es_random_uniform(a.word[1]);
    if (a.word[2] % 200 == 0) {
        loss = (float)es_math_nan();
    }
    es_env_measure(settings, &world->env, world->seeds, loss, accuracy);
    EsGradientSums seed = es_gradient_sums_empty(), host = es_gradient_sums_empty();
    es_gradient_add(settings, &seed, es_random_uniform(a.word[3]), 77, 1);
    es_gradient_add(settings, &host, es_random_uniform(b.word[0]), 777, 1);
    for (int s = 0; s < N_SLOTS; s++) {
        es_gradient_record(settings, &world->seeds[s], &seed, &host);
    }
    EsAblation list = es_ablation_list(settings, world->seeds);
    float pattern[ES_ABLATION_PATTERNS_MAX];
    for (int k = 0; k < es_ablation_count(&list); k++) {
        pattern[k] = accuracy - 3 * es_random_uniform(draw(env, step, 2 + (uint32_t)k).word[0]);
    }
    EsInteractions pairs;
    es_contribution_record(settings, &world->env, world->seeds, &list, pattern, &pairs);
    double shapley[ES_ABLATION_FULL_MAX] = {0, 0, 0, 0};
    es_shapley_exact(list.n, pattern, shapley);
    world->numbers[6] = shapley[0];
}

// An action that the masks allow, or any other one step in eight.
static __host__ __device__ EsAction choose(const EsGrowthSettings *settings, const World *world,
                                           uint32_t env, uint32_t step) {
    EsRandom4 a = draw(env, step, 30);
    EsActionMasks masks = es_env_masks(settings, &world->env, world->seeds);
    EsAction action = es_action_wait();
    int is_free = a.word[0] % 8 == 0, op = (int)(a.word[1] % ES_N_GROWTH_OPS);
    if (!is_free && !((masks.head[ES_HEAD_OP] >> op) & 1)) {
        op = ES_GROWTH_OP_WAIT;
    }
    action.head[ES_HEAD_OP] = (int8_t)op;
    for (int head = 0; head < ES_HEAD_OP; head++) {
        uint32_t legal = is_free ? 0xffff : es_masks_head(&masks, op, head);
        int value = (int)(a.word[2] >> (4 * head)) & 15;
        while (!((legal >> (value % 16)) & 1)) {
            value++;
        }
        action.head[head] = (int8_t)(value % 16);
    }
    return action;
}

static __host__ __device__ void live(const EsGrowthSettings *settings, World *world, uint32_t env,
                                     uint32_t first, uint32_t end) {
    for (uint32_t step = first; step < end; step++) {
        if (step == 0) {
            es_env_reset(settings, &world->env, world->seeds);
        }
        measure(settings, world, env, step);
        EsAction action = choose(settings, world, env, step);
        es_env_apply(settings, &world->env, world->seeds, &action);
        es_env_tick(settings, &world->env, world->seeds);
    }
}

static __global__ void live_kernel(EsGrowthSettings settings, World *worlds, uint32_t first,
                                   uint32_t end) {
    uint32_t env = blockIdx.x * blockDim.x + threadIdx.x;
    if (env < N_ENVS) {
        live(&settings, &worlds[env], env, first, end);
    }
}

int main(void) {
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
        printf("no CUDA device\n");
        return 77;
    }
    EsGrowthSettings settings = es_growth_settings_tiny(N_SLOTS, 10);
    settings.auto_forward = ES_AUTO_FORWARD_ALL;
    settings.episode_steps = N_STEPS;
    std::vector<World> here(N_ENVS), there(N_ENVS);
    size_t bytes = N_ENVS * sizeof(World);
    World *worlds = NULL;
    memset(static_cast<void *>(here.data()), 0, bytes);
    cudaMalloc(&worlds, bytes);
    cudaMemset(worlds, 0, bytes);
    int n_different = 0, n_fossils = 0, n_pruned = 0, n_rollbacks = 0;
    for (uint32_t first = 0; first < N_STEPS; first += N_COMPARE) {
        cudaError_t status = es_launch_kernel(live_kernel, (N_ENVS + 63) / 64, 64, 0, NULL,
                                              settings, worlds, first, first + N_COMPARE);
        if (status == cudaSuccess) {
            status = cudaMemcpy(there.data(), worlds, bytes, cudaMemcpyDeviceToHost);
        }
        if (status != cudaSuccess) {
            printf("FAIL: %s\n", cudaGetErrorString(status));
            return 1;
        }
        for (uint32_t env = 0; env < N_ENVS; env++) {
            live(&settings, &here[env], env, first, first + N_COMPARE);
            n_different += memcmp(&here[env], &there[env], sizeof(World)) != 0;
        }
    }
    for (int env = 0; env < N_ENVS; env++) {
        n_fossils += here[env].env.n_fossils;
        n_pruned += here[env].env.n_pruned;
        n_rollbacks += here[env].env.n_rollbacks;
    }
    cudaFree(worlds);
    printf(
        "%d environments, %d steps: %d comparisons differ; %d fossils, %d pruned, %d rollbacks\n",
        N_ENVS, N_STEPS, n_different, n_fossils, n_pruned, n_rollbacks);
    return n_different != 0 || n_fossils < 100 || n_pruned < 100 || n_rollbacks < 100;
}
