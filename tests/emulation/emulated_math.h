// Functions that CUDA offers in device code without an include: bits, roundings, min and max.
#ifndef ES_EMULATION_EMULATED_MATH_H
#define ES_EMULATION_EMULATED_MATH_H

#include <math.h>
#include <string.h>

#include <cmath>
#include <type_traits>

#include "emulated_types.h"

template <typename To, typename From> static inline To es_emulated_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline int __float_as_int(float v) { return es_emulated_bits<int>(v); }
static inline unsigned __float_as_uint(float v) { return es_emulated_bits<unsigned>(v); }
static inline float __int_as_float(int v) { return es_emulated_bits<float>(v); }
static inline float __uint_as_float(unsigned v) { return es_emulated_bits<float>(v); }
static inline long long __double_as_longlong(double v) { return es_emulated_bits<long long>(v); }
static inline double __longlong_as_double(long long v) { return es_emulated_bits<double>(v); }

static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz((unsigned)v); }
static inline int __clzll(long long v) {
    return v == 0 ? 64 : __builtin_clzll((unsigned long long)v);
}
static inline unsigned __brev(unsigned v) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; bit++) {
        reversed |= ((v >> bit) & 1u) << (31 - bit);
    }
    return reversed;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)(((unsigned long long)a * b) >> 32);
}
// assumptions that the compiler may make
#define __builtin_assume(condition) ((void)0)

// bytes of y:x chosen by the nibbles of s
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    unsigned long long both = ((unsigned long long)y << 32) | x;
    unsigned chosen = 0;
    for (int i = 0; i < 4; i++) {
        unsigned byte = (unsigned)(both >> (8 * ((s >> (4 * i)) & 7))) & 0xFFu;
        bool spreads_sign = ((s >> (4 * i)) & 8) != 0;
        chosen |= (spreads_sign ? (byte & 0x80u ? 0xFFu : 0u) : byte) << (8 * i);
    }
    return chosen;
}

// macros: the C library has declared functions of these names
#define __expf  expf
#define __exp2f exp2f
#define __logf  logf
#define __log2f log2f
#define __sinf  sinf
#define __cosf  cosf
#define __tanhf tanhf
#define __powf  powf

// one rounding each: volatile keeps the compiler from fusing them with what surrounds them
static inline float __fadd_rn(float a, float b) {
    volatile float sum = a + b;
    return sum;
}
static inline float __fsub_rn(float a, float b) { return __fadd_rn(a, -b); }
static inline float __fmul_rn(float a, float b) {
    volatile float product = a * b;
    return product;
}
static inline double __dadd_rn(double a, double b) {
    volatile double sum = a + b;
    return sum;
}
static inline double __dmul_rn(double a, double b) {
    volatile double product = a * b;
    return product;
}
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float v) { return 1.0f / v; }
static inline float __fsqrt_rn(float v) { return sqrtf(v); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }
static inline float rsqrtf(float v) { return (float)(1.0 / sqrt((double)v)); }
static inline double rsqrt(double v) { return 1.0 / sqrt(v); }
static inline int __float2int_rn(float v) { return (int)lrintf(v); }
static inline int __float2int_rz(float v) { return (int)v; }
static inline int __float2int_rd(float v) { return (int)floorf(v); }
static inline unsigned __float2uint_rn(float v) { return (unsigned)llrintf(v); }
static inline float __int2float_rn(int v) { return (float)v; }
static inline float __uint2float_rn(unsigned v) { return (float)v; }
static inline float __double2float_rn(double v) { return (float)v; }

// as CUDA's: fmin and fmax for floating point, the common type for mixed integers
template <typename A, typename B>
static inline std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>,
                               std::common_type_t<A, B>>
min(A a, B b) {
    typedef std::common_type_t<A, B> T;
    if constexpr (std::is_floating_point_v<T>) {
        return (T)(sizeof(T) == sizeof(float) ? fminf((float)a, (float)b) : fmin(a, b));
    } else {
        return (T)a < (T)b ? (T)a : (T)b;
    }
}

template <typename A, typename B>
static inline std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>,
                               std::common_type_t<A, B>>
max(A a, B b) {
    typedef std::common_type_t<A, B> T;
    if constexpr (std::is_floating_point_v<T>) {
        return (T)(sizeof(T) == sizeof(float) ? fmaxf((float)a, (float)b) : fmax(a, b));
    } else {
        return (T)a > (T)b ? (T)a : (T)b;
    }
}

#endif
