// Every channel of every image times a number of its own, as squeeze-and-excite wants it.
//
// x, y, d_x, d_y [E, N, C, H, W]; w, d_w [E, N, C]:  y = x w;  d_x = d_y w;  d_w = sum over H W of
// d_y x, in double. d_x and d_w are nullable.
#ifndef ES_KERNELS_CHANNEL_SCALE_H
#define ES_KERNELS_CHANNEL_SCALE_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_CHANNEL_SCALE_KERNELS(X) \
    X(channel_scale_forward, (EsStream *s, EsIn x, EsIn w, EsOut y)) \
    X(channel_scale_backward, (EsStream *s, EsIn x, EsIn w, EsIn d_y, EsOut d_x, EsOut d_w))
// clang-format on

#endif
