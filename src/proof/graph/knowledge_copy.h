// A graph made again with other facts.
#ifndef ES_PROOF_KNOWLEDGE_COPY_H
#define ES_PROOF_KNOWLEDGE_COPY_H

#include "proof/graph/knowledge_builder.h"

ES_EXTERN_C_BEGIN

// A builder with the names, queries and rules of a graph, but none of its facts. Its numbers are
// those of the graph, and so are those of the graph it makes unless names are added.
EsStatus es_kg_builder_create_from(const EsKnowledgeGraph *graph, EsKgBuilder **builder);

ES_EXTERN_C_END

#endif
