// A list visits the candidates in the order of a permutation without a table: nothing is drawn
// twice. The single draw is in corruption_rules.h.
#include "proof/ranking/corruptions.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random_rules.h"

struct EsKnownAtoms {
    const EsKnowledgeGraph *graph; // borrowed
    EsKnownTable table;            // its arrays are owned
};

// --- known atoms ---

int es_known_atoms_has(const EsKnownAtoms *known, const EsAtom *atom) {
    return es_known_has(known->graph, &known->table, atom);
}

const EsKnowledgeGraph *es_known_atoms_graph(const EsKnownAtoms *known) { return known->graph; }

const EsKnownTable *es_known_atoms_table(const EsKnownAtoms *known) { return &known->table; }

static void add_atom(EsKnownAtoms *known, const EsAtom *atom) {
    uint64_t key = es_known_key(known->graph, atom);
    known->table.keys[es_known_slot(&known->table, key)] = key;
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
                        memcpy(known->table.wide + 2 * (size_t)n_wide, query, 2 * sizeof *query);
                    }
                    n_wide++;
                }
            }
        }
        if (n_wide == 0) {
            return ES_STATUS_OK;
        }
        if (pass == 0) {
            ES_TRY(es_allocate(2 * (size_t)n_wide * sizeof *known->table.wide,
                               (void **)&known->table.wide));
            known->table.n_wide = n_wide;
        }
    }
    qsort(known->table.wide, (size_t)known->table.n_wide, 2 * sizeof *known->table.wide,
          es_wide_atom_compare);
    return ES_STATUS_OK;
}

static EsStatus collect_atoms(EsKnownAtoms *known) {
    const EsKnowledgeGraph *graph = known->graph;
    uint64_t n_atoms = (uint64_t)graph->n_facts;
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        n_atoms += (uint64_t)graph->splits[split].count;
    }
    known->table.n_slots = 16;
    while (known->table.n_slots < 2 * n_atoms) {
        known->table.n_slots *= 2;
    }
    ES_TRY(
        es_allocate(known->table.n_slots * sizeof *known->table.keys, (void **)&known->table.keys));
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
    ES_TRY(es_allocate(((size_t)domains->count + 2) * sizeof *known->table.domain_start,
                       (void **)&known->table.domain_start));
    ES_TRY(es_allocate(ES_MAX(n_members, 1) * sizeof *known->table.members,
                       (void **)&known->table.members));
    int32_t end = 0;
    for (int32_t d = 1; d <= domains->count; d++) {
        int32_t begin = end;
        int32_t *sorted = known->table.members + begin;
        int32_t count = domains->start[d + 1] - domains->start[d];
        known->table.domain_start[d] = begin;
        if (count > 0) {
            memcpy(sorted, domains->members + domains->start[d], (size_t)count * sizeof *sorted);
            qsort(sorted, (size_t)count, sizeof *sorted, compare_numbers);
        }
        for (int32_t i = 0; i < count; i++) {
            if (end == begin || known->table.members[end - 1] != sorted[i]) {
                known->table.members[end++] = sorted[i];
            }
        }
    }
    known->table.domain_start[domains->count + 1] = end;
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
    es_release(known->table.keys);
    es_release(known->table.wide);
    es_release(known->table.domain_start);
    es_release(known->table.members);
    es_release(known);
}

// --- corruptions ---

int32_t es_corruptions_capacity(const EsKnownAtoms *known) {
    return ES_MAX(known->graph->n_constants - 1, 0);
}

int32_t es_corruptions_list(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                            const EsAtom *query, int place, int32_t count, EsAtom *atoms) {
    ES_ASSERT(count >= 0);
    EsCorruptionTarget target =
        es_corruption_target(known->graph, &known->table, settings, query, place);
    uint32_t n = (uint32_t)target.count;
    if (n == 0) {
        return 0;
    }
    EsRandom4 key = es_corruption_key(settings, &target, ES_PURPOSE_EVALUATION);
    // permutations of few numbers are not all equally likely; turned, each place is uniform
    uint32_t offset = es_random_below(es_philox4x32(key, key.word[0], key.word[1]).word[0], n);
    int32_t n_written = 0;
    for (uint32_t k = 0; k < n && (count == 0 || n_written < count); k++) {
        uint32_t i = count == 0 ? k : (es_random_permute(k, n, key) + offset) % n;
        EsWideAtom atom;
        if (es_corrupt(known->graph, &known->table, &target, (int32_t)i, atom.cells)) {
            memcpy(atoms + (size_t)n_written++ * (size_t)target.n_cells, atom.cells,
                   (size_t)target.n_cells * sizeof *atoms);
        }
    }
    return n_written;
}

int es_corruption_draw(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                       const EsAtom *query, int place, uint64_t draw, EsAtom *atom) {
    return es_corruption_draw_from(known->graph, &known->table, settings, query, place, draw, atom);
}
