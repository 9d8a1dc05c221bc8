// Small knowledge graphs for tests, made from text.
#ifndef ES_TESTS_PROOF_KNOWLEDGE_CASE_H
#define ES_TESTS_PROOF_KNOWLEDGE_CASE_H

#include "es_test.h"
#include "proof/graph/knowledge_text.h"

// A graph of facts, test queries and rules; any of the texts may be NULL.
static EsStatus build_case(const char *facts, const char *queries, const char *rules,
                           EsKnowledgeGraph **graph) {
    EsKgBuilder *builder = NULL;
    int32_t n_read;
    *graph = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_kg_builder_create(&builder));
    if (facts != NULL) {
        ES_TRY_GOTO(es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "train.txt", facts,
                                            strlen(facts), &n_read));
    }
    if (queries != NULL) {
        ES_TRY_GOTO(es_kg_text_read_triples(builder, ES_KG_SPLIT_TEST, "test.txt", queries,
                                            strlen(queries), &n_read));
    }
    if (rules != NULL) {
        ES_TRY_GOTO(es_kg_text_read_rules(builder, "rules.txt", rules, strlen(rules), &n_read));
    }
    status = es_kg_builder_finish(builder, graph);
done:
    es_kg_builder_destroy(builder);
    return status;
}

// "predicate(a,b)" in the graph's numbers; 0 where a name is unknown.
static inline EsAtom find_atom(const EsKnowledgeGraph *graph, const char *predicate, const char *a,
                               const char *b) {
    return (EsAtom){es_kg_predicate(graph, predicate), es_kg_constant(graph, a),
                    es_kg_constant(graph, b)};
}

#endif
