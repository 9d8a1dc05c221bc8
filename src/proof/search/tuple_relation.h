// A relation of a Datalog program: distinct tuples of constants in the order they were added, a set
// that finds them, and lists of those that agree in some columns.
//
// Bytes of a tuple of two terms: 8 in the store, which is made of chunks and never moved or half
// empty; 5.3 to 10.7 in the set, 32-bit slots that are at most three quarters full. Where one bit
// for every tuple over the constants takes no more than the slots would, the set is those bits: the
// closure of a dense graph then costs an eighth of a byte per tuple, and a tuple derived again one
// test of a bit near the last. A slot holds the number of its tuple and, in the bits that leaves,
// bits of its hash, so that other tuples are hardly ever looked at. An index on columns takes 4
// bytes per tuple and its heads, and exists only from when a join first asks for it. Provenance
// takes 4 bytes and 4 per body atom of the largest rule for the relation.
//
// Tuples are added in batches. The candidates of a batch fall into ES_TUPLE_PARTS parts by their
// terms, and each part owns a range of the slots, so that parts are sorted out side by side; the
// outcome depends on no thread. The new tuples of each piece of a batch are numbered part by part;
// where the parts of many begin is kept, so that threads fill a larger set each from tuples of
// their own.
#ifndef ES_PROOF_TUPLE_RELATION_H
#define ES_PROOF_TUPLE_RELATION_H

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

#define ES_TUPLE_MAX_ARITY 4
#define ES_TUPLE_PARTS     16

#define ES_TUPLE_CHUNK_BITS 16
#define ES_TUPLE_CHUNK      (1 << ES_TUPLE_CHUNK_BITS)

// Words in chunks of ES_TUPLE_CHUNK items; only the first is ever moved, while it is small.
typedef struct EsTupleStore {
    int32_t **chunks; // owned
    int32_t n_chunks;
    int32_t n_words;  // of an item
    int64_t capacity; // items
    int64_t n_listed; // entries of `chunks`
} EsTupleStore;

// Lists of the tuples that agree in some columns, newest first, linked by tuple number + 1; 0 ends
// a list.
typedef struct EsTupleIndex {
    int n_columns;
    int columns[ES_TUPLE_MAX_ARITY];
    uint32_t *heads;  // of lists; slots as in the set, or one per key; owned
    int log2_heads;   // of slots; -1: one per key, by number
    uint32_t *next;   // by tuple; owned
    int64_t capacity; // of next
    int32_t n_indexed;
} EsTupleIndex;

// Tuples of one piece of a batch: those of part i are start[i] to start[i + 1] - 1.
typedef struct EsTupleRun {
    int32_t start[ES_TUPLE_PARTS + 1];
} EsTupleRun;

typedef struct EsTupleRelation {
    int32_t arity, n_constants;
    int32_t count;
    int32_t n_facts;     // the first tuples, which have no provenance
    EsTupleStore tuples; // arity words each
    EsTupleStore proofs; // of tuples n_facts and on: rule, then numbers of the body's tuples
    // the set
    uint32_t *slots;                 // owned; 0: free, else hash bits over tuple number + 1
    int log2_slots;                  // -1: bits
    int32_t in_part[ES_TUPLE_PARTS]; // tuples in the range of each part
    uint64_t *bits;                  // owned; NULL: slots
    int may_use_bits;
    int is_split;     // each part has a range of the slots
    EsTupleRun *runs; // of large pieces, in their order; owned
    int64_t n_runs, run_capacity;
    EsTupleIndex *indices; // owned
    int n_indices;
} EsTupleRelation;

// Candidates for one part of a relation: arity + n_proof words each. On a cache line of its own,
// since neighbours are at work on other threads.
typedef struct EsTupleBuffer {
    _Alignas(ES_ALIGNMENT) int32_t *words; // owned
    uint32_t *places;                      // slots of the accepted; owned
    int64_t count, capacity;
    int32_t item_words; // that there is room for; relations of other widths share a buffer
    int64_t n_accepted;
} EsTupleBuffer;

// n_proof words of provenance per derived tuple, 0: none.
void es_tuple_relation_begin(EsTupleRelation *relation, int32_t arity, int32_t n_constants,
                             int32_t n_proof);
void es_tuple_relation_end(EsTupleRelation *relation);

static inline const int32_t *es_tuple_store_at(const EsTupleStore *store, int64_t i) {
    return store->chunks[i >> ES_TUPLE_CHUNK_BITS] +
           (size_t)(i & (ES_TUPLE_CHUNK - 1)) * (size_t)store->n_words;
}

static inline const int32_t *es_tuple_at(const EsTupleRelation *relation, int32_t i) {
    return es_tuple_store_at(&relation->tuples, i);
}

// The number of a tuple over all tuples of its arity, modulo 2^64.
static inline uint64_t es_tuple_key(const EsTupleRelation *relation, const int32_t *terms) {
    uint64_t base = (uint64_t)relation->n_constants + 1, key = 0;
    for (int32_t i = 0; i < relation->arity; i++) {
        key = key * base + (uint32_t)terms[i];
    }
    return key;
}

// The part of a tuple; tuples whose bits share a cache line share a part.
static inline int es_tuple_part(uint64_t key) {
    uint64_t line = key >> 9;
    return (int)(((line ^ (line >> 32)) * 0x9E3779B97F4A7C15u) >> 60);
}

// Returns whether the set is bits and has this one.
static inline int es_tuple_has_bit(const EsTupleRelation *relation, uint64_t key) {
    return relation->bits != NULL && (relation->bits[key >> 6] >> (key & 63) & 1u) != 0;
}

// The number of a tuple, -1 when it is not there. Not for a set of bits, which knows no numbers.
int32_t es_tuple_find(const EsTupleRelation *relation, const int32_t *terms);
int es_tuple_has(const EsTupleRelation *relation, const int32_t *terms);

// Add one tuple unless it is there, at the end of facts.
EsStatus es_tuple_add_fact(EsTupleRelation *relation, const int32_t *terms);

// Add `count` tuples, each `stride` words behind the last, unless they are there. An empty relation
// takes those in strictly ascending order at once, by the threads of the pool, which may be NULL.
EsStatus es_tuple_add_facts(EsTupleRelation *relation, EsThreadPool *pool, const int32_t *terms,
                            int32_t stride, int32_t count);

// --- batches: reserve, accept every part, number, place every part ---

// Add a candidate to its part's buffer; returns its words, or NULL when memory is out.
int32_t *es_tuple_buffer_add(EsTupleBuffer *buffer, int32_t n_words);
void es_tuple_buffer_end(EsTupleBuffer *buffer);

// Room in the set for the candidates of a batch: buffers[i * ES_TUPLE_PARTS + part], i < n_pieces.
// `pool` may be NULL.
EsStatus es_tuple_reserve(EsTupleRelation *relation, EsThreadPool *pool,
                          const EsTupleBuffer *buffers, int32_t n_pieces);

// Returns whether parts may be accepted side by side; if not, one after the other.
int es_tuple_is_split(const EsTupleRelation *relation);

// Move the new tuples of a part to the front of its buffers and mark them in the set.
void es_tuple_accept(EsTupleRelation *relation, EsTupleBuffer *buffers, int32_t n_pieces, int part);

// Number the accepted tuples, those of buffer i from first[i] (n_pieces x ES_TUPLE_PARTS), and make
// room in the store for at most `n_most` of them. *n_new: how many they are.
EsStatus es_tuple_number(EsTupleRelation *relation, const EsTupleBuffer *buffers, int32_t n_pieces,
                         int64_t n_most, int64_t *first, int64_t *n_new);

// Store the accepted tuples of a part under their numbers; those from `end` on are forgotten.
void es_tuple_place(EsTupleRelation *relation, const EsTupleBuffer *buffers, int32_t n_pieces,
                    int part, const int64_t *first, int64_t end);

// --- indices ---

// The number of the index on some columns, made when there is none; an empty one at first.
EsStatus es_tuple_index_create(EsTupleRelation *relation, const int *columns, int n_columns,
                               int *number);

// Add the tuples up to `count` that the index lacks.
EsStatus es_tuple_index_update(EsTupleRelation *relation, int number, int32_t count);

// The newest tuple with these terms in the columns of the index, as number + 1; 0: none.
uint32_t es_tuple_index_first(const EsTupleRelation *relation, const EsTupleIndex *index,
                              const int32_t *key);

ES_EXTERN_C_END

#endif
