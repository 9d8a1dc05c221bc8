// Knowledge graphs from a few lines of text, for tests.
//
//     EsKnowledgeGraph *graph = make_small_graph("parent(ann,bob) parent(bob,cy)",
//                                                "parent(x,y) parent(y,z) -> grand(x,z)", "");
//
// Facts are separated by spaces; rules by semicolons, the head behind "->"; !=(x,y) in a body is a
// comparison. Names of constants that no fact has come from the queries.
#ifndef ES_TESTS_SMALL_GRAPH_H
#define ES_TESTS_SMALL_GRAPH_H

#include <string.h>

#include "es_test.h"
#include "proof/graph/knowledge_builder.h"

typedef struct SmallAtom {
    char predicate[64], a[64], b[64];
} SmallAtom;

// Read one atom and return what follows it, or NULL when there is none.
static inline const char *scan_small_atom(const char *text, SmallAtom *atom) {
    int n_read = 0;
    text += strspn(text, " ,");
    if (sscanf(text, "%63[^( ](%63[^,],%63[^)])%n", atom->predicate, atom->a, atom->b, &n_read) !=
            3 ||
        n_read == 0) {
        return NULL;
    }
    return text + n_read;
}

static inline int32_t intern_small(EsKgBuilder *builder, EsKgNameKind kind, const char *name) {
    int32_t number = 0;
    REQUIRE_OK(es_kg_builder_intern(builder, kind, name, strlen(name), &number));
    return number;
}

static inline EsAtom intern_small_atom(EsKgBuilder *builder, const SmallAtom *text) {
    EsAtom atom = {intern_small(builder, ES_KG_PREDICATE, text->predicate),
                   intern_small(builder, ES_KG_CONSTANT, text->a),
                   intern_small(builder, ES_KG_CONSTANT, text->b)};
    return atom;
}

// The negative number of a variable by first appearance; `names` collects them.
static inline int32_t small_variable(const char *name, char names[][64], int *n_names) {
    for (int i = 0; i < *n_names; i++) {
        if (strcmp(names[i], name) == 0) {
            return -1 - i;
        }
    }
    strcpy(names[(*n_names)++], name);
    return -*n_names;
}

static inline void add_small_rule(EsKgBuilder *builder, const char *text, int line) {
    EsHornRule rule = {.line = line};
    SmallAtom atoms[ES_HORN_MAX_BODY + 1];
    char names[ES_HORN_MAX_VARIABLES][64];
    int n_atoms = 0;
    for (const char *end; n_atoms <= ES_HORN_MAX_BODY; text = end, n_atoms++) {
        text += strspn(text, " ,");
        text += strncmp(text, "->", 2) == 0 ? 2 : 0;
        end = scan_small_atom(text, &atoms[n_atoms]);
        if (end == NULL) {
            break;
        }
    }
    rule.n_body = n_atoms - 1;
    for (int i = 0; i < n_atoms; i++) {
        // the head is the last in the text and the first to be numbered
        const SmallAtom *from = &atoms[i == 0 ? n_atoms - 1 : i - 1];
        EsAtom *to = i == 0 ? &rule.head : &rule.body[i - 1];
        if (strcmp(from->predicate, "!=") == 0) {
            REQUIRE_OK(es_kg_builder_intern_test(builder, ES_KG_NOT_EQUAL, &to->predicate));
        } else {
            to->predicate = intern_small(builder, ES_KG_PREDICATE, from->predicate);
        }
        to->a = small_variable(from->a, names, &rule.n_variables);
        to->b = small_variable(from->b, names, &rule.n_variables);
    }
    REQUIRE_OK(es_kg_builder_add_rule(builder, &rule));
}

// `queries` only makes names known; it goes into the split TEST.
static inline EsKnowledgeGraph *make_small_graph(const char *facts, const char *rules,
                                                 const char *queries) {
    EsKgBuilder *builder = NULL;
    EsKnowledgeGraph *graph = NULL;
    SmallAtom atom;
    REQUIRE_OK(es_kg_builder_create(&builder));
    for (const char *at = scan_small_atom(facts, &atom); at != NULL;
         at = scan_small_atom(at, &atom)) {
        REQUIRE_OK(es_kg_builder_add_fact(builder, (EsAtom[]){intern_small_atom(builder, &atom)}));
    }
    for (const char *at = scan_small_atom(queries, &atom); at != NULL;
         at = scan_small_atom(at, &atom)) {
        REQUIRE_OK(es_kg_builder_add_query(builder, ES_KG_SPLIT_TEST,
                                           (EsAtom[]){intern_small_atom(builder, &atom)}));
    }
    for (int line = 1; rules != NULL && *rules != '\0'; line++) {
        char one[512] = "";
        size_t length = strcspn(rules, ";");
        memcpy(one, rules, length < sizeof one ? length : sizeof one - 1);
        add_small_rule(builder, one, line);
        rules += length + (rules[length] == ';');
    }
    REQUIRE_OK(es_kg_builder_finish(builder, &graph));
    es_kg_builder_destroy(builder);
    return graph;
}

// An atom of the graph; V1, V2, ... are variables of a state.
static inline EsAtom small_atom(const EsKnowledgeGraph *graph, const char *text) {
    SmallAtom names = {"", "", ""};
    if (scan_small_atom(text, &names) == NULL) {
        ES_TEST_FAIL("\"%s\" is not an atom", text);
    }
    EsAtom atom = {es_kg_predicate(graph, names.predicate), 0, 0};
    atom.a =
        names.a[0] == 'V' ? graph->n_constants + atoi(names.a + 1) : es_kg_constant(graph, names.a);
    atom.b =
        names.b[0] == 'V' ? graph->n_constants + atoi(names.b + 1) : es_kg_constant(graph, names.b);
    if (atom.predicate == 0 || atom.a == 0 || atom.b == 0) {
        ES_TEST_FAIL("\"%s\" has a name that the graph does not know", text);
    }
    return atom;
}

#endif
