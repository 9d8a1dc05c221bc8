#include "proof/graph/knowledge_copy.h"

#include <string.h>

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
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        const EsQuerySplit *queries = &graph->splits[split];
        for (int32_t i = 0; i < queries->count; i++) {
            ES_TRY_GOTO(es_kg_builder_add_query(*builder, (EsKgSplit)split, queries->atoms[i]));
        }
    }
    for (int32_t i = 0; i < graph->n_rules; i++) {
        ES_TRY_GOTO(es_kg_builder_add_rule(*builder, &graph->rules[i]));
    }
done:
    if (status != ES_STATUS_OK) {
        es_kg_builder_destroy(*builder);
        *builder = NULL;
    }
    return status;
}
