// Letters: E environments, N images, C channels; area = H W. Every piece is one channel of one
// environment.
#include <math.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/double_sums.h"

typedef struct Norm {
    EsNormOptions options;
    EsIn x, gamma, beta, d_y;
    EsOut mean, inv_std;
    EsOut running_mean, running_variance; // nullable, together
    EsOut y, d_x, d_gamma, d_beta;
    int64_t N, C, area;
} Norm;

static Norm norm_of(EsIn x) {
    return (Norm){.x = x, .N = x->dim[1], .C = x->dim[2], .area = x->dim[3] * x->dim[4]};
}

// channel c of image n in environment e
static float *plane_of(const Norm *v, const EsTensor *maps, int64_t e, int64_t n, int64_t c) {
    return es_env_f32(maps, e) + (n * v->C + c) * v->area;
}

// Two passes: the squares of centred values do not cancel as E[x^2] - mean^2 does.
static void compute_statistics(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t c = piece % v->C, e = piece / v->C;
    double count = (double)(v->N * v->area);
    double sum = 0.0;
    for (int64_t n = 0; n < v->N; n++) {
        sum += es_double_sum(plane_of(v, v->x, e, n, c), v->area);
    }
    double mean = sum / count;
    double squares = 0.0;
    for (int64_t n = 0; n < v->N; n++) {
        const float *x = plane_of(v, v->x, e, n, c);
        squares += es_double_centred_dot(x, mean, x, mean, v->area);
    }
    es_env_f32(v->mean, e)[c] = (float)mean;
    es_env_f32(v->inv_std, e)[c] =
        (float)(1.0 / sqrt(squares / count + (double)v->options.epsilon));
    if (v->running_mean != NULL) {
        double momentum = (double)v->options.momentum;
        double unbiased = squares / (count > 1.0 ? count - 1.0 : 1.0);
        float *running_mean = es_env_f32(v->running_mean, e) + c;
        float *running_variance = es_env_f32(v->running_variance, e) + c;
        *running_mean = (float)((1.0 - momentum) * (double)*running_mean + momentum * mean);
        *running_variance =
            (float)((1.0 - momentum) * (double)*running_variance + momentum * unbiased);
    }
}

static void apply_channel(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t c = piece % v->C, e = piece / v->C;
    float mean = es_env_f32(v->mean, e)[c];
    float slope = es_env_f32(v->inv_std, e)[c] * es_env_f32(v->gamma, e)[c];
    float beta = es_env_f32(v->beta, e)[c];
    for (int64_t n = 0; n < v->N; n++) {
        const float *x = plane_of(v, v->x, e, n, c);
        float *y = plane_of(v, v->y, e, n, c);
        for (int64_t k = 0; k < v->area; k++) {
            y[k] = (x[k] - mean) * slope + beta;
        }
    }
}

static void sum_gradients(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t c = piece % v->C, e = piece / v->C;
    double mean = (double)es_env_f32(v->mean, e)[c];
    double sum = 0.0, product = 0.0;
    for (int64_t n = 0; n < v->N; n++) {
        const float *x = plane_of(v, v->x, e, n, c);
        const float *d_y = plane_of(v, v->d_y, e, n, c);
        sum += es_double_sum(d_y, v->area);
        product += es_double_centred_dot(d_y, 0.0, x, mean, v->area);
    }
    es_env_f32(v->d_beta, e)[c] = (float)sum;
    es_env_f32(v->d_gamma, e)[c] = (float)(product * (double)es_env_f32(v->inv_std, e)[c]);
}

static void differentiate_channel(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t c = piece % v->C, e = piece / v->C;
    float count = (float)(v->N * v->area);
    float mean = es_env_f32(v->mean, e)[c];
    float inv_std = es_env_f32(v->inv_std, e)[c];
    float slope = es_env_f32(v->gamma, e)[c] * inv_std;
    float offset = es_env_f32(v->d_beta, e)[c] / count;
    float tilt = es_env_f32(v->d_gamma, e)[c] / count;
    for (int64_t n = 0; n < v->N; n++) {
        const float *x = plane_of(v, v->x, e, n, c);
        const float *d_y = plane_of(v, v->d_y, e, n, c);
        float *d_x = plane_of(v, v->d_x, e, n, c);
        for (int64_t k = 0; k < v->area; k++) {
            float xhat = (x[k] - mean) * inv_std;
            d_x[k] = slope * (d_y[k] - offset - xhat * tilt);
        }
    }
}

void es_batchnorm_statistics_cpu(EsStream *s, EsNormOptions options, EsIn x, EsOut mean,
                                 EsOut inv_std, EsOut running_mean, EsOut running_variance) {
    Norm norm = norm_of(x);
    norm.options = options;
    norm.mean = mean;
    norm.inv_std = inv_std;
    norm.running_mean = running_mean;
    norm.running_variance = running_variance;
    es_stream_parallel(s, x->dim[0] * norm.C, compute_statistics, &norm);
}

void es_batchnorm_from_running_cpu(EsStream *s, EsNormOptions options, EsIn running_mean,
                                   EsIn running_variance, EsOut mean, EsOut inv_std) {
    (void)s;
    // E * C values: too few to be worth a hand-over to other threads
    for (int64_t e = 0; e < mean->dim[0]; e++) {
        const float *from_mean = es_env_f32(running_mean, e);
        const float *from_variance = es_env_f32(running_variance, e);
        float *to_mean = es_env_f32(mean, e);
        float *to_inv_std = es_env_f32(inv_std, e);
        for (int64_t c = 0; c < mean->dim[1]; c++) {
            to_mean[c] = from_mean[c];
            to_inv_std[c] = (float)(1.0 / sqrt((double)from_variance[c] + (double)options.epsilon));
        }
    }
}

void es_batchnorm_apply_cpu(EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma, EsIn beta,
                            EsOut y) {
    Norm norm = norm_of(x);
    norm.mean = mean;
    norm.inv_std = inv_std;
    norm.gamma = gamma;
    norm.beta = beta;
    norm.y = y;
    es_stream_parallel(s, x->dim[0] * norm.C, apply_channel, &norm);
}

void es_batchnorm_backward_sums_cpu(EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn d_y,
                                    EsOut d_gamma, EsOut d_beta) {
    Norm norm = norm_of(x);
    norm.mean = mean;
    norm.inv_std = inv_std;
    norm.d_y = d_y;
    norm.d_gamma = d_gamma;
    norm.d_beta = d_beta;
    es_stream_parallel(s, x->dim[0] * norm.C, sum_gradients, &norm);
}

void es_batchnorm_backward_input_cpu(EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma,
                                     EsIn d_gamma, EsIn d_beta, EsIn d_y, EsOut d_x) {
    Norm norm = norm_of(x);
    norm.mean = mean;
    norm.inv_std = inv_std;
    norm.gamma = gamma;
    norm.d_gamma = d_gamma;
    norm.d_beta = d_beta;
    norm.d_y = d_y;
    norm.d_x = d_x;
    es_stream_parallel(s, x->dim[0] * norm.C, differentiate_channel, &norm);
}
