// What the numbers of a knowledge graph stand for, as a hash that files can hold.
#ifndef ES_PROOF_KNOWLEDGE_HASH_H
#define ES_PROOF_KNOWLEDGE_HASH_H

#include "base/checksum.h"
#include "proof/graph/knowledge_graph.h"

ES_EXTERN_C_BEGIN

// SHA-256 of all names in order: graphs with the same hash number their constants and predicates
// alike, whatever their facts.
void es_kg_names_hash(const EsKnowledgeGraph *graph, char text[ES_SHA256_TEXT_BYTES]);

ES_EXTERN_C_END

#endif
