// A hash of 32-bit words whose parts can be computed in any order: the sum, modulo 2^64, of a mixed
// number for each (place, word). Integer sums do not depend on their order, so that threads and
// devices agree on every bit. It notices changes; it does not resist collisions made on purpose.
#ifndef ES_KERNELS_HASH_RULES_H
#define ES_KERNELS_HASH_RULES_H

#include "base/macros.h"

// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014): every bit of x reaches every bit.
static inline ES_HOST_DEVICE uint64_t es_hash_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// Returns the term of the word at this place. Multiples of an odd number keep all places distinct.
static inline ES_HOST_DEVICE uint64_t es_hash_word(uint64_t place, uint32_t word) {
    return es_hash_mix(((place + 1) * 0x9E3779B97F4A7C15u) ^ word);
}

// One number after another, in this order.
static inline ES_HOST_DEVICE uint64_t es_hash_join(uint64_t hash, uint64_t next) {
    return es_hash_mix(hash * 0x9E3779B97F4A7C15u + next);
}

#endif
