// Batch normalisation over (N, H, W) of each channel, in pieces, because each of its sums is a
// barrier over the batch.
//
// x, y [E, N, C, H, W] (H = W = 1 for rows); all the rest [E, C].
// statistics      mean, inv_std = 1/sqrt(biased variance + epsilon) of this batch; and, where
//                 running_mean is not NULL, running = (1 - momentum) running + momentum * (mean,
//                 unbiased variance). With one value per channel the unbiased variance is taken as
//                 the biased one.
// from_running    mean, inv_std from the running values, for evaluation.
// apply           y = (x - mean) inv_std gamma + beta; y may be x.
// backward_sums   d_beta = sum d_y, d_gamma = sum d_y xhat, with xhat = (x - mean) inv_std.
// backward_input  d_x = gamma inv_std (d_y - d_beta / n - xhat d_gamma / n), n = N H W; training
//                 mode. d_x may be d_y.
// Sums are taken in double, in a fixed order.
#ifndef ES_KERNELS_BATCHNORM_H
#define ES_KERNELS_BATCHNORM_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_BATCHNORM_KERNELS(X) \
    X(batchnorm_statistics, (EsStream *s, EsNormOptions options, EsIn x, EsOut mean, EsOut inv_std, EsOut running_mean, EsOut running_variance)) \
    X(batchnorm_from_running, (EsStream *s, EsNormOptions options, EsIn running_mean, EsIn running_variance, EsOut mean, EsOut inv_std)) \
    X(batchnorm_apply, (EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn beta, EsOut y)) \
    X(batchnorm_backward_sums, (EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn d_y, EsOut d_gamma, EsOut d_beta)) \
    X(batchnorm_backward_input, (EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn d_gamma, EsIn d_beta, EsIn d_y, EsOut d_x))
// clang-format on

#endif
