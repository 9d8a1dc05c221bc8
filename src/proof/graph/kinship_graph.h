// A generated knowledge graph: families over several generations, with the rules of kinship.
//
// Everybody has a sex and an invented name; couples are one man and one woman, children have both
// for parents, and partners come from outside the family. From that follow all atoms of 15
// relations; a part is held out as queries to prove, the rest are facts. The rules are true of
// every such family, so they derive only atoms that were held out. The graph is a pure function of
// (people, seed); a larger one has other people, not more.
//
//     EsKnowledgeGraph *graph; ES_TRY(es_kinship_graph_create(1000, 1, &graph));
#ifndef ES_PROOF_KINSHIP_GRAPH_H
#define ES_PROOF_KINSHIP_GRAPH_H

#include "proof/graph/knowledge_graph.h"

ES_EXTERN_C_BEGIN

#define ES_KINSHIP_MIN_PEOPLE 2
#define ES_KINSHIP_MAX_PEOPLE 1000000

// ARGUMENT when n_people is out of range.
EsStatus es_kinship_graph_create(int32_t n_people, uint64_t seed, EsKnowledgeGraph **graph);

ES_EXTERN_C_END

#endif
