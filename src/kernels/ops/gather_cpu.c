// Batches gathered on the CPU, a few images of one environment at a time.
//
// E environments, N images of one batch, C H W their shape, M images of the data set.
#include <string.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/gather_rules.h"

#define IMAGES_PER_PIECE 16
#define ORDER_BLOCK      256 // elements of a pass at a time

typedef struct GatherOrder {
    const EsSampleOrder *order;
    EsIn episode, step;
    EsOut index;
    int64_t N;
} GatherOrder;

// Elements first, .. first + n - 1 of one pass; n <= ORDER_BLOCK. Every walk is that of
// es_random_permute, but all take a step before the next one: steps vectorise, and no walk waits
// for another's end.
static void order_block(EsRandom4 key, uint32_t n_samples, uint32_t first, int n, int32_t *index) {
    uint32_t half_bits = es_random_half_bits(n_samples);
    uint32_t element[ORDER_BLOCK];
    int place[ORDER_BLOCK]; // in `index`
    for (int i = 0; i < n; i++) {
        element[i] = first + (uint32_t)i;
        place[i] = i;
    }
    for (int n_walking = n; n_walking > 0;) {
        for (int k = 0; k < n_walking; k++) {
            element[k] = es_random_permute_bits(element[k], half_bits, key);
        }
        int n_left = 0;
        for (int k = 0; k < n_walking; k++) {
            // those still outside move up; the others have arrived
            uint32_t at = element[k];
            int i = place[k];
            index[i] = (int32_t)at;
            element[n_left] = at;
            place[n_left] = i;
            n_left += at >= n_samples;
        }
        n_walking = n_left;
    }
}

static void order_environment(void *context, int64_t e, int worker) {
    (void)worker;
    const GatherOrder *job = context;
    uint32_t episode = (uint32_t)*es_env_i32(job->episode, e);
    uint32_t leader = es_gather_leader(job->order, episode);
    uint32_t n_samples = (uint32_t)job->order->n_samples;
    uint64_t first =
        es_gather_first(job->order, episode, (uint32_t)*es_env_i32(job->step, 0), job->N);
    int32_t *index = es_env_i32(job->index, e);
    for (int64_t n = 0; n < job->N;) {
        uint64_t position = first + (uint64_t)n;
        uint32_t pass = (uint32_t)(position / n_samples);
        uint32_t start = (uint32_t)(position % n_samples);
        int64_t count = ES_MIN(ES_MIN(job->N - n, ORDER_BLOCK), (int64_t)(n_samples - start));
        order_block(es_gather_pass_key(job->order->seed, leader, pass), n_samples, start,
                    (int)count, index + n);
        n += count;
    }
}

void es_gather_order_cpu(EsStream *s, const EsSampleOrder *order, EsIn episode, EsIn step,
                         EsOut index) {
    ES_ASSERT(order->n_samples > 0 && order->n_samples <= INT32_MAX && order->n_shares > 0);
    GatherOrder job = {
        .order = order, .episode = episode, .step = step, .index = index, .N = index->dim[1]};
    es_stream_parallel(s, index->dim[0], order_environment, &job);
}

typedef struct GatherImages {
    const EsGatherOptions *options;
    EsIn images, index, episode, step;
    EsOut y;
    int64_t M, N, n_blocks;
    int C, H, W;
    float value[ES_MAX_IMAGE_CHANNELS][256]; // es_gather_value of every byte
} GatherImages;

static void gather_image(const GatherImages *job, int64_t e, int64_t n) {
    int64_t channel_size = (int64_t)job->H * job->W;
    int64_t image_size = job->C * channel_size;
    int32_t sample = es_env_i32(job->index, e)[n];
    ES_ASSERT(sample >= 0 && sample < job->M);
    float *y = es_env_f32(job->y, e) + n * image_size;
    // axis 0 of the data set counts samples, not environments; its stride is read the same way
    if (job->images->dtype == ES_DTYPE_F32) {
        memcpy(y, es_env_f32(job->images, sample), sizeof *y * (size_t)image_size);
        return;
    }
    const unsigned char *image = es_env_u8(job->images, sample);
    EsCrop crop = es_gather_crop(job->options, (uint32_t)*es_env_i32(job->episode, e),
                                 (uint32_t)*es_env_i32(job->step, 0), (uint32_t)n, job->H, job->W);
    for (int c = 0; c < job->C; c++) {
        const unsigned char *channel = image + c * channel_size;
        for (int row = 0; row < job->H; row++) {
            for (int column = 0; column < job->W; column++) {
                unsigned char pixel =
                    es_gather_pixel(job->options, c, channel, job->H, job->W, &crop, row, column);
                *y++ = job->value[c][pixel];
            }
        }
    }
}

static void gather_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const GatherImages *job = context;
    int64_t e = piece / job->n_blocks;
    int64_t begin = piece % job->n_blocks * IMAGES_PER_PIECE;
    for (int64_t n = begin; n < ES_MIN(begin + IMAGES_PER_PIECE, job->N); n++) {
        gather_image(job, e, n);
    }
}

void es_gather_images_cpu(EsStream *s, const EsGatherOptions *options, EsIn images, EsIn index,
                          EsIn episode, EsIn step, EsOut y) {
    int has_bytes = images->dtype == ES_DTYPE_U8;
    ES_ASSERT((!has_bytes || images->dim[1] <= ES_MAX_IMAGE_CHANNELS) && y->dtype == ES_DTYPE_F32);
    GatherImages job = {.options = options,
                        .images = images,
                        .index = index,
                        .episode = episode,
                        .step = step,
                        .y = y,
                        .M = images->dim[0],
                        .N = index->dim[1],
                        .C = (int)images->dim[1],
                        .H = (int)images->dim[2],
                        .W = (int)images->dim[3]};
    for (int c = 0; has_bytes && c < job.C; c++) {
        for (int pixel = 0; pixel < 256; pixel++) {
            job.value[c][pixel] = es_gather_value(options, c, (unsigned char)pixel);
        }
    }
    job.n_blocks = (job.N + IMAGES_PER_PIECE - 1) / IMAGES_PER_PIECE;
    es_stream_parallel(s, index->dim[0] * job.n_blocks, gather_block, &job);
}

// two bytes per sample are too little work to share between threads
void es_gather_labels_cpu(EsStream *s, EsIn labels, EsIn index, EsOut y) {
    (void)s;
    for (int64_t e = 0; e < index->dim[0]; e++) {
        const int32_t *samples = es_env_i32(index, e);
        int32_t *to = es_env_i32(y, e);
        for (int64_t n = 0; n < index->dim[1]; n++) {
            ES_ASSERT(samples[n] >= 0 && samples[n] < labels->dim[0]);
            to[n] = *es_env_u16(labels, samples[n]);
        }
    }
}

void es_count_steps_cpu(EsStream *s, EsOut step) {
    (void)s;
    *es_env_i32(step, 0) += 1;
}
