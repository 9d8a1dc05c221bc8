// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011), and permutations without a table. Written once for CPU
// and CUDA.
//
// Every draw is a pure function of (run seed, episode, purpose, step, draw), so results do not
// depend on threads, on the order of environments, or on other draws.
//
//     EsRandom4 r = es_random_draw(run_seed, episode, ES_PURPOSE_DROPOUT, step, index / 4);
//     float u = es_random_uniform(r.word[index % 4]);
#ifndef ES_BASE_RANDOM_RULES_H
#define ES_BASE_RANDOM_RULES_H

#include "base/macros.h"

// Purpose of a draw; part of the counter, so purposes never share numbers. Append only: the values
// are in recorded runs.
typedef enum EsPurpose {
    ES_PURPOSE_INITIALISATION = 0,
    ES_PURPOSE_DATA_ORDER = 1,
    ES_PURPOSE_AUGMENTATION = 2,
    ES_PURPOSE_GERMINATION = 3,
    ES_PURPOSE_ACTION = 4,
    ES_PURPOSE_DROPOUT = 5,
    ES_PURPOSE_SHAPLEY = 6,
    ES_PURPOSE_EVALUATION = 7,
    ES_PURPOSE_DATA_GENERATION = 8,
    ES_PURPOSE_ERASING = 9,
    ES_PURPOSE_DATA_SPLIT = 10,
    ES_PURPOSE_TASK = 11,
    ES_PURPOSE_ROUTES = 12
} EsPurpose;

typedef struct EsRandom4 {
    uint32_t word[4];
} EsRandom4;

static inline ES_HOST_DEVICE EsRandom4 es_philox4x32(EsRandom4 counter, uint32_t key0,
                                                     uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * counter.word[0];
        uint64_t product1 = (uint64_t)0xCD9E8D57u * counter.word[2];
        EsRandom4 next;
        next.word[0] = (uint32_t)(product1 >> 32) ^ counter.word[1] ^ key0;
        next.word[1] = (uint32_t)product1;
        next.word[2] = (uint32_t)(product0 >> 32) ^ counter.word[3] ^ key1;
        next.word[3] = (uint32_t)product0;
        counter = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

static inline ES_HOST_DEVICE EsRandom4 es_random_draw(uint64_t seed, uint32_t episode,
                                                      EsPurpose purpose, uint32_t step,
                                                      uint32_t draw) {
    EsRandom4 counter;
    counter.word[0] = episode;
    counter.word[1] = (uint32_t)purpose;
    counter.word[2] = step;
    counter.word[3] = draw;
    return es_philox4x32(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}

// [0, 1), 24 bits: exact in float32.
static inline ES_HOST_DEVICE float es_random_uniform(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

// [0, n) by multiplication; n up to a few thousand keeps the bias below 1e-6.
static inline ES_HOST_DEVICE uint32_t es_random_below(uint32_t word, uint32_t n) {
    return (uint32_t)(((uint64_t)word * n) >> 32);
}

// Half of the bits of the smallest even number of bits that hold [0, count).
static inline ES_HOST_DEVICE uint32_t es_random_half_bits(uint32_t count) {
    uint32_t half_bits = 1;
    while (half_bits < 16 && (1u << (2 * half_bits)) < count) {
        half_bits++;
    }
    return half_bits;
}

// A permutation of all numbers of 2 half_bits bits, fixed by the four words of `key`: a six-round
// Feistel network.
static inline ES_HOST_DEVICE uint32_t es_random_permute_bits(uint32_t index, uint32_t half_bits,
                                                             EsRandom4 key) {
    uint32_t mask = (1u << half_bits) - 1;
    uint32_t left = index >> half_bits;
    uint32_t right = index & mask;
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t mixed = (right + key.word[round & 3u]) * 0x9E3779B1u + round * 0x85EBCA6Bu;
        mixed = (mixed ^ (mixed >> 15)) * 0xC2B2AE35u;
        mixed ^= mixed >> 13;
        uint32_t next = left ^ (mixed & mask);
        left = right;
        right = next;
    }
    return (left << half_bits) | right;
}

// Element `index` of a permutation of [0, count): that of all numbers of as many bits, walked until
// it lands inside (cycle walking).
static inline ES_HOST_DEVICE uint32_t es_random_permute(uint32_t index, uint32_t count,
                                                        EsRandom4 key) {
    uint32_t half_bits = es_random_half_bits(count);
    do {
        index = es_random_permute_bits(index, half_bits, key);
    } while (index >= count);
    return index;
}

#endif
