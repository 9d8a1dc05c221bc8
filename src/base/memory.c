// Every allocation is counted with the size that the C library gave, so that a caller can measure a
// piece of work and bound it.
#include "base/memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t es_align_up(size_t bytes) {
    return (bytes + ES_ALIGNMENT - 1) / ES_ALIGNMENT * ES_ALIGNMENT;
}

// Of the whole process, as its heap is. The C library reports the same size again when memory is
// released.
static _Atomic int64_t held_bytes;
static int64_t begin_bytes, limit_bytes;
static _Atomic int64_t peak_bytes;
static _Atomic int is_limited, is_refused;

size_t es_allocation_held(void) { return (size_t)ES_MAX(atomic_load(&held_bytes), 0); }

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

// Returns whether `bytes` more stay within the limit.
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

EsStatus es_allocate_unset(size_t bytes, void **memory) {
    // aligned_alloc wants a multiple of the alignment; a zero-sized request still gets an address
    // of its own
    size_t rounded = es_align_up(bytes > 0 ? bytes : 1);
    if (rounded < bytes || !may_hold(rounded) ||
        (*memory = aligned_alloc(ES_ALIGNMENT, rounded)) == NULL) {
        *memory = NULL;
        return ES_FAIL(MEMORY, "not enough memory: cannot allocate %.1f MiB",
                       (double)bytes / (1024.0 * 1024.0));
    }
    atomic_fetch_add_explicit(&held_bytes, (int64_t)malloc_usable_size(*memory),
                              memory_order_relaxed);
    return ES_STATUS_OK;
}

EsStatus es_allocate(size_t bytes, void **memory) {
    ES_TRY(es_allocate_unset(bytes, memory));
    memset(*memory, 0, es_align_up(bytes > 0 ? bytes : 1));
    return ES_STATUS_OK;
}

void es_release(void *memory) {
    atomic_fetch_sub_explicit(&held_bytes, (int64_t)malloc_usable_size(memory),
                              memory_order_relaxed);
    free(memory);
}

EsStatus es_reallocate(void **memory, size_t old_bytes, size_t bytes) {
    void *larger = NULL;
    ES_TRY(es_allocate(bytes, &larger));
    if (old_bytes > 0) {
        memcpy(larger, *memory, ES_MIN(old_bytes, bytes));
    }
    es_release(*memory);
    *memory = larger;
    return ES_STATUS_OK;
}

size_t es_slab_add(size_t *slab_bytes, size_t member_bytes) {
    size_t offset = es_align_up(*slab_bytes);
    *slab_bytes = offset + member_bytes;
    return offset;
}
