// Readers of one text each, line by line: rules go into a builder; depths and domains into a
// finished graph, whose names they refer to. Triples have a source of their own (triples_text.c). A
// rule is cut into atoms, comparisons and names first, then numbered, variables by first appearance
// with the head first.
#include "proof/graph/knowledge_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/graph/text_line.h"

// --- rules, cut ---

typedef struct RuleText {
    EsAtomText head;
    EsLiteralText body[ES_HORN_MAX_BODY];
    int n_body;
} RuleText;

// Take "name:confidence:" from the front of *rest.
static EsStatus skip_label(const EsTextLines *lines, EsPiece *rest) {
    const char *end = rest->text + rest->bytes;
    const char *first = memchr(rest->text, ':', rest->bytes);
    const char *second = first != NULL ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
    EsExcerpt excerpt;
    if (second == NULL) {
        return ES_LINE_FAIL(lines, rest->text,
                            "%s is no rule, expected NAME:CONFIDENCE:BODY -> HEAD",
                            es_text_excerpt(*rest, excerpt));
    }
    EsPiece confidence = es_piece_trim((EsPiece){first + 1, (size_t)(second - first - 1)});
    char number[64] = "", *stop = number;
    double value = 0;
    if (confidence.bytes < sizeof number) {
        memcpy(number, confidence.text, confidence.bytes);
        number[confidence.bytes] = '\0';
        value = strtod(number, &stop);
    }
    if (stop == number || *stop != '\0' || !isfinite(value)) {
        return ES_LINE_FAIL(lines, confidence.text, "the confidence %s is not a number",
                            es_text_excerpt(confidence, excerpt));
    }
    *rest = (EsPiece){second + 1, (size_t)(end - second - 1)};
    return ES_STATUS_OK;
}

// Take "b1(x,y), b2(y,z) ->" from the front of *rest.
static EsStatus parse_body(const EsTextLines *lines, EsPiece *rest, RuleText *rule) {
    *rest = es_piece_skip_blanks(*rest);
    if (es_piece_starts_with(*rest, "->")) {
        return ES_LINE_FAIL(lines, rest->text, "%s", "the rule has no body before ->");
    }
    for (;;) {
        EsLiteralText literal;
        const char *begin = es_piece_skip_blanks(*rest).text;
        ES_TRY(es_text_take_literal(lines, rest, &literal));
        if (rule->n_body == ES_HORN_MAX_BODY) {
            return ES_LINE_FAIL(lines, begin, "more than %d atoms before ->", ES_HORN_MAX_BODY);
        }
        rule->body[rule->n_body++] = literal;
        *rest = es_piece_skip_blanks(*rest);
        if (es_piece_starts_with(*rest, "->")) {
            *rest = es_piece_cut_front(*rest, 2);
            return ES_STATUS_OK;
        }
        if (rest->bytes == 0) {
            return ES_LINE_FAIL(lines, rest->text, "%s",
                                "the rule ends after its body, expected -> and a head");
        }
        if (rest->text[0] != ',') {
            EsExcerpt excerpt;
            return ES_LINE_FAIL(lines, rest->text, "%s after an atom of the body, expected , or ->",
                                es_text_excerpt(*rest, excerpt));
        }
        const char *comma = rest->text;
        *rest = es_piece_skip_blanks(es_piece_cut_front(*rest, 1));
        if (rest->bytes == 0 || es_piece_starts_with(*rest, "->")) {
            return ES_LINE_FAIL(lines, comma, "%s", "an atom is missing after the comma");
        }
    }
}

static EsStatus parse_rule(const EsTextLines *lines, EsPiece line, RuleText *rule) {
    memset(rule, 0, sizeof *rule);
    EsPiece rest = line;
    ES_TRY(skip_label(lines, &rest));
    ES_TRY(parse_body(lines, &rest, rule));
    ES_TRY(es_text_take_atom(lines, &rest, &rule->head));
    rest = es_piece_skip_blanks(rest);
    if (rest.bytes > 1 || (rest.bytes == 1 && rest.text[0] != '.')) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, rest.text, "%s after the head of the rule",
                            es_text_excerpt(rest, excerpt));
    }
    return ES_STATUS_OK;
}

// --- rules, numbered ---

typedef struct Numbering {
    const EsTextLines *lines;
    EsKgBuilder *builder;
    EsPiece names[ES_HORN_MAX_VARIABLES]; // of variables
    int n_names;
} Numbering;

// A plain _ is a new variable each time.
static int is_nameless(EsNameText name) {
    return !name.is_quoted && name.inside.bytes == 1 && name.inside.text[0] == '_';
}

static EsStatus number_term(Numbering *numbering, EsNameText name, int32_t *term) {
    if (!es_name_text_is_variable(name)) {
        return es_text_intern(numbering->builder, ES_KG_CONSTANT, name, term);
    }
    EsPiece piece = name.inside;
    int i = 0;
    while (i < numbering->n_names &&
           (is_nameless(name) || !es_piece_equals(numbering->names[i], piece))) {
        i++;
    }
    if (i == ES_HORN_MAX_VARIABLES) {
        return ES_LINE_FAIL(numbering->lines, piece.text, "more than %d variables in one rule",
                            ES_HORN_MAX_VARIABLES);
    }
    if (i == numbering->n_names) {
        numbering->names[numbering->n_names++] = piece;
        ES_TRY(es_kg_builder_note_variable(numbering->builder, piece.text, piece.bytes,
                                           numbering->lines->number));
    }
    *term = -(i + 1);
    return ES_STATUS_OK;
}

static EsStatus check_operand(const EsTextLines *lines, EsKgTest test, EsNameText name) {
    return es_name_text_is_variable(name) ? ES_STATUS_OK : es_text_check_operand(lines, test, name);
}

static EsStatus number_literal(Numbering *numbering, const EsAtomText *spelt, EsKgTest test,
                               EsWideAtom *atom) {
    int32_t predicate, terms[ES_KG_MAX_ARITY];
    if (test == ES_KG_NO_TEST || test == ES_KG_NEGATION) {
        ES_TRY(es_text_intern_predicate(numbering->lines, numbering->builder, spelt,
                                        test == ES_KG_NEGATION, &predicate));
    } else {
        ES_TRY(check_operand(numbering->lines, test, spelt->terms[0]));
        ES_TRY(check_operand(numbering->lines, test, spelt->terms[1]));
        ES_TRY(es_kg_builder_intern_test(numbering->builder, test, &predicate));
    }
    for (int i = 0; i < spelt->n_terms; i++) {
        ES_TRY(number_term(numbering, spelt->terms[i], &terms[i]));
    }
    *atom = es_wide_atom_make(predicate, terms, spelt->n_terms);
    return ES_STATUS_OK;
}

// Returns whether a term is no variable, or one that an atom of the body has.
static int is_bound(const RuleText *rule, EsNameText term) {
    for (int k = 0; k < rule->n_body && es_name_text_is_variable(term); k++) {
        const EsAtomText *atom = &rule->body[k].atom;
        for (int i = 0; i < atom->n_terms && rule->body[k].test == ES_KG_NO_TEST; i++) {
            if (!atom->terms[i].is_quoted && es_piece_equals(atom->terms[i].inside, term.inside) &&
                !is_nameless(term)) {
                return 1;
            }
        }
    }
    return !es_name_text_is_variable(term);
}

static EsStatus check_bound(const EsTextLines *lines, const RuleText *rule, const EsAtomText *atom,
                            const char *where) {
    for (int i = 0; i < atom->n_terms; i++) {
        if (!is_bound(rule, atom->terms[i])) {
            EsPiece name = atom->terms[i].whole;
            EsExcerpt excerpt;
            return ES_LINE_FAIL(lines, name.text, "the variable %s of the %s is not in the body%s",
                                es_text_excerpt(name, excerpt), where,
                                strcmp(where, "head") == 0 ? "" : ", in an atom predicate(a,b)");
        }
    }
    return ES_STATUS_OK;
}

// A variable of the head that the body does not bind would stand for every constant there is.
static EsStatus check_variables(const EsTextLines *lines, const RuleText *rule, EsPiece line) {
    int n_atoms = 0;
    for (int k = 0; k < rule->n_body; k++) {
        n_atoms += rule->body[k].test == ES_KG_NO_TEST;
    }
    if (n_atoms == 0) {
        return ES_LINE_FAIL(lines, line.text, "%s",
                            "the body has no atom but comparisons and negations");
    }
    ES_TRY(check_bound(lines, rule, &rule->head, "head"));
    for (int k = 0; k < rule->n_body; k++) {
        if (rule->body[k].test != ES_KG_NO_TEST) {
            ES_TRY(check_bound(lines, rule, &rule->body[k].atom, "comparison or negation"));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus read_rule(EsKgBuilder *builder, const EsTextLines *lines, EsPiece line) {
    RuleText spelt;
    ES_TRY(parse_rule(lines, line, &spelt));
    EsHornRule rule;
    EsWideAtom atom;
    memset(&rule, 0, sizeof rule);
    Numbering numbering = {.lines = lines, .builder = builder, .n_names = 0};
    ES_TRY(number_literal(&numbering, &spelt.head, ES_KG_NO_TEST, &atom));
    memcpy(rule.head_cells, atom.cells, sizeof rule.head_cells);
    for (int k = 0; k < spelt.n_body; k++) {
        const EsAtomText *literal = &spelt.body[k].atom;
        int n_cells = literal->n_terms > 2 ? 2 : 1;
        if (rule.n_body + n_cells > ES_HORN_MAX_BODY) {
            return ES_LINE_FAIL(lines, literal->predicate.whole.text,
                                "more than %d atoms before ->, where one of over two arguments "
                                "counts twice",
                                ES_HORN_MAX_BODY);
        }
        ES_TRY(number_literal(&numbering, literal, spelt.body[k].test, &atom));
        memcpy(&rule.body[rule.n_body], atom.cells, (size_t)n_cells * sizeof(EsAtom));
        rule.n_body += n_cells;
    }
    rule.n_variables = numbering.n_names;
    rule.line = lines->number;
    ES_TRY(check_variables(lines, &spelt, line));
    return es_kg_builder_add_rule(builder, &rule);
}

EsStatus es_kg_text_read_rules(EsKgBuilder *builder, const char *name, const char *text,
                               size_t bytes, int32_t *n_read) {
    *n_read = 0;
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsPiece line;
    int is_there;
    for (;;) {
        ES_TRY(es_text_lines_next(&lines, &line, &is_there));
        if (!is_there) {
            return ES_STATUS_OK;
        }
        if (line.text[0] == '%') {
            continue;
        }
        ES_TRY(read_rule(builder, &lines, line));
        (*n_read)++;
    }
}

#define MAX_DEPTH 1000000
// they are looked up one after the other
#define MAX_DOMAINS 10000

typedef char Name[ES_KG_MAX_NAME_BYTES + 1];

static const char *copy_name(EsPiece piece, Name name) {
    ES_ASSERT(piece.bytes < sizeof(Name));
    memcpy(name, piece.text, piece.bytes);
    name[piece.bytes] = '\0';
    return name;
}

// --- depths ---

// The queries of a split, and their numbers in the order of their atoms.
typedef struct SortedQueries {
    const EsKnowledgeGraph *graph;
    EsKgSplit split;
    int32_t *order; // owned
} SortedQueries;

static int compare_atoms(const EsKnowledgeGraph *graph, const EsAtom *x, const EsAtom *y) {
    return graph->has_wide ? es_wide_atom_compare(x, y) : es_atom_compare(x, y);
}

static int compare_queries(const void *left, const void *right, void *context) {
    const SortedQueries *sorted = context;
    const EsKnowledgeGraph *graph = sorted->graph;
    return compare_atoms(graph, es_kg_query(graph, sorted->split, *(const int32_t *)left),
                         es_kg_query(graph, sorted->split, *(const int32_t *)right));
}

static const char *copy_spelt(EsNameText spelt, Name name) {
    size_t bytes = es_name_text_copy(spelt, name, sizeof(Name) - 1);
    name[ES_MIN(bytes, sizeof(Name) - 1)] = '\0';
    return name;
}

// Quotes are part of a name from columns, and no part of one from "predicate(a,b)".
static int32_t find_constant(const EsKnowledgeGraph *graph, EsNameText spelt) {
    Name name;
    int32_t constant =
        spelt.whole.bytes < sizeof(Name) ? es_kg_constant(graph, copy_name(spelt.whole, name)) : 0;
    return constant != 0 ? constant : es_kg_constant(graph, copy_spelt(spelt, name));
}

// 0 in a field whose name the graph does not have, or not with as many arguments.
static EsStatus parse_query(const EsTextLines *lines, const EsKnowledgeGraph *graph, EsPiece *rest,
                            EsWideAtom *atom) {
    EsAtomText spelt;
    Name name;
    int32_t terms[ES_KG_MAX_ARITY];
    ES_TRY(es_text_take_atom(lines, rest, &spelt));
    int32_t predicate = es_kg_predicate(graph, copy_spelt(spelt.predicate, name));
    for (int i = 0; i < spelt.n_terms; i++) {
        terms[i] = find_constant(graph, spelt.terms[i]);
    }
    *atom = es_wide_atom_make(graph->arities[predicate] == spelt.n_terms ? predicate : 0, terms,
                              spelt.n_terms);
    return ES_STATUS_OK;
}

static EsStatus parse_depth(const EsTextLines *lines, EsPiece rest, int32_t *depth) {
    char number[16] = "", *stop = number;
    EsPiece piece = es_piece_trim(rest);
    if (piece.bytes == 0) {
        return ES_LINE_FAIL(lines, rest.text, "%s", "no depth after the atom");
    }
    long value = 0;
    if (piece.bytes < sizeof number) {
        memcpy(number, piece.text, piece.bytes);
        number[piece.bytes] = '\0';
        value = strtol(number, &stop, 10);
    }
    if (stop == number || *stop != '\0' || value < ES_KG_DEPTH_NONE || value > MAX_DEPTH) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, piece.text, "%s where a depth is expected, -1 to %d",
                            es_text_excerpt(piece, excerpt), MAX_DEPTH);
    }
    *depth = (int32_t)value;
    return ES_STATUS_OK;
}

// Compares the query at a place of the order with an atom.
static int compare_at(const SortedQueries *sorted, int32_t place, const EsAtom *atom) {
    const EsKnowledgeGraph *graph = sorted->graph;
    return compare_atoms(graph, es_kg_query(graph, sorted->split, sorted->order[place]), atom);
}

// Give every query that equals the atom its depth.
static int32_t set_depth(const SortedQueries *sorted, EsQuerySplit *split, const EsAtom *atom,
                         int32_t depth) {
    int32_t low = 0, high = split->count, n_set = 0;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (compare_at(sorted, middle, atom) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < split->count && compare_at(sorted, low, atom) == 0; low++) {
        split->depths[sorted->order[low]] = depth;
        n_set++;
    }
    return n_set;
}

static EsStatus read_depth_lines(EsTextLines *lines, const SortedQueries *sorted,
                                 EsQuerySplit *split) {
    for (;;) {
        EsPiece line;
        int is_there;
        ES_TRY(es_text_lines_next(lines, &line, &is_there));
        if (!is_there) {
            return ES_STATUS_OK;
        }
        if (line.text[0] == '%') {
            continue;
        }
        EsPiece rest = line;
        EsWideAtom atom;
        int32_t depth = ES_KG_DEPTH_ABSENT;
        ES_TRY(parse_query(lines, sorted->graph, &rest, &atom));
        ES_TRY(parse_depth(lines, rest, &depth));
        if (set_depth(sorted, split, atom.cells, depth) == 0) {
            EsExcerpt excerpt;
            EsPiece spelt = {line.text, (size_t)(rest.text - line.text)};
            return ES_LINE_FAIL(lines, line.text, "%s is not among the queries it gives depths for",
                                es_text_excerpt(spelt, excerpt));
        }
    }
}

EsStatus es_kg_text_read_depths(EsKnowledgeGraph *graph, EsKgSplit split, const char *name,
                                const char *text, size_t bytes) {
    EsQuerySplit *queries = &graph->splits[split];
    SortedQueries sorted = {graph, split, NULL};
    ES_TRY(es_allocate((size_t)queries->count * sizeof *sorted.order, (void **)&sorted.order));
    for (int32_t i = 0; i < queries->count; i++) {
        sorted.order[i] = i;
    }
    qsort_r(sorted.order, (size_t)queries->count, sizeof *sorted.order, compare_queries, &sorted);
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsStatus status = read_depth_lines(&lines, &sorted, queries);
    es_release(sorted.order);
    return status;
}

// --- domains ---

// A name in quotes, or up to the next blank.
static EsNameText take_word(EsPiece *rest) {
    EsPiece piece = es_piece_skip_blanks(*rest);
    EsNameText quoted;
    size_t bytes = 0;
    if (piece.bytes > 0 && strchr("'\"", piece.text[0]) != NULL &&
        es_text_take_quoted(&piece, "", &quoted)) {
        *rest = piece;
        return quoted;
    }
    while (bytes < piece.bytes && piece.text[bytes] != ' ' && piece.text[bytes] != '\t') {
        bytes++;
    }
    *rest = (EsPiece){piece.text + bytes, piece.bytes - bytes};
    return es_name_text_bare((EsPiece){piece.text, bytes});
}

static int32_t find_domain(const EsDomains *domains, const char *name) {
    int32_t d = domains->count;
    while (d > 0 && strcmp(domains->names[d], name) != 0) {
        d--;
    }
    return d;
}

// "predicate:domain:domain"
static EsStatus read_typing(const EsTextLines *lines, EsKnowledgeGraph *graph, EsPiece line) {
    EsPiece parts[3];
    const char *at = line.text, *end = line.text + line.bytes;
    for (int i = 0; i < 3; i++) {
        const char *colon = i < 2 ? memchr(at, ':', (size_t)(end - at)) : end;
        if (colon == NULL) {
            EsExcerpt excerpt;
            return ES_LINE_FAIL(lines, line.text,
                                "%s is neither a domain with its constants nor "
                                "predicate:domain:domain",
                                es_text_excerpt(line, excerpt));
        }
        parts[i] = (EsPiece){at, (size_t)(colon - at)};
        at = colon + 1;
        ES_TRY(es_text_check_name(lines, es_name_text_bare(parts[i]),
                                  i == 0 ? "predicate" : "domain"));
    }
    Name name;
    EsExcerpt excerpt;
    int32_t predicate = es_kg_predicate(graph, copy_name(parts[0], name));
    if (predicate == 0) {
        return ES_LINE_FAIL(lines, parts[0].text, "no fact, query or rule has the predicate %s",
                            es_text_excerpt(parts[0], excerpt));
    }
    if (graph->arities[predicate] != 2) {
        return ES_LINE_FAIL(lines, parts[0].text, "%s has %d arguments, and domains are for two",
                            es_text_excerpt(parts[0], excerpt), graph->arities[predicate]);
    }
    for (int i = 1; i < 3; i++) {
        int32_t domain = find_domain(&graph->domains, copy_name(parts[i], name));
        if (domain == 0) {
            return ES_LINE_FAIL(lines, parts[i].text, "no line above lists the domain %s",
                                es_text_excerpt(parts[i], excerpt));
        }
        graph->domains.of_argument[2 * predicate + i - 1] = domain;
    }
    return ES_STATUS_OK;
}

// "domain constant constant ..."; the caller has allocated the arrays. *text is where its name
// goes.
static EsStatus read_domain(const EsTextLines *lines, EsKnowledgeGraph *graph, EsNameText domain,
                            EsPiece rest, char **text) {
    EsDomains *domains = &graph->domains;
    ES_TRY(es_text_check_name(lines, domain, "domain"));
    Name name;
    EsExcerpt excerpt;
    if (find_domain(domains, copy_spelt(domain, name)) != 0) {
        return ES_LINE_FAIL(lines, domain.whole.text, "the domain %s is there twice",
                            es_text_excerpt(domain.inside, excerpt));
    }
    if (domains->count == MAX_DOMAINS) {
        return ES_LINE_FAIL(lines, domain.whole.text, "more than %d domains", MAX_DOMAINS);
    }
    int32_t number = ++domains->count;
    domains->names[number] = strcpy(*text, name);
    *text += strlen(name) + 1;
    int32_t end = domains->start[number];
    for (;;) {
        EsNameText word = take_word(&rest);
        if (word.whole.bytes == 0) {
            break;
        }
        ES_TRY(es_text_check_name(lines, word, "constant"));
        int32_t constant = find_constant(graph, word);
        if (constant == 0) {
            domains->n_unknown++;
            continue;
        }
        domains->members[end++] = constant;
        if (domains->of_constant[constant] == 0) {
            domains->of_constant[constant] = number;
        }
    }
    domains->start[number + 1] = end;
    return ES_STATUS_OK;
}

// Room for as many domains as there are lines and as many members as there are words.
static EsStatus allocate_domains(EsKnowledgeGraph *graph, const char *text, size_t bytes) {
    size_t n_lines = 1, n_words = 1;
    for (size_t i = 0; i < bytes; i++) {
        n_lines += text[i] == '\n';
        n_words += text[i] == ' ' || text[i] == '\t' || text[i] == '\n';
    }
    if (n_words > INT32_MAX) {
        return ES_FAIL(INPUT, "more than %d words in a file of domains", INT32_MAX);
    }
    EsDomains *domains = &graph->domains;
    size_t n_constants = (size_t)graph->n_constants, n_predicates = (size_t)graph->n_predicates;
    ES_TRY(es_allocate((n_lines + 1) * sizeof(char *), (void **)&domains->names));
    ES_TRY(es_allocate((n_lines + 2) * sizeof(int32_t), (void **)&domains->start));
    ES_TRY(es_allocate(n_words * sizeof(int32_t), (void **)&domains->members));
    ES_TRY(es_allocate((n_constants + 1) * sizeof(int32_t), (void **)&domains->of_constant));
    ES_TRY(es_allocate(2 * (n_predicates + 1) * sizeof(int32_t), (void **)&domains->of_argument));
    ES_TRY(es_allocate(bytes + 1, (void **)&domains->name_text));
    domains->names[0] = "";
    return ES_STATUS_OK;
}

EsStatus es_kg_text_read_domains(EsKnowledgeGraph *graph, const char *name, const char *text,
                                 size_t bytes) {
    ES_ASSERT(graph->domains.names == NULL);
    ES_TRY(allocate_domains(graph, text, bytes));
    char *names_end = graph->domains.name_text;
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    for (;;) {
        EsPiece line;
        int is_there;
        ES_TRY(es_text_lines_next(&lines, &line, &is_there));
        if (!is_there) {
            return ES_STATUS_OK;
        }
        if (line.text[0] == '%') {
            continue;
        }
        EsPiece rest = line;
        EsNameText first = take_word(&rest);
        ES_TRY(rest.bytes == 0 ? read_typing(&lines, graph, first.whole)
                               : read_domain(&lines, graph, first, rest, &names_end));
    }
}
