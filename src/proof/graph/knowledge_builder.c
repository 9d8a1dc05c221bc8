// Names go into tables that number them by first appearance; facts, queries and rules into lists
// that double. Finishing sorts the names, renumbers every atom and has the facts indexed
// (fact_index.c).
#include "proof/graph/knowledge_builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/name_table.h"

// lists that are too long
#define FACT_CELLS  "cells of facts"
#define QUERY_CELLS "cells of queries"
// atom keys, predicate C^2 + a C + b, stay below it
#define MAX_KEY 9.0e18

struct EsKgBuilder {
    EsThreadPool *pool; // borrowed; NULL: the calling thread alone
    EsNameTable names[ES_KG_N_NAME_KINDS];
    EsList arities;                 // unsigned char of each predicate: 1 + arguments, 0: not said
    EsList facts;                   // EsAtom, one or two cells each
    EsList queries[ES_KG_N_SPLITS]; // likewise
    EsList rules;                   // EsHornRule
    EsList variable_lines;          // int32_t, of each name of a variable
    unsigned char uses_test[ES_KG_N_TESTS];
};

// --- collecting ---

EsStatus es_kg_builder_create(EsKgBuilder **builder) {
    ES_TRY(es_allocate(sizeof **builder, (void **)builder));
    EsKgBuilder *made = *builder;
    for (int kind = 0; kind < ES_KG_N_NAME_KINDS; kind++) {
        made->names[kind] = es_name_table_begin();
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
        es_name_table_end(&builder->names[kind]);
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

void es_kg_builder_set_pool(EsKgBuilder *builder, EsThreadPool *pool) { builder->pool = pool; }

EsThreadPool *es_kg_builder_pool(const EsKgBuilder *builder) { return builder->pool; }

EsStatus es_kg_builder_intern(EsKgBuilder *builder, EsKgNameKind kind, const char *text,
                              size_t bytes, int32_t *number) {
    ES_TRY(es_name_table_intern(&builder->names[kind], text, bytes, number));
    if (kind == ES_KG_PREDICATE && *number > builder->arities.count) {
        ES_TRY(es_list_append(&builder->arities, "", 1, "predicates"));
    }
    return ES_STATUS_OK;
}

void es_kg_builder_prefetch(const EsKgBuilder *builder, EsKgNameKind kind, const char *text,
                            size_t bytes) {
    es_name_table_prefetch(&builder->names[kind], text, bytes);
}

// Arguments of a predicate as said, else two.
static int arity_of(const EsKgBuilder *builder, int32_t predicate) {
    int said = predicate <= builder->arities.count
                   ? ((const unsigned char *)builder->arities.items)[predicate - 1]
                   : 0;
    return said > 0 ? said - 1 : 2;
}

int es_kg_builder_claimed_arity(const EsKgBuilder *builder, const char *text, size_t bytes) {
    int32_t number = es_name_table_find(&builder->names[ES_KG_PREDICATE], text, bytes);
    return number > 0 ? ((const unsigned char *)builder->arities.items)[number - 1] - 1 : -1;
}

int es_kg_builder_claim_arity(EsKgBuilder *builder, int32_t predicate, int arity) {
    ES_ASSERT(predicate >= 1 && predicate <= builder->arities.count && arity <= ES_KG_MAX_ARITY);
    unsigned char *said = (unsigned char *)builder->arities.items + predicate - 1;
    *said = *said != 0 ? *said : (unsigned char)(arity + 1);
    return *said - 1;
}

static EsStatus add_atom(EsKgBuilder *builder, const EsAtom *atom, EsList *list, const char *what) {
    return es_list_append(list, atom, arity_of(builder, atom->predicate) > 2 ? 2 : 1, what);
}

EsStatus es_kg_builder_add_fact(EsKgBuilder *builder, const EsAtom *atom) {
    return add_atom(builder, atom, &builder->facts, FACT_CELLS);
}

EsStatus es_kg_builder_add_query(EsKgBuilder *builder, EsKgSplit split, const EsAtom *atom) {
    return add_atom(builder, atom, &builder->queries[split], QUERY_CELLS);
}

EsStatus es_kg_builder_reserve(EsKgBuilder *builder, EsKgSplit split, int64_t n_atoms) {
    ES_TRY(es_list_reserve(&builder->queries[split], n_atoms, QUERY_CELLS));
    return split != ES_KG_SPLIT_TRAIN ? ES_STATUS_OK
                                      : es_list_reserve(&builder->facts, n_atoms, FACT_CELLS);
}

EsStatus es_kg_builder_add_rule(EsKgBuilder *builder, const EsHornRule *rule) {
    return es_list_append(&builder->rules, rule, 1, "rules");
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
    return es_list_append(&builder->variable_lines, &first_line, 1, "variables");
}

// --- finishing ---

static int32_t renumber_term(int32_t term, const int32_t *constant_rank) {
    return term > 0 ? constant_rank[term] : term;
}

// Cells of atoms, with or without variables; `from` may be `to`.
static void renumber(const EsAtom *from, EsAtom *to, int64_t count, const int32_t *constant_rank,
                     const int32_t *predicate_rank) {
    for (int64_t i = 0; i < count; i++) {
        to[i] = (EsAtom){renumber_term(from[i].predicate, predicate_rank),
                         renumber_term(from[i].a, constant_rank),
                         renumber_term(from[i].b, constant_rank)};
    }
}

typedef struct Renumbering {
    EsAtom *cells;
    int64_t count, n_pieces;
    const int32_t *constant_rank, *predicate_rank;
} Renumbering;

static void renumber_piece(void *context, int64_t piece, int worker) {
    (void)worker;
    const Renumbering *all = context;
    int64_t begin = all->count * piece / all->n_pieces;
    int64_t end = all->count * (piece + 1) / all->n_pieces;
    renumber(all->cells + begin, all->cells + begin, end - begin, all->constant_rank,
             all->predicate_rank);
}

static void renumber_list(const EsKgBuilder *builder, const EsList *list,
                          const int32_t *constant_rank, const int32_t *predicate_rank) {
    if (list->count == 0) {
        return;
    }
    Renumbering all = {list->items, list->count, es_thread_pool_size(builder->pool), constant_rank,
                       predicate_rank};
    es_thread_pool_run(builder->pool, all.n_pieces, renumber_piece, &all);
}

// Variables whose names are those of constants, the first by its line.
static void find_shadowed(const EsKgBuilder *builder, const int32_t *constant_rank,
                          EsKnowledgeGraph *graph) {
    const EsNameTable *variables = &builder->names[ES_KG_VARIABLE];
    const EsNameTable *constants = &builder->names[ES_KG_CONSTANT];
    const int32_t *lines = builder->variable_lines.items;
    for (int32_t i = 1; i <= es_name_table_count(variables); i++) {
        const char *name = es_name_table_name(variables, i);
        int32_t constant = es_name_table_find(constants, name, strlen(name));
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
    const EsNameTable *constants = &builder->names[ES_KG_CONSTANT];
    const EsNameTable *predicates = &builder->names[ES_KG_PREDICATE];
    size_t n_constants = (size_t)es_name_table_count(constants);
    size_t n_predicates = (size_t)es_name_table_count(predicates);
    int32_t *constant_rank = NULL, *predicate_rank = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate((n_constants + 1) * sizeof *constant_rank, (void **)&constant_rank));
    ES_TRY_GOTO(es_allocate((n_predicates + 1) * sizeof *predicate_rank, (void **)&predicate_rank));
    ES_TRY_GOTO(es_allocate((n_constants + 1) * sizeof(char *), (void **)&graph->constant_names));
    ES_TRY_GOTO(es_allocate((n_predicates + 1) * sizeof(char *), (void **)&graph->predicate_names));
    ES_TRY_GOTO(es_allocate((size_t)constants->text.count + (size_t)predicates->text.count,
                            (void **)&graph->name_text));
    ES_TRY_GOTO(es_name_table_sort(constants, builder->pool, graph->name_text,
                                   graph->constant_names, constant_rank));
    ES_TRY_GOTO(es_name_table_sort(predicates, builder->pool,
                                   graph->name_text + constants->text.count, graph->predicate_names,
                                   predicate_rank));
    graph->n_constants = es_name_table_count(constants);
    graph->n_predicates = es_name_table_count(predicates);

    renumber_list(builder, &builder->facts, constant_rank, predicate_rank);
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        renumber_list(builder, &builder->queries[split], constant_rank, predicate_rank);
    }
    EsHornRule *rules = builder->rules.items;
    for (int32_t i = 0; i < builder->rules.count; i++) {
        EsHornRule *rule = &rules[i];
        renumber(rule->head_cells, rule->head_cells, ES_ATOM_MAX_CELLS, constant_rank,
                 predicate_rank);
        renumber(rule->body, rule->body, rule->n_body, constant_rank, predicate_rank);
    }
    ES_TRY_GOTO(number_arities(builder, predicate_rank, graph));
    find_shadowed(builder, constant_rank, graph);
done:
    es_release(constant_rank);
    es_release(predicate_rank);
    return status;
}

// --- facts of three and four arguments ---

// Move the atoms of two cells to the graph; the others stay in the list.
static EsStatus move_wide_facts(EsList *facts, EsKnowledgeGraph *graph) {
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
static EsStatus take_wide_facts(EsList *facts, EsKnowledgeGraph *graph) {
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

static EsStatus index_facts(EsKgBuilder *builder, EsKnowledgeGraph *graph) {
    double base = (double)graph->n_constants + 1;
    if ((graph->n_predicates + 1.0) * base * base > MAX_KEY) {
        return ES_FAIL(INPUT, "%d predicates on %d constants are too many to number all atoms",
                       graph->n_predicates, graph->n_constants);
    }
    ES_TRY(take_wide_facts(&builder->facts, graph));
    return es_fact_index_make(builder->facts.items, builder->facts.count, builder->pool, graph);
}

static EsStatus group_rules(const EsList *rules, EsKnowledgeGraph *graph) {
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

// Gives the split its queries: the list itself where every atom has one cell.
static EsStatus take_queries(EsList *queries, const EsKnowledgeGraph *graph, EsQuerySplit *split) {
    const EsAtom *cells = queries->items;
    size_t count = 0, stride = (size_t)graph->query_cells;
    for (int32_t i = 0; i < queries->count; i++) {
        count += cells[i].predicate != ES_ATOM_MORE;
    }
    ES_TRY(es_allocate_unset(count * sizeof *split->depths, (void **)&split->depths));
    split->count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        split->depths[i] = ES_KG_DEPTH_ABSENT;
    }
    if (stride == 1 && count > 0) {
        split->atoms = queries->items;
        queries->items = NULL;
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(count * stride * sizeof *split->atoms, (void **)&split->atoms));
    for (size_t i = 0; i < count; i++) {
        size_t n_cells = (size_t)es_kg_cells(graph, cells->predicate);
        memcpy(split->atoms + i * stride, cells, n_cells * sizeof *cells);
        cells += n_cells;
    }
    return ES_STATUS_OK;
}

EsStatus es_kg_builder_finish(EsKgBuilder *builder, EsKnowledgeGraph **graph) {
    *graph = NULL;
    EsKnowledgeGraph *made = NULL;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(number_names(builder, made));
    ES_TRY_GOTO(index_facts(builder, made));
    ES_TRY_GOTO(group_rules(&builder->rules, made));
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        ES_TRY_GOTO(take_queries(&builder->queries[split], made, &made->splits[split]));
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

// --- from pieces ---

// Returns whether no predicate has another number of arguments in an earlier builder.
static int has_same_arities(const EsKgBuilder *builder, EsKgBuilder *const *pieces, int n_pieces) {
    for (int j = 0; j < n_pieces; j++) {
        const EsNameTable *names = &pieces[j]->names[ES_KG_PREDICATE];
        for (int32_t p = 1; p <= es_name_table_count(names); p++) {
            const char *name = es_name_table_name(names, p);
            for (int i = -1; i < j; i++) {
                int arity =
                    es_kg_builder_claimed_arity(i < 0 ? builder : pieces[i], name, strlen(name));
                if (arity >= 0 && arity != arity_of(pieces[j], p)) {
                    return 0;
                }
            }
        }
    }
    return 1;
}

// The numbers that names of a piece have in the builder                       (count of names + 1)
static EsStatus absorb_names(EsKgBuilder *builder, EsKgBuilder *piece, EsKgNameKind kind,
                             int32_t **numbers) {
    EsNameTable *table = &builder->names[kind], *added = &piece->names[kind];
    int32_t count = es_name_table_count(added);
    ES_TRY(es_allocate_unset(((size_t)count + 1) * sizeof **numbers, (void **)numbers));
    if (es_name_table_count(table) > 0) {
        return es_name_table_absorb(table, added, *numbers);
    }
    // nothing to merge with: the builder takes the table as it is
    EsNameTable empty = *table;
    *table = *added;
    *added = empty;
    for (int32_t i = 1; i <= count; i++) {
        (*numbers)[i] = i;
    }
    return ES_STATUS_OK;
}

static EsStatus absorb_arities(EsKgBuilder *builder, const EsKgBuilder *piece,
                               const int32_t *numbers) {
    for (int32_t p = 1; p <= piece->arities.count; p++) {
        while (builder->arities.count < numbers[p]) {
            ES_TRY(es_list_append(&builder->arities, "", 1, "predicates"));
        }
        es_kg_builder_claim_arity(builder, numbers[p], arity_of(piece, p));
    }
    return ES_STATUS_OK;
}

// lists of atoms: the queries of each split, then the facts
#define N_ATOM_LISTS (ES_KG_N_SPLITS + 1)

static EsList *atom_list(EsKgBuilder *builder, int i) {
    return i < ES_KG_N_SPLITS ? &builder->queries[i] : &builder->facts;
}

// A piece on its way into a builder.
typedef struct Absorption {
    EsKgBuilder *piece;
    int32_t *numbers[ES_KG_N_NAME_KINDS]; // owned; of constants and predicates
    EsAtom *places[N_ATOM_LISTS];         // where its atoms go
} Absorption;

// Make room in the lists of the builder for the atoms of all pieces, then say where each goes.
static EsStatus place_atoms(EsKgBuilder *builder, Absorption *absorptions, int n_pieces) {
    for (int list = 0; list < N_ATOM_LISTS; list++) {
        int64_t n_more = 0;
        for (int i = 0; i < n_pieces; i++) {
            n_more += atom_list(absorptions[i].piece, list)->count;
        }
        ES_TRY(es_list_reserve(atom_list(builder, list), n_more,
                               list < ES_KG_N_SPLITS ? QUERY_CELLS : FACT_CELLS));
    }
    for (int list = 0; list < N_ATOM_LISTS; list++) {
        EsList *atoms = atom_list(builder, list);
        // an empty list has no memory yet
        for (int i = 0; i < n_pieces && atoms->items != NULL; i++) {
            absorptions[i].places[list] = (EsAtom *)atoms->items + atoms->count;
            atoms->count += atom_list(absorptions[i].piece, list)->count;
        }
    }
    return ES_STATUS_OK;
}

static void copy_atoms(void *context, int64_t i, int worker) {
    (void)worker;
    const Absorption *absorption = (Absorption *)context + i;
    for (int list = 0; list < N_ATOM_LISTS; list++) {
        const EsList *atoms = atom_list(absorption->piece, list);
        renumber(atoms->items, absorption->places[list], atoms->count,
                 absorption->numbers[ES_KG_CONSTANT], absorption->numbers[ES_KG_PREDICATE]);
    }
}

static EsStatus absorb_pieces(EsKgBuilder *builder, Absorption *absorptions, int n_pieces) {
    for (int i = 0; i < n_pieces; i++) {
        EsKgBuilder *piece = absorptions[i].piece;
        int32_t **numbers = absorptions[i].numbers;
        ES_ASSERT(piece->rules.count == 0 && piece->variable_lines.count == 0);
        ES_TRY(absorb_names(builder, piece, ES_KG_CONSTANT, &numbers[ES_KG_CONSTANT]));
        ES_TRY(absorb_names(builder, piece, ES_KG_PREDICATE, &numbers[ES_KG_PREDICATE]));
        ES_TRY(absorb_arities(builder, piece, numbers[ES_KG_PREDICATE]));
    }
    ES_TRY(place_atoms(builder, absorptions, n_pieces));
    es_thread_pool_run(builder->pool, n_pieces, copy_atoms, absorptions);
    return ES_STATUS_OK;
}

EsStatus es_kg_builder_absorb(EsKgBuilder *builder, EsKgBuilder *const *pieces, int n_pieces,
                              int *is_absorbed) {
    Absorption *absorptions = NULL;
    *is_absorbed = has_same_arities(builder, pieces, n_pieces);
    if (!*is_absorbed) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate((size_t)n_pieces * sizeof *absorptions, (void **)&absorptions));
    for (int i = 0; i < n_pieces; i++) {
        absorptions[i].piece = pieces[i];
    }
    EsStatus status = absorb_pieces(builder, absorptions, n_pieces);
    for (int i = 0; i < n_pieces; i++) {
        for (int kind = 0; kind < ES_KG_N_NAME_KINDS; kind++) {
            es_release(absorptions[i].numbers[kind]);
        }
    }
    es_release(absorptions);
    return status;
}
