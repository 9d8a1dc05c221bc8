// Triples and rules.
#include "proof/graph/knowledge_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

// Whether the first line that holds an atom has a tab.
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
