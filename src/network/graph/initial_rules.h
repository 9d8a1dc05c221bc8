// Initial value of one element of a parameter, written once for CPU and CUDA: a function of the
// random key and of the element's place in the slab alone.
//
// Element q of a slab uses draw q / 4: uniform values its word q % 4, Gaussian ones the pair of
// words that it shares with its neighbour, one taking the cosine and one the sine (Box and Muller).
#ifndef ES_NETWORK_INITIAL_RULES_H
#define ES_NETWORK_INITIAL_RULES_H

#include "base/math_rules.h"
#include "base/random_rules.h"

// Distribution of a parameter's initial values.
typedef enum EsInitial {
    ES_INITIAL_UNIFORM,    // in [start - bound, start + bound]; bound 0: the constant start
    ES_INITIAL_NORMAL,     // mean start, standard deviation bound
    ES_INITIAL_ORTHOGONAL, // bound times a matrix [dim 1, the rest] with orthonormal columns, or
                           // rows where those are fewer: the Q of a Gaussian matrix, R's diagonal
                           // positive (Saxe, McClelland, Ganguli, 2014); store.c alone
    ES_INITIAL_FORGET      // start in the second quarter, an LSTM's forget gates; 0 elsewhere
} EsInitial;

typedef struct EsInitialKey {
    uint64_t seed;
    uint32_t episode;
    EsPurpose purpose;
    uint32_t step;
} EsInitialKey;

typedef struct EsInitialTensor {
    int64_t count;
    int32_t initial; // EsInitial
    float bound, start;
} EsInitialTensor;

static inline ES_HOST_DEVICE EsRandom4 es_initial_draw(const EsInitialKey *key, int64_t q) {
    return es_random_draw(key->seed, key->episode, key->purpose, key->step, (uint32_t)(q / 4));
}

// Standard normal. The halves keep the logarithm and both circle functions away from 0.
static inline ES_HOST_DEVICE double es_initial_gaussian(const EsInitialKey *key, int64_t q) {
    const double pi = 3.14159265358979323846;
    EsRandom4 draw = es_initial_draw(key, q);
    int64_t pair = q % 4 / 2 * 2;
    double size = ((double)draw.word[pair] + 0.5) * 0x1p-32;
    double turn = ((double)draw.word[pair + 1] + 0.5) * 0x1p-32;
    double angle = 2.0 * pi * turn - (q % 2 == 1 ? pi / 2.0 : 0.0);
    return es_math_sqrt(-2.0 * es_math_log(size)) * es_math_cos(angle);
}

// Element k of a tensor whose first element stands at `first` in the slab. Not for ORTHOGONAL.
static inline ES_HOST_DEVICE float
es_initial_value(const EsInitialTensor *tensor, const EsInitialKey *key, int64_t first, int64_t k) {
    int64_t q = first + k;
    if (tensor->initial == ES_INITIAL_NORMAL) {
        return (float)((double)tensor->start + (double)tensor->bound * es_initial_gaussian(key, q));
    }
    if (tensor->initial == ES_INITIAL_FORGET) {
        return k >= tensor->count / 4 && k < tensor->count / 2 ? tensor->start : 0.0f;
    }
    if (!(tensor->bound > 0.0f)) {
        return tensor->start;
    }
    float uniform = es_random_uniform(es_initial_draw(key, q).word[q % 4]);
    return tensor->start + (2.0f * uniform - 1.0f) * tensor->bound;
}

#endif
