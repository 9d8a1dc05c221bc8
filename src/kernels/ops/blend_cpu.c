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

typedef struct Row {
    int64_t e, n;
    int32_t mode;
    float alpha, share; // of the seed in y, without and with the gate
} Row;

static Row row_at(const Blend *v, int64_t piece) {
    Row row = {.e = piece / v->N, .n = piece % v->N};
    row.mode = *es_env_i32(v->mode, row.e);
    row.alpha = es_blend_clamp(*es_env_f32(v->alpha, row.e));
    // the gate of a slot without a seed may be stale memory
    int is_gated = row.mode == ES_BLEND_GATE && v->gate != NULL;
    row.share =
        es_blend_share(row.mode, row.alpha, is_gated ? es_env_f32(v->gate, row.e)[row.n] : 1.0f);
    return row;
}

// NULL for an absent tensor
static float *data_at(const Blend *v, const Row *row, const EsTensor *tensor) {
    return tensor == NULL ? NULL : es_env_f32(tensor, row->e) + row->n * v->count;
}

static void blend_row(void *context, int64_t piece, int worker) {
    (void)worker;
    const Blend *v = context;
    Row row = row_at(v, piece);
    const float *h = data_at(v, &row, v->h);
    float *y = data_at(v, &row, v->y);
    if (row.share == 0.0f) {
        memcpy(y, h, (size_t)v->count * sizeof *y);
        return;
    }
    const float *s = data_at(v, &row, v->seed);
    for (int64_t k = 0; k < v->count; k++) {
        y[k] = es_blend_value(row.mode, row.share, h[k], s[k]);
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

// Where the seed has no share in y: d_h = G, and d_seed = G while it is incubated, else 0.
static void pass_row(const Blend *v, const Row *row) {
    size_t bytes = (size_t)v->count * sizeof(float);
    const float *d_y = data_at(v, row, v->d_y);
    float *d_h = data_at(v, row, v->d_h), *d_s = data_at(v, row, v->d_seed);
    if (d_h != NULL) {
        memcpy(d_h, d_y, bytes);
    }
    if (d_s != NULL && row->mode == ES_BLEND_INCUBATE) {
        memcpy(d_s, d_y, bytes);
    } else if (d_s != NULL) {
        memset(d_s, 0, bytes);
    }
}

static void differentiate_row(void *context, int64_t piece, int worker) {
    (void)worker;
    const Blend *v = context;
    Row row = row_at(v, piece);
    const float *h = data_at(v, &row, v->h), *s = data_at(v, &row, v->seed);
    const float *d_y = data_at(v, &row, v->d_y);
    if (v->d_gate != NULL) {
        // by alpha, not by the share: a gate that has closed must be able to open again
        int is_moved = row.mode == ES_BLEND_GATE && row.alpha != 0.0f;
        es_env_f32(v->d_gate, row.e)[row.n] =
            is_moved ? (float)((double)row.alpha * sum_differences(d_y, s, h, v->count)) : 0.0f;
    }
    if (row.share == 0.0f) {
        pass_row(v, &row);
        return;
    }
    float *d_h = data_at(v, &row, v->d_h), *d_s = data_at(v, &row, v->d_seed);
    for (int64_t k = 0; k < v->count; k++) {
        EsBlendGradient gradient = es_blend_gradient(row.mode, row.share, h[k], s[k], d_y[k]);
        if (d_h != NULL) {
            d_h[k] = gradient.h;
        }
        if (d_s != NULL) {
            d_s[k] = gradient.s;
        }
    }
}

static void pass_input_row(void *context, int64_t piece, int worker) {
    (void)worker;
    const Blend *v = context;
    Row row = {.e = piece / v->N, .n = piece % v->N};
    size_t bytes = (size_t)v->count * sizeof(float);
    if (es_blend_is_mixed(*es_env_i32(v->mode, row.e))) {
        memcpy(data_at(v, &row, v->d_h), data_at(v, &row, v->d_y), bytes);
    } else {
        memset(data_at(v, &row, v->d_h), 0, bytes);
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
    start(s, &blend, h, blend_row);
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
    start(s, &blend, h, differentiate_row);
}

void es_seed_input_backward_cpu(EsStream *s, EsIn mode, EsIn d_x, EsOut d_h) {
    Blend blend = {.mode = mode, .d_y = d_x, .d_h = d_h};
    start(s, &blend, d_x, pass_input_row);
}
