// Names go into a hash table and keep the number of their first appearance; facts, queries and
// rules into lists that double. Finishing sorts the names, renumbers every atom, sorts the facts
// twice and makes an index of each order.
#include "proof/graph/knowledge_builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/graph/knowledge_text.h"

#define FIRST_CAPACITY 64
// An index has a row per constant for a predicate with at least one fact per so many rows, and for
// all predicates where that makes at most so many rows altogether.
#define ROWS_PER_FACT  8
#define ROWS_OF_ALL_AT ((int64_t)1 << 20)
// atom keys, predicate C^2 + a C + b, stay below it
#define MAX_KEY 9.0e18

typedef struct List {
    void *items; // owned
    size_t item_bytes;
    int32_t count, capacity;
} List;

// Names by provisional number, found through a hash table at most half full.
typedef struct NameTable {
    List text;        // all names, each ended by 0; count is 32 bits wide, hence at most 2 GiB
    List offset;      // int32_t: where name i + 1 begins
    int32_t *slots;   // owned; numbers, 0 = free                                       (n_slots)
    uint32_t n_slots; // a power of two
} NameTable;

struct EsKgBuilder {
    NameTable names[ES_KG_N_NAME_KINDS];
    List arities;                 // unsigned char of each predicate: 1 + arguments, 0: not said
    List facts;                   // EsAtom, one or two cells each
    List queries[ES_KG_N_SPLITS]; // likewise
    List rules;                   // EsHornRule
    List variable_lines;          // int32_t, of each name of a variable
    unsigned char uses_test[ES_KG_N_TESTS];
};

// --- lists ---

static EsStatus reserve(List *list, int32_t n_more, const char *what) {
    int64_t wanted = (int64_t)list->count + n_more;
    if (wanted > INT32_MAX) {
        return ES_FAIL(INPUT, "more than %d %s in one knowledge graph", INT32_MAX, what);
    }
    if (wanted <= list->capacity) {
        return ES_STATUS_OK;
    }
    int64_t capacity = ES_MAX((int64_t)list->capacity * 2, FIRST_CAPACITY);
    capacity = ES_MIN(ES_MAX(capacity, wanted), INT32_MAX);
    void *items = NULL;
    ES_TRY(es_allocate((size_t)capacity * list->item_bytes, &items));
    if (list->count > 0) {
        memcpy(items, list->items, (size_t)list->count * list->item_bytes);
    }
    es_release(list->items);
    list->items = items;
    list->capacity = (int32_t)capacity;
    return ES_STATUS_OK;
}

static EsStatus append(List *list, const void *items, int32_t count, const char *what) {
    ES_TRY(reserve(list, count, what));
    char *end = (char *)list->items + (size_t)list->count * list->item_bytes;
    memcpy(end, items, (size_t)count * list->item_bytes);
    list->count += count;
    return ES_STATUS_OK;
}

// --- names ---

static uint32_t hash_text(const char *text, size_t bytes) {
    // FNV-1a, folded: the low bits pick the slot
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    }
    return (uint32_t)(hash ^ (hash >> 32));
}

static const char *name_at(const NameTable *table, int32_t number) {
    return (const char *)table->text.items + ((const int32_t *)table->offset.items)[number - 1];
}

// The slot that holds the name, or the free one where it belongs.
static int32_t *find_slot(const NameTable *table, const char *text, size_t bytes) {
    uint32_t slot = hash_text(text, bytes) & (table->n_slots - 1);
    while (table->slots[slot] != 0) {
        const char *name = name_at(table, table->slots[slot]);
        if (strncmp(name, text, bytes) == 0 && name[bytes] == '\0') {
            break;
        }
        slot = (slot + 1) & (table->n_slots - 1);
    }
    return &table->slots[slot];
}

static EsStatus grow_slots(NameTable *table) {
    if ((uint32_t)table->offset.count < table->n_slots / 2) {
        return ES_STATUS_OK;
    }
    uint32_t n_slots = ES_MAX(table->n_slots * 2, 256u);
    int32_t *slots = NULL;
    ES_TRY(es_allocate((size_t)n_slots * sizeof *slots, (void **)&slots));
    es_release(table->slots);
    table->slots = slots;
    table->n_slots = n_slots;
    for (int32_t number = 1; number <= table->offset.count; number++) {
        const char *name = name_at(table, number);
        *find_slot(table, name, strlen(name)) = number;
    }
    return ES_STATUS_OK;
}

EsStatus es_kg_builder_intern(EsKgBuilder *builder, EsKgNameKind kind, const char *text,
                              size_t bytes, int32_t *number) {
    ES_ASSERT(bytes > 0 && bytes < INT32_MAX && memchr(text, 0, bytes) == NULL);
    NameTable *table = &builder->names[kind];
    ES_TRY(grow_slots(table));
    int32_t *slot = find_slot(table, text, bytes);
    if (*slot == 0) {
        int32_t offset = table->text.count;
        ES_TRY(reserve(&table->text, (int32_t)bytes + 1, "bytes of names"));
        ES_TRY(append(&table->offset, &offset, 1, "names"));
        ES_TRY(append(&table->text, text, (int32_t)bytes, "bytes of names"));
        ES_TRY(append(&table->text, "", 1, "bytes of names"));
        if (kind == ES_KG_PREDICATE) {
            ES_TRY(append(&builder->arities, "", 1, "predicates"));
        }
        *slot = table->offset.count;
    }
    *number = *slot;
    return ES_STATUS_OK;
}

// --- collecting ---

EsStatus es_kg_builder_create(EsKgBuilder **builder) {
    ES_TRY(es_allocate(sizeof **builder, (void **)builder));
    EsKgBuilder *made = *builder;
    for (int kind = 0; kind < ES_KG_N_NAME_KINDS; kind++) {
        made->names[kind].text.item_bytes = 1;
        made->names[kind].offset.item_bytes = sizeof(int32_t);
    }
    made->arities.item_bytes = 1;
    made->facts.item_bytes = sizeof(EsAtom);
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        made->queries[split].item_bytes = sizeof(EsAtom);
    }
    made->rules.item_bytes = sizeof(EsHornRule);
    made->variable_lines.item_bytes = sizeof(int32_t);
    return ES_STATUS_OK;
}

void es_kg_builder_destroy(EsKgBuilder *builder) {
    if (builder == NULL) {
        return;
    }
    for (int kind = 0; kind < ES_KG_N_NAME_KINDS; kind++) {
        es_release(builder->names[kind].text.items);
        es_release(builder->names[kind].offset.items);
        es_release(builder->names[kind].slots);
    }
    es_release(builder->arities.items);
    es_release(builder->facts.items);
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        es_release(builder->queries[split].items);
    }
    es_release(builder->rules.items);
    es_release(builder->variable_lines.items);
    es_release(builder);
}

// Arguments of a predicate as said, else two.
static int arity_of(const EsKgBuilder *builder, int32_t predicate) {
    int said = predicate <= builder->arities.count
                   ? ((const unsigned char *)builder->arities.items)[predicate - 1]
                   : 0;
    return said > 0 ? said - 1 : 2;
}

int es_kg_builder_claimed_arity(const EsKgBuilder *builder, const char *text, size_t bytes) {
    const NameTable *table = &builder->names[ES_KG_PREDICATE];
    int32_t number = table->n_slots > 0 ? *find_slot(table, text, bytes) : 0;
    return number > 0 ? ((const unsigned char *)builder->arities.items)[number - 1] - 1 : -1;
}

int es_kg_builder_claim_arity(EsKgBuilder *builder, int32_t predicate, int arity) {
    ES_ASSERT(predicate >= 1 && predicate <= builder->arities.count && arity <= ES_KG_MAX_ARITY);
    unsigned char *said = (unsigned char *)builder->arities.items + predicate - 1;
    *said = *said != 0 ? *said : (unsigned char)(arity + 1);
    return *said - 1;
}

static EsStatus add_atom(EsKgBuilder *builder, const EsAtom *atom, List *list, const char *what) {
    return append(list, atom, arity_of(builder, atom->predicate) > 2 ? 2 : 1, what);
}

EsStatus es_kg_builder_add_fact(EsKgBuilder *builder, const EsAtom *atom) {
    return add_atom(builder, atom, &builder->facts, "cells of facts");
}

EsStatus es_kg_builder_add_query(EsKgBuilder *builder, EsKgSplit split, const EsAtom *atom) {
    return add_atom(builder, atom, &builder->queries[split], "cells of queries");
}

EsStatus es_kg_builder_add_rule(EsKgBuilder *builder, const EsHornRule *rule) {
    return append(&builder->rules, rule, 1, "rules");
}

EsStatus es_kg_builder_intern_test(EsKgBuilder *builder, EsKgTest test, int32_t *number) {
    const char *name = es_kg_test_names[test];
    builder->uses_test[test] = 1;
    return es_kg_builder_intern(builder, ES_KG_PREDICATE, name, strlen(name), number);
}

EsStatus es_kg_builder_intern_negation(EsKgBuilder *builder, const char *text, size_t bytes,
                                       int arity, int32_t *number, int32_t *negated) {
    char name[4 + ES_KG_MAX_NAME_BYTES] = "not ";
    ES_ASSERT(bytes <= ES_KG_MAX_NAME_BYTES);
    builder->uses_test[ES_KG_NEGATION] = 1;
    ES_TRY(es_kg_builder_intern(builder, ES_KG_PREDICATE, text, bytes, negated));
    memcpy(name + 4, text, bytes);
    ES_TRY(es_kg_builder_intern(builder, ES_KG_PREDICATE, name, bytes + 4, number));
    es_kg_builder_claim_arity(builder, *number,
                              es_kg_builder_claim_arity(builder, *negated, arity));
    return ES_STATUS_OK;
}

EsStatus es_kg_builder_note_variable(EsKgBuilder *builder, const char *text, size_t bytes,
                                     int line) {
    int32_t number, first_line = line;
    ES_TRY(es_kg_builder_intern(builder, ES_KG_VARIABLE, text, bytes, &number));
    if (number <= builder->variable_lines.count) {
        return ES_STATUS_OK;
    }
    return append(&builder->variable_lines, &first_line, 1, "variables");
}

// --- finishing ---

static int compare_names(const void *left, const void *right, void *context) {
    const NameTable *table = context;
    return strcmp(name_at(table, *(const int32_t *)left), name_at(table, *(const int32_t *)right));
}

// Copy the names in byte order to *text, moving it; rank[provisional number] becomes the final one.
static EsStatus sort_names(const NameTable *table, char **text, const char **names, int32_t *rank) {
    int32_t count = table->offset.count;
    int32_t *order = NULL;
    ES_TRY(es_allocate((size_t)count * sizeof *order, (void **)&order));
    for (int32_t i = 0; i < count; i++) {
        order[i] = i + 1;
    }
    qsort_r(order, (size_t)count, sizeof *order, compare_names, (void *)table);
    names[0] = "";
    for (int32_t i = 0; i < count; i++) {
        const char *name = name_at(table, order[i]);
        size_t bytes = strlen(name) + 1;
        memcpy(*text, name, bytes);
        names[i + 1] = *text;
        *text += bytes;
        rank[order[i]] = i + 1;
    }
    es_release(order);
    return ES_STATUS_OK;
}

static int32_t renumber_term(int32_t term, const int32_t *constant_rank) {
    return term > 0 ? constant_rank[term] : term;
}

// Cells of atoms, with or without variables.
static void renumber(EsAtom *cells, int32_t count, const int32_t *constant_rank,
                     const int32_t *predicate_rank) {
    for (int32_t i = 0; i < count; i++) {
        cells[i] = (EsAtom){renumber_term(cells[i].predicate, predicate_rank),
                            renumber_term(cells[i].a, constant_rank),
                            renumber_term(cells[i].b, constant_rank)};
    }
}

// Variables whose names are those of constants, the first by its line.
static void find_shadowed(const EsKgBuilder *builder, const int32_t *constant_rank,
                          EsKnowledgeGraph *graph) {
    const NameTable *variables = &builder->names[ES_KG_VARIABLE];
    const NameTable *constants = &builder->names[ES_KG_CONSTANT];
    const int32_t *lines = builder->variable_lines.items;
    for (int32_t i = 1; i <= variables->offset.count && constants->offset.count > 0; i++) {
        const char *name = name_at(variables, i);
        int32_t constant = *find_slot(constants, name, strlen(name));
        if (constant == 0) {
            continue;
        }
        graph->n_shadowed++;
        if (graph->shadowed == 0 || lines[i - 1] < graph->shadowed_line) {
            graph->shadowed = constant_rank[constant];
            graph->shadowed_line = lines[i - 1];
        }
    }
}

// The arguments of each predicate, in its final number.
static EsStatus number_arities(const EsKgBuilder *builder, const int32_t *predicate_rank,
                               EsKnowledgeGraph *graph) {
    // the terminal atoms of proof_rules.h are above P
    ES_TRY(es_allocate((size_t)graph->n_predicates + 8, (void **)&graph->arities));
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        int arity = arity_of(builder, p);
        graph->arities[predicate_rank[p]] = (unsigned char)arity;
        graph->has_wide |= arity > 2;
    }
    graph->query_cells = graph->has_wide ? 2 : 1;
    return ES_STATUS_OK;
}

static EsStatus number_names(EsKgBuilder *builder, EsKnowledgeGraph *graph) {
    const NameTable *constants = &builder->names[ES_KG_CONSTANT];
    const NameTable *predicates = &builder->names[ES_KG_PREDICATE];
    size_t n_constants = (size_t)constants->offset.count;
    size_t n_predicates = (size_t)predicates->offset.count;
    int32_t *constant_rank = NULL, *predicate_rank = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate((n_constants + 1) * sizeof *constant_rank, (void **)&constant_rank));
    ES_TRY_GOTO(es_allocate((n_predicates + 1) * sizeof *predicate_rank, (void **)&predicate_rank));
    ES_TRY_GOTO(es_allocate((n_constants + 1) * sizeof(char *), (void **)&graph->constant_names));
    ES_TRY_GOTO(es_allocate((n_predicates + 1) * sizeof(char *), (void **)&graph->predicate_names));
    ES_TRY_GOTO(es_allocate((size_t)constants->text.count + (size_t)predicates->text.count,
                            (void **)&graph->name_text));
    char *text = graph->name_text;
    ES_TRY_GOTO(sort_names(constants, &text, graph->constant_names, constant_rank));
    ES_TRY_GOTO(sort_names(predicates, &text, graph->predicate_names, predicate_rank));
    graph->n_constants = constants->offset.count;
    graph->n_predicates = predicates->offset.count;

    renumber(builder->facts.items, builder->facts.count, constant_rank, predicate_rank);
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        List *queries = &builder->queries[split];
        renumber(queries->items, queries->count, constant_rank, predicate_rank);
    }
    EsHornRule *rules = builder->rules.items;
    for (int32_t i = 0; i < builder->rules.count; i++) {
        renumber(rules[i].head_cells, ES_ATOM_MAX_CELLS, constant_rank, predicate_rank);
        renumber(rules[i].body, rules[i].n_body, constant_rank, predicate_rank);
    }
    ES_TRY_GOTO(number_arities(builder, predicate_rank, graph));
    find_shadowed(builder, constant_rank, graph);
done:
    es_release(constant_rank);
    es_release(predicate_rank);
    return status;
}

// --- the indices of the facts ---

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

// Sort the facts into both orders; `other` is room for as many.
static EsStatus sort_facts(EsAtom *atoms, EsAtom *other, int32_t n, EsKnowledgeGraph *graph) {
    ES_TRY(sort_by(PLACE_B, graph->n_constants, atoms, n, other));
    ES_TRY(sort_by(PLACE_A, graph->n_constants, other, n, atoms));
    ES_TRY(sort_by(PLACE_PREDICATE, graph->n_predicates, atoms, n, other));
    graph->n_facts = drop_repetitions(other, n);
    size_t bytes = (size_t)graph->n_facts * sizeof(EsAtom);
    ES_TRY(es_allocate(bytes, (void **)&graph->facts));
    ES_TRY(es_allocate(bytes, (void **)&graph->facts_by_b));
    if (graph->n_facts > 0) {
        memcpy(graph->facts, other, bytes);
    }
    ES_TRY(sort_by(PLACE_B, graph->n_constants, graph->facts, graph->n_facts, atoms));
    return sort_by(PLACE_PREDICATE, graph->n_predicates, atoms, graph->n_facts, graph->facts_by_b);
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

// --- facts of three and four arguments ---

// Move the atoms of two cells to the graph; the others stay in the list.
static EsStatus move_wide_facts(List *facts, EsKnowledgeGraph *graph) {
    EsAtom *cells = facts->items;
    int32_t n_kept = 0, n_wide = 0;
    for (int32_t i = 0; i < facts->count; i++) {
        n_wide += cells[i].predicate == ES_ATOM_MORE;
    }
    ES_TRY(
        es_allocate((size_t)ES_MAX(n_wide, 1) * 2 * sizeof(EsAtom), (void **)&graph->wide.atoms));
    EsAtom *out = graph->wide.atoms;
    for (int32_t i = 0; i < facts->count; i++) {
        if (es_kg_cells(graph, cells[i].predicate) == 1) {
            cells[n_kept++] = cells[i];
        } else {
            *out++ = cells[i++];
            *out++ = cells[i];
        }
    }
    facts->count = n_kept;
    graph->wide.count = n_wide;
    return ES_STATUS_OK;
}

typedef struct WideOrder {
    const EsAtom *atoms;
    int place;
} WideOrder;

static int compare_wide(const void *left, const void *right, void *context) {
    const WideOrder *order = context;
    int32_t x = *(const int32_t *)left, y = *(const int32_t *)right;
    const EsAtom *atom = order->atoms + 2 * (size_t)x, *other = order->atoms + 2 * (size_t)y;
    int32_t term = es_atom_term(atom, order->place), other_term = es_atom_term(other, order->place);
    if (atom->predicate != other->predicate) {
        return atom->predicate < other->predicate ? -1 : 1;
    }
    return term != other_term ? (term < other_term ? -1 : 1) : (x > y) - (x < y);
}

// Sorts the facts of two cells, drops repetitions, and lists them by each place.
static EsStatus take_wide_facts(List *facts, EsKnowledgeGraph *graph) {
    EsWideFacts *wide = &graph->wide;
    int32_t count = 0;
    if (!graph->has_wide) {
        return ES_STATUS_OK;
    }
    ES_TRY(move_wide_facts(facts, graph));
    qsort(wide->atoms, (size_t)wide->count, 2 * sizeof(EsAtom), es_wide_atom_compare);
    for (int32_t i = 0; i < wide->count; i++) {
        const EsAtom *atom = wide->atoms + 2 * (size_t)i;
        if (count == 0 || es_wide_atom_compare(atom, wide->atoms + 2 * (size_t)(count - 1)) != 0) {
            memmove(wide->atoms + 2 * (size_t)count++, atom, 2 * sizeof *atom);
        }
    }
    wide->count = count;
    size_t n_starts = (size_t)graph->n_predicates + 2;
    ES_TRY(es_allocate(n_starts * sizeof *wide->start, (void **)&wide->start));
    for (int32_t i = 0; i < count; i++) {
        wide->start[wide->atoms[2 * (size_t)i].predicate + 1]++;
    }
    for (int32_t p = 0; p <= graph->n_predicates; p++) {
        wide->start[p + 1] += wide->start[p];
    }
    for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
        WideOrder order = {wide->atoms, place};
        ES_TRY(
            es_allocate((size_t)ES_MAX(count, 1) * sizeof(int32_t), (void **)&wide->order[place]));
        for (int32_t i = 0; i < count; i++) {
            wide->order[place][i] = i;
        }
        qsort_r(wide->order[place], (size_t)count, sizeof(int32_t), compare_wide, &order);
    }
    return ES_STATUS_OK;
}

// Sort the facts, drop repetitions, and index both orders.
static EsStatus index_facts(List *facts, EsKnowledgeGraph *graph) {
    double base = (double)graph->n_constants + 1;
    if ((graph->n_predicates + 1.0) * base * base > MAX_KEY) {
        return ES_FAIL(INPUT, "%d predicates on %d constants are too many to number all atoms",
                       graph->n_predicates, graph->n_constants);
    }
    void *other = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(take_wide_facts(facts, graph));
    ES_TRY_GOTO(es_allocate((size_t)facts->count * sizeof(EsAtom), &other));
    ES_TRY_GOTO(sort_facts(facts->items, other, facts->count, graph));
    es_release(other);
    other = NULL;
    ES_TRY_GOTO(es_allocate(((size_t)graph->n_predicates + 2) * sizeof(int32_t),
                            (void **)&graph->fact_start));
    int32_t *start = graph->fact_start;
    for (int32_t i = 0; i < graph->n_facts; i++) {
        start[graph->facts[i].predicate + 1]++;
    }
    for (int32_t p = 0; p <= graph->n_predicates; p++) {
        start[p + 1] += start[p];
    }
    ES_TRY_GOTO(make_index(graph, graph->facts, PLACE_A, &graph->by_a));
    ES_TRY_GOTO(make_index(graph, graph->facts_by_b, PLACE_B, &graph->by_b));
done:
    es_release(other);
    return status;
}

static EsStatus group_rules(const List *rules, EsKnowledgeGraph *graph) {
    size_t n_starts = (size_t)graph->n_predicates + 2;
    ES_TRY(es_allocate(n_starts * sizeof(int32_t), (void **)&graph->rule_start));
    ES_TRY(es_allocate((size_t)rules->count * sizeof(EsHornRule), (void **)&graph->rules));
    graph->n_rules = rules->count;
    const EsHornRule *given = rules->items;
    int32_t *start = graph->rule_start;
    for (int32_t i = 0; i < rules->count; i++) {
        start[given[i].head.predicate + 1]++;
        graph->max_body = ES_MAX(graph->max_body, given[i].n_body);
    }
    for (int32_t predicate = 1; predicate <= graph->n_predicates; predicate++) {
        graph->max_rules = ES_MAX(graph->max_rules, start[predicate + 1]);
        start[predicate + 1] += start[predicate];
    }
    // from the back, each group from its end: start[p + 1] runs down to where group p begins
    for (int32_t i = rules->count; i-- > 0;) {
        graph->rules[--start[given[i].head.predicate + 1]] = given[i];
    }
    memmove(start, start + 1, (n_starts - 1) * sizeof *start);
    start[n_starts - 1] = rules->count;
    return ES_STATUS_OK;
}

// --- comparisons ---

static EsStatus check_no_test(const EsKnowledgeGraph *graph, int32_t predicate, const char *what) {
    return es_kg_is_test(graph, predicate)
               ? ES_FAIL(INPUT, "%s has the predicate \"%s\", which compares or negates in a rule",
                         what, graph->predicate_names[predicate])
               : ES_STATUS_OK;
}

static EsStatus check_tests(const EsKnowledgeGraph *graph) {
    for (int32_t i = 0; i < graph->n_facts; i++) {
        ES_TRY(check_no_test(graph, graph->facts[i].predicate, "a fact"));
    }
    for (int32_t i = 0; i < graph->wide.count; i++) {
        ES_TRY(check_no_test(graph, graph->wide.atoms[2 * (size_t)i].predicate, "a fact"));
    }
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        for (int32_t i = 0; i < graph->splits[split].count; i++) {
            const EsAtom *query = es_kg_query(graph, (EsKgSplit)split, i);
            ES_TRY(check_no_test(graph, query->predicate, "a query"));
        }
    }
    for (int32_t i = 0; i < graph->n_rules; i++) {
        ES_TRY(check_no_test(graph, graph->rules[i].head.predicate, "the head of a rule"));
    }
    return ES_STATUS_OK;
}

// Find the predicates that compare and what they compare; no fact and no head can have them.
static EsStatus prepare_tests(const EsKgBuilder *builder, EsKnowledgeGraph *graph) {
    for (int test = 0; test < ES_KG_N_TESTS; test++) {
        graph->has_tests |= builder->uses_test[test];
    }
    if (!graph->has_tests) {
        return ES_STATUS_OK;
    }
    size_t n_constants = (size_t)graph->n_constants;
    // the terminal atoms of proof_rules.h are above P
    size_t n_predicates = (size_t)graph->n_predicates + 8;
    ES_TRY(es_allocate(n_predicates, (void **)&graph->test_of));
    ES_TRY(es_allocate((n_constants + 1) * sizeof *graph->values, (void **)&graph->values));
    for (int test = 0; test < ES_KG_NEGATION; test++) {
        if (builder->uses_test[test]) {
            graph->test_of[es_kg_predicate(graph, es_kg_test_names[test])] = (unsigned char)test;
        }
    }
    graph->has_negation = builder->uses_test[ES_KG_NEGATION];
    graph->n_decided = graph->has_negation ? -1 : 0;
    ES_TRY(es_allocate(n_predicates * sizeof(int32_t), (void **)&graph->negated));
    for (int32_t p = 1; p <= graph->n_predicates && graph->has_negation; p++) {
        const char *name = graph->predicate_names[p];
        if (strncmp(name, "not ", 4) == 0) {
            graph->test_of[p] = ES_KG_NEGATION;
            graph->negated[p] = es_kg_predicate(graph, name + 4);
        }
    }
    graph->values[0] = ES_KG_NO_INTEGER;
    for (size_t i = 1; i <= n_constants; i++) {
        graph->values[i] = es_kg_integer(graph->constant_names[i]);
    }
    return check_tests(graph);
}

static EsStatus copy_queries(const List *queries, const EsKnowledgeGraph *graph,
                             EsQuerySplit *split) {
    const EsAtom *cells = queries->items;
    size_t count = 0, stride = (size_t)graph->query_cells;
    for (int32_t i = 0; i < queries->count; i++) {
        count += cells[i].predicate != ES_ATOM_MORE;
    }
    ES_TRY(es_allocate(count * stride * sizeof *split->atoms, (void **)&split->atoms));
    ES_TRY(es_allocate(count * sizeof *split->depths, (void **)&split->depths));
    split->count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        size_t n_cells = (size_t)es_kg_cells(graph, cells->predicate);
        memcpy(split->atoms + i * stride, cells, n_cells * sizeof *cells);
        cells += n_cells;
        split->depths[i] = ES_KG_DEPTH_ABSENT;
    }
    return ES_STATUS_OK;
}

EsStatus es_kg_builder_finish(EsKgBuilder *builder, EsKnowledgeGraph **graph) {
    *graph = NULL;
    EsKnowledgeGraph *made = NULL;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(number_names(builder, made));
    ES_TRY_GOTO(index_facts(&builder->facts, made));
    ES_TRY_GOTO(group_rules(&builder->rules, made));
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        ES_TRY_GOTO(copy_queries(&builder->queries[split], made, &made->splits[split]));
    }
    ES_TRY_GOTO(prepare_tests(builder, made));
    *graph = made;
    made = NULL;
done:
    es_kg_destroy(made);
    return status;
}

// --- from another graph ---

// The names are interned in their order, which numbers them as they are.
static EsStatus copy_names(EsKgBuilder *builder, EsKgNameKind kind, const char *const *names,
                           int32_t count) {
    for (int32_t i = 1; i <= count; i++) {
        int32_t number;
        ES_TRY(es_kg_builder_intern(builder, kind, names[i], strlen(names[i]), &number));
        ES_ASSERT(number == i);
    }
    return ES_STATUS_OK;
}

EsStatus es_kg_builder_create_from(const EsKnowledgeGraph *graph, EsKgBuilder **builder) {
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_kg_builder_create(builder));
    ES_TRY_GOTO(copy_names(*builder, ES_KG_CONSTANT, graph->constant_names, graph->n_constants));
    ES_TRY_GOTO(copy_names(*builder, ES_KG_PREDICATE, graph->predicate_names, graph->n_predicates));
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        es_kg_builder_claim_arity(*builder, p, graph->arities[p]);
    }
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        const EsQuerySplit *queries = &graph->splits[split];
        for (int32_t i = 0; i < queries->count; i++) {
            const EsAtom *query = es_kg_query(graph, (EsKgSplit)split, i);
            ES_TRY_GOTO(es_kg_builder_add_query(*builder, (EsKgSplit)split, query));
        }
    }
    for (int32_t i = 0; i < graph->n_rules; i++) {
        ES_TRY_GOTO(es_kg_builder_add_rule(*builder, &graph->rules[i]));
    }
    for (int32_t p = 1; p <= graph->n_predicates && graph->has_tests; p++) {
        (*builder)->uses_test[graph->test_of[p]] = graph->test_of[p] != ES_KG_NO_TEST;
    }
done:
    if (status != ES_STATUS_OK) {
        es_kg_builder_destroy(*builder);
        *builder = NULL;
    }
    return status;
}
