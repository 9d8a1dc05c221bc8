// Reader of rule files, a rule a line: cut into atoms, comparisons and names first, then numbered,
// variables by first appearance with the head first.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proof/graph/knowledge_text.h"
#include "proof/graph/text_line.h"

typedef struct RuleText {
    EsAtomText head;
    EsLiteralText body[ES_HORN_MAX_BODY];
    int n_body;
} RuleText;

// --- cutting ---

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

static EsPiece cut_front(EsPiece piece, size_t bytes) {
    return (EsPiece){piece.text + bytes, piece.bytes - bytes};
}

static int starts_with(EsPiece piece, const char *text) {
    return piece.bytes >= strlen(text) && memcmp(piece.text, text, strlen(text)) == 0;
}

static int starts_with_arrow(EsPiece piece) { return starts_with(piece, "->"); }

// The comparison that stands at the front, the longest that fits.
static EsKgTest test_at(EsPiece piece) {
    EsKgTest found = ES_KG_NO_TEST;
    for (int test = ES_KG_NOT_EQUAL; test < ES_KG_NEGATION; test++) {
        if (starts_with(piece, es_kg_test_names[test]) &&
            strlen(es_kg_test_names[test]) > strlen(es_kg_test_names[found])) {
            found = (EsKgTest)test;
        }
    }
    return found;
}

static int is_any_of(char byte, const char *bytes) { return strchr(bytes, byte) != NULL; }

// Returns whether an atom stands at the front rather than a comparison: a name with an opening
// bracket behind it.
static int is_atom_at(EsPiece piece) {
    EsNameText name;
    EsPiece rest = piece;
    if (!(is_any_of(piece.text[0], "'\"") && es_text_take_quoted(&rest, "(<>!", &name))) {
        while (rest.bytes > 0 && !is_any_of(rest.text[0], " \t,()") && !starts_with_arrow(rest)) {
            rest = cut_front(rest, 1);
        }
    }
    rest = es_piece_skip_blanks(rest);
    return rest.bytes > 0 && rest.text[0] == '(';
}

// Take one side of a comparison: a name in quotes, or up to a blank, comma or operator. A period at
// the end of the line is no part of it.
static EsStatus take_operand(const EsTextLines *lines, EsPiece *rest, EsNameText *name) {
    *rest = es_piece_skip_blanks(*rest);
    if (rest->bytes > 0 && is_any_of(rest->text[0], "'\"") &&
        es_text_take_quoted(rest, "<>!,-.", name)) {
        return es_text_check_name(lines, *name, "term");
    }
    EsPiece bare = {rest->text, 0};
    while (rest->bytes > 0 && !is_any_of(rest->text[0], " \t,<>!()") && !starts_with_arrow(*rest)) {
        *rest = cut_front(*rest, 1);
        bare.bytes++;
    }
    if (rest->bytes == 0 && bare.bytes > 0 && bare.text[bare.bytes - 1] == '.') {
        *rest = (EsPiece){rest->text - 1, 1};
        bare.bytes--;
    }
    *name = es_name_text_bare(bare);
    return es_text_check_name(lines, *name, "term of a comparison");
}

static EsStatus take_comparison(const EsTextLines *lines, EsPiece *rest, EsLiteralText *literal) {
    EsPiece begin = *rest;
    EsExcerpt excerpt;
    ES_TRY(take_operand(lines, rest, &literal->atom.a));
    *rest = es_piece_skip_blanks(*rest);
    literal->test = test_at(*rest);
    if (literal->test == ES_KG_NO_TEST) {
        return ES_LINE_FAIL(lines, begin.text,
                            "%s is neither an atom predicate(a,b) nor a comparison by !=, <, <=, > "
                            "or >=",
                            es_text_excerpt(begin, excerpt));
    }
    *rest = cut_front(*rest, strlen(es_kg_test_names[literal->test]));
    literal->atom.predicate = es_name_text_bare((EsPiece){begin.text, 0});
    return take_operand(lines, rest, &literal->atom.b);
}

// Take "not" or \+ off the front of an atom; 0 is returned where neither stands.
static int take_negation(EsPiece *rest) {
    int is_word = starts_with(*rest, "not") && rest->bytes > 3 && is_any_of(rest->text[3], " \t");
    if (!is_word && !starts_with(*rest, "\\+")) {
        return 0;
    }
    EsPiece atom = es_piece_skip_blanks(cut_front(*rest, is_word ? 3 : 2));
    if (atom.bytes == 0 || test_at(atom) != ES_KG_NO_TEST || !is_atom_at(atom)) {
        return 0;
    }
    *rest = atom;
    return 1;
}

EsStatus es_text_take_literal(const EsTextLines *lines, EsPiece *rest, EsLiteralText *literal) {
    *rest = es_piece_skip_blanks(*rest);
    literal->test = ES_KG_NO_TEST;
    if (rest->bytes > 0 && is_any_of(rest->text[0], ",()")) {
        return ES_LINE_FAIL(lines, rest->text, "'%c' where an atom is expected", rest->text[0]);
    }
    if (rest->bytes > 0 && take_negation(rest)) {
        literal->test = ES_KG_NEGATION;
        return es_text_take_atom(lines, rest, &literal->atom);
    }
    return rest->bytes == 0 || is_atom_at(*rest) ? es_text_take_atom(lines, rest, &literal->atom)
                                                 : take_comparison(lines, rest, literal);
}

// Take "b1(x,y), b2(y,z) ->" from the front of *rest.
static EsStatus parse_body(const EsTextLines *lines, EsPiece *rest, RuleText *rule) {
    *rest = es_piece_skip_blanks(*rest);
    if (starts_with_arrow(*rest)) {
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
        if (starts_with_arrow(*rest)) {
            *rest = cut_front(*rest, 2);
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
        *rest = es_piece_skip_blanks(cut_front(*rest, 1));
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

// --- numbering ---

typedef struct Numbering {
    const EsTextLines *lines;
    EsKgBuilder *builder;
    EsPiece names[ES_HORN_MAX_VARIABLES]; // of variables
    int n_names;
} Numbering;

static EsStatus intern(EsKgBuilder *builder, EsKgNameKind kind, EsNameText name, int32_t *number) {
    char text[ES_KG_MAX_NAME_BYTES];
    size_t bytes = es_name_text_copy(name, text, sizeof text);
    return es_kg_builder_intern(builder, kind, text, bytes, number);
}

static int is_variable(EsNameText name) {
    return !name.is_quoted && es_kg_looks_variable(name.inside.text, name.inside.bytes);
}

static EsStatus number_term(Numbering *numbering, EsNameText name, int32_t *term) {
    if (!is_variable(name)) {
        return intern(numbering->builder, ES_KG_CONSTANT, name, term);
    }
    EsPiece piece = name.inside;
    int is_nameless = piece.bytes == 1 && piece.text[0] == '_';
    int i = 0;
    while (i < numbering->n_names &&
           (is_nameless || !es_piece_equals(numbering->names[i], piece))) {
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
    return is_variable(name) ? ES_STATUS_OK : es_text_check_operand(lines, test, name);
}

static EsStatus number_literal(Numbering *numbering, const EsAtomText *spelt, EsKgTest test,
                               EsAtom *atom) {
    char text[ES_KG_MAX_NAME_BYTES];
    if (test == ES_KG_NEGATION) {
        size_t bytes = es_name_text_copy(spelt->predicate, text, sizeof text);
        ES_TRY(es_kg_builder_intern_negation(numbering->builder, text, bytes, &atom->predicate));
        ES_TRY(number_term(numbering, spelt->a, &atom->a));
        return number_term(numbering, spelt->b, &atom->b);
    }
    if (test == ES_KG_NO_TEST) {
        ES_TRY(intern(numbering->builder, ES_KG_PREDICATE, spelt->predicate, &atom->predicate));
    } else {
        ES_TRY(check_operand(numbering->lines, test, spelt->a));
        ES_TRY(check_operand(numbering->lines, test, spelt->b));
        ES_TRY(es_kg_builder_intern_test(numbering->builder, test, &atom->predicate));
    }
    ES_TRY(number_term(numbering, spelt->a, &atom->a));
    return number_term(numbering, spelt->b, &atom->b);
}

// Returns whether a term is a constant or a variable that an atom of the body has.
static int is_bound(const EsHornRule *rule, const RuleText *spelt, int32_t term) {
    for (int k = 0; k < rule->n_body && term < 0; k++) {
        if (spelt->body[k].test == ES_KG_NO_TEST &&
            (rule->body[k].a == term || rule->body[k].b == term)) {
            return 1;
        }
    }
    return term >= 0;
}

static EsStatus check_bound(const EsTextLines *lines, const EsHornRule *rule, const RuleText *spelt,
                            EsAtom atom, const EsAtomText *names, const char *where) {
    int is_a_bound = is_bound(rule, spelt, atom.a);
    if (is_a_bound && is_bound(rule, spelt, atom.b)) {
        return ES_STATUS_OK;
    }
    EsPiece name = is_a_bound ? names->b.whole : names->a.whole;
    EsExcerpt excerpt;
    return ES_LINE_FAIL(lines, name.text, "the variable %s of the %s is not in the body%s",
                        es_text_excerpt(name, excerpt), where,
                        strcmp(where, "head") == 0 ? "" : ", in an atom predicate(a,b)");
}

// A variable of the head that the body does not bind would stand for every constant there is.
static EsStatus check_variables(const EsTextLines *lines, const EsHornRule *rule,
                                const RuleText *spelt, EsPiece line) {
    int n_atoms = 0;
    for (int k = 0; k < spelt->n_body; k++) {
        n_atoms += spelt->body[k].test == ES_KG_NO_TEST;
    }
    if (n_atoms == 0) {
        return ES_LINE_FAIL(lines, line.text, "%s",
                            "the body has no atom but comparisons and negations");
    }
    ES_TRY(check_bound(lines, rule, spelt, rule->head, &spelt->head, "head"));
    for (int k = 0; k < rule->n_body; k++) {
        ES_TRY(check_bound(lines, rule, spelt, rule->body[k], &spelt->body[k].atom,
                           "comparison or negation"));
    }
    return ES_STATUS_OK;
}

static EsStatus read_rule(EsKgBuilder *builder, const EsTextLines *lines, EsPiece line) {
    RuleText spelt;
    ES_TRY(parse_rule(lines, line, &spelt));
    EsHornRule rule;
    memset(&rule, 0, sizeof rule);
    Numbering numbering = {.lines = lines, .builder = builder, .n_names = 0};
    ES_TRY(number_literal(&numbering, &spelt.head, ES_KG_NO_TEST, &rule.head));
    for (int k = 0; k < spelt.n_body; k++) {
        ES_TRY(number_literal(&numbering, &spelt.body[k].atom, spelt.body[k].test, &rule.body[k]));
    }
    rule.n_body = spelt.n_body;
    rule.n_variables = numbering.n_names;
    rule.line = lines->number;
    ES_TRY(check_variables(lines, &rule, &spelt, line));
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
