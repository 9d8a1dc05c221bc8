// Whole slabs in one call: norms, non-finite counts and clipping of the tensors in it, the sum of
// its rows, hashes of its rows, and copies of chosen environments.
//
// slab f32 [E, P], with its own stride over E, holds all parameters or all gradients of an
// environment; all the rest is contiguous. spans i64 [S, 2] = (offset, length) of each tensor in
// the slab; groups i32 [S] = the clip group of each span; sum_squares f64 [E, S]; n_nonfinite i32
// [E, S]; group_norm, max_norm f32 [E, G].
//
// slab_norms   sum of squares of the finite elements of each span (double, fixed order), and the
//              count of the others.
// slab_clip    group_norm[g] = sqrt(sum of sum_squares over the spans of g); the group's elements
//              are multiplied by min(1, max_norm[e, g] / (group_norm + 1e-6)); max_norm <= 0: no
//              clipping.
// tree_sum     y f32 [1, P] = the sum of the slab's rows, neighbours first: ((0 + 1) + (2 + 3)) +
//              ((4 + 5) + (6 + 7)), for any number of rows; absent rows are left out. The order is
//              the same everywhere, and so are the bits. y may be row 0 of the slab.
// slab_hash    hash i64 [E]: the bits of the unsigned sum over j of es_hash_word(j, bits of
//              slab[e, j]) (hash_rules.h), to compare the bits of two runs. Equal on every device.
// masked_copy  from, to f32 [E, P], mask u8 [E]: to[e] = from[e] where mask[e] is not 0; the other
//              environments are left alone.
#ifndef ES_KERNELS_SLAB_H
#define ES_KERNELS_SLAB_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_SLAB_KERNELS(X) \
    X(slab_norms, (EsStream *s, EsIn slab, EsIn spans, EsOut sum_squares, EsOut n_nonfinite)) \
    X(slab_clip, (EsStream *s, EsIn spans, EsIn groups, EsIn sum_squares, EsIn max_norm, \
                  EsOut slab, EsOut group_norm)) \
    X(tree_sum, (EsStream *s, EsIn slab, EsOut y)) \
    X(slab_hash, (EsStream *s, EsIn slab, EsOut hash)) \
    X(masked_copy, (EsStream *s, EsIn mask, EsIn from, EsOut to))
// clang-format on

#endif
