// Horn rules as text, in the form of a rule file without its label.
#ifndef ES_PROOF_RULE_TEXT_H
#define ES_PROOF_RULE_TEXT_H

#include "proof/graph/knowledge_graph.h"

ES_EXTERN_C_BEGIN

// holds any rule whose names are within ES_KG_MAX_NAME_BYTES
#define ES_RULE_TEXT_BYTES 4352

// Write "b1(x,z), b2(z,y) -> head(x,y)" as snprintf does. The variables are x, y, z, u, v, w, s, t
// by their number, so that the head of a rule read or mined is head(x,y) or head(x,x).
int es_horn_rule_format(const EsKnowledgeGraph *graph, const EsHornRule *rule, char *text,
                        size_t bytes);

ES_EXTERN_C_END

#endif
