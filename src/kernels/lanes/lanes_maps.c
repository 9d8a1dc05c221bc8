// Everything of the vector engine (lanes.h) that is not a convolution: loading, normalisation,
// activations, pooling, and the table itself. Compiled once per vector width.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/lanes/lanes_internal.h"
#include "kernels/lanes/lanes_vector.h"
#include "kernels/ops/gather_rules.h"

// --- images ---

#define BLOCK 16 // pixels per transposed block

static inline Bytes16 interleave_low(Bytes16 a, Bytes16 b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline Bytes16 interleave_high(Bytes16 a, Bytes16 b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
}

// 16x16 bytes: four rounds of interleaving row i with row i + 8 are a transposition
static inline void transpose16(Bytes16 row[16]) {
    for (int round = 0; round < 4; round++) {
        Bytes16 next[16];
        for (int i = 0; i < 8; i++) {
            next[2 * i] = interleave_low(row[i], row[i + 8]);
            next[2 * i + 1] = interleave_high(row[i], row[i + 8]);
        }
        memcpy(row, next, sizeof next);
    }
}

// A row of the cropped image, as es_gather_pixel shows it pixel by pixel.
static void crop_line(const EsGatherOptions *options, int channel, const unsigned char *bytes,
                      int height, int width, const EsCrop *crop, int row, unsigned char *line) {
    int is_reflected = options->border == ES_BORDER_REFLECT;
    int from_row = is_reflected ? es_gather_reflect(row + crop->row, height) : row + crop->row;
    int n_shown = ES_MAX(width - abs(crop->column), 0);
    int is_inside = from_row >= 0 && from_row < height;
    // columns first .. end - 1 show the source, the others lie beyond it
    int first = crop->flip ? ES_MAX(crop->column, 0) : ES_MAX(-crop->column, 0);
    int end = first + n_shown;
    memset(line, es_gather_border(options, channel), (size_t)width);
    if (is_inside) {
        const unsigned char *from = bytes + from_row * width + ES_MAX(crop->column, 0);
        for (int k = 0; k < n_shown; k++) {
            line[first + k] = crop->flip ? from[n_shown - 1 - k] : from[k];
        }
    }
    for (int k = 0; is_reflected && k < width; k++) {
        if (k < first || k >= end) {
            line[k] = es_gather_pixel(options, channel, bytes, height, width, crop, row, k);
        }
    }
    if (row >= crop->erase_row && row < crop->erase_row_end) {
        memset(line + crop->erase_column, es_gather_mean(options, channel),
               (size_t)(crop->erase_column_end - crop->erase_column));
    }
}

// The first n of BLOCK pixels of every lane.
LANES_INLINE void load_block(const unsigned char *const line[LANES], size_t offset, int n,
                             Vector scale, Vector shift, float *target) {
    Bytes16 block[16] = {{0}};
    for (int lane = 0; lane < LANES; lane++) {
        memcpy(&block[lane], line[lane] + offset, BLOCK);
    }
    transpose16(block);
    for (int j = 0; j < n; j++) {
        store(target + j * LANES, from_bytes(block[j]) * scale + shift);
    }
}

static void load_rows(const EsLaneImages *source, const EsLaneMap *y) {
    size_t row_size = (size_t)y->channels * (size_t)y->height * (size_t)y->width;
    for (int lane = 0; lane < LANES; lane++) {
        int n = lane < source->n_valid ? lane : 0;
        const float *from = source->rows + (size_t)source->index[n] * row_size;
        FOR_EACH_ROW(y) {
            float *to = row_of(y, c, r) + lane;
            for (int k = 0; k < y->width; k++) {
                to[k * LANES] = *from++;
            }
        }
    }
}

void LANES_FUNCTION(load_images)(const EsLaneImages *source, const EsLaneMap *y) {
    if (source->rows != NULL) {
        load_rows(source, y);
        return;
    }
    int height = y->height, width = y->width;
    ES_ASSERT(width <= ES_LANES_WIDTH_LIMIT);
    EsCrop crop[LANES];
    const unsigned char *image[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        int n = lane < source->n_valid ? lane : 0;
        image[lane] =
            source->images + (size_t)source->index[n] * (size_t)(y->channels * height * width);
        crop[lane] = es_gather_crop(source->options, source->episode, source->step,
                                    source->first + (uint32_t)n, height, width);
    }
    int is_plain = source->options->pad == 0 && !source->options->flip &&
                   source->options->erase <= 0.0f && width % BLOCK == 0;
    unsigned char cropped[LANES][ES_LANES_WIDTH_LIMIT];
    const unsigned char *line[LANES]; // less the offset of the row
    for (int lane = 0; lane < LANES; lane++) {
        line[lane] = is_plain ? image[lane] : cropped[lane];
    }
    if (!is_plain) {
        memset(cropped, 0, sizeof cropped);
    }
    FOR_EACH_ROW(y) {
        Vector scale = broadcast(source->options->inv_std[c] / 255.0f);
        Vector shift = broadcast(-source->options->mean[c] * source->options->inv_std[c]);
        for (int lane = 0; lane < LANES && !is_plain; lane++) {
            crop_line(source->options, c, image[lane] + (size_t)c * (size_t)(height * width),
                      height, width, &crop[lane], r, cropped[lane]);
        }
        size_t offset = is_plain ? (size_t)(c * height + r) * (size_t)width : 0;
        float *target = row_of(y, c, r);
        for (int k = 0; k < width; k += BLOCK) {
            if (k + BLOCK <= width) {
                load_block(line, offset + (size_t)k, BLOCK, scale, shift, target + k * LANES);
            } else {
                load_block(line, offset + (size_t)k, width - k, scale, shift, target + k * LANES);
            }
        }
    }
}

// --- batch norm ---

void LANES_FUNCTION(batchnorm_apply)(const EsLaneMap *x, const EsLaneNorm *norm, int relu,
                                     const EsLaneMap *y) {
    Vector zero = broadcast(0.0f);
    FOR_EACH_ROW(x) {
        Vector scale = broadcast(norm->scale[c]), shift = broadcast(norm->shift[c]);
        const float *from = row_of(x, c, r);
        float *to = row_of(y, c, r);
        for (int k = 0; k < x->width; k++) {
            Vector value = load(from + k * LANES) * scale + shift;
            store(to + k * LANES, relu ? larger(zero, value) : value);
        }
    }
}

void LANES_FUNCTION(batchnorm_backward_sums)(const EsLaneMap *x, const EsLaneMap *d_y,
                                             const EsLaneNorm *norm, int relu, double *sums) {
    Vector zero = broadcast(0.0f);
    for (int c = 0; c < x->channels; c++) {
        Vector scale = broadcast(norm->scale[c]), shift = broadcast(norm->shift[c]);
        Vector mean = broadcast(norm->mean[c]), inv_std = broadcast(norm->inv_std[c]);
        Vector sum0 = zero, sum1 = zero;
        for (int r = 0; r < x->height; r++) {
            const float *value = row_of(x, c, r), *gradient = row_of(d_y, c, r);
            for (int k = 0; k < x->width; k++) {
                Vector v = load(value + k * LANES), d = load(gradient + k * LANES);
                d = relu ? where_greater(v * scale + shift, zero, d) : d;
                sum0 += d;
                sum1 += d * ((v - mean) * inv_std);
            }
        }
        sums[2 * c] = lane_sum(sum0);
        sums[2 * c + 1] = lane_sum(sum1);
    }
}

// d_x = scale d_z + constant - slope x: the batch's two means folded into two numbers per channel
typedef struct InputRule {
    Vector scale, shift, constant, slope;
} InputRule;

static inline InputRule input_rule(const EsLaneNorm *norm, const float *mean_d_z,
                                   const float *mean_d_z_xhat, int c, int n_valid) {
    float slope = norm->scale[c] * norm->inv_std[c] * mean_d_z_xhat[c];
    float constant = norm->mean[c] * slope - norm->scale[c] * mean_d_z[c];
    // lanes past n_valid have d_z = 0, so with these two at 0 their gradient is
    Vector valid = first_lanes(n_valid);
    InputRule rule = {broadcast(norm->scale[c]), broadcast(norm->shift[c]),
                      valid * broadcast(constant), valid * broadcast(slope)};
    return rule;
}

static inline Vector plain_gradient(const InputRule *rule, Vector x) {
    return rule->constant - rule->slope * x;
}

void LANES_FUNCTION(batchnorm_backward_input)(const EsLaneMap *x, const EsLaneMap *d_y,
                                              const EsLaneNorm *norm, const float *mean_d_z,
                                              const float *mean_d_z_xhat, int relu, int n_valid,
                                              const EsLaneMap *d_x) {
    Vector zero = broadcast(0.0f);
    for (int c = 0; c < x->channels; c++) {
        InputRule rule = input_rule(norm, mean_d_z, mean_d_z_xhat, c, n_valid);
        for (int r = 0; r < x->height; r++) {
            const float *value = row_of(x, c, r), *gradient = row_of(d_y, c, r);
            float *to = row_of(d_x, c, r);
            for (int k = 0; k < x->width; k++) {
                Vector v = load(value + k * LANES), d = load(gradient + k * LANES);
                d = relu ? where_greater(v * rule.scale + rule.shift, zero, d) : d;
                store(to + k * LANES, plain_gradient(&rule, v) + rule.scale * d);
            }
        }
    }
}

void LANES_FUNCTION(pooled_batchnorm_backward)(const EsLaneMap *x, const EsLaneMap *pooled,
                                               const EsLaneMap *d_pooled, const EsLaneNorm *norm,
                                               const float *mean_d_z, const float *mean_d_z_xhat,
                                               int n_valid, const EsLaneMap *d_x) {
    Vector zero = broadcast(0.0f);
    for (int c = 0; c < x->channels; c++) {
        InputRule rule = input_rule(norm, mean_d_z, mean_d_z_xhat, c, n_valid);
        for (int r = 0; r < pooled->height; r++) {
            const float *maxima = row_of(pooled, c, r), *gradient = row_of(d_pooled, c, r);
            const float *top = row_of(x, c, 2 * r), *bottom = row_of(x, c, 2 * r + 1);
            float *top_to = row_of(d_x, c, 2 * r), *bottom_to = row_of(d_x, c, 2 * r + 1);
            for (int k = 0; k < pooled->width; k++) {
                Vector maximum = load(maxima + k * LANES);
                Vector left = where_greater(maximum * rule.scale + rule.shift, zero,
                                            load(gradient + k * LANES)) *
                              rule.scale;
                const float *from[4] = {top + 2 * k * LANES, top + (2 * k + 1) * LANES,
                                        bottom + 2 * k * LANES, bottom + (2 * k + 1) * LANES};
                float *to[4] = {top_to + 2 * k * LANES, top_to + (2 * k + 1) * LANES,
                                bottom_to + 2 * k * LANES, bottom_to + (2 * k + 1) * LANES};
                // the first element equal to the maximum takes all that is left
                for (int j = 0; j < 4; j++) {
                    Vector v = load(from[j]);
                    Vector taken = where_equal(v, maximum, left);
                    left -= taken;
                    store(to[j], plain_gradient(&rule, v) + taken);
                }
            }
        }
        // an odd last row or column lies in no window
        for (int r = 0; r < x->height; r++) {
            int first = r < 2 * pooled->height ? 2 * pooled->width : 0;
            for (int k = first; k < x->width; k++) {
                store(row_of(d_x, c, r) + k * LANES,
                      plain_gradient(&rule, load(row_of(x, c, r) + k * LANES)));
            }
        }
    }
}

// --- activations and pooling ---

static inline Vector apply_scalar(Vector v, float (*function)(float)) {
    Vector result;
    for (int lane = 0; lane < LANES; lane++) {
        result[lane] = function(v[lane]);
    }
    return result;
}

static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

void LANES_FUNCTION(activation_forward)(EsActivation kind, const EsLaneMap *x, const EsLaneMap *y) {
    Vector zero = broadcast(0.0f);
    FOR_EACH_ROW(x) {
        const float *from = row_of(x, c, r);
        float *to = row_of(y, c, r);
        for (int k = 0; k < x->width; k++) {
            Vector v = load(from + k * LANES);
            store(to + k * LANES, kind == ES_ACTIVATION_RELU   ? larger(zero, v)
                                  : kind == ES_ACTIVATION_TANH ? apply_scalar(v, tanhf)
                                                               : apply_scalar(v, sigmoid));
        }
    }
}

void LANES_FUNCTION(activation_backward)(EsActivation kind, const EsLaneMap *y,
                                         const EsLaneMap *d_y, const EsLaneMap *d_x) {
    Vector zero = broadcast(0.0f), one = broadcast(1.0f);
    FOR_EACH_ROW(y) {
        const float *value = row_of(y, c, r), *gradient = row_of(d_y, c, r);
        float *to = row_of(d_x, c, r);
        for (int k = 0; k < y->width; k++) {
            Vector v = load(value + k * LANES), d = load(gradient + k * LANES);
            store(to + k * LANES, kind == ES_ACTIVATION_RELU   ? where_greater(v, zero, d)
                                  : kind == ES_ACTIVATION_TANH ? d * (one - v * v)
                                                               : d * v * (one - v));
        }
    }
}

void LANES_FUNCTION(pool_forward)(EsPool kind, const EsLaneMap *x, const EsLaneMap *y) {
    Vector share = broadcast(kind == ES_POOL_GLOBAL ? 1.0f / (float)(x->height * x->width) : 0.25f);
    FOR_EACH_ROW(y) {
        float *to = row_of(y, c, r);
        if (kind == ES_POOL_GLOBAL) {
            Vector sum = broadcast(0.0f);
            for (int row = 0; row < x->height; row++) {
                const float *from = row_of(x, c, row);
                for (int k = 0; k < x->width; k++) {
                    sum += load(from + k * LANES);
                }
            }
            store(to, sum * share);
            continue;
        }
        const float *top = row_of(x, c, 2 * r), *bottom = row_of(x, c, 2 * r + 1);
        for (int k = 0; k < y->width; k++) {
            Vector v00 = load(top + 2 * k * LANES), v01 = load(top + (2 * k + 1) * LANES);
            Vector v10 = load(bottom + 2 * k * LANES), v11 = load(bottom + (2 * k + 1) * LANES);
            store(to + k * LANES, kind == ES_POOL_MAX2 ? larger_or_nan(larger_or_nan(v00, v01),
                                                                       larger_or_nan(v10, v11))
                                                       : (v00 + v01 + v10 + v11) * share);
        }
    }
}

// Gradient of one 2x2 window.
static inline void window_input(EsPool kind, const float *const x[4], Vector gradient,
                                float *const to[4]) {
    Vector quarter = broadcast(0.25f) * gradient;
    Vector v[4] = {load(x[0]), load(x[1]), load(x[2]), load(x[3])};
    Vector maximum = larger_or_nan(larger_or_nan(v[0], v[1]), larger_or_nan(v[2], v[3]));
    for (int j = 0; j < 4; j++) {
        Vector taken = where_equal(v[j], maximum, gradient);
        gradient -= taken;
        store(to[j], kind == ES_POOL_MAX2 ? taken : quarter);
    }
}

void LANES_FUNCTION(pool_backward)(EsPool kind, const EsLaneMap *x, const EsLaneMap *d_y,
                                   const EsLaneMap *d_x) {
    Vector share = broadcast(1.0f / (float)(x->height * x->width)), zero = broadcast(0.0f);
    FOR_EACH_ROW(x) {
        float *to = row_of(d_x, c, r);
        if (kind == ES_POOL_GLOBAL) {
            Vector gradient = load(row_of(d_y, c, 0)) * share;
            for (int k = 0; k < x->width; k++) {
                store(to + k * LANES, gradient);
            }
            continue;
        }
        int n_windows = r / 2 < d_y->height ? d_y->width : 0;
        for (int k = 2 * n_windows; k < x->width; k++) {
            store(to + k * LANES, zero);
        }
        for (int k = 0; r % 2 == 0 && k < n_windows; k++) {
            const float *top = row_of(x, c, r) + 2 * k * LANES,
                        *bottom = row_of(x, c, r + 1) + 2 * k * LANES;
            float *below = row_of(d_x, c, r + 1) + 2 * k * LANES;
            const float *from[4] = {top, top + LANES, bottom, bottom + LANES};
            float *target[4] = {to + 2 * k * LANES, to + (2 * k + 1) * LANES, below, below + LANES};
            window_input(kind, from, load(row_of(d_y, c, r / 2) + k * LANES), target);
        }
    }
}

// --- sums and conversions ---

void LANES_FUNCTION(add)(const EsLaneMap *a, const EsLaneMap *b, const EsLaneMap *y) {
    FOR_EACH_ROW(y) {
        const float *left = row_of(a, c, r), *right = row_of(b, c, r);
        float *to = row_of(y, c, r);
        for (int k = 0; k < y->width; k++) {
            store(to + k * LANES, load(left + k * LANES) + load(right + k * LANES));
        }
    }
}

void LANES_FUNCTION(bias)(const EsLaneMap *d_y, int is_first, float *accumulator) {
    for (int c = 0; c < d_y->channels; c++) {
        Vector sum = is_first ? broadcast(0.0f) : load(accumulator + c * LANES);
        for (int r = 0; r < d_y->height; r++) {
            for (int k = 0; k < d_y->width; k++) {
                sum += load(row_of(d_y, c, r) + k * LANES);
            }
        }
        store(accumulator + c * LANES, sum);
    }
}

void LANES_FUNCTION(from_rows)(const float *rows, int n_valid, const EsLaneMap *y) {
    size_t count = (size_t)y->channels * (size_t)(y->height * y->width);
    size_t element = 0;
    FOR_EACH_ROW(y) {
        for (int k = 0; k < y->width; k++, element++) {
            float *to = row_of(y, c, r) + k * LANES;
            for (int lane = 0; lane < LANES; lane++) {
                to[lane] = lane < n_valid ? rows[(size_t)lane * count + element] : 0.0f;
            }
        }
    }
}

void LANES_FUNCTION(to_rows)(const EsLaneMap *x, int n_valid, float *rows) {
    size_t count = (size_t)x->channels * (size_t)(x->height * x->width);
    size_t element = 0;
    FOR_EACH_ROW(x) {
        for (int k = 0; k < x->width; k++, element++) {
            for (int lane = 0; lane < n_valid; lane++) {
                rows[(size_t)lane * count + element] = row_of(x, c, r)[k * LANES + lane];
            }
        }
    }
}

// --- the table ---

// clang-format off
const EsLaneKernels LANES_FUNCTION(table) = {
    .n_lanes = LANES,
#define X(name) .name = LANES_FUNCTION(name),
    ES_LANE_FUNCTION_LIST(X)
#undef X
    .seeds = &LANES_FUNCTION(seed_table),
};
// clang-format on

// --- softmax: one row of logits per lane ---

void LANES_FUNCTION(softmax)(const EsLaneMap *x, const float *scale, const EsLaneMap *y,
                             float *maximum, float *sum) {
    Vector largest = load(x->data), total = broadcast(0.0f);
    for (int c = 1; c < x->channels; c++) {
        largest = larger(largest, load(x->data + c * x->plane));
    }
    for (int c = 0; c < x->channels; c++) {
        Vector e = negative_exponential(load(x->data + c * x->plane) - largest);
        total += e;
        if (y->data != NULL) {
            store(y->data + c * y->plane, e);
        }
    }
    for (int c = 0; c < x->channels && y->data != NULL; c++) {
        store(y->data + c * y->plane, load(y->data + c * y->plane) / total * load(scale));
    }
    store(maximum, largest);
    store(sum, total);
}
