// A knowledge graph as a Prolog program: for each predicate its declaration, facts and rules. Names
// are always in quotes.
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/prolog_text.h"
#include "proof/graph/text_line.h"

// a name with every byte escaped, its quotes and end
typedef char Quoted[2 * ES_KG_MAX_NAME_BYTES + 3];

static const char *quote(const char *name, Quoted quoted) {
    EsTextOut out = {quoted, sizeof(Quoted), 0};
    es_text_out_add_quoted(&out, name);
    es_text_out_end(&out);
    return quoted;
}

// Integers without quotes, so that Prolog compares them as such.
static const char *write_term(const EsKnowledgeGraph *graph, int32_t term, Quoted text) {
    if (term < 0) {
        snprintf(text, sizeof(Quoted), "V%d", -term);
        return text;
    }
    const char *name = graph->constant_names[term];
    if (es_kg_integer(name) == ES_KG_NO_INTEGER) {
        return quote(name, text);
    }
    snprintf(text, sizeof(Quoted), "%s", name);
    return text;
}

static EsStatus append(EsFileWriter *writer, const char *text, int length) {
    return es_file_writer_append(writer, text, (size_t)length);
}

static EsStatus write_text(EsFileWriter *writer, const char *text) {
    return append(writer, text, (int)strlen(text));
}

// The predicate is that of the atom, or the one that it negates.
static EsStatus write_atom(EsFileWriter *writer, const EsKnowledgeGraph *graph, int32_t predicate,
                           const EsAtom *atom, const char *after) {
    Quoted text;
    ES_TRY(write_text(writer, quote(graph->predicate_names[predicate], text)));
    for (int i = 0; i < graph->arities[predicate]; i++) {
        ES_TRY(write_text(writer, i == 0 ? "(" : ","));
        ES_TRY(write_text(writer, write_term(graph, es_atom_term(atom, i), text)));
    }
    ES_TRY(write_text(writer, graph->arities[predicate] > 0 ? ")" : ""));
    return write_text(writer, after);
}

// Prolog has an error where names are compared in order; here that is no proof.
static EsStatus write_test(EsFileWriter *writer, const EsKnowledgeGraph *graph,
                           const EsAtom *atom) {
    static const char *const operators[ES_KG_N_TESTS] = {"", "\\==", "<", "=<", ">", ">=", ""};
    char line[4 * sizeof(Quoted) + 64];
    Quoted a, b;
    int test = graph->test_of[atom->predicate];
    if (test == ES_KG_NEGATION) {
        ES_TRY(append(writer, ", \\+ ", 5));
        return write_atom(writer, graph, graph->negated[atom->predicate], atom, "");
    }
    write_term(graph, atom->a, a);
    write_term(graph, atom->b, b);
    int length = test == ES_KG_NOT_EQUAL
                     ? snprintf(line, sizeof line, ", %s %s %s", a, operators[test], b)
                     : snprintf(line, sizeof line, ", integer(%s), integer(%s), %s %s %s", a, b, a,
                                operators[test], b);
    return append(writer, line, length);
}

// Comparisons come last, when their variables are bound.
static EsStatus write_rule(EsFileWriter *writer, const EsKnowledgeGraph *graph,
                           const EsHornRule *rule) {
    ES_TRY(write_atom(writer, graph, rule->head.predicate, &rule->head, " :- "));
    int n_atoms = 0;
    for (int is_test = 0; is_test < 2; is_test++) {
        for (int k = 0; k < rule->n_body; k += es_kg_cells(graph, rule->body[k].predicate)) {
            const EsAtom *atom = &rule->body[k];
            if (es_kg_is_test(graph, atom->predicate) != is_test) {
                continue;
            }
            if (is_test) {
                ES_TRY(write_test(writer, graph, atom));
                continue;
            }
            ES_TRY(write_text(writer, n_atoms++ > 0 ? ", " : ""));
            ES_TRY(write_atom(writer, graph, atom->predicate, atom, ""));
        }
    }
    return append(writer, ".\n", 2);
}

static EsStatus write_predicate(EsFileWriter *writer, const EsKnowledgeGraph *graph,
                                int32_t predicate) {
    char line[sizeof(Quoted) + 32];
    Quoted name;
    int32_t n_rules, n_facts = es_kg_count_facts_of(graph, predicate);
    const EsHornRule *rules = es_kg_rules_of(graph, predicate, &n_rules);
    // a predicate without clauses must be declared, else calling it is an error
    int length =
        snprintf(line, sizeof line, ":- %s %s/%d.\n", n_facts + n_rules == 0 ? "dynamic" : "table",
                 quote(graph->predicate_names[predicate], name), graph->arities[predicate]);
    ES_TRY(append(writer, line, length));
    int n_cells = es_kg_cells(graph, predicate);
    const EsAtom *facts = n_cells == 1
                              ? es_kg_facts_of(graph, predicate).atoms
                              : graph->wide.atoms + 2 * (size_t)graph->wide.start[predicate];
    for (int32_t i = 0; i < n_facts; i++) {
        ES_TRY(write_atom(writer, graph, predicate, facts + (size_t)i * (size_t)n_cells, ".\n"));
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
        if (!es_kg_is_test(graph, predicate)) {
            ES_TRY_GOTO(write_predicate(writer, graph, predicate));
        }
    }
    return es_file_writer_commit(writer);
done:
    es_file_writer_abandon(writer);
    return status;
}
