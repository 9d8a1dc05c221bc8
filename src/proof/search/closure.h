// Everything the rules of a knowledge graph derive from its facts: the closure, by datalog.h.
//
// A query that is no fact can be proved at some depth if and only if it is in the closure, for any
// order of search; a query that is a fact is in it trivially. The closure may be far larger than
// the facts, so it has a limit; when that is hit, is_complete is 0 and the absence of an atom means
// nothing.
//
//     EsClosure *closure; ES_TRY(es_closure_create(graph, ES_CLOSURE_DEFAULT_LIMIT, &closure));
//     int is_provable = es_closure_has(closure, query);
//     es_closure_destroy(closure);
#ifndef ES_PROOF_CLOSURE_H
#define ES_PROOF_CLOSURE_H

#include "base/thread_pool.h"
#include "proof/graph/knowledge_graph.h"
#include "proof/search/datalog.h"

ES_EXTERN_C_BEGIN

// atoms, of 13 to 19 bytes each, less where most atoms that could be are in it; and, where rules
// join derived atoms, 4 more for every index asked for
#define ES_CLOSURE_DEFAULT_LIMIT 5000000
#define ES_CLOSURE_MAX_LIMIT     200000000

typedef struct EsClosureSettings {
    int32_t limit;        // atoms, facts included; at least as many as there are facts
    int keeps_provenance; // the first derivation of each atom: 12 bytes more where a rule has two
                          // body atoms, and up to 8 for the set
    EsThreadPool *pool;   // NULL: this thread alone; the same closure in any case
} EsClosureSettings;

typedef struct EsClosure {
    const EsKnowledgeGraph *graph; // borrowed
    int32_t count, n_facts;
    int32_t limit;
    int is_complete;    // 0: the limit was hit
    uint64_t n_joined;  // times a rule's body was satisfied, whether or not it gave something new
    EsDatalog *datalog; // relations are numbered as predicates; owned
    // the program; owned
    EsDatalogProgram program;
    EsDatalogRule *rules; // as those of the graph
    EsLiteral *body;      // of all rules
    int32_t *arities;
} EsClosure;

// Derive until nothing new comes or the limit is hit. The graph must outlive the closure. INPUT
// when rules have negation and clauses of the graph's file were passed over, since what a lost
// clause gives would count as false; or names a cycle through negation.
EsStatus es_closure_create(const EsKnowledgeGraph *graph, int32_t limit, EsClosure **closure);
EsStatus es_closure_create_with(const EsKnowledgeGraph *graph, const EsClosureSettings *settings,
                                EsClosure **closure);
void es_closure_destroy(EsClosure *closure);

// An atom of a rule, or a test, as a literal; its relation is the predicate.
EsLiteral es_closure_literal(const EsKnowledgeGraph *graph, const EsAtom *atom);

// Adds the facts of a predicate to an evaluation whose relations are numbered as predicates; `pool`
// may be NULL.
EsStatus es_closure_add_facts(const EsKnowledgeGraph *graph, int32_t predicate, EsThreadPool *pool,
                              EsDatalog *datalog);

// Exact. The atom is ground and in the graph's numbers.
int es_closure_has(const EsClosure *closure, const EsAtom *atom);

// The number of an atom among those of its predicate, -1 when it is not there. Quick with
// provenance, a search without.
int32_t es_closure_find(const EsClosure *closure, const EsAtom *atom);

// Atoms of a predicate: the facts in their order, then those derived, in the order of derivation.
int32_t es_closure_count(const EsClosure *closure, int32_t predicate);
int32_t es_closure_count_facts(const EsClosure *closure, int32_t predicate);
EsWideAtom es_closure_atom(const EsClosure *closure, int32_t predicate, int32_t i);

// Decide the negations of a graph's rules by its closure, after which proof_rules.h can be used on
// it. INPUT when the closure has over `limit` atoms or cannot be made. A graph without negation
// needs none.
EsStatus es_closure_decide(EsKnowledgeGraph *graph, int32_t limit);

// Counts the queries of a split that are in it.
int32_t es_closure_count_queries(const EsClosure *closure, EsKgSplit split);

ES_EXTERN_C_END

#endif
