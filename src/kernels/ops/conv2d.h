// Convolution with stride 1 and zero padding K/2, odd square kernel (1, 3, 5, 7), one weight set
// per environment.
//
// x [E, N, I, H, W], weight [E, O, I, K, K], bias [E, O] (nullable), y [E, N, O, H, W]:
// y[o, r, c] = bias[o] + sum over i, u, v of weight[o, i, u, v] * x[i, r + u - K/2, c + v - K/2].
// d_weight sums over images and positions; d_bias (nullable) sums d_y.
#ifndef ES_KERNELS_CONV2D_H
#define ES_KERNELS_CONV2D_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_CONV2D_KERNELS(X) \
    X(conv2d_forward, (EsStream *s, EsIn x, EsIn weight, EsIn bias, EsOut y)) \
    X(conv2d_backward_input, (EsStream *s, EsIn weight, EsIn d_y, EsOut d_x)) \
    X(conv2d_backward_weight, (EsStream *s, EsIn x, EsIn d_y, EsOut d_weight, EsOut d_bias))
// clang-format on

#endif
