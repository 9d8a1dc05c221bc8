// Rows of several tensors side by side.
//
// x[i] [E, ..., D_i] for i < n, 1 <= n <= ES_CONCAT_MAX, equal in all axes but the last;
// y [E, ..., D] with D the sum of the D_i, in the order of i. forward: each row of y is the rows of
// the x[i] one after the other. backward, once per input: d_x = columns [first, first + D_i) of
// d_y. Values are copied, no bit changes.
#ifndef ES_KERNELS_CONCAT_H
#define ES_KERNELS_CONCAT_H

#include "kernels/kernel_types.h"

#define ES_CONCAT_MAX 12

// clang-format off
#define ES_CONCAT_KERNELS(X) \
    X(concat_forward, (EsStream *s, int n, const EsIn *x, EsOut y)) \
    X(concat_backward, (EsStream *s, int64_t first, EsIn d_y, EsOut d_x))
// clang-format on

#endif
