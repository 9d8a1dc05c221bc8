#include "proof/graph/knowledge_hash.h"

#include <string.h>

// Each with its end, so that "ab", "c" is not "a", "bc".
static void append_names(EsSha256 *hash, const char *const *names, int32_t count) {
    for (int32_t i = 1; i <= count; i++) {
        es_sha256_append(hash, names[i], strlen(names[i]) + 1);
    }
}

void es_kg_names_hash(const EsKnowledgeGraph *graph, char text[ES_SHA256_TEXT_BYTES]) {
    EsSha256 hash;
    es_sha256_begin(&hash);
    append_names(&hash, graph->constant_names, graph->n_constants);
    // no name is empty: the constants end here
    es_sha256_append(&hash, "", 1);
    append_names(&hash, graph->predicate_names, graph->n_predicates);
    es_sha256_end(&hash, text);
}
