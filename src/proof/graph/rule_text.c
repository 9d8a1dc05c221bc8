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

static int is_variable(EsNameText name) {
    return !name.is_quoted && es_kg_looks_variable(name.inside.text, name.inside.bytes);
}

// Returns whether nothing more of an atom can follow here.
static int ends_atom(EsPiece piece) {
    return piece.bytes == 0 || piece.text[0] == ',' || starts_with_arrow(piece) ||
           (piece.bytes == 1 && piece.text[0] == '.');
}

// Take a comparison, or a predicate without arguments.
static EsStatus take_bracketless(const EsTextLines *lines, EsPiece *rest, EsLiteralText *literal) {
    EsPiece begin = *rest;
    EsExcerpt excerpt;
    ES_TRY(take_operand(lines, rest, &literal->atom.terms[0]));
    *rest = es_piece_skip_blanks(*rest);
    literal->test = test_at(*rest);
    if (literal->test == ES_KG_NO_TEST && ends_atom(*rest) &&
        !is_variable(literal->atom.terms[0])) {
        // a predicate without arguments
        literal->atom.predicate = literal->atom.terms[0];
        literal->atom.n_terms = 0;
        return es_text_check_predicate(lines, literal->atom.predicate);
    }
    if (literal->test == ES_KG_NO_TEST) {
        return ES_LINE_FAIL(lines, begin.text,
                            "%s is neither an atom predicate(a,b) nor a comparison by !=, <, <=, > "
                            "or >=",
                            es_text_excerpt(begin, excerpt));
    }
    *rest = cut_front(*rest, strlen(es_kg_test_names[literal->test]));
    literal->atom.predicate = es_name_text_bare((EsPiece){begin.text, 0});
    literal->atom.n_terms = 2;
    return take_operand(lines, rest, &literal->atom.terms[1]);
}

// Returns whether a predicate without arguments stands at the front.
static int is_bare_atom_at(EsPiece piece) {
    EsNameText name = es_name_text_bare((EsPiece){piece.text, 0});
    if (is_any_of(piece.text[0], "'\"") && es_text_take_quoted(&piece, ",-.", &name)) {
        return ends_atom(es_piece_skip_blanks(piece));
    }
    while (piece.bytes > 0 && !is_any_of(piece.text[0], " \t,<>!()") && !starts_with_arrow(piece)) {
        piece = cut_front(piece, 1);
        name.inside.bytes++;
    }
    return name.inside.bytes > 0 && !is_variable(name) && ends_atom(es_piece_skip_blanks(piece));
}

// Take "not" or \+ off the front of an atom; 0 is returned where neither stands.
static int take_negation(EsPiece *rest) {
    int is_word = starts_with(*rest, "not") && rest->bytes > 3 && is_any_of(rest->text[3], " \t");
    if (!is_word && !starts_with(*rest, "\\+")) {
        return 0;
    }
    EsPiece atom = es_piece_skip_blanks(cut_front(*rest, is_word ? 3 : 2));
    if (atom.bytes == 0 || test_at(atom) != ES_KG_NO_TEST ||
        (!is_atom_at(atom) && !is_bare_atom_at(atom))) {
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
        ES_TRY(is_atom_at(*rest) ? es_text_take_atom(lines, rest, &literal->atom)
                                 : take_bracketless(lines, rest, literal));
        literal->test = ES_KG_NEGATION;
        return ES_STATUS_OK;
    }
    return rest->bytes == 0 || is_atom_at(*rest) ? es_text_take_atom(lines, rest, &literal->atom)
                                                 : take_bracketless(lines, rest, literal);
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

// A plain _ is a new variable each time.
static int is_nameless(EsNameText name) {
    return !name.is_quoted && name.inside.bytes == 1 && name.inside.text[0] == '_';
}

static EsStatus number_term(Numbering *numbering, EsNameText name, int32_t *term) {
    if (!is_variable(name)) {
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
    return is_variable(name) ? ES_STATUS_OK : es_text_check_operand(lines, test, name);
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
    for (int k = 0; k < rule->n_body && is_variable(term); k++) {
        const EsAtomText *atom = &rule->body[k].atom;
        for (int i = 0; i < atom->n_terms && rule->body[k].test == ES_KG_NO_TEST; i++) {
            if (!atom->terms[i].is_quoted && es_piece_equals(atom->terms[i].inside, term.inside) &&
                !is_nameless(term)) {
                return 1;
            }
        }
    }
    return !is_variable(term);
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
