// Memory: checked and counted allocation, and slab layouts.
//
// A slab layout collects the sizes of all members of a class first and gives each an aligned
// offset; the slab is then allocated once. Nothing is freed member by member.
#ifndef ES_BASE_MEMORY_H
#define ES_BASE_MEMORY_H

#include <stddef.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// every slab member starts on a cache line, which is also the widest vector
#define ES_ALIGNMENT 64

// Round up to a multiple of ES_ALIGNMENT.
size_t es_align_up(size_t bytes);

// Zeroed memory on a 64-byte boundary, or a MEMORY failure that says how much was asked for.
EsStatus es_allocate(size_t bytes, void **memory);

// The same, but what it holds is not set: for large arrays that threads are to fill or clear.
EsStatus es_allocate_unset(size_t bytes, void **memory);

void es_release(void *memory);

// Move an allocation of `old_bytes` (none: NULL) to one of `bytes`, the rest of which is zero.
// After a failure it is as it was.
EsStatus es_reallocate(void **memory, size_t old_bytes, size_t bytes);

// Bytes that es_allocate has given and that are not released, in the whole process.
size_t es_allocation_held(void);

// From here on es_allocate refuses allocations that would make the process hold more than `bytes`
// beyond its present use, with a MEMORY failure; 0: no limit. Memory of CUDA does not count.
void es_allocation_begin(size_t bytes);

// Allocation since es_allocation_begin.
typedef struct EsAllocation {
    size_t peak_bytes; // the most that was held at a time, or was refused
    size_t held_bytes; // now
    int is_refused;    // something went beyond the limit
} EsAllocation;

// Ends the limit.
EsAllocation es_allocation_end(void);

// Add a member to a slab layout: returns its offset and advances *slab_bytes.
size_t es_slab_add(size_t *slab_bytes, size_t member_bytes);

ES_EXTERN_C_END

#endif
