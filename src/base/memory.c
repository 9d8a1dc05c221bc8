#include "base/memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t es_align_up(size_t bytes) {
    return (bytes + ES_ALIGNMENT - 1) / ES_ALIGNMENT * ES_ALIGNMENT;
}

// Of the whole process, as its heap is. Sizes are those that the C library gave, which it tells
// again when memory is released.
static _Atomic int64_t held_bytes;
static int64_t begin_bytes, limit_bytes;
static _Atomic int64_t peak_bytes;
static _Atomic int is_limited, is_refused;

void es_allocation_begin(size_t bytes) {
    begin_bytes = atomic_load(&held_bytes);
    limit_bytes = bytes > 0 && bytes < INT64_MAX / 2 ? begin_bytes + (int64_t)bytes : INT64_MAX;
    atomic_store(&peak_bytes, begin_bytes);
    atomic_store(&is_refused, 0);
    atomic_store(&is_limited, 1);
}

EsAllocation es_allocation_end(void) {
    atomic_store(&is_limited, 0);
    return (EsAllocation){.peak_bytes = (size_t)(atomic_load(&peak_bytes) - begin_bytes),
                          .held_bytes = (size_t)ES_MAX(atomic_load(&held_bytes) - begin_bytes, 0),
                          .is_refused = atomic_load(&is_refused)};
}

// Whether so much more is within the limit.
static int may_hold(size_t bytes) {
    if (!atomic_load_explicit(&is_limited, memory_order_acquire)) {
        return 1;
    }
    int64_t wanted = atomic_load(&held_bytes) + (int64_t)ES_MIN(bytes, (size_t)INT64_MAX / 4);
    int64_t peak = atomic_load(&peak_bytes);
    while (wanted > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, wanted)) {
    }
    int is_beyond = wanted > limit_bytes;
    if (is_beyond) {
        atomic_store(&is_refused, 1);
    }
    return !is_beyond;
}

EsStatus es_allocate(size_t bytes, void **memory) {
    // aligned_alloc wants a multiple of the alignment; a zero-sized request still gets an address
    // of its own
    size_t rounded = es_align_up(bytes > 0 ? bytes : 1);
    if (rounded < bytes || !may_hold(rounded) ||
        (*memory = aligned_alloc(ES_ALIGNMENT, rounded)) == NULL) {
        *memory = NULL;
        return ES_FAIL(MEMORY, "not enough memory: cannot allocate %.1f MiB",
                       (double)bytes / (1024.0 * 1024.0));
    }
    memset(*memory, 0, rounded);
    atomic_fetch_add_explicit(&held_bytes, (int64_t)malloc_usable_size(*memory),
                              memory_order_relaxed);
    return ES_STATUS_OK;
}

void es_release(void *memory) {
    atomic_fetch_sub_explicit(&held_bytes, (int64_t)malloc_usable_size(memory),
                              memory_order_relaxed);
    free(memory);
}

EsStatus es_arena_create(EsArena *arena, size_t capacity_bytes) {
    memset(arena, 0, sizeof *arena);
    // rounded as blocks are, so that one block of the whole capacity fits
    size_t rounded = ES_MAX(es_align_up(capacity_bytes), capacity_bytes);
    ES_TRY(es_allocate(rounded, (void **)&arena->base));
    arena->capacity_bytes = rounded;
    return ES_STATUS_OK;
}

void es_arena_destroy(EsArena *arena) {
    if (arena != NULL) {
        es_release(arena->base);
        memset(arena, 0, sizeof *arena);
    }
}

void *es_arena_take(EsArena *arena, size_t bytes) {
    size_t rounded = es_align_up(bytes);
    if (rounded < bytes || rounded > arena->capacity_bytes - arena->used_bytes) {
        return NULL;
    }
    void *block = arena->base + arena->used_bytes;
    arena->used_bytes += rounded;
    arena->peak_bytes = ES_MAX(arena->peak_bytes, arena->used_bytes);
    return block;
}

size_t es_arena_mark(const EsArena *arena) { return arena->used_bytes; }

void es_arena_release(EsArena *arena, size_t mark) {
    ES_ASSERT(mark <= arena->used_bytes);
    arena->used_bytes = mark;
}

size_t es_slab_add(size_t *slab_bytes, size_t member_bytes) {
    size_t offset = es_align_up(*slab_bytes);
    *slab_bytes = offset + member_bytes;
    return offset;
}
