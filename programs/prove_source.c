#include "prove_source.h"

#include "proof/kinship_graph.h"
#include "proof/knowledge_file.h"

#define DEFAULT_PEOPLE 1000

EsStatus es_prove_source_load(const EsProveSource *source, EsKnowledgeGraph **graph) {
    if (source->folder != NULL && source->n_people > 0) {
        return ES_FAIL(ARGUMENT, "--data and --generated exclude each other");
    }
    if (source->folder == NULL && source->rules != NULL) {
        return ES_FAIL(ARGUMENT, "--rules goes with --data; a generated graph has its own rules");
    }
    if (source->folder != NULL) {
        return es_kg_load(source->folder, source->rules, graph);
    }
    int n_people = source->n_people > 0 ? source->n_people : DEFAULT_PEOPLE;
    return es_kinship_graph_create(n_people, (uint64_t)source->seed, graph);
}

const char *es_prove_source_name(const EsProveSource *source) {
    return source->folder != NULL ? source->folder : "generated";
}
