#include "proof/graph/rule_text.h"

#include <stdio.h>

static const char variable_names[ES_HORN_MAX_VARIABLES + 1] = "xyzuvwst";

static char name_of(int32_t variable) {
    ES_ASSERT(variable < 0 && variable >= -ES_HORN_MAX_VARIABLES);
    return variable_names[-1 - variable];
}

int es_horn_rule_format(const EsKnowledgeGraph *graph, const EsHornRule *rule, char *text,
                        size_t bytes) {
    int length = 0;
    for (int k = 0; k <= rule->n_body; k++) {
        EsAtom atom = k < rule->n_body ? rule->body[k] : rule->head;
        const char *before = k == 0 ? "" : (k < rule->n_body ? ", " : " -> ");
        size_t used = ES_MIN((size_t)length, bytes);
        length +=
            snprintf(text + used, bytes - used, "%s%s(%c,%c)", before,
                     graph->predicate_names[atom.predicate], name_of(atom.a), name_of(atom.b));
    }
    return length;
}
