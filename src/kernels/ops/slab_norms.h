// Norms, non-finite counts and clipping for many tensors of a slab in one call, and the sum of its
// rows.
//
// slab f32 [E, P], with its own stride over E, holds all gradients of an environment; spans i64 [S,
// 2] = (offset, length) of each tensor in it; all the rest is contiguous. groups i32 [S] = the clip
// group of each span; sum_squares f64 [E, S]; n_nonfinite i32 [E, S]. slab_norms: sum of squares of
// the finite elements of each span (double, fixed order), and the count of the others. slab_clip:
// norm[g] = sqrt(sum of sum_squares over the spans of g), written to group_norm f32 [E, G]; the
// group's elements are multiplied by min(1, max_norm[e, g] / (norm + 1e-6)); max_norm f32 [E, G], a
// value <= 0 means no clipping. tree_sum: y f32 [1, P] = the sum of the rows of the slab,
// neighbours first: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), for any number of rows; rows that
// are not there are left out. The order is the same everywhere, and so are the bits. y may be row 0
// of the slab.
#ifndef ES_KERNELS_SLAB_NORMS_H
#define ES_KERNELS_SLAB_NORMS_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_SLAB_NORMS_KERNELS(X) \
    X(slab_norms, (EsStream *s, EsIn slab, EsIn spans, EsOut sum_squares, EsOut n_nonfinite)) \
    X(slab_clip, (EsStream *s, EsIn spans, EsIn groups, EsIn sum_squares, EsIn max_norm, \
                  EsOut slab, EsOut group_norm)) \
    X(tree_sum, (EsStream *s, EsIn slab, EsOut y))
// clang-format on

#endif
