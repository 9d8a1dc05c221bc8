// The writer of prolog_text.h.
#include <stdio.h>

#include "base/file.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/prolog_text.h"

// a name with every byte escaped, its quotes and end
typedef char Quoted[2 * ES_KG_MAX_NAME_BYTES + 3];

static const char *quote(const char *name, Quoted quoted) {
    char *out = quoted;
    *out++ = '\'';
    for (; *name != '\0'; name++) {
        if (*name == '\'' || *name == '\\') {
            *out++ = '\\';
        }
        *out++ = *name;
    }
    *out++ = '\'';
    *out = '\0';
    return quoted;
}

static EsStatus append(EsFileWriter *writer, const char *text, int length) {
    return es_file_writer_append(writer, text, (size_t)length);
}

static EsStatus write_fact(EsFileWriter *writer, const EsKnowledgeGraph *graph, EsAtom fact) {
    char line[3 * sizeof(Quoted) + 8];
    Quoted predicate, a, b;
    int length = snprintf(
        line, sizeof line, "%s(%s,%s).\n", quote(graph->predicate_names[fact.predicate], predicate),
        quote(graph->constant_names[fact.a], a), quote(graph->constant_names[fact.b], b));
    return append(writer, line, length);
}

static EsStatus write_rule(EsFileWriter *writer, const EsKnowledgeGraph *graph,
                           const EsHornRule *rule) {
    for (int k = -1; k < rule->n_body; k++) {
        EsAtom atom = k < 0 ? rule->head : rule->body[k];
        char text[sizeof(Quoted) + 64];
        Quoted predicate;
        const char *after = k < 0 ? " :- " : (k + 1 < rule->n_body ? ", " : ".\n");
        int length = snprintf(text, sizeof text, "%s(V%d,V%d)%s",
                              quote(graph->predicate_names[atom.predicate], predicate), -atom.a,
                              -atom.b, after);
        ES_TRY(append(writer, text, length));
    }
    return ES_STATUS_OK;
}

static EsStatus write_predicate(EsFileWriter *writer, const EsKnowledgeGraph *graph,
                                int32_t predicate) {
    char line[sizeof(Quoted) + 32];
    Quoted name;
    int length = snprintf(line, sizeof line, ":- table %s/2.\n",
                          quote(graph->predicate_names[predicate], name));
    EsAtomSpan facts = es_kg_facts_of(graph, predicate);
    int32_t n_rules;
    const EsHornRule *rules = es_kg_rules_of(graph, predicate, &n_rules);
    if (facts.count + n_rules == 0) {
        // a predicate without clauses must be declared, else calling it is an error
        length = snprintf(line, sizeof line, ":- dynamic %s/2.\n", name);
    }
    ES_TRY(append(writer, line, length));
    for (int32_t i = 0; i < facts.count; i++) {
        ES_TRY(write_fact(writer, graph, facts.atoms[i]));
    }
    for (int32_t i = 0; i < n_rules; i++) {
        ES_TRY(write_rule(writer, graph, &rules[i]));
    }
    return ES_STATUS_OK;
}

EsStatus es_prolog_text_save(const EsKnowledgeGraph *graph, const char *path) {
    EsFileWriter *writer;
    ES_TRY(es_file_writer_open(path, &writer));
    EsStatus status = ES_STATUS_OK;
    static const char first[] = ":- style_check(-singleton).\n";
    ES_TRY_GOTO(append(writer, first, sizeof first - 1));
    for (int32_t predicate = 1; predicate <= graph->n_predicates; predicate++) {
        ES_TRY_GOTO(write_predicate(writer, graph, predicate));
    }
    return es_file_writer_commit(writer);
done:
    es_file_writer_abandon(writer);
    return status;
}
