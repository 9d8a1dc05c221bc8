// A channel group's values in a 2x2 window that a pool reads, as they lie in memory: words of one
// float or two 16-bit numbers. Which pixel each channel's value came from is 16 bits per window, so
// that the gradient finds its way back with masks, without the values.
#ifndef ES_GROWTH_FUSED_SEED_WINDOW_CUH
#define ES_GROWTH_FUSED_SEED_WINDOW_CUH

#include "growth/fused/fused_tile.cuh"

// A channel group of T.
template <typename T> struct EsC8Words {
    static constexpr int COUNT = ES_C8 * (int)sizeof(T) / 4;
    uint32_t word[COUNT];

    __device__ void load(const T *from) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            uint4 bits = ((const uint4 *)from)[i / 4];
            word[i] = bits.x, word[i + 1] = bits.y, word[i + 2] = bits.z, word[i + 3] = bits.w;
        }
    }
    // From memory that nothing writes while the kernel runs.
    __device__ void fetch(const T *from) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            uint4 bits = __ldg((const uint4 *)from + i / 4);
            word[i] = bits.x, word[i + 1] = bits.y, word[i + 2] = bits.z, word[i + 3] = bits.w;
        }
    }
    __device__ void store(T *to) const {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            ((uint4 *)to)[i / 4] = make_uint4(word[i], word[i + 1], word[i + 2], word[i + 3]);
        }
    }
};

static __device__ __forceinline__ void es_words_pack(EsC8Words<float> &words, const float (&v)[8]) {
#pragma unroll
    for (int c = 0; c < 8; c++) {
        words.word[c] = __float_as_uint(v[c]);
    }
}

template <typename T>
static __device__ __forceinline__ void es_words_pack(EsC8Words<T> &words, const float (&v)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        words.word[i] = es_pair_bits(v[2 * i], v[2 * i + 1], T());
    }
}

static __device__ __forceinline__ void es_words_unpack(const EsC8Words<float> &words,
                                                       float (&v)[8]) {
#pragma unroll
    for (int c = 0; c < 8; c++) {
        v[c] = __uint_as_float(words.word[c]);
    }
}

template <typename T>
static __device__ __forceinline__ void es_words_unpack(const EsC8Words<T> &words, float (&v)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = es_pair_floats(words.word[i], T());
        v[2 * i] = pair.x, v[2 * i + 1] = pair.y;
    }
}

// --- winners ---
//
// Pixel k = 2 row + column of channel c: the bit of `column` at 8 (c % 2) + c / 2, that of `row`
// four above it. Channels of a 16-bit pair are then a byte apart, as masks of both need them.

static __device__ __forceinline__ uint32_t es_winner_code(int k) {
    return (uint32_t)((k & 1) | (k & 2) << 3);
}

// From the codes of the channels' winners.
static __device__ __forceinline__ uint32_t es_winner_bits(const uint32_t (&code)[8]) {
    uint32_t bits = 0;
#pragma unroll
    for (int c = 0; c < 8; c++) {
        bits |= code[c] << (8 * (c % 2) + c / 2);
    }
    return bits;
}

// All ones for the channels of word i whose bit is set: of `column` in plane 0, of `row` in 1.
static __device__ __forceinline__ uint32_t es_winner_mask(uint32_t bits, int plane, int i, float) {
    return 0u - (bits >> (8 * (i % 2) + 4 * plane + i / 2) & 1);
}

template <typename T>
static __device__ __forceinline__ uint32_t es_winner_mask(uint32_t bits, int plane, int i, T) {
    uint32_t apart = __byte_perm(bits, 0, 0x4140);
    return (apart >> (4 * plane + i) & 0x00010001u) * 0xFFFFu;
}

// v = the winners' values in a window of a tile with rows of `side` channel groups.
template <typename T>
static __device__ __forceinline__ void es_window_pool(uint32_t bits, const T *window, int side,
                                                      EsC8Words<T> &v) {
    EsC8Words<T> pixel[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        pixel[k].load(window + (k / 2 * side + k % 2) * ES_C8);
    }
#pragma unroll
    for (int i = 0; i < EsC8Words<T>::COUNT; i++) {
        uint32_t column = es_winner_mask(bits, 0, i, T()), row = es_winner_mask(bits, 1, i, T());
        uint32_t upper = (pixel[1].word[i] & column) | (pixel[0].word[i] & ~column);
        uint32_t lower = (pixel[3].word[i] & column) | (pixel[2].word[i] & ~column);
        v.word[i] = (lower & row) | (upper & ~row);
    }
}

// g to the winners of a window, 0 to the others.
template <typename T>
static __device__ __forceinline__ void es_window_scatter(uint32_t bits, T *window, int side,
                                                         const EsC8Words<T> &g) {
    EsC8Words<T> pixel[4];
#pragma unroll
    for (int i = 0; i < EsC8Words<T>::COUNT; i++) {
        uint32_t column = es_winner_mask(bits, 0, i, T()), row = es_winner_mask(bits, 1, i, T());
        pixel[0].word[i] = g.word[i] & ~row & ~column;
        pixel[1].word[i] = g.word[i] & ~row & column;
        pixel[2].word[i] = g.word[i] & row & ~column;
        pixel[3].word[i] = g.word[i] & row & column;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        pixel[k].store(window + (k / 2 * side + k % 2) * ES_C8);
    }
}

#endif
