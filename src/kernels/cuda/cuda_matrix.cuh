// The tensor cores' instructions for 16-bit and for TF32 operands, one function each. All are
// collective: every lane of the warp calls. Layouts as in the PTX manual, "Matrix fragments for
// mma.m16n8k16" and "mma.m16n8k8".
//
// A matrix of es_load_matrix_* is 8 rows of 16 bytes (8 elements) in shared memory; lane l of the
// warp gives the address of row l % 8 of matrix l / 8, so rows may lie anywhere. Afterwards lane l
// holds elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of each matrix; transposed: of column
// l / 4.
#ifndef ES_KERNELS_CUDA_MATRIX_CUH
#define ES_KERNELS_CUDA_MATRIX_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

static __device__ __forceinline__ uint32_t es_shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

static __device__ __forceinline__ void es_load_matrix_x4(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(es_shared_address(row))
                 : "memory");
}

static __device__ __forceinline__ void es_load_matrix_x2(uint32_t (&r)[2], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(es_shared_address(row))
                 : "memory");
}

static __device__ __forceinline__ void es_load_matrix_x4_transposed(uint32_t (&r)[4],
                                                                    const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(es_shared_address(row))
                 : "memory");
}

static __device__ __forceinline__ void es_load_matrix_x2_transposed(uint32_t (&r)[2],
                                                                    const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(es_shared_address(row))
                 : "memory");
}

// d [16, 8] += a [16, 16] b [16, 8]: operands of type T, sums in f32. Lane l holds d of row l / 4
// (d[0], d[1]) and l / 4 + 8 (d[2], d[3]), columns 2 (l % 4) and the next; a as four matrices: rows
// 0-7 and 8-15 of columns 0-7, then of columns 8-15; b as two: its columns as rows, of rows 0-7 and
// 8-15.
template <typename T>
static __device__ __forceinline__ void es_multiply_matrix(float (&d)[4], const uint32_t (&a)[4],
                                                          const uint32_t (&b)[2]);

template <>
__device__ __forceinline__ void
es_multiply_matrix<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ __forceinline__ void es_multiply_matrix<__half>(float (&d)[4], const uint32_t (&a)[4],
                                                           const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// --- TF32 ---

// TF32 keeps 10 of f32's 23 bits of mantissa; sums are f32. A number x is nearly high(x) + low(x),
// both TF32: with the three products high high + high low + low high a sum is about as good as
// one in f32 (Ootomo and Yokota, 2022).

// The TF32 nearest to x, ties away from 0. A NaN stays NaN when TF32 keeps one of its set bits, as
// it does of all that arithmetic makes; one without becomes infinity. The instruction below does
// not read the lower 13 bits of its operands, so a value that was not rounded is truncated.
static __device__ __forceinline__ uint32_t es_tf32(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// high and low of x, both TF32
static __device__ __forceinline__ void es_split_tf32(float x, uint32_t &high, uint32_t &low) {
    high = es_tf32(x);
    low = es_tf32(x - __uint_as_float(high));
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
