// Depthwise convolution: channel c of y depends on channel c of x alone. Stride 1, zero padding
// K/2, odd square kernel.
//
// x, y [E, N, C, H, W], weight [E, C, K, K].
#ifndef ES_KERNELS_DEPTHWISE_H
#define ES_KERNELS_DEPTHWISE_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_DEPTHWISE_KERNELS(X) \
    X(depthwise_forward, (EsStream *s, EsIn x, EsIn weight, EsOut y)) \
    X(depthwise_backward_input, (EsStream *s, EsIn weight, EsIn d_y, EsOut d_x)) \
    X(depthwise_backward_weight, (EsStream *s, EsIn x, EsIn d_y, EsOut d_weight))
// clang-format on

#endif
