// Specification of ReLU, tanh and sigmoid: plain loops over whole tensors.
#include <math.h>

#include "kernels/kernels.h"

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

static void apply_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const Elements *job = context;
    int64_t begin = piece * BLOCK;
    int64_t end = ES_MIN(job->count, begin + BLOCK);
    const float *x = job->x;
    float *y = job->y;
    switch (job->kind) {
    case ES_ACTIVATION_RELU:
        for (int64_t i = begin; i < end; i++) {
            // in this order NaN, which is not <= 0, stays NaN
            y[i] = x[i] <= 0.0f ? 0.0f : x[i];
        }
        break;
    case ES_ACTIVATION_TANH:
        for (int64_t i = begin; i < end; i++) {
            y[i] = tanhf(x[i]);
        }
        break;
    case ES_ACTIVATION_SIGMOID:
        for (int64_t i = begin; i < end; i++) {
            y[i] = 1.0f / (1.0f + expf(-x[i]));
        }
        break;
    }
}

static void differentiate_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const Elements *job = context;
    int64_t begin = piece * BLOCK;
    int64_t end = ES_MIN(job->count, begin + BLOCK);
    const float *y = job->y;
    const float *d_y = job->d_y;
    float *d_x = job->d_x;
    switch (job->kind) {
    case ES_ACTIVATION_RELU:
        for (int64_t i = begin; i < end; i++) {
            d_x[i] = y[i] > 0.0f ? d_y[i] : 0.0f;
        }
        break;
    case ES_ACTIVATION_TANH:
        for (int64_t i = begin; i < end; i++) {
            d_x[i] = d_y[i] * (1.0f - y[i] * y[i]);
        }
        break;
    case ES_ACTIVATION_SIGMOID:
        for (int64_t i = begin; i < end; i++) {
            d_x[i] = d_y[i] * y[i] * (1.0f - y[i]);
        }
        break;
    }
}

void es_activation_forward_cpu(EsStream *s, EsActivation kind, EsIn x, EsOut y) {
    Elements job = {.kind = kind, .x = x->data, .y = y->data, .count = es_tensor_count(x)};
    es_stream_parallel(s, (job.count + BLOCK - 1) / BLOCK, apply_block, &job);
}

void es_activation_backward_cpu(EsStream *s, EsActivation kind, EsIn y, EsIn d_y, EsOut d_x) {
    Elements job = {.kind = kind,
                    .y = y->data,
                    .d_y = d_y->data,
                    .d_x = d_x->data,
                    .count = es_tensor_count(y)};
    es_stream_parallel(s, (job.count + BLOCK - 1) / BLOCK, differentiate_block, &job);
}
