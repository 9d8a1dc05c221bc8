// Who computes what in evaluation (EsFusedSharing): rows of one environment that mix the same seeds
// in the first d slots have equal activations up to there, so the first of them computes for all.
#include "growth/fused/fused_kernels.h"
#include "growth/fused/fused_row.cuh"

#define FIRST_THREADS  1024
#define LEADER_THREADS 128

static __device__ __forceinline__ int count_rows(const EsFusedArguments &args) {
    return args.rows.n_active != NULL ? args.rows.n_active[0] : (int)args.rows.n_rows;
}

// Bit d: the row mixes a seed in at depth d.
static __device__ uint32_t row_pattern(const EsFusedArguments &args, int row) {
    uint32_t pattern = 0;
    for (int d = 0; d < args.net.n_slots; d++) {
        pattern |= (uint32_t)es_row_mixes(args, row, args.net.order[d]) << d;
    }
    return pattern;
}

// One block: the first row of every environment that has any.
static __global__ void __launch_bounds__(FIRST_THREADS)
    first_kernel(const __grid_constant__ EsFusedArguments args) {
    int n_rows = count_rows(args);
    for (int64_t e = threadIdx.x; e < args.n_envs; e += FIRST_THREADS) {
        args.sharing.first[e] = n_rows;
    }
    __syncthreads();
    for (int row = (int)threadIdx.x; row < n_rows; row += FIRST_THREADS) {
        atomicMin(&args.sharing.first[args.rows.env[row]], row);
    }
}

// A thread per row, against the rows up to it: at each depth the first that agrees so far. A block
// begins at the first row of its environments. Any order is right; growth lists the rows of an
// environment next to one another, so that a block then looks at few rows that are not its own.
static __global__ void __launch_bounds__(LEADER_THREADS)
    leaders_kernel(const __grid_constant__ EsFusedArguments args) {
    __shared__ int32_t envs[LEADER_THREADS];
    __shared__ uint32_t patterns[LEADER_THREADS];
    __shared__ int begin;
    int n_rows = count_rows(args), n_slots = args.net.n_slots;
    int first = (int)blockIdx.x * LEADER_THREADS, row = first + (int)threadIdx.x;
    if (first >= n_rows) {
        return;
    }
    int is_row = row < n_rows, env = is_row ? args.rows.env[row] : 0;
    uint32_t pattern = is_row ? row_pattern(args, row) : 0;
    if (threadIdx.x == 0) {
        begin = first;
    }
    __syncthreads();
    if (is_row) {
        atomicMin(&begin, args.sharing.first[env]);
    }
    __syncthreads();
    int found = 0; // depths whose leader is known
    for (int from = begin / LEADER_THREADS * LEADER_THREADS; from <= first;
         from += LEADER_THREADS) {
        int other = from + (int)threadIdx.x; // exists: all before `first` do
        __syncthreads();
        envs[threadIdx.x] = from == first ? env : args.rows.env[other];
        patterns[threadIdx.x] = from == first ? pattern : row_pattern(args, other);
        __syncthreads();
        for (int i = 0; i < LEADER_THREADS && from + i <= row && found <= n_slots && is_row; i++) {
            if (envs[i] != env) {
                continue;
            }
            uint32_t differing = patterns[i] ^ pattern;
            int agreed = differing == 0 ? n_slots : __ffs((int)differing) - 1;
            for (; found <= agreed; found++) {
                args.sharing.leader[found * args.rows.n_rows + row] = from + i;
            }
        }
    }
}

// A block per point: the rows that compute there, in their order.
static __global__ void __launch_bounds__(ES_FUSED_THREADS)
    list_kernel(const __grid_constant__ EsFusedArguments args) {
    __shared__ int counts[ES_FUSED_WARPS];
    int point = (int)blockIdx.x, slot = point - args.net.n_blocks, n_rows = count_rows(args);
    int depth = slot < 0 ? args.net.block[point].depth : args.net.place[slot].depth + 1;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, n_listed = 0;
    const int32_t *leader = args.sharing.leader + depth * args.rows.n_rows;
    int32_t *listed = args.sharing.listed + point * args.rows.n_rows;
    for (int first = 0; first < n_rows; first += ES_FUSED_THREADS) {
        int row = first + (int)threadIdx.x;
        bool computes =
            row < n_rows && leader[row] == row && (slot < 0 || es_row_mixes(args, row, slot));
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
            listed[before] = row;
        }
    }
    for (int i = n_listed + (int)threadIdx.x; i < args.rows.n_rows; i += ES_FUSED_THREADS) {
        listed[i] = -1;
    }
}

extern "C" void es_fused_share(EsStream *stream, const EsFusedArguments *args) {
    EsLaunch launch(stream, "fused_share");
    int64_t n_blocks = es_ceil_div(args->rows.n_rows, LEADER_THREADS);
    launch.start(first_kernel, dim3(1), FIRST_THREADS, *args);
    launch.start(leaders_kernel, dim3((unsigned)n_blocks), LEADER_THREADS, *args);
    launch.start(list_kernel, dim3((unsigned)(args->net.n_blocks + args->net.n_slots)),
                 ES_FUSED_THREADS, *args);
}
