// Specification of element-wise sums and scalings; compiled for every vector width.
#include <string.h>

#include "kernels/kernel_variant.h"
#include "kernels/kernels.h"

// elements of one piece
#define BLOCK 16384

typedef struct Elements {
    const EsTensor *a, *b, *y;
    int64_t count;
} Elements;

static int64_t blocks_of(int64_t count) { return (count + BLOCK - 1) / BLOCK; }

static void add_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const Elements *job = context;
    const float *a = job->a->data;
    const float *b = job->b->data;
    float *y = job->y->data;
    int64_t end = ES_MIN(job->count, (piece + 1) * BLOCK);
    for (int64_t i = piece * BLOCK; i < end; i++) {
        y[i] = a[i] + b[i];
    }
}

void ES_CPU_KERNEL(add)(EsStream *s, EsIn a, EsIn b, EsOut y) {
    Elements job = {a, b, y, es_tensor_count(y)};
    es_stream_parallel(s, blocks_of(job.count), add_block, &job);
}

static float from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        // NaN: keep sign and a set mantissa bit, rounding could turn it into infinity
        return (uint16_t)((bits >> 16) | 0x0040u);
    }
    // round to nearest, ties to the even upper half
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static void convert_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const Elements *job = context;
    int64_t begin = piece * BLOCK;
    int64_t end = ES_MIN(job->count, begin + BLOCK);
    if (job->a->dtype == ES_DTYPE_F32) {
        const float *x = job->a->data;
        uint16_t *y = job->y->data;
        for (int64_t i = begin; i < end; i++) {
            y[i] = to_bf16(x[i]);
        }
    } else {
        const uint16_t *x = job->a->data;
        float *y = job->y->data;
        for (int64_t i = begin; i < end; i++) {
            y[i] = from_bf16(x[i]);
        }
    }
}

void ES_CPU_KERNEL(convert)(EsStream *s, EsIn x, EsOut y) {
    Elements job = {x, NULL, y, es_tensor_count(x)};
    ES_ASSERT(job.count == es_tensor_count(y));
    if (x->dtype == y->dtype) {
        memmove(y->data, x->data, es_tensor_bytes(x));
        return;
    }
    ES_ASSERT((x->dtype == ES_DTYPE_F32 && y->dtype == ES_DTYPE_BF16) ||
              (x->dtype == ES_DTYPE_BF16 && y->dtype == ES_DTYPE_F32));
    es_stream_parallel(s, blocks_of(job.count), convert_block, &job);
}
