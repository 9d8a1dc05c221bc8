// The vector engine of the CPU: operations on a group of images, one image per vector lane.
//
// A group holds L images (4, 8 or 16, the width of the machine's vectors); an activation of a group
// is [channel][row][column] [lane], with a border of zeros where a convolution reads it. Every load
// is aligned, any channel count vectorises, and per-image work needs no shuffles. The engine is
// compiled once per L (lanes_*.c) and chosen when a plan is made; plans that use it are in
// network/lanes/lane_program.h. The plain kernels are its specification.
//
// Convolutions read weights packed by es_lane_kernels()->pack_weights and use up to half a megabyte
// of stack. Sums over the batch leave as per-group or per-shard partials that the caller reduces in
// a fixed order, so results do not depend on the number of threads.
#ifndef ES_KERNELS_LANES_H
#define ES_KERNELS_LANES_H

#include <stddef.h>

#include "kernels/kernel_types.h"

ES_EXTERN_C_BEGIN

#define ES_LANES_WIDTH_LIMIT   512 // columns of an image that is loaded
#define ES_LANES_CHANNEL_LIMIT 512 // channels of a map
#define ES_LANES_MAX           16  // lanes of the widest engine

// One activation of one group of images.
typedef struct EsLaneMap {
    float *data; // element (channel 0, row 0, column 0, lane 0); the border, if any, lies around it
    int channels, height, width;
    ptrdiff_t row;   // floats from one row to the next
    ptrdiff_t plane; // floats from one channel to the next
} EsLaneMap;

// A convolution, as far as the choice of its algorithm depends on it: 3x3 kernels on maps of whole
// 4x4 tiles go by Winograd's algorithm. height and width are those of its maps.
typedef struct EsLaneFilter {
    int n_in, n_out, kernel;
    int height, width;
} EsLaneFilter;

// Batch norm of one host as the fused operations use it, per channel. With a negative gamma the
// convolution before it runs on negated weights ("folded"), so that scale >= 0 and a maximum can be
// taken before the normalisation; mean is then that of the folded values.
typedef struct EsLaneNorm {
    const float *scale; // |gamma| inv_std
    const float *shift; // beta - mean scale
    const float *mean;
    const float *inv_std;
} EsLaneNorm;

// Convolution, batch norm, ReLU and 2x2 maximum of a single input channel, by way of its patches
// (lanes_patch.c). Sums of patches are [3x3 regions][ES_LANES_PATCH_REGION]; their gradient per
// output channel is the 9 taps and the sum of the gradient itself.
#define ES_LANES_PATCH_SHIFTS   13
#define ES_LANES_PATCH_REGION   (ES_LANES_PATCH_SHIFTS + 1)
#define ES_LANES_PATCH_SUMS     (9 * ES_LANES_PATCH_REGION)
#define ES_LANES_PATCH_GRADIENT 10
#define ES_LANES_PATCH_FILTER   18 // packed floats of an output channel
#define ES_LANES_CHOICE_WORDS   4  // of 16 bits, per window: which position won it

// Sums over all positions of a batch.
typedef struct EsLanePatches {
    double tap[9];        // of the patch at the position
    double product[9][9]; // of its taps, two by two
} EsLanePatches;

// The images of a group and how to read them.
typedef struct EsLaneImages {
    const unsigned char *images; // [M][C][H][W]
    const float *rows;    // instead of images, normalised  [M][C][H][W]; NULL: there are none
    const int32_t *index; // of this group's images, n_valid of them
    int n_valid;          // lanes past it repeat the first image
    const EsGatherOptions *options;
    uint32_t episode, step; // keys of the augmentation
    uint32_t first;         // likewise: the batch position of lane 0
} EsLaneImages;

typedef struct EsLaneSeedKernels EsLaneSeedKernels;

typedef struct EsLaneKernels {
    int n_lanes;
    const EsLaneSeedKernels *seeds; // kernels/lanes/lanes.h

    // --- set-up of a host's weights ---

    // Floats that packed weights need, and accumulators of a weight gradient.
    size_t (*packed_count)(const EsLaneFilter *filter);
    size_t (*accumulator_count)(const EsLaneFilter *filter);

    // weight [O][I][K][K] into the order of the algorithm; sign (nullable, per output channel)
    // multiplies each filter.
    void (*pack_weights)(const float *weight, const float *sign, const EsLaneFilter *filter,
                         float *packed);
    // The same, transposed and flipped, for the gradient of the input: a convolution from O to I
    // channels, which needs the packed_count of the filter with n_in and n_out exchanged.
    void (*pack_weights_flipped)(const float *weight, const float *sign, const EsLaneFilter *filter,
                                 float *packed);

    // --- per group ---

    // Gather, augment and normalise L images; rows are gathered as they are.
    void (*load_images)(const EsLaneImages *source, const EsLaneMap *y);

    // y = x * packed + bias (nullable).
    void (*conv2d_forward)(const EsLaneMap *x, const float *packed, const float *bias, int kernel,
                           const EsLaneMap *y);

    // y = x * packed (not kept where y->data is NULL), its 2x2 maxima into `pooled` (nullable), and
    // per channel the sums of y and y^2 over valid lanes into sums [O][2] (nullable).
    void (*conv2d_statistics)(const EsLaneMap *x, const float *packed, int kernel, int n_valid,
                              const EsLaneMap *y, const EsLaneMap *pooled, double *sums);

    // accumulator += the weight gradient of this group; = when is_first, so it need not be cleared.
    void (*conv2d_backward_weight)(const EsLaneMap *x, const EsLaneMap *d_y, int kernel,
                                   int is_first, float *accumulator);

    // Sum n_shards accumulators into d_weight [O][I][K][K]; sign as in pack_weights.
    void (*conv2d_reduce_weight)(const float *accumulator, size_t shard_stride, int n_shards,
                                 const float *sign, const EsLaneFilter *filter, float *d_weight);

    // y = max(0, x scale + shift), or without the maximum.
    void (*batchnorm_apply)(const EsLaneMap *x, const EsLaneNorm *norm, int relu,
                            const EsLaneMap *y);

    // Backward through [batch norm, ReLU, 2x2 maximum], from the gradient of the maxima. `pooled`
    // holds the raw maxima. d_x = scale (d_z - sum0 / n - xhat sum1 / n), where d_z is d_pooled at
    // the first maximum of each window that passed the ReLU; lanes past n_valid get 0. x is
    // overwritten when d_x is the same map.
    void (*pooled_batchnorm_backward)(const EsLaneMap *x, const EsLaneMap *pooled,
                                      const EsLaneMap *d_pooled, const EsLaneNorm *norm,
                                      const float *mean_d_z, const float *mean_d_z_xhat,
                                      int n_valid, const EsLaneMap *d_x);

    // Per channel the sums of d_z and d_z xhat into sums [C][2], d_z being d_y where it passed the
    // ReLU (relu = 0: everywhere). With pooling, x and d_y are those of the raw maxima.
    void (*batchnorm_backward_sums)(const EsLaneMap *x, const EsLaneMap *d_y,
                                    const EsLaneNorm *norm, int relu, double *sums);
    // The gradient of the input of [batch norm, ReLU] without pooling.
    void (*batchnorm_backward_input)(const EsLaneMap *x, const EsLaneMap *d_y,
                                     const EsLaneNorm *norm, const float *mean_d_z,
                                     const float *mean_d_z_xhat, int relu, int n_valid,
                                     const EsLaneMap *d_x);

    // --- a single input channel, by its patches; filters for which es_lane_has_patches ---

    // accumulator [ES_LANES_PATCH_SUMS][L] (+=, or = when is_first): sums over positions and valid
    // lanes, for es_lane_patches.
    void (*patch_sums)(const EsLaneMap *x, int n_valid, int is_first, float *accumulator);
    // weight [O][1][3][3] times scale [O] into `packed`, O times ES_LANES_PATCH_FILTER floats.
    void (*patch_pack)(const float *weight, const float *scale, int n_out, float *packed);
    // y = max(0, 2x2 maxima of x * packed + shift). Which position won each window goes to
    // `choice`, a map of es_lane_choice_width columns (data nullable: not kept). Where it is kept,
    // a NaN in x must show in shift, as it does with statistics of the batch.
    void (*patch_forward)(const EsLaneMap *x, const float *packed, const float *shift,
                          const EsLaneMap *y, const EsLaneMap *choice);
    // accumulator [O][ES_LANES_PATCH_GRADIENT][L] (+=, or = when is_first): d_z times the patch at
    // the winner of each window, and d_z; d_z is d_y where the winner passed the ReLU.
    void (*patch_backward_weight)(const EsLaneMap *x, const EsLaneMap *d_y, const EsLaneMap *choice,
                                  int is_first, float *accumulator);
    // totals [count] = sum over shards and lanes of accumulators [count][L].
    void (*lane_totals)(const float *accumulator, size_t shard_stride, int n_shards, int count,
                        double *totals);

    void (*activation_forward)(EsActivation kind, const EsLaneMap *x, const EsLaneMap *y);
    void (*activation_backward)(EsActivation kind, const EsLaneMap *y, const EsLaneMap *d_y,
                                const EsLaneMap *d_x);
    void (*pool_forward)(EsPool kind, const EsLaneMap *x, const EsLaneMap *y);
    void (*pool_backward)(EsPool kind, const EsLaneMap *x, const EsLaneMap *d_y,
                          const EsLaneMap *d_x);
    void (*add)(const EsLaneMap *a, const EsLaneMap *b, const EsLaneMap *y);

    // y = scale exp(x - maximum) / sum over the channels of a map of one pixel, lane by lane (not
    // kept where y->data is NULL); scale, maximum, sum are [L], aligned like maps.
    void (*softmax)(const EsLaneMap *x, const float *scale, const EsLaneMap *y, float *maximum,
                    float *sum);

    // Sum of d_y over positions into accumulator [C][L] (+=, or = when is_first), for a bias.
    void (*bias)(const EsLaneMap *d_y, int is_first, float *accumulator);

    // Between this layout and rows [N][C*H*W] of plain memory; lanes past n_valid are read as 0 and
    // not written.
    void (*from_rows)(const float *rows, int n_valid, const EsLaneMap *y);
    void (*to_rows)(const EsLaneMap *x, int n_valid, float *rows);
} EsLaneKernels;

// Returns whether the patch operations can run a convolution.
static inline int es_lane_has_patches(const EsLaneFilter *f) {
    return f->n_in == 1 && f->kernel == 3 && f->height % 2 == 0 && f->width % 4 == 0;
}

// Columns of the map that holds the choices of a row of windows.
static inline int es_lane_choice_width(int n_windows, int n_lanes) {
    int n_floats = n_windows * ES_LANES_CHOICE_WORDS / 2;
    return (n_floats + n_lanes - 1) / n_lanes;
}

// Sums of patches from the totals [ES_LANES_PATCH_SUMS] of their accumulators.
EsLanePatches es_lane_patches(const double *totals);

// The engine for 4, 8 or 16 lanes, or NULL when this build has none of that width.
const EsLaneKernels *es_lane_kernels(int n_lanes);

// --- operations of seeds: the layers of blueprints, and how a slot mixes a seed in ---

// A gradient in a lane without an image is 0 on the way in and 0 on the way out, so sums need not
// know how many lanes are valid. Sums over the batch go to accumulators [count][L] of a shard (+=,
// or = when is_first), which lane_totals reduces. Maps marked nullable are left out where their
// data is NULL.

// Blending of one host's slot: kernels/kernel_list.h.
typedef struct EsLaneBlend {
    int32_t mode;          // EsBlendMode
    float alpha;           // taken into [0, 1]
    const EsLaneMap *h;    // of the host
    const EsLaneMap *s;    // of the seed; read only where it has a share in y
    const EsLaneMap *gate; // one pixel, one channel; nullable
    int32_t closed;        // bits ES_BLEND_CLOSED_*
} EsLaneBlend;

// Group norm of one host.
typedef struct EsLaneGroupNorm {
    int n_groups;
    float epsilon;
    const float *gamma, *beta; // per channel
} EsLaneGroupNorm;

struct EsLaneSeedKernels {
    // y = (x - mean) inv_std gamma + beta + residual (nullable); mean and inv_std are maps of one
    // pixel, n_groups channels.
    void (*groupnorm_forward)(const EsLaneGroupNorm *norm, const EsLaneMap *x,
                              const EsLaneMap *residual, const EsLaneMap *mean,
                              const EsLaneMap *inv_std, const EsLaneMap *y);
    // d_x (nullable), and accumulator [C][2][L]: sums of d_y and of d_y xhat.
    void (*groupnorm_backward)(const EsLaneGroupNorm *norm, const EsLaneMap *x,
                               const EsLaneMap *mean, const EsLaneMap *inv_std,
                               const EsLaneMap *d_y, const EsLaneMap *d_x, int is_first,
                               float *accumulator);

    // 3x3; x has a border. With is_flipped, from d_y to d_x.
    void (*depthwise_forward)(const EsLaneMap *x, const float *weight, int is_flipped,
                              const EsLaneMap *y);
    // accumulator [C][9][L].
    void (*depthwise_backward_weight)(const EsLaneMap *x, const EsLaneMap *d_y, int is_first,
                                      float *accumulator);

    // y = x w, w one pixel. d_x, d_w nullable.
    void (*channel_scale_forward)(const EsLaneMap *x, const EsLaneMap *w, const EsLaneMap *y);
    void (*channel_scale_backward)(const EsLaneMap *x, const EsLaneMap *w, const EsLaneMap *d_y,
                                   const EsLaneMap *d_x, const EsLaneMap *d_w);

    // y = x + t (n - x). d_x, d_n nullable; accumulator [1][L]: sum of d_y (n - x).
    void (*norm_mix_forward)(const EsLaneMap *x, const EsLaneMap *n, float t, const EsLaneMap *y);
    void (*norm_mix_backward)(const EsLaneMap *x, const EsLaneMap *n, float t, const EsLaneMap *d_y,
                              const EsLaneMap *d_x, const EsLaneMap *d_n, int is_first,
                              float *accumulator);

    // d_h, d_s, d_gate nullable.
    void (*blend_forward)(const EsLaneBlend *blend, const EsLaneMap *y);
    void (*blend_backward)(const EsLaneBlend *blend, const EsLaneMap *d_y, const EsLaneMap *d_h,
                           const EsLaneMap *d_s, const EsLaneMap *d_gate);
    // d_h = other + d_x where the seed is mixed in, else other; nullable for 0.
    void (*seed_input_backward)(int32_t mode, const EsLaneMap *d_x, const EsLaneMap *other,
                                const EsLaneMap *d_h);
};

ES_EXTERN_C_END

#endif
