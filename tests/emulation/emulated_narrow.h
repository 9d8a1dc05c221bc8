// 16-bit floating-point types: every operation in f32, then rounded to nearest even.
#ifndef ES_EMULATION_EMULATED_NARROW_H
#define ES_EMULATION_EMULATED_NARROW_H

#include "emulated_math.h"

// encode and decode are all that tells the types apart
template <unsigned short (*ENCODE)(float), float (*DECODE)(unsigned short)> struct EsNarrow {
    unsigned short bits;

    EsNarrow() = default;
    EsNarrow(float v) : bits(ENCODE(v)) {}
    EsNarrow(double v) : bits(ENCODE((float)v)) {}
    EsNarrow(int v) : bits(ENCODE((float)v)) {}
    operator float() const { return DECODE(bits); }

    EsNarrow &operator+=(EsNarrow v) { return *this = EsNarrow((float)*this + (float)v); }
    EsNarrow &operator-=(EsNarrow v) { return *this = EsNarrow((float)*this - (float)v); }
    EsNarrow &operator*=(EsNarrow v) { return *this = EsNarrow((float)*this * (float)v); }
    friend EsNarrow operator+(EsNarrow a, EsNarrow b) { return a += b; }
    friend EsNarrow operator-(EsNarrow a, EsNarrow b) { return a -= b; }
    friend EsNarrow operator*(EsNarrow a, EsNarrow b) { return a *= b; }
    friend EsNarrow operator-(EsNarrow a) { return from_bits((unsigned short)(a.bits ^ 0x8000)); }
    friend bool operator==(EsNarrow a, EsNarrow b) { return (float)a == (float)b; }
    friend bool operator!=(EsNarrow a, EsNarrow b) { return (float)a != (float)b; }
    friend bool operator<(EsNarrow a, EsNarrow b) { return (float)a < (float)b; }
    friend bool operator>(EsNarrow a, EsNarrow b) { return (float)a > (float)b; }

    static EsNarrow from_bits(unsigned short bits) {
        EsNarrow v;
        v.bits = bits;
        return v;
    }
};

template <typename T> struct __align__(4) EsNarrowPair {
    T x, y;

    EsNarrowPair() = default;
    EsNarrowPair(T x_, T y_) : x(x_), y(y_) {}
};

static inline unsigned short es_emulated_bf16_encode(float v) {
    unsigned bits = __float_as_uint(v);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        return 0x7FFF;
    }
    return (unsigned short)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static inline float es_emulated_bf16_decode(unsigned short bits) {
    return __uint_as_float((unsigned)bits << 16);
}

static inline unsigned short es_emulated_f16_encode(float v) {
    unsigned bits = __float_as_uint(v), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) {
        return 0x7FFF;
    }
    if (rest >= 0x477FF000u) { // rounds to 65536 or more
        return (unsigned short)(sign | 0x7C00u);
    }
    if (rest < 0x38800000u) { // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
        unsigned tiny = __float_as_uint(__fadd_rn(__uint_as_float(rest), 0.5f)) - 0x3F000000u;
        return (unsigned short)(sign | tiny);
    }
    return (unsigned short)(sign | ((rest - 0x38000000u + 0xFFFu + ((rest >> 13) & 1u)) >> 13));
}

static inline float es_emulated_f16_decode(unsigned short bits) {
    unsigned sign = (unsigned)(bits & 0x8000) << 16, rest = bits & 0x7FFFu;
    if (rest >= 0x7C00u) {
        return __uint_as_float(sign | 0x7F800000u | ((rest & 0x3FFu) << 13));
    }
    // a multiple of 2^-24 below 2^-14, which f32 holds as a normal number
    float v = rest < 0x400u ? (float)rest * 0x1p-24f : __uint_as_float((rest << 13) + 0x38000000u);
    return __uint_as_float(__float_as_uint(v) | sign);
}

typedef EsNarrow<es_emulated_bf16_encode, es_emulated_bf16_decode> __nv_bfloat16;
typedef EsNarrow<es_emulated_f16_encode, es_emulated_f16_decode> __half;
typedef EsNarrowPair<__nv_bfloat16> __nv_bfloat162;
typedef EsNarrowPair<__half> __half2;

// --- arithmetic by name, for both types and their pairs ---

// X(name, parameters, expression in f32)
#define ES_EMULATED_OPERATIONS(X2, X3)                                                             \
    X2(__hadd, fa + fb)                                                                            \
    X2(__hsub, fa - fb)                                                                            \
    X2(__hmul, fa *fb)                                                                             \
    X2(__hmax, fmaxf(fa, fb))                                                                      \
    X2(__hmin, fminf(fa, fb))                                                                      \
    X3(__hfma, fmaf(fa, fb, fc))

#define ES_EMULATED_2(name, expression)                                                            \
    template <unsigned short (*E)(float), float (*D)(unsigned short)>                              \
    static inline EsNarrow<E, D> name(EsNarrow<E, D> a, EsNarrow<E, D> b) {                        \
        float fa = a, fb = b;                                                                      \
        return EsNarrow<E, D>(expression);                                                         \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline EsNarrowPair<T> name##2(EsNarrowPair<T> a, EsNarrowPair<T> b) {                  \
        return EsNarrowPair<T>(name(a.x, b.x), name(a.y, b.y));                                    \
    }
#define ES_EMULATED_3(name, expression)                                                            \
    template <unsigned short (*E)(float), float (*D)(unsigned short)>                              \
    static inline EsNarrow<E, D> name(EsNarrow<E, D> a, EsNarrow<E, D> b, EsNarrow<E, D> c) {      \
        float fa = a, fb = b, fc = c;                                                              \
        return EsNarrow<E, D>(expression);                                                         \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline EsNarrowPair<T> name##2(EsNarrowPair<T> a, EsNarrowPair<T> b,                    \
                                          EsNarrowPair<T> c) {                                     \
        return EsNarrowPair<T>(name(a.x, b.x, c.x), name(a.y, b.y, c.y));                          \
    }
ES_EMULATED_OPERATIONS(ES_EMULATED_2, ES_EMULATED_3)
#undef ES_EMULATED_2
#undef ES_EMULATED_3
#undef ES_EMULATED_OPERATIONS

// NaN of any one; as the hardware has it, all bits but the sign set.
template <typename T>
static inline EsNarrowPair<T> es_emulated_nan_of(EsNarrowPair<T> a, EsNarrowPair<T> b,
                                                 EsNarrowPair<T> chosen) {
    const T nan = T::from_bits(0x7FFF);
    if (isnan((float)a.x) || isnan((float)b.x)) {
        chosen.x = nan;
    }
    if (isnan((float)a.y) || isnan((float)b.y)) {
        chosen.y = nan;
    }
    return chosen;
}
template <typename T>
static inline EsNarrowPair<T> __hmax2_nan(EsNarrowPair<T> a, EsNarrowPair<T> b) {
    return es_emulated_nan_of(a, b, __hmax2(a, b));
}
template <typename T>
static inline EsNarrowPair<T> __hmin2_nan(EsNarrowPair<T> a, EsNarrowPair<T> b) {
    return es_emulated_nan_of(a, b, __hmin2(a, b));
}
// 0xFFFF in the halves that are equal.
template <typename T> static inline unsigned __heq2_mask(EsNarrowPair<T> a, EsNarrowPair<T> b) {
    return (a.x == b.x ? 0xFFFFu : 0) | (a.y == b.y ? 0xFFFF0000u : 0);
}

template <typename T> static inline float __low2float(EsNarrowPair<T> v) { return v.x; }
template <typename T> static inline float __high2float(EsNarrowPair<T> v) { return v.y; }
template <typename T> static inline EsNarrowPair<T> __hneg2(EsNarrowPair<T> v) {
    return EsNarrowPair<T>(-v.x, -v.y);
}

#endif
