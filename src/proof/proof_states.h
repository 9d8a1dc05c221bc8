// The distinct states a search has met, numbered from 0 in the order they came, compared exactly.
//
// Memory grows with what is needed and stays from query to query; one thread at a time.
//
//     ES_TRY(es_proof_states_add(&states, atoms, n_atoms, hash, &number));
//     EsAtomSpan state = es_proof_state(&states, number); // until the next is added
#ifndef ES_PROOF_PROOF_STATES_H
#define ES_PROOF_PROOF_STATES_H

#include "proof/proof_rules.h"

ES_EXTERN_C_BEGIN

typedef struct EsStoredState {
    uint64_t hash; // of the key: the atoms, or the set of them
    size_t start;  // its atoms, and behind them the key's if that is another list
    int32_t n_atoms, n_key;
} EsStoredState;

typedef struct EsProofStates {
    EsStoredState *states; // owned, as are the next two
    int32_t count, capacity;
    EsAtom *atoms;
    size_t n_atoms, atom_capacity;
    int32_t *table; // number + 1 by hash, 0: free
    int32_t table_size;
    int compares_sets; // states with the same set of atoms are one
} EsProofStates;

EsStatus es_proof_states_create(int compares_sets, EsProofStates *states);
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

// Room for `wanted` elements in an array of es_allocate, at least doubling it; the `used` first
// stay.
EsStatus es_proof_grow_array(void **array, size_t element_bytes, size_t used, size_t wanted,
                             size_t *capacity);

ES_EXTERN_C_END

#endif
