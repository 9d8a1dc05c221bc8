// A list visits the candidates in the order of a permutation without a table: nothing is drawn
// twice. A single draw is repeated while it is known, and after some tries takes one of those that
// are left, so that it is uniform and always found.
#include "proof/ranking/corruptions.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random_rules.h"

// draws before all candidates are looked at; a multiple of four
#define N_TRIES 16

struct EsKnownAtoms {
    const EsKnowledgeGraph *graph; // borrowed
    uint64_t *keys;                // hash set, 0 = free; owned                          (n_slots)
    uint64_t n_slots;              // a power of two, at least twice the atoms
    EsAtom *wide;                  // queries of two cells, sorted; owned               (2 n_wide)
    int32_t n_wide;
    // domains with their members sorted and without repetitions; owned
    int32_t *domain_start; // as in EsDomains                                 (count + 2)
    int32_t *members;
};

// --- known atoms ---

// Atoms of one cell have a number of their own.
static uint64_t key_of(const EsKnownAtoms *known, const EsAtom *atom) {
    uint64_t base = (uint64_t)known->graph->n_constants + 1;
    return ((uint64_t)atom->predicate * base + (uint64_t)atom->a) * base + (uint64_t)atom->b;
}

static uint64_t *find_key(const EsKnownAtoms *known, uint64_t key) {
    uint64_t mixed = (key ^ (key >> 31)) * 0x9E3779B97F4A7C15u;
    uint64_t slot = (mixed ^ (mixed >> 29)) & (known->n_slots - 1);
    while (known->keys[slot] != 0 && known->keys[slot] != key) {
        slot = (slot + 1) & (known->n_slots - 1);
    }
    return &known->keys[slot];
}

int es_known_atoms_has(const EsKnownAtoms *known, const EsAtom *atom) {
    if (es_kg_cells(known->graph, atom->predicate) == 1) {
        return *find_key(known, key_of(known, atom)) != 0;
    }
    return es_kg_is_fact(known->graph, atom) ||
           (known->n_wide > 0 && bsearch(atom, known->wide, (size_t)known->n_wide, 2 * sizeof *atom,
                                         es_wide_atom_compare) != NULL);
}

const EsKnowledgeGraph *es_known_atoms_graph(const EsKnownAtoms *known) { return known->graph; }

static void add_atom(EsKnownAtoms *known, const EsAtom *atom) {
    uint64_t key = key_of(known, atom);
    *find_key(known, key) = key;
}

// Those of two cells go to a list of their own; their facts are found in the graph.
static EsStatus add_queries(EsKnownAtoms *known) {
    const EsKnowledgeGraph *graph = known->graph;
    for (int pass = 0; pass < 2; pass++) {
        int32_t n_wide = 0;
        for (int split = 0; split < ES_KG_N_SPLITS; split++) {
            for (int32_t i = 0; i < graph->splits[split].count; i++) {
                const EsAtom *query = es_kg_query(graph, (EsKgSplit)split, i);
                if (es_kg_cells(graph, query->predicate) == 1) {
                    add_atom(known, query);
                } else {
                    if (pass == 1) {
                        memcpy(known->wide + 2 * (size_t)n_wide, query, 2 * sizeof *query);
                    }
                    n_wide++;
                }
            }
        }
        if (n_wide == 0) {
            return ES_STATUS_OK;
        }
        if (pass == 0) {
            ES_TRY(es_allocate(2 * (size_t)n_wide * sizeof *known->wide, (void **)&known->wide));
            known->n_wide = n_wide;
        }
    }
    qsort(known->wide, (size_t)known->n_wide, 2 * sizeof *known->wide, es_wide_atom_compare);
    return ES_STATUS_OK;
}

static EsStatus collect_atoms(EsKnownAtoms *known) {
    const EsKnowledgeGraph *graph = known->graph;
    uint64_t n_atoms = (uint64_t)graph->n_facts;
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        n_atoms += (uint64_t)graph->splits[split].count;
    }
    known->n_slots = 16;
    while (known->n_slots < 2 * n_atoms) {
        known->n_slots *= 2;
    }
    ES_TRY(es_allocate(known->n_slots * sizeof *known->keys, (void **)&known->keys));
    for (int32_t i = 0; i < graph->n_facts; i++) {
        add_atom(known, &graph->facts[i]);
    }
    return add_queries(known);
}

// --- domains ---

static int compare_numbers(const void *left, const void *right) {
    const int32_t *x = left, *y = right;
    return (*x > *y) - (*x < *y);
}

static EsStatus sort_domains(EsKnownAtoms *known) {
    const EsDomains *domains = &known->graph->domains;
    if (domains->count == 0) {
        return ES_STATUS_OK;
    }
    size_t n_members = (size_t)domains->start[domains->count + 1];
    ES_TRY(es_allocate(((size_t)domains->count + 2) * sizeof *known->domain_start,
                       (void **)&known->domain_start));
    ES_TRY(es_allocate(ES_MAX(n_members, 1) * sizeof *known->members, (void **)&known->members));
    int32_t end = 0;
    for (int32_t d = 1; d <= domains->count; d++) {
        int32_t begin = end;
        int32_t *sorted = known->members + begin;
        int32_t count = domains->start[d + 1] - domains->start[d];
        known->domain_start[d] = begin;
        if (count > 0) {
            memcpy(sorted, domains->members + domains->start[d], (size_t)count * sizeof *sorted);
            qsort(sorted, (size_t)count, sizeof *sorted, compare_numbers);
        }
        for (int32_t i = 0; i < count; i++) {
            if (end == begin || known->members[end - 1] != sorted[i]) {
                known->members[end++] = sorted[i];
            }
        }
    }
    known->domain_start[domains->count + 1] = end;
    return ES_STATUS_OK;
}

EsStatus es_corruptions_need_domains(const EsKnowledgeGraph *graph, const char *option,
                                     const char *name) {
    if (graph->domains.count > 0) {
        return ES_STATUS_OK;
    }
    return ES_FAIL(INPUT,
                   "%s: the graph \"%.200s\" has no domains; they are read from "
                   "domain2constants.txt in its folder",
                   option, name);
}

EsStatus es_known_atoms_create(const EsKnowledgeGraph *graph, EsKnownAtoms **known) {
    *known = NULL;
    EsKnownAtoms *made = NULL;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    made->graph = graph;
    EsStatus status = collect_atoms(made);
    if (status == ES_STATUS_OK) {
        status = sort_domains(made);
    }
    if (status != ES_STATUS_OK) {
        es_known_atoms_destroy(made);
        return status;
    }
    *known = made;
    return ES_STATUS_OK;
}

void es_known_atoms_destroy(EsKnownAtoms *known) {
    if (known == NULL) {
        return;
    }
    es_release(known->keys);
    es_release(known->wide);
    es_release(known->domain_start);
    es_release(known->members);
    es_release(known);
}

// --- corruptions ---

// A query to corrupt in one place.
typedef struct Target {
    const EsAtom *query;
    int n_cells, place;
    const int32_t *members; // constants that may stand there; NULL: all, 1 to count
    int32_t count;
} Target;

// Without candidates where the predicate has no such place.
static Target find_target(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                          const EsAtom *query, int place) {
    const EsKnowledgeGraph *graph = known->graph;
    const EsDomains *domains = &graph->domains;
    Target target = {.query = query,
                     .n_cells = es_kg_cells(graph, query->predicate),
                     .place = place,
                     .count = graph->n_constants};
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

static void copy_query(const Target *target, EsAtom *atom) {
    memmove(atom, target->query, (size_t)target->n_cells * sizeof *atom);
}

// The query with candidate i in place of the original. Returns 0 when that is no corruption.
static int corrupt(const EsKnownAtoms *known, const Target *target, int32_t i, EsAtom *atom) {
    int32_t constant = target->members != NULL ? target->members[i] : i + 1;
    copy_query(target, atom);
    es_atom_set_term(atom, target->place, constant);
    return constant != es_atom_term(target->query, target->place) &&
           !es_known_atoms_has(known, atom);
}

static EsRandom4 draw_key(const EsCorruptionSettings *settings, const Target *target,
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

int32_t es_corruptions_capacity(const EsKnownAtoms *known) {
    return ES_MAX(known->graph->n_constants - 1, 0);
}

int32_t es_corruptions_list(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                            const EsAtom *query, int place, int32_t count, EsAtom *atoms) {
    ES_ASSERT(count >= 0);
    Target target = find_target(known, settings, query, place);
    uint32_t n = (uint32_t)target.count;
    if (n == 0) {
        return 0;
    }
    EsRandom4 key = draw_key(settings, &target, ES_PURPOSE_EVALUATION);
    // permutations of few numbers are not all equally likely; turned, each place is uniform
    uint32_t offset = es_random_below(es_philox4x32(key, key.word[0], key.word[1]).word[0], n);
    int32_t n_written = 0;
    for (uint32_t k = 0; k < n && (count == 0 || n_written < count); k++) {
        uint32_t i = count == 0 ? k : (es_random_permute(k, n, key) + offset) % n;
        EsWideAtom atom;
        if (corrupt(known, &target, (int32_t)i, atom.cells)) {
            memcpy(atoms + (size_t)n_written++ * (size_t)target.n_cells, atom.cells,
                   (size_t)target.n_cells * sizeof *atoms);
        }
    }
    return n_written;
}

// One of the corruptions there are, by a random word; 0 when there are none.
static int choose_left(const EsKnownAtoms *known, const Target *target, uint32_t word,
                       EsAtom *atom) {
    uint32_t n_left = 0;
    for (int32_t i = 0; i < target->count; i++) {
        n_left += (uint32_t)corrupt(known, target, i, atom);
    }
    uint32_t chosen = es_random_below(word, n_left);
    for (int32_t i = 0; i < target->count && n_left > 0; i++) {
        if (corrupt(known, target, i, atom) && chosen-- == 0) {
            return 1;
        }
    }
    return 0;
}

// A corruption into `atom`, which is not the query.
static int draw_atom(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                     const Target *target, uint64_t draw, EsAtom *atom) {
    EsRandom4 key = draw_key(settings, target, ES_PURPOSE_DATA_ORDER), random;
    for (uint32_t t = 0; t < N_TRIES; t++) {
        if (t % 4 == 0) {
            EsRandom4 counter = {{(uint32_t)draw, (uint32_t)(draw >> 32), t, key.word[2]}};
            random = es_philox4x32(counter, key.word[0], key.word[1]);
        }
        uint32_t i = es_random_below(random.word[t % 4], (uint32_t)target->count);
        if (corrupt(known, target, (int32_t)i, atom)) {
            return 1;
        }
    }
    return choose_left(known, target, key.word[3] ^ random.word[0], atom);
}

int es_corruption_draw(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                       const EsAtom *query, int place, uint64_t draw, EsAtom *atom) {
    Target target = find_target(known, settings, query, place);
    EsWideAtom drawn;
    int is_drawn = target.count > 0 && draw_atom(known, settings, &target, draw, drawn.cells);
    if (is_drawn) {
        memcpy(atom, drawn.cells, (size_t)target.n_cells * sizeof *atom);
    } else {
        copy_query(&target, atom);
    }
    return is_drawn;
}
