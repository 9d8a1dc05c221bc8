// The parts of the host's weight gradients, added up in their order into the gradient slab. Eight
// threads share an element: each takes every eighth part, then the eight in turn.
#include "growth/fused_kernels.h"
#include "growth/fused_row.cuh"

#define ELEMENTS 32
#define SLICES   (ES_FUSED_THREADS / ELEMENTS)

// Where element i of a convolution's part, [tap][unit][o][c], goes: -1 for padding.
static __device__ int64_t conv_place(const EsFusedBlock &block, int i) {
    int c = i % 8, out = i / 8 % (block.out_units * 8), q = i / (8 * block.out_units * 8);
    int in = q % block.in_units * 8 + c, tap = q / block.in_units;
    if (in >= block.n_in || out >= block.n_out) {
        return -1;
    }
    return block.weight + ((int64_t)out * block.n_in + in) * block.kernel * block.kernel + tap;
}

static __device__ int64_t head_place(const EsFusedNet &net, int i) {
    int n_weights = net.n_classes * net.block[net.n_blocks - 1].n_out;
    return i < n_weights ? net.head_weight + i : net.head_bias + i - n_weights;
}

struct ReduceShape {
    int length[ES_FUSED_BLOCKS_MAX + 1]; // of a part
    int blocks[ES_FUSED_BLOCKS_MAX + 1]; // of threads per row
    int blocks_per_row;
};

static __global__ void __launch_bounds__(ES_FUSED_THREADS)
    fused_reduce_kernel(const __grid_constant__ EsFusedArguments args,
                        const __grid_constant__ ReduceShape shape) {
    __shared__ double sums[SLICES][ELEMENTS];
    int row = (int)blockIdx.x / shape.blocks_per_row, at = (int)blockIdx.x % shape.blocks_per_row;
    if (args.rows.n_active != NULL && row >= args.rows.n_active[0]) {
        return;
    }
    int layer = 0;
    while (at >= shape.blocks[layer]) {
        at -= shape.blocks[layer++];
    }
    int element = (int)threadIdx.x % ELEMENTS, slice = (int)threadIdx.x / ELEMENTS;
    int i = at * ELEMENTS + element, length = shape.length[layer], n_parts = args.n_parts[layer];
    const float *parts = args.weight_parts[layer] + (int64_t)row * n_parts * length;
    double sum = 0.0;
#pragma unroll 4
    for (int p = slice; i < length && p < n_parts; p += SLICES) {
        sum += (double)parts[(int64_t)p * length + i];
    }
    sums[slice][element] = sum;
    __syncthreads();
    if (slice > 0 || i >= length) {
        return;
    }
    for (int k = 1; k < SLICES; k++) {
        sum += sums[k][element];
    }
    int64_t place =
        layer < args.net.n_blocks ? conv_place(args.net.block[layer], i) : head_place(args.net, i);
    if (place >= 0) {
        args.gradients[args.rows.env[row] * args.parameter_stride + place] = (float)sum;
    }
}

extern "C" int es_fused_part_length(const EsFusedNet *net, int block) {
    if (block == net->n_blocks) {
        return net->n_classes * (net->block[block - 1].n_out + 1);
    }
    const EsFusedBlock *layer = &net->block[block];
    return es_weight_part_length(layer->kernel * layer->kernel * layer->in_units, layer->out_units);
}

extern "C" void es_fused_reduce(EsStream *stream, const EsFusedArguments *args) {
    EsLaunch launch(stream, "fused_reduce");
    ReduceShape shape = {};
    for (int b = 0; b <= args->net.n_blocks; b++) {
        shape.length[b] = es_fused_part_length(&args->net, b);
        shape.blocks[b] = (int)es_ceil_div(shape.length[b], ELEMENTS);
        shape.blocks_per_row += shape.blocks[b];
    }
    launch.start(fused_reduce_kernel, dim3((unsigned)(args->rows.n_rows * shape.blocks_per_row)),
                 ES_FUSED_THREADS, *args, shape);
}
