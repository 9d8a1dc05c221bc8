// Limits of the vector engine, and the functions that form its table.
#ifndef ES_KERNELS_LANES_INTERNAL_H
#define ES_KERNELS_LANES_INTERNAL_H

#include "kernels/lanes/lanes.h"
#include "kernels/lanes/lanes_vector.h"

#define ES_LANES_TILE_OUT   4
#define ES_LANES_MAX_KERNEL 7
// channels on either side, up to which convolutions may go by Winograd's algorithm; bounds their
// scratch memory (stack)
#define ES_LANES_WINOGRAD_CHANNELS 64

// The members of EsLaneKernels that are functions, with their types taken from it.
// clang-format off
#define ES_LANE_FUNCTION_LIST(X)                                                                   \
    X(packed_count) X(accumulator_count) X(pack_weights) X(pack_weights_flipped) X(load_images)    \
    X(conv2d_forward) X(conv2d_statistics) X(conv2d_backward_weight) X(conv2d_reduce_weight)       \
    X(batchnorm_apply) X(pooled_batchnorm_backward) X(batchnorm_backward_sums)                     \
    X(batchnorm_backward_input) X(patch_sums) X(patch_pack) X(patch_forward)                       \
    X(patch_backward_weight) X(lane_totals) X(activation_forward) X(activation_backward)           \
    X(pool_forward) X(pool_backward) X(add) X(softmax) X(bias) X(from_rows) X(to_rows)
// clang-format on

#define X(name) __typeof__(*((EsLaneKernels *)0)->name) LANES_FUNCTION(name);
ES_LANE_FUNCTION_LIST(X)
#undef X

// The same for EsLaneSeedKernels.
// clang-format off
#define ES_LANE_SEED_FUNCTION_LIST(X)                                                              \
    X(groupnorm_forward) X(groupnorm_backward) X(depthwise_forward) X(depthwise_backward_weight)   \
    X(channel_scale_forward) X(channel_scale_backward) X(norm_mix_forward) X(norm_mix_backward)    \
    X(blend_forward) X(blend_backward) X(seed_input_backward)
// clang-format on

#define X(name) __typeof__(*((EsLaneSeedKernels *)0)->name) LANES_FUNCTION(name);
ES_LANE_SEED_FUNCTION_LIST(X)
#undef X

// for every channel c and row r of a map
#define FOR_EACH_ROW(map)                                                                          \
    for (int c = 0; c < (map)->channels; c++)                                                      \
        for (int r = 0; r < (map)->height; r++)

static inline float *row_of(const EsLaneMap *map, int channel, int row) {
    return map->data + channel * map->plane + row * map->row;
}

// Operands and options of a convolution of one group.
typedef struct LaneConvTask {
    const EsLaneMap *x;
    const float *packed;
    const float *bias;       // nullable
    const EsLaneMap *y;      // data nullable: not kept
    const EsLaneMap *pooled; // nullable
    float *sums;             // nullable: [O][2][L] lane sums of y and y^2
} LaneConvTask;

// lanes_winograd.c: forward and input gradient.
size_t LANES_FUNCTION(winograd_packed_count)(int n_in, int n_out);
void LANES_FUNCTION(winograd_pack)(const float *weight, const float *sign, int n_in, int n_out,
                                   int is_flipped, float *packed);
void LANES_FUNCTION(winograd_conv)(const LaneConvTask *task);

// lanes_winograd_weight.c: weight gradient.
size_t LANES_FUNCTION(winograd_accumulator_count)(int n_in, int n_out);
void LANES_FUNCTION(winograd_weight)(const EsLaneMap *x, const EsLaneMap *d_y, int is_first,
                                     float *accumulator);
void LANES_FUNCTION(winograd_reduce)(const float *accumulator, size_t shard_stride, int n_shards,
                                     const float *sign, int n_in, int n_out, float *d_weight);

// The choice of algorithm, for the forward direction (the input gradient asks with n_in and n_out
// exchanged) and for the weight gradient. A single input channel does not repay the transformations
// of the weight gradient. Tiles of 4x4 may hang over the map: it must fill half of them.
static inline int has_tiles(const EsLaneFilter *f) {
    int n_tiles = (f->height + 3) / 4 * ((f->width + 3) / 4);
    return f->kernel == 3 && f->height * f->width >= 8 * n_tiles &&
           f->n_in <= ES_LANES_WINOGRAD_CHANNELS && f->n_out <= ES_LANES_WINOGRAD_CHANNELS;
}

static inline int uses_winograd(const EsLaneFilter *f) { return has_tiles(f); }

static inline int uses_winograd_weight(const EsLaneFilter *f) {
    return has_tiles(f) && f->n_in >= 2;
}

extern const EsLaneKernels LANES_FUNCTION(table);
extern const EsLaneSeedKernels LANES_FUNCTION(seed_table);

#endif
