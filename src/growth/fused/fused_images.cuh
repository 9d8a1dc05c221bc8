// Images of the data set into shared memory: cropped, mirrored, normalised.
#ifndef ES_GROWTH_FUSED_IMAGES_CUH
#define ES_GROWTH_FUSED_IMAGES_CUH

#include "growth/fused/fused_instance.cuh"

// The byte of each channel that fills borders, and the one that fills erased pixels, four times in
// a word. A channel that does not exist has the last one's.
struct EsFillWords {
    uint32_t border[ES_MAX_IMAGE_CHANNELS], erased[ES_MAX_IMAGE_CHANNELS];

    __device__ EsFillWords(const EsGatherOptions &gather, int n_channels) {
#pragma unroll
        for (int c = 0; c < ES_MAX_IMAGE_CHANNELS; c++) {
            border[c] = 0x01010101u * es_gather_border(&gather, min(c, n_channels - 1));
            erased[c] = 0x01010101u * es_gather_mean(&gather, min(c, n_channels - 1));
        }
    }
};

// Four neighbouring pixels as a crop shows them, out of two aligned words of each channel. Sizes
// and columns are multiples of 4, so that a word is inside the source or outside as a whole.
struct EsFourPixels {
    int from;                   // of the first word, in bytes from the channel's start
    bool has_first, has_second; // those outside the source are border, and not read
    uint32_t selector;          // of __byte_perm: byte k is pixel (k + turn) % 4

    __device__ EsFourPixels(const EsCrop &crop, int size, int row, int column, int turn) {
        int from_row = row + crop.row;
        int first =
            (crop.flip ? size - 4 - column : column) + crop.column; // leftmost in the source
        int word = first >> 2, n_words = (unsigned)from_row < (unsigned)size ? size / 4 : 0;
        uint32_t order = crop.flip ? 0x01230123 : 0x32103210;
        from = from_row * size + 4 * word;
        has_first = (unsigned)word < (unsigned)n_words;
        has_second = (first & 3) != 0 && (unsigned)(word + 1) < (unsigned)n_words;
        selector = (order >> 4 * turn) + 0x1111u * (unsigned)(first & 3);
    }
    __device__ uint32_t load(const unsigned char *channel, uint32_t border) const {
        const uint32_t *words = (const uint32_t *)(channel + from);
        uint32_t first = has_first ? words[0] : border, second = has_second ? words[1] : border;
        return __byte_perm(first, second, selector);
    }
};

// The first n bytes of a word, in pixel order.
static __device__ __forceinline__ uint32_t es_low_bytes(int n) {
    return n <= 0 ? 0u : n >= 4 ? ~0u : (1u << 8 * n) - 1u;
}

// Ones in the bytes of four pixels from `column` on that are erased, in the order of EsFourPixels.
static __device__ __forceinline__ uint32_t es_erased_bytes(const EsCrop &crop, int row, int column,
                                                           int turn) {
    uint32_t mask =
        es_low_bytes(crop.erase_column_end - column) & ~es_low_bytes(crop.erase_column - column);
    mask = mask >> 8 * turn | mask << (32 - 8 * turn) % 32;
    return row >= crop.erase_row && row < crop.erase_row_end ? mask : 0u;
}

// A byte becomes (byte / 255 - mean) inv_std, as one multiply-add; a channel that does not exist 0.
struct EsByteScale {
    float scale[ES_MAX_IMAGE_CHANNELS], shift[ES_MAX_IMAGE_CHANNELS];

    __device__ EsByteScale(const EsGatherOptions &gather, int n_channels) {
#pragma unroll
        for (int c = 0; c < ES_MAX_IMAGE_CHANNELS; c++) {
            scale[c] = c < n_channels ? gather.inv_std[c] * (1.0f / 255.0f) : 0.0f;
            shift[c] = c < n_channels ? -gather.mean[c] * gather.inv_std[c] : 0.0f;
        }
    }
    // Pixel k of four in `bytes`.
    template <typename T>
    __device__ __forceinline__ void store(const uint32_t (&bytes)[ES_MAX_IMAGE_CHANNELS], int k,
                                          T *to) const {
        float v[8] = {};
#pragma unroll
        for (int c = 0; c < ES_MAX_IMAGE_CHANNELS; c++) {
            v[c] = fmaf((float)(bytes[c] >> 8 * k & 0xFF), scale[c], shift[c]);
        }
        es_c8_store(to, v);
    }
};

// Four pixels at a time. Threads store theirs in different orders, so that eight of them meet all
// banks. Missing channels are read as the last one, so that no load waits for another.
template <typename T>
static __device__ __forceinline__ void es_load_images_by_four(const EsFusedArguments &args,
                                                              const EsFusedInstance &at, T *tile,
                                                              const EsTile &shape) {
    int pixels = shape.pixels(), size = shape.size, n_channels = args.net.image_channels;
    int turn = (int)threadIdx.x / 2 % 4;
    EsByteScale value(args.gather, n_channels);
    EsFillWords fill(args.gather, n_channels);
    for (int i = threadIdx.x * 4; i < at.n_images * pixels; i += ES_FUSED_THREADS * 4) {
        int image = shape.image_of(i), pixel = i - image * pixels;
        int row = shape.row_of(pixel), column = pixel - row * size;
        EsFusedSample sample = es_instance_sample(args, at, image);
        EsFourPixels four(sample.crop, size, row, column, turn);
        const unsigned char *from = args.images + (int64_t)sample.number * n_channels * pixels;
        uint32_t bytes[ES_MAX_IMAGE_CHANNELS];
#pragma unroll
        for (int c = 0; c < ES_MAX_IMAGE_CHANNELS; c++) {
            bytes[c] = four.load(from + min(c, n_channels - 1) * pixels, fill.border[c]);
        }
        if (args.gather.erase > 0.0f) {
            uint32_t erased = es_erased_bytes(sample.crop, row, column, turn);
#pragma unroll
            for (int c = 0; c < ES_MAX_IMAGE_CHANNELS; c++) {
                bytes[c] = (bytes[c] & ~erased) | (fill.erased[c] & erased);
            }
        }
        T *to = tile + shape.at(image, 0, row, column) * ES_C8;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            value.store(bytes, k, to + (k + turn) % 4 * ES_C8);
        }
    }
}

// One pixel at a time: any size and border.
template <typename T>
static __device__ __forceinline__ void es_load_images_by_one(const EsFusedArguments &args,
                                                             const EsFusedInstance &at, T *tile,
                                                             const EsTile &shape) {
    int pixels = shape.pixels(), size = shape.size, n_channels = args.net.image_channels;
    EsByteScale value(args.gather, n_channels);
    for (int i = threadIdx.x; i < at.n_images * pixels; i += ES_FUSED_THREADS) {
        int image = shape.image_of(i), pixel = i - image * pixels;
        int row = shape.row_of(pixel), column = pixel - row * size;
        EsFusedSample sample = es_instance_sample(args, at, image);
        const unsigned char *from = args.images + (int64_t)sample.number * n_channels * pixels;
        uint32_t bytes[ES_MAX_IMAGE_CHANNELS];
#pragma unroll
        for (int c = 0; c < ES_MAX_IMAGE_CHANNELS; c++) {
            int channel = min(c, n_channels - 1);
            bytes[c] = es_gather_pixel(&args.gather, channel, from + channel * pixels, size, size,
                                       &sample.crop, row, column);
        }
        value.store(bytes, 0, tile + shape.at(image, 0, row, column) * ES_C8);
    }
}

// The chunk's images into a tile of one channel group. The two loops stand apart: with a choice in
// one of them its loads do not overlap.
template <typename T>
static __device__ __forceinline__ void es_load_images(const EsFusedArguments &args,
                                                      const EsFusedInstance &at, T *tile,
                                                      const EsTile &shape) {
    if (shape.size % 4 == 0 && (args.gather.pad == 0 || args.gather.border != ES_BORDER_REFLECT)) {
        es_load_images_by_four(args, at, tile, shape);
    } else {
        es_load_images_by_one(args, at, tile, shape);
    }
}

#endif
