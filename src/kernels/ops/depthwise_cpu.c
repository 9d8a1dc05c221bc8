// Letters: E environments, N images, C channels, H W height and width, K kernel size.
#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/conv_taps.h"

typedef struct Depthwise {
    EsIn in;     // x, or d_y where gradients go back
    EsIn weight; // [E, C, K, K]
    EsOut out;   // y, or d_x
    EsIn d_y;    // for d_weight
    EsOut d_weight;
    int64_t N, C, H, W, K;
    int64_t direction; // 1: taps read at their shift; -1: at the opposite one
} Depthwise;

static Depthwise depthwise_of(EsIn map, int64_t K) {
    return (Depthwise){
        .N = map->dim[1], .C = map->dim[2], .H = map->dim[3], .W = map->dim[4], .K = K};
}

// piece = (e, n, c): one plane
static void convolve_plane(void *context, int64_t piece, int worker) {
    (void)worker;
    const Depthwise *v = context;
    int64_t c = piece % v->C, n = piece / v->C % v->N, e = piece / v->C / v->N;
    int64_t area = v->H * v->W, taps = v->K * v->K, pad = v->K / 2;
    int64_t plane = (n * v->C + c) * area;
    const float *weight = es_env_f32(v->weight, e) + c * taps;
    const float *in = es_env_f32(v->in, e) + plane;
    float *out = es_env_f32(v->out, e) + plane;
    for (int64_t k = 0; k < area; k++) {
        out[k] = 0.0f;
    }
    for (int64_t t = 0; t < taps; t++) {
        es_tap_add(out, in, weight[t], v->H, v->W, v->direction * (t / v->K - pad),
                   v->direction * (t % v->K - pad));
    }
}

// piece = (e, c): the taps of one channel, images in order
static void backward_weight_channel(void *context, int64_t piece, int worker) {
    (void)worker;
    const Depthwise *v = context;
    int64_t c = piece % v->C, e = piece / v->C;
    int64_t area = v->H * v->W, taps = v->K * v->K, pad = v->K / 2;
    const float *d_y = es_env_f32(v->d_y, e);
    const float *x = es_env_f32(v->in, e);
    float *d_weight = es_env_f32(v->d_weight, e) + c * taps;
    for (int64_t t = 0; t < taps; t++) {
        double sum = 0.0;
        for (int64_t n = 0; n < v->N; n++) {
            int64_t plane = (n * v->C + c) * area;
            sum += es_tap_dot(d_y + plane, x + plane, v->H, v->W, t / v->K - pad, t % v->K - pad);
        }
        d_weight[t] = (float)sum;
    }
}

void es_depthwise_forward_cpu(EsStream *s, EsIn x, EsIn weight, EsOut y) {
    Depthwise job = depthwise_of(x, weight->dim[2]);
    job.in = x;
    job.weight = weight;
    job.out = y;
    job.direction = 1;
    es_stream_parallel(s, x->dim[0] * job.N * job.C, convolve_plane, &job);
}

void es_depthwise_backward_input_cpu(EsStream *s, EsIn weight, EsIn d_y, EsOut d_x) {
    Depthwise job = depthwise_of(d_y, weight->dim[2]);
    job.in = d_y;
    job.weight = weight;
    job.out = d_x;
    job.direction = -1;
    es_stream_parallel(s, d_y->dim[0] * job.N * job.C, convolve_plane, &job);
}

void es_depthwise_backward_weight_cpu(EsStream *s, EsIn x, EsIn d_y, EsOut d_weight) {
    Depthwise job = depthwise_of(x, d_weight->dim[2]);
    job.in = x;
    job.d_y = d_y;
    job.d_weight = d_weight;
    es_stream_parallel(s, x->dim[0] * job.C, backward_weight_channel, &job);
}
