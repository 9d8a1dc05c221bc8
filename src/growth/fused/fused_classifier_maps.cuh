// The classifier's input from an image: the average of every map of the last block, and the values
// that go into the sums for that block's norm. A warp takes an image, eight lanes a channel group
// of it.
#ifndef ES_GROWTH_FUSED_CLASSIFIER_MAPS_CUH
#define ES_GROWTH_FUSED_CLASSIFIER_MAPS_CUH

#include "growth/fused/fused_instance.cuh"

#define ES_CLASSIFIER_C8_LANES 8

// Sums over the eight lanes that share a channel group: lane c of them gets that of v[c].
static __device__ __forceinline__ float es_classifier_sum_lanes(float (&v)[8]) {
#pragma unroll
    for (int half = 4; half > 0; half /= 2) {
        bool is_upper = threadIdx.x & half;
#pragma unroll
        for (int c = 0; c < half; c++) {
            float mine = is_upper ? v[c + half] : v[c];
            v[c] = mine + __shfl_xor_sync(0xFFFFFFFFu, is_upper ? v[c] : v[c + half], half);
        }
    }
    return v[0];
}

// The output of the last block of an instance.
template <typename T> struct EsClassifierMaps {
    const T *maps; // of the chunk's first image
    bool is_mixed; // made by a seed; else raw values of the block, as pooled

    __device__ EsClassifierMaps(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                                const EsFusedBlock &block) {
        const EsFusedMemory &memory = args.memory[b];
        int n_c8 = block.out_c8 * block.out_size * block.out_size;
        is_mixed = true;
        if (es_instance_mixes(args, at.instance, block.slot[1])) {
            maps = es_instance_shared<T>(args, at, memory.out,
                                         args.net.place[block.slot[1]].depth + 1, n_c8);
        } else if (es_instance_mixes(args, at.instance, block.slot[0])) {
            maps = es_instance_shared<T>(args, at, memory.middle,
                                         args.net.place[block.slot[0]].depth + 1, n_c8);
        } else {
            is_mixed = false;
            maps = es_instance_shared<T>(args, at, memory.pooled, args.net.block[b].depth, n_c8);
        }
    }
};

// The last block's norm; nothing is left to do to maps that a seed made.
static __device__ __forceinline__ void
es_classifier_norm_load(const EsFusedArguments &args, const EsFusedInstance &at, int b,
                        bool is_mixed, const EsNormTable &norm, int n_channels) {
    if (!is_mixed) {
        es_norm_load(args, at, b, norm);
        return;
    }
    for (int c = threadIdx.x; c < n_channels; c += ES_FUSED_THREADS) {
        norm.scale[c] = 1.0f;
        norm.shift[c] = 0.0f;
    }
}

// A lane's sums over one channel group's pixels, by channel.
struct EsClassifierSums {
    float all[8];    // of the block output
    float n_open[8]; // pixels that pass the ReLU; NaN passes. Means nothing in mixed rows,
    float open[8];   // and the sum of their raw values
};

// One pixel of one channel group of an image.
template <typename T>
static __device__ __forceinline__ void
es_classifier_add_pixel(const EsClassifierMaps<T> &from, const EsTile &tile, const EsNormC8 &norm,
                        int image, int c8, int pixel, EsClassifierSums &sums) {
    float z[8], x[8];
    es_c8_load(x, from.maps + ((image * tile.n_c8 + c8) * tile.pixels() + pixel) * ES_C8);
    norm.apply(x, z);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        bool passes = from.is_mixed || !(z[c] <= 0.0f);
        sums.all[c] += passes ? z[c] : 0.0f;
        sums.n_open[c] += passes ? 1.0f : 0.0f;
        sums.open[c] += passes ? x[c] : 0.0f;
    }
}

// Averages of an image's maps, and the inputs of the norm's sums: [2][channels], of
// EsClassifierSums. A warp takes four channel groups at a time.
template <typename T>
static __device__ __forceinline__ void
es_classifier_average(const EsClassifierMaps<T> &from, const EsTile &tile, const EsNormTable &norm,
                      int image, float *features, float *open) {
    int lane = threadIdx.x % 32, pixels = tile.pixels();
    int n_channels = tile.n_c8 * ES_C8;
    for (int first = 0; first < tile.n_c8; first += 32 / ES_CLASSIFIER_C8_LANES) {
        int c8 = first + lane / ES_CLASSIFIER_C8_LANES;
        EsClassifierSums sums = {};
        EsNormC8 coefficients(norm, c8 < tile.n_c8 ? c8 : 0);
        for (int turn = 0; turn < pixels; turn += ES_CLASSIFIER_C8_LANES) {
            int pixel = turn + lane % ES_CLASSIFIER_C8_LANES;
            if (c8 < tile.n_c8 && pixel < pixels) {
                es_classifier_add_pixel(from, tile, coefficients, image, c8, pixel, sums);
            }
        }
        float total = es_classifier_sum_lanes(sums.all),
              n_open = es_classifier_sum_lanes(sums.n_open);
        float of_open = es_classifier_sum_lanes(sums.open);
        if (c8 < tile.n_c8) {
            int channel = first * ES_C8 + lane;
            features[channel] = total / (float)pixels;
            open[channel] = n_open;
            open[n_channels + channel] = of_open;
        }
    }
}

#endif
