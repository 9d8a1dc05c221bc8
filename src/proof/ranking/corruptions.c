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
    // domains with their members sorted and without repetitions; owned
    int32_t *domain_start; // as in EsDomains                                 (count + 2)
    int32_t *members;
};

// Constants that may stand in for another.
typedef struct Candidates {
    const int32_t *members; // NULL: all constants, 1 to count
    int32_t count;
} Candidates;

// --- known atoms ---

static uint64_t key_of(const EsKnownAtoms *known, EsAtom atom) {
    uint64_t base = (uint64_t)known->graph->n_constants + 1;
    return ((uint64_t)atom.predicate * base + (uint64_t)atom.a) * base + (uint64_t)atom.b;
}

static uint64_t *find_key(const EsKnownAtoms *known, uint64_t key) {
    uint64_t mixed = (key ^ (key >> 31)) * 0x9E3779B97F4A7C15u;
    uint64_t slot = (mixed ^ (mixed >> 29)) & (known->n_slots - 1);
    while (known->keys[slot] != 0 && known->keys[slot] != key) {
        slot = (slot + 1) & (known->n_slots - 1);
    }
    return &known->keys[slot];
}

int es_known_atoms_has(const EsKnownAtoms *known, EsAtom atom) {
    return *find_key(known, key_of(known, atom)) != 0;
}

static void add_atoms(EsKnownAtoms *known, const EsAtom *atoms, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        uint64_t key = key_of(known, atoms[i]);
        *find_key(known, key) = key;
    }
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
    add_atoms(known, graph->facts, graph->n_facts);
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        add_atoms(known, graph->splits[split].atoms, graph->splits[split].count);
    }
    return ES_STATUS_OK;
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
    es_release(known->domain_start);
    es_release(known->members);
    es_release(known);
}

// --- corruptions ---

static Candidates find_candidates(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                                  EsAtom query, EsCorruptSide side) {
    const EsDomains *domains = &known->graph->domains;
    int32_t original = side == ES_CORRUPT_HEAD ? query.a : query.b;
    int32_t domain =
        settings->uses_domains && domains->count > 0 ? domains->of_constant[original] : 0;
    if (domain == 0) {
        return (Candidates){NULL, known->graph->n_constants};
    }
    int32_t begin = known->domain_start[domain];
    return (Candidates){known->members + begin, known->domain_start[domain + 1] - begin};
}

// The query with candidate i in place of the original. Returns 0 when that is no corruption.
static int corrupt(const EsKnownAtoms *known, Candidates candidates, EsAtom query,
                   EsCorruptSide side, int32_t i, EsAtom *atom) {
    int32_t constant = candidates.members != NULL ? candidates.members[i] : i + 1;
    *atom = query;
    *(side == ES_CORRUPT_HEAD ? &atom->a : &atom->b) = constant;
    return constant != (side == ES_CORRUPT_HEAD ? query.a : query.b) &&
           !es_known_atoms_has(known, *atom);
}

static EsRandom4 draw_key(const EsCorruptionSettings *settings, EsAtom query, EsCorruptSide side,
                          EsPurpose purpose) {
    return es_random_draw(settings->seed, 2 * (uint32_t)query.predicate + (uint32_t)side, purpose,
                          (uint32_t)query.a, (uint32_t)query.b);
}

int32_t es_corruptions_capacity(const EsKnownAtoms *known) {
    return ES_MAX(known->graph->n_constants - 1, 0);
}

int32_t es_corruptions_list(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                            EsAtom query, EsCorruptSide side, int32_t count, EsAtom *atoms) {
    ES_ASSERT(count >= 0);
    Candidates candidates = find_candidates(known, settings, query, side);
    uint32_t n = (uint32_t)candidates.count;
    EsRandom4 key = draw_key(settings, query, side, ES_PURPOSE_EVALUATION);
    // permutations of few numbers are not all equally likely; turned, each place is uniform
    uint32_t offset = es_random_below(es_philox4x32(key, key.word[0], key.word[1]).word[0], n);
    int32_t n_written = 0;
    for (uint32_t k = 0; k < n && (count == 0 || n_written < count); k++) {
        uint32_t i = count == 0 ? k : (es_random_permute(k, n, key) + offset) % n;
        EsAtom atom;
        if (corrupt(known, candidates, query, side, (int32_t)i, &atom)) {
            atoms[n_written++] = atom;
        }
    }
    return n_written;
}

// One of the corruptions there are, by a random word; 0 when there are none.
static int choose_left(const EsKnownAtoms *known, Candidates candidates, EsAtom query,
                       EsCorruptSide side, uint32_t word, EsAtom *atom) {
    uint32_t n_left = 0;
    for (int32_t i = 0; i < candidates.count; i++) {
        n_left += (uint32_t)corrupt(known, candidates, query, side, i, atom);
    }
    uint32_t chosen = es_random_below(word, n_left);
    for (int32_t i = 0; i < candidates.count && n_left > 0; i++) {
        if (corrupt(known, candidates, query, side, i, atom) && chosen-- == 0) {
            return 1;
        }
    }
    *atom = query;
    return 0;
}

int es_corruption_draw(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                       EsAtom query, EsCorruptSide side, uint64_t draw, EsAtom *atom) {
    Candidates candidates = find_candidates(known, settings, query, side);
    EsRandom4 key = draw_key(settings, query, side, ES_PURPOSE_DATA_ORDER), random;
    for (uint32_t t = 0; t < N_TRIES; t++) {
        if (t % 4 == 0) {
            EsRandom4 counter = {{(uint32_t)draw, (uint32_t)(draw >> 32), t, key.word[2]}};
            random = es_philox4x32(counter, key.word[0], key.word[1]);
        }
        uint32_t i = es_random_below(random.word[t % 4], (uint32_t)candidates.count);
        if (corrupt(known, candidates, query, side, (int32_t)i, atom)) {
            return 1;
        }
    }
    return choose_left(known, candidates, query, side, key.word[3] ^ random.word[0], atom);
}
