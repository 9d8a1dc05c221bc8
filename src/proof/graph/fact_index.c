// The facts of predicates of at most two arguments, sorted in two orders with an index of each;
// with a pool the two are made side by side.
#include "base/first_error.h"
#include "base/memory.h"
#include "proof/graph/knowledge_builder.h"

// An index has a row per constant for a predicate with at least one fact per so many rows, and for
// all predicates where that makes at most so many rows altogether.
#define ROWS_PER_FACT  8
#define ROWS_OF_ALL_AT ((int64_t)1 << 20)

typedef enum Place { PLACE_PREDICATE, PLACE_A, PLACE_B } Place;

static int32_t term_at(EsAtom atom, Place place) {
    return place == PLACE_PREDICATE ? atom.predicate : (place == PLACE_A ? atom.a : atom.b);
}

// Atoms by their term at a place, which is 0 to n_terms; equal ones keep their order.
static EsStatus sort_by(Place place, int32_t n_terms, const EsAtom *atoms, int32_t count,
                        EsAtom *sorted) {
    int32_t *start = NULL;
    ES_TRY(es_allocate(((size_t)n_terms + 2) * sizeof *start, (void **)&start));
    for (int32_t i = 0; i < count; i++) {
        start[term_at(atoms[i], place) + 1]++;
    }
    for (int32_t term = 0; term < n_terms; term++) {
        start[term + 1] += start[term];
    }
    for (int32_t i = 0; i < count; i++) {
        sorted[start[term_at(atoms[i], place)]++] = atoms[i];
    }
    es_release(start);
    return ES_STATUS_OK;
}

static int32_t drop_repetitions(EsAtom *atoms, int32_t n) {
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        if (i == 0 || es_atom_compare(&atoms[i], &atoms[count - 1]) != 0) {
            atoms[count++] = atoms[i];
        }
    }
    return count;
}

// One order of the facts: by predicate, then by either argument. The two are made side by side.
typedef struct FactOrder {
    const EsAtom *facts; // as they were collected                                      (n_given)
    int32_t n_given;
    EsKnowledgeGraph *graph;
    Place first, second;
    EsAtom *sorted; // owned until the graph has it                                     (count)
    EsAtom *other;  // owned; as large
    int32_t count;
    EsFirstError error;
} FactOrder;

static EsStatus sort_facts(FactOrder *order) {
    const EsKnowledgeGraph *graph = order->graph;
    const EsAtom *facts = order->facts;
    int32_t n = order->n_given;
    size_t bytes = (size_t)n * sizeof(EsAtom);
    ES_TRY(es_allocate_unset(bytes, (void **)&order->sorted));
    ES_TRY(es_allocate_unset(bytes, (void **)&order->other));
    ES_TRY(sort_by(order->second, graph->n_constants, facts, n, order->sorted));
    ES_TRY(sort_by(order->first, graph->n_constants, order->sorted, n, order->other));
    ES_TRY(sort_by(PLACE_PREDICATE, graph->n_predicates, order->other, n, order->sorted));
    order->count = drop_repetitions(order->sorted, n);
    es_release(order->other);
    order->other = NULL;
    return ES_STATUS_OK;
}

static void sort_facts_piece(void *context, int64_t piece, int worker) {
    (void)worker;
    FactOrder *order = (FactOrder *)context + piece;
    es_first_error_capture(&order->error, sort_facts(order));
}

// Facts atoms[begin] to atoms[end - 1] with the same predicate, sorted by their term at `place`.
typedef struct Group {
    const EsAtom *atoms;
    int32_t begin, end;
    Place place;
} Group;

// The end of the run of equal terms that begins at i.
static int32_t run_end(const Group *group, int32_t i) {
    int32_t term = term_at(group->atoms[i], group->place), end = i + 1;
    while (end < group->end && term_at(group->atoms[end], group->place) == term) {
        end++;
    }
    return end;
}

// Choose rows or slots for a group; returns how many entries it has.
static int64_t plan_rows(const Group *group, const EsKnowledgeGraph *graph, EsFactRows *rows) {
    int64_t n_rows = (int64_t)graph->n_constants + 2, n_facts = group->end - group->begin;
    int64_t n_runs = 0, n_slots = 1;
    if (n_rows <= n_facts * ROWS_PER_FACT ||
        n_rows * ((int64_t)graph->n_predicates + 1) <= ROWS_OF_ALL_AT) {
        rows->mask = -1;
        return n_rows;
    }
    for (int32_t i = group->begin; i < group->end; i = run_end(group, i)) {
        n_runs++;
    }
    if (n_runs == 1 && term_at(group->atoms[group->begin], group->place) == 0) {
        // a place that the predicate has not: a single slot, found as a free one
        rows->mask = 0;
        return 3;
    }
    // one slot at least is free, which ends a search
    while (n_slots < n_runs + n_runs / 2 + 1) {
        n_slots *= 2;
    }
    rows->mask = (int32_t)(n_slots - 1);
    return 3 * n_slots;
}

static void fill_rows(const Group *group, int32_t n_constants, int32_t *row) {
    int32_t i = group->begin;
    for (int32_t term = 0; term <= n_constants + 1; term++) {
        while (i < group->end && term_at(group->atoms[i], group->place) < term) {
            i++;
        }
        row[term] = i;
    }
}

static void fill_slots(const Group *group, int32_t mask, int32_t *entries) {
    for (int32_t i = group->begin, end; i < group->end; i = end) {
        int32_t term = term_at(group->atoms[i], group->place);
        uint32_t slot = es_fact_index_slot(term, mask);
        while (entries[3 * (size_t)slot] != 0) {
            slot = (slot + 1) & (uint32_t)mask;
        }
        end = run_end(group, i);
        entries[3 * (size_t)slot] = term;
        entries[3 * (size_t)slot + 1] = i;
        entries[3 * (size_t)slot + 2] = end;
    }
}

static EsStatus make_index(const EsKnowledgeGraph *graph, const EsAtom *atoms, Place place,
                           EsFactIndex *index) {
    size_t n_rows = (size_t)graph->n_predicates + 1;
    ES_TRY(es_allocate(n_rows * sizeof *index->rows, (void **)&index->rows));
    int64_t n_entries = 0;
    const int32_t *start = graph->fact_start;
    for (int32_t p = 0; p <= graph->n_predicates; p++) {
        Group group = {atoms, start[p], start[p + 1], place};
        index->rows[p].first = n_entries;
        n_entries += plan_rows(&group, graph, &index->rows[p]);
    }
    ES_TRY(es_allocate((size_t)n_entries * sizeof *index->entries, (void **)&index->entries));
    for (int32_t p = 0; p <= graph->n_predicates; p++) {
        Group group = {atoms, start[p], start[p + 1], place};
        const EsFactRows *rows = &index->rows[p];
        if (rows->mask < 0) {
            fill_rows(&group, graph->n_constants, index->entries + rows->first);
        } else {
            fill_slots(&group, rows->mask, index->entries + rows->first);
        }
    }
    return ES_STATUS_OK;
}

// Facts by predicate: fact_start.
static EsStatus count_facts(EsKnowledgeGraph *graph) {
    ES_TRY(es_allocate(((size_t)graph->n_predicates + 2) * sizeof(int32_t),
                       (void **)&graph->fact_start));
    int32_t *start = graph->fact_start;
    for (int32_t i = 0; i < graph->n_facts; i++) {
        start[graph->facts[i].predicate + 1]++;
    }
    for (int32_t p = 0; p <= graph->n_predicates; p++) {
        start[p + 1] += start[p];
    }
    return ES_STATUS_OK;
}

static void index_piece(void *context, int64_t piece, int worker) {
    (void)worker;
    FactOrder *order = (FactOrder *)context + piece;
    EsKnowledgeGraph *graph = order->graph;
    es_first_error_capture(
        &order->error, piece == 0 ? make_index(graph, graph->facts, PLACE_A, &graph->by_a)
                                  : make_index(graph, graph->facts_by_b, PLACE_B, &graph->by_b));
}

EsStatus es_fact_index_make(const EsAtom *facts, int32_t count, EsThreadPool *pool,
                            EsKnowledgeGraph *graph) {
    FactOrder orders[2] = {
        {.facts = facts, .n_given = count, .graph = graph, .first = PLACE_A, .second = PLACE_B},
        {.facts = facts, .n_given = count, .graph = graph, .first = PLACE_B, .second = PLACE_A},
    };
    es_thread_pool_run(pool, 2, sort_facts_piece, orders);
    graph->n_facts = orders[0].count;
    graph->facts = orders[0].sorted;
    graph->facts_by_b = orders[1].sorted;
    es_release(orders[0].other);
    es_release(orders[1].other);
    ES_TRY(es_first_error_rethrow(&orders[0].error));
    ES_TRY(es_first_error_rethrow(&orders[1].error));
    ES_TRY(count_facts(graph));
    es_thread_pool_run(pool, 2, index_piece, orders);
    ES_TRY(es_first_error_rethrow(&orders[0].error));
    return es_first_error_rethrow(&orders[1].error);
}
