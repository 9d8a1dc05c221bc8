// The distinct states a search or a policy has met, numbered from 0 in the order they came,
// compared exactly.
//
// Memory grows on demand and stays from query to query; one thread at a time.
//
//     EsProofStates states = {0};
//     ES_TRY(es_proof_states_add(&states, atoms, n_atoms, hash, &number));
//     EsAtomSpan state = es_proof_state(&states, number); // until the next is added
//     es_proof_states_destroy(&states);
#ifndef ES_PROOF_PROOF_STATES_H
#define ES_PROOF_PROOF_STATES_H

#include "proof/search/proof_rules.h"

ES_EXTERN_C_BEGIN

typedef struct EsStoredState {
    uint64_t hash; // of the key: the atoms, or the set of them
    int64_t start; // its atoms, and behind them the key's if that is another list
    int32_t n_atoms, n_key;
} EsStoredState;

// All zero is the empty set. Arrays are owned.
typedef struct EsProofStates {
    EsStoredState *states;
    int32_t count;
    int64_t capacity;
    EsAtom *atoms;
    int64_t n_atoms, atom_capacity;
    int32_t *table;     // number + 1 by hash, 0: free
    int32_t table_size; // a power of two, at least twice the count
    int compares_sets;  // states with the same set of atoms are one; set by the owner at the start
} EsProofStates;

void es_proof_states_destroy(EsProofStates *states);

// The number of a state of at most ES_PROOF_MAX_ATOMS atoms; a new one gets the old count. `hash`
// is es_proof_hash of it.
EsStatus es_proof_states_add(EsProofStates *states, const EsAtom *atoms, int32_t n_atoms,
                             uint64_t hash, int32_t *number);

// Forget all; the memory stays.
void es_proof_states_clear(EsProofStates *states);

static inline EsAtomSpan es_proof_state(const EsProofStates *states, int32_t number) {
    const EsStoredState *state = &states->states[number];
    EsAtomSpan span = {states->atoms + state->start, state->n_atoms};
    return span;
}

ES_EXTERN_C_END

#endif
