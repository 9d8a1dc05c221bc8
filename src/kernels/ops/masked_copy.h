// Copies of chosen environments between slabs, for snapshots.
//
// from, to f32 [E, P], mask u8 [E]: to[e] = from[e] where mask[e] is not 0, the rest is left alone.
#ifndef ES_KERNELS_MASKED_COPY_H
#define ES_KERNELS_MASKED_COPY_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_MASKED_COPY_KERNELS(X) \
    X(masked_copy, (EsStream *s, EsIn mask, EsIn from, EsOut to))
// clang-format on

#endif
