// A clause is found first, from its beginning to the period that ends it, and then read; one that
// cannot be read as a fact or rule is passed over as a whole.
#include "proof/graph/prolog_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/text_line.h"

typedef struct Reader {
    const char *name, *text, *end;
    const char *at;
    const char *counted; // up to here the lines are counted
    int line;            // at `counted`, from 1
} Reader;

// A name or variable with its quotes and escapes gone.
typedef struct Term {
    const char *begin;               // in the text that is read
    char text[ES_KG_MAX_NAME_BYTES]; // as much of it as fits
    size_t bytes;                    // all of it
    int is_variable;
} Term;

typedef struct Literal {
    Term predicate, a, b;
} Literal;

// head and up to ES_HORN_MAX_BODY atoms; one more is read to see that there are too many
typedef struct Clause {
    Literal literals[1 + ES_HORN_MAX_BODY];
    int n_literals;
} Clause;

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

static EsStatus take_byte(Reader *reader, const char **at, const char *end, char wanted,
                          int *is_read) {
    ES_TRY(skip_blanks(reader, at, end));
    *is_read = *at < end && **at == wanted;
    *at += *is_read;
    return ES_STATUS_OK;
}

static EsStatus take_literal(Reader *reader, const char **at, const char *end, Literal *literal,
                             int *is_read) {
    ES_TRY(take_term(reader, at, end, &literal->predicate, is_read));
    *is_read = *is_read && !literal->predicate.is_variable;
    Term *const terms[2] = {&literal->a, &literal->b};
    for (int k = 0; k < 2 && *is_read; k++) {
        ES_TRY(take_byte(reader, at, end, k == 0 ? '(' : ',', is_read));
        if (*is_read) {
            ES_TRY(take_term(reader, at, end, terms[k], is_read));
        }
    }
    return *is_read ? take_byte(reader, at, end, ')', is_read) : ES_STATUS_OK;
}

// Read the clause up to `end`; *is_read is 0 when it has another form.
static EsStatus take_clause(Reader *reader, const char *end, Clause *clause, int *is_read) {
    const char *at = reader->at;
    clause->n_literals = 0;
    for (;;) {
        ES_TRY(take_literal(reader, &at, end, &clause->literals[clause->n_literals++], is_read));
        if (!*is_read) {
            return ES_STATUS_OK;
        }
        ES_TRY(skip_blanks(reader, &at, end));
        if (at == end) {
            return ES_STATUS_OK;
        }
        int is_neck = clause->n_literals == 1 && end - at >= 2 && at[0] == ':' && at[1] == '-';
        int is_comma = clause->n_literals > 1 && *at == ',';
        if (!(is_neck || is_comma) || clause->n_literals > ES_HORN_MAX_BODY) {
            *is_read = 0;
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
        const Term *const terms[] = {&literal->predicate, &literal->a, &literal->b};
        for (size_t i = 0; i < ES_COUNT_OF(terms); i++) {
            if (terms[i]->bytes > ES_KG_MAX_NAME_BYTES) {
                return FAIL_AT(reader, terms[i]->begin,
                               "a name of %zu bytes, at most %d are allowed", terms[i]->bytes,
                               ES_KG_MAX_NAME_BYTES);
            }
        }
    }
    return ES_STATUS_OK;
}

static EsStatus intern(EsKgBuilder *builder, EsKgNameKind kind, const Term *term, int32_t *number) {
    const char *text = term->text;
    size_t bytes = term->bytes;
    // a name of nothing but underscores stays as it is
    while (kind == ES_KG_PREDICATE && bytes > 1 && *text == '_') {
        text++;
        bytes--;
    }
    return es_kg_builder_intern(builder, kind, text, bytes, number);
}

static EsStatus add_fact(EsKgBuilder *builder, Reader *reader, const Clause *clause,
                         int *is_added) {
    const Literal *literal = &clause->literals[0];
    EsAtom atom;
    *is_added = !literal->a.is_variable && !literal->b.is_variable;
    if (!*is_added) {
        return ES_STATUS_OK;
    }
    ES_TRY(check_names(reader, clause));
    ES_TRY(intern(builder, ES_KG_PREDICATE, &literal->predicate, &atom.predicate));
    ES_TRY(intern(builder, ES_KG_CONSTANT, &literal->a, &atom.a));
    ES_TRY(intern(builder, ES_KG_CONSTANT, &literal->b, &atom.b));
    ES_TRY(es_kg_builder_add_query(builder, ES_KG_SPLIT_TRAIN, atom));
    return es_kg_builder_add_fact(builder, atom);
}

// The number of a variable by first appearance; a plain _ is a new one each time.
static int32_t number_variable(const Term **known, int *n_known, const Term *term) {
    int is_nameless = term->bytes == 1 && term->text[0] == '_';
    for (int i = 0; i < *n_known && !is_nameless; i++) {
        if (known[i]->bytes == term->bytes &&
            memcmp(known[i]->text, term->text, ES_MIN(term->bytes, sizeof term->text)) == 0) {
            return -1 - i;
        }
    }
    known[(*n_known)++] = term;
    return -*n_known;
}

static EsStatus add_rule(EsKgBuilder *builder, Reader *reader, const Clause *clause, int line,
                         int *is_added) {
    EsHornRule rule;
    memset(&rule, 0, sizeof rule);
    const Term *known[ES_HORN_MAX_VARIABLES];
    int is_bound[2] = {0, 0};
    *is_added = 0;
    for (int k = 0; k < clause->n_literals; k++) {
        const Literal *literal = &clause->literals[k];
        if (!literal->a.is_variable || !literal->b.is_variable) {
            return ES_STATUS_OK;
        }
        EsAtom *atom = k == 0 ? &rule.head : &rule.body[k - 1];
        atom->a = number_variable(known, &rule.n_variables, &literal->a);
        atom->b = number_variable(known, &rule.n_variables, &literal->b);
        is_bound[0] |= k > 0 && (atom->a == rule.head.a || atom->b == rule.head.a);
        is_bound[1] |= k > 0 && (atom->a == rule.head.b || atom->b == rule.head.b);
    }
    if (!is_bound[0] || !is_bound[1]) {
        return ES_STATUS_OK;
    }
    *is_added = 1;
    ES_TRY(check_names(reader, clause));
    for (int k = 0; k < clause->n_literals; k++) {
        EsAtom *atom = k == 0 ? &rule.head : &rule.body[k - 1];
        ES_TRY(intern(builder, ES_KG_PREDICATE, &clause->literals[k].predicate, &atom->predicate));
    }
    rule.n_body = clause->n_literals - 1;
    rule.line = line;
    rule.is_prolog = 1;
    return es_kg_builder_add_rule(builder, &rule);
}

static EsStatus add_clause(EsKgBuilder *builder, Reader *reader, const char *period,
                           EsPrologCounts *counts) {
    const char *at = reader->at;
    int line = line_of(reader, at);
    if (period - at >= 2 && (at[0] == ':' || at[0] == '?') && at[1] == '-') {
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
    counts->n_facts += is_read && !is_rule;
    counts->n_rules += is_read && is_rule;
    counts->n_skipped += !is_read;
    if (!is_read && counts->first_skipped == 0) {
        counts->first_skipped = line;
    }
    return ES_STATUS_OK;
}

EsStatus es_prolog_text_read(EsKgBuilder *builder, const char *name, const char *text, size_t bytes,
                             EsPrologCounts *counts) {
    memset(counts, 0, sizeof *counts);
    Reader reader = {name, text, text + bytes, text, text, 1};
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
        ES_TRY(add_clause(builder, &reader, period, counts));
        reader.at = period + 1;
    }
}

// --- writing ---

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
