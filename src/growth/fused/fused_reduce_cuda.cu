// The partial sums of the weights' gradients, of host and seeds, added up in their order into the
// gradient slab. The warps of a block share its elements' chunks, each takes every eighth; then the
// eight sums in turn. A lane has four elements, so that few chunks are worth a block, or one where
// there are many.
#include "growth/fused/fused_kernels.h"
#include "growth/fused/fused_seed_pack.cuh"

#define LANE_ELEMENTS_MAX 4
// More chunks than this: one element per lane, and the more blocks.
#define FEW_PARTS 64

// Parameter offset for element i of a convolution's partial sums, [tap][c8][o][c]: -1 for padding.
static __device__ int64_t conv_place(const EsFusedBlock &block, int i) {
    int c = i % 8, out = i / 8 % (block.out_c8 * 8), q = i / (8 * block.out_c8 * 8);
    int in = q % block.in_c8 * 8 + c, tap = q / block.in_c8;
    if (in >= block.n_in || out >= block.n_out) {
        return -1;
    }
    return block.weight + ((int64_t)out * block.n_in + in) * block.kernel * block.kernel + tap;
}

static __device__ int64_t classifier_place(const EsFusedNet &net, int i) {
    int n_weights = net.n_classes * net.block[net.n_blocks - 1].n_out;
    return i < n_weights ? net.classifier_weight + i : net.classifier_bias + i - n_weights;
}

// Jobs are the layers of the host, the classifier, then the slots.
#define JOBS_MAX (ES_FUSED_BLOCKS_MAX + 1 + ES_SLOTS_MAX)

struct ReduceShape {
    int length[JOBS_MAX];        // of a chunk
    int lane_elements[JOBS_MAX]; // 1 or LANE_ELEMENTS_MAX
    int blocks[JOBS_MAX];        // of threads per instance
    int blocks_per_instance;
    int used[ES_SLOTS_MAX]
            [ES_BLUEPRINT_COUNT]; // of a chunk, by the blueprint that an instance runs
    int gate_length[ES_SLOTS_MAX];
};

// Offset in an environment's parameters for element i of a job's partial sums: -1 for padding, and
// for tensors without a gradient in this instance.
static __device__ int64_t find_place(const EsFusedArguments &args, int instance, int job, int i) {
    if (job < args.net.n_blocks) {
        return conv_place(args.net.block[job], i);
    }
    if (job == args.net.n_blocks) {
        return classifier_place(args.net, i);
    }
    int slot_number = job - args.net.n_blocks - 1;
    return es_seed_partial_place(args.net.place[slot_number],
                                 es_instance_slot(args, instance, slot_number), i);
}

// This warp's share of the sums of elements first + lane + 32 e, e < N: every eighth chunk.
// Elements from n_used on repeat the last one.
template <int N>
static __device__ __forceinline__ void add_partials(const float *partials, int n_chunks, int length,
                                                    int first, int n_used, double *sums) {
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const float *at[N];
    double sum[N] = {};
#pragma unroll
    for (int e = 0; e < N; e++) {
        at[e] = partials + (int64_t)warp * length + min(first + lane + 32 * e, n_used - 1);
    }
    // 16 loads at a time
#pragma unroll 16 / N
    for (int p = warp; p < n_chunks; p += ES_FUSED_WARPS) {
#pragma unroll
        for (int e = 0; e < N; e++) {
            sum[e] += (double)*at[e];
            at[e] += ES_FUSED_WARPS * length;
        }
    }
#pragma unroll
    for (int e = 0; e < N; e++) {
        sums[(warp * N + e) * 32 + lane] = sum[e];
    }
}

static __global__ void __launch_bounds__(ES_FUSED_THREADS)
    fused_reduce_kernel(const __grid_constant__ EsFusedArguments args,
                        const __grid_constant__ ReduceShape shape) {
    __shared__ double sums[ES_FUSED_WARPS * LANE_ELEMENTS_MAX * 32]; // [warps][elements]
    int instance = (int)blockIdx.x / shape.blocks_per_instance,
        at = (int)blockIdx.x % shape.blocks_per_instance;
    if (args.instances.n_active != NULL && instance >= args.instances.n_active[0]) {
        return;
    }
    int job = 0;
    while (at >= shape.blocks[job]) {
        at -= shape.blocks[job++];
    }
    int slot = job - args.net.n_blocks - 1, length = shape.length[job], n_used = length;
    int n_elements = 32 * shape.lane_elements[job], first = at * n_elements;
    if (slot >= 0) {
        EsFusedSlot of = es_instance_slot(args, instance, slot);
        n_used = of.mode == ES_BLEND_NONE ? 0 : shape.used[slot][of.blueprint];
        // without a gate its sums, which come first, are unused
        if (!es_seed_gate_learns(of) && first + n_elements <= shape.gate_length[slot]) {
            return;
        }
    }
    if (first >= n_used) {
        return;
    }
    int64_t gradients = args.instances.env[instance] * args.parameter_stride;
    int n_chunks = slot < 0 ? args.n_chunks[job] : args.n_seed_chunks[slot];
    const float *partials = (slot < 0 ? args.weight_partials[job] : args.seed_partials[slot]) +
                            (int64_t)instance * n_chunks * length;
    if (n_elements == 32) {
        add_partials<1>(partials, n_chunks, length, first, n_used, sums);
    } else {
        add_partials<LANE_ELEMENTS_MAX>(partials, n_chunks, length, first, n_used, sums);
    }
    __syncthreads();
    int element = (int)threadIdx.x, i = first + element;
    int64_t place =
        element < n_elements && i < n_used ? find_place(args, instance, job, i) : (int64_t)-1;
    if (place >= 0) {
        double sum = sums[element];
#pragma unroll
        for (int k = 1; k < ES_FUSED_WARPS; k++) {
            sum += sums[k * n_elements + element];
        }
        args.gradients[gradients + place] = (float)sum;
    }
}

extern "C" int es_fused_partial_length(const EsFusedNet *net, int block) {
    if (block == net->n_blocks) {
        return net->n_classes * (net->block[block - 1].n_out + 1);
    }
    const EsFusedBlock *layer = &net->block[block];
    return es_weight_partial_length(layer->kernel * layer->kernel * layer->in_c8, layer->out_c8);
}

extern "C" void es_fused_reduce(EsStream *stream, const EsFusedArguments *args) {
    EsLaunch launch(stream, "fused_reduce");
    const EsFusedNet *net = &args->net;
    ReduceShape shape = {};
    for (int job = 0; job <= net->n_blocks + net->n_slots; job++) {
        int slot = job - net->n_blocks - 1;
        shape.length[job] = slot < 0 ? es_fused_partial_length(net, job)
                                     : es_fused_seed_partial_length(&net->place[slot]);
        int n_chunks = slot < 0 ? args->n_chunks[job] : args->n_seed_chunks[slot];
        shape.lane_elements[job] = n_chunks > FEW_PARTS ? 1 : LANE_ELEMENTS_MAX;
        shape.blocks[job] = (int)es_ceil_div(shape.length[job], 32 * shape.lane_elements[job]);
        shape.blocks_per_instance += shape.blocks[job];
        if (slot >= 0) {
            shape.gate_length[slot] = es_seed_gate_partial_length(net->place[slot].n_channels);
        }
        for (int b = 0; slot >= 0 && b < ES_BLUEPRINT_COUNT; b++) {
            shape.used[slot][b] =
                es_seed_partial_offset(net->place[slot].n_channels, b, es_seed_tensor_count(b));
        }
    }
    launch.start(fused_reduce_kernel,
                 dim3((unsigned)(args->instances.n_instances * shape.blocks_per_instance)),
                 ES_FUSED_THREADS, *args, shape);
}
