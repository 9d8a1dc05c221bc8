// What the files of the vector engine share: limits, and the functions that form its table.
#ifndef ES_KERNELS_LANES_INTERNAL_H
#define ES_KERNELS_LANES_INTERNAL_H

#include "kernels/lanes.h"
#include "kernels/lanes_vector.h"

#define ES_LANES_TILE_OUT 4
#define ES_LANES_MAX_KERNEL 7

// The members of EsLaneKernels that are functions, with their types taken from it.
#define ES_LANE_FUNCTION_LIST(X)                                                                   \
    X(packed_count) X(accumulator_count) X(pack_weights) X(pack_weights_flipped) X(load_images)    \
    X(conv) X(conv_statistics) X(conv_weight) X(reduce_weight) X(normalise)          \
    X(pooled_input) X(norm_sums) X(norm_input) X(activation) X(activation_input) X(pool)           \
    X(pool_input) X(add) X(bias) X(from_rows) X(to_rows)

#define X(name) __typeof__(*((EsLaneKernels *)0)->name) LANES_FUNCTION(name);
ES_LANE_FUNCTION_LIST(X)
#undef X

extern const EsLaneKernels LANES_FUNCTION(table);

#endif
