#include "proof/proof_states.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

EsStatus es_proof_grow_array(void **array, size_t element_bytes, size_t used, size_t wanted,
                             size_t *capacity) {
    if (wanted <= *capacity) {
        return ES_STATUS_OK;
    }
    size_t larger = ES_MAX(wanted, *capacity * 2);
    void *memory;
    ES_TRY(es_allocate(larger * element_bytes, &memory));
    if (used > 0) {
        memcpy(memory, *array, used * element_bytes);
    }
    es_release(*array);
    *array = memory;
    *capacity = larger;
    return ES_STATUS_OK;
}

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

// Room for one more state of at most ES_PROOF_MAX_ATOMS atoms and as many of its key.
static EsStatus make_room(EsProofStates *states) {
    if (states->count >= states->table_size / 2) {
        ES_TRY(grow_table(states));
    }
    size_t count = (size_t)states->count, capacity = (size_t)states->capacity;
    void *list = states->states, *atoms = states->atoms;
    EsStatus status =
        es_proof_grow_array(&list, sizeof *states->states, count, count + 1, &capacity);
    states->states = list;
    states->capacity = (int32_t)capacity;
    ES_TRY(status);
    status = es_proof_grow_array(&atoms, sizeof(EsAtom), states->n_atoms,
                                 states->n_atoms + (size_t)2 * ES_PROOF_MAX_ATOMS,
                                 &states->atom_capacity);
    states->atoms = atoms;
    return status;
}

EsStatus es_proof_states_create(int compares_sets, EsProofStates *states) {
    memset(states, 0, sizeof *states);
    states->compares_sets = compares_sets;
    return grow_table(states);
}

void es_proof_states_destroy(EsProofStates *states) {
    es_release(states->states);
    es_release(states->atoms);
    es_release(states->table);
    memset(states, 0, sizeof *states);
}

EsStatus es_proof_states_add(EsProofStates *states, const EsAtom *atoms, int32_t n_atoms,
                             uint64_t hash, int32_t *number) {
    EsAtom set[ES_PROOF_MAX_ATOMS];
    const EsAtom *key = atoms;
    int32_t n_key = n_atoms;
    if (states->compares_sets) {
        n_key = make_set(atoms, n_atoms, set);
        key = set;
        hash = es_proof_hash(set, n_key);
    }
    ES_TRY(make_room(states));
    int32_t place = find_place(states, key, n_key, hash);
    if (states->table[place] != 0) {
        *number = states->table[place] - 1;
        return ES_STATUS_OK;
    }
    EsStoredState state = {
        .hash = hash, .start = states->n_atoms, .n_atoms = n_atoms, .n_key = n_key};
    memcpy(states->atoms + states->n_atoms, atoms, (size_t)n_atoms * sizeof *atoms);
    states->n_atoms += (size_t)n_atoms;
    if (key != atoms) {
        memcpy(states->atoms + states->n_atoms, key, (size_t)n_key * sizeof *key);
        states->n_atoms += (size_t)n_key;
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
    } else {
        memset(states->table, 0, (size_t)states->table_size * sizeof *states->table);
    }
    states->count = 0;
    states->n_atoms = 0;
}
