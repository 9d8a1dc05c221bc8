// Vectors at any float address and at the end of an array, for the x_simd.c files. Arithmetic and
// the rest are in lanes_vector.h.
#ifndef ES_KERNELS_SIMD_VECTOR_H
#define ES_KERNELS_SIMD_VECTOR_H

#include "kernels/kernel_variant.h"
#include "kernels/lanes/lanes_vector.h"

typedef float VectorAnywhere __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef float Four __attribute__((vector_size(16)));
typedef float FourAnywhere __attribute__((vector_size(16), aligned(4), may_alias));

static inline Vector load_any(const float *p) { return *(const VectorAnywhere *)p; }

static inline void store_any(float *p, Vector v) { *(VectorAnywhere *)p = v; }

#if ES_LANES == 16

static inline __mmask16 first_bits(int64_t n) { return (__mmask16)((1u << n) - 1u); }

// The first n floats (n <= LANES) and zeros; nothing beyond them is touched.
static inline Vector load_first(const float *p, int64_t n) {
    return (Vector)_mm512_maskz_loadu_ps(first_bits(n), p);
}

static inline void store_first(float *p, int64_t n, Vector v) {
    _mm512_mask_storeu_ps(p, first_bits(n), (__m512)v);
}

#else

static inline __m256i first_bits(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline Vector load_first(const float *p, int64_t n) {
    return n == LANES ? load_any(p) : (Vector)_mm256_maskload_ps(p, first_bits(n));
}

static inline void store_first(float *p, int64_t n, Vector v) {
    if (n == LANES) {
        store_any(p, v);
    } else {
        _mm256_maskstore_ps(p, first_bits(n), (__m256)v);
    }
}

#endif

// The sums over all lanes of four vectors, each in the same order: lanes 4 apart last.
static inline Four lane_sums(Vector a, Vector b, Vector c, Vector d) {
#if ES_LANES == 16
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b),
                              _mm512_unpackhi_ps((__m512)a, (__m512)b));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d),
                              _mm512_unpackhi_ps((__m512)c, (__m512)d));
    __m512 four = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xEE));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(four), _mm512_extractf32x8_ps(four, 1));
#else
    __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps((__m256)a, (__m256)b),
                              _mm256_unpackhi_ps((__m256)a, (__m256)b));
    __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps((__m256)c, (__m256)d),
                              _mm256_unpackhi_ps((__m256)c, (__m256)d));
    __m256 half = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
#endif
    return (Four)_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

#endif
