#include "prove_source.h"

#include "message.h"
#include "proof/kinship_graph.h"

#define DEFAULT_PEOPLE 1000

static EsStatus load_files(const EsProveSource *source, EsKgRulesUse rules_use,
                           EsKnowledgeGraph **graph) {
    EsKgSource files = {.path = source->folder,
                        .rules = source->rules,
                        .rules_use = rules_use,
                        .soft = source->soft,
                        .filter = {source->soft_min_score, source->soft_max_rank}};
    EsKgReading reading;
    ES_TRY(es_kg_load_source(&files, &reading, graph));
    if (source->soft != NULL) {
        const EsSoftCounts *soft = &reading.soft;
        es_message("soft facts: %d read, %d added, %d left out for score or rank, %d dropped as "
                   "valid or test queries, %d facts already\n",
                   soft->n_read, soft->n_added, soft->n_filtered, soft->n_queries, soft->n_known);
    }
    return ES_STATUS_OK;
}

EsStatus es_prove_source_load_using(const EsProveSource *source, EsKgRulesUse rules_use,
                                    EsKnowledgeGraph **graph) {
    if (source->folder != NULL && source->n_people > 0) {
        return ES_FAIL(ARGUMENT, "--data and --generated exclude each other");
    }
    if (source->folder == NULL && source->rules != NULL) {
        return ES_FAIL(ARGUMENT, "--rules goes with --data; a generated graph has its own rules");
    }
    if (source->folder == NULL && source->soft != NULL) {
        return ES_FAIL(ARGUMENT, "--soft goes with --data");
    }
    if (source->folder != NULL) {
        return load_files(source, rules_use, graph);
    }
    int n_people = source->n_people > 0 ? source->n_people : DEFAULT_PEOPLE;
    return es_kinship_graph_create(n_people, (uint64_t)source->seed, graph);
}

EsStatus es_prove_source_load(const EsProveSource *source, EsKnowledgeGraph **graph) {
    return es_prove_source_load_using(source, ES_KG_RULES_NEEDED, graph);
}

const char *es_prove_source_name(const EsProveSource *source) {
    return source->folder != NULL ? source->folder : "generated";
}
