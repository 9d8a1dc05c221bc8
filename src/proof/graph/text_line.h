// Lines of a text in memory and pieces of them, with failures that say where; and text that is
// written to memory.
#ifndef ES_PROOF_TEXT_LINE_H
#define ES_PROOF_TEXT_LINE_H

#include "proof/graph/knowledge_builder.h"

ES_EXTERN_C_BEGIN

// Bytes of a text; borrowed.
typedef struct EsPiece {
    const char *text;
    size_t bytes;
} EsPiece;

typedef struct EsTextLines {
    const char *name;       // name of the text in messages; borrowed
    const char *next, *end; // the text still to come
    int number;             // of the line below, from 1
    const char *begin;      // that line, for the columns
} EsTextLines;

// A name as it is spelt. In quotes, single or double, it may hold any bytes; a backslash before a
// quote or a backslash, and one quote before another, are not part of it.
typedef struct EsNameText {
    EsPiece whole;  // with its quotes
    EsPiece inside; // without them; the same for a bare name
    int is_quoted;
} EsNameText;

// An atom as it is spelt.
typedef struct EsAtomText {
    EsNameText predicate;
    EsNameText terms[ES_KG_MAX_ARITY];
    int n_terms;
} EsAtomText;

// An atom, its negation, or a comparison of two terms, which has no predicate.
typedef struct EsLiteralText {
    EsAtomText atom;
    EsKgTest test;
} EsLiteralText;

// room for part of a text in a message
typedef char EsExcerpt[48];

// Fail with "name:line:column: ..."; `position` lies in the current line.
#define ES_LINE_FAIL(lines, position, format, ...)                                                 \
    ES_FAIL(INPUT, "%s:%d:%zu: " format, (lines)->name, (lines)->number,                           \
            (size_t)((position) - (lines)->begin) + 1, __VA_ARGS__)

// A byte-order mark is passed over.
EsTextLines es_text_lines_begin(const char *name, const char *text, size_t bytes);

// The next line that is not blank, without its end and trailing blanks; *is_there is 0 after the
// last. Fails on a zero byte.
EsStatus es_text_lines_next(EsTextLines *lines, EsPiece *line, int *is_there);

// Printable, in quotes, cut to the room with "..."; returns `excerpt`.
const char *es_text_excerpt(EsPiece piece, EsExcerpt excerpt);

int es_piece_equals(EsPiece piece, EsPiece other);

// Without blanks (space, tab) at its beginning; at either end.
EsPiece es_piece_skip_blanks(EsPiece piece);
EsPiece es_piece_trim(EsPiece piece);

// Without its first bytes.
EsPiece es_piece_cut_front(EsPiece piece, size_t bytes);

int es_piece_starts_with(EsPiece piece, const char *text);

// Take a name in quotes from the front of *rest, where a quote stands, if it is closed and one of
// the bytes `ends`, a blank or the end follows; else 0 is returned and nothing is taken.
int es_text_take_quoted(EsPiece *rest, const char *ends, EsNameText *name);

// Copy a name without its quotes and escapes; `text` has room for `bytes`. Returns its length, of
// which no more than `bytes` is written.
size_t es_name_text_copy(EsNameText name, char *text, size_t bytes);

// Fails when a name is empty, too long, or has a blank inside and no quotes around it; `what` names
// it in the message.
EsStatus es_text_check_name(const EsTextLines *lines, EsNameText name, const char *what);

// Fails when a predicate has the name of a comparison or begins with "not ".
EsStatus es_text_check_predicate(const EsTextLines *lines, EsNameText name);

// Fails when a constant that is compared in order is no integer: the comparison would never hold.
EsStatus es_text_check_operand(const EsTextLines *lines, EsKgTest test, EsNameText name);

// Returns whether an argument of a rule file is a variable.
int es_name_text_is_variable(EsNameText name);

// The name of a piece without quotes.
EsNameText es_name_text_bare(EsPiece piece);

// Take "predicate(a,b)" from the front of *rest, with up to ES_KG_MAX_ARITY arguments; blanks
// around the names are passed over. Where no bracket is to come it is "predicate", up to a blank or
// the end, less a period there.
EsStatus es_text_take_atom(const EsTextLines *lines, EsPiece *rest, EsAtomText *atom);

// Take "predicate(a,b)", "not predicate(a,b)" (or \+) or "a != b" from the front of *rest, as rule
// files have them in bodies. What has neither brackets nor a comparison is "predicate".
EsStatus es_text_take_literal(const EsTextLines *lines, EsPiece *rest, EsLiteralText *literal);

// The number of a name in a builder.
EsStatus es_text_intern(EsKgBuilder *builder, EsKgNameKind kind, EsNameText name, int32_t *number);

// The number of the predicate of an atom, or of its negation; fails when it had another number of
// arguments before.
EsStatus es_text_intern_predicate(const EsTextLines *lines, EsKgBuilder *builder,
                                  const EsAtomText *atom, int is_negated, int32_t *number);

// The atom in the numbers of a builder, all its terms constants.
EsStatus es_text_intern_atom(const EsTextLines *lines, EsKgBuilder *builder,
                             const EsAtomText *spelt, EsWideAtom *atom);

// --- writing ---

// A text under construction, as snprintf makes it: all bytes are counted, those that fit are
// written. {text, bytes, 0} begins one.
typedef struct EsTextOut {
    char *at; // borrowed
    size_t bytes, length;
} EsTextOut;

void es_text_out_add(EsTextOut *out, const char *bytes, size_t count);
void es_text_out_add_text(EsTextOut *out, const char *text);

// A name in single quotes, with a backslash before quotes and backslashes.
void es_text_out_add_quoted(EsTextOut *out, const char *name);

// Put the zero at the end; returns the length of the whole text.
int es_text_out_end(EsTextOut *out);

ES_EXTERN_C_END

#endif
