// Memory: checked allocation, slab layouts, and how much the process may still take.
//
// A slab layout collects the sizes of all members of a class first and gives each an aligned
// offset; the slab is then allocated once. Nothing is freed member by member.
//
// Available memory is the least of three: free memory of the machine, the remainder of its control
// groups, and the remainder of its own limit on addresses (ulimit -v).
//
//     EsMemoryAvailable available = es_memory_available("");
//     if (needed_bytes > available.bytes) { ... "%s has %.1f GiB", available.limited_by ... }
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

typedef struct EsMemoryAvailable {
    uint64_t bytes;       // UINT64_MAX where nothing limits it
    char limited_by[160]; // "the machine", "control group /a/b", "the limit of ulimit -v"
} EsMemoryAvailable;

// Read from `root`/proc and `root`/sys/fs/cgroup, versions 1 and 2, a group's parents included;
// `root` is "" outside tests. Files in memory that the system can drop count as available, and so
// does swap where the group may use it. A limit that cannot be read does not apply.
EsMemoryAvailable es_memory_available(const char *root);

ES_EXTERN_C_END

#endif
