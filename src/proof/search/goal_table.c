// A hash table with open addressing, at most half full, over goal lists stored one behind the
// other. With compares_sets the key is the sorted set of a list's atoms, stored behind them.
#include "proof/search/goal_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/search/proof_array.h"

// so that the table has at most 2^30 places
#define MAX_GOAL_LISTS (1 << 29)

// The set of the atoms, as a sorted list without repetitions.
static int32_t make_set(const EsAtom *atoms, int32_t n_atoms, EsAtom *set) {
    memcpy(set, atoms, (size_t)n_atoms * sizeof *set);
    qsort(set, (size_t)n_atoms, sizeof *set, es_atom_compare);
    int32_t n_set = 0;
    for (int32_t i = 0; i < n_atoms; i++) {
        if (n_set == 0 || !es_atom_equals(set[n_set - 1], set[i])) {
            set[n_set++] = set[i];
        }
    }
    return n_set;
}

static const EsAtom *key_of(const EsGoalTable *goals, const EsStoredGoals *list) {
    const EsAtom *atoms = goals->atoms + list->start;
    return goals->compares_sets ? atoms + list->n_atoms : atoms;
}

static EsStatus grow_table(EsGoalTable *goals) {
    int32_t table_size = ES_MAX(goals->table_size * 2, 1 << 10);
    void *memory;
    ES_TRY(es_allocate((size_t)table_size * sizeof *goals->table, &memory));
    es_release(goals->table);
    goals->table = memory;
    goals->table_size = table_size;
    for (int32_t i = 0; i < goals->count; i++) {
        int32_t place = (int32_t)(goals->stored[i].hash & (uint64_t)(table_size - 1));
        while (goals->table[place] != 0) {
            place = (place + 1) & (table_size - 1);
        }
        goals->table[place] = i + 1;
    }
    return ES_STATUS_OK;
}

// The place of the key in the table: that of a list equal to it, or a free one.
static int32_t find_place(const EsGoalTable *goals, const EsAtom *key, int32_t n_key,
                          uint64_t hash) {
    int32_t place = (int32_t)(hash & (uint64_t)(goals->table_size - 1));
    for (; goals->table[place] != 0; place = (place + 1) & (goals->table_size - 1)) {
        const EsStoredGoals *list = &goals->stored[goals->table[place] - 1];
        if (list->hash == hash && list->n_key == n_key &&
            es_goals_equal(key_of(goals, list), key, n_key)) {
            break;
        }
    }
    return place;
}

// Room for one more list with this many atoms, those of its key included.
static EsStatus make_room(EsGoalTable *goals, int32_t n_atoms) {
    if (goals->count == MAX_GOAL_LISTS) {
        return ES_FAIL(MEMORY, "more than %d states of proofs at a time", MAX_GOAL_LISTS);
    }
    if (goals->count >= goals->table_size / 2) {
        ES_TRY(grow_table(goals));
    }
    ES_TRY(es_proof_array_grow((void **)&goals->stored, sizeof *goals->stored, goals->count,
                               (int64_t)goals->count + 1, &goals->capacity));
    return es_proof_array_grow((void **)&goals->atoms, sizeof *goals->atoms, goals->n_atoms,
                               goals->n_atoms + n_atoms, &goals->atom_capacity);
}

void es_goal_table_destroy(EsGoalTable *goals) {
    es_release(goals->stored);
    es_release(goals->atoms);
    es_release(goals->table);
    memset(goals, 0, sizeof *goals);
}

EsStatus es_goal_table_add(EsGoalTable *goals, const EsAtom *atoms, int32_t n_atoms, uint64_t hash,
                           int32_t *number) {
    ES_ASSERT(n_atoms <= ES_PROOF_MAX_ATOMS + 1);
    EsAtom set[ES_PROOF_MAX_ATOMS + 1];
    const EsAtom *key = atoms;
    int32_t n_key = n_atoms;
    if (goals->compares_sets) {
        n_key = make_set(atoms, n_atoms, set);
        key = set;
        hash = es_proof_hash(set, n_key);
    }
    ES_TRY(make_room(goals, 2 * n_atoms));
    int32_t place = find_place(goals, key, n_key, hash);
    if (goals->table[place] != 0) {
        *number = goals->table[place] - 1;
        return ES_STATUS_OK;
    }
    EsStoredGoals list = {
        .hash = hash, .start = goals->n_atoms, .n_atoms = n_atoms, .n_key = n_key};
    memcpy(goals->atoms + goals->n_atoms, atoms, (size_t)n_atoms * sizeof *atoms);
    goals->n_atoms += n_atoms;
    if (key != atoms) {
        memcpy(goals->atoms + goals->n_atoms, key, (size_t)n_key * sizeof *key);
        goals->n_atoms += n_key;
    }
    *number = goals->count;
    goals->stored[goals->count++] = list;
    goals->table[place] = goals->count;
    return ES_STATUS_OK;
}

// After a long search clearing places one by one would cost more than clearing all.
void es_goal_table_clear(EsGoalTable *goals) {
    if (goals->count < goals->table_size / 16) {
        for (int32_t i = goals->count - 1; i >= 0; i--) {
            const EsStoredGoals *list = &goals->stored[i];
            goals->table[find_place(goals, key_of(goals, list), list->n_key, list->hash)] = 0;
        }
    } else if (goals->count > 0) {
        memset(goals->table, 0, (size_t)goals->table_size * sizeof *goals->table);
    }
    goals->count = 0;
    goals->n_atoms = 0;
}
