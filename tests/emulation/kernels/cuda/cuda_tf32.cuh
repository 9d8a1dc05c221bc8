// Takes the place of src/kernels/cuda/cuda_tf32.cuh in the emulation: the matrix instruction with
// the fragment layout of the PTX ISA ("Matrix fragments for mma.m16n8k8").
//
// A product is summed in double and rounded once, which is at least as exact as the hardware.
#ifndef ES_KERNELS_CUDA_TF32_CUH
#define ES_KERNELS_CUDA_TF32_CUH

#include <cuda_runtime.h>

// cvt.rna.tf32.f32: a NaN whose upper bits are those of infinity comes out as infinity, which an
// H200 was seen to do
static inline uint32_t es_tf32(float x) {
    uint32_t bits = __float_as_uint(x);
    int is_nan = (bits & 0x7FFFE000u) > 0x7F800000u;
    return is_nan ? 0x7FFFFFFFu : x != x ? bits & 0xFFFFE000u : (bits + 0x1000u) & 0xFFFFE000u;
}

struct EsTf32Product {
    float *d;
    const uint32_t *a, *b;
};

// the instruction reads no more than TF32's bits
static inline double es_emulated_tf32(uint32_t bits) {
    return (double)__uint_as_float(bits & 0xFFFFE000u);
}

// With g = lane / 4 and q = lane % 4:
//   a[0..3] hold rows g, g + 8, g, g + 8, column q, and 4 more for the last two
//   b[0..1] hold column g, row q, and 4 more for the second
//   d[0..3] hold row g (two), row g + 8 (two), columns 2 q, 2 q + 1
static const char *es_emulated_tf32_product(void **operands, unsigned n) {
    double a[16][8], b[8][8];
    for (unsigned lane = 0; lane < n; lane++) {
        const EsTf32Product *mine = (EsTf32Product *)operands[lane];
        unsigned g = lane / 4, q = lane % 4;
        for (unsigned i = 0; i < 4; i++) {
            a[g + 8 * (i % 2)][q + 4 * (i / 2)] = es_emulated_tf32(mine->a[i]);
        }
        b[q][g] = es_emulated_tf32(mine->b[0]);
        b[q + 4][g] = es_emulated_tf32(mine->b[1]);
    }
    for (unsigned lane = 0; lane < n; lane++) {
        EsTf32Product *mine = (EsTf32Product *)operands[lane];
        for (unsigned i = 0; i < 4; i++) {
            unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
            double sum = 0.0;
            for (unsigned k = 0; k < 8; k++) {
                sum += a[row][k] * b[k][column];
            }
            mine->d[i] = (float)(sum + (double)mine->d[i]);
        }
    }
    return NULL;
}

static inline void es_multiply_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    static const EsCollective collective = {"mma", es_emulated_tf32_product};
    EsTf32Product product = {d, a, b};
    es_emulated_warp(&collective, 0xFFFFFFFFu, &product);
}

#endif
