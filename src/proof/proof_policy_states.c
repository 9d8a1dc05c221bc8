#include "proof/proof_policy_states.h"

#include <string.h>

#include "base/arena.h"

#define FIRST_STATES 64

EsStatus es_state_set_grow(void **array, size_t element_bytes, int64_t used, int64_t wanted,
                           int64_t *capacity) {
    if (wanted <= *capacity && *array != NULL) {
        return ES_STATUS_OK;
    }
    int64_t more = ES_MAX(wanted + wanted / 2, FIRST_STATES);
    void *memory = NULL;
    ES_TRY(es_allocate(element_bytes * (size_t)more, &memory));
    if (used > 0) {
        memcpy(memory, *array, element_bytes * (size_t)used);
    }
    es_release(*array);
    *array = memory;
    *capacity = more;
    return ES_STATUS_OK;
}

void es_state_set_release(EsStateSet *states) {
    es_release(states->atoms);
    es_release(states->first);
    es_release(states->hash);
    es_release(states->table);
    *states = (EsStateSet){0};
}

void es_state_set_clear(EsStateSet *states) {
    if (states->count > 0) {
        memset(states->table, 0, sizeof *states->table * (size_t)states->table_size);
    }
    states->count = 0;
}

// The place of an equal state, or the free one where it belongs.
static int32_t find_place(const EsStateSet *states, EsAtomSpan state, uint64_t hash) {
    int32_t mask = states->table_size - 1;
    for (int32_t place = (int32_t)(hash & (uint64_t)mask);; place = (place + 1) & mask) {
        int32_t i = states->table[place] - 1;
        if (i < 0) {
            return place;
        }
        EsAtomSpan other = es_state_set_at(states, i);
        if (states->hash[i] == hash && other.count == state.count &&
            es_proof_states_equal(other.atoms, state.atoms, state.count)) {
            return place;
        }
    }
}

static EsStatus grow_table(EsStateSet *states, int32_t size) {
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof *states->table * (size_t)size, &memory));
    es_release(states->table);
    states->table = memory;
    states->table_size = size;
    for (int32_t i = 0; i < states->count; i++) {
        int32_t place = (int32_t)(states->hash[i] & (uint64_t)(size - 1));
        while (states->table[place] != 0) {
            place = (place + 1) & (size - 1);
        }
        states->table[place] = i + 1;
    }
    return ES_STATUS_OK;
}

// Room for one state more.
static EsStatus make_room(EsStateSet *states, int32_t n_atoms) {
    int64_t n = states->count, n_used = n > 0 ? states->first[n] : 0;
    ES_TRY(es_state_set_grow((void **)&states->atoms, sizeof *states->atoms, n_used,
                             n_used + n_atoms, &states->atom_capacity));
    if (n == states->capacity) {
        if (n > INT32_MAX / 4) {
            return ES_FAIL(MEMORY, "%lld states are more than a set of states holds", (long long)n);
        }
        int64_t first_capacity = 0, hash_capacity = 0;
        ES_TRY(es_state_set_grow((void **)&states->hash, sizeof *states->hash, n, n + 1,
                                 &hash_capacity));
        ES_TRY(es_state_set_grow((void **)&states->first, sizeof *states->first, n == 0 ? 0 : n + 1,
                                 hash_capacity + 1, &first_capacity));
        states->capacity = (int32_t)hash_capacity;
    }
    int32_t size = ES_MAX(states->table_size, 4 * FIRST_STATES);
    while (size < 2 * (n + 1)) {
        size *= 2;
    }
    return size > states->table_size ? grow_table(states, size) : ES_STATUS_OK;
}

EsStatus es_state_set_add(EsStateSet *states, EsAtomSpan state, int32_t *number) {
    ES_TRY(make_room(states, state.count));
    uint64_t hash = es_proof_hash(state.atoms, state.count);
    int32_t place = find_place(states, state, hash);
    if (states->table[place] == 0) {
        int32_t i = states->count++;
        states->first[0] = 0;
        memcpy(states->atoms + states->first[i], state.atoms,
               sizeof *state.atoms * (size_t)state.count);
        states->first[i + 1] = states->first[i] + state.count;
        states->hash[i] = hash;
        states->table[place] = i + 1;
    }
    *number = states->table[place] - 1;
    return ES_STATUS_OK;
}
