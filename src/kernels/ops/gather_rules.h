// The per-element rules of gather (kernel_list.h), written once for the CPU, its vector engine and
// CUDA.
#ifndef ES_KERNELS_GATHER_RULES_H
#define ES_KERNELS_GATHER_RULES_H

#include "base/random_rules.h"
#include "kernels/kernel_types.h"

// Source window of an output image.
typedef struct EsCrop {
    int row, column; // offset into the source, -pad..pad
    int flip;        // columns are mirrored after the crop
    // the erased rectangle of the output: first row and column, and those behind its last; empty
    // where nothing is erased
    int erase_row, erase_column, erase_row_end, erase_column_end;
} EsCrop;

// A number in 0..n-1 out of 16 bits.
static inline ES_HOST_DEVICE int es_gather_below(uint32_t bits, int n) {
    return (int)((bits & 0xFFFFu) * (uint32_t)n >> 16);
}

// Up to half of height and width, anywhere.
static inline ES_HOST_DEVICE void es_gather_draw_erased(const EsGatherOptions *options,
                                                        uint32_t episode, uint32_t step, uint32_t n,
                                                        int height, int width, EsCrop *crop) {
    EsRandom4 r = es_random_draw(options->seed, episode, ES_PURPOSE_ERASING, step, n);
    if ((float)(r.word[0] >> 8) / 16777216.0f < options->erase) {
        int n_rows = 1 + es_gather_below(r.word[1], height / 2);
        int n_columns = 1 + es_gather_below(r.word[1] >> 16, width / 2);
        crop->erase_row = es_gather_below(r.word[2], height - n_rows + 1);
        crop->erase_column = es_gather_below(r.word[2] >> 16, width - n_columns + 1);
        crop->erase_row_end = crop->erase_row + n_rows;
        crop->erase_column_end = crop->erase_column + n_columns;
    }
}

static inline ES_HOST_DEVICE EsCrop es_gather_crop(const EsGatherOptions *options, uint32_t episode,
                                                   uint32_t step, uint32_t n, int height,
                                                   int width) {
    EsCrop crop = {0, 0, 0, 0, 0, 0, 0};
    if (options->pad > 0 || options->flip) {
        EsRandom4 r = es_random_draw(options->seed, episode, ES_PURPOSE_AUGMENTATION, step, n);
        uint32_t n_offsets = 2 * (uint32_t)options->pad + 1;
        crop.row = (int)es_random_below(r.word[0], n_offsets) - options->pad;
        crop.column = (int)es_random_below(r.word[1], n_offsets) - options->pad;
        crop.flip = options->flip && (r.word[2] >> 31);
    }
    if (options->erase > 0.0f) {
        es_gather_draw_erased(options, episode, step, n, height, width, &crop);
    }
    return crop;
}

// The mean of a channel as a byte: it fills what is erased.
static inline ES_HOST_DEVICE unsigned char es_gather_mean(const EsGatherOptions *options,
                                                          int channel) {
    float byte = options->mean[channel] * 255.0f + 0.5f;
    return (unsigned char)(byte < 0.0f ? 0.0f : byte > 255.0f ? 255.0f : byte);
}

// The byte outside the source, where nothing is reflected.
static inline ES_HOST_DEVICE unsigned char es_gather_border(const EsGatherOptions *options,
                                                            int channel) {
    return options->border == ES_BORDER_MEAN ? es_gather_mean(options, channel) : 0;
}

// Position i of 0..n-1 seen in mirrors at both ends.
static inline ES_HOST_DEVICE int es_gather_reflect(int i, int n) {
    return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
}

static inline ES_HOST_DEVICE int es_gather_is_erased(const EsCrop *crop, int row, int column) {
    return row >= crop->erase_row && row < crop->erase_row_end && column >= crop->erase_column &&
           column < crop->erase_column_end;
}

// The byte that output pixel (row, column) of a channel shows; `bytes` are the channel's.
static inline ES_HOST_DEVICE unsigned char
es_gather_pixel(const EsGatherOptions *options, int channel, const unsigned char *bytes, int height,
                int width, const EsCrop *crop, int row, int column) {
    int from_row = row + crop->row;
    int from_column = (crop->flip ? width - 1 - column : column) + crop->column;
    if (es_gather_is_erased(crop, row, column)) {
        return es_gather_mean(options, channel);
    }
    if (options->border == ES_BORDER_REFLECT) {
        from_row = es_gather_reflect(from_row, height);
        from_column = es_gather_reflect(from_column, width);
    }
    int inside = from_row >= 0 && from_row < height && from_column >= 0 && from_column < width;
    return inside ? bytes[from_row * width + from_column] : es_gather_border(options, channel);
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
