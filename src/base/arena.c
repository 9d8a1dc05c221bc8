#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

size_t es_align_up(size_t bytes) {
    return (bytes + ES_ALIGNMENT - 1) / ES_ALIGNMENT * ES_ALIGNMENT;
}

EsStatus es_allocate(size_t bytes, void **memory) {
    // aligned_alloc wants a multiple of the alignment; a zero-sized request still gets an address
    // of its own
    size_t rounded = es_align_up(bytes > 0 ? bytes : 1);
    if (rounded < bytes || (*memory = aligned_alloc(ES_ALIGNMENT, rounded)) == NULL) {
        *memory = NULL;
        return ES_FAIL(MEMORY, "cannot allocate %.1f MiB", (double)bytes / (1024.0 * 1024.0));
    }
    memset(*memory, 0, rounded);
    return ES_STATUS_OK;
}

void es_release(void *memory) { free(memory); }

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
