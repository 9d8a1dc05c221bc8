// Softmax of the vector engine (lanes.h), compiled once per vector width: one row of logits per
// lane.
#include "kernels/lanes_internal.h"

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

void LANES_FUNCTION(softmax)(const EsLaneMap *x, const float *scale, const EsLaneMap *y,
                             float *maximum, float *sum) {
    Vector largest = load(x->data), total = broadcast(0.0f);
    for (int c = 1; c < x->channels; c++) {
        largest = larger(largest, load(x->data + c * x->plane));
    }
    for (int c = 0; c < x->channels; c++) {
        Vector e = negative_exponential(load(x->data + c * x->plane) - largest);
        total += e;
        if (y->data != NULL) {
            store(y->data + c * y->plane, e);
        }
    }
    for (int c = 0; c < x->channels && y->data != NULL; c++) {
        store(y->data + c * y->plane, load(y->data + c * y->plane) / total * load(scale));
    }
    store(maximum, largest);
    store(sum, total);
}
