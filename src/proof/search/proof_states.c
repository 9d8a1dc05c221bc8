// A hash table with open addressing, at most half full, over states stored one behind the other.
// With compares_sets the key is the sorted set of a state's atoms, stored behind them.
#include "proof/search/proof_states.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/search/proof_array.h"

// so that the table has at most 2^30 places
#define MAX_STATES (1 << 29)

// The set of the atoms, as a sorted list without repetitions.
static int32_t make_set(const EsAtom *state, int32_t n_atoms, EsAtom *set) {
    memcpy(set, state, (size_t)n_atoms * sizeof *set);
    qsort(set, (size_t)n_atoms, sizeof *set, es_atom_compare);
    int32_t n_set = 0;
    for (int32_t i = 0; i < n_atoms; i++) {
        if (n_set == 0 || !es_atom_equals(set[n_set - 1], set[i])) {
            set[n_set++] = set[i];
        }
    }
    return n_set;
}

static const EsAtom *key_of(const EsProofStates *states, const EsStoredState *state) {
    const EsAtom *atoms = states->atoms + state->start;
    return states->compares_sets ? atoms + state->n_atoms : atoms;
}

static EsStatus grow_table(EsProofStates *states) {
    int32_t table_size = ES_MAX(states->table_size * 2, 1 << 10);
    void *memory;
    ES_TRY(es_allocate((size_t)table_size * sizeof *states->table, &memory));
    es_release(states->table);
    states->table = memory;
    states->table_size = table_size;
    for (int32_t i = 0; i < states->count; i++) {
        int32_t place = (int32_t)(states->states[i].hash & (uint64_t)(table_size - 1));
        while (states->table[place] != 0) {
            place = (place + 1) & (table_size - 1);
        }
        states->table[place] = i + 1;
    }
    return ES_STATUS_OK;
}

// The place of the key in the table: that of a state equal to it, or a free one.
static int32_t find_place(const EsProofStates *states, const EsAtom *key, int32_t n_key,
                          uint64_t hash) {
    int32_t place = (int32_t)(hash & (uint64_t)(states->table_size - 1));
    for (; states->table[place] != 0; place = (place + 1) & (states->table_size - 1)) {
        const EsStoredState *state = &states->states[states->table[place] - 1];
        if (state->hash == hash && state->n_key == n_key &&
            es_proof_states_equal(key_of(states, state), key, n_key)) {
            break;
        }
    }
    return place;
}

// Room for one more state with this many atoms, those of its key included.
static EsStatus make_room(EsProofStates *states, int32_t n_atoms) {
    if (states->count == MAX_STATES) {
        return ES_FAIL(MEMORY, "more than %d states of proofs at a time", MAX_STATES);
    }
    if (states->count >= states->table_size / 2) {
        ES_TRY(grow_table(states));
    }
    ES_TRY(es_proof_array_grow((void **)&states->states, sizeof *states->states, states->count,
                               (int64_t)states->count + 1, &states->capacity));
    return es_proof_array_grow((void **)&states->atoms, sizeof *states->atoms, states->n_atoms,
                               states->n_atoms + n_atoms, &states->atom_capacity);
}

void es_proof_states_destroy(EsProofStates *states) {
    es_release(states->states);
    es_release(states->atoms);
    es_release(states->table);
    memset(states, 0, sizeof *states);
}

EsStatus es_proof_states_add(EsProofStates *states, const EsAtom *atoms, int32_t n_atoms,
                             uint64_t hash, int32_t *number) {
    ES_ASSERT(n_atoms <= ES_PROOF_MAX_ATOMS);
    EsAtom set[ES_PROOF_MAX_ATOMS];
    const EsAtom *key = atoms;
    int32_t n_key = n_atoms;
    if (states->compares_sets) {
        n_key = make_set(atoms, n_atoms, set);
        key = set;
        hash = es_proof_hash(set, n_key);
    }
    ES_TRY(make_room(states, 2 * n_atoms));
    int32_t place = find_place(states, key, n_key, hash);
    if (states->table[place] != 0) {
        *number = states->table[place] - 1;
        return ES_STATUS_OK;
    }
    EsStoredState state = {
        .hash = hash, .start = states->n_atoms, .n_atoms = n_atoms, .n_key = n_key};
    memcpy(states->atoms + states->n_atoms, atoms, (size_t)n_atoms * sizeof *atoms);
    states->n_atoms += n_atoms;
    if (key != atoms) {
        memcpy(states->atoms + states->n_atoms, key, (size_t)n_key * sizeof *key);
        states->n_atoms += n_key;
    }
    *number = states->count;
    states->states[states->count++] = state;
    states->table[place] = states->count;
    return ES_STATUS_OK;
}

// After a long search clearing places one by one would cost more than clearing all.
void es_proof_states_clear(EsProofStates *states) {
    if (states->count < states->table_size / 16) {
        for (int32_t i = states->count - 1; i >= 0; i--) {
            const EsStoredState *state = &states->states[i];
            states->table[find_place(states, key_of(states, state), state->n_key, state->hash)] = 0;
        }
    } else if (states->count > 0) {
        memset(states->table, 0, (size_t)states->table_size * sizeof *states->table);
    }
    states->count = 0;
    states->n_atoms = 0;
}
