// One tap of a stride-1 convolution over a whole plane, for the CPU specifications of conv2d and
// depthwise.
//
// Planes are [H, W]; positions outside them count as zero, which is the padding.
#ifndef ES_KERNELS_CONV_TAPS_H
#define ES_KERNELS_CONV_TAPS_H

#include "kernels/ops/double_sums.h"

// The part of a line of `length` positions p for which p + shift lies inside it too.
static inline void es_tap_range(int64_t length, int64_t shift, int64_t *from, int64_t *to) {
    *from = shift < 0 ? -shift : 0;
    *to = shift > 0 ? length - shift : length;
}

// out[r, c] += weight * in[r + dr, c + dc]
static inline void es_tap_add(float *ES_RESTRICT out, const float *ES_RESTRICT in, float weight,
                              int64_t H, int64_t W, int64_t dr, int64_t dc) {
    int64_t r0, r1, c0, c1;
    es_tap_range(H, dr, &r0, &r1);
    es_tap_range(W, dc, &c0, &c1);
    for (int64_t r = r0; r < r1; r++) {
        float *out_row = out + r * W;
        const float *in_row = in + (r + dr) * W;
        for (int64_t c = c0; c < c1; c++) {
            out_row[c] += weight * in_row[c + dc];
        }
    }
}

// sum over r, c of a[r, c] * b[r + dr, c + dc]
static inline double es_tap_dot(const float *a, const float *b, int64_t H, int64_t W, int64_t dr,
                                int64_t dc) {
    int64_t r0, r1, c0, c1;
    es_tap_range(H, dr, &r0, &r1);
    es_tap_range(W, dc, &c0, &c1);
    double sum = 0.0;
    // a map narrower than the shift has no pair at all
    for (int64_t r = r0; r < r1 && c0 < c1; r++) {
        sum += es_double_centred_dot(a + r * W + c0, 0.0, b + (r + dr) * W + c0 + dc, 0.0, c1 - c0);
    }
    return sum;
}

#endif
