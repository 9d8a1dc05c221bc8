// Letters: E environments, N images, C channels; area = H W.
#include <math.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/double_sums.h"

typedef struct Norm {
    double epsilon;
    EsIn x, gamma, beta, d_y;
    EsOut mean, inv_std, y, d_x, d_gamma, d_beta;
    int64_t N, C, area;
    int64_t G, width; // groups of one image, channels of one group
} Norm;

static Norm norm_of(EsIn x, EsIn mean) {
    int64_t C = x->dim[2], G = mean->dim[2];
    return (Norm){
        .x = x, .N = x->dim[1], .C = C, .area = x->dim[3] * x->dim[4], .G = G, .width = C / G};
}

// piece = (e, n, g): a group is contiguous
static void normalise_group(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t group = piece % (v->N * v->G), e = piece / (v->N * v->G);
    int64_t channel = group % v->G * v->width;
    int64_t count = v->width * v->area;
    const float *x = es_env_f32(v->x, e) + group * count;
    const float *gamma = es_env_f32(v->gamma, e) + channel;
    const float *beta = es_env_f32(v->beta, e) + channel;
    float *y = es_env_f32(v->y, e) + group * count;

    double exact_mean = es_double_sum(x, count) / (double)count;
    double variance = es_double_centred_dot(x, exact_mean, x, exact_mean, count) / (double)count;
    float mean = (float)exact_mean;
    float inv_std = (float)(1.0 / sqrt(variance + v->epsilon));
    es_env_f32(v->mean, e)[group] = mean;
    es_env_f32(v->inv_std, e)[group] = inv_std;
    for (int64_t c = 0; c < v->width; c++) {
        float slope = inv_std * gamma[c];
        for (int64_t k = c * v->area; k < (c + 1) * v->area; k++) {
            y[k] = (x[k] - mean) * slope + beta[c];
        }
    }
}

// With g = d_y gamma and averages over the group: d_x = inv_std (g - average(g) - xhat average(g
// xhat)).
static void differentiate_group(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t group = piece % (v->N * v->G), e = piece / (v->N * v->G);
    int64_t count = v->width * v->area;
    const float *x = es_env_f32(v->x, e) + group * count;
    const float *d_y = es_env_f32(v->d_y, e) + group * count;
    const float *gamma = es_env_f32(v->gamma, e) + group % v->G * v->width;
    float *d_x = es_env_f32(v->d_x, e) + group * count;
    float mean = es_env_f32(v->mean, e)[group], inv_std = es_env_f32(v->inv_std, e)[group];

    double sum = 0.0, product = 0.0;
    for (int64_t c = 0; c < v->width; c++) {
        const float *d_plane = d_y + c * v->area;
        const float *plane = x + c * v->area;
        sum += (double)gamma[c] * es_double_sum(d_plane, v->area);
        product +=
            (double)gamma[c] * es_double_centred_dot(d_plane, 0.0, plane, (double)mean, v->area);
    }
    float offset = (float)(sum / (double)count);
    float tilt = (float)(product * (double)inv_std / (double)count);
    for (int64_t c = 0; c < v->width; c++) {
        for (int64_t k = c * v->area; k < (c + 1) * v->area; k++) {
            float xhat = (x[k] - mean) * inv_std;
            d_x[k] = inv_std * (d_y[k] * gamma[c] - offset - xhat * tilt);
        }
    }
}

// piece = (e, c): the gradients of one channel's gamma and beta, images in order
static void sum_gradients(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t e = piece / v->C, c = piece % v->C;
    double sum = 0.0, product = 0.0;
    for (int64_t n = 0; n < v->N; n++) {
        int64_t group = n * v->G + c / v->width;
        double mean = (double)es_env_f32(v->mean, e)[group];
        double inv_std = (double)es_env_f32(v->inv_std, e)[group];
        const float *x = es_env_f32(v->x, e) + (n * v->C + c) * v->area;
        const float *d_y = es_env_f32(v->d_y, e) + (n * v->C + c) * v->area;
        sum += es_double_sum(d_y, v->area);
        product += inv_std * es_double_centred_dot(d_y, 0.0, x, mean, v->area);
    }
    es_env_f32(v->d_beta, e)[c] = (float)sum;
    es_env_f32(v->d_gamma, e)[c] = (float)product;
}

void es_groupnorm_forward_cpu(EsStream *s, EsNormOptions options, EsIn x, EsIn gamma, EsIn beta,
                              EsOut mean, EsOut inv_std, EsOut y) {
    ES_ASSERT(options.n_groups == mean->dim[2]);
    Norm norm = norm_of(x, mean);
    norm.epsilon = (double)options.epsilon;
    norm.gamma = gamma;
    norm.beta = beta;
    norm.mean = mean;
    norm.inv_std = inv_std;
    norm.y = y;
    es_stream_parallel(s, x->dim[0] * norm.N * norm.G, normalise_group, &norm);
}

void es_groupnorm_backward_cpu(EsStream *s, EsNormOptions options, EsIn x, EsIn mean, EsIn inv_std,
                               EsIn gamma, EsIn d_y, EsOut d_x, EsOut d_gamma, EsOut d_beta) {
    ES_ASSERT(options.n_groups == mean->dim[2]);
    Norm norm = norm_of(x, mean);
    norm.gamma = gamma;
    norm.mean = mean;
    norm.inv_std = inv_std;
    norm.d_y = d_y;
    norm.d_x = d_x;
    norm.d_gamma = d_gamma;
    norm.d_beta = d_beta;
    es_stream_parallel(s, x->dim[0] * norm.C, sum_gradients, &norm);
    es_stream_parallel(s, x->dim[0] * norm.N * norm.G, differentiate_group, &norm);
}
