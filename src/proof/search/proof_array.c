#include "proof/search/proof_array.h"

#include <string.h>

#include "base/memory.h"

#define FIRST_CAPACITY 64

EsStatus es_proof_array_grow(void **array, size_t element_bytes, int64_t used, int64_t wanted,
                             int64_t *capacity) {
    if (wanted <= *capacity && *array != NULL) {
        return ES_STATUS_OK;
    }
    int64_t more = ES_MAX(wanted + wanted / 2, FIRST_CAPACITY);
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
