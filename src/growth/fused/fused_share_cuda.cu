// Work sharing in evaluation (EsFusedSharing): instances of one environment that mix the same seeds
// in the first d slots have equal activations up to there, so the first of them computes for all.
#include "growth/fused/fused_instance.cuh"
#include "growth/fused/fused_kernels.h"

#define FIRST_THREADS  1024
#define LEADER_THREADS 128

static __device__ __forceinline__ int count_rows(const EsFusedArguments &args) {
    return args.instances.n_active != NULL ? args.instances.n_active[0]
                                           : (int)args.instances.n_instances;
}

// Bit d: the instance mixes a seed in at depth d.
static __device__ uint32_t instance_pattern(const EsFusedArguments &args, int instance) {
    uint32_t pattern = 0;
    for (int d = 0; d < args.net.n_slots; d++) {
        pattern |= (uint32_t)es_instance_mixes(args, instance, args.net.order[d]) << d;
    }
    return pattern;
}

// One block: the first instance of every environment that has any.
static __global__ void __launch_bounds__(FIRST_THREADS)
    first_kernel(const __grid_constant__ EsFusedArguments args) {
    int n_instances = count_rows(args);
    for (int64_t e = threadIdx.x; e < args.n_envs; e += FIRST_THREADS) {
        args.sharing.first[e] = n_instances;
    }
    __syncthreads();
    for (int instance = (int)threadIdx.x; instance < n_instances; instance += FIRST_THREADS) {
        atomicMin(&args.sharing.first[args.instances.env[instance]], instance);
    }
}

// A thread per instance, against the instances up to it: at each depth the first that agrees so
// far. A block begins at the first row of its environments. Any order is right; growth lists the
// rows of an environment next to one another, so that a block then looks at few instances that are
// not its own.
static __global__ void __launch_bounds__(LEADER_THREADS)
    leaders_kernel(const __grid_constant__ EsFusedArguments args) {
    __shared__ int32_t envs[LEADER_THREADS];
    __shared__ uint32_t patterns[LEADER_THREADS];
    __shared__ int begin;
    int n_instances = count_rows(args), n_slots = args.net.n_slots;
    int first = (int)blockIdx.x * LEADER_THREADS, instance = first + (int)threadIdx.x;
    if (first >= n_instances) {
        return;
    }
    int is_instance = instance < n_instances, env = is_instance ? args.instances.env[instance] : 0;
    uint32_t pattern = is_instance ? instance_pattern(args, instance) : 0;
    if (threadIdx.x == 0) {
        begin = first;
    }
    __syncthreads();
    if (is_instance) {
        atomicMin(&begin, args.sharing.first[env]);
    }
    __syncthreads();
    int found = 0; // depths whose leader is known
    for (int from = begin / LEADER_THREADS * LEADER_THREADS; from <= first;
         from += LEADER_THREADS) {
        int other = from + (int)threadIdx.x; // exists: all before `first` do
        __syncthreads();
        envs[threadIdx.x] = from == first ? env : args.instances.env[other];
        patterns[threadIdx.x] = from == first ? pattern : instance_pattern(args, other);
        __syncthreads();
        for (int i = 0;
             i < LEADER_THREADS && from + i <= instance && found <= n_slots && is_instance; i++) {
            if (envs[i] != env) {
                continue;
            }
            uint32_t differing = patterns[i] ^ pattern;
            int agreed = differing == 0 ? n_slots : __ffs((int)differing) - 1;
            for (; found <= agreed; found++) {
                args.sharing.leader[found * args.instances.n_instances + instance] = from + i;
            }
        }
    }
}

// A block per point: the instances that compute there, in their order.
static __global__ void __launch_bounds__(ES_FUSED_THREADS)
    list_kernel(const __grid_constant__ EsFusedArguments args) {
    __shared__ int counts[ES_FUSED_WARPS];
    int point = (int)blockIdx.x, slot = point - args.net.n_blocks, n_instances = count_rows(args);
    int depth = slot < 0 ? args.net.block[point].depth : args.net.place[slot].depth + 1;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, n_listed = 0;
    const int32_t *leader = args.sharing.leader + depth * args.instances.n_instances;
    int32_t *listed = args.sharing.listed + point * args.instances.n_instances;
    for (int first = 0; first < n_instances; first += ES_FUSED_THREADS) {
        int instance = first + (int)threadIdx.x;
        bool computes = instance < n_instances && leader[instance] == instance &&
                        (slot < 0 || es_instance_mixes(args, instance, slot));
        unsigned of_warp = __ballot_sync(0xFFFFFFFFu, computes);
        __syncthreads(); // the counts before may still be read
        if (lane == 0) {
            counts[warp] = __popc(of_warp);
        }
        __syncthreads();
        int before = n_listed + __popc(of_warp & ((1u << lane) - 1));
        for (int w = 0; w < ES_FUSED_WARPS; w++) {
            before += w < warp ? counts[w] : 0;
            n_listed += counts[w];
        }
        if (computes) {
            listed[before] = instance;
        }
    }
    for (int i = n_listed + (int)threadIdx.x; i < args.instances.n_instances;
         i += ES_FUSED_THREADS) {
        listed[i] = -1;
    }
}

extern "C" void es_fused_share(EsStream *stream, const EsFusedArguments *args) {
    EsLaunch launch(stream, "fused_share");
    int64_t n_blocks = es_ceil_div(args->instances.n_instances, LEADER_THREADS);
    launch.start(first_kernel, dim3(1), FIRST_THREADS, *args);
    launch.start(leaders_kernel, dim3((unsigned)n_blocks), LEADER_THREADS, *args);
    launch.start(list_kernel, dim3((unsigned)(args->net.n_blocks + args->net.n_slots)),
                 ES_FUSED_THREADS, *args);
}
