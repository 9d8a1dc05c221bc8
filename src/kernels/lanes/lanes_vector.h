// One vector of ES_LANES floats, for the files that are compiled once per width. Arithmetic is
// written with operators; these are the few things operators do not say. The build sets ES_LANES
// and allows contraction, so a * b + c is fused.
#ifndef ES_KERNELS_LANES_VECTOR_H
#define ES_KERNELS_LANES_VECTOR_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LANES                    ES_LANES
#define LANES_JOIN2(name, lanes) es_lanes_##name##_##lanes
#define LANES_JOIN(name, lanes)  LANES_JOIN2(name, lanes)
// A function of the engine that other files of the same width call.
#define LANES_FUNCTION(name) LANES_JOIN(name, ES_LANES)

#define LANES_INLINE static inline __attribute__((always_inline))
// A long straight-line function that compilers make slower where they inline it.
#define LANES_ALONE static __attribute__((noinline, unused))

typedef float Vector __attribute__((vector_size(LANES * 4)));
typedef int32_t Mask __attribute__((vector_size(LANES * 4)));

// the view of plain float memory: aligned, and allowed to alias it
typedef float VectorMemory __attribute__((vector_size(LANES * 4), may_alias));

typedef uint8_t Bytes16 __attribute__((vector_size(16)));

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

// The larger of the two, NaN where one of them is NaN: a maximum must not hide it.
static inline Vector larger_or_nan(Vector a, Vector b) {
#if ES_LANES == 16 && defined(__AVX512F__)
    __mmask16 a_is_nan = _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q);
    return (Vector)_mm512_mask_mov_ps(_mm512_max_ps((__m512)a, (__m512)b), a_is_nan, (__m512)a);
#else
    Mask a_is_nan = a != a;
    return (Vector)(((Mask)a & a_is_nan) | ((Mask)larger(a, b) & ~a_is_nan));
#endif
}

static inline int any_nan(Vector v) {
#if ES_LANES == 16 && defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q) != 0;
#elif ES_LANES == 8 && defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q)) != 0;
#else
    Mask is_nan = v != v;
    int any = 0;
    for (int i = 0; i < LANES; i++) {
        any |= is_nan[i];
    }
    return any != 0;
#endif
}

// v where a == b, else 0
static inline Vector where_equal(Vector a, Vector b, Vector v) {
#if ES_LANES == 16 && defined(__AVX512F__)
    return (Vector)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ),
                                       (__m512)v);
#else
    return (Vector)((Mask)v & (a == b));
#endif
}

// v where a > b, else 0
static inline Vector where_greater(Vector a, Vector b, Vector v) {
#if ES_LANES == 16 && defined(__AVX512F__)
    return (Vector)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ),
                                       (__m512)v);
#else
    return (Vector)((Mask)v & (a > b));
#endif
}

// A yes or no per lane: a mask register where there are such, else a vector.
#if ES_LANES == 16 && defined(__AVX512F__)
typedef __mmask16 Choice;
static inline Choice greater(Vector a, Vector b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
}
static inline Choice not_at_most(Vector a, Vector b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_NLE_UQ);
}
static inline Vector choose(Choice choice, Vector yes, Vector no) {
    return (Vector)_mm512_mask_blend_ps(choice, (__m512)no, (__m512)yes);
}
static inline unsigned bits_of(Choice choice) { return choice; }
static inline Choice choice_of(unsigned bits) { return (Choice)bits; }
#else
typedef Mask Choice;
static inline Choice greater(Vector a, Vector b) { return a > b; }
static inline Choice not_at_most(Vector a, Vector b) { return ~(Mask)(a <= b); } // yes for NaN
static inline Vector choose(Choice choice, Vector yes, Vector no) {
    return (Vector)(((Mask)yes & choice) | ((Mask)no & ~choice));
}
// lane 0 is the lowest bit
static inline unsigned bits_of(Choice choice) {
#if ES_LANES == 8 && defined(__AVX2__)
    return (unsigned)_mm256_movemask_ps((__m256)choice);
#elif ES_LANES == 4 && defined(__SSE__)
    return (unsigned)_mm_movemask_ps((__m128)choice);
#else
    unsigned bits = 0;
    for (int i = 0; i < LANES; i++) {
        bits |= (unsigned)(choice[i] & 1) << i;
    }
    return bits;
#endif
}
static inline Choice choice_of(unsigned bits) {
    Mask bit;
    for (int i = 0; i < LANES; i++) {
        bit[i] = 1 << i;
    }
    return (((int32_t)bits - (Mask){0}) & bit) != 0;
}
#endif

// The first LANES bytes as numbers. Compilers make a scalar loop of __builtin_convertvector here.
static inline Vector from_bytes(Bytes16 bytes) {
#if ES_LANES == 16 && defined(__AVX512F__)
    return (Vector)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32((__m128i)bytes));
#elif ES_LANES == 8 && defined(__AVX2__)
    return (Vector)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32((__m128i)bytes));
#else
    Vector v;
    for (int i = 0; i < LANES; i++) {
        v[i] = (float)bytes[i];
    }
    return v;
#endif
}

// 1 in the first n lanes, 0 in the rest
static inline Vector first_lanes(int n) {
    _Alignas(64) static const int32_t number[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                    8, 9, 10, 11, 12, 13, 14, 15};
    Mask lane = *(const Mask *)number, limit = n - (Mask){0};
    return (Vector)((Mask)broadcast(1.0f) & (lane < limit));
}

// Sum of all lanes in double precision, in halves: lane i with lane i + L / 2 first.
static inline double lane_sum(Vector v) {
#if ES_LANES == 16 && defined(__AVX512F__)
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
    __m512d high = _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd((__m512d)v, 1)));
    __m512d eight = _mm512_add_pd(low, high);
    __m256d part = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
#elif ES_LANES == 8 && defined(__AVX2__)
    __m256d part = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v)),
                                 _mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1)));
#else
    double part[4] = {0.0};
    for (int i = 0; i < LANES; i++) {
        part[i % 4] += (double)v[i];
    }
#endif
    return (part[0] + part[2]) + (part[1] + part[3]);
}

// --- elementary functions ---

// exp of x <= 0 to about 1e-7: x = n ln 2 + r with |r| <= ln 2 / 2, a Taylor polynomial in r, and n
// added to the exponent. ln 2 is split so that n times its upper part is exact. Below -87 the
// result is 0; NaN stays NaN.
static inline Vector negative_exponential(Vector x) {
    const float log2_e = 1.44269504f, ln2_upper = 0.693359375f, ln2_lower = -2.12194440e-4f;
    const float magic =
        12582912.0f; // 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits
    Vector floor = broadcast(-87.0f), bounded = larger(floor, x);
    Vector shifted = bounded * broadcast(log2_e) + broadcast(magic);
    Vector n = shifted - broadcast(magic);
    Vector r = bounded - n * broadcast(ln2_upper);
    r = r - n * broadcast(ln2_lower);
    Vector p = broadcast(1.0f / 720.0f);
    const float coefficient[] = {1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f};
    for (int k = 0; k < 6; k++) {
        p = p * r + broadcast(coefficient[k]);
    }
    Mask power = ((Mask)shifted - (Mask)broadcast(magic) + 127) << 23;
    Vector result = p * (Vector)power;
    return (Vector)((Mask)result & ~(Mask)(x < floor));
}

// tanh to about 2e-7 of itself: near 0 an odd polynomial (Cephes, tanhf), where the formula with
// exp would lose everything; beyond, (1 - t) / (1 + t) with t = exp(-2 |x|). NaN stays NaN.
static inline Vector hyperbolic_tangent(Vector x) {
    const Mask sign_bit = INT32_MIN - (Mask){0};
    Vector size = (Vector)((Mask)x & ~sign_bit), one = broadcast(1.0f);
    Vector t = negative_exponential(broadcast(-2.0f) * size);
    Vector far = (Vector)((Mask)((one - t) / (one + t)) | ((Mask)x & sign_bit));
    Vector z = x * x;
    Vector p = broadcast(-5.70498872745e-3f);
    const float coefficient[] = {2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                                 -3.33332819422e-1f};
    for (int k = 0; k < 4; k++) {
        p = p * z + broadcast(coefficient[k]);
    }
    return choose(greater(broadcast(0.625f), size), p * z * x + x, far);
}

#endif
