// The parts of seeds on the vector engine (lanes.h): group norm, depthwise convolution,
// channel scale and norm mix. Compiled once per vector width.
//
// Sums over a map are taken row by row, then over rows and channels, so that their error grows with
// W + H + C and not with the product.
#include <math.h>

#include "kernels/lanes/lanes_internal.h"

// --- group norm ---

// Sums over one channel of x - mean and of its square.
typedef struct Moments {
    Vector first, second;
} Moments;

static inline Moments channel_moments(const EsLaneMap *x, int c, Vector mean) {
    Vector zero = broadcast(0.0f);
    Moments all = {zero, zero};
    for (int r = 0; r < x->height; r++) {
        const float *row = row_of(x, c, r);
        Vector first = zero, second = zero;
        for (int k = 0; k < x->width; k++) {
            Vector v = load(row + k * LANES) - mean;
            first += v;
            second += v * v;
        }
        all.first += first;
        all.second += second;
    }
    return all;
}

static inline Vector inverse_root(Vector v) {
    Vector result;
    for (int lane = 0; lane < LANES; lane++) {
        result[lane] = 1.0f / sqrtf(v[lane]);
    }
    return result;
}

// The average of the first row of every channel of a group: near the mean, as far as variances are
// concerned. Of n values with variance v, the average of k is at most sqrt(v (n - k) / k) from the
// mean, so moments around it have the accuracy of a variance that is H times as large at most.
static inline Vector rough_mean(const EsLaneMap *x, int begin, int end) {
    Vector sum = broadcast(0.0f);
    for (int c = begin; c < end; c++) {
        const float *row = row_of(x, c, 0);
        for (int k = 0; k < x->width; k++) {
            sum += load(row + k * LANES);
        }
    }
    return sum * broadcast(1.0f / (float)((end - begin) * x->width));
}

// y = (x - mean) slope + beta + residual, for one channel
LANES_INLINE void normalise_channel(const EsLaneMap *x, const EsLaneMap *residual, int c,
                                    Vector mean, Vector slope, Vector beta, const EsLaneMap *y) {
    int width = x->width;
    for (int r = 0; r < y->height; r++) {
        const float *from = row_of(x, c, r);
        const float *other = residual->data != NULL ? row_of(residual, c, r) : NULL;
        float *to = row_of(y, c, r);
        for (int k = 0; k < width; k++) {
            Vector v = (load(from + k * LANES) - mean) * slope + beta;
            store(to + k * LANES, other != NULL ? load(other + k * LANES) + v : v);
        }
    }
}

void LANES_FUNCTION(groupnorm_forward)(const EsLaneGroupNorm *norm, const EsLaneMap *x,
                                       const EsLaneMap *residual, const EsLaneMap *mean,
                                       const EsLaneMap *inv_std, const EsLaneMap *y) {
    int n_channels = x->channels / norm->n_groups;
    Vector share = broadcast(1.0f / (float)(n_channels * x->height * x->width));
    for (int g = 0; g < norm->n_groups; g++) {
        int first = g * n_channels, end = first + n_channels;
        Vector rest = broadcast(0.0f), squares = rest, centre = rough_mean(x, first, end);
        for (int c = first; c < end; c++) {
            Moments moments = channel_moments(x, c, centre);
            rest += moments.first;
            squares += moments.second;
        }
        Vector shift = rest * share;
        // larger keeps a NaN
        Vector variance = larger(broadcast(0.0f), squares * share - shift * shift);
        centre += shift;
        Vector inv = inverse_root(variance + broadcast(norm->epsilon));
        store(row_of(mean, g, 0), centre);
        store(row_of(inv_std, g, 0), inv);
        for (int c = first; c < end; c++) {
            normalise_channel(x, residual, c, centre, inv * broadcast(norm->gamma[c]),
                              broadcast(norm->beta[c]), y);
        }
    }
}

// Sums over one channel of d_y and of d_y (x - mean).
static inline Moments gradient_moments(const EsLaneMap *x, const EsLaneMap *d_y, int c,
                                       Vector mean) {
    Vector zero = broadcast(0.0f);
    Moments all = {zero, zero};
    for (int r = 0; r < x->height; r++) {
        const float *value = row_of(x, c, r), *gradient = row_of(d_y, c, r);
        Vector first = zero, second = zero;
        for (int k = 0; k < x->width; k++) {
            Vector d = load(gradient + k * LANES);
            first += d;
            second += d * (load(value + k * LANES) - mean);
        }
        all.first += first;
        all.second += second;
    }
    return all;
}

// With g = d_y gamma and averages over the group: d_x = inv_std (g - average(g) - xhat average(g
// xhat)).
void LANES_FUNCTION(groupnorm_backward)(const EsLaneGroupNorm *norm, const EsLaneMap *x,
                                        const EsLaneMap *mean, const EsLaneMap *inv_std,
                                        const EsLaneMap *d_y, const EsLaneMap *d_x, int is_first,
                                        float *accumulator) {
    int n_channels = x->channels / norm->n_groups;
    Vector zero = broadcast(0.0f);
    Vector share = broadcast(1.0f / (float)(n_channels * x->height * x->width));
    for (int g = 0; g < norm->n_groups; g++) {
        int begin = g * n_channels, end = begin + n_channels;
        Vector centre = load(row_of(mean, g, 0)), inv = load(row_of(inv_std, g, 0));
        Vector sum = zero, tilt = zero;
        for (int c = begin; c < end; c++) {
            Moments moments = gradient_moments(x, d_y, c, centre);
            Vector gamma = broadcast(norm->gamma[c]), xhat = moments.second * inv;
            float *total = accumulator + 2 * c * LANES;
            store(total, (is_first ? zero : load(total)) + moments.first);
            store(total + LANES, (is_first ? zero : load(total + LANES)) + xhat);
            sum += gamma * moments.first;
            tilt += gamma * xhat;
        }
        Vector constant = inv * (sum * share), slope = inv * inv * (tilt * share);
        for (int c = begin; c < end && d_x->data != NULL; c++) {
            Vector scale = inv * broadcast(norm->gamma[c]);
            for (int r = 0; r < x->height; r++) {
                const float *value = row_of(x, c, r), *gradient = row_of(d_y, c, r);
                float *to = row_of(d_x, c, r);
                for (int k = 0; k < x->width; k++) {
                    Vector v = load(value + k * LANES) - centre;
                    store(to + k * LANES,
                          load(gradient + k * LANES) * scale - constant - v * slope);
                }
            }
        }
    }
}

// --- depthwise convolution ---

void LANES_FUNCTION(depthwise_forward)(const EsLaneMap *x, const float *weight, int is_flipped,
                                       const EsLaneMap *y) {
    for (int c = 0; c < x->channels; c++, weight += 9) {
        Vector tap[9];
        for (int t = 0; t < 9; t++) {
            tap[t] = broadcast(weight[is_flipped ? 8 - t : t]);
        }
        for (int r = 0; r < x->height; r++) {
            const float *from = row_of(x, c, r - 1) - LANES;
            float *to = row_of(y, c, r);
            for (int k = 0; k < x->width; k++, from += LANES) {
                Vector sum = broadcast(0.0f);
                for (int t = 0; t < 9; t++) {
                    sum += tap[t] * load(from + t / 3 * x->row + t % 3 * LANES);
                }
                store(to + k * LANES, sum);
            }
        }
    }
}

void LANES_FUNCTION(depthwise_backward_weight)(const EsLaneMap *x, const EsLaneMap *d_y,
                                               int is_first, float *accumulator) {
    for (int c = 0; c < x->channels; c++, accumulator += 9 * LANES) {
        Vector sum[9];
        for (int t = 0; t < 9; t++) {
            sum[t] = is_first ? broadcast(0.0f) : load(accumulator + t * LANES);
        }
        for (int r = 0; r < x->height; r++) {
            const float *from = row_of(x, c, r - 1) - LANES, *gradient = row_of(d_y, c, r);
            for (int k = 0; k < x->width; k++, from += LANES) {
                Vector d = load(gradient + k * LANES);
                for (int t = 0; t < 9; t++) {
                    sum[t] += d * load(from + t / 3 * x->row + t % 3 * LANES);
                }
            }
        }
        for (int t = 0; t < 9; t++) {
            store(accumulator + t * LANES, sum[t]);
        }
    }
}

// --- channel scale ---

void LANES_FUNCTION(channel_scale_forward)(const EsLaneMap *x, const EsLaneMap *w,
                                           const EsLaneMap *y) {
    FOR_EACH_ROW(x) {
        Vector factor = load(row_of(w, c, 0));
        const float *from = row_of(x, c, r);
        float *to = row_of(y, c, r);
        for (int k = 0; k < x->width; k++) {
            store(to + k * LANES, load(from + k * LANES) * factor);
        }
    }
}

void LANES_FUNCTION(channel_scale_backward)(const EsLaneMap *x, const EsLaneMap *w,
                                            const EsLaneMap *d_y, const EsLaneMap *d_x,
                                            const EsLaneMap *d_w) {
    if (d_x->data != NULL) {
        LANES_FUNCTION(channel_scale_forward)(d_y, w, d_x);
    }
    for (int c = 0; c < x->channels && d_w->data != NULL; c++) {
        store(row_of(d_w, c, 0), gradient_moments(x, d_y, c, broadcast(0.0f)).second);
    }
}

// --- norm mix ---

void LANES_FUNCTION(norm_mix_forward)(const EsLaneMap *x, const EsLaneMap *n, float t,
                                      const EsLaneMap *y) {
    Vector share = broadcast(t);
    FOR_EACH_ROW(x) {
        const float *plain = row_of(x, c, r), *normal = row_of(n, c, r);
        float *to = row_of(y, c, r);
        for (int k = 0; k < x->width; k++) {
            Vector v = load(plain + k * LANES);
            store(to + k * LANES, v + share * (load(normal + k * LANES) - v));
        }
    }
}

void LANES_FUNCTION(norm_mix_backward)(const EsLaneMap *x, const EsLaneMap *n, float t,
                                       const EsLaneMap *d_y, const EsLaneMap *d_x,
                                       const EsLaneMap *d_n, int is_first, float *accumulator) {
    Vector zero = broadcast(0.0f), total = is_first ? zero : load(accumulator);
    Vector of_x = broadcast(1.0f - t), of_n = broadcast(t);
    int height = x->height, width = x->width;
    for (int c = 0; c < x->channels; c++) {
        Vector plane = zero;
        for (int r = 0; r < height; r++) {
            const float *plain = row_of(x, c, r), *normal = row_of(n, c, r);
            const float *gradient = row_of(d_y, c, r);
            float *to_x = d_x->data != NULL ? row_of(d_x, c, r) : NULL;
            float *to_n = d_n->data != NULL ? row_of(d_n, c, r) : NULL;
            Vector sum = zero;
            for (int k = 0; k < width; k++) {
                Vector d = load(gradient + k * LANES);
                sum += d * (load(normal + k * LANES) - load(plain + k * LANES));
                if (to_x != NULL) {
                    store(to_x + k * LANES, of_x * d);
                }
                if (to_n != NULL) {
                    store(to_n + k * LANES, of_n * d);
                }
            }
            plane += sum;
        }
        total += plane;
    }
    store(accumulator, total);
}

// --- the table ---

// clang-format off
const EsLaneSeedKernels LANES_FUNCTION(seed_table) = {
#define X(name) .name = LANES_FUNCTION(name),
    ES_LANE_SEED_FUNCTION_LIST(X)
#undef X
};
// clang-format on
