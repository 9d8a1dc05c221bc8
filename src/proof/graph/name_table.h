// Lists that grow, and names that are numbered from 1 in order of first appearance.
//
// A table finds names through their hashes, which are kept: growing, and adding the names of
// another table, reads no text of names that are known to differ. Zeroed memory with the lists'
// item_bytes set is an empty table (es_name_table_begin).
#ifndef ES_PROOF_NAME_TABLE_H
#define ES_PROOF_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/thread_pool.h"

ES_EXTERN_C_BEGIN

// --- lists ---

typedef struct EsList {
    void *items; // owned
    size_t item_bytes;
    int32_t count, capacity;
} EsList;

// Room for n_more items. INPUT when there are over INT32_MAX, which `what` names.
EsStatus es_list_reserve(EsList *list, int64_t n_more, const char *what);

// Add items at the end.
static inline EsStatus es_list_append(EsList *list, const void *items, int32_t count,
                                      const char *what) {
    if (list->capacity - list->count < count) {
        ES_TRY(es_list_reserve(list, count, what));
    }
    char *end = (char *)list->items + (size_t)list->count * list->item_bytes;
    memcpy(end, items, (size_t)count * list->item_bytes);
    list->count += count;
    return ES_STATUS_OK;
}

// --- names ---

typedef struct EsNameSlot {
    uint32_t hash;
    int32_t number; // 0 = free
} EsNameSlot;

typedef struct EsNameTable {
    EsList text;       // all names, each ended by 0; count is 32 bits wide, hence at most 2 GiB
    EsList offset;     // int32_t: where name i + 1 begins
    EsNameSlot *slots; // owned; at most three quarters are taken                      (n_slots)
    uint32_t n_slots;  // a power of two
} EsNameTable;

EsNameTable es_name_table_begin(void);
void es_name_table_end(EsNameTable *table);

static inline int32_t es_name_table_count(const EsNameTable *table) { return table->offset.count; }

// A name by its number, ended by 0.
static inline const char *es_name_table_name(const EsNameTable *table, int32_t number) {
    return (const char *)table->text.items + ((const int32_t *)table->offset.items)[number - 1];
}

// The number of a name; 0 when it is not there.
int32_t es_name_table_find(const EsNameTable *table, const char *text, size_t bytes);

// Begin to fetch the slot of a name of at least one byte: it is rarely in a cache.
void es_name_table_prefetch(const EsNameTable *table, const char *text, size_t bytes);

// The number of a name, new or known. The text holds no zero byte and is copied.
EsStatus es_name_table_intern(EsNameTable *table, const char *text, size_t bytes, int32_t *number);

// Intern the names of another table in the order of their numbers; numbers[i] becomes what i is
// here                                                                        (count of other + 1)
EsStatus es_name_table_absorb(EsNameTable *table, const EsNameTable *other, int32_t *numbers);

// All names in byte order: sorted[i] is the number of name i of that order, rank[number] is i + 1,
// and names[i + 1] points into `text`, which has room for as many bytes as the table's; names[0] is
// "". `pool` may be NULL.
EsStatus es_name_table_sort(const EsNameTable *table, EsThreadPool *pool, char *text,
                            const char **names, int32_t *rank);

ES_EXTERN_C_END

#endif
