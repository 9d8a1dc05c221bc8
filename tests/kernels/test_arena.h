// A mark/release arena for the tensors of a test: one block of memory from which aligned pieces are
// taken in order, so that two runs can be compared by comparing whole arenas.
#ifndef ES_TESTS_KERNELS_TEST_ARENA_H
#define ES_TESTS_KERNELS_TEST_ARENA_H

#include <string.h>

#include "base/memory.h"

typedef struct TestArena {
    unsigned char *base; // owned
    size_t capacity_bytes;
    size_t used_bytes;
} TestArena;

static inline EsStatus arena_create(TestArena *arena, size_t capacity_bytes) {
    memset(arena, 0, sizeof *arena);
    // rounded as blocks are, so that one block of the whole capacity fits
    size_t rounded = ES_MAX(es_align_up(capacity_bytes), capacity_bytes);
    ES_TRY(es_allocate(rounded, (void **)&arena->base));
    arena->capacity_bytes = rounded;
    return ES_STATUS_OK;
}

static inline void arena_destroy(TestArena *arena) {
    if (arena != NULL) {
        es_release(arena->base);
        memset(arena, 0, sizeof *arena);
    }
}

// Returns an aligned piece, not cleared, or NULL when the arena is full.
static inline void *arena_take(TestArena *arena, size_t bytes) {
    size_t rounded = es_align_up(bytes);
    if (rounded < bytes || rounded > arena->capacity_bytes - arena->used_bytes) {
        return NULL;
    }
    void *block = arena->base + arena->used_bytes;
    arena->used_bytes += rounded;
    return block;
}

// Everything taken after the mark is given back at once by arena_release.
static inline size_t arena_mark(const TestArena *arena) { return arena->used_bytes; }

static inline void arena_release(TestArena *arena, size_t mark) {
    ES_ASSERT(mark <= arena->used_bytes);
    arena->used_bytes = mark;
}

#endif
