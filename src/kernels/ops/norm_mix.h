// An activation moved towards its normalised form by one learned number per environment.
//
// x, n, y and their gradients [E, ...], all of one shape; g, d_g [E, 1]. With t = tanh(g[e]):
// y = x + t (n - x);  d_x = (1 - t) d_y;  d_n = t d_y;  d_g = (1 - t^2) sum of d_y (n - x) over the
// environment, in double, in a fixed order. g = 0 gives y = x. d_x, d_n and d_g are nullable.
#ifndef ES_KERNELS_NORM_MIX_H
#define ES_KERNELS_NORM_MIX_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_NORM_MIX_KERNELS(X) \
    X(norm_mix_forward, (EsStream *s, EsIn x, EsIn n, EsIn g, EsOut y)) \
    X(norm_mix_backward, (EsStream *s, EsIn x, EsIn n, EsIn g, EsIn d_y, EsOut d_x, EsOut d_n, EsOut d_g))
// clang-format on

#endif
