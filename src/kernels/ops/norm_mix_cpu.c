// Specification of norm_mix, an environment at a time; the gradient of g is summed in double.
#include <math.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/double_sums.h"

// elements of one piece
#define BLOCK 16384

typedef struct Mix {
    EsIn x, n, g, d_y;
    EsOut y, d_x, d_n, d_g;
    int64_t count;    // elements of one environment
    int64_t n_blocks; // pieces of one environment
} Mix;

static Mix mix_of(EsIn x, EsIn n, EsIn g) {
    int64_t count = es_tensor_count(x) / ES_MAX(x->dim[0], 1);
    return (Mix){.x = x, .n = n, .g = g, .count = count, .n_blocks = (count + BLOCK - 1) / BLOCK};
}

// piece = (e, block)
static void mix_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const Mix *v = context;
    int64_t e = piece / v->n_blocks, begin = piece % v->n_blocks * BLOCK;
    int64_t end = ES_MIN(v->count, begin + BLOCK);
    const float *x = es_env_f32(v->x, e), *n = es_env_f32(v->n, e);
    float *y = es_env_f32(v->y, e);
    float t = tanhf(*es_env_f32(v->g, e));
    for (int64_t k = begin; k < end; k++) {
        y[k] = x[k] + t * (n[k] - x[k]);
    }
}

static void scale_block(const float *d_y, float factor, float *d, int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++) {
        d[k] = factor * d_y[k];
    }
}

// piece = (e, block)
static void differentiate_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const Mix *v = context;
    int64_t e = piece / v->n_blocks, begin = piece % v->n_blocks * BLOCK;
    int64_t end = ES_MIN(v->count, begin + BLOCK);
    const float *d_y = es_env_f32(v->d_y, e);
    float t = tanhf(*es_env_f32(v->g, e));
    if (v->d_x != NULL) {
        scale_block(d_y, 1.0f - t, es_env_f32(v->d_x, e), begin, end);
    }
    if (v->d_n != NULL) {
        scale_block(d_y, t, es_env_f32(v->d_n, e), begin, end);
    }
}

// piece = e
static void sum_environment(void *context, int64_t e, int worker) {
    (void)worker;
    const Mix *v = context;
    const float *x = es_env_f32(v->x, e), *n = es_env_f32(v->n, e), *d_y = es_env_f32(v->d_y, e);
    double part[ES_PARTIAL_SUMS] = {0};
    for (int64_t i = 0; i < v->count; i += ES_PARTIAL_SUMS) {
        int64_t width = ES_MIN(ES_PARTIAL_SUMS, v->count - i);
        for (int64_t j = 0; j < width; j++) {
            part[j] += (double)d_y[i + j] * ((double)n[i + j] - (double)x[i + j]);
        }
    }
    double t = tanh((double)*es_env_f32(v->g, e));
    *es_env_f32(v->d_g, e) = (float)((1.0 - t) * (1.0 + t) * es_partial_join(part));
}

void es_norm_mix_forward_cpu(EsStream *s, EsIn x, EsIn n, EsIn g, EsOut y) {
    Mix mix = mix_of(x, n, g);
    mix.y = y;
    es_stream_parallel(s, x->dim[0] * mix.n_blocks, mix_block, &mix);
}

void es_norm_mix_backward_cpu(EsStream *s, EsIn x, EsIn n, EsIn g, EsIn d_y, EsOut d_x, EsOut d_n,
                              EsOut d_g) {
    Mix mix = mix_of(x, n, g);
    mix.d_y = d_y;
    mix.d_x = d_x;
    mix.d_n = d_n;
    mix.d_g = d_g;
    if (d_g != NULL) {
        es_stream_parallel(s, x->dim[0], sum_environment, &mix);
    }
    es_stream_parallel(s, x->dim[0] * mix.n_blocks, differentiate_block, &mix);
}
