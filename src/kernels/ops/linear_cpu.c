// Letters: E environments, N rows, I inputs, O outputs.
#include "kernels/env_data.h"
#include "kernels/kernel_variant.h"
#include "kernels/kernels.h"

typedef struct Bias {
    EsIn bias;    // [E, O]
    EsOut y;      // [E, N, O]
    EsIn d_y;     // [E, N, O]
    EsOut d_bias; // [E, O]
    int64_t N, O;
} Bias;

static void add_bias(void *context, int64_t e, int worker) {
    (void)worker;
    const Bias *job = context;
    const float *bias = es_env_f32(job->bias, e);
    for (int64_t n = 0; n < job->N; n++) {
        float *y = es_env_f32(job->y, e) + n * job->O;
        for (int64_t o = 0; o < job->O; o++) {
            y[o] += bias[o];
        }
    }
}

// outputs summed together: the inner loop runs along the row, each output in double in the order of
// the rows
#define COLUMNS 32

// a constant width keeps the sums in registers
static inline void sum_columns(const Bias *job, int64_t e, int64_t o0, int64_t width) {
    double sum[COLUMNS] = {0};
    for (int64_t n = 0; n < job->N; n++) {
        const float *d_y = es_env_f32(job->d_y, e) + n * job->O + o0;
        for (int64_t o = 0; o < width; o++) {
            sum[o] += (double)d_y[o];
        }
    }
    for (int64_t o = 0; o < width; o++) {
        es_env_f32(job->d_bias, e)[o0 + o] = (float)sum[o];
    }
}

static void sum_rows(void *context, int64_t e, int worker) {
    (void)worker;
    const Bias *job = context;
    int64_t o0 = 0;
    for (; o0 + COLUMNS <= job->O; o0 += COLUMNS) {
        sum_columns(job, e, o0, COLUMNS);
    }
    if (o0 < job->O) {
        sum_columns(job, e, o0, job->O - o0);
    }
}

void ES_CPU_KERNEL(linear_forward)(EsStream *s, EsIn x, EsIn weight, EsIn bias, EsOut y) {
    ES_CPU_KERNEL(matmul)(s, 0, 1, 0.0f, x, weight, y);
    if (bias != NULL) {
        Bias job = {.bias = bias, .y = y, .N = y->dim[1], .O = y->dim[2]};
        es_stream_parallel(s, y->dim[0], add_bias, &job);
    }
}

void ES_CPU_KERNEL(linear_backward_input)(EsStream *s, EsIn weight, EsIn d_y, EsOut d_x) {
    ES_CPU_KERNEL(matmul)(s, 0, 0, 0.0f, d_y, weight, d_x);
}

void ES_CPU_KERNEL(linear_backward_weight)(EsStream *s, EsIn x, EsIn d_y, EsOut d_weight,
                                           EsOut d_bias) {
    ES_CPU_KERNEL(matmul)(s, 1, 0, 0.0f, d_y, x, d_weight);
    if (d_bias != NULL) {
        Bias job = {.d_y = d_y, .d_bias = d_bias, .N = d_y->dim[1], .O = d_y->dim[2]};
        es_stream_parallel(s, d_y->dim[0], sum_rows, &job);
    }
}
