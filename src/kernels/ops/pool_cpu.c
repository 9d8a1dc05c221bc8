// Letters: E environments, N images, C channels, H W height and width of x. Every piece is one
// plane (e, n, c).
#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/double_sums.h"

typedef struct Pool {
    EsPool kind;
    EsIn x, d_y;
    EsOut y, d_x;
    int64_t n_planes; // of one environment
    int64_t H, W;
} Pool;

// Offset of the first largest element of a 2x2 window in row order. NaN wins, so that divergence
// stays visible.
static int64_t largest_of(const float *window, int64_t W) {
    const int64_t offsets[4] = {0, 1, W, W + 1};
    int64_t best = 0;
    for (int i = 1; i < 4; i++) {
        float value = window[offsets[i]];
        if (value > window[best] || (value != value && window[best] == window[best])) {
            best = offsets[i];
        }
    }
    return best;
}

static void pool_plane(void *context, int64_t piece, int worker) {
    (void)worker;
    const Pool *v = context;
    int64_t plane = piece % v->n_planes, e = piece / v->n_planes;
    const float *x = es_env_f32(v->x, e) + plane * v->H * v->W;
    if (v->kind == ES_POOL_GLOBAL) {
        es_env_f32(v->y, e)[plane] = (float)(es_double_sum(x, v->H * v->W) / (double)(v->H * v->W));
        return;
    }
    int64_t rows = v->H / 2, columns = v->W / 2;
    float *y = es_env_f32(v->y, e) + plane * rows * columns;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            const float *window = x + 2 * r * v->W + 2 * c;
            if (v->kind == ES_POOL_MAX2) {
                y[r * columns + c] = window[largest_of(window, v->W)];
            } else {
                y[r * columns + c] =
                    0.25f * ((window[0] + window[1]) + (window[v->W] + window[v->W + 1]));
            }
        }
    }
}

static void differentiate_plane(void *context, int64_t piece, int worker) {
    (void)worker;
    const Pool *v = context;
    int64_t plane = piece % v->n_planes, e = piece / v->n_planes;
    int64_t area = v->H * v->W;
    float *d_x = es_env_f32(v->d_x, e) + plane * area;
    float everywhere =
        v->kind == ES_POOL_GLOBAL ? es_env_f32(v->d_y, e)[plane] / (float)area : 0.0f;
    for (int64_t k = 0; k < area; k++) {
        d_x[k] = everywhere;
    }
    if (v->kind == ES_POOL_GLOBAL) {
        return;
    }
    int64_t rows = v->H / 2, columns = v->W / 2;
    const float *x = es_env_f32(v->x, e) + plane * area;
    const float *d_y = es_env_f32(v->d_y, e) + plane * rows * columns;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            int64_t corner = 2 * r * v->W + 2 * c;
            float gradient = d_y[r * columns + c];
            if (v->kind == ES_POOL_MAX2) {
                d_x[corner + largest_of(x + corner, v->W)] = gradient;
            } else {
                d_x[corner] = d_x[corner + 1] = 0.25f * gradient;
                d_x[corner + v->W] = d_x[corner + v->W + 1] = 0.25f * gradient;
            }
        }
    }
}

void es_pool_forward_cpu(EsStream *s, EsPool kind, EsIn x, EsOut y) {
    Pool pool = {.kind = kind,
                 .x = x,
                 .y = y,
                 .n_planes = x->dim[1] * x->dim[2],
                 .H = x->dim[3],
                 .W = x->dim[4]};
    es_stream_parallel(s, x->dim[0] * pool.n_planes, pool_plane, &pool);
}

void es_pool_backward_cpu(EsStream *s, EsPool kind, EsIn x, EsIn d_y, EsOut d_x) {
    Pool pool = {.kind = kind,
                 .x = x,
                 .d_y = d_y,
                 .d_x = d_x,
                 .n_planes = x->dim[1] * x->dim[2],
                 .H = x->dim[3],
                 .W = x->dim[4]};
    es_stream_parallel(s, x->dim[0] * pool.n_planes, differentiate_plane, &pool);
}
