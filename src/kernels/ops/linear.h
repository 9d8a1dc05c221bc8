// Fully connected layer, one weight set per environment.
//
// x [E, N, I], weight [E, O, I], bias [E, O] (nullable), y [E, N, O]:  y = x weight^T + bias.
// d_x = d_y weight;  d_weight = d_y^T x;  d_bias = sum over N of d_y (d_bias nullable).
#ifndef ES_KERNELS_LINEAR_H
#define ES_KERNELS_LINEAR_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_LINEAR_KERNELS(X) \
    X(linear_forward, (EsStream *s, EsIn x, EsIn weight, EsIn bias, EsOut y)) \
    X(linear_backward_input, (EsStream *s, EsIn weight, EsIn d_y, EsOut d_x)) \
    X(linear_backward_weight, (EsStream *s, EsIn x, EsIn d_y, EsOut d_weight, EsOut d_bias))
// clang-format on

#endif
