// Everything about a finished graph that is not inline: looking up names, atoms and rules as text,
// the hash of the names, by which files recognise their graph, and the part of two arguments.
#include "proof/graph/knowledge_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/graph/knowledge_builder.h"
#include "proof/graph/text_line.h"

void es_kg_destroy(EsKnowledgeGraph *graph) {
    if (graph == NULL) {
        return;
    }
    es_release(graph->constant_names);
    es_release(graph->predicate_names);
    es_release(graph->arities);
    es_release(graph->wide.atoms);
    es_release(graph->wide.start);
    for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
        es_release(graph->wide.order[place]);
    }
    es_release(graph->facts);
    es_release(graph->facts_by_b);
    es_release(graph->fact_start);
    es_release(graph->by_a.rows);
    es_release(graph->by_a.entries);
    es_release(graph->by_b.rows);
    es_release(graph->by_b.entries);
    es_release(graph->rules);
    es_release(graph->rule_start);
    es_release(graph->test_of);
    es_release(graph->values);
    es_release(graph->negated);
    es_release(graph->decided);
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

int64_t es_kg_integer(const char *name) {
    int is_negative = name[0] == '-';
    const char *digits = name + is_negative;
    size_t n_digits = strspn(digits, "0123456789");
    if (n_digits == 0 || n_digits > 18 || digits[n_digits] != '\0' ||
        (digits[0] == '0' && (n_digits > 1 || is_negative))) {
        return ES_KG_NO_INTEGER;
    }
    return strtoll(name, NULL, 10);
}

int32_t es_kg_count_not_binary(const EsKnowledgeGraph *graph, int32_t *first) {
    int32_t count = 0, found = 0;
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        if (graph->arities[p] != 2 && !es_kg_is_test(graph, p)) {
            found = count++ == 0 ? p : found;
        }
    }
    if (first != NULL) {
        *first = found;
    }
    return count;
}

EsStatus es_kg_check_binary(const EsKnowledgeGraph *graph, const char *what) {
    int32_t first;
    if (es_kg_count_not_binary(graph, &first) > 0) {
        return ES_FAIL(INPUT, "%s takes predicates of two arguments, and \"%.100s\" has %d", what,
                       graph->predicate_names[first], graph->arities[first]);
    }
    return ES_STATUS_OK;
}

// Adds all that has two arguments to a builder with the names of the graph.
static EsStatus add_binary(const EsKnowledgeGraph *graph, EsKgBuilder *builder) {
    for (int32_t i = 0; i < graph->n_facts; i++) {
        if (graph->arities[graph->facts[i].predicate] == 2) {
            ES_TRY(es_kg_builder_add_fact(builder, &graph->facts[i]));
        }
    }
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        for (int32_t i = 0; i < graph->splits[split].count; i++) {
            const EsAtom *query = es_kg_query(graph, (EsKgSplit)split, i);
            if (graph->arities[query->predicate] == 2) {
                ES_TRY(es_kg_builder_add_query(builder, (EsKgSplit)split, query));
            }
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_kg_binary_part(const EsKnowledgeGraph *graph, EsKnowledgeGraph **part) {
    EsKnowledgeGraph names = *graph;
    EsKgBuilder *builder = NULL;
    EsStatus status = ES_STATUS_OK;
    size_t n_arities = (size_t)graph->n_predicates + 1;
    *part = NULL;
    names.n_rules = names.has_tests = 0;
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        names.splits[split].count = 0;
    }
    ES_TRY(es_allocate(n_arities, (void **)&names.arities));
    memset(names.arities, 2, n_arities);
    ES_TRY_GOTO(es_kg_builder_create_from(&names, &builder));
    ES_TRY_GOTO(add_binary(graph, builder));
    ES_TRY_GOTO(es_kg_builder_finish(builder, part));
done:
    es_kg_builder_destroy(builder);
    es_release(names.arities);
    return status;
}

// --- names as text ---

const char *const es_kg_test_names[ES_KG_N_TESTS] = {"", "!=", "<", "<=", ">", ">=", "not"};

int es_kg_is_test_name(const char *text, size_t bytes) {
    for (int test = ES_KG_NOT_EQUAL; test < ES_KG_NEGATION; test++) {
        const char *name = es_kg_test_names[test];
        if (bytes > 0 && name[0] == text[0] && strlen(name) == bytes &&
            memcmp(name, text, bytes) == 0) {
            return 1;
        }
    }
    return bytes >= 4 && memcmp(text, "not ", 4) == 0;
}

int es_kg_looks_variable(const char *text, size_t bytes) {
    if (bytes == 0) {
        return 0;
    }
    if ((text[0] >= 'A' && text[0] <= 'Z') || text[0] == '_' || text[0] == '?') {
        return 1;
    }
    size_t n_digits = 0;
    while (1 + n_digits < bytes && text[1 + n_digits] >= '0' && text[1 + n_digits] <= '9') {
        n_digits++;
    }
    return text[0] >= 'a' && text[0] <= 'z' && 1 + n_digits == bytes;
}

// Returns whether a fact has this name in quotes.
static int needs_quotes(const char *name) {
    return strchr("'\"%", name[0]) != NULL || name[strcspn(name, " \t\r\n,()")] != '\0';
}

// Returns whether a name, unquoted and alone, could be two with a comparison between them.
static int has_comparison(const char *name) { return name[strcspn(name, "<>=!")] != '\0'; }

static void add_name(EsTextOut *text, const char *name, int is_quoted) {
    if (is_quoted) {
        es_text_out_add_quoted(text, name);
    } else {
        es_text_out_add_text(text, name);
    }
}

int es_kg_format_name(const char *name, char *text, size_t bytes) {
    EsTextOut out = {text, bytes, 0};
    add_name(&out, name, needs_quotes(name));
    return es_text_out_end(&out);
}

static int is_negation(const EsKnowledgeGraph *graph, int32_t predicate) {
    return es_kg_is_test(graph, predicate) && graph->test_of[predicate] == ES_KG_NEGATION;
}

static void add_argument(EsTextOut *text, const EsKnowledgeGraph *graph, int32_t term) {
    ES_ASSERT(term <= graph->n_constants);
    char variable[16];
    snprintf(variable, sizeof variable, "V%d", -term);
    const char *name = term < 0 ? variable : graph->constant_names[term];
    add_name(text, name, term > 0 && needs_quotes(name));
}

// Adds an atom, its negation or a comparison; a term by `add`, predicates in quotes where
// `is_quoted` says so.
static void add_atom(EsTextOut *text, const EsKnowledgeGraph *graph, const EsAtom *atom,
                     void (*add)(EsTextOut *, const EsKnowledgeGraph *, int32_t),
                     int (*is_quoted)(const char *)) {
    int32_t predicate = atom->predicate;
    if (is_negation(graph, predicate)) {
        es_text_out_add_text(text, "not ");
        predicate = graph->negated[predicate];
    } else if (es_kg_is_test(graph, predicate)) {
        add(text, graph, atom->a);
        es_text_out_add_text(text, " ");
        es_text_out_add_text(text, graph->predicate_names[predicate]);
        es_text_out_add_text(text, " ");
        add(text, graph, atom->b);
        return;
    }
    const char *name = graph->predicate_names[predicate];
    int arity = graph->arities[predicate];
    // without arguments a period, what looks like a variable or a comparison would be read as such
    int is_bare = arity == 0 && (name[strlen(name) - 1] == '.' || has_comparison(name) ||
                                 es_kg_looks_variable(name, strlen(name)));
    add_name(text, name, is_bare || is_quoted(name));
    for (int i = 0; i < arity; i++) {
        es_text_out_add_text(text, i == 0 ? "(" : ",");
        add(text, graph, es_atom_term(atom, i));
    }
    es_text_out_add_text(text, arity > 0 ? ")" : "");
}

int es_kg_format_atom(const EsKnowledgeGraph *graph, const EsAtom *atom, char *text, size_t bytes) {
    ES_ASSERT(atom->predicate > 0 && atom->predicate <= graph->n_predicates);
    EsTextOut out = {text, bytes, 0};
    add_atom(&out, graph, atom, add_argument, needs_quotes);
    return es_text_out_end(&out);
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

void es_kg_arities_hash(const EsKnowledgeGraph *graph, char text[ES_SHA256_TEXT_BYTES]) {
    EsSha256 hash;
    es_sha256_begin(&hash);
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        unsigned char arity = (unsigned char)graph->arities[p];
        es_sha256_append(&hash, &arity, 1);
    }
    es_sha256_end(&hash, text);
}

// --- rules as text ---

// Returns whether a rule has this predicate in quotes: where it could be an arrow, a comparison or
// a negation.
static int is_quoted_predicate(const char *name) {
    return needs_quotes(name) || strchr("<>=!-\\", name[0]) != NULL || strstr(name, "->") != NULL ||
           strcmp(name, "not") == 0;
}

static void add_term(EsTextOut *text, const EsKnowledgeGraph *graph, int32_t term) {
    static const char letters[] = "xyzuvwst";
    if (term > 0) {
        const char *name = graph->constant_names[term];
        add_name(text, name,
                 needs_quotes(name) || es_kg_looks_variable(name, strlen(name)) ||
                     has_comparison(name) || strstr(name, "->") != NULL);
        return;
    }
    ES_ASSERT(term < 0 && term >= -ES_HORN_MAX_VARIABLES);
    if (-term <= (int32_t)sizeof letters - 1) {
        es_text_out_add(text, &letters[-1 - term], 1);
    } else {
        char name[16];
        snprintf(name, sizeof name, "x%d", -term);
        es_text_out_add_text(text, name);
    }
}

int es_horn_rule_format(const EsKnowledgeGraph *graph, const EsHornRule *rule, char *text,
                        size_t bytes) {
    EsTextOut out = {text, bytes, 0};
    for (int k = 0; k < rule->n_body; k += es_kg_cells(graph, rule->body[k].predicate)) {
        es_text_out_add_text(&out, k == 0 ? "" : ", ");
        add_atom(&out, graph, &rule->body[k], add_term, is_quoted_predicate);
    }
    es_text_out_add_text(&out, " -> ");
    add_atom(&out, graph, &rule->head, add_term, is_quoted_predicate);
    return es_text_out_end(&out);
}
