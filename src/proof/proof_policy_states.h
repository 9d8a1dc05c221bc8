// A set of states, each held once and known by a number from 0 on. States are compared exactly.
//
//     ES_TRY(es_state_set_add(&states, span, &number));
//     EsAtomSpan again = es_state_set_at(&states, number);
//     es_state_set_release(&states);
#ifndef ES_PROOF_PROOF_POLICY_STATES_H
#define ES_PROOF_PROOF_POLICY_STATES_H

#include "proof/proof_rules.h"

ES_EXTERN_C_BEGIN

// All zero is the empty set. Arrays are owned.
typedef struct EsStateSet {
    int32_t count;
    EsAtom *atoms;      // all states, one after the other
    int64_t *first;     // atoms of state i: first[i] to first[i+1] - 1
    uint64_t *hash;     // es_proof_hash of each
    int32_t *table;     // number + 1 of a state, 0: free; open addressing
    int32_t table_size; // a power of two, at least twice the count
    int32_t capacity;   // states that fit
    int64_t atom_capacity;
} EsStateSet;

void es_state_set_release(EsStateSet *states);

// The set becomes empty and keeps its memory.
void es_state_set_clear(EsStateSet *states);

// The number of a state, a new one (the count before the call) if the set has none equal to it.
EsStatus es_state_set_add(EsStateSet *states, EsAtomSpan state, int32_t *number);

static inline EsAtomSpan es_state_set_at(const EsStateSet *states, int32_t number) {
    EsAtomSpan span = {states->atoms + states->first[number],
                       (int32_t)(states->first[number + 1] - states->first[number])};
    return span;
}

// Make an owned array of `used` elements hold at least `wanted`; *capacity says how many fit, half
// as much again as is needed. New memory is zero.
EsStatus es_state_set_grow(void **array, size_t element_bytes, int64_t used, int64_t wanted,
                           int64_t *capacity);

ES_EXTERN_C_END

#endif
