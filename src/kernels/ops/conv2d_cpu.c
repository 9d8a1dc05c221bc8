// Letters: E environments, N images, I and O channels in and out, H W height and width, K kernel
// size.
#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/conv_taps.h"

typedef struct Conv {
    EsIn x, weight, d_y;
    EsIn bias; // nullable
    EsOut y, d_x, d_weight;
    EsOut d_bias; // nullable
    int64_t N, I, O, H, W, K;
} Conv;

static Conv conv_of(EsIn input_side, EsIn output_side, int64_t K) {
    return (Conv){.N = input_side->dim[1],
                  .I = input_side->dim[2],
                  .O = output_side->dim[2],
                  .H = input_side->dim[3],
                  .W = input_side->dim[4],
                  .K = K};
}

// piece = (e, n, o): one plane of y
static void forward_plane(void *context, int64_t piece, int worker) {
    (void)worker;
    const Conv *v = context;
    int64_t o = piece % v->O, n = piece / v->O % v->N, e = piece / v->O / v->N;
    int64_t area = v->H * v->W, taps = v->K * v->K, pad = v->K / 2;
    float *y = es_env_f32(v->y, e) + (n * v->O + o) * area;
    float bias = v->bias == NULL ? 0.0f : es_env_f32(v->bias, e)[o];
    for (int64_t k = 0; k < area; k++) {
        y[k] = bias;
    }
    for (int64_t i = 0; i < v->I; i++) {
        const float *x = es_env_f32(v->x, e) + (n * v->I + i) * area;
        const float *weight = es_env_f32(v->weight, e) + (o * v->I + i) * taps;
        for (int64_t t = 0; t < taps; t++) {
            es_tap_add(y, x, weight[t], v->H, v->W, t / v->K - pad, t % v->K - pad);
        }
    }
}

// piece = (e, n, i): one plane of d_x. A tap that read x at a shift sends its gradient back at the
// opposite shift.
static void backward_input_plane(void *context, int64_t piece, int worker) {
    (void)worker;
    const Conv *v = context;
    int64_t i = piece % v->I, n = piece / v->I % v->N, e = piece / v->I / v->N;
    int64_t area = v->H * v->W, taps = v->K * v->K, pad = v->K / 2;
    float *d_x = es_env_f32(v->d_x, e) + (n * v->I + i) * area;
    for (int64_t k = 0; k < area; k++) {
        d_x[k] = 0.0f;
    }
    for (int64_t o = 0; o < v->O; o++) {
        const float *d_y = es_env_f32(v->d_y, e) + (n * v->O + o) * area;
        const float *weight = es_env_f32(v->weight, e) + (o * v->I + i) * taps;
        for (int64_t t = 0; t < taps; t++) {
            es_tap_add(d_x, d_y, weight[t], v->H, v->W, pad - t / v->K, pad - t % v->K);
        }
    }
}

// piece = (e, o): the weights of one output channel, images in order
static void backward_weight_channel(void *context, int64_t piece, int worker) {
    (void)worker;
    const Conv *v = context;
    int64_t o = piece % v->O, e = piece / v->O;
    int64_t area = v->H * v->W, taps = v->K * v->K, pad = v->K / 2;
    const float *all_d_y = es_env_f32(v->d_y, e);
    const float *all_x = es_env_f32(v->x, e);
    for (int64_t i = 0; i < v->I; i++) {
        float *d_weight = es_env_f32(v->d_weight, e) + (o * v->I + i) * taps;
        for (int64_t t = 0; t < taps; t++) {
            double sum = 0.0;
            for (int64_t n = 0; n < v->N; n++) {
                const float *d_y = all_d_y + (n * v->O + o) * area;
                const float *x = all_x + (n * v->I + i) * area;
                sum += es_tap_dot(d_y, x, v->H, v->W, t / v->K - pad, t % v->K - pad);
            }
            d_weight[t] = (float)sum;
        }
    }
    if (v->d_bias != NULL) {
        double sum = 0.0;
        for (int64_t n = 0; n < v->N; n++) {
            sum += es_double_sum(all_d_y + (n * v->O + o) * area, area);
        }
        es_env_f32(v->d_bias, e)[o] = (float)sum;
    }
}

void es_conv2d_forward_cpu(EsStream *s, EsIn x, EsIn weight, EsIn bias, EsOut y) {
    Conv conv = conv_of(x, y, weight->dim[3]);
    conv.x = x;
    conv.weight = weight;
    conv.bias = bias;
    conv.y = y;
    es_stream_parallel(s, x->dim[0] * conv.N * conv.O, forward_plane, &conv);
}

void es_conv2d_backward_input_cpu(EsStream *s, EsIn weight, EsIn d_y, EsOut d_x) {
    Conv conv = conv_of(d_x, d_y, weight->dim[3]);
    conv.weight = weight;
    conv.d_y = d_y;
    conv.d_x = d_x;
    es_stream_parallel(s, d_x->dim[0] * conv.N * conv.I, backward_input_plane, &conv);
}

void es_conv2d_backward_weight_cpu(EsStream *s, EsIn x, EsIn d_y, EsOut d_weight, EsOut d_bias) {
    Conv conv = conv_of(x, d_y, d_weight->dim[3]);
    conv.x = x;
    conv.d_y = d_y;
    conv.d_weight = d_weight;
    conv.d_bias = d_bias;
    es_stream_parallel(s, x->dim[0] * conv.O, backward_weight_channel, &conv);
}
