// Images of the data set into shared memory: cropped, mirrored, normalised.
#ifndef ES_GROWTH_FUSED_IMAGES_CUH
#define ES_GROWTH_FUSED_IMAGES_CUH

#include "growth/fused/fused_instance.cuh"

// Four neighbouring pixels as a crop shows them, out of two aligned words of each channel. Sizes
// and columns are multiples of 4.
struct EsFourPixels {
    int from;                   // of the first word, in bytes from the channel's start
    bool has_first, has_second; // those outside the source are black, and not read
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
    __device__ uint32_t load(const unsigned char *channel) const {
        const uint32_t *words = (const uint32_t *)(channel + from);
        uint32_t first = has_first ? words[0] : 0, second = has_second ? words[1] : 0;
        return __byte_perm(first, second, selector);
    }
};

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
};

// The chunk's images into a tile of one channel group. A thread takes four neighbouring pixels
// where the size allows, else one. Threads store theirs in different orders, so that eight of them
// meet all banks. Missing channels are read as the last one, so that no load waits for another.
template <typename T>
static __device__ __forceinline__ void es_load_images(const EsFusedArguments &args,
                                                      const EsFusedInstance &at, T *tile,
                                                      const EsTile &shape) {
    int pixels = shape.pixels(), size = shape.size, n_channels = args.net.image_channels;
    // four at a time from a border of black pixels, or none
    bool is_wide = size % 4 == 0 && args.gather.erase <= 0.0f &&
                   (args.gather.pad == 0 || args.gather.border == ES_BORDER_BLACK);
    int width = is_wide ? 4 : 1, turn = width == 4 ? (int)threadIdx.x / 2 % 4 : 0;
    EsByteScale value(args.gather, n_channels);
    for (int i = threadIdx.x * width; i < at.n_images * pixels; i += ES_FUSED_THREADS * width) {
        int image = shape.image_of(i), pixel = i - image * pixels;
        int row = shape.row_of(pixel), column = pixel - row * size;
        EsFusedSample sample = es_instance_sample(args, at, image);
        EsFourPixels four(sample.crop, size, row, column, turn);
        const unsigned char *from = args.images + (int64_t)sample.number * n_channels * pixels;
        uint32_t bytes[ES_MAX_IMAGE_CHANNELS];
#pragma unroll
        for (int c = 0; c < ES_MAX_IMAGE_CHANNELS; c++) {
            const unsigned char *channel = from + min(c, n_channels - 1) * pixels;
            bytes[c] = width == 4 ? four.load(channel)
                                  : es_gather_pixel(&args.gather, min(c, n_channels - 1), channel,
                                                    size, size, &sample.crop, row, column);
        }
        T *to = tile + shape.at(image, 0, row, column) * ES_C8;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float v[8] = {};
#pragma unroll
            for (int c = 0; c < ES_MAX_IMAGE_CHANNELS; c++) {
                v[c] = fmaf((float)(bytes[c] >> 8 * k & 0xFF), value.scale[c], value.shift[c]);
            }
            if (k < width) {
                es_c8_store(to + (k + turn) % 4 * ES_C8, v);
            }
        }
    }
}

#endif
