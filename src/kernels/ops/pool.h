// Pooling: maximum or average of 2x2 windows with stride 2, or the average of the whole map.
//
// x [E, N, C, H, W]; y [E, N, C, H/2, W/2] (an odd last row or column is left out, its gradient is
// 0), GLOBAL y [E, N, C]. The gradient of a maximum goes to the first largest element in row order.
#ifndef ES_KERNELS_POOL_H
#define ES_KERNELS_POOL_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_POOL_KERNELS(X) \
    X(pool_forward, (EsStream *s, EsPool kind, EsIn x, EsOut y)) \
    X(pool_backward, (EsStream *s, EsPool kind, EsIn x, EsIn d_y, EsOut d_x))
// clang-format on

#endif
