// Blocks of the host whose shape kernels are compiled for.
#ifndef ES_GROWTH_FUSED_SHAPE_CUH
#define ES_GROWTH_FUSED_SHAPE_CUH

#include "growth/fused/fused_net.h"

// A block's numbers, with its shape as constants where the kernel was compiled for one: 3x3, IN and
// OUT channel groups, maps of SIZE; the block has a pool, and so has the one before it. IN 0: any
// block.
template <int IN, int OUT, int SIZE> struct EsBlockShape {
    static __host__ __device__ __forceinline__ EsFusedBlock of(EsFusedBlock block) {
        if (IN > 0) {
            block.in_c8 = IN, block.out_c8 = OUT, block.size = SIZE;
            block.out_size = SIZE / 2, block.kernel = 3, block.has_pool = 1;
            block.by_size = block.by_pixels = block.by_out_size = block.by_out_pixels = 0;
        }
        return block;
    }
    // The block before it.
    static __host__ __device__ __forceinline__ EsFusedBlock before(EsFusedBlock block) {
        if (IN > 0) {
            block.out_c8 = IN, block.size = 2 * SIZE, block.out_size = SIZE, block.has_pool = 1;
            block.by_size = block.by_pixels = block.by_out_size = block.by_out_pixels = 0;
        }
        return block;
    }
    // One output channel group is known in the first block alone: the gradient of images is not
    // needed, and dgrad of other blocks (fused_dgrad.cuh) takes channel groups by twos.
    static bool fits(const EsFusedNet &net, int b) {
        const EsFusedBlock &block = net.block[b];
        return block.in_c8 == IN && block.out_c8 == OUT && block.size == SIZE &&
               block.kernel == 3 && block.has_pool &&
               (b == 0 || (OUT > 1 && net.block[b - 1].has_pool));
    }
};

// Run a statement with IN, OUT and SIZE of block b's shape: one of those that kernels are compiled
// for, or 0, 0, 0. f32 takes the last alone.
#define ES_DISPATCH_SHAPE(net, b, precision, ...)                                                  \
    do {                                                                                           \
        if ((precision) == ES_DTYPE_F32) {                                                         \
            ES_WITH_SHAPE(0, 0, 0, __VA_ARGS__);                                                   \
        } else if (EsBlockShape<1, 1, 32>::fits(net, b)) {                                         \
            ES_WITH_SHAPE(1, 1, 32, __VA_ARGS__);                                                  \
        } else if (EsBlockShape<1, 2, 16>::fits(net, b)) {                                         \
            ES_WITH_SHAPE(1, 2, 16, __VA_ARGS__);                                                  \
        } else if (EsBlockShape<2, 4, 8>::fits(net, b)) {                                          \
            ES_WITH_SHAPE(2, 4, 8, __VA_ARGS__);                                                   \
        } else {                                                                                   \
            ES_WITH_SHAPE(0, 0, 0, __VA_ARGS__);                                                   \
        }                                                                                          \
    } while (0)
#define ES_WITH_SHAPE(in, out, size, ...)                                                          \
    do {                                                                                           \
        constexpr int IN = in, OUT = out, SIZE = size;                                             \
        __VA_ARGS__;                                                                               \
    } while (0)

#endif
