// The set and the heads of an index are the same table: 32-bit slots, linear probing, the low bits
// a tuple number + 1, the rest bits of the hash. As many bits are left for the number as the table
// has slots, which is more than it has tuples.
#include "proof/search/tuple_relation.h"

#include <string.h>

#include "base/memory.h"
#include "proof/search/proof_array.h"

#define FIRST_LOG2 8
// fewest slots of which each part has a range of its own
#define SPLIT_LOG2 14
// candidates from one whose slot is asked for to the one at work
#define AHEAD 12
// parts that a piece of work fills a new set with: where tuples are in no run, each piece looks at
// all of them
#define FILL_PARTS 4
// fewest tuples that make a run
#define RUN_TUPLES 1024

static uint64_t mix(uint64_t key) {
    uint64_t mixed = (key ^ (key >> 32)) * 0xD6E8FEB86659FD93u;
    return (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93u;
}

// --- the store ---

void es_tuple_relation_begin(EsTupleRelation *relation, int32_t arity, int32_t n_constants,
                             int32_t n_proof) {
    memset(relation, 0, sizeof *relation);
    relation->arity = arity;
    relation->n_constants = n_constants;
    relation->tuples.n_words = arity;
    relation->proofs.n_words = n_proof;
    relation->log2_slots = -1;
    // bits know no numbers, which provenance needs
    relation->may_use_bits = n_proof == 0;
}

static void end_store(EsTupleStore *store) {
    for (int32_t i = 0; i < store->n_chunks; i++) {
        es_release(store->chunks[i]);
    }
    es_release(store->chunks);
}

void es_tuple_relation_end(EsTupleRelation *relation) {
    end_store(&relation->tuples);
    end_store(&relation->proofs);
    es_release(relation->slots);
    es_release(relation->bits);
    es_release(relation->runs);
    for (int i = 0; i < relation->n_indices; i++) {
        es_release(relation->indices[i].heads);
        es_release(relation->indices[i].next);
    }
    es_release(relation->indices);
    memset(relation, 0, sizeof *relation);
}

static EsStatus reserve_items(EsTupleStore *store, int64_t wanted) {
    size_t item_bytes = (size_t)store->n_words * sizeof(int32_t);
    while (store->capacity < wanted) {
        int is_first = store->capacity < ES_TUPLE_CHUNK;
        int32_t c = is_first ? 0 : store->n_chunks;
        ES_TRY(es_proof_array_grow((void **)&store->chunks, sizeof *store->chunks, store->n_chunks,
                                   (int64_t)c + 1, &store->n_listed));
        if (is_first) {
            int64_t n = ES_MAX(ES_MIN(wanted, ES_TUPLE_CHUNK), 2 * store->capacity);
            n = ES_MIN(ES_MAX(n, 16), ES_TUPLE_CHUNK);
            ES_TRY(es_reallocate((void **)&store->chunks[0], (size_t)store->capacity * item_bytes,
                                 (size_t)n * item_bytes));
            store->capacity = n;
        } else {
            ES_TRY(es_allocate_unset(ES_TUPLE_CHUNK * item_bytes, (void **)&store->chunks[c]));
            store->capacity += ES_TUPLE_CHUNK;
        }
        store->n_chunks = c + 1;
    }
    return ES_STATUS_OK;
}

// Room for `n_more` tuples.
static EsStatus reserve_tuples(EsTupleRelation *relation, int64_t n_more) {
    int64_t wanted = relation->count + n_more;
    ES_TRY(reserve_items(&relation->tuples, wanted));
    return relation->proofs.n_words > 0
               ? reserve_items(&relation->proofs, wanted - relation->n_facts)
               : ES_STATUS_OK;
}

static int32_t *item_at(EsTupleStore *store, int64_t i) {
    return store->chunks[i >> ES_TUPLE_CHUNK_BITS] +
           (size_t)(i & (ES_TUPLE_CHUNK - 1)) * (size_t)store->n_words;
}

static int terms_equal(const int32_t *x, const int32_t *y, int32_t arity) {
    for (int32_t i = 0; i < arity; i++) {
        if (x[i] != y[i]) {
            return 0;
        }
    }
    return 1;
}

// --- the set ---

// A range of slots and the bits of a hash that it is searched by.
typedef struct Range {
    uint32_t first, mask; // slots first to first + mask
    uint32_t number_mask; // low bits of a slot
} Range;

static Range range_of(const EsTupleRelation *relation, int part) {
    uint32_t n_slots = 1u << relation->log2_slots;
    int is_split = es_tuple_is_split(relation);
    uint32_t n = is_split ? n_slots / ES_TUPLE_PARTS : n_slots;
    return (Range){is_split ? n * (uint32_t)part : 0, n - 1, n_slots - 1};
}

static uint32_t tag_of(uint64_t hash, uint32_t number_mask) {
    return (uint32_t)(hash >> 32) & ~number_mask;
}

int es_tuple_is_split(const EsTupleRelation *relation) {
    return relation->bits != NULL || relation->is_split;
}

int32_t es_tuple_find(const EsTupleRelation *relation, const int32_t *terms) {
    if (relation->log2_slots < 0) {
        return -1;
    }
    uint64_t key = es_tuple_key(relation, terms), hash = mix(key);
    Range range = range_of(relation, es_tuple_part(key));
    uint32_t tag = tag_of(hash, range.number_mask), place = (uint32_t)hash & range.mask, slot;
    while ((slot = relation->slots[range.first + place]) != 0) {
        int64_t number = (int64_t)(slot & range.number_mask) - 1;
        if ((slot & ~range.number_mask) == tag && number < relation->count &&
            terms_equal(es_tuple_at(relation, (int32_t)number), terms, relation->arity)) {
            return (int32_t)number;
        }
        place = (place + 1) & range.mask;
    }
    return -1;
}

int es_tuple_has(const EsTupleRelation *relation, const int32_t *terms) {
    return relation->bits != NULL ? es_tuple_has_bit(relation, es_tuple_key(relation, terms))
                                  : es_tuple_find(relation, terms) >= 0;
}

// Put a tuple that is not there into the set.
static void insert(const EsTupleRelation *relation, int part, uint64_t hash, uint32_t number) {
    Range range = range_of(relation, part);
    uint32_t place = (uint32_t)hash & range.mask;
    while (relation->slots[range.first + place] != 0) {
        place = (place + 1) & range.mask;
    }
    relation->slots[range.first + place] = tag_of(hash, range.number_mask) | (number + 1);
}

// Bits of a set over all tuples, 0 when that is too many to count.
static uint64_t count_bits(const EsTupleRelation *relation) {
    double n = 1;
    for (int32_t i = 0; i < relation->arity; i++) {
        n *= (double)relation->n_constants + 1;
    }
    return n < 1e15 ? (uint64_t)n : 0;
}

static void set_bit(const EsTupleRelation *relation, uint64_t key) {
    relation->bits[key >> 6] |= (uint64_t)1 << (key & 63);
}

// A new set that is filled with the tuples of some parts, of which the last wait for their slots to
// come from memory. Counts stand here, away from other threads.
typedef struct Fill {
    EsTupleRelation *relation;
    int first_part, end_part;
    int32_t in_part[ES_TUPLE_PARTS];
    uint64_t hashes[2 * AHEAD];
    uint32_t numbers[2 * AHEAD];
    int parts[2 * AHEAD];
    int n_waiting;
} Fill;

static void insert_waiting(Fill *fill) {
    for (int i = 0; i < fill->n_waiting; i++) {
        insert(fill->relation, fill->parts[i], fill->hashes[i], fill->numbers[i]);
    }
    fill->n_waiting = 0;
}

static void wait_for_slot(Fill *fill, uint64_t key, int part, uint32_t number) {
    Range range = range_of(fill->relation, part);
    uint64_t hash = mix(key);
    __builtin_prefetch(fill->relation->slots + range.first + ((uint32_t)hash & range.mask), 1);
    fill->hashes[fill->n_waiting] = hash;
    fill->parts[fill->n_waiting] = part;
    fill->numbers[fill->n_waiting++] = number;
    if (fill->n_waiting == 2 * AHEAD) {
        insert_waiting(fill);
    }
}

// Those of the tuples `begin` to `end` - 1 that are of the parts.
static void fill_tuples(Fill *fill, int32_t begin, int32_t end) {
    EsTupleRelation *relation = fill->relation;
    for (int32_t i = begin; i < end; i++) {
        uint64_t key = es_tuple_key(relation, es_tuple_at(relation, i));
        int part = es_tuple_part(key);
        if (part < fill->first_part || part >= fill->end_part) {
            continue;
        }
        fill->in_part[part]++;
        if (relation->bits != NULL) {
            set_bit(relation, key);
        } else {
            wait_for_slot(fill, key, part, (uint32_t)i);
        }
    }
}

// Put the tuples of some parts into a new set, whose slots of these parts are cleared first.
static void fill_parts(EsTupleRelation *relation, int first_part, int end_part) {
    Fill fill = {.relation = relation, .first_part = first_part, .end_part = end_part};
    int32_t done = 0;
    if (relation->bits == NULL) {
        size_t n_part = ((size_t)1 << relation->log2_slots) / ES_TUPLE_PARTS;
        memset(relation->slots + (size_t)first_part * n_part, 0,
               (size_t)(end_part - first_part) * n_part * sizeof *relation->slots);
    }
    for (int64_t i = 0; i < relation->n_runs; i++) {
        const int32_t *start = relation->runs[i].start;
        fill_tuples(&fill, done, start[0]);
        fill_tuples(&fill, start[first_part], start[end_part]);
        done = start[ES_TUPLE_PARTS];
    }
    fill_tuples(&fill, done, relation->count);
    insert_waiting(&fill);
    for (int part = first_part; part < end_part; part++) {
        relation->in_part[part] = fill.in_part[part];
    }
}

static void fill_piece(void *context, int64_t piece, int worker) {
    int first_part = (int)piece * FILL_PARTS;
    (void)worker;
    fill_parts(context, first_part, first_part + FILL_PARTS);
}

// A set of 2^log2 slots, or of bits where they take no more.
static EsStatus resize(EsTupleRelation *relation, EsThreadPool *pool, int log2) {
    uint64_t n_bits = relation->may_use_bits ? count_bits(relation) : 0;
    if (log2 > 31) {
        return ES_FAIL(MEMORY, "a relation of more than %d tuples", relation->count);
    }
    es_release(relation->slots);
    relation->slots = NULL;
    relation->log2_slots = -1;
    if (n_bits > 0 && n_bits / 8 <= ((uint64_t)sizeof(uint32_t) << log2)) {
        ES_TRY(es_allocate((n_bits / 64 + 1) * sizeof(uint64_t), (void **)&relation->bits));
    } else {
        ES_TRY(es_allocate_unset(sizeof(uint32_t) << log2, (void **)&relation->slots));
        relation->log2_slots = log2;
    }
    if (pool != NULL && es_thread_pool_size(pool) > 1 && es_tuple_is_split(relation)) {
        es_thread_pool_run(pool, ES_TUPLE_PARTS / FILL_PARTS, fill_piece, relation);
    } else {
        fill_parts(relation, 0, ES_TUPLE_PARTS);
    }
    return ES_STATUS_OK;
}

// Returns whether 2^log2 slots, a range for each part, hold the tuples and n_more[part] more.
static int parts_fit(const EsTupleRelation *relation, const int64_t *n_more, int log2) {
    int64_t most = 0;
    for (int part = 0; part < ES_TUPLE_PARTS; part++) {
        most = ES_MAX(most, relation->in_part[part] + n_more[part]);
    }
    return log2 >= SPLIT_LOG2 && most <= ((int64_t)1 << log2) / ES_TUPLE_PARTS / 8 * 7;
}

// Make room for n_more[part] tuples. Parts share one range of slots where the table is small, or
// where most tuples fall into few parts.
static EsStatus reserve_set(EsTupleRelation *relation, EsThreadPool *pool, const int64_t *n_more) {
    if (relation->bits != NULL) {
        return ES_STATUS_OK;
    }
    int64_t n_all = 0;
    for (int part = 0; part < ES_TUPLE_PARTS; part++) {
        n_all += relation->in_part[part] + n_more[part];
    }
    int log2 = ES_MAX(relation->log2_slots, FIRST_LOG2);
    while (log2 < 32 && n_all > ((int64_t)1 << log2) / 4 * 3) {
        log2++;
    }
    int fits = parts_fit(relation, n_more, log2);
    if (log2 == relation->log2_slots && (fits || !relation->is_split)) {
        return ES_STATUS_OK;
    }
    relation->is_split = fits;
    return resize(relation, pool, log2);
}

EsStatus es_tuple_add_fact(EsTupleRelation *relation, const int32_t *terms) {
    uint64_t key = es_tuple_key(relation, terms);
    int64_t n_more[ES_TUPLE_PARTS] = {0};
    if (es_tuple_has(relation, terms)) {
        return ES_STATUS_OK;
    }
    n_more[es_tuple_part(key)] = 1;
    ES_TRY(reserve_set(relation, NULL, n_more));
    ES_TRY(reserve_items(&relation->tuples, (int64_t)relation->count + 1));
    if (relation->bits != NULL) {
        set_bit(relation, key);
    } else {
        int part = es_tuple_part(key);
        insert(relation, part, mix(key), (uint32_t)relation->count);
        relation->in_part[part]++;
    }
    memcpy(item_at(&relation->tuples, relation->count), terms,
           (size_t)relation->arity * sizeof *terms);
    relation->n_facts = ++relation->count;
    return ES_STATUS_OK;
}

static int compare_terms(const int32_t *x, const int32_t *y, int32_t arity) {
    int32_t i = 0;
    while (i < arity && x[i] == y[i]) {
        i++;
    }
    return i == arity ? 0 : (x[i] < y[i] ? -1 : 1);
}

static int is_ascending(const int32_t *terms, int32_t arity, int32_t stride, int32_t count) {
    for (int32_t i = 1; i < count; i++) {
        const int32_t *at = terms + (size_t)i * (size_t)stride;
        if (compare_terms(at - stride, at, arity) >= 0) {
            return 0;
        }
    }
    return 1;
}

EsStatus es_tuple_add_facts(EsTupleRelation *relation, EsThreadPool *pool, const int32_t *terms,
                            int32_t stride, int32_t count) {
    int64_t n_more[ES_TUPLE_PARTS] = {0};
    if (relation->count > 0 || !is_ascending(terms, relation->arity, stride, count)) {
        for (int32_t i = 0; i < count; i++) {
            ES_TRY(es_tuple_add_fact(relation, terms + (size_t)i * (size_t)stride));
        }
        return ES_STATUS_OK;
    }
    ES_TRY(reserve_items(&relation->tuples, count));
    for (int32_t i = 0; i < count; i++) {
        const int32_t *at = terms + (size_t)i * (size_t)stride;
        n_more[es_tuple_part(es_tuple_key(relation, at))]++;
        memcpy(item_at(&relation->tuples, i), at, (size_t)relation->arity * sizeof *at);
    }
    // there is no set yet: the new one is filled from the store
    ES_ASSERT(relation->bits == NULL && relation->log2_slots < 0);
    relation->n_facts = relation->count = count;
    return reserve_set(relation, pool, n_more);
}

// --- batches ---

int32_t *es_tuple_buffer_add(EsTupleBuffer *buffer, int32_t n_words) {
    if (buffer->count == buffer->capacity || n_words > buffer->item_words) {
        int is_full = buffer->count == buffer->capacity;
        int64_t n = is_full ? ES_MAX(2 * buffer->capacity, 256) : buffer->capacity;
        // one word at least: tuples without terms
        int32_t most = ES_MAX(ES_MAX(n_words, buffer->item_words), 1);
        size_t used = (size_t)buffer->count;
        if (es_reallocate((void **)&buffer->words, used * (size_t)n_words * sizeof(int32_t),
                          (size_t)n * (size_t)most * sizeof(int32_t)) != ES_STATUS_OK ||
            es_reallocate((void **)&buffer->places, used * sizeof(uint32_t),
                          (size_t)n * sizeof(uint32_t)) != ES_STATUS_OK) {
            return NULL;
        }
        buffer->capacity = n;
        buffer->item_words = most;
    }
    return buffer->words + (size_t)buffer->count++ * (size_t)n_words;
}

void es_tuple_buffer_end(EsTupleBuffer *buffer) {
    es_release(buffer->words);
    es_release(buffer->places);
    memset(buffer, 0, sizeof *buffer);
}

EsStatus es_tuple_reserve(EsTupleRelation *relation, EsThreadPool *pool,
                          const EsTupleBuffer *buffers, int32_t n_pieces) {
    int64_t n_more[ES_TUPLE_PARTS] = {0};
    for (int32_t i = 0; i < n_pieces * ES_TUPLE_PARTS; i++) {
        n_more[i % ES_TUPLE_PARTS] += buffers[i].count;
    }
    return reserve_set(relation, pool, n_more);
}

// The j-th accepted tuple of a part.
static const int32_t *accepted_at(const EsTupleBuffer *buffers, int part, int64_t j,
                                  size_t n_words) {
    const EsTupleBuffer *buffer = &buffers[part];
    while (j >= buffer->n_accepted) {
        j -= buffer->n_accepted;
        buffer += ES_TUPLE_PARTS;
    }
    return buffer->words + (size_t)j * n_words;
}

// A part at work. While a batch is sorted out, the j-th tuple that the part accepts has the number
// count + first + j, where `first` candidates are in the parts before.
typedef struct Sorting {
    EsTupleRelation *relation;
    EsTupleBuffer *buffers;
    int part;
    size_t n_words;
    Range range;
    int64_t first, n_accepted;
} Sorting;

// Mark a tuple in the slots; returns its place, or UINT32_MAX when it is there.
static uint32_t mark(const Sorting *sorting, const int32_t *terms, uint64_t hash) {
    const EsTupleRelation *relation = sorting->relation;
    Range range = sorting->range;
    uint32_t *slots = relation->slots + range.first;
    uint32_t tag = tag_of(hash, range.number_mask), place = (uint32_t)hash & range.mask, slot;
    while ((slot = slots[place]) != 0) {
        if ((slot & ~range.number_mask) == tag) {
            int64_t number = (int64_t)(slot & range.number_mask) - 1;
            int64_t j = number - relation->count - sorting->first;
            const int32_t *other =
                number < relation->count
                    ? es_tuple_at(relation, (int32_t)number)
                    : (j >= 0 && j < sorting->n_accepted
                           ? accepted_at(sorting->buffers, sorting->part, j, sorting->n_words)
                           : NULL);
            if (other != NULL && terms_equal(other, terms, relation->arity)) {
                return UINT32_MAX;
            }
        }
        place = (place + 1) & range.mask;
    }
    int64_t number = relation->count + sorting->first + sorting->n_accepted;
    slots[place] = tag | (uint32_t)(number + 1);
    return range.first + place;
}

static void accept_buffer(Sorting *sorting, EsTupleBuffer *buffer) {
    EsTupleRelation *relation = sorting->relation;
    size_t n_words = sorting->n_words;
    buffer->n_accepted = 0;
    for (int64_t i = 0; i < buffer->count; i++) {
        const int32_t *terms = buffer->words + (size_t)i * n_words;
        uint64_t key = es_tuple_key(relation, terms);
        uint32_t place = 0;
        if (relation->bits != NULL) {
            if (es_tuple_has_bit(relation, key)) {
                continue;
            }
            set_bit(relation, key);
        } else {
            if (i + AHEAD < buffer->count) {
                uint64_t later = mix(es_tuple_key(relation, terms + AHEAD * n_words));
                __builtin_prefetch(relation->slots + sorting->range.first +
                                   ((uint32_t)later & sorting->range.mask));
            }
            place = mark(sorting, terms, mix(key));
            if (place == UINT32_MAX) {
                continue;
            }
        }
        memmove(buffer->words + (size_t)buffer->n_accepted * n_words, terms,
                n_words * sizeof *terms);
        buffer->places[buffer->n_accepted++] = place;
        sorting->n_accepted++;
    }
}

void es_tuple_accept(EsTupleRelation *relation, EsTupleBuffer *buffers, int32_t n_pieces,
                     int part) {
    Sorting sorting = {.relation = relation,
                       .buffers = buffers,
                       .part = part,
                       .n_words = (size_t)relation->arity + (size_t)relation->proofs.n_words};
    if (relation->bits == NULL) {
        sorting.range = range_of(relation, part);
    }
    for (int32_t i = 0; i < n_pieces * ES_TUPLE_PARTS; i++) {
        sorting.first += i % ES_TUPLE_PARTS < part ? buffers[i].count : 0;
    }
    for (int32_t i = 0; i < n_pieces; i++) {
        accept_buffer(&sorting, &buffers[i * ES_TUPLE_PARTS + part]);
    }
}

// The tuples of a piece, which are numbered from first[part] on.
static EsTupleRun run_of(const EsTupleBuffer *buffers, const int64_t *first) {
    EsTupleRun run;
    for (int part = 0; part < ES_TUPLE_PARTS; part++) {
        run.start[part] = (int32_t)first[part];
        run.start[part + 1] = (int32_t)(first[part] + buffers[part].n_accepted);
    }
    return run;
}

EsStatus es_tuple_number(EsTupleRelation *relation, const EsTupleBuffer *buffers, int32_t n_pieces,
                         int64_t n_most, int64_t *first, int64_t *n_new) {
    int64_t number = relation->count;
    for (int32_t i = 0; i < n_pieces * ES_TUPLE_PARTS; i++) {
        first[i] = number;
        number += buffers[i].n_accepted;
    }
    *n_new = number - relation->count;
    // beyond the limit nothing is added any more, nor the set made larger
    for (int32_t i = 0; i < n_pieces * ES_TUPLE_PARTS && *n_new <= n_most; i += ES_TUPLE_PARTS) {
        EsTupleRun run = run_of(buffers + i, first + i);
        if (run.start[ES_TUPLE_PARTS] - run.start[0] >= RUN_TUPLES) {
            ES_TRY(es_proof_array_grow((void **)&relation->runs, sizeof run, relation->n_runs,
                                       relation->n_runs + 1, &relation->run_capacity));
            relation->runs[relation->n_runs++] = run;
        }
    }
    return reserve_tuples(relation, ES_MIN(*n_new, n_most));
}

void es_tuple_place(EsTupleRelation *relation, const EsTupleBuffer *buffers, int32_t n_pieces,
                    int part, const int64_t *first, int64_t end) {
    size_t arity = (size_t)relation->arity, n_proof = (size_t)relation->proofs.n_words;
    uint32_t number_mask = relation->bits == NULL ? (1u << relation->log2_slots) - 1u : 0;
    int32_t n_placed = 0;
    for (int32_t i = 0; i < n_pieces; i++) {
        const EsTupleBuffer *buffer = &buffers[i * ES_TUPLE_PARTS + part];
        int64_t number = first[i * ES_TUPLE_PARTS + part];
        for (int64_t j = 0; j < buffer->n_accepted; j++, number++) {
            const int32_t *words = buffer->words + (size_t)j * (arity + n_proof);
            if (number >= end) {
                // a slot with a number beyond the count is passed over
                uint64_t key = es_tuple_key(relation, words);
                if (relation->bits != NULL) {
                    relation->bits[key >> 6] &= ~((uint64_t)1 << (key & 63));
                } else {
                    relation->slots[buffer->places[j]] |= number_mask;
                }
                continue;
            }
            memcpy(item_at(&relation->tuples, number), words, arity * sizeof *words);
            if (n_proof > 0) {
                memcpy(item_at(&relation->proofs, number - relation->n_facts), words + arity,
                       n_proof * sizeof *words);
            }
            if (relation->bits == NULL) {
                uint32_t *slot = &relation->slots[buffer->places[j]];
                *slot = (*slot & ~number_mask) | (uint32_t)(number + 1);
                n_placed++;
            }
        }
    }
    relation->in_part[part] += n_placed;
}

// --- indices ---

EsStatus es_tuple_index_create(EsTupleRelation *relation, const int *columns, int n_columns,
                               int *number) {
    for (int i = 0; i < relation->n_indices; i++) {
        const EsTupleIndex *index = &relation->indices[i];
        if (index->n_columns == n_columns &&
            memcmp(index->columns, columns, (size_t)n_columns * sizeof *columns) == 0) {
            *number = i;
            return ES_STATUS_OK;
        }
    }
    size_t n = (size_t)relation->n_indices;
    ES_TRY(es_reallocate((void **)&relation->indices, n * sizeof *relation->indices,
                         (n + 1) * sizeof *relation->indices));
    EsTupleIndex *index = &relation->indices[n];
    index->n_columns = n_columns;
    memcpy(index->columns, columns, (size_t)n_columns * sizeof *columns);
    index->log2_heads = FIRST_LOG2;
    *number = relation->n_indices++;
    return ES_STATUS_OK;
}

static uint64_t index_key(const EsTupleRelation *relation, const EsTupleIndex *index,
                          const int32_t *key) {
    uint64_t base = (uint64_t)relation->n_constants + 1, number = 0;
    for (int i = 0; i < index->n_columns; i++) {
        number = number * base + (uint32_t)key[i];
    }
    return number;
}

static void take_key(const EsTupleIndex *index, const int32_t *terms, int32_t *key) {
    for (int i = 0; i < index->n_columns; i++) {
        key[i] = terms[index->columns[i]];
    }
}

static int has_key(const EsTupleRelation *relation, const EsTupleIndex *index, uint32_t tuple,
                   const int32_t *key) {
    const int32_t *terms = es_tuple_at(relation, (int32_t)tuple);
    for (int i = 0; i < index->n_columns; i++) {
        if (terms[index->columns[i]] != key[i]) {
            return 0;
        }
    }
    return 1;
}

// The head of a key's list, or the free slot where it belongs.
static uint32_t *head_of(const EsTupleRelation *relation, const EsTupleIndex *index,
                         const int32_t *key, uint32_t *tag) {
    uint64_t number = index_key(relation, index, key);
    if (index->log2_heads < 0) {
        *tag = 0;
        return &index->heads[number];
    }
    uint32_t mask = (1u << index->log2_heads) - 1u;
    uint64_t hash = mix(number);
    uint32_t place = (uint32_t)hash & mask, slot;
    *tag = tag_of(hash, mask);
    while ((slot = index->heads[place]) != 0 &&
           ((slot & ~mask) != *tag || !has_key(relation, index, (slot & mask) - 1, key))) {
        place = (place + 1) & mask;
    }
    return &index->heads[place];
}

uint32_t es_tuple_index_first(const EsTupleRelation *relation, const EsTupleIndex *index,
                              const int32_t *key) {
    uint32_t tag;
    if (index->n_indexed == 0) {
        return 0;
    }
    uint32_t slot = *head_of(relation, index, key, &tag);
    return index->log2_heads < 0 ? slot : slot & ((1u << index->log2_heads) - 1u);
}

// Make the heads large enough for n_tuples: slots, or one per key where that is no more. Numbers of
// tuples have to fit below the bits of the hash.
static EsStatus reserve_heads(EsTupleRelation *relation, EsTupleIndex *index, int64_t n_tuples) {
    int log2 = index->log2_heads;
    double n_keys = 1;
    for (int i = 0; i < index->n_columns; i++) {
        n_keys *= (double)relation->n_constants + 1;
    }
    while (log2 >= 0 && ((int64_t)1 << log2) / 4 * 3 < n_tuples) {
        log2++;
    }
    if (log2 == index->log2_heads && index->heads != NULL) {
        return ES_STATUS_OK;
    }
    if (log2 > 31) {
        return ES_FAIL(MEMORY, "an index of %lld tuples", (long long)n_tuples);
    }
    uint32_t *before = index->heads;
    uint32_t n_before = before != NULL ? 1u << index->log2_heads : 0;
    uint32_t mask_before = n_before - 1u, tag;
    int is_direct = n_keys <= (double)((int64_t)1 << log2);
    size_t n = is_direct ? (size_t)n_keys : (size_t)1 << log2;
    index->heads = NULL;
    EsStatus status = es_allocate(n * sizeof *index->heads, (void **)&index->heads);
    index->log2_heads = is_direct ? -1 : log2;
    for (uint32_t i = 0; i < n_before && status == ES_STATUS_OK; i++) {
        if (before[i] != 0) {
            int32_t key[ES_TUPLE_MAX_ARITY];
            uint32_t number = before[i] & mask_before;
            take_key(index, es_tuple_at(relation, (int32_t)number - 1), key);
            uint32_t *head = head_of(relation, index, key, &tag);
            *head = tag | number;
        }
    }
    es_release(before);
    return status;
}

EsStatus es_tuple_index_update(EsTupleRelation *relation, int number, int32_t count) {
    EsTupleIndex *index = &relation->indices[number];
    if (index->n_indexed >= count) {
        return ES_STATUS_OK;
    }
    ES_TRY(reserve_heads(relation, index, count));
    ES_TRY(es_proof_array_grow((void **)&index->next, sizeof *index->next, index->n_indexed, count,
                               &index->capacity));
    for (int32_t i = index->n_indexed; i < count; i++) {
        int32_t key[ES_TUPLE_MAX_ARITY];
        uint32_t tag;
        take_key(index, es_tuple_at(relation, i), key);
        uint32_t *head = head_of(relation, index, key, &tag);
        uint32_t mask = index->log2_heads < 0 ? UINT32_MAX : (1u << index->log2_heads) - 1u;
        index->next[i] = *head & mask;
        *head = tag | (uint32_t)(i + 1);
    }
    index->n_indexed = count;
    return ES_STATUS_OK;
}
