// ReLU, tanh and sigmoid for 8 and 16 floats per vector; tanh and sigmoid are those
// of the vector engine. An element's result does not depend on its place.
#include "kernels/kernels.h"
#include "kernels/simd.h"

// elements of one piece
#define BLOCK 16384

typedef struct Elements {
    EsActivation kind;
    const float *x;   // forward
    const float *d_y; // backward
    float *y;         // written by forward, read by backward
    float *d_x;       // backward
    int64_t count;
} Elements;

LANES_INLINE Vector apply(EsActivation kind, Vector x) {
    switch (kind) {
    case ES_ACTIVATION_TANH:
        return hyperbolic_tangent(x);
    case ES_ACTIVATION_SIGMOID:
        return logistic(x);
    default:
        return choose(not_at_most(x, broadcast(0.0f)), x, broadcast(0.0f)); // NaN stays NaN
    }
}

LANES_INLINE Vector differentiate(EsActivation kind, Vector y, Vector d_y) {
    switch (kind) {
    case ES_ACTIVATION_TANH:
        return d_y * (broadcast(1.0f) - y * y);
    case ES_ACTIVATION_SIGMOID:
        return d_y * y * (broadcast(1.0f) - y);
    default:
        return where_greater(y, broadcast(0.0f), d_y);
    }
}

// `kind` is a constant of the caller, so that the loop holds one function
LANES_INLINE void apply_all(EsActivation kind, const float *x, float *y, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        store_any(y + i, apply(kind, load_any(x + i)));
    }
    store_first(y + i, count - i, apply(kind, load_first(x + i, count - i)));
}

LANES_INLINE void differentiate_all(EsActivation kind, const float *y, const float *d_y, float *d_x,
                                    int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        store_any(d_x + i, differentiate(kind, load_any(y + i), load_any(d_y + i)));
    }
    Vector rest = differentiate(kind, load_first(y + i, count - i), load_first(d_y + i, count - i));
    store_first(d_x + i, count - i, rest);
}

static void apply_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const Elements *job = context;
    int64_t begin = piece * BLOCK, count = ES_MIN(BLOCK, job->count - begin);
    const float *x = job->x + begin;
    float *y = job->y + begin;
    switch (job->kind) {
    case ES_ACTIVATION_RELU:
        apply_all(ES_ACTIVATION_RELU, x, y, count);
        break;
    case ES_ACTIVATION_TANH:
        apply_all(ES_ACTIVATION_TANH, x, y, count);
        break;
    case ES_ACTIVATION_SIGMOID:
        apply_all(ES_ACTIVATION_SIGMOID, x, y, count);
        break;
    }
}

static void differentiate_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const Elements *job = context;
    int64_t begin = piece * BLOCK, count = ES_MIN(BLOCK, job->count - begin);
    const float *y = job->y + begin, *d_y = job->d_y + begin;
    float *d_x = job->d_x + begin;
    switch (job->kind) {
    case ES_ACTIVATION_RELU:
        differentiate_all(ES_ACTIVATION_RELU, y, d_y, d_x, count);
        break;
    case ES_ACTIVATION_TANH:
        differentiate_all(ES_ACTIVATION_TANH, y, d_y, d_x, count);
        break;
    case ES_ACTIVATION_SIGMOID:
        differentiate_all(ES_ACTIVATION_SIGMOID, y, d_y, d_x, count);
        break;
    }
}

void ES_CPU_KERNEL(activation_forward)(EsStream *s, EsActivation kind, EsIn x, EsOut y) {
    Elements job = {.kind = kind, .x = x->data, .y = y->data, .count = es_tensor_count(x)};
    es_stream_parallel(s, (job.count + BLOCK - 1) / BLOCK, apply_block, &job);
}

void ES_CPU_KERNEL(activation_backward)(EsStream *s, EsActivation kind, EsIn y, EsIn d_y,
                                        EsOut d_x) {
    Elements job = {.kind = kind,
                    .y = y->data,
                    .d_y = d_y->data,
                    .d_x = d_x->data,
                    .count = es_tensor_count(y)};
    es_stream_parallel(s, (job.count + BLOCK - 1) / BLOCK, differentiate_block, &job);
}
