// Takes the place of src/kernels/cuda/cuda_matrix.cuh in the emulation: the matrix instructions
// with the fragment layouts of the PTX ISA ("Matrix fragments for mma.m16n8k16", "ldmatrix").
//
// A product is summed in double and rounded once, which is at least as exact as the hardware.
#ifndef ES_KERNELS_CUDA_MATRIX_CUH
#define ES_KERNELS_CUDA_MATRIX_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

struct EsMatrixLoad {
    const unsigned char *row; // 16 bytes
    uint32_t *registers;
};

// Matrix m has row i at the address of lane 8 m + i; lane l receives row l / 4, columns 2 (l % 4)
// and the next, or with TRANSPOSED the same of the transpose.
template <unsigned N, bool TRANSPOSED>
static const char *es_emulated_load_matrix(void **operands, unsigned n) {
    for (unsigned i = 0; i < 8 * N; i++) {
        if ((uintptr_t)((EsMatrixLoad *)operands[i])->row % 16 != 0) {
            return "a row is not aligned to 16 bytes";
        }
    }
    for (unsigned lane = 0; lane < n; lane++) {
        for (unsigned m = 0; m < N; m++) {
            unsigned short pair[2];
            for (unsigned k = 0; k < 2; k++) {
                unsigned row = lane / 4, column = 2 * (lane % 4) + k;
                const EsMatrixLoad *source =
                    (EsMatrixLoad *)operands[8 * m + (TRANSPOSED ? column : row)];
                memcpy(&pair[k], source->row + 2 * (TRANSPOSED ? row : column), 2);
            }
            ((EsMatrixLoad *)operands[lane])->registers[m] = pair[0] | (uint32_t)pair[1] << 16;
        }
    }
    return NULL;
}

template <unsigned N, bool TRANSPOSED>
static inline void es_emulated_load_matrices(uint32_t *registers, const void *row) {
    static const EsCollective collective = {"ldmatrix", es_emulated_load_matrix<N, TRANSPOSED>};
    EsMatrixLoad load = {(const unsigned char *)row, registers};
    es_emulated_warp(&collective, 0xFFFFFFFFu, &load);
}

static inline void es_load_matrix_x4(uint32_t (&r)[4], const void *row) {
    es_emulated_load_matrices<4, false>(r, row);
}
static inline void es_load_matrix_x2(uint32_t (&r)[2], const void *row) {
    es_emulated_load_matrices<2, false>(r, row);
}
static inline void es_load_matrix_x4_transposed(uint32_t (&r)[4], const void *row) {
    es_emulated_load_matrices<4, true>(r, row);
}
static inline void es_load_matrix_x2_transposed(uint32_t (&r)[2], const void *row) {
    es_emulated_load_matrices<2, true>(r, row);
}

struct EsMatrixProduct {
    float *d;
    const uint32_t *a, *b;
};

// half `k` of a register
template <typename T> static inline float es_emulated_element(uint32_t pair, unsigned k) {
    return T::from_bits((unsigned short)(pair >> (16 * k)));
}

// With g = lane / 4 and t = lane % 4:
//   a[0..3] hold rows g, g + 8, g, g + 8, columns 2 t, 2 t + 1, and 8 more for the last two
//   b[0..1] hold column g, rows 2 t, 2 t + 1, and 8 more for the second
//   d[0..3] hold row g (two), row g + 8 (two), columns 2 t, 2 t + 1
template <typename T> static const char *es_emulated_product(void **operands, unsigned n) {
    double a[16][16], b[16][8];
    for (unsigned lane = 0; lane < n; lane++) {
        const EsMatrixProduct *mine = (EsMatrixProduct *)operands[lane];
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 8; i++) {
            unsigned r = i / 2, k = i % 2;
            a[g + 8 * (r % 2)][2 * t + k + 8 * (r / 2)] = es_emulated_element<T>(mine->a[r], k);
            if (i < 4) {
                b[2 * t + k + 8 * r][g] = es_emulated_element<T>(mine->b[r], k);
            }
        }
    }
    for (unsigned lane = 0; lane < n; lane++) {
        EsMatrixProduct *mine = (EsMatrixProduct *)operands[lane];
        for (unsigned i = 0; i < 4; i++) {
            unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
            double sum = 0.0;
            for (unsigned k = 0; k < 16; k++) {
                sum += a[row][k] * b[k][column];
            }
            mine->d[i] = (float)(sum + (double)mine->d[i]);
        }
    }
    return NULL;
}

template <typename T>
static inline void es_multiply_matrix(float (&d)[4], const uint32_t (&a)[4],
                                      const uint32_t (&b)[2]) {
    static const EsCollective collective = {"mma", es_emulated_product<T>};
    EsMatrixProduct product = {d, a, b};
    es_emulated_warp(&collective, 0xFFFFFFFFu, &product);
}

// --- TF32 ---

// Fragment layout of the PTX ISA, "Matrix fragments for mma.m16n8k8".

// cvt.rna.tf32.f32: a NaN whose upper bits are those of infinity comes out as infinity, which an
// H200 was seen to do
static inline uint32_t es_tf32(float x) {
    uint32_t bits = __float_as_uint(x);
    int is_nan = (bits & 0x7FFFE000u) > 0x7F800000u;
    return is_nan ? 0x7FFFFFFFu : x != x ? bits & 0xFFFFE000u : (bits + 0x1000u) & 0xFFFFE000u;
}

// high and low of x, both TF32
static inline void es_split_tf32(float x, uint32_t &high, uint32_t &low) {
    high = es_tf32(x);
    low = es_tf32(x - __uint_as_float(high));
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
    double a[16][8], b[8][8], d[16][8];
    for (unsigned lane = 0; lane < n; lane++) {
        const EsTf32Product *mine = (EsTf32Product *)operands[lane];
        unsigned g = lane / 4, q = lane % 4;
        for (unsigned i = 0; i < 4; i++) {
            a[g + 8 * (i % 2)][q + 4 * (i / 2)] = es_emulated_tf32(mine->a[i]);
        }
        b[q][g] = es_emulated_tf32(mine->b[0]);
        b[q + 4][g] = es_emulated_tf32(mine->b[1]);
    }
    for (unsigned row = 0; row < 16; row++) {
        for (unsigned column = 0; column < 8; column++) {
            d[row][column] = 0.0;
        }
        for (unsigned k = 0; k < 8; k++) {
            for (unsigned column = 0; column < 8; column++) {
                d[row][column] += a[row][k] * b[k][column];
            }
        }
    }
    for (unsigned lane = 0; lane < n; lane++) {
        EsTf32Product *mine = (EsTf32Product *)operands[lane];
        for (unsigned i = 0; i < 4; i++) {
            double sum = d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
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
