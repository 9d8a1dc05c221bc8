// Layer normalisation over the last axis.
//
// x, y, d_x, d_y [E, N, D]; gamma, beta, d_gamma, d_beta [E, D]; mean, inv_std [E, N].
// y = (x - mean) inv_std gamma + beta, biased variance.
#ifndef ES_KERNELS_LAYERNORM_H
#define ES_KERNELS_LAYERNORM_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_LAYERNORM_KERNELS(X) \
    X(layernorm_forward, (EsStream *s, EsNormOptions options, EsIn x, EsIn gamma, EsIn beta, EsOut mean, EsOut inv_std, EsOut y)) \
    X(layernorm_backward, (EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn d_y, EsOut d_x, EsOut d_gamma, EsOut d_beta))
// clang-format on

#endif
