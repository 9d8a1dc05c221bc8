// One vector of ES_LANES floats, for the files that are compiled once per width. Arithmetic is written with operators; these
// are the few things operators do not say. The build sets ES_LANES and allows contraction, so a * b + c is fused.
#ifndef ES_KERNELS_LANES_VECTOR_H
#define ES_KERNELS_LANES_VECTOR_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LANES ES_LANES
#define LANES_JOIN2(name, lanes) es_lanes_##name##_##lanes
#define LANES_JOIN(name, lanes) LANES_JOIN2(name, lanes)
// A function of the engine that other files of the same width call.
#define LANES_FUNCTION(name) LANES_JOIN(name, ES_LANES)

typedef float Vector __attribute__((vector_size(LANES * 4)));
typedef int32_t Mask __attribute__((vector_size(LANES * 4)));

// the view of plain float memory: aligned, and allowed to alias it
typedef float VectorMemory __attribute__((vector_size(LANES * 4), may_alias));

static inline Vector load(const float *p) { return *(const VectorMemory *)p; }

static inline void store(float *p, Vector v) { *(VectorMemory *)p = v; }

static inline Vector broadcast(float x) {
#if ES_LANES == 16 && defined(__AVX512F__)
    return (Vector)_mm512_set1_ps(x);
#elif ES_LANES == 8 && defined(__AVX2__)
    return (Vector)_mm256_set1_ps(x);
#else
    return x - (Vector){0};
#endif
}

// The larger of the two; b where one of them is NaN, so larger(zero, v) keeps a NaN in v.
static inline Vector larger(Vector a, Vector b) {
#if ES_LANES == 16 && defined(__AVX512F__)
    return (Vector)_mm512_max_ps((__m512)a, (__m512)b);
#elif ES_LANES == 8 && defined(__AVX2__)
    return (Vector)_mm256_max_ps((__m256)a, (__m256)b);
#else
    Mask m = a > b;
    return (Vector)(((Mask)a & m) | ((Mask)b & ~m));
#endif
}

// v where a == b, else 0
static inline Vector where_equal(Vector a, Vector b, Vector v) {
#if ES_LANES == 16 && defined(__AVX512F__)
    return (Vector)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ), (__m512)v);
#else
    return (Vector)((Mask)v & (a == b));
#endif
}

// v where a > b, else 0
static inline Vector where_greater(Vector a, Vector b, Vector v) {
#if ES_LANES == 16 && defined(__AVX512F__)
    return (Vector)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ), (__m512)v);
#else
    return (Vector)((Mask)v & (a > b));
#endif
}

// 1 in the first n lanes, 0 in the rest
static inline Vector first_lanes(int n) {
    Vector v;
    for (int i = 0; i < LANES; i++) {
        v[i] = i < n ? 1.0f : 0.0f;
    }
    return v;
}

// sum of all lanes, lane 0 first
static inline double lane_sum(Vector v) {
    double sum = 0.0;
    for (int i = 0; i < LANES; i++) {
        sum += (double)v[i];
    }
    return sum;
}

#endif
