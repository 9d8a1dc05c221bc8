// Dropout: each element is dropped with the probability, the rest divided by (1 - probability).
//
// x, y of one shape [E, ...]; y may be x. The mask is a pure function of (seed, episode[e], step,
// layer, element), so the backward pass is the same call on d_y. episode i32 [E], step i32 [1],
// both in device memory. Element j of environment e uses word j % 4 of es_random_draw(seed,
// episode[e], DROPOUT, step, (layer << 24) ^ (j / 4)) and is kept where the uniform is >=
// probability.
#ifndef ES_KERNELS_DROPOUT_H
#define ES_KERNELS_DROPOUT_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_DROPOUT_KERNELS(X) \
    X(dropout, (EsStream *s, EsDropoutOptions options, EsIn episode, EsIn step, EsIn x, EsOut y))
// clang-format on

#endif
