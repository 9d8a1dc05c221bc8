// A set of states, each held once and known by a number from 0 on. States are compared exactly.
//
//     ES_TRY(es_proof_states_add(&states, span, &number));
//     EsAtomSpan again = es_proof_states_at(&states, number);
//     es_proof_states_release(&states);
#ifndef ES_PROOF_PROOF_POLICY_STATES_H
#define ES_PROOF_PROOF_POLICY_STATES_H

#include "proof/proof_rules.h"

ES_EXTERN_C_BEGIN

// All zero is the empty set. Arrays are owned.
typedef struct EsProofStates {
    int32_t count;
    EsAtom *atoms;      // all states, one after the other
    int64_t *first;     // atoms of state i: first[i] to first[i+1] - 1
    uint64_t *hash;     // es_proof_hash of each
    int32_t *table;     // number + 1 of a state, 0: free; open addressing
    int32_t table_size; // a power of two, at least twice the count
    int32_t capacity;   // states that fit
    int64_t atom_capacity;
} EsProofStates;

void es_proof_states_release(EsProofStates *states);

// The set becomes empty and keeps its memory.
void es_proof_states_clear(EsProofStates *states);

// The number of a state, a new one (the count before the call) if the set has none equal to it.
EsStatus es_proof_states_add(EsProofStates *states, EsAtomSpan state, int32_t *number);

static inline EsAtomSpan es_proof_states_at(const EsProofStates *states, int32_t number) {
    EsAtomSpan span = {states->atoms + states->first[number],
                       (int32_t)(states->first[number + 1] - states->first[number])};
    return span;
}

// Make an owned array of `used` elements hold at least `wanted`; *capacity says how many fit, half
// as much again as is needed. New memory is zero.
EsStatus es_proof_grow(void **array, size_t element_bytes, int64_t used, int64_t wanted,
                       int64_t *capacity);

ES_EXTERN_C_END

#endif
