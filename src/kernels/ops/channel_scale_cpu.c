// Letters: E environments, N images, C channels, H W height and width. Every piece is one plane
// (e, n, c).
#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/double_sums.h"

typedef struct Scale {
    EsIn x, w, d_y;
    EsOut y, d_x, d_w;
    int64_t n_planes; // of one environment
    int64_t area;
} Scale;

static void scale_plane(void *context, int64_t piece, int worker) {
    (void)worker;
    const Scale *v = context;
    int64_t plane = piece % v->n_planes, e = piece / v->n_planes;
    float w = es_env_f32(v->w, e)[plane];
    const float *x = es_env_f32(v->x, e) + plane * v->area;
    float *y = es_env_f32(v->y, e) + plane * v->area;
    for (int64_t k = 0; k < v->area; k++) {
        y[k] = x[k] * w;
    }
}

static void differentiate_plane(void *context, int64_t piece, int worker) {
    (void)worker;
    const Scale *v = context;
    int64_t plane = piece % v->n_planes, e = piece / v->n_planes;
    const float *d_y = es_env_f32(v->d_y, e) + plane * v->area;
    if (v->d_x != NULL) {
        float w = es_env_f32(v->w, e)[plane];
        float *d_x = es_env_f32(v->d_x, e) + plane * v->area;
        for (int64_t k = 0; k < v->area; k++) {
            d_x[k] = d_y[k] * w;
        }
    }
    if (v->d_w != NULL) {
        const float *x = es_env_f32(v->x, e) + plane * v->area;
        es_env_f32(v->d_w, e)[plane] = (float)es_double_centred_dot(d_y, 0.0, x, 0.0, v->area);
    }
}

void es_channel_scale_forward_cpu(EsStream *s, EsIn x, EsIn w, EsOut y) {
    Scale scale = {
        .x = x, .w = w, .y = y, .n_planes = x->dim[1] * x->dim[2], .area = x->dim[3] * x->dim[4]};
    es_stream_parallel(s, x->dim[0] * scale.n_planes, scale_plane, &scale);
}

void es_channel_scale_backward_cpu(EsStream *s, EsIn x, EsIn w, EsIn d_y, EsOut d_x, EsOut d_w) {
    Scale scale = {.x = x,
                   .w = w,
                   .d_y = d_y,
                   .d_x = d_x,
                   .d_w = d_w,
                   .n_planes = x->dim[1] * x->dim[2],
                   .area = x->dim[3] * x->dim[4]};
    es_stream_parallel(s, x->dim[0] * scale.n_planes, differentiate_plane, &scale);
}
