#include "proof/answers_states.h"

#include <string.h>

#include "base/arena.h"

// Room for `wanted` elements, at least doubling; the contents stay.
static EsStatus reserve(void **array, size_t element_bytes, size_t used, size_t wanted,
                        size_t *capacity) {
    if (wanted <= *capacity) {
        return ES_STATUS_OK;
    }
    size_t larger = ES_MAX(ES_MAX(wanted, *capacity * 2), 256);
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

// The place of an equal state, or the free one where it belongs.
static size_t find_place(const EsSearchStates *states, EsAtomSpan state, uint64_t hash) {
    size_t place = (size_t)hash & (states->table_size - 1);
    for (; states->table[place] != 0; place = (place + 1) & (states->table_size - 1)) {
        const EsSearchState *item = &states->items[states->table[place] - 1];
        if (item->hash == hash && item->n_atoms == state.count &&
            es_proof_states_equal(states->atoms + item->start, state.atoms, state.count)) {
            break;
        }
    }
    return place;
}

// The table stays at most half full.
static EsStatus grow_table(EsSearchStates *states) {
    if (2 * states->count < states->table_size) {
        return ES_STATUS_OK;
    }
    size_t table_size = ES_MAX(states->table_size * 2, 1024);
    void *memory;
    ES_TRY(es_allocate(table_size * sizeof *states->table, &memory));
    es_release(states->table);
    states->table = memory;
    states->table_size = table_size;
    for (size_t i = 0; i < states->count; i++) {
        size_t place = (size_t)states->items[i].hash & (table_size - 1);
        while (states->table[place] != 0) {
            place = (place + 1) & (table_size - 1);
        }
        states->table[place] = (int32_t)i + 1;
    }
    return ES_STATUS_OK;
}

EsStatus es_search_states_add(EsSearchStates *states, EsAtomSpan state, uint64_t hash,
                              int32_t parent, int32_t n_steps, int32_t *number) {
    *number = -1;
    ES_TRY(grow_table(states));
    size_t place = find_place(states, state, hash), n = (size_t)state.count;
    if (states->table[place] != 0) {
        return ES_STATUS_OK;
    }
    ES_ASSERT(states->count < INT32_MAX);
    ES_TRY(reserve((void **)&states->items, sizeof *states->items, states->count, states->count + 1,
                   &states->capacity));
    ES_TRY(reserve((void **)&states->atoms, sizeof *states->atoms, states->n_atoms,
                   states->n_atoms + n, &states->atom_capacity));
    memcpy(states->atoms + states->n_atoms, state.atoms, n * sizeof *state.atoms);
    states->items[states->count] =
        (EsSearchState){hash, states->n_atoms, state.count, parent, n_steps};
    states->n_atoms += n;
    *number = (int32_t)states->count++;
    states->table[place] = *number + 1;
    return ES_STATUS_OK;
}

EsAtomSpan es_search_state(const EsSearchStates *states, int32_t number) {
    const EsSearchState *item = &states->items[number];
    return (EsAtomSpan){states->atoms + item->start, item->n_atoms};
}

void es_search_states_destroy(EsSearchStates *states) {
    es_release(states->items);
    es_release(states->atoms);
    es_release(states->table);
    memset(states, 0, sizeof *states);
}

int es_search_may_be_proved(const EsKnowledgeGraph *graph, EsAtomSpan state, int32_t n_steps) {
    int32_t n_ground = 0;
    for (int32_t i = 0; i < state.count; i++) {
        EsAtom atom = state.atoms[i];
        if (atom.a <= graph->n_constants && atom.b <= graph->n_constants) {
            int32_t n_rules;
            es_kg_rules_of(graph, atom.predicate, &n_rules);
            n_ground++;
            if (n_rules == 0 || n_ground > n_steps) {
                return 0;
            }
        }
    }
    return 1;
}
