// Arrays that grow on demand.
#ifndef ES_PROOF_PROOF_ARRAY_H
#define ES_PROOF_PROOF_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/memory.h"
#include "esper/status.h"

// elements of the first array that is made
#define ES_PROOF_FIRST_CAPACITY 64

static inline int64_t es_proof_array_capacity_for(int64_t wanted) {
    return ES_MAX(wanted + wanted / 2, ES_PROOF_FIRST_CAPACITY);
}

// Makes an owned array of `used` elements hold at least `wanted`; *capacity says how many fit, half
// as much again as was asked for. New memory is zero. After a failure the array is as it was.
static inline EsStatus es_proof_array_grow(void **array, size_t element_bytes, int64_t used,
                                           int64_t wanted, int64_t *capacity) {
    if (wanted <= *capacity && *array != NULL) {
        return ES_STATUS_OK;
    }
    int64_t more = es_proof_array_capacity_for(wanted);
    ES_TRY(es_reallocate(array, element_bytes * (size_t)used, element_bytes * (size_t)more));
    *capacity = more;
    return ES_STATUS_OK;
}

// Capacity of an array that grew one by one to `count` elements; *before is its capacity until the
// last move, when both are in memory.
static inline int64_t es_proof_array_capacity(int64_t count, int64_t *before) {
    int64_t capacity = *before = 0;
    while (capacity < count) {
        *before = capacity;
        capacity = es_proof_array_capacity_for(capacity + 1);
    }
    return capacity;
}

#endif
