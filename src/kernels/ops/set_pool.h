// Sets of rows: sums, broadcasts and maxima over the members of a set. Nothing depends on the order
// of the members but the rounding of sums.
//
// x [E, R, S, D]: R sets of S members of D features; w [E, R, S] weighs members (nullable: all 1)
// and has no gradient; y [E, R, D] is one row for each set.
//
//   set_sum        y[r] = scale * sum_s w[r, s] x[r, s], members added in their order
//   set_broadcast  x[r, s] = scale * w[r, s] y[r]: the gradient of set_sum, and the other way round
//   set_max        y[r] = max_s x[r, s], feature by feature; NaN of any member stays NaN
//
// Weights 1 and scale 1/S make set_sum a mean; weights that are one-hot select a member.
// set_max_backward gives d_y to the first member that is as large as y, 0 to the others; a feature
// that is NaN goes to none.
//
// Error bounds: set_broadcast two roundings, set_sum S of them, set_max none.
#ifndef ES_KERNELS_SET_POOL_H
#define ES_KERNELS_SET_POOL_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_SET_POOL_KERNELS(X) \
    X(set_sum, (EsStream *s, float scale, EsIn x, EsIn w, EsOut y)) \
    X(set_broadcast, (EsStream *s, float scale, EsIn y, EsIn w, EsOut x)) \
    X(set_max_forward, (EsStream *s, EsIn x, EsOut y)) \
    X(set_max_backward, (EsStream *s, EsIn x, EsIn y, EsIn d_y, EsOut d_x))
// clang-format on

#endif
