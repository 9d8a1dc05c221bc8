// Letters: E environments, N images. Every piece is one image (e, n), a row of `count` elements.
#include <string.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/blend_rules.h"
#include "kernels/ops/double_sums.h"

typedef struct Blend {
    EsIn h, seed, gate, alpha, mode, d_y;
    EsOut y, d_h, d_seed, d_gate;
    int64_t N, count;
} Blend;

typedef struct Image {
    int64_t e, n;
    int32_t mode;       // EsBlendMode
    int32_t closed;     // bits ES_BLEND_CLOSED_*
    float alpha, share; // of the seed in y, without and with the gate
} Image;

static Image image_at(const Blend *v, int64_t piece) {
    Image image = {.e = piece / v->N, .n = piece % v->N};
    int32_t word = *es_env_i32(v->mode, image.e);
    image.mode = es_blend_mode(word);
    image.closed = word ^ image.mode;
    image.alpha = es_blend_clamp(*es_env_f32(v->alpha, image.e));
    // the gate of a slot without a seed may be stale memory
    int is_gated = image.mode == ES_BLEND_GATE && v->gate != NULL;
    image.share = es_blend_share(image.mode, image.alpha,
                                 is_gated ? es_env_f32(v->gate, image.e)[image.n] : 1.0f);
    return image;
}

// NULL for an absent tensor
static float *data_at(const Blend *v, const Image *image, const EsTensor *tensor) {
    return tensor == NULL ? NULL : es_env_f32(tensor, image->e) + image->n * v->count;
}

static void blend_image(void *context, int64_t piece, int worker) {
    (void)worker;
    const Blend *v = context;
    Image image = image_at(v, piece);
    const float *h = data_at(v, &image, v->h);
    float *y = data_at(v, &image, v->y);
    if (image.share == 0.0f) {
        memcpy(y, h, (size_t)v->count * sizeof *y);
        return;
    }
    const float *s = data_at(v, &image, v->seed);
    for (int64_t k = 0; k < v->count; k++) {
        y[k] = es_blend_value(image.mode, image.share, h[k], s[k]);
    }
}

// sum of d_y (s - h), in the order of double_sums.h
static double sum_differences(const float *d_y, const float *s, const float *h, int64_t n) {
    double part[ES_PARTIAL_SUMS] = {0};
    for (int64_t i = 0; i < n; i += ES_PARTIAL_SUMS) {
        int64_t width = ES_MIN(ES_PARTIAL_SUMS, n - i);
        for (int64_t j = 0; j < width; j++) {
            part[j] += (double)d_y[i + j] * ((double)s[i + j] - (double)h[i + j]);
        }
    }
    return es_partial_join(part);
}

// Backward of an image in which the seed has no share in y: d_h = G, and d_seed = G while it is
// incubated, else 0.
static void pass_image(const Blend *v, const Image *image) {
    size_t bytes = (size_t)v->count * sizeof(float);
    const float *d_y = data_at(v, image, v->d_y);
    float *d_h = data_at(v, image, v->d_h), *d_s = data_at(v, image, v->d_seed);
    if (d_h != NULL) {
        memcpy(d_h, d_y, bytes);
    }
    if (d_s != NULL && image->mode == ES_BLEND_INCUBATE) {
        memcpy(d_s, d_y, bytes);
    } else if (d_s != NULL) {
        memset(d_s, 0, bytes);
    }
}

// The gradients of an image with both ways open.
static void differentiate_open(const Blend *v, const Image *image) {
    const float *h = data_at(v, image, v->h), *s = data_at(v, image, v->seed);
    const float *d_y = data_at(v, image, v->d_y);
    if (v->d_gate != NULL) {
        // by alpha, not by the share: a gate that has closed must be able to open again
        int is_moved = image->mode == ES_BLEND_GATE && image->alpha != 0.0f;
        es_env_f32(v->d_gate, image->e)[image->n] =
            is_moved ? (float)((double)image->alpha * sum_differences(d_y, s, h, v->count)) : 0.0f;
    }
    if (image->share == 0.0f) {
        pass_image(v, image);
        return;
    }
    float *d_h = data_at(v, image, v->d_h), *d_s = data_at(v, image, v->d_seed);
    for (int64_t k = 0; k < v->count; k++) {
        EsBlendGradient gradient = es_blend_gradient(image->mode, image->share, h[k], s[k], d_y[k]);
        if (d_h != NULL) {
            d_h[k] = gradient.h;
        }
        if (d_s != NULL) {
            d_s[k] = gradient.s;
        }
    }
}

static void differentiate_image(void *context, int64_t piece, int worker) {
    (void)worker;
    const Blend *v = context;
    Image image = image_at(v, piece);
    size_t bytes = (size_t)v->count * sizeof(float);
    differentiate_open(v, &image);
    // afterwards: a gradient may lie where d_y is
    if ((image.closed & ES_BLEND_CLOSED_HOST) && v->d_h != NULL) {
        memset(data_at(v, &image, v->d_h), 0, bytes);
    }
    if ((image.closed & ES_BLEND_CLOSED_SEED) && v->d_seed != NULL) {
        memset(data_at(v, &image, v->d_seed), 0, bytes);
    }
    if ((image.closed & ES_BLEND_CLOSED_SEED) && v->d_gate != NULL) {
        es_env_f32(v->d_gate, image.e)[image.n] = 0;
    }
}

static void pass_input_image(void *context, int64_t piece, int worker) {
    (void)worker;
    const Blend *v = context;
    Image image = {.e = piece / v->N, .n = piece % v->N};
    size_t bytes = (size_t)v->count * sizeof(float);
    if (es_blend_is_mixed(es_blend_mode(*es_env_i32(v->mode, image.e)))) {
        memcpy(data_at(v, &image, v->d_h), data_at(v, &image, v->d_y), bytes);
    } else {
        memset(data_at(v, &image, v->d_h), 0, bytes);
    }
}

static void start(EsStream *s, Blend *blend, const EsTensor *shape, EsPieceFunction function) {
    int64_t n_rows = shape->dim[0] * shape->dim[1];
    blend->N = shape->dim[1];
    blend->count = n_rows > 0 ? es_tensor_count(shape) / n_rows : 0;
    es_stream_parallel(s, n_rows, function, blend);
}

void es_blend_forward_cpu(EsStream *s, EsIn h, EsIn seed, EsIn gate, EsIn alpha, EsIn mode,
                          EsOut y) {
    Blend blend = {.h = h, .seed = seed, .gate = gate, .alpha = alpha, .mode = mode, .y = y};
    start(s, &blend, h, blend_image);
}

void es_blend_backward_cpu(EsStream *s, EsIn h, EsIn seed, EsIn gate, EsIn alpha, EsIn mode,
                           EsIn d_y, EsOut d_h, EsOut d_seed, EsOut d_gate) {
    Blend blend = {.h = h,
                   .seed = seed,
                   .gate = gate,
                   .alpha = alpha,
                   .mode = mode,
                   .d_y = d_y,
                   .d_h = d_h,
                   .d_seed = d_seed,
                   .d_gate = d_gate};
    start(s, &blend, h, differentiate_image);
}

void es_seed_input_backward_cpu(EsStream *s, EsIn mode, EsIn d_x, EsOut d_h) {
    Blend blend = {.mode = mode, .d_y = d_x, .d_h = d_h};
    start(s, &blend, d_x, pass_input_image);
}
