// Everything the rules of a knowledge graph derive from its facts: the closure, by semi-naive
// forward chaining.
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

#include "proof/graph/knowledge_graph.h"

ES_EXTERN_C_BEGIN

// atoms, of about 60 bytes each while it is made
#define ES_CLOSURE_DEFAULT_LIMIT 5000000
#define ES_CLOSURE_MAX_LIMIT     200000000

typedef struct EsClosure {
    const EsKnowledgeGraph *graph; // borrowed
    EsAtom *atoms;                 // the facts in their order, then derived atoms; owned
    int32_t count, n_facts;
    int32_t limit;
    int is_complete; // 0: the limit was hit
    // filled by es_closure_create, read by es_closure_has
    uint64_t *keys;    // hash set of the atoms, 0 = free; owned                         (n_slots)
    uint64_t n_slots;  // a power of two
    int32_t capacity;  // of atoms
    uint64_t n_joined; // times a rule's body was satisfied, whether or not it gave something new
} EsClosure;

// Derive until nothing new comes or `limit` atoms are there, facts included (at least as many as
// there are facts). The graph must outlive the closure.
EsStatus es_closure_create(const EsKnowledgeGraph *graph, int32_t limit, EsClosure **closure);
void es_closure_destroy(EsClosure *closure);

// Exact. The atom is ground and in the graph's numbers.
int es_closure_has(const EsClosure *closure, EsAtom atom);

// Counts the queries of a split that are in it.
int32_t es_closure_count_queries(const EsClosure *closure, EsKgSplit split);

ES_EXTERN_C_END

#endif
