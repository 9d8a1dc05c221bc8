// kernels/cuda_tf32.cuh without tensor cores: the lanes of a warp lay their parts of the operands
// side by side and each computes its own four sums.
#ifndef ES_KERNELS_CUDA_TF32_CUH
#define ES_KERNELS_CUDA_TF32_CUH

#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

// the product reads no more than TF32's bits
static inline float es_tf32_value(uint32_t bits) {
    float value;
    bits &= 0xFFFFE000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static __device__ __forceinline__ void es_multiply_tf32(float (&d)[4], const uint32_t (&a)[4],
                                                        const uint32_t (&b)[2]) {
    __shared__ uint32_t all_a[32][32][4], all_b[32][32][2];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    memcpy(all_a[warp][lane], a, sizeof a);
    memcpy(all_b[warp][lane], b, sizeof b);
    __syncwarp();
    for (unsigned i = 0; i < 4; i++) {
        unsigned is_lower = i / 2, column = 2 * q + i % 2; // row g or g + 8
        for (unsigned k = 0; k < 8; k++) {
            d[i] += es_tf32_value(all_a[warp][4 * g + k % 4][is_lower + 2 * (k / 4)]) *
                    es_tf32_value(all_b[warp][4 * column + k % 4][k / 4]);
        }
    }
    __syncwarp();
}

#endif
