// Group normalisation: each image's channels in options.n_groups equal groups, normalised over (C /
// n_groups, H, W).
//
// x, y, d_x, d_y [E, N, C, H, W]; gamma, beta, d_gamma, d_beta [E, C]; mean, inv_std [E, N,
// n_groups]. y = (x - mean) inv_std gamma + beta, biased variance. backward gives d_x, d_gamma =
// sum d_y xhat, d_beta = sum d_y.
#ifndef ES_KERNELS_GROUPNORM_H
#define ES_KERNELS_GROUPNORM_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_GROUPNORM_KERNELS(X) \
    X(groupnorm_forward, (EsStream *s, EsNormOptions options, EsIn x, EsIn gamma, EsIn beta, EsOut mean, EsOut inv_std, EsOut y)) \
    X(groupnorm_backward, (EsStream *s, EsNormOptions options, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn d_y, EsOut d_x, EsOut d_gamma, EsOut d_beta))
// clang-format on

#endif
