// States of a search, each kept once, with the one it came from.
//
// States are compared exactly. They keep the numbers they were added under, in that order, so a
// breadth-first search walks the numbers.
#ifndef ES_PROOF_ANSWERS_STATES_H
#define ES_PROOF_ANSWERS_STATES_H

#include "proof/proof_rules.h"

ES_EXTERN_C_BEGIN

typedef struct EsSearchState {
    uint64_t hash;
    size_t start; // of its atoms in EsSearchStates.atoms
    int32_t n_atoms;
    int32_t parent;  // number of the state it came from, -1: none
    int32_t n_steps; // as the search counts them
} EsSearchState;

// All zero is empty. Arrays owned.
typedef struct EsSearchStates {
    EsSearchState *items; // (count)
    size_t count, capacity;
    EsAtom *atoms;
    size_t n_atoms, atom_capacity;
    int32_t *table; // number + 1 by hash, 0: free                                   (table_size)
    size_t table_size;
} EsSearchStates;

// *number is that of the new state, -1 when an equal one is there already.
EsStatus es_search_states_add(EsSearchStates *states, EsAtomSpan state, uint64_t hash,
                              int32_t parent, int32_t n_steps, int32_t *number);

// Valid until the next state is added.
EsAtomSpan es_search_state(const EsSearchStates *states, int32_t number);

void es_search_states_destroy(EsSearchStates *states);

// Whether a state may still be proved in n_steps steps by rules. A ground atom that is left is no
// fact that may be used, and no substitution changes it, so that it takes a rule of its own.
int es_search_may_be_proved(const EsKnowledgeGraph *graph, EsAtomSpan state, int32_t n_steps);

ES_EXTERN_C_END

#endif
