// Vectors for the x_simd.c files: loads and stores at any float address and at the end of an array,
// sums over lanes, and the sigmoid. Arithmetic and the other functions are in lanes_vector.h.
#ifndef ES_KERNELS_SIMD_H
#define ES_KERNELS_SIMD_H

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

// --- sigmoid ---

// Errors as tested in simd_test.c: tanh and sigmoid at most 2.5 units in the last place.

// negative_exponential of lanes_vector.h with one more term of the series, whose rest is then below
// 1e-8 of the result: the sigmoid passes the error on undiminished below 0.
static inline Vector fine_exponential(Vector x) {
    const float log2_e = 1.44269504f, ln2_upper = 0.693359375f, ln2_lower = -2.12194440e-4f;
    const float magic = 12582912.0f;
    Vector floor = broadcast(-87.0f), bounded = larger(floor, x);
    Vector shifted = bounded * broadcast(log2_e) + broadcast(magic);
    Vector n = shifted - broadcast(magic);
    Vector r = bounded - n * broadcast(ln2_upper);
    r = r - n * broadcast(ln2_lower);
    Vector p = broadcast(1.0f / 5040.0f);
    const float coefficient[] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f,
                                 0.5f,          1.0f,          1.0f};
    for (int k = 0; k < 7; k++) {
        p = p * r + broadcast(coefficient[k]);
    }
    Mask power = ((Mask)shifted - (Mask)broadcast(magic) + 127) << 23;
    Vector result = p * (Vector)power;
    return (Vector)((Mask)result & ~(Mask)(x < floor));
}

// 1 / (1 + exp(-x)) from t = exp(-|x|), which cannot overflow: t / (1 + t) below 0. Under -87 the
// result is 0; NaN stays NaN.
static inline Vector logistic(Vector x) {
    const Mask sign_bit = INT32_MIN - (Mask){0};
    Vector one = broadcast(1.0f);
    Vector t = fine_exponential((Vector)((Mask)x | sign_bit));
    return choose(greater(broadcast(0.0f), x), t, one) / (one + t);
}

#endif
