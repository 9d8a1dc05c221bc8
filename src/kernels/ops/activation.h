// ReLU, tanh, sigmoid, element by element; y may be x, d_x may be d_y.
//
// The gradient is taken from the result: relu d_x = d_y where y > 0, else 0 (0 at exactly 0); tanh
// d_y (1 - y^2); sigmoid d_y y (1 - y). relu of NaN is NaN, so that divergence stays visible. All
// tensors are contiguous over all axes, E too.
#ifndef ES_KERNELS_ACTIVATION_H
#define ES_KERNELS_ACTIVATION_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_ACTIVATION_KERNELS(X) \
    X(activation_forward, (EsStream *s, EsActivation kind, EsIn x, EsOut y)) \
    X(activation_backward, (EsStream *s, EsActivation kind, EsIn y, EsIn d_y, EsOut d_x))
// clang-format on

#endif
