// The blending formulas of blend (kernel_list.h) for one element, once for the CPU and CUDA.
#ifndef ES_KERNELS_BLEND_RULES_H
#define ES_KERNELS_BLEND_RULES_H

#include <math.h>

#include "kernels/kernel_types.h"

// The mode without the bits beside it.
static inline ES_HOST_DEVICE int32_t es_blend_mode(int32_t word) {
    return word & ~(ES_BLEND_CLOSED_HOST | ES_BLEND_CLOSED_SEED);
}

// NaN stays NaN: it must show in y
static inline ES_HOST_DEVICE float es_blend_clamp(float x) {
    return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x;
}

// Returns whether the seed takes part in y, and the host in the seed's gradient.
static inline ES_HOST_DEVICE int es_blend_is_mixed(int32_t mode) {
    return mode == ES_BLEND_ADD || mode == ES_BLEND_GATE || mode == ES_BLEND_MULTIPLY;
}

// The seed's share of one image: 0 where it takes no part.
static inline ES_HOST_DEVICE float es_blend_share(int32_t mode, float alpha, float gate) {
    if (!es_blend_is_mixed(mode)) {
        return 0.0f;
    }
    float share = es_blend_clamp(alpha);
    return mode == ES_BLEND_GATE ? share * es_blend_clamp(gate) : share;
}

// y for a share above 0. The mix starts from the nearer end; the ends are their own cases, because
// s - 0 (s - h) is not s where s - h overflows or s is -0.
static inline ES_HOST_DEVICE float es_blend_value(int32_t mode, float share, float h, float s) {
    if (mode == ES_BLEND_MULTIPLY) {
        return h * (1.0f + share * tanhf(s - h));
    }
    if (share >= 1.0f) {
        return s;
    }
    return share < 0.5f ? h + share * (s - h) : s - (1.0f - share) * (s - h);
}

typedef struct EsBlendGradient {
    float h, s;
} EsBlendGradient;

// The gradients of an element for a share above 0.
static inline ES_HOST_DEVICE EsBlendGradient es_blend_gradient(int32_t mode, float share, float h,
                                                               float s, float d_y) {
    EsBlendGradient gradient;
    if (mode == ES_BLEND_MULTIPLY) {
        float u = tanhf(s - h);
        // (1 - u) (1 + u): 1 - u^2 would cancel near the ends
        gradient.s = d_y * h * share * ((1.0f - u) * (1.0f + u));
        gradient.h = d_y * (1.0f + share * u) - gradient.s;
    } else {
        gradient.s = share * d_y;
        gradient.h = (1.0f - share) * d_y;
    }
    return gradient;
}

#endif
