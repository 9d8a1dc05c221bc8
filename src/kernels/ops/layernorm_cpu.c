// Letters: E environments, N rows, D features.
#include <math.h>

#include "kernels/env_data.h"
#include "kernels/kernel_variant.h"
#include "kernels/kernels.h"
#include "kernels/ops/double_sums.h"

// features whose gamma and beta gradients one piece sums
#define COLUMNS 32
// running sums of a row: enough independent additions for the widest vectors
#define PARTS 32
// rows of a piece: their means fill a cache line, so that two threads do not write into one
#define ROWS 16

typedef struct Norm {
    double epsilon;
    EsIn x, gamma, beta, d_y;
    EsOut mean, inv_std, y, d_x, d_gamma, d_beta;
    int64_t N, D;
    int64_t n_row_blocks; // of ROWS rows
    int64_t n_blocks;     // of COLUMNS features
} Norm;

// A fixed tree: the upper half onto the lower until 8 are left, then in pairs.
static double join_parts(double part[PARTS]) {
    for (int j = 0; j < 16; j++) {
        part[j] += part[j + 16];
    }
    for (int j = 0; j < 8; j++) {
        part[j] += part[j + 8];
    }
    return es_partial_join(part);
}

static double sum_of(const float *x, int64_t n) {
    double part[PARTS] = {0};
    int64_t i = 0;
    for (; i + PARTS <= n; i += PARTS) {
        for (int j = 0; j < PARTS; j++) {
            part[j] += (double)x[i + j];
        }
    }
    for (int j = 0; i + j < n; j++) {
        part[j] += (double)x[i + j];
    }
    return join_parts(part);
}

static double squares_about(const float *x, double mean, int64_t n) {
    double part[PARTS] = {0};
    int64_t i = 0;
    for (; i + PARTS <= n; i += PARTS) {
        for (int j = 0; j < PARTS; j++) {
            double distance = (double)x[i + j] - mean;
            part[j] += distance * distance;
        }
    }
    for (int j = 0; i + j < n; j++) {
        double distance = (double)x[i + j] - mean;
        part[j] += distance * distance;
    }
    return join_parts(part);
}

// sums of g = d_y gamma and of g (x - mean)
static void sum_row_gradient(const float *x, double mean, const float *d_y, const float *gamma,
                             int64_t n, double *sum, double *product) {
    double part[PARTS] = {0}, product_part[PARTS] = {0};
    int64_t i = 0;
    for (; i + PARTS <= n; i += PARTS) {
        for (int j = 0; j < PARTS; j++) {
            double g = (double)d_y[i + j] * (double)gamma[i + j];
            part[j] += g;
            product_part[j] += g * ((double)x[i + j] - mean);
        }
    }
    for (int j = 0; i + j < n; j++) {
        double g = (double)d_y[i + j] * (double)gamma[i + j];
        part[j] += g;
        product_part[j] += g * ((double)x[i + j] - mean);
    }
    *sum = join_parts(part);
    *product = join_parts(product_part);
}

static void normalise_row(const Norm *v, int64_t e, int64_t n) {
    const float *x = es_env_f32(v->x, e) + n * v->D;
    const float *gamma = es_env_f32(v->gamma, e);
    const float *beta = es_env_f32(v->beta, e);
    float *y = es_env_f32(v->y, e) + n * v->D;

    double exact_mean = sum_of(x, v->D) / (double)v->D;
    double variance = squares_about(x, exact_mean, v->D) / (double)v->D;
    float mean = (float)exact_mean;
    float inv_std = (float)(1.0 / sqrt(variance + v->epsilon));
    es_env_f32(v->mean, e)[n] = mean;
    es_env_f32(v->inv_std, e)[n] = inv_std;
    for (int64_t d = 0; d < v->D; d++) {
        y[d] = (x[d] - mean) * inv_std * gamma[d] + beta[d];
    }
}

// With g = d_y gamma and averages over the row: d_x = inv_std (g - average(g) - xhat average(g
// xhat)).
static void differentiate_row(const Norm *v, int64_t e, int64_t n) {
    const float *x = es_env_f32(v->x, e) + n * v->D;
    const float *d_y = es_env_f32(v->d_y, e) + n * v->D;
    const float *gamma = es_env_f32(v->gamma, e);
    float *d_x = es_env_f32(v->d_x, e) + n * v->D;
    float mean = es_env_f32(v->mean, e)[n], inv_std = es_env_f32(v->inv_std, e)[n];

    double sum, product;
    sum_row_gradient(x, (double)mean, d_y, gamma, v->D, &sum, &product);
    float offset = (float)(sum / (double)v->D);
    float tilt = (float)(product * (double)inv_std / (double)v->D);
    for (int64_t d = 0; d < v->D; d++) {
        float xhat = (x[d] - mean) * inv_std;
        d_x[d] = inv_std * (d_y[d] * gamma[d] - offset - xhat * tilt);
    }
}

// piece = (e, block of rows)
static void normalise_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t e = piece / v->n_row_blocks, first = piece % v->n_row_blocks * ROWS;
    for (int64_t n = first; n < ES_MIN(first + ROWS, v->N); n++) {
        normalise_row(v, e, n);
    }
}

static void differentiate_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t e = piece / v->n_row_blocks, first = piece % v->n_row_blocks * ROWS;
    for (int64_t n = first; n < ES_MIN(first + ROWS, v->N); n++) {
        differentiate_row(v, e, n);
    }
}

// Gradients of gamma and beta of features [d0, d0 + width), rows in order. A constant width keeps
// the sums in registers.
static inline void sum_columns(const Norm *v, int64_t e, int64_t d0, int64_t width) {
    double sum[COLUMNS] = {0}, product[COLUMNS] = {0};
    for (int64_t n = 0; n < v->N; n++) {
        const float *x = es_env_f32(v->x, e) + n * v->D + d0;
        const float *d_y = es_env_f32(v->d_y, e) + n * v->D + d0;
        double mean = (double)es_env_f32(v->mean, e)[n];
        double inv_std = (double)es_env_f32(v->inv_std, e)[n];
        for (int64_t d = 0; d < width; d++) {
            sum[d] += (double)d_y[d];
            product[d] += (double)d_y[d] * ((double)x[d] - mean) * inv_std;
        }
    }
    for (int64_t d = 0; d < width; d++) {
        es_env_f32(v->d_beta, e)[d0 + d] = (float)sum[d];
        es_env_f32(v->d_gamma, e)[d0 + d] = (float)product[d];
    }
}

// piece = (e, block of features)
static void sum_gradients(void *context, int64_t piece, int worker) {
    (void)worker;
    const Norm *v = context;
    int64_t e = piece / v->n_blocks, d0 = piece % v->n_blocks * COLUMNS;
    if (v->D - d0 >= COLUMNS) {
        sum_columns(v, e, d0, COLUMNS);
    } else {
        sum_columns(v, e, d0, v->D - d0);
    }
}

void ES_CPU_KERNEL(layernorm_forward)(EsStream *s, EsNormOptions options, EsIn x, EsIn gamma,
                                      EsIn beta, EsOut mean, EsOut inv_std, EsOut y) {
    Norm norm = {.epsilon = (double)options.epsilon,
                 .x = x,
                 .gamma = gamma,
                 .beta = beta,
                 .mean = mean,
                 .inv_std = inv_std,
                 .y = y,
                 .N = x->dim[1],
                 .D = x->dim[2],
                 .n_row_blocks = (x->dim[1] + ROWS - 1) / ROWS};
    es_stream_parallel(s, x->dim[0] * norm.n_row_blocks, normalise_rows, &norm);
}

void ES_CPU_KERNEL(layernorm_backward)(EsStream *s, EsIn x, EsIn mean, EsIn inv_std, EsIn gamma,
                                       EsIn d_y, EsOut d_x, EsOut d_gamma, EsOut d_beta) {
    Norm norm = {.x = x,
                 .gamma = gamma,
                 .mean = mean,
                 .inv_std = inv_std,
                 .d_y = d_y,
                 .d_x = d_x,
                 .d_gamma = d_gamma,
                 .d_beta = d_beta,
                 .N = x->dim[1],
                 .D = x->dim[2],
                 .n_row_blocks = (x->dim[1] + ROWS - 1) / ROWS,
                 .n_blocks = (x->dim[2] + COLUMNS - 1) / COLUMNS};
    es_stream_parallel(s, x->dim[0] * norm.n_blocks, sum_gradients, &norm);
    es_stream_parallel(s, x->dim[0] * norm.n_row_blocks, differentiate_rows, &norm);
}
