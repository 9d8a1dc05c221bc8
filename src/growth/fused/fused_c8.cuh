// A channel group: eight channels of a pixel, 16 bytes in the 16-bit types, as floats in registers.
#ifndef ES_GROWTH_FUSED_C8_CUH
#define ES_GROWTH_FUSED_C8_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "growth/fused/fused_net.h"
#include "kernels/cuda/cuda_common.cuh"

// Run a statement with T standing for the type of a precision.
#define ES_DISPATCH_FUSED(precision, T, ...)                                                       \
    do {                                                                                           \
        if ((precision) == ES_DTYPE_BF16) {                                                        \
            typedef __nv_bfloat16 T;                                                               \
            __VA_ARGS__;                                                                           \
        } else if ((precision) == ES_DTYPE_F16) {                                                  \
            typedef __half T;                                                                      \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef float T;                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

static __device__ __forceinline__ void es_c8_load(float (&v)[8], const float *p) {
    float4 low = ((const float4 *)p)[0], high = ((const float4 *)p)[1];
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
}

static __device__ __forceinline__ void es_c8_store(float *p, const float (&v)[8]) {
    ((float4 *)p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    ((float4 *)p)[1] = make_float4(v[4], v[5], v[6], v[7]);
}

static __device__ __forceinline__ float2 es_pair_floats(uint32_t bits, __nv_bfloat16) {
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000u));
}

static __device__ __forceinline__ float2 es_pair_floats(uint32_t bits, __half) {
    return make_float2(__half2float(__ushort_as_half((unsigned short)(bits & 0xFFFFu))),
                       __half2float(__ushort_as_half((unsigned short)(bits >> 16))));
}

static __device__ __forceinline__ uint32_t es_pair_bits(float a, float b, __nv_bfloat16) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *(const uint32_t *)&pair;
}

static __device__ __forceinline__ uint32_t es_pair_bits(float a, float b, __half) {
    __half2 pair = __floats2half2_rn(a, b);
    return *(const uint32_t *)&pair;
}

template <typename T> static __device__ __forceinline__ void es_c8_load(float (&v)[8], const T *p) {
    uint4 bits = *(const uint4 *)p;
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = es_pair_floats(words[i], T());
        v[2 * i] = pair.x, v[2 * i + 1] = pair.y;
    }
}

template <typename T>
static __device__ __forceinline__ void es_c8_store(T *p, const float (&v)[8]) {
    *(uint4 *)p = make_uint4(es_pair_bits(v[0], v[1], T()), es_pair_bits(v[2], v[3], T()),
                             es_pair_bits(v[4], v[5], T()), es_pair_bits(v[6], v[7], T()));
}

template <typename T> static __device__ __forceinline__ void es_c8_zero(T *p) {
    const float zeros[8] = {};
    es_c8_store(p, zeros);
}

// As it is, 16 bytes at a time.
template <typename T> static __device__ __forceinline__ void es_c8_copy(T *to, const T *from) {
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 2; i++) {
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    }
}

// Returns a value rounded to T.
static __device__ __forceinline__ float es_rounded(float v, float) { return v; }
static __device__ __forceinline__ float es_rounded(float v, __nv_bfloat16) {
    return __bfloat162float(__float2bfloat16_rn(v));
}
static __device__ __forceinline__ float es_rounded(float v, __half) {
    return __half2float(__float2half_rn(v));
}

#endif
