// Sums and conversions of whole tensors.
//
// add      y = a + b, all of one shape; y may be a or b.
// convert  y = x in y's dtype (f32 <-> bf16, round to nearest even); same count.
// All tensors are contiguous over all axes, E too.
#ifndef ES_KERNELS_ELEMENTWISE_H
#define ES_KERNELS_ELEMENTWISE_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_ELEMENTWISE_KERNELS(X) \
    X(add, (EsStream *s, EsIn a, EsIn b, EsOut y)) \
    X(convert, (EsStream *s, EsIn x, EsOut y))
// clang-format on

#endif
