// The distinct goal lists that a search or a policy has met, numbered from 0 in the order they
// came, compared exactly.
//
// Memory grows on demand and stays from query to query; one thread at a time.
//
//     EsGoalTable goals = {0};
//     ES_TRY(es_goal_table_add(&goals, atoms, n_atoms, hash, &number));
//     EsAtomSpan list = es_goal_table_at(&goals, number); // until the next is added
//     es_goal_table_destroy(&goals);
#ifndef ES_PROOF_GOAL_TABLE_H
#define ES_PROOF_GOAL_TABLE_H

#include "proof/search/proof_rules.h"

ES_EXTERN_C_BEGIN

typedef struct EsStoredGoals {
    uint64_t hash; // of the key: the atoms, or the set of them
    int64_t start; // its atoms, and behind them the key's if that is another list
    int32_t n_atoms, n_key;
} EsStoredGoals;

// All zero is the empty set. Arrays are owned.
typedef struct EsGoalTable {
    EsStoredGoals *stored;
    int32_t count;
    int64_t capacity;
    EsAtom *atoms;
    int64_t n_atoms, atom_capacity;
    int32_t *table;     // number + 1 by hash, 0: free
    int32_t table_size; // a power of two, at least twice the count
    int compares_sets;  // lists with the same set of atoms are one; set by the owner at the start
} EsGoalTable;

void es_goal_table_destroy(EsGoalTable *goals);

// The number of a list of at most ES_PROOF_MAX_ATOMS + 1 atoms, those of a state and perhaps its
// query; a new one gets the old count. `hash` is es_proof_hash of it.
EsStatus es_goal_table_add(EsGoalTable *goals, const EsAtom *atoms, int32_t n_atoms, uint64_t hash,
                           int32_t *number);

// Forget all; the memory stays.
void es_goal_table_clear(EsGoalTable *goals);

static inline EsAtomSpan es_goal_table_at(const EsGoalTable *goals, int32_t number) {
    const EsStoredGoals *list = &goals->stored[number];
    EsAtomSpan span = {goals->atoms + list->start, list->n_atoms};
    return span;
}

ES_EXTERN_C_END

#endif
