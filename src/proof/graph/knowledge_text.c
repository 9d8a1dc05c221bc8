// Readers of one text each, line by line: triples and rules go into a builder, where a rule's
// variables get numbers by first appearance; depths and domains go into a finished graph, whose
// names they refer to.
#include "proof/graph/knowledge_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/graph/text_line.h"

static EsStatus intern(EsKgBuilder *builder, EsKgNameKind kind, EsPiece name, int32_t *number) {
    return es_kg_builder_intern(builder, kind, name.text, name.bytes, number);
}

// --- triples ---

// "predicate(a,b)."
static EsStatus parse_fact(const EsTextLines *lines, EsPiece line, EsAtomText *atom) {
    EsPiece rest = line;
    ES_TRY(es_text_take_atom(lines, &rest, atom));
    atom->a = es_piece_strip_quotes(atom->a);
    atom->b = es_piece_strip_quotes(atom->b);
    ES_TRY(es_text_check_name(lines, atom->a, "first argument"));
    ES_TRY(es_text_check_name(lines, atom->b, "second argument"));
    rest = es_piece_skip_blanks(rest);
    if (rest.bytes > 1 || (rest.bytes == 1 && rest.text[0] != '.')) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, rest.text, "%s after the atom; only a period may follow",
                            es_text_excerpt(rest, excerpt));
    }
    return ES_STATUS_OK;
}

// Names in columns may hold blanks, commas and brackets.
static EsStatus check_column(const EsTextLines *lines, EsPiece column, const char *what) {
    if (column.bytes == 0 || column.bytes > ES_KG_MAX_NAME_BYTES) {
        return ES_LINE_FAIL(lines, column.text, "the %s has a name of %zu bytes, expected 1 to %d",
                            what, column.bytes, ES_KG_MAX_NAME_BYTES);
    }
    return ES_STATUS_OK;
}

// "head TAB relation TAB tail"
static EsStatus parse_columns(const EsTextLines *lines, EsPiece line, EsAtomText *atom) {
    EsPiece columns[3] = {{line.text, 0}, {line.text, 0}, {line.text, 0}};
    int n_columns = 0;
    const char *end = line.text + line.bytes;
    for (const char *at = line.text; at <= end; n_columns++) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        const char *stop = tab != NULL ? tab : end;
        if (n_columns < 3) {
            columns[n_columns] = (EsPiece){at, (size_t)(stop - at)};
        }
        at = stop + 1;
    }
    if (n_columns != 3) {
        return ES_LINE_FAIL(lines, line.text,
                            "%d column%s, expected 3 with tabs between them: head, relation, tail",
                            n_columns, n_columns == 1 ? "" : "s");
    }
    *atom = (EsAtomText){columns[1], columns[0], columns[2]};
    ES_TRY(check_column(lines, columns[0], "head"));
    ES_TRY(check_column(lines, columns[1], "relation"));
    return check_column(lines, columns[2], "tail");
}

// Checks whether the first line that holds an atom has a tab.
static EsStatus find_format(const char *name, const char *text, size_t bytes, int *has_columns) {
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsPiece line;
    int is_there;
    *has_columns = 0;
    do {
        ES_TRY(es_text_lines_next(&lines, &line, &is_there));
    } while (is_there && line.text[0] == '%');
    *has_columns = is_there && memchr(line.text, '\t', line.bytes) != NULL;
    return ES_STATUS_OK;
}

EsStatus es_kg_text_read_triples(EsKgBuilder *builder, EsKgSplit split, const char *name,
                                 const char *text, size_t bytes, int32_t *n_read) {
    *n_read = 0;
    int has_columns, is_there;
    ES_TRY(find_format(name, text, bytes, &has_columns));
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsPiece line;
    for (;;) {
        ES_TRY(es_text_lines_next(&lines, &line, &is_there));
        if (!is_there) {
            return ES_STATUS_OK;
        }
        if (!has_columns && line.text[0] == '%') {
            continue;
        }
        EsAtomText spelt;
        ES_TRY(has_columns ? parse_columns(&lines, line, &spelt)
                           : parse_fact(&lines, line, &spelt));
        EsAtom atom;
        ES_TRY(intern(builder, ES_KG_PREDICATE, spelt.predicate, &atom.predicate));
        ES_TRY(intern(builder, ES_KG_CONSTANT, spelt.a, &atom.a));
        ES_TRY(intern(builder, ES_KG_CONSTANT, spelt.b, &atom.b));
        ES_TRY(es_kg_builder_add_query(builder, split, atom));
        if (split == ES_KG_SPLIT_TRAIN) {
            ES_TRY(es_kg_builder_add_fact(builder, atom));
        }
        (*n_read)++;
    }
}

// --- rules ---

typedef struct RuleText {
    EsAtomText head, body[ES_HORN_MAX_BODY];
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

static int starts_with_arrow(EsPiece piece) {
    return piece.bytes >= 2 && piece.text[0] == '-' && piece.text[1] == '>';
}

// Take "b1(x,y), b2(y,z) ->" from the front of *rest.
static EsStatus parse_body(const EsTextLines *lines, EsPiece *rest, RuleText *rule) {
    *rest = es_piece_skip_blanks(*rest);
    if (starts_with_arrow(*rest)) {
        return ES_LINE_FAIL(lines, rest->text, "%s", "the rule has no body before ->");
    }
    for (;;) {
        EsAtomText atom;
        const char *begin = es_piece_skip_blanks(*rest).text;
        ES_TRY(es_text_take_atom(lines, rest, &atom));
        if (rule->n_body == ES_HORN_MAX_BODY) {
            return ES_LINE_FAIL(lines, begin, "more than %d atoms before ->", ES_HORN_MAX_BODY);
        }
        rule->body[rule->n_body++] = atom;
        *rest = es_piece_skip_blanks(*rest);
        if (starts_with_arrow(*rest)) {
            *rest = (EsPiece){rest->text + 2, rest->bytes - 2};
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
        *rest = es_piece_skip_blanks((EsPiece){comma + 1, rest->bytes - 1});
        if (rest->bytes == 0 || starts_with_arrow(*rest)) {
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

typedef struct Variables {
    EsPiece names[ES_HORN_MAX_VARIABLES];
    int count;
} Variables;

static EsStatus number_variable(const EsTextLines *lines, Variables *variables, EsPiece name,
                                int32_t *term) {
    if (name.text[0] == '"' || name.text[0] == '\'') {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, name.text, "%s is quoted; a rule has variables only",
                            es_text_excerpt(name, excerpt));
    }
    int i = 0;
    while (i < variables->count && !es_piece_equals(variables->names[i], name)) {
        i++;
    }
    if (i == variables->count) {
        ES_ASSERT(i < ES_HORN_MAX_VARIABLES);
        variables->names[variables->count++] = name;
    }
    *term = -(i + 1);
    return ES_STATUS_OK;
}

static EsStatus number_atom(const EsTextLines *lines, EsKgBuilder *builder, Variables *variables,
                            const EsAtomText *spelt, EsAtom *atom) {
    ES_TRY(intern(builder, ES_KG_PREDICATE, spelt->predicate, &atom->predicate));
    ES_TRY(number_variable(lines, variables, spelt->a, &atom->a));
    return number_variable(lines, variables, spelt->b, &atom->b);
}

// A head variable that the body does not bind would stand for every constant there is.
static EsStatus check_head(const EsTextLines *lines, const EsHornRule *rule,
                           const RuleText *spelt) {
    int is_bound[2] = {0, 0};
    for (int k = 0; k < rule->n_body; k++) {
        is_bound[0] |= rule->body[k].a == rule->head.a || rule->body[k].b == rule->head.a;
        is_bound[1] |= rule->body[k].a == rule->head.b || rule->body[k].b == rule->head.b;
    }
    if (!is_bound[0] || !is_bound[1]) {
        EsPiece name = is_bound[0] ? spelt->head.b : spelt->head.a;
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, name.text, "the variable %s of the head is not in the body",
                            es_text_excerpt(name, excerpt));
    }
    return ES_STATUS_OK;
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
        RuleText spelt;
        ES_TRY(parse_rule(&lines, line, &spelt));
        EsHornRule rule;
        memset(&rule, 0, sizeof rule);
        Variables variables = {.count = 0};
        ES_TRY(number_atom(&lines, builder, &variables, &spelt.head, &rule.head));
        for (int k = 0; k < spelt.n_body; k++) {
            ES_TRY(number_atom(&lines, builder, &variables, &spelt.body[k], &rule.body[k]));
        }
        rule.n_body = spelt.n_body;
        rule.n_variables = variables.count;
        rule.line = lines.number;
        ES_TRY(check_head(&lines, &rule, &spelt));
        ES_TRY(es_kg_builder_add_rule(builder, &rule));
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

static int compare_queries(const void *left, const void *right, void *context) {
    const EsAtom *atoms = context;
    return es_atom_compare(&atoms[*(const int32_t *)left], &atoms[*(const int32_t *)right]);
}

// Quotes are part of a name from columns, and no part of one from "predicate(a,b)".
static int32_t find_constant(const EsKnowledgeGraph *graph, EsPiece piece) {
    Name name;
    int32_t constant = es_kg_constant(graph, copy_name(piece, name));
    return constant != 0 ? constant
                         : es_kg_constant(graph, copy_name(es_piece_strip_quotes(piece), name));
}

// 0 in a field whose name the graph does not have.
static EsStatus parse_query(const EsTextLines *lines, const EsKnowledgeGraph *graph, EsPiece *rest,
                            EsAtom *atom) {
    EsAtomText spelt;
    Name name;
    ES_TRY(es_text_take_atom(lines, rest, &spelt));
    atom->predicate = es_kg_predicate(graph, copy_name(spelt.predicate, name));
    atom->a = find_constant(graph, spelt.a);
    atom->b = find_constant(graph, spelt.b);
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

// Give every query that equals the atom its depth; `order` lists the queries by atom.
static int32_t set_depth(EsQuerySplit *split, const int32_t *order, EsAtom atom, int32_t depth) {
    int32_t low = 0, high = split->count, n_set = 0;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (es_atom_compare(&split->atoms[order[middle]], &atom) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < split->count && es_atom_compare(&split->atoms[order[low]], &atom) == 0; low++) {
        split->depths[order[low]] = depth;
        n_set++;
    }
    return n_set;
}

static EsStatus read_depth_lines(EsTextLines *lines, const EsKnowledgeGraph *graph,
                                 EsQuerySplit *split, const int32_t *order) {
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
        EsAtom atom;
        int32_t depth = ES_KG_DEPTH_ABSENT;
        ES_TRY(parse_query(lines, graph, &rest, &atom));
        ES_TRY(parse_depth(lines, rest, &depth));
        if (set_depth(split, order, atom, depth) == 0) {
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
    int32_t *order = NULL;
    ES_TRY(es_allocate((size_t)queries->count * sizeof *order, (void **)&order));
    for (int32_t i = 0; i < queries->count; i++) {
        order[i] = i;
    }
    qsort_r(order, (size_t)queries->count, sizeof *order, compare_queries, queries->atoms);
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsStatus status = read_depth_lines(&lines, graph, queries, order);
    es_release(order);
    return status;
}

// --- domains ---

static EsPiece take_word(EsPiece *rest) {
    EsPiece piece = es_piece_skip_blanks(*rest);
    size_t bytes = 0;
    while (bytes < piece.bytes && piece.text[bytes] != ' ' && piece.text[bytes] != '\t') {
        bytes++;
    }
    *rest = (EsPiece){piece.text + bytes, piece.bytes - bytes};
    return (EsPiece){piece.text, bytes};
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
        ES_TRY(es_text_check_name(lines, parts[i], i == 0 ? "predicate" : "domain"));
    }
    Name name;
    EsExcerpt excerpt;
    int32_t predicate = es_kg_predicate(graph, copy_name(parts[0], name));
    if (predicate == 0) {
        return ES_LINE_FAIL(lines, parts[0].text, "no fact, query or rule has the predicate %s",
                            es_text_excerpt(parts[0], excerpt));
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
static EsStatus read_domain(const EsTextLines *lines, EsKnowledgeGraph *graph, EsPiece domain,
                            EsPiece rest, char **text) {
    EsDomains *domains = &graph->domains;
    ES_TRY(es_text_check_name(lines, domain, "domain"));
    Name name;
    EsExcerpt excerpt;
    if (find_domain(domains, copy_name(domain, name)) != 0) {
        return ES_LINE_FAIL(lines, domain.text, "the domain %s is there twice",
                            es_text_excerpt(domain, excerpt));
    }
    if (domains->count == MAX_DOMAINS) {
        return ES_LINE_FAIL(lines, domain.text, "more than %d domains", MAX_DOMAINS);
    }
    int32_t number = ++domains->count;
    domains->names[number] = strcpy(*text, name);
    *text += domain.bytes + 1;
    int32_t end = domains->start[number];
    for (;;) {
        EsPiece word = take_word(&rest);
        if (word.bytes == 0) {
            break;
        }
        ES_TRY(es_text_check_name(lines, word, "constant"));
        int32_t constant = es_kg_constant(graph, copy_name(word, name));
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
        EsPiece rest = line, first = take_word(&rest);
        ES_TRY(rest.bytes == 0 ? read_typing(&lines, graph, first)
                               : read_domain(&lines, graph, first, rest, &names_end));
    }
}
