// Elementary functions of a vector, for the files of the vector engine that are compiled once per
// width.
#ifndef ES_KERNELS_LANES_MATH_H
#define ES_KERNELS_LANES_MATH_H

#include "kernels/lanes/lanes_vector.h"

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
