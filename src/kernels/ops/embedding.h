// Rows of a table by number.
//
// table [E, V, D], ids i32 [E, N], y [E, N, D]; n_invalid i32 [E] counts ids outside [0, V), whose
// rows are 0. d_table = for each id the sum of its rows of d_y, in row order; rows never named are
// 0; invalid ids are left out.
#ifndef ES_KERNELS_EMBEDDING_H
#define ES_KERNELS_EMBEDDING_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_EMBEDDING_KERNELS(X) \
    X(embedding_forward, (EsStream *s, EsIn table, EsIn ids, EsOut y, EsOut n_invalid)) \
    X(embedding_backward, (EsStream *s, EsIn ids, EsIn d_y, EsOut d_table))
// clang-format on

#endif
