// Memory in three shapes: checked allocation, a mark/release arena for scratch, and a slab layout.
//
// A slab layout collects the sizes of all members of a class first and gives each an aligned
// offset; the slab is then allocated once. Nothing is freed member by member.
#ifndef ES_BASE_MEMORY_H
#define ES_BASE_MEMORY_H

#include <stddef.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// every slab member and arena block starts on a cache line, which is also the widest vector
#define ES_ALIGNMENT 64

// Round up to a multiple of ES_ALIGNMENT.
size_t es_align_up(size_t bytes);

// Zeroed memory on a 64-byte boundary, or a MEMORY failure that says how much was asked for.
EsStatus es_allocate(size_t bytes, void **memory);
void es_release(void *memory);

// From here on es_allocate refuses what would make the process hold more than `bytes` beyond what
// it holds now, with a MEMORY failure; 0: no limit. Memory of CUDA does not count.
void es_allocation_begin(size_t bytes);

// What allocation has come to since es_allocation_begin.
typedef struct EsAllocation {
    size_t peak_bytes; // the most that was held at a time, or was refused
    size_t held_bytes; // now
    int is_refused;    // something went beyond the limit
} EsAllocation;

// Ends the limit.
EsAllocation es_allocation_end(void);

typedef struct EsArena {
    unsigned char *base; // owned
    size_t capacity_bytes;
    size_t used_bytes;
    size_t peak_bytes; // high-water mark, for reports
} EsArena;

EsStatus es_arena_create(EsArena *arena, size_t capacity_bytes);
void es_arena_destroy(EsArena *arena);

// An aligned block, not cleared, or NULL when the arena is full.
void *es_arena_take(EsArena *arena, size_t bytes);

// Everything taken after the mark is given back at once.
size_t es_arena_mark(const EsArena *arena);
void es_arena_release(EsArena *arena, size_t mark);

// Add a member to a slab layout: returns its offset and advances *slab_bytes.
size_t es_slab_add(size_t *slab_bytes, size_t member_bytes);

ES_EXTERN_C_END

#endif
