// The rules of growth on the GPU and on the CPU: the random lives of lifecycle_fuzz, thousands at
// once on the device, and after every step of every life the hash of all that it has passed
// compared with the CPU's. A difference is lived again on both, up to its step, and named.
//
// ES_FUZZ_STEPS sets the number of steps, of all environments together.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "growth/lifecycle_fuzz_rules.h"
#include "kernels/cuda/cuda_launch.cuh"

#define N_STEPS     512 // of an environment: several worlds
#define ALL_STEPS   (4096LL * N_STEPS)
#define ENOUGH      1000000 // steps after which everything has come up
#define THREADS     32
#define N_NUMBERS   7
#define SHAPLEY_MAX ES_ABLATION_FULL_MAX

typedef struct World {
    FuzzLife life;
    double numbers[N_NUMBERS];   // of functions that the rules use, at a random place
    double shapley[SHAPLEY_MAX]; // of the first ablatable seeds
} World;

// --- on both ---

// Environment 0 lives the life that lifecycle_fuzz checks.
static __host__ __device__ void begin(World *world, uint32_t env) {
    memset(world, 0, sizeof *world);
    fuzz_begin(&world->life, (uint64_t)env << 32 | 1u);
}

// A NaN has other bits on each device; NaN itself is not of interest here.
static __host__ __device__ double number_or_zero(double x) { return es_math_is_finite(x) ? x : 0; }

static __host__ __device__ void compute(World *world) {
    FuzzLife *life = &world->life;
    double x = fuzz_below(life, 1u << 30) * 0x1p-30 * 60 - 30;
    world->numbers[0] = es_math_exp(x);
    world->numbers[1] = es_math_log(x + 31);
    world->numbers[2] = es_math_tanh(x / 10);
    world->numbers[3] = es_math_sigmoid(x);
    world->numbers[4] = es_math_cos(x);
    world->numbers[5] = es_math_sqrt(x + 30);
    double variance = 0;
    world->numbers[6] =
        life->env.n_governed > 0 ? es_governor_mean(&life->env, &variance) + variance : 0;
    if (life->ablations.n <= SHAPLEY_MAX) {
        es_shapley_exact(life->ablations.n, life->accuracy, world->shapley);
    }
    for (int i = 0; i < SHAPLEY_MAX; i++) {
        world->shapley[i] = number_or_zero(world->shapley[i]);
    }
    fuzz_mix(life, world->numbers, sizeof world->numbers);
    fuzz_mix(life, world->shapley, sizeof world->shapley);
}

static __host__ __device__ void step(World *world) {
    fuzz_step(&world->life);
    compute(world);
}

// --- on the device ---

static __global__ void begin_kernel(World *worlds, uint32_t n_envs, uint32_t first_env) {
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n_envs) {
        begin(&worlds[i], first_env + i);
    }
}

static __global__ void step_kernel(World *worlds, uint32_t n_envs, uint64_t *hashes) {
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n_envs) {
        step(&worlds[i]);
        hashes[i] = worlds[i].life.hash;
    }
}

static void require(cudaError_t status) {
    if (status != cudaSuccess) {
        printf("FAIL: %s\n", cudaGetErrorString(status));
        exit(1);
    }
}

// Lives of environments first_env and on, n_steps long: hashes [n_steps, n_envs], and the worlds as
// they are then.
static void live_there(uint32_t first_env, uint32_t n_envs, int n_steps,
                       std::vector<uint64_t> *hashes, std::vector<World> *worlds) {
    World *worlds_device = NULL;
    uint64_t *hashes_device = NULL;
    unsigned n_blocks = (n_envs + THREADS - 1) / THREADS;
    hashes->resize((size_t)n_steps * n_envs);
    worlds->resize(n_envs);
    require(cudaMalloc(&worlds_device, n_envs * sizeof(World)));
    require(cudaMalloc(&hashes_device, hashes->size() * sizeof(uint64_t)));
    require(es_launch_kernel(begin_kernel, n_blocks, THREADS, 0, NULL, worlds_device, n_envs,
                             first_env));
    for (int t = 0; t < n_steps; t++) {
        require(es_launch_kernel(step_kernel, n_blocks, THREADS, 0, NULL, worlds_device, n_envs,
                                 hashes_device + (size_t)t * n_envs));
    }
    require(cudaMemcpy(hashes->data(), hashes_device, hashes->size() * sizeof(uint64_t),
                       cudaMemcpyDeviceToHost));
    require(
        cudaMemcpy(worlds->data(), worlds_device, n_envs * sizeof(World), cudaMemcpyDeviceToHost));
    cudaFree(worlds_device);
    cudaFree(hashes_device);
}

// --- which field ---

static int n_named; // differences printed

static void name_difference(const char *of, int index, const char *field, const void *here,
                            const void *there, size_t bytes) {
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t a, b;
        memcpy(&a, (const char *)here + i, 4);
        memcpy(&b, (const char *)there + i, 4);
        if (a != b && n_named++ < 20) {
            float x, y;
            memcpy(&x, &a, 4);
            memcpy(&y, &b, 4);
            printf("  %s %d, %s, word %d: CPU %08x (%d, %.9g), GPU %08x (%d, %.9g)\n", of, index,
                   field, (int)(i / 4), a, (int)a, (double)x, b, (int)b, (double)y);
        }
    }
}

#define NAME(of, index, field, a, b) name_difference(of, index, #field, &a, &b, sizeof a)

static void name_seed(int s, const EsSeed *a, const EsSeed *b) {
#define X(type, name, empty, meaning) NAME("slot", s, name, a->name, b->name);
    ES_SEED_FIELDS(X)
#undef X
}

static void name_env(int env, const EsGrowthEnv *a, const EsGrowthEnv *b) {
#define X(type, name, extra, meaning) NAME("environment", env, name, a->name, b->name);
    ES_GROWTH_ENV_FIELDS(X)
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
}

// Live environment `env` again on both devices up to the step, and say what differs.
static void name_first(uint32_t env, int t) {
    std::vector<uint64_t> hashes;
    std::vector<World> there, here(1);
    live_there(env, 1, t + 1, &hashes, &there);
    begin(&here[0], env);
    for (int i = 0; i <= t; i++) {
        step(&here[0]);
    }
    const World *a = &here[0], *b = &there[0];
    printf("environment %u differs first in its step %d (world %u, step %u, %d slots)\n", env, t,
           a->life.world, a->life.step, a->life.settings.n_slots);
    int e = (int)env;
    n_named = 0;
    NAME("environment", e, settings, a->life.settings, b->life.settings);
    for (int s = 0; s < a->life.settings.n_slots; s++) {
        name_seed(s, &a->life.seeds[s], &b->life.seeds[s]);
    }
    name_env(e, &a->life.env, &b->life.env);
    NAME("environment", e, masks, a->life.masks, b->life.masks);
    NAME("environment", e, action, a->life.action, b->life.action);
    NAME("environment", e, pairs, a->life.pairs, b->life.pairs);
    NAME("environment", e, numbers, a->numbers, b->numbers);
    NAME("environment", e, shapley, a->shapley, b->shapley);
    if (n_named == 0) {
        printf("  ... and not when it lives alone: hash %016llx here, %016llx there\n",
               (unsigned long long)a->life.hash, (unsigned long long)b->life.hash);
    }
}

// --- the comparison ---

typedef struct Tally {
    int64_t n_slots[ES_SLOTS_MAX + 1], n_refusals[ES_N_REFUSALS], n_stages[ES_STAGE_RESETTING + 1];
    int n_different; // environments
    int first_step;
    uint32_t first_env; // that differs in it
} Tally;

static void live_here(uint32_t env, uint32_t n_envs, const std::vector<uint64_t> &hashes,
                      Tally *tally) {
    static World world;
    begin(&world, env);
    int is_equal = 1;
    for (int t = 0; t < N_STEPS; t++) {
        const FuzzLife *life = &world.life;
        step(&world);
        tally->n_slots[life->settings.n_slots]++;
        tally->n_refusals[life->env.refusal]++;
        for (int s = 0; s < life->settings.n_slots; s++) {
            tally->n_stages[life->seeds[s].stage]++;
        }
        if (life->hash != hashes[(size_t)t * n_envs + env] && is_equal) {
            is_equal = 0;
            if (tally->n_different++ == 0 || t < tally->first_step) {
                tally->first_step = t;
                tally->first_env = env;
            }
        }
    }
}

// Every number of slots, every refusal, and every stage that a step can end in.
static int has_seen_everything(const Tally *tally) {
    int is_all = 1;
    for (int n : {1, 2, 3, 5, 8, 16}) {
        is_all &= tally->n_slots[n] > 0;
    }
    for (int i = 0; i < ES_N_REFUSALS; i++) {
        is_all &= tally->n_refusals[i] > 0;
    }
    for (int stage = ES_STAGE_DORMANT; stage <= ES_STAGE_RESETTING; stage++) {
        int is_passing = stage == ES_STAGE_PRUNED || stage == ES_STAGE_RETIRED;
        is_all &= (tally->n_stages[stage] > 0) != is_passing;
    }
    return is_all;
}

int main(void) {
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
        printf("no CUDA device\n");
        return 77;
    }
    const char *text = getenv("ES_FUZZ_STEPS");
    long long wanted = text != NULL ? strtoll(text, NULL, 10) : ALL_STEPS;
    uint32_t n_envs = wanted < N_STEPS ? 1 : (uint32_t)((wanted + N_STEPS - 1) / N_STEPS);
    std::vector<uint64_t> hashes;
    std::vector<World> worlds;
    live_there(0, n_envs, N_STEPS, &hashes, &worlds);
    Tally tally = {};
    for (uint32_t env = 0; env < n_envs; env++) {
        live_here(env, n_envs, hashes, &tally);
    }
    long long n_steps = (long long)n_envs * N_STEPS;
    printf("%u environments, %lld steps, compared in each: %d environments differ\n", n_envs,
           n_steps, tally.n_different);
    if (tally.n_different > 0) {
        name_first(tally.first_env, tally.first_step);
        return 1;
    }
    if (n_steps >= ENOUGH && !has_seen_everything(&tally)) {
        printf("some number of slots, refusal or stage did not come up\n");
        return 1;
    }
    return 0;
}
