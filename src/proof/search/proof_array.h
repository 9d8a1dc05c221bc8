// Arrays that grow with what they hold.
#ifndef ES_PROOF_PROOF_ARRAY_H
#define ES_PROOF_PROOF_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// Make an owned array of `used` elements hold at least `wanted`; *capacity says how many fit, half
// as much again as was asked for. New memory is zero. After a failure the array is as it was.
EsStatus es_proof_array_grow(void **array, size_t element_bytes, int64_t used, int64_t wanted,
                             int64_t *capacity);

ES_EXTERN_C_END

#endif
