// The per-element rules of gather.h, written once for the CPU, its vector engine and CUDA.
#ifndef ES_KERNELS_GATHER_RULES_H
#define ES_KERNELS_GATHER_RULES_H

#include "base/random_rules.h"
#include "kernels/kernel_types.h"

// Source window of an output image.
typedef struct EsCrop {
    int row, column; // offset into the source, -pad..pad
    int flip;        // columns are mirrored after the crop
} EsCrop;

static inline ES_HOST_DEVICE EsCrop es_gather_crop(const EsGatherOptions *options, uint32_t episode,
                                                   uint32_t step, uint32_t n) {
    EsCrop crop = {0, 0, 0};
    if (options->pad > 0 || options->flip) {
        EsRandom4 r = es_random_draw(options->seed, episode, ES_PURPOSE_AUGMENTATION, step, n);
        uint32_t n_offsets = 2 * (uint32_t)options->pad + 1;
        crop.row = (int)es_random_below(r.word[0], n_offsets) - options->pad;
        crop.column = (int)es_random_below(r.word[1], n_offsets) - options->pad;
        crop.flip = options->flip && (r.word[2] >> 31);
    }
    return crop;
}

// The byte that output pixel (row, column) of one channel shows; black outside the source.
static inline ES_HOST_DEVICE unsigned char es_gather_pixel(const unsigned char *channel, int height,
                                                           int width, EsCrop crop, int row,
                                                           int column) {
    int from_row = row + crop.row;
    int from_column = (crop.flip ? width - 1 - column : column) + crop.column;
    int inside = from_row >= 0 && from_row < height && from_column >= 0 && from_column < width;
    return inside ? channel[from_row * width + from_column] : 0;
}

// Normalised value of a byte.
static inline ES_HOST_DEVICE float es_gather_value(const EsGatherOptions *options, int channel,
                                                   unsigned char pixel) {
    return ((float)pixel / 255.0f - options->mean[channel]) * options->inv_std[channel];
}

// Random key that fixes the order of one pass of environment `episode` over the data set.
static inline ES_HOST_DEVICE EsRandom4 es_gather_pass_key(uint64_t seed, uint32_t episode,
                                                          uint32_t pass) {
    return es_random_draw(seed, episode, ES_PURPOSE_DATA_ORDER, pass, 0);
}

// With shares, whose passes an episode takes part in: the first of its group's. Alone, its own.
static inline ES_HOST_DEVICE uint32_t es_gather_leader(const EsSampleOrder *order,
                                                       uint32_t episode) {
    return episode - episode % (uint32_t)order->n_shares;
}

// Number of the first of the n_images samples of a batch in the stream of the episode's leader.
static inline ES_HOST_DEVICE uint64_t es_gather_first(const EsSampleOrder *order, uint32_t episode,
                                                      uint32_t step, int64_t n_images) {
    uint32_t n_shares = (uint32_t)order->n_shares;
    return ((uint64_t)step * n_shares + episode % n_shares) * (uint64_t)n_images;
}

// Returns the sample at `position` of environment `episode`'s endless stream of passes.
static inline ES_HOST_DEVICE int32_t es_gather_sample(uint64_t seed, uint32_t episode,
                                                      uint64_t position, uint32_t n_samples) {
    uint32_t pass = (uint32_t)(position / n_samples);
    uint32_t index = (uint32_t)(position % n_samples);
    return (int32_t)es_random_permute(index, n_samples, es_gather_pass_key(seed, episode, pass));
}

#endif
