// Everything about a finished graph that is not inline: looking up names, atoms and rules as text,
// and the hash of the names, by which files recognise their graph.
#include "proof/graph/knowledge_graph.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

void es_kg_destroy(EsKnowledgeGraph *graph) {
    if (graph == NULL) {
        return;
    }
    es_release(graph->constant_names);
    es_release(graph->predicate_names);
    es_release(graph->facts);
    es_release(graph->facts_by_b);
    es_release(graph->fact_start);
    es_release(graph->by_a.rows);
    es_release(graph->by_a.entries);
    es_release(graph->by_b.rows);
    es_release(graph->by_b.entries);
    es_release(graph->rules);
    es_release(graph->rule_start);
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        es_release(graph->splits[split].atoms);
        es_release(graph->splits[split].depths);
    }
    es_release(graph->domains.names);
    es_release(graph->domains.start);
    es_release(graph->domains.members);
    es_release(graph->domains.of_constant);
    es_release(graph->domains.of_argument);
    es_release(graph->domains.name_text);
    es_release(graph->name_text);
    es_release(graph);
}

// Names stand in byte order in [1, count].
static int32_t find_name(const char *const *names, int32_t count, const char *name) {
    int32_t low = 1, high = count;
    while (low <= high) {
        int32_t middle = low + (high - low) / 2;
        int order = strcmp(names[middle], name);
        if (order == 0) {
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle - 1;
        }
    }
    return 0;
}

int32_t es_kg_constant(const EsKnowledgeGraph *graph, const char *name) {
    return find_name(graph->constant_names, graph->n_constants, name);
}

int32_t es_kg_predicate(const EsKnowledgeGraph *graph, const char *name) {
    return find_name(graph->predicate_names, graph->n_predicates, name);
}

int es_kg_format_atom(const EsKnowledgeGraph *graph, EsAtom atom, char *text, size_t bytes) {
    ES_ASSERT(atom.predicate > 0 && atom.predicate <= graph->n_predicates);
    ES_ASSERT(atom.a <= graph->n_constants && atom.b <= graph->n_constants);
    char variable[2][16];
    snprintf(variable[0], sizeof variable[0], "V%d", -atom.a);
    snprintf(variable[1], sizeof variable[1], "V%d", -atom.b);
    return snprintf(text, bytes, "%s(%s,%s)", graph->predicate_names[atom.predicate],
                    atom.a < 0 ? variable[0] : graph->constant_names[atom.a],
                    atom.b < 0 ? variable[1] : graph->constant_names[atom.b]);
}

// --- the hash of the names ---

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

// --- rules as text ---

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
