// Lines of a text in memory and pieces of them, with failures that say where.
#ifndef ES_PROOF_TEXT_LINE_H
#define ES_PROOF_TEXT_LINE_H

#include "proof/graph/knowledge_graph.h"

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

// An atom as it is spelt.
typedef struct EsAtomText {
    EsPiece predicate, a, b;
} EsAtomText;

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

// Without the quotes, single or double, that a name which is not empty begins and ends with.
EsPiece es_piece_strip_quotes(EsPiece name);

// Fails when a name is empty, too long, or has a blank inside; `what` names it in the message.
EsStatus es_text_check_name(const EsTextLines *lines, EsPiece name, const char *what);

// Take "predicate(a,b)" from the front of *rest; blanks around the names are passed over.
EsStatus es_text_take_atom(const EsTextLines *lines, EsPiece *rest, EsAtomText *atom);

ES_EXTERN_C_END

#endif
