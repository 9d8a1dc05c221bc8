// Hashes of the rows of a slab, to see whether two runs hold the same bits.
//
// slab f32 [E, P], with its own stride over E; hash i64 [E]: the bits of the unsigned sum over j of
// es_hash_word(j, bits of slab[e, j]) (hash_rules.h). Equal on every device.
#ifndef ES_KERNELS_SLAB_HASH_H
#define ES_KERNELS_SLAB_HASH_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_SLAB_HASH_KERNELS(X) \
    X(slab_hash, (EsStream *s, EsIn slab, EsOut hash))
// clang-format on

#endif
