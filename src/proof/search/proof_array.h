// Arrays that grow on demand.
#ifndef ES_PROOF_PROOF_ARRAY_H
#define ES_PROOF_PROOF_ARRAY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "esper/status.h"

// elements of the first array that is made
#define ES_PROOF_FIRST_CAPACITY 64

// Make an owned array of `used` elements hold at least `wanted`; *capacity says how many fit, half
// as much again as was asked for. New memory is zero. After a failure the array is as it was.
static inline EsStatus es_proof_array_grow(void **array, size_t element_bytes, int64_t used,
                                           int64_t wanted, int64_t *capacity) {
    if (wanted <= *capacity && *array != NULL) {
        return ES_STATUS_OK;
    }
    int64_t more = ES_MAX(wanted + wanted / 2, ES_PROOF_FIRST_CAPACITY);
    void *memory = NULL;
    ES_TRY(es_allocate(element_bytes * (size_t)more, &memory));
    if (used > 0) {
        memcpy(memory, *array, element_bytes * (size_t)used);
    }
    es_release(*array);
    *array = memory;
    *capacity = more;
    return ES_STATUS_OK;
}

#endif
