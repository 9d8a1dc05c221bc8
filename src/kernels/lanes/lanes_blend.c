// Slots on the vector engine (lanes.h): the formulas of blend_rules.h, one image per lane.
// Compiled once per vector width.
#include <string.h>

#include "kernels/lanes/lanes_internal.h"
#include "kernels/lanes/lanes_vector.h"
#include "kernels/ops/blend_rules.h"

// The seed's share in every lane, which is the same for a whole map, and the factors derived from
// it.
typedef struct Shares {
    Vector share, rest; // rest = 1 - share
    Choice is_none, is_all, is_small;
} Shares;

static inline Choice equal(Vector a, Vector b) {
    return greater(where_equal(a, b, broadcast(1.0f)), broadcast(0.0f));
}

static inline Vector clamp(Vector v) {
    Vector zero = broadcast(0.0f), one = broadcast(1.0f);
    // each choice keeps a NaN: it must show in y
    v = choose(greater(zero, v), zero, v);
    return choose(greater(v, one), one, v);
}

// mode is ADD or GATE
static inline Shares shares_of(const EsLaneBlend *blend) {
    Vector one = broadcast(1.0f), share = broadcast(es_blend_clamp(blend->alpha));
    if (blend->mode == ES_BLEND_GATE && blend->gate->data != NULL) {
        share = share * clamp(load(blend->gate->data));
    }
    Vector zero = broadcast(0.0f);
    return (Shares){share, one - share, equal(share, zero), greater(share, one) | equal(share, one),
                    greater(broadcast(0.5f), share)};
}

// Does the seed have a share in any image of this host?
static inline int has_share(const EsLaneBlend *blend) {
    return es_blend_share(blend->mode, blend->alpha, 1.0f) != 0.0f;
}

static void copy_map(const EsLaneMap *x, const EsLaneMap *y) {
    size_t row_bytes = (size_t)(x->width * LANES) * sizeof(float);
    FOR_EACH_ROW(x) { memcpy(row_of(y, c, r), row_of(x, c, r), row_bytes); }
}

static void clear_map(const EsLaneMap *y) {
    size_t row_bytes = (size_t)(y->width * LANES) * sizeof(float);
    FOR_EACH_ROW(y) { memset(row_of(y, c, r), 0, row_bytes); }
}

static void multiply(const EsLaneBlend *blend, const EsLaneMap *y) {
    Vector share = broadcast(es_blend_clamp(blend->alpha)), one = broadcast(1.0f);
    FOR_EACH_ROW(y) {
        const float *host = row_of(blend->h, c, r), *seed = row_of(blend->s, c, r);
        float *to = row_of(y, c, r);
        for (int k = 0; k < y->width; k++) {
            Vector h = load(host + k * LANES);
            Vector u = hyperbolic_tangent(load(seed + k * LANES) - h);
            store(to + k * LANES, h * (one + share * u));
        }
    }
}

void LANES_FUNCTION(blend_forward)(const EsLaneBlend *blend, const EsLaneMap *y) {
    if (!has_share(blend)) {
        copy_map(blend->h, y);
        return;
    }
    if (blend->mode == ES_BLEND_MULTIPLY) {
        multiply(blend, y);
        return;
    }
    const Shares shares = shares_of(blend);
    int width = y->width;
    FOR_EACH_ROW(y) {
        const float *host = row_of(blend->h, c, r), *seed = row_of(blend->s, c, r);
        float *to = row_of(y, c, r);
        for (int k = 0; k < width; k++) {
            Vector h = load(host + k * LANES), s = load(seed + k * LANES), difference = s - h;
            // from the nearer end; the ends are their own cases (blend_rules.h)
            Vector mixed = choose(shares.is_small, h + shares.share * difference,
                                  s - shares.rest * difference);
            mixed = choose(shares.is_all, s, mixed);
            store(to + k * LANES, choose(shares.is_none, h, mixed));
        }
    }
}

// --- gradients ---

static void multiply_input(const EsLaneBlend *blend, const EsLaneMap *d_y, const EsLaneMap *d_h,
                           const EsLaneMap *d_s) {
    Vector share = broadcast(es_blend_clamp(blend->alpha)), one = broadcast(1.0f);
    FOR_EACH_ROW(d_y) {
        const float *host = row_of(blend->h, c, r), *seed = row_of(blend->s, c, r);
        const float *gradient = row_of(d_y, c, r);
        for (int k = 0; k < d_y->width; k++) {
            Vector h = load(host + k * LANES), d = load(gradient + k * LANES);
            Vector u = hyperbolic_tangent(load(seed + k * LANES) - h);
            Vector of_seed = d * h * share * ((one - u) * (one + u));
            if (d_s->data != NULL) {
                store(row_of(d_s, c, r) + k * LANES, of_seed);
            }
            if (d_h->data != NULL) {
                store(row_of(d_h, c, r) + k * LANES, d * (one + share * u) - of_seed);
            }
        }
    }
}

// d_h = (1 - share) d_y, d_s = share d_y; 0 for the seed where it has no share, even if d_y is not
// finite
static void mix_input(const Shares *shares, const EsLaneMap *d_y, const EsLaneMap *d_h,
                      const EsLaneMap *d_s) {
    Vector zero = broadcast(0.0f), share = shares->share, rest = shares->rest;
    Choice is_none = shares->is_none;
    int width = d_y->width;
    FOR_EACH_ROW(d_y) {
        const float *from = row_of(d_y, c, r);
        float *to_host = d_h->data != NULL ? row_of(d_h, c, r) : NULL;
        float *to_seed = d_s->data != NULL ? row_of(d_s, c, r) : NULL;
        for (int k = 0; k < width; k++) {
            Vector d = load(from + k * LANES);
            if (to_host != NULL) {
                store(to_host + k * LANES, rest * d);
            }
            if (to_seed != NULL) {
                store(to_seed + k * LANES, choose(is_none, zero, share * d));
            }
        }
    }
}

// alpha times the sum of d_y (s - h) over an image; by alpha, not by the share: a gate that has
// closed must be able to open again
static void gate_gradient(const EsLaneBlend *blend, const EsLaneMap *d_y, const EsLaneMap *d_gate) {
    Vector zero = broadcast(0.0f), total = zero;
    for (int c = 0; c < d_y->channels; c++) {
        Vector plane = zero;
        for (int r = 0; r < d_y->height; r++) {
            const float *host = row_of(blend->h, c, r), *seed = row_of(blend->s, c, r);
            const float *gradient = row_of(d_y, c, r);
            Vector sum = zero;
            for (int k = 0; k < d_y->width; k++) {
                Vector difference = load(seed + k * LANES) - load(host + k * LANES);
                sum += load(gradient + k * LANES) * difference;
            }
            plane += sum;
        }
        total += plane;
    }
    store(d_gate->data, total * broadcast(es_blend_clamp(blend->alpha)));
}

// With both ways open.
static void differentiate(const EsLaneBlend *blend, const EsLaneMap *d_y, const EsLaneMap *d_h,
                          const EsLaneMap *d_s, const EsLaneMap *d_gate) {
    int has_seed = has_share(blend);
    if (d_gate->data != NULL && has_seed && blend->mode == ES_BLEND_GATE) {
        gate_gradient(blend, d_y, d_gate);
    } else if (d_gate->data != NULL) {
        clear_map(d_gate);
    }
    if (has_seed && blend->mode == ES_BLEND_MULTIPLY) {
        multiply_input(blend, d_y, d_h, d_s);
        return;
    }
    if (has_seed) {
        Shares shares = shares_of(blend);
        mix_input(&shares, d_y, d_h, d_s);
        return;
    }
    if (d_h->data != NULL) {
        copy_map(d_y, d_h);
    }
    if (d_s->data != NULL && blend->mode == ES_BLEND_INCUBATE) {
        copy_map(d_y, d_s);
    } else if (d_s->data != NULL) {
        clear_map(d_s);
    }
}

void LANES_FUNCTION(blend_backward)(const EsLaneBlend *blend, const EsLaneMap *d_y,
                                    const EsLaneMap *d_h, const EsLaneMap *d_s,
                                    const EsLaneMap *d_gate) {
    differentiate(blend, d_y, d_h, d_s, d_gate);
    // afterwards: a gradient may lie where d_y is
    if ((blend->closed & ES_BLEND_CLOSED_HOST) && d_h->data != NULL) {
        clear_map(d_h);
    }
    if ((blend->closed & ES_BLEND_CLOSED_SEED) && d_s->data != NULL) {
        clear_map(d_s);
    }
    if ((blend->closed & ES_BLEND_CLOSED_SEED) && d_gate->data != NULL) {
        clear_map(d_gate);
    }
}

void LANES_FUNCTION(seed_input_backward)(int32_t mode, const EsLaneMap *d_x, const EsLaneMap *other,
                                         const EsLaneMap *d_h) {
    int is_mixed = es_blend_is_mixed(mode);
    if (is_mixed && other->data != NULL) {
        LANES_FUNCTION(add)(other, d_x, d_h);
    } else if (is_mixed || other->data != NULL) {
        copy_map(is_mixed ? d_x : other, d_h);
    } else {
        clear_map(d_h);
    }
}
