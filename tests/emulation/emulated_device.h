// Services of a block for device code: indices, barriers, warp collectives, atomics.
//
// A collective is one operation that all its threads reach before any goes on. Each brings its
// operands in a struct of its own; once all are there the operation runs over all of them at once,
// as the hardware's would, and writes results back. It returns NULL or what was wrong with the
// operands.
#ifndef ES_EMULATION_EMULATED_DEVICE_H
#define ES_EMULATION_EMULATED_DEVICE_H

#include <type_traits>

#include "emulated_types.h"

// set for the thread that runs; __thread, because thread_local would cost a call per access
extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };

struct EsCollective {
    const char *name;
    // operands[lane or thread]; NULL for lanes that are not in the mask
    const char *(*combine)(void **operands, unsigned n);
};

void es_emulated_warp(const EsCollective *collective, unsigned mask, void *operands);
void es_emulated_block(const EsCollective *collective, void *operands);
void es_emulated_pause(); // let other blocks of a cooperative launch run
unsigned char *es_emulated_dynamic_shared();

static inline unsigned es_emulated_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

// --- barriers ---

static inline const char *es_emulated_nothing(void **, unsigned) { return NULL; }

static inline void __syncthreads() {
    static const EsCollective collective = {"__syncthreads", es_emulated_nothing};
    es_emulated_block(&collective, NULL);
}

struct EsVote {
    int is_true;
    unsigned result;
};

static inline const char *es_emulated_count(void **operands, unsigned n) {
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) {
        count += ((EsVote *)operands[i])->is_true != 0;
    }
    for (unsigned i = 0; i < n; i++) {
        ((EsVote *)operands[i])->result = count;
    }
    return NULL;
}

static inline int __syncthreads_count(int predicate) {
    static const EsCollective collective = {"__syncthreads_count", es_emulated_count};
    EsVote vote = {predicate, 0};
    es_emulated_block(&collective, &vote);
    return (int)vote.result;
}
static inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) > 0; }
static inline int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }

static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) {
    static const EsCollective collective = {"__syncwarp", es_emulated_nothing};
    // any address will do: NULL would say that the lane is not there
    es_emulated_warp(&collective, mask, &mask);
}

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) {}

// --- warp collectives ---

static inline const char *es_emulated_ballot(void **operands, unsigned n) {
    unsigned bits = 0;
    for (unsigned lane = 0; lane < n; lane++) {
        if (operands[lane] != NULL && ((EsVote *)operands[lane])->is_true) {
            bits |= 1u << lane;
        }
    }
    for (unsigned lane = 0; lane < n; lane++) {
        if (operands[lane] != NULL) {
            ((EsVote *)operands[lane])->result = bits;
        }
    }
    return NULL;
}

static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    static const EsCollective collective = {"__ballot_sync", es_emulated_ballot};
    EsVote vote = {predicate, 0};
    es_emulated_warp(&collective, mask, &vote);
    return vote.result;
}
static inline int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) == mask;
}

template <typename V> struct EsShuffle {
    V value, result;
    unsigned source; // lane
};

template <typename V> static const char *es_emulated_exchange(void **operands, unsigned n) {
    for (unsigned lane = 0; lane < n; lane++) {
        EsShuffle<V> *mine = (EsShuffle<V> *)operands[lane];
        if (mine != NULL) {
            if (operands[mine->source] == NULL) {
                return "a lane reads from one that is not in the mask";
            }
            mine->result = ((EsShuffle<V> *)operands[mine->source])->value;
        }
    }
    return NULL;
}

template <typename V> static inline V es_emulated_shuffle(unsigned mask, V value, unsigned source) {
    static const EsCollective collective = {"__shfl_sync", es_emulated_exchange<V>};
    EsShuffle<V> shuffle = {value, value, source};
    es_emulated_warp(&collective, mask, &shuffle);
    return shuffle.result;
}

// Lanes that would read from outside their part of `width` lanes get their own value.
template <typename V>
static inline V __shfl_sync(unsigned mask, V value, int source, int width = 32) {
    unsigned first = es_emulated_lane() & ~((unsigned)width - 1);
    return es_emulated_shuffle(mask, value, first + ((unsigned)source & ((unsigned)width - 1)));
}
template <typename V>
static inline V __shfl_xor_sync(unsigned mask, V value, int lanes, int width = 32) {
    unsigned lane = es_emulated_lane(), source = lane ^ (unsigned)lanes;
    unsigned end = (lane & ~((unsigned)width - 1)) + (unsigned)width;
    return es_emulated_shuffle(mask, value, source < end ? source : lane);
}
template <typename V>
static inline V __shfl_down_sync(unsigned mask, V value, unsigned lanes, int width = 32) {
    unsigned lane = es_emulated_lane(), end = (lane & ~((unsigned)width - 1)) + (unsigned)width;
    return es_emulated_shuffle(mask, value, lane + lanes < end ? lane + lanes : lane);
}
template <typename V>
static inline V __shfl_up_sync(unsigned mask, V value, unsigned lanes, int width = 32) {
    unsigned lane = es_emulated_lane(), first = lane & ~((unsigned)width - 1);
    return es_emulated_shuffle(mask, value, lane >= first + lanes ? lane - lanes : lane);
}

template <typename V> static inline V __reduce_add_sync(unsigned mask, V value) {
    V sum = 0;
    for (unsigned lane = 0; lane < 32; lane++) {
        if ((mask >> lane) & 1) {
            sum += es_emulated_shuffle(mask, value, lane);
        }
    }
    return sum;
}
template <typename V> static inline V __reduce_max_sync(unsigned mask, V value) {
    V most = value;
    for (unsigned lane = 0; lane < 32; lane++) {
        if ((mask >> lane) & 1) {
            V other = es_emulated_shuffle(mask, value, lane);
            most = other > most ? other : most;
        }
    }
    return most;
}

// --- atomics, integers alone: sums of floats would depend on the order ---

// the type of the memory decides, as overloads would
template <typename V> using EsSame = std::common_type_t<V>;

template <typename V> static inline V atomicAdd(V *p, EsSame<V> v) {
    static_assert(V(1) / 2 == 0, "no floating-point atomics");
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
template <typename V> static inline V atomicSub(V *p, EsSame<V> v) {
    static_assert(V(1) / 2 == 0, "no floating-point atomics");
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);
}
template <typename V> static inline V atomicOr(V *p, EsSame<V> v) {
    return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);
}
template <typename V> static inline V atomicAnd(V *p, EsSame<V> v) {
    return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);
}
template <typename V> static inline V atomicXor(V *p, EsSame<V> v) {
    return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);
}
template <typename V> static inline V atomicExch(V *p, EsSame<V> v) {
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
template <typename V> static inline V atomicCAS(V *p, EsSame<V> wanted, EsSame<V> v) {
    V old = wanted;
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return old;
}
template <typename V> static inline V atomicMax(V *p, EsSame<V> v) {
    V old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
    while (old < v &&
           !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return old;
}
template <typename V> static inline V atomicMin(V *p, EsSame<V> v) {
    V old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
    while (v < old &&
           !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return old;
}

// --- loads ---

template <typename V> static inline V __ldg(const V *p) { return *p; }
template <typename V> static inline V __ldcg(const V *p) { return *p; }
template <typename V> static inline V __ldcs(const V *p) { return *p; }
template <typename V> static inline void __stcg(V *p, V v) { *p = v; }
template <typename V> static inline void __stcs(V *p, V v) { *p = v; }

static inline long long clock64() { return 0; }

#endif
