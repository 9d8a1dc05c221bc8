// The rules and facts of a graph as a Datalog program, and its result in the graph's terms.
#include "proof/search/closure.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// Kinds of the comparisons; 0 is an atom.
static const EsLiteralKind kinds[ES_KG_N_TESTS] = {
    ES_LITERAL_ATOM,    ES_LITERAL_NOT_EQUAL,     ES_LITERAL_LESS, ES_LITERAL_LESS_EQUAL,
    ES_LITERAL_GREATER, ES_LITERAL_GREATER_EQUAL, ES_LITERAL_NOT};

static void copy_terms(const EsKnowledgeGraph *graph, const EsAtom *atom, int32_t *terms) {
    for (int i = 0; i < graph->arities[atom->predicate]; i++) {
        terms[i] = es_atom_term(atom, i);
    }
}

EsLiteral es_closure_literal(const EsKnowledgeGraph *graph, const EsAtom *atom) {
    int test = graph->has_tests ? graph->test_of[atom->predicate] : ES_KG_NO_TEST;
    int32_t relation = test == ES_KG_NEGATION ? graph->negated[atom->predicate] : atom->predicate;
    EsLiteral literal = {kinds[test], relation, {0}};
    copy_terms(graph, atom, literal.terms);
    return literal;
}

// Relations 0 to P, where 0 is empty.
static EsStatus make_program(EsClosure *closure) {
    const EsKnowledgeGraph *graph = closure->graph;
    size_t n_relations = (size_t)graph->n_predicates + 1, n_body = 0;
    for (int32_t r = 0; r < graph->n_rules; r++) {
        n_body += (size_t)graph->rules[r].n_body;
    }
    ES_TRY(es_allocate(n_relations * sizeof *closure->arities, (void **)&closure->arities));
    ES_TRY(es_allocate((size_t)graph->n_rules * sizeof *closure->rules, (void **)&closure->rules));
    ES_TRY(es_allocate(n_body * sizeof *closure->body, (void **)&closure->body));
    for (size_t p = 0; p < n_relations; p++) {
        closure->arities[p] = graph->arities[p];
    }
    EsLiteral *body = closure->body;
    for (int32_t r = 0; r < graph->n_rules; r++) {
        const EsHornRule *rule = &graph->rules[r];
        EsLiteral *first = body;
        for (int k = 0; k < rule->n_body; k += es_kg_cells(graph, rule->body[k].predicate)) {
            *body++ = es_closure_literal(graph, &rule->body[k]);
        }
        closure->rules[r] =
            (EsDatalogRule){es_closure_literal(graph, &rule->head), first, (int32_t)(body - first)};
    }
    closure->program = (EsDatalogProgram){.n_relations = graph->n_predicates + 1,
                                          .n_constants = graph->n_constants,
                                          .n_rules = graph->n_rules,
                                          .arities = closure->arities,
                                          .rules = closure->rules,
                                          .values = graph->values,
                                          .names = graph->predicate_names};
    return ES_STATUS_OK;
}

// Facts of two cells, whose terms do not stand one behind the other.
static EsStatus add_wide_facts(const EsKnowledgeGraph *graph, int32_t predicate, EsThreadPool *pool,
                               EsDatalog *datalog) {
    const EsWideFacts *facts = &graph->wide;
    int32_t begin = facts->start[predicate], count = facts->start[predicate + 1] - begin, *terms;
    size_t arity = graph->arities[predicate];
    ES_TRY(es_allocate((size_t)ES_MAX(count, 1) * arity * sizeof *terms, (void **)&terms));
    for (size_t i = 0; i < (size_t)count; i++) {
        copy_terms(graph, facts->atoms + 2 * ((size_t)begin + i), terms + i * arity);
    }
    EsStatus status =
        count > 0 ? es_datalog_add_facts(datalog, predicate, terms, (int32_t)arity, count, pool)
                  : ES_STATUS_OK;
    es_release(terms);
    return status;
}

EsStatus es_closure_add_facts(const EsKnowledgeGraph *graph, int32_t predicate, EsThreadPool *pool,
                              EsDatalog *datalog) {
    if (es_kg_cells(graph, predicate) == 2) {
        return add_wide_facts(graph, predicate, pool, datalog);
    }
    EsAtomSpan facts = es_kg_facts_of(graph, predicate);
    return facts.count > 0
               ? es_datalog_add_facts(datalog, predicate, &facts.atoms[0].a,
                                      sizeof(EsAtom) / sizeof(int32_t), facts.count, pool)
               : ES_STATUS_OK;
}

static EsStatus derive(EsClosure *closure, const EsClosureSettings *settings) {
    const EsKnowledgeGraph *graph = closure->graph;
    EsDatalogSettings limits = {closure->limit, settings->keeps_provenance};
    ES_TRY(make_program(closure));
    ES_TRY(es_datalog_create(&closure->program, &limits, &closure->datalog));
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        ES_TRY(es_closure_add_facts(graph, p, settings->pool, closure->datalog));
    }
    ES_TRY(es_datalog_run(closure->datalog, settings->pool));
    closure->is_complete = es_datalog_is_complete(closure->datalog);
    closure->n_joined = (uint64_t)es_datalog_n_joined(closure->datalog);
    closure->n_facts = es_kg_count_facts(graph);
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        closure->count += es_closure_count(closure, p);
    }
    return ES_STATUS_OK;
}

EsStatus es_closure_create_with(const EsKnowledgeGraph *graph, const EsClosureSettings *settings,
                                EsClosure **closure) {
    *closure = NULL;
    EsClosure *made = NULL;
    if (graph->has_negation && graph->n_skipped > 0) {
        return ES_FAIL(INPUT,
                       "rules with negation need every clause, and %d %s passed over "
                       "(--skip-unknown): what does not follow without %s may be true",
                       graph->n_skipped, graph->n_skipped == 1 ? "was" : "were",
                       graph->n_skipped == 1 ? "it" : "them");
    }
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    made->graph = graph;
    made->limit = ES_MAX(ES_MAX(settings->limit, es_kg_count_facts(graph)), 1);
    EsStatus status = derive(made, settings);
    if (status != ES_STATUS_OK) {
        es_closure_destroy(made);
        return status;
    }
    *closure = made;
    return ES_STATUS_OK;
}

EsStatus es_closure_create(const EsKnowledgeGraph *graph, int32_t limit, EsClosure **closure) {
    const EsClosureSettings settings = {.limit = limit};
    return es_closure_create_with(graph, &settings, closure);
}

void es_closure_destroy(EsClosure *closure) {
    if (closure != NULL) {
        es_datalog_destroy(closure->datalog);
        es_release(closure->arities);
        es_release(closure->rules);
        es_release(closure->body);
        es_release(closure);
    }
}

int es_closure_has(const EsClosure *closure, const EsAtom *atom) {
    int32_t terms[ES_KG_MAX_ARITY];
    copy_terms(closure->graph, atom, terms);
    return es_datalog_has(closure->datalog, atom->predicate, terms);
}

int32_t es_closure_find(const EsClosure *closure, const EsAtom *atom) {
    int32_t terms[ES_KG_MAX_ARITY];
    copy_terms(closure->graph, atom, terms);
    return es_datalog_find(closure->datalog, atom->predicate, terms);
}

int32_t es_closure_count(const EsClosure *closure, int32_t predicate) {
    return es_datalog_count(closure->datalog, predicate);
}

int32_t es_closure_count_facts(const EsClosure *closure, int32_t predicate) {
    return es_datalog_count_facts(closure->datalog, predicate);
}

EsWideAtom es_closure_atom(const EsClosure *closure, int32_t predicate, int32_t i) {
    return es_wide_atom_make(predicate, es_datalog_tuple(closure->datalog, predicate, i),
                             closure->graph->arities[predicate]);
}

int32_t es_closure_count_queries(const EsClosure *closure, EsKgSplit split) {
    const EsQuerySplit *queries = &closure->graph->splits[split];
    int32_t n = 0;
    for (int32_t i = 0; i < queries->count; i++) {
        n += es_closure_has(closure, es_kg_query(closure->graph, split, i));
    }
    return n;
}

// --- negation ---

// Atoms that follow of the predicates that are negated, sorted.
static EsStatus copy_negated(const EsClosure *closure, EsKnowledgeGraph *graph) {
    size_t count = 0;
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        count += graph->negated[p] != 0 ? (size_t)es_closure_count(closure, graph->negated[p]) : 0;
    }
    size_t stride = (size_t)graph->query_cells;
    ES_TRY(es_allocate(ES_MAX(count, 1) * stride * sizeof(EsAtom), (void **)&graph->decided));
    EsAtom *out = graph->decided;
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        int32_t negated = graph->negated[p];
        int32_t n_atoms = negated != 0 ? es_closure_count(closure, negated) : 0;
        for (int32_t i = 0; i < n_atoms; i++) {
            EsWideAtom atom = es_closure_atom(closure, negated, i);
            memcpy(out, atom.cells, stride * sizeof *out);
            out += stride;
        }
    }
    qsort(graph->decided, count, stride * sizeof(EsAtom),
          graph->has_wide ? es_wide_atom_compare : es_atom_compare);
    graph->n_decided = (int32_t)count;
    return ES_STATUS_OK;
}

EsStatus es_closure_decide(EsKnowledgeGraph *graph, int32_t limit) {
    if (!graph->has_negation || graph->n_decided >= 0) {
        return ES_STATUS_OK;
    }
    EsClosure *closure;
    ES_TRY(es_closure_create(graph, limit, &closure));
    EsStatus status =
        closure->is_complete
            ? copy_negated(closure, graph)
            : ES_FAIL(INPUT, "rules with negation need the whole closure, which has over %d atoms",
                      closure->limit);
    es_closure_destroy(closure);
    return status;
}
