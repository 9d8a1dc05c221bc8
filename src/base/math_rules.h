// Elementary functions in double precision from + - * / and bit patterns alone, so that the CPU and
// CUDA give equal bits. The standard library's may differ between the two in the last place.
//
// Files that include rules are compiled with floating-point contraction off (-ffp-contract=off,
// --fmad=false). Errors against the exact value, as tested: exp, log and sqrt 1 ulp, tanh and cos
// 1.5, sigmoid 2.5.
#ifndef ES_BASE_MATH_RULES_H
#define ES_BASE_MATH_RULES_H

#include <string.h>

#include "base/macros.h"

static inline ES_HOST_DEVICE uint64_t es_math_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline ES_HOST_DEVICE double es_math_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline ES_HOST_DEVICE double es_math_infinity(void) {
    return es_math_from_bits((uint64_t)0x7FF << 52);
}

static inline ES_HOST_DEVICE double es_math_nan(void) {
    return es_math_from_bits((uint64_t)0xFFF << 51);
}

// Neither NaN nor infinite. Looks at the bits, so that no optimisation can remove it.
static inline ES_HOST_DEVICE int es_math_is_finite(double x) {
    return ((es_math_bits(x) >> 52) & 0x7FF) != 0x7FF;
}

static inline ES_HOST_DEVICE double es_math_abs(double x) { return x < 0 ? -x : x; }

// NaN becomes low: a comparison with NaN is false.
static inline ES_HOST_DEVICE double es_math_clamp(double x, double low, double high) {
    return x > low ? (x < high ? x : high) : low;
}

// 2^k for -1022 <= k <= 1023.
static inline ES_HOST_DEVICE double es_math_power_of_two(int k) {
    return es_math_from_bits((uint64_t)(k + 1023) << 52);
}

// The nearest integer, ties to even, for |x| < 2^51.
static inline ES_HOST_DEVICE double es_math_round(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

// exp(x) = 2^power (1 + tail), |tail| <= 0.42. For |x| <= 746.
typedef struct EsMathExp {
    double tail;
    int power;
} EsMathExp;

static inline ES_HOST_DEVICE EsMathExp es_math_exp_parts(double x) {
    // ln 2 in two parts; the first has 42 bits, so that k times it is exact
    double k = es_math_round(x * 0x1.71547652b82fep+0);
    double high = x - k * 0x1.62e42fefa38p-1;
    double low = k * 0x1.ef35793c7673p-45;
    double r = high - low;
    // Taylor series: |r| <= 0.347, so that r^14 / 14! < 2^-57
    double sum = 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    EsMathExp parts;
    parts.tail = r + (r * r * sum + ((high - r) - low));
    parts.power = (int)k;
    return parts;
}

static inline ES_HOST_DEVICE double es_math_exp(double x) {
    if (!(x > -746)) {
        return x < 0 ? 0.0 : x; // the second is NaN
    }
    if (x > 710) {
        return es_math_infinity();
    }
    EsMathExp parts = es_math_exp_parts(x);
    // in two factors: the power itself may lie outside the normal range when the result does not
    int half = parts.power / 2;
    return (1 + parts.tail) * es_math_power_of_two(half) * es_math_power_of_two(parts.power - half);
}

// The natural logarithm; -infinity at 0, NaN below.
static inline ES_HOST_DEVICE double es_math_log(double x) {
    if (!(x > 0)) {
        return x == 0 ? -es_math_infinity() : es_math_nan();
    }
    if (!es_math_is_finite(x)) {
        return x;
    }
    int k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    // x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f):
    // log m = 2 (s + s^3/3 + s^5/5 + ...) = f - s (f - rest)
    uint64_t bits = es_math_bits(x);
    k += (int)(bits >> 52) - 1023;
    double m = es_math_from_bits((bits & 0xFFFFFFFFFFFFF) | ((uint64_t)1023 << 52));
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        k++;
    }
    double f = m - 1;
    double s = f / (2 + f);
    double z = s * s;
    double sum = 2.0 / 23.0;
    sum = sum * z + 2.0 / 21.0;
    sum = sum * z + 2.0 / 19.0;
    sum = sum * z + 2.0 / 17.0;
    sum = sum * z + 2.0 / 15.0;
    sum = sum * z + 2.0 / 13.0;
    sum = sum * z + 2.0 / 11.0;
    sum = sum * z + 2.0 / 9.0;
    sum = sum * z + 2.0 / 7.0;
    sum = sum * z + 2.0 / 5.0;
    sum = sum * z + 2.0 / 3.0;
    double rest = s * (f - z * sum);
    return k * 0x1.62e42fefa38p-1 - ((rest - k * 0x1.ef35793c7673p-45) - f);
}

static inline ES_HOST_DEVICE double es_math_tanh(double x) {
    double size = es_math_abs(x);
    double result;
    if (size < 0.3) {
        // Taylor series: the first term left out is below 2^-57 of the sum
        double z = size * size;
        double sum = -113927491862.0 / 2900518163668125.0;
        sum = sum * z + 18888466084.0 / 194896477400625.0;
        sum = sum * z - 443861162.0 / 1856156927625.0;
        sum = sum * z + 6404582.0 / 10854718875.0;
        sum = sum * z - 929569.0 / 638512875.0;
        sum = sum * z + 21844.0 / 6081075.0;
        sum = sum * z - 1382.0 / 155925.0;
        sum = sum * z + 62.0 / 2835.0;
        sum = sum * z - 17.0 / 315.0;
        sum = sum * z + 2.0 / 15.0;
        sum = sum * z - 1.0 / 3.0;
        result = size + size * z * sum;
    } else if (size < 0.7) {
        // expm1(2x) / (expm1(2x) + 2): less cancellation than below
        EsMathExp parts = es_math_exp_parts(2 * size);
        double power = es_math_power_of_two(parts.power);
        double e = power * parts.tail + (power - 1);
        result = e / (e + 2);
    } else if (size < 22) {
        result = 1 - 2 / (es_math_exp(2 * size) + 1);
    } else {
        result = size >= 22 ? 1.0 : size; // the second is NaN
    }
    return x < 0 ? -result : result;
}

// 1 / (1 + exp(-x)).
static inline ES_HOST_DEVICE double es_math_sigmoid(double x) {
    // far below 0 the 1 no longer counts, and exp(-x) would overflow further down
    return x < -40 ? es_math_exp(x) : 1 / (1 + es_math_exp(-x));
}

// The cosine for |x| <= 1e6; NaN beyond, where the reduction would lose digits.
static inline ES_HOST_DEVICE double es_math_cos(double x) {
    if (!(es_math_abs(x) <= 1e6)) {
        return es_math_nan();
    }
    // x = k pi/2 + r + low; the first two parts of pi/2 have 33 bits, so that k times each is exact
    double k = es_math_round(x * 0x1.45f306dc9c883p-1);
    double high = (x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34;
    double rest = k * 0x1.3198a2e037073p-69;
    double r = high - rest;
    double low = (high - r) - rest;
    double z = r * r;
    int quadrant = (int)((int64_t)k & 3);
    if (quadrant & 1) { // sin r, with |r| <= 0.786
        double sum = 1.0 / 355687428096000.0;
        sum = sum * z - 1.0 / 1307674368000.0;
        sum = sum * z + 1.0 / 6227020800.0;
        sum = sum * z - 1.0 / 39916800.0;
        sum = sum * z + 1.0 / 362880.0;
        sum = sum * z - 1.0 / 5040.0;
        sum = sum * z + 1.0 / 120.0;
        sum = sum * z - 1.0 / 6.0;
        double sine = r + (r * z * sum + low);
        return quadrant == 1 ? -sine : sine;
    }
    double sum = 1.0 / 20922789888000.0;
    sum = sum * z - 1.0 / 87178291200.0;
    sum = sum * z + 1.0 / 479001600.0;
    sum = sum * z - 1.0 / 3628800.0;
    sum = sum * z + 1.0 / 40320.0;
    sum = sum * z - 1.0 / 720.0;
    sum = sum * z + 1.0 / 24.0;
    double half = 0.5 * z;
    double head = 1 - half;
    double cosine = head + (((1 - head) - half) + (z * z * sum - r * low));
    return quadrant == 2 ? -cosine : cosine;
}

// The square root by Heron's iteration; NaN below 0.
static inline ES_HOST_DEVICE double es_math_sqrt(double x) {
    if (!(x > 0) || !es_math_is_finite(x)) {
        return x < 0 ? es_math_nan() : x;
    }
    double scale = 1;
    if (x < 0x1p-1022) {
        x *= 0x1p108;
        scale = 0x1p-54;
    }
    // half the exponent: within 6 percent of the root, doubling the digits in each of 5 rounds
    double y = es_math_from_bits((es_math_bits(x) >> 1) + ((uint64_t)1023 << 51));
    for (int i = 0; i < 5; i++) {
        y = 0.5 * (y + x / y);
    }
    return y * scale;
}

#endif
