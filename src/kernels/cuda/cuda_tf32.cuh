// Products of TF32 matrices on tensor cores, one warp each.
//
// TF32 keeps 10 of f32's 23 bits of mantissa; sums are f32. A number x is nearly high(x) + low(x),
// both TF32: with the three products high high + high low + low high a sum is about as good as
// one in f32 (Ootomo and Yokota, 2022).
#ifndef ES_KERNELS_CUDA_TF32_CUH
#define ES_KERNELS_CUDA_TF32_CUH

#include <cuda_runtime.h>
#include <stdint.h>

// The TF32 nearest to x, ties away from 0. A NaN stays NaN when TF32 keeps one of its set bits, as
// it does of all that arithmetic makes; one without becomes infinity. The instruction below does
// not read the lower 13 bits of its operands, so that what is not rounded is cut.
static __device__ __forceinline__ uint32_t es_tf32(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// d += a b with a [16, 8], b [8, 8], d [16, 8]. With g = lane / 4 and q = lane % 4 a lane holds
// a (g, q), (g + 8, q), (g, q + 4), (g + 8, q + 4); b (q, g), (q + 4, g); d (g, 2q), (g, 2q + 1),
// (g + 8, 2q), (g + 8, 2q + 1). All lanes of the warp must call.
static __device__ __forceinline__ void es_multiply_tf32(float (&d)[4], const uint32_t (&a)[4],
                                                        const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
