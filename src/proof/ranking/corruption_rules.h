// A single corruption, drawn for training (corruptions.h), and what is known to be true. Written
// once for CPU and CUDA.
//
// A draw is repeated while what it gives is known, and after some tries takes one of those that are
// left, so that it is uniform and always found.
#ifndef ES_PROOF_CORRUPTION_RULES_H
#define ES_PROOF_CORRUPTION_RULES_H

#include "base/random_rules.h"
#include "proof/graph/knowledge_graph.h"

// draws before all candidates are looked at; a multiple of four
#define ES_CORRUPTION_TRIES 16

// The arguments that corruptions may replace. For predicates of two arguments a side is a place.
typedef enum EsCorruptSide {
    ES_CORRUPT_HEAD, // replaces the first argument
    ES_CORRUPT_TAIL, // replaces one of the others
    ES_N_CORRUPT_SIDES
} EsCorruptSide;

static inline ES_HOST_DEVICE EsCorruptSide es_corrupt_side(int place) {
    return place == 0 ? ES_CORRUPT_HEAD : ES_CORRUPT_TAIL;
}

typedef struct EsCorruptionSettings {
    uint64_t seed;
    int uses_domains; // constants without a domain are replaced by any constant
} EsCorruptionSettings;

// Facts and queries of all splits. Plain arrays, so that a copy of the struct with device pointers
// serves the same functions on a GPU.
typedef struct EsKnownTable {
    uint64_t *keys;   // hash set of atoms of one cell, 0 = free                       (n_slots)
    uint64_t n_slots; // a power of two, at least twice the atoms
    EsAtom *wide;     // queries of two cells, sorted; their facts are in the graph   (2 n_wide)
    int32_t n_wide;
    // domains with their members sorted and without repetitions; NULL without domains
    int32_t *domain_start; // as in EsDomains                                 (count + 2)
    int32_t *members;
} EsKnownTable;

// --- known atoms ---

// Atoms of one cell have a number of their own.
static inline ES_HOST_DEVICE uint64_t es_known_key(const EsKnowledgeGraph *graph,
                                                   const EsAtom *atom) {
    uint64_t base = (uint64_t)graph->n_constants + 1;
    return ((uint64_t)atom->predicate * base + (uint64_t)atom->a) * base + (uint64_t)atom->b;
}

// The slot of a key, or the free one where it belongs.
static inline ES_HOST_DEVICE uint64_t es_known_slot(const EsKnownTable *known, uint64_t key) {
    uint64_t mixed = (key ^ (key >> 31)) * 0x9E3779B97F4A7C15u;
    uint64_t slot = (mixed ^ (mixed >> 29)) & (known->n_slots - 1);
    while (known->keys[slot] != 0 && known->keys[slot] != key) {
        slot = (slot + 1) & (known->n_slots - 1);
    }
    return slot;
}

static inline ES_HOST_DEVICE int es_known_has_wide(const EsKnownTable *known, const EsAtom *atom) {
    int32_t low = 0, high = known->n_wide;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        const EsAtom *other = known->wide + 2 * (size_t)middle;
        int order = other->predicate != atom->predicate
                        ? (other->predicate < atom->predicate ? -1 : 1)
                        : es_wide_atom_order(other, atom);
        if (order == 0) {
            return 1;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

static inline ES_HOST_DEVICE int es_known_has(const EsKnowledgeGraph *graph,
                                              const EsKnownTable *known, const EsAtom *atom) {
    if (es_kg_cells(graph, atom->predicate) == 1) {
        return known->keys[es_known_slot(known, es_known_key(graph, atom))] != 0;
    }
    return es_kg_is_fact(graph, atom) || es_known_has_wide(known, atom);
}

// --- corruptions ---

// A query to corrupt in one place.
typedef struct EsCorruptionTarget {
    const EsAtom *query;
    int n_cells, place;
    const int32_t *members; // constants that may stand there; NULL: all, 1 to count
    int32_t count;
} EsCorruptionTarget;

// Without candidates where the predicate has no such place.
static inline ES_HOST_DEVICE EsCorruptionTarget
es_corruption_target(const EsKnowledgeGraph *graph, const EsKnownTable *known,
                     const EsCorruptionSettings *settings, const EsAtom *query, int place) {
    const EsDomains *domains = &graph->domains;
    EsCorruptionTarget target;
    target.query = query;
    target.n_cells = es_kg_cells(graph, query->predicate);
    target.place = place;
    target.members = NULL;
    target.count = graph->n_constants;
    if (place >= graph->arities[query->predicate]) {
        target.count = 0;
        return target;
    }
    int32_t domain = settings->uses_domains && domains->count > 0
                         ? domains->of_constant[es_atom_term(query, place)]
                         : 0;
    if (domain != 0) {
        int32_t begin = known->domain_start[domain];
        target.members = known->members + begin;
        target.count = known->domain_start[domain + 1] - begin;
    }
    return target;
}

// The query with candidate i in place of the original. Returns 0 when that is no corruption.
static inline ES_HOST_DEVICE int es_corrupt(const EsKnowledgeGraph *graph,
                                            const EsKnownTable *known,
                                            const EsCorruptionTarget *target, int32_t i,
                                            EsAtom *atom) {
    int32_t constant = target->members != NULL ? target->members[i] : i + 1;
    for (int cell = 0; cell < target->n_cells; cell++) {
        atom[cell] = target->query[cell];
    }
    es_atom_set_term(atom, target->place, constant);
    return constant != es_atom_term(target->query, target->place) &&
           !es_known_has(graph, known, atom);
}

static inline ES_HOST_DEVICE EsRandom4 es_corruption_key(const EsCorruptionSettings *settings,
                                                         const EsCorruptionTarget *target,
                                                         EsPurpose purpose) {
    const EsAtom *query = target->query;
    EsRandom4 key =
        es_random_draw(settings->seed, 2 * (uint32_t)query->predicate + (uint32_t)target->place % 2,
                       purpose, (uint32_t)query->a, (uint32_t)query->b);
    if (target->n_cells == 1) {
        return key;
    }
    EsRandom4 rest = {
        {(uint32_t)query[1].a, (uint32_t)query[1].b, (uint32_t)target->place / 2, key.word[2]}};
    return es_philox4x32(rest, key.word[0], key.word[1]);
}

// One of the corruptions there are, by a random word; 0 when there are none.
static inline ES_HOST_DEVICE int es_corruption_choose_left(const EsKnowledgeGraph *graph,
                                                           const EsKnownTable *known,
                                                           const EsCorruptionTarget *target,
                                                           uint32_t word, EsAtom *atom) {
    uint32_t n_left = 0;
    for (int32_t i = 0; i < target->count; i++) {
        n_left += (uint32_t)es_corrupt(graph, known, target, i, atom);
    }
    uint32_t chosen = es_random_below(word, n_left);
    for (int32_t i = 0; i < target->count && n_left > 0; i++) {
        if (es_corrupt(graph, known, target, i, atom) && chosen-- == 0) {
            return 1;
        }
    }
    return 0;
}

// A corruption into `atom`, which is not the query.
static inline ES_HOST_DEVICE int es_corruption_draw_target(const EsKnowledgeGraph *graph,
                                                           const EsKnownTable *known,
                                                           const EsCorruptionSettings *settings,
                                                           const EsCorruptionTarget *target,
                                                           uint64_t draw, EsAtom *atom) {
    EsRandom4 key = es_corruption_key(settings, target, ES_PURPOSE_DATA_ORDER);
    EsRandom4 random = {{0, 0, 0, 0}};
    for (uint32_t t = 0; t < ES_CORRUPTION_TRIES; t++) {
        if (t % 4 == 0) {
            EsRandom4 counter = {{(uint32_t)draw, (uint32_t)(draw >> 32), t, key.word[2]}};
            random = es_philox4x32(counter, key.word[0], key.word[1]);
        }
        uint32_t i = es_random_below(random.word[t % 4], (uint32_t)target->count);
        if (es_corrupt(graph, known, target, (int32_t)i, atom)) {
            return 1;
        }
    }
    return es_corruption_choose_left(graph, known, target, key.word[3] ^ random.word[0], atom);
}

// As es_corruption_draw (corruptions.h). `atom` may be `query`, and is left alone then when there
// is none.
static inline ES_HOST_DEVICE int es_corruption_draw_from(const EsKnowledgeGraph *graph,
                                                         const EsKnownTable *known,
                                                         const EsCorruptionSettings *settings,
                                                         const EsAtom *query, int place,
                                                         uint64_t draw, EsAtom *atom) {
    EsCorruptionTarget target = es_corruption_target(graph, known, settings, query, place);
    EsWideAtom drawn;
    int is_drawn = target.count > 0 &&
                   es_corruption_draw_target(graph, known, settings, &target, draw, drawn.cells);
    const EsAtom *from = is_drawn ? drawn.cells : query;
    for (int cell = 0; cell < target.n_cells; cell++) {
        atom[cell] = from[cell];
    }
    return is_drawn;
}

#endif
