// The hash table is open-addressed with linear probing. Sorting cuts the numbers into one run per
// thread, sorts the runs and merges them two by two; a merge is shared by cutting its output into
// equal ranges and finding where each begins in either run. Names differ, so the order is one
// whatever the cuts.
#include "proof/graph/name_table.h"

#include <stdlib.h>

#include "base/memory.h"

#define FIRST_CAPACITY 64
#define FIRST_SLOTS    256u
// names whose slots are fetched together
#define ABSORB_BLOCK 32

// --- lists ---

EsStatus es_list_reserve(EsList *list, int64_t n_more, const char *what) {
    int64_t wanted = list->count + n_more;
    if (wanted > INT32_MAX) {
        return ES_FAIL(INPUT, "more than %d %s in one knowledge graph", INT32_MAX, what);
    }
    if (wanted <= list->capacity) {
        return ES_STATUS_OK;
    }
    int64_t capacity = ES_MAX((int64_t)list->capacity * 2, FIRST_CAPACITY);
    capacity = ES_MIN(ES_MAX(capacity, wanted), INT32_MAX);
    void *items = NULL;
    ES_TRY(es_allocate_unset((size_t)capacity * list->item_bytes, &items));
    if (list->count > 0) {
        memcpy(items, list->items, (size_t)list->count * list->item_bytes);
    }
    es_release(list->items);
    list->items = items;
    list->capacity = (int32_t)capacity;
    return ES_STATUS_OK;
}

// --- names ---

EsNameTable es_name_table_begin(void) {
    return (EsNameTable){.text = {.item_bytes = 1}, .offset = {.item_bytes = sizeof(int32_t)}};
}

void es_name_table_end(EsNameTable *table) {
    es_release(table->text.items);
    es_release(table->offset.items);
    es_release(table->slots);
}

static uint64_t load_bytes(const char *text, size_t bytes) {
    uint64_t word = 0;
    memcpy(&word, text, bytes);
    return word;
}

// Every bit of the word moves the low bits, which pick the slot: names often differ in their last
// byte alone.
static uint64_t mix_word(uint64_t hash, uint64_t word) {
    hash ^= word;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u;
    return hash ^ hash >> 32;
}

// Words of eight bytes; the last overlaps the one before it.
static uint32_t hash_text(const char *text, size_t bytes) {
    uint64_t hash = mix_word(0, bytes);
    if (bytes < 4) {
        uint64_t first = (unsigned char)text[0], middle = (unsigned char)text[bytes / 2],
                 last = (unsigned char)text[bytes - 1];
        return (uint32_t)mix_word(hash, first | middle << 8 | last << 16);
    }
    if (bytes < 8) {
        uint64_t low = load_bytes(text, 4), high = load_bytes(text + bytes - 4, 4);
        return (uint32_t)mix_word(hash, low | high << 32);
    }
    for (size_t i = 0; i + 8 < bytes; i += 8) {
        hash = mix_word(hash, load_bytes(text + i, 8));
    }
    return (uint32_t)mix_word(hash, load_bytes(text + bytes - 8, 8));
}

// Bytes of a name without the zero behind it.
static size_t name_bytes(const EsNameTable *table, int32_t number) {
    const int32_t *offset = table->offset.items;
    int32_t end = number < table->offset.count ? offset[number] : table->text.count;
    return (size_t)(end - offset[number - 1] - 1);
}

// The slot that holds the name, or the free one where it belongs.
static EsNameSlot *find_slot(const EsNameTable *table, uint32_t hash, const char *text,
                             size_t bytes) {
    uint32_t slot = hash & (table->n_slots - 1);
    for (; table->slots[slot].number != 0; slot = (slot + 1) & (table->n_slots - 1)) {
        int32_t number = table->slots[slot].number;
        if (table->slots[slot].hash == hash && name_bytes(table, number) == bytes &&
            memcmp(es_name_table_name(table, number), text, bytes) == 0) {
            break;
        }
    }
    return &table->slots[slot];
}

// Make room in the slots for n_more names. All names differ, so moving them compares none.
static EsStatus grow_slots(EsNameTable *table, int32_t n_more) {
    uint64_t wanted = (uint64_t)table->offset.count + (uint64_t)n_more;
    uint64_t n_slots = ES_MAX(table->n_slots, FIRST_SLOTS);
    while (wanted > n_slots / 4 * 3) {
        n_slots *= 2;
    }
    if (n_slots == table->n_slots) {
        return ES_STATUS_OK;
    }
    EsNameSlot *slots = NULL;
    ES_TRY(es_allocate((size_t)n_slots * sizeof *slots, (void **)&slots));
    for (uint32_t i = 0; i < table->n_slots; i++) {
        EsNameSlot moved = table->slots[i];
        uint32_t slot = moved.hash & (uint32_t)(n_slots - 1);
        while (moved.number != 0 && slots[slot].number != 0) {
            slot = (slot + 1) & (uint32_t)(n_slots - 1);
        }
        if (moved.number != 0) {
            slots[slot] = moved;
        }
    }
    es_release(table->slots);
    table->slots = slots;
    table->n_slots = (uint32_t)n_slots;
    return ES_STATUS_OK;
}

// Intern a name whose hash is known, where the slots have room.
static EsStatus intern_hashed(EsNameTable *table, uint32_t hash, const char *text, size_t bytes,
                              int32_t *number) {
    EsNameSlot *slot = find_slot(table, hash, text, bytes);
    if (slot->number == 0) {
        int32_t offset = table->text.count;
        ES_TRY(es_list_reserve(&table->text, (int32_t)bytes + 1, "bytes of names"));
        ES_TRY(es_list_append(&table->offset, &offset, 1, "names"));
        ES_TRY(es_list_append(&table->text, text, (int32_t)bytes, "bytes of names"));
        ES_TRY(es_list_append(&table->text, "", 1, "bytes of names"));
        *slot = (EsNameSlot){hash, table->offset.count};
    }
    *number = slot->number;
    return ES_STATUS_OK;
}

int32_t es_name_table_find(const EsNameTable *table, const char *text, size_t bytes) {
    return table->n_slots == 0 || bytes == 0
               ? 0
               : find_slot(table, hash_text(text, bytes), text, bytes)->number;
}

void es_name_table_prefetch(const EsNameTable *table, const char *text, size_t bytes) {
    if (table->n_slots > 0) {
        __builtin_prefetch(&table->slots[hash_text(text, bytes) & (table->n_slots - 1)], 1);
    }
}

EsStatus es_name_table_intern(EsNameTable *table, const char *text, size_t bytes, int32_t *number) {
    ES_ASSERT(bytes > 0 && bytes < INT32_MAX);
    ES_ASSERT_SLOW(memchr(text, 0, bytes) == NULL);
    ES_TRY(grow_slots(table, 1));
    return intern_hashed(table, hash_text(text, bytes), text, bytes, number);
}

EsStatus es_name_table_absorb(EsNameTable *table, const EsNameTable *other, int32_t *numbers) {
    int32_t count = other->offset.count;
    ES_TRY(grow_slots(table, count));
    ES_TRY(es_list_reserve(&table->offset, count, "names"));
    ES_TRY(es_list_reserve(&table->text, other->text.count, "bytes of names"));
    for (int32_t first = 1; first <= count; first += ABSORB_BLOCK) {
        uint32_t hashes[ABSORB_BLOCK];
        int32_t n = ES_MIN(count - first + 1, ABSORB_BLOCK);
        for (int32_t i = 0; i < n; i++) {
            hashes[i] =
                hash_text(es_name_table_name(other, first + i), name_bytes(other, first + i));
            __builtin_prefetch(&table->slots[hashes[i] & (table->n_slots - 1)], 1);
        }
        for (int32_t i = 0; i < n; i++) {
            ES_TRY(intern_hashed(table, hashes[i], es_name_table_name(other, first + i),
                                 name_bytes(other, first + i), &numbers[first + i]));
        }
    }
    return ES_STATUS_OK;
}

// --- sorting ---

typedef struct Sorting {
    const EsNameTable *table;
    int32_t *order, *merged; // numbers of names, before and after a round of merging
    int64_t count, n_pieces;
    int64_t width;  // of the runs that are sorted; the last may be shorter
    int64_t *bytes; // of the names of each piece, then where its text begins      (n_pieces)
    char *text;
    const char **names;
    int32_t *rank;
} Sorting;

static int compare_names(const void *left, const void *right, void *context) {
    const EsNameTable *table = context;
    return strcmp(es_name_table_name(table, *(const int32_t *)left),
                  es_name_table_name(table, *(const int32_t *)right));
}

static int64_t piece_begin(const Sorting *sorting, int64_t piece) {
    return sorting->count * piece / sorting->n_pieces;
}

static void sort_run(void *context, int64_t piece, int worker) {
    (void)worker;
    Sorting *sorting = context;
    int64_t begin = piece * sorting->width;
    int64_t end = ES_MIN(begin + sorting->width, sorting->count);
    for (int64_t i = begin; i < end; i++) {
        sorting->order[i] = (int32_t)(i + 1);
    }
    if (begin < end) {
        qsort_r(sorting->order + begin, (size_t)(end - begin), sizeof *sorting->order,
                compare_names, (void *)sorting->table);
    }
}

// How many of the first `wanted` names of two merged runs come from the left one.
static int64_t split_merge(const Sorting *sorting, const int32_t *left, int64_t n_left,
                           const int32_t *right, int64_t n_right, int64_t wanted) {
    int64_t low = ES_MAX(wanted - n_right, 0), high = ES_MIN(wanted, n_left);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (compare_names(&left[middle], &right[wanted - middle - 1], (void *)sorting->table) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Merge a range of the output, which lies in one pair of runs or in several.
static void merge_range(void *context, int64_t piece, int worker) {
    (void)worker;
    Sorting *sorting = context;
    int64_t at = piece_begin(sorting, piece), end = piece_begin(sorting, piece + 1);
    while (at < end) {
        int64_t pair = at / (2 * sorting->width) * (2 * sorting->width);
        int64_t n_left = ES_MIN(sorting->width, sorting->count - pair);
        int64_t n_right = ES_MIN(sorting->width, sorting->count - pair - n_left);
        const int32_t *left = sorting->order + pair, *right = left + n_left;
        int64_t i = split_merge(sorting, left, n_left, right, n_right, at - pair);
        int64_t j = at - pair - i, stop = ES_MIN(end, pair + n_left + n_right);
        for (; at < stop; at++) {
            int takes_left =
                j == n_right ||
                (i < n_left && compare_names(&left[i], &right[j], (void *)sorting->table) < 0);
            sorting->merged[at] = takes_left ? left[i++] : right[j++];
        }
    }
}

static void count_bytes(void *context, int64_t piece, int worker) {
    (void)worker;
    Sorting *sorting = context;
    int64_t bytes = 0;
    for (int64_t i = piece_begin(sorting, piece); i < piece_begin(sorting, piece + 1); i++) {
        bytes += (int64_t)name_bytes(sorting->table, sorting->order[i]) + 1;
    }
    sorting->bytes[piece] = bytes;
}

static void copy_names(void *context, int64_t piece, int worker) {
    (void)worker;
    Sorting *sorting = context;
    char *text = sorting->text + sorting->bytes[piece];
    for (int64_t i = piece_begin(sorting, piece); i < piece_begin(sorting, piece + 1); i++) {
        int32_t number = sorting->order[i];
        size_t bytes = name_bytes(sorting->table, number) + 1;
        memcpy(text, es_name_table_name(sorting->table, number), bytes);
        sorting->names[i + 1] = text;
        sorting->rank[number] = (int32_t)(i + 1);
        text += bytes;
    }
}

static void sort_order(Sorting *sorting, EsThreadPool *pool) {
    sorting->width = (sorting->count + sorting->n_pieces - 1) / sorting->n_pieces;
    es_thread_pool_run(pool, sorting->n_pieces, sort_run, sorting);
    for (; sorting->width < sorting->count; sorting->width *= 2) {
        es_thread_pool_run(pool, sorting->n_pieces, merge_range, sorting);
        int32_t *merged = sorting->merged;
        sorting->merged = sorting->order;
        sorting->order = merged;
    }
}

EsStatus es_name_table_sort(const EsNameTable *table, EsThreadPool *pool, char *text,
                            const char **names, int32_t *rank) {
    Sorting sorting = {.table = table,
                       .count = table->offset.count,
                       .n_pieces = es_thread_pool_size(pool),
                       .text = text,
                       .names = names,
                       .rank = rank};
    size_t order_bytes = (size_t)sorting.count * sizeof *sorting.order;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate_unset(order_bytes, (void **)&sorting.order));
    ES_TRY_GOTO(es_allocate_unset(order_bytes, (void **)&sorting.merged));
    ES_TRY_GOTO(
        es_allocate((size_t)sorting.n_pieces * sizeof *sorting.bytes, (void **)&sorting.bytes));
    sort_order(&sorting, pool);
    es_thread_pool_run(pool, sorting.n_pieces, count_bytes, &sorting);
    int64_t begin = 0;
    for (int64_t piece = 0; piece < sorting.n_pieces; piece++) {
        int64_t bytes = sorting.bytes[piece];
        sorting.bytes[piece] = begin;
        begin += bytes;
    }
    names[0] = "";
    es_thread_pool_run(pool, sorting.n_pieces, copy_names, &sorting);
done:
    es_release(sorting.order);
    es_release(sorting.merged);
    es_release(sorting.bytes);
    return status;
}
