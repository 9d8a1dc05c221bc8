// A clause is found first, from its beginning to the period that ends it, and then read; for one
// that cannot be read as a fact or rule the first reason is kept, which is an error, or the clause
// is passed over as a whole.
#include "proof/graph/prolog_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "proof/graph/knowledge_text.h"
#include "proof/graph/text_line.h"

typedef struct Reader {
    const char *name, *text, *end;
    const char *at;
    const char *counted; // up to here the lines are counted
    int line;            // at `counted`, from 1
    // why the clause at hand cannot be read, NULL: it can
    const char *reason;
    const char *reason_at;
} Reader;

// A name or variable with its quotes and escapes gone.
typedef struct Term {
    const char *begin;               // in the text that is read
    char text[ES_KG_MAX_NAME_BYTES]; // as much of it as fits
    size_t bytes;                    // all of it
    int is_variable;
} Term;

// An atom, a comparison of two terms, or integer(X), which says no more than comparisons do.
typedef struct Literal {
    Term predicate;
    Term terms[ES_KG_MAX_ARITY];
    int n_terms;
    EsKgTest test;
    int is_integer_check;
} Literal;

// The body's atoms and comparisons, each of these with an integer(X) of both its sides.
#define MAX_LITERALS (3 * ES_HORN_MAX_BODY)

// head and body
typedef struct Clause {
    Literal literals[1 + MAX_LITERALS];
    int n_literals;
} Clause;

// Keep the first reason why a clause cannot be read. Returns 0.
static int refuse(Reader *reader, const char *at, const char *reason) {
    if (reader->reason == NULL) {
        reader->reason = reason;
        reader->reason_at = at;
    }
    return 0;
}

// --- where ---

static int line_of(Reader *reader, const char *position) {
    const char *from = position >= reader->counted ? reader->counted : reader->text;
    int line = position >= reader->counted ? reader->line : 1;
    for (const char *byte = from; byte < position; byte++) {
        line += *byte == '\n';
    }
    reader->counted = position;
    reader->line = line;
    return line;
}

static size_t column_of(const Reader *reader, const char *position) {
    const char *begin = position;
    while (begin > reader->text && begin[-1] != '\n') {
        begin--;
    }
    return (size_t)(position - begin) + 1;
}

#define FAIL_AT(reader, position, format, ...)                                                     \
    ES_FAIL(INPUT, "%s:%d:%zu: " format, (reader)->name, line_of(reader, position),                \
            column_of(reader, position), __VA_ARGS__)

// --- clauses ---

static int is_quote(char byte) { return byte == '"' || byte == '\'' || byte == '`'; }

// Past a comment that begins here; *is_there is 0 when none does.
static EsStatus skip_comment(Reader *reader, const char **at, const char *end, int *is_there) {
    const char *begin = *at;
    *is_there = 1;
    if (*begin == '%') {
        const char *feed = memchr(begin, '\n', (size_t)(end - begin));
        *at = feed != NULL ? feed : end;
        return ES_STATUS_OK;
    }
    if (end - begin >= 2 && begin[0] == '/' && begin[1] == '*') {
        for (const char *byte = begin + 2; byte + 1 < end; byte++) {
            if (byte[0] == '*' && byte[1] == '/') {
                *at = byte + 2;
                return ES_STATUS_OK;
            }
        }
        return FAIL_AT(reader, begin, "%s", "the comment is never closed");
    }
    *is_there = 0;
    return ES_STATUS_OK;
}

// Past blanks and comments.
static EsStatus skip_blanks(Reader *reader, const char **at, const char *end) {
    int goes_on = 1;
    while (*at < end && goes_on) {
        if (isspace((unsigned char)**at)) {
            (*at)++;
        } else {
            ES_TRY(skip_comment(reader, at, end, &goes_on));
        }
    }
    return ES_STATUS_OK;
}

// Past a quoted name that begins here.
static EsStatus skip_quoted(Reader *reader, const char **at, const char *end) {
    const char *begin = *at;
    for (const char *byte = begin + 1; byte < end; byte++) {
        if (*byte == '\\' && byte + 1 < end) {
            byte++;
        } else if (*byte == *begin && byte + 1 < end && byte[1] == *begin) {
            byte++;
        } else if (*byte == *begin) {
            *at = byte + 1;
            return ES_STATUS_OK;
        }
    }
    return FAIL_AT(reader, begin, "%s", "the quote is never closed");
}

static int is_name_byte(char byte) {
    return isalnum((unsigned char)byte) || byte == '_' || (byte & '\x80') != 0;
}

// Returns whether 0'c, the code of a character, begins here.
static int is_code(const Reader *reader, const char *at) {
    return at[0] == '0' && reader->end - at > 2 && at[1] == '\'' &&
           (at == reader->text || !is_name_byte(at[-1]));
}

// Returns whether the period here ends a clause.
static int is_end(const Reader *reader, const char *at) {
    return *at == '.' && (at + 1 == reader->end || isspace((unsigned char)at[1]) || at[1] == '%');
}

// The period that ends the clause at reader->at.
static EsStatus find_end(Reader *reader, const char **period) {
    const char *at = reader->at;
    while (at < reader->end) {
        int is_comment;
        ES_TRY(skip_comment(reader, &at, reader->end, &is_comment));
        if (is_comment) {
            continue;
        }
        if (is_code(reader, at)) {
            at += ES_MIN(at[2] == '\\' || at[2] == '\'' ? 4 : 3, reader->end - at);
        } else if (is_quote(*at)) {
            ES_TRY(skip_quoted(reader, &at, reader->end));
        } else if (is_end(reader, at)) {
            *period = at;
            return ES_STATUS_OK;
        } else {
            at++;
        }
    }
    return FAIL_AT(reader, reader->at, "%s", "no period ends the clause that begins here");
}

// --- terms ---

// Take the quotes off; 0 when it holds bytes that a name cannot.
static int unquote(const char *begin, const char *end, Term *term) {
    term->bytes = 0;
    for (const char *byte = begin + 1; byte < end - 1; byte++) {
        if (*byte == '\\' && byte + 2 < end && (byte[1] == '\\' || is_quote(byte[1]))) {
            byte++;
        } else if (*byte == '\\' || *byte == '\n') {
            return 0;
        } else if (*byte == *begin) {
            byte++; // the first of two
        }
        if (term->bytes < sizeof term->text) {
            term->text[term->bytes] = *byte;
        }
        term->bytes++;
    }
    return term->bytes > 0;
}

// Take a name, number or variable; *is_read is 0 when something else stands here.
static EsStatus take_term(Reader *reader, const char **at, const char *end, Term *term,
                          int *is_read) {
    ES_TRY(skip_blanks(reader, at, end));
    const char *begin = *at;
    term->begin = begin;
    term->is_variable = 0;
    *is_read = 0;
    if (begin == end) {
        return ES_STATUS_OK;
    }
    if (is_quote(*begin)) {
        ES_TRY(skip_quoted(reader, at, end));
        *is_read = unquote(begin, *at, term);
        return ES_STATUS_OK;
    }
    const char *stop = begin + (*begin == '-' ? 1 : 0);
    int is_number = stop < end && isdigit((unsigned char)*stop);
    // a decimal point has a digit behind it, the period of a clause has not
    while (stop < end && (is_name_byte(*stop) || (is_number && *stop == '.' && stop + 1 < end &&
                                                  isdigit((unsigned char)stop[1])))) {
        stop++;
    }
    term->bytes = (size_t)(stop - begin);
    *is_read = term->bytes > (*begin == '-');
    if (*is_read) {
        memcpy(term->text, begin, ES_MIN(term->bytes, sizeof term->text));
        term->is_variable = isupper((unsigned char)*begin) || *begin == '_';
        *at = stop;
    }
    return ES_STATUS_OK;
}

// The comparison that stands here and its bytes; inequality as any of \= \== and dif(X,Y).
static EsKgTest test_at(const char *at, const char *end, size_t *bytes) {
    static const struct {
        const char *text;
        EsKgTest test;
    } tests[] = {{"\\==", ES_KG_NOT_EQUAL},   {"\\=", ES_KG_NOT_EQUAL}, {"=<", ES_KG_LESS_EQUAL},
                 {">=", ES_KG_GREATER_EQUAL}, {"<", ES_KG_LESS},        {">", ES_KG_GREATER}};
    for (size_t i = 0; i < ES_COUNT_OF(tests); i++) {
        *bytes = strlen(tests[i].text);
        // =\= and other operators begin alike
        if ((size_t)(end - at) >= *bytes && memcmp(at, tests[i].text, *bytes) == 0 &&
            strchr("=<>\\@:-+*/^~?&#", at + *bytes < end ? at[*bytes] : ' ') == NULL) {
            return tests[i].test;
        }
    }
    return ES_KG_NO_TEST;
}

static int is_named(const Term *term, const char *name) {
    return term->bytes == strlen(name) && memcmp(term->text, name, term->bytes) == 0;
}

// Take the arguments; *at is behind the opening bracket.
static EsStatus take_arguments(Reader *reader, const char **at, const char *end, Literal *literal,
                               int *is_read) {
    int goes_on = 1;
    while (goes_on) {
        if (literal->n_terms == ES_KG_MAX_ARITY) {
            *is_read = refuse(reader, *at, "a predicate of more than 4 arguments");
            return ES_STATUS_OK;
        }
        Term *term = &literal->terms[literal->n_terms];
        ES_TRY(take_term(reader, at, end, term, is_read));
        ES_TRY(skip_blanks(reader, at, end));
        char byte = *at < end ? **at : ' ';
        if (!*is_read || (byte != ',' && byte != ')')) {
            *is_read =
                refuse(reader, term->begin, "an argument that is no name, number or variable");
            return ES_STATUS_OK;
        }
        literal->n_terms++;
        (*at)++;
        goes_on = byte == ',';
    }
    literal->is_integer_check = literal->n_terms == 1 && is_named(&literal->predicate, "integer");
    if (literal->n_terms == 2 && is_named(&literal->predicate, "dif")) {
        literal->test = ES_KG_NOT_EQUAL;
    }
    return ES_STATUS_OK;
}

// Returns whether what was read as a predicate is all of an atom: a name, no number and no goal of
// control, with a comma, :- or the end behind it.
static int is_atom_without_arguments(const Literal *literal, const char *at, const char *end) {
    static const char *const control[] = {"true", "fail", "false", "!"};
    const Term *name = &literal->predicate;
    char first = name->begin[0];
    for (size_t i = 0; i < ES_COUNT_OF(control); i++) {
        if (is_named(name, control[i])) {
            return 0;
        }
    }
    int is_over = at == end || *at == ',' || (end - at >= 2 && at[0] == ':' && at[1] == '-');
    return is_over && !name->is_variable && !isdigit((unsigned char)first) && first != '-';
}

static EsStatus take_literal(Reader *reader, const char **at, const char *end, Literal *literal,
                             int *is_read) {
    size_t bytes;
    literal->test = ES_KG_NO_TEST;
    literal->is_integer_check = 0;
    literal->n_terms = 0;
    ES_TRY(skip_blanks(reader, at, end));
    int is_negated = end - *at > 2 && (*at)[0] == '\\' && (*at)[1] == '+';
    *at += is_negated ? 2 : 0;
    ES_TRY(take_term(reader, at, end, &literal->predicate, is_read));
    if (!*is_read) {
        *is_read = refuse(reader, literal->predicate.begin, "neither an atom nor a comparison");
        return ES_STATUS_OK;
    }
    ES_TRY(skip_blanks(reader, at, end));
    if (*at < end && **at == '(' && !literal->predicate.is_variable) {
        (*at)++;
        ES_TRY(take_arguments(reader, at, end, literal, is_read));
        if (is_negated && (literal->test != ES_KG_NO_TEST || literal->is_integer_check)) {
            *is_read = refuse(reader, literal->predicate.begin, "a negation of a comparison");
        }
        literal->test = is_negated ? ES_KG_NEGATION : literal->test;
        return ES_STATUS_OK;
    }
    literal->test = test_at(*at, end, &bytes);
    if (is_atom_without_arguments(literal, *at, end)) {
        literal->test = is_negated ? ES_KG_NEGATION : ES_KG_NO_TEST;
        return ES_STATUS_OK;
    }
    if (is_negated) {
        *is_read = refuse(reader, literal->predicate.begin, "a negation of what is no atom");
        return ES_STATUS_OK;
    }
    if (literal->test == ES_KG_NO_TEST) {
        *is_read =
            refuse(reader, literal->predicate.begin, "neither an atom p(a,b) nor a comparison");
        return ES_STATUS_OK;
    }
    *at += bytes;
    literal->terms[0] = literal->predicate;
    literal->n_terms = 2;
    ES_TRY(take_term(reader, at, end, &literal->terms[1], is_read));
    if (!*is_read) {
        *is_read = refuse(reader, *at, "a comparison with what is no name, number or variable");
    }
    return ES_STATUS_OK;
}

// Read the clause up to `end`; *is_read is 0 when it has another form.
static EsStatus take_clause(Reader *reader, const char *end, Clause *clause, int *is_read) {
    const char *at = reader->at;
    clause->n_literals = 0;
    for (;;) {
        ES_TRY(skip_blanks(reader, &at, end));
        if (clause->n_literals > MAX_LITERALS) {
            return FAIL_AT(reader, at, "more than %d atoms and comparisons in a body",
                           MAX_LITERALS);
        }
        ES_TRY(take_literal(reader, &at, end, &clause->literals[clause->n_literals++], is_read));
        ES_TRY(skip_blanks(reader, &at, end));
        if (!*is_read || at == end) {
            return ES_STATUS_OK;
        }
        int is_neck = clause->n_literals == 1 && end - at >= 2 && at[0] == ':' && at[1] == '-';
        int is_comma = clause->n_literals > 1 && *at == ',';
        if (!is_neck && !is_comma) {
            *is_read =
                refuse(reader, at,
                       clause->n_literals == 1 ? "something else than :- after an atom"
                                               : "something else than a comma after an atom");
            return ES_STATUS_OK;
        }
        at += is_neck ? 2 : 1;
    }
}

// --- into the graph ---

// For a clause that a graph could hold if its names were shorter; others are passed over.
static EsStatus check_names(Reader *reader, const Clause *clause) {
    for (int k = 0; k < clause->n_literals; k++) {
        const Literal *literal = &clause->literals[k];
        int is_atom = literal->test == ES_KG_NO_TEST || literal->test == ES_KG_NEGATION;
        if (is_atom &&
            es_kg_is_test_name(literal->predicate.text,
                               ES_MIN(literal->predicate.bytes, sizeof literal->predicate.text))) {
            return FAIL_AT(reader, literal->predicate.begin, "%s",
                           "a predicate with the name of a comparison or negation");
        }
        for (int i = is_atom ? -1 : 0; i < literal->n_terms; i++) {
            const Term *term = i < 0 ? &literal->predicate : &literal->terms[i];
            if (term->bytes > ES_KG_MAX_NAME_BYTES) {
                return FAIL_AT(reader, term->begin, "a name of %zu bytes, at most %d are allowed",
                               term->bytes, ES_KG_MAX_NAME_BYTES);
            }
        }
    }
    return ES_STATUS_OK;
}

// Underscores before a predicate, which are taken off; a name of nothing but these keeps one.
static size_t count_underscores(const Term *predicate) {
    size_t n = 0;
    while (n + 1 < predicate->bytes && predicate->text[n] == '_') {
        n++;
    }
    return n;
}

// The numbers of the predicate of an atom or negation, and of that without the negation.
static EsStatus intern_predicate(EsKgBuilder *builder, const Literal *literal, int32_t *number,
                                 int32_t *plain) {
    const Term *name = &literal->predicate;
    size_t n = count_underscores(name);
    if (literal->test == ES_KG_NEGATION) {
        return es_kg_builder_intern_negation(builder, name->text + n, name->bytes - n,
                                             literal->n_terms, number, plain);
    }
    ES_TRY(es_kg_builder_intern(builder, ES_KG_PREDICATE, name->text + n, name->bytes - n, plain));
    *number = *plain;
    return ES_STATUS_OK;
}

static int has_predicate(const Literal *literal) {
    return !literal->is_integer_check &&
           (literal->test == ES_KG_NO_TEST || literal->test == ES_KG_NEGATION);
}

static int is_same_name(const Term *term, const Term *other) {
    return term->bytes == other->bytes &&
           memcmp(term->text, other->text, ES_MIN(term->bytes, sizeof term->text)) == 0;
}

// The number of arguments that literal k's predicate has by the clauses before, or else by the
// first literal of its name in this one.
static int expected_arity(const EsKgBuilder *builder, const Clause *clause, int k) {
    const Term *name = &clause->literals[k].predicate;
    size_t n = count_underscores(name);
    int arity = es_kg_builder_claimed_arity(builder, name->text + n, name->bytes - n);
    for (int j = 0; j <= k && arity < 0; j++) {
        const Literal *literal = &clause->literals[j];
        if (has_predicate(literal) && is_same_name(&literal->predicate, name)) {
            arity = literal->n_terms;
        }
    }
    return arity;
}

// Sees to it that each predicate has one number of arguments; *is_right is 0 when one had another.
// Of a clause that is not right nothing is kept, neither a name nor its number of arguments.
static EsStatus check_arities(EsKgBuilder *builder, Reader *reader, const Clause *clause,
                              int *is_right) {
    *is_right = 1;
    for (int k = 0; k < clause->n_literals && *is_right; k++) {
        const Literal *literal = &clause->literals[k];
        *is_right = !has_predicate(literal) ||
                    expected_arity(builder, clause, k) == literal->n_terms ||
                    refuse(reader, literal->predicate.begin,
                           "a predicate that had another number of arguments before");
    }
    for (int k = 0; k < clause->n_literals && *is_right; k++) {
        const Literal *literal = &clause->literals[k];
        int32_t number, plain;
        if (has_predicate(literal)) {
            ES_TRY(intern_predicate(builder, literal, &number, &plain));
            es_kg_builder_claim_arity(builder, plain, literal->n_terms);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus intern_constant(EsKgBuilder *builder, const Term *term, int32_t *number) {
    return es_kg_builder_intern(builder, ES_KG_CONSTANT, term->text, term->bytes, number);
}

static EsStatus add_fact(EsKgBuilder *builder, Reader *reader, const Clause *clause,
                         int *is_added) {
    const Literal *literal = &clause->literals[0];
    int32_t predicate, terms[ES_KG_MAX_ARITY];
    *is_added = literal->test == ES_KG_NO_TEST && !literal->is_integer_check;
    if (!*is_added) {
        refuse(reader, literal->predicate.begin, "a comparison or negation outside of a body");
        return ES_STATUS_OK;
    }
    for (int i = 0; i < literal->n_terms; i++) {
        *is_added &= !literal->terms[i].is_variable;
    }
    if (!*is_added) {
        refuse(reader, literal->predicate.begin, "a fact with a variable");
        return ES_STATUS_OK;
    }
    ES_TRY(check_names(reader, clause));
    ES_TRY(check_arities(builder, reader, clause, is_added));
    if (!*is_added) {
        return ES_STATUS_OK;
    }
    ES_TRY(intern_predicate(builder, literal, &predicate, &predicate));
    for (int i = 0; i < literal->n_terms; i++) {
        ES_TRY(intern_constant(builder, &literal->terms[i], &terms[i]));
    }
    EsWideAtom atom = es_wide_atom_make(predicate, terms, literal->n_terms);
    ES_TRY(es_kg_builder_add_query(builder, ES_KG_SPLIT_TRAIN, atom.cells));
    return es_kg_builder_add_fact(builder, atom.cells);
}

// Variables of a rule by first appearance.
typedef struct Variables {
    const Term *known[ES_HORN_MAX_VARIABLES];
    int count;
} Variables;

// A plain _ is a new variable each time.
static int is_nameless(const Term *term) {
    return term->is_variable && term->bytes == 1 && term->text[0] == '_';
}

// The number of a variable. Returns 0 when there are too many.
static int32_t number_variable(Variables *variables, const Term *term) {
    for (int i = 0; i < variables->count && !is_nameless(term); i++) {
        if (is_same_name(variables->known[i], term)) {
            return -1 - i;
        }
    }
    if (variables->count == ES_HORN_MAX_VARIABLES) {
        return 0;
    }
    variables->known[variables->count++] = term;
    return -variables->count;
}

static int is_ordered(EsKgTest test) { return test > ES_KG_NOT_EQUAL && test < ES_KG_NEGATION; }

static int is_integer(const Term *term) {
    char name[32];
    if (term->bytes >= sizeof name) {
        return 0;
    }
    memcpy(name, term->text, term->bytes);
    name[term->bytes] = '\0';
    return es_kg_integer(name) != ES_KG_NO_INTEGER;
}

// Returns whether a literal has a term; a quoted constant is no variable of its name.
static int has_term(const Literal *literal, const Term *term) {
    for (int i = 0; i < literal->n_terms; i++) {
        if (literal->terms[i].is_variable == term->is_variable &&
            is_same_name(&literal->terms[i], term)) {
            return 1;
        }
    }
    return 0;
}

// Returns whether the term of an integer(X) is one of a comparison in order too.
static int is_compared(const Clause *clause, const Term *term) {
    for (int k = 1; k < clause->n_literals; k++) {
        if (is_ordered(clause->literals[k].test) && has_term(&clause->literals[k], term)) {
            return 1;
        }
    }
    return 0;
}

// Returns whether a variable of the head or of a test is in an atom of the body, which a plain _
// never is; constants always are.
static int is_bound(const Clause *clause, const Term *term) {
    for (int k = 1; k < clause->n_literals && term->is_variable && !is_nameless(term); k++) {
        const Literal *literal = &clause->literals[k];
        if (literal->test == ES_KG_NO_TEST && !literal->is_integer_check &&
            has_term(literal, term)) {
            return 1;
        }
    }
    return !term->is_variable;
}

static int are_bound(const Clause *clause, const Literal *literal) {
    int are = 1;
    for (int i = 0; i < literal->n_terms; i++) {
        are &= is_bound(clause, &literal->terms[i]);
    }
    return are;
}

// Returns whether what a literal compares in order are variables and integers; any other constant
// would make a comparison that never holds.
static int check_operands(Reader *reader, const Literal *literal) {
    for (int i = 0; i < literal->n_terms && is_ordered(literal->test); i++) {
        const Term *term = &literal->terms[i];
        if (!term->is_variable && !is_integer(term)) {
            return refuse(reader, term->begin,
                          "a comparison in order with a constant that is no integer of at most 18 "
                          "digits");
        }
    }
    return 1;
}

// Returns whether a graph can hold the clause as a rule.
static int check_rule(Reader *reader, const Clause *clause) {
    const Literal *head = &clause->literals[0];
    int n_atoms = 0;
    if (head->test != ES_KG_NO_TEST || head->is_integer_check) {
        return refuse(reader, head->predicate.begin, "a head that is a comparison or negation");
    }
    for (int k = 0; k < clause->n_literals; k++) {
        const Literal *literal = &clause->literals[k];
        if (literal->is_integer_check) {
            if (!is_compared(clause, &literal->terms[0])) {
                return refuse(reader, literal->predicate.begin,
                              "integer(X) without a comparison of X");
            }
            continue;
        }
        n_atoms += k > 0 && literal->test == ES_KG_NO_TEST;
        if ((k == 0 || literal->test != ES_KG_NO_TEST) && !are_bound(clause, literal)) {
            return refuse(
                reader, literal->terms[0].begin,
                k == 0 ? "a variable of the head that is in no atom of the body"
                       : "a compared or negated variable that is in no other atom of the body");
        }
        if (!check_operands(reader, literal)) {
            return 0;
        }
    }
    return n_atoms > 0 || refuse(reader, head->predicate.begin,
                                 "a body without atoms but comparisons and negations");
}

static EsStatus number_term(EsKgBuilder *builder, Reader *reader, Variables *variables,
                            const Term *term, int32_t *number) {
    if (!term->is_variable) {
        return intern_constant(builder, term, number);
    }
    *number = number_variable(variables, term);
    return *number != 0 ? ES_STATUS_OK
                        : FAIL_AT(reader, term->begin, "more than %d variables in one rule",
                                  ES_HORN_MAX_VARIABLES);
}

static EsStatus number_literal(EsKgBuilder *builder, Reader *reader, Variables *variables,
                               const Literal *literal, EsWideAtom *atom) {
    int32_t predicate, plain, terms[ES_KG_MAX_ARITY];
    ES_TRY(has_predicate(literal) ? intern_predicate(builder, literal, &predicate, &plain)
                                  : es_kg_builder_intern_test(builder, literal->test, &predicate));
    for (int i = 0; i < literal->n_terms; i++) {
        ES_TRY(number_term(builder, reader, variables, &literal->terms[i], &terms[i]));
    }
    *atom = es_wide_atom_make(predicate, terms, literal->n_terms);
    return ES_STATUS_OK;
}

static EsStatus add_rule(EsKgBuilder *builder, Reader *reader, const Clause *clause, int line,
                         int *is_added) {
    EsHornRule rule;
    EsWideAtom atom;
    memset(&rule, 0, sizeof rule);
    Variables variables = {.count = 0};
    *is_added = check_rule(reader, clause);
    if (!*is_added) {
        return ES_STATUS_OK;
    }
    ES_TRY(check_names(reader, clause));
    ES_TRY(check_arities(builder, reader, clause, is_added));
    if (!*is_added) {
        return ES_STATUS_OK;
    }
    ES_TRY(number_literal(builder, reader, &variables, &clause->literals[0], &atom));
    memcpy(rule.head_cells, atom.cells, sizeof rule.head_cells);
    for (int k = 1; k < clause->n_literals; k++) {
        const Literal *literal = &clause->literals[k];
        int n_cells = literal->n_terms > 2 ? 2 : 1;
        if (literal->is_integer_check) {
            continue;
        }
        if (rule.n_body + n_cells > ES_HORN_MAX_BODY) {
            return FAIL_AT(reader, literal->predicate.begin,
                           "more than %d atoms in a body, where one of over two arguments counts "
                           "twice",
                           ES_HORN_MAX_BODY);
        }
        ES_TRY(number_literal(builder, reader, &variables, literal, &atom));
        memcpy(&rule.body[rule.n_body], atom.cells, (size_t)n_cells * sizeof(EsAtom));
        rule.n_body += n_cells;
    }
    rule.n_variables = variables.count;
    rule.line = line;
    rule.is_prolog = 1;
    return es_kg_builder_add_rule(builder, &rule);
}

// Returns whether a directive says nothing about what follows: declarations and settings.
static int is_known_directive(const char *at, const char *end) {
    static const char *const known[] = {"dynamic",    "discontiguous", "multifile",
                                        "table",      "style_check",   "set_prolog_flag",
                                        "use_module", "module",        "encoding"};
    for (at += 2; at < end && isspace((unsigned char)*at);) {
        at++;
    }
    for (size_t i = 0; i < ES_COUNT_OF(known); i++) {
        size_t bytes = strlen(known[i]);
        if ((size_t)(end - at) > bytes && memcmp(at, known[i], bytes) == 0 &&
            !is_name_byte(at[bytes])) {
            return 1;
        }
    }
    return 0;
}

// A clause that cannot be read is an error or passed over.
static EsStatus pass_over(Reader *reader, int line, int skips_unknown, EsPrologCounts *counts) {
    if (!skips_unknown) {
        return FAIL_AT(reader, reader->reason_at, "%s; --skip-unknown passes over such clauses",
                       reader->reason);
    }
    counts->n_skipped++;
    counts->first_skipped = counts->first_skipped == 0 ? line : counts->first_skipped;
    return ES_STATUS_OK;
}

static EsStatus add_clause(EsKgBuilder *builder, Reader *reader, const char *period,
                           int skips_unknown, EsPrologCounts *counts) {
    const char *at = reader->at;
    int line = line_of(reader, at);
    reader->reason = NULL;
    if (period - at >= 2 && (at[0] == ':' || at[0] == '?') && at[1] == '-') {
        if (!is_known_directive(at, period)) {
            refuse(reader, at, "a directive that is not understood");
            return pass_over(reader, line, skips_unknown, counts);
        }
        counts->n_directives++;
        return ES_STATUS_OK;
    }
    Clause clause;
    int is_read;
    ES_TRY(take_clause(reader, period, &clause, &is_read));
    int is_rule = clause.n_literals > 1;
    if (is_read) {
        ES_TRY(is_rule ? add_rule(builder, reader, &clause, line, &is_read)
                       : add_fact(builder, reader, &clause, &is_read));
    }
    if (!is_read) {
        return pass_over(reader, line, skips_unknown, counts);
    }
    counts->n_facts += !is_rule;
    counts->n_rules += is_rule;
    return ES_STATUS_OK;
}

EsStatus es_prolog_text_read(EsKgBuilder *builder, const char *name, const char *text, size_t bytes,
                             int skips_unknown, EsPrologCounts *counts) {
    memset(counts, 0, sizeof *counts);
    Reader reader = {name, text, text + bytes, text, text, 1, NULL, NULL};
    const char *zero = memchr(text, 0, bytes);
    if (zero != NULL) {
        return FAIL_AT(&reader, zero, "%s", "a zero byte; this is not a text file");
    }
    for (;;) {
        ES_TRY(skip_blanks(&reader, &reader.at, reader.end));
        if (reader.at == reader.end) {
            return ES_STATUS_OK;
        }
        const char *period = NULL;
        ES_TRY(find_end(&reader, &period));
        ES_TRY(add_clause(builder, &reader, period, skips_unknown, counts));
        reader.at = period + 1;
    }
}
