// Operations of seeds on the vector engine (kernels/lanes/lanes.h): what blueprints are made of,
// and how a slot mixes a seed in. The plain kernels of the same names are their specification.
//
// A gradient in a lane without an image is 0 on the way in and 0 on the way out, so sums need not
// know how many lanes are valid. Sums over the batch go to accumulators [count][L] of a shard (+=,
// or = when is_first), which lane_totals reduces. Maps marked nullable are left out where their
// data is NULL.
#ifndef ES_KERNELS_LANES_SEED_H
#define ES_KERNELS_LANES_SEED_H

#include "kernels/lanes/lanes.h"

ES_EXTERN_C_BEGIN

// How a slot of one host blends: kernels/ops/blend.h.
typedef struct EsLaneBlend {
    int32_t mode;          // EsBlendMode
    float alpha;           // taken into [0, 1]
    const EsLaneMap *h;    // of the host
    const EsLaneMap *s;    // of the seed; read only where it has a share in y
    const EsLaneMap *gate; // one pixel, one channel; nullable
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
    void (*groupnorm)(const EsLaneGroupNorm *norm, const EsLaneMap *x, const EsLaneMap *residual,
                      const EsLaneMap *mean, const EsLaneMap *inv_std, const EsLaneMap *y);
    // d_x (nullable), and accumulator [C][2][L]: sums of d_y and of d_y xhat.
    void (*groupnorm_input)(const EsLaneGroupNorm *norm, const EsLaneMap *x, const EsLaneMap *mean,
                            const EsLaneMap *inv_std, const EsLaneMap *d_y, const EsLaneMap *d_x,
                            int is_first, float *accumulator);

    // 3x3; x has a border. With is_flipped, from d_y to d_x.
    void (*depthwise)(const EsLaneMap *x, const float *weight, int is_flipped, const EsLaneMap *y);
    // accumulator [C][9][L].
    void (*depthwise_weight)(const EsLaneMap *x, const EsLaneMap *d_y, int is_first,
                             float *accumulator);

    // y = x w, w one pixel. d_x, d_w nullable.
    void (*channel_scale)(const EsLaneMap *x, const EsLaneMap *w, const EsLaneMap *y);
    void (*channel_scale_input)(const EsLaneMap *x, const EsLaneMap *w, const EsLaneMap *d_y,
                                const EsLaneMap *d_x, const EsLaneMap *d_w);

    // y = x + t (n - x). d_x, d_n nullable; accumulator [1][L]: sum of d_y (n - x).
    void (*norm_mix)(const EsLaneMap *x, const EsLaneMap *n, float t, const EsLaneMap *y);
    void (*norm_mix_input)(const EsLaneMap *x, const EsLaneMap *n, float t, const EsLaneMap *d_y,
                           const EsLaneMap *d_x, const EsLaneMap *d_n, int is_first,
                           float *accumulator);

    // d_h, d_s, d_gate nullable.
    void (*blend)(const EsLaneBlend *blend, const EsLaneMap *y);
    void (*blend_input)(const EsLaneBlend *blend, const EsLaneMap *d_y, const EsLaneMap *d_h,
                        const EsLaneMap *d_s, const EsLaneMap *d_gate);
    // d_h = other + d_x where the seed is mixed in, else other; nullable for 0.
    void (*seed_input)(int32_t mode, const EsLaneMap *d_x, const EsLaneMap *other,
                       const EsLaneMap *d_h);
};

ES_EXTERN_C_END

#endif
