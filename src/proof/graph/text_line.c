// Cuts text in memory into lines, names and atoms without copying. Blanks are spaces and tabs;
// every failure points at a byte of the current line.
#include "proof/graph/text_line.h"

#include <string.h>

#include "proof/graph/knowledge_text.h"

static int is_blank(char byte) { return byte == ' ' || byte == '\t'; }

EsTextLines es_text_lines_begin(const char *name, const char *text, size_t bytes) {
    size_t mark_bytes = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return (EsTextLines){name, text + mark_bytes, text + bytes, 0, text + mark_bytes};
}

EsStatus es_text_lines_next(EsTextLines *lines, EsPiece *line, int *is_there) {
    while (lines->next < lines->end) {
        const char *begin = lines->next;
        const char *feed = memchr(begin, '\n', (size_t)(lines->end - begin));
        const char *end = feed != NULL ? feed : lines->end;
        lines->next = feed != NULL ? feed + 1 : lines->end;
        lines->begin = begin;
        lines->number++;
        const char *zero = memchr(begin, 0, (size_t)(end - begin));
        if (zero != NULL) {
            return ES_LINE_FAIL(lines, zero, "%s", "a zero byte; this is not a text file");
        }
        while (end > begin && (is_blank(end[-1]) || end[-1] == '\r')) {
            end--;
        }
        if (end > begin) {
            *line = (EsPiece){begin, (size_t)(end - begin)};
            *is_there = 1;
            return ES_STATUS_OK;
        }
    }
    *is_there = 0;
    return ES_STATUS_OK;
}

const char *es_text_excerpt(EsPiece piece, EsExcerpt excerpt) {
    size_t room = sizeof(EsExcerpt) - 3; // two quotes and the end
    size_t shown = piece.bytes <= room ? piece.bytes : room - 3;
    char *out = excerpt;
    *out++ = '"';
    for (size_t i = 0; i < shown; i++) {
        unsigned char byte = (unsigned char)piece.text[i];
        *out++ = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
    }
    if (shown < piece.bytes) {
        memcpy(out, "...", 3);
        out += 3;
    }
    *out++ = '"';
    *out = '\0';
    return excerpt;
}

int es_piece_equals(EsPiece piece, EsPiece other) {
    return piece.bytes == other.bytes && memcmp(piece.text, other.text, piece.bytes) == 0;
}

EsPiece es_piece_skip_blanks(EsPiece piece) {
    while (piece.bytes > 0 && is_blank(piece.text[0])) {
        piece.text++;
        piece.bytes--;
    }
    return piece;
}

EsPiece es_piece_trim(EsPiece piece) {
    piece = es_piece_skip_blanks(piece);
    while (piece.bytes > 0 && is_blank(piece.text[piece.bytes - 1])) {
        piece.bytes--;
    }
    return piece;
}

EsPiece es_piece_strip_quotes(EsPiece name) {
    char first = name.text[0];
    if (name.bytes >= 2 && (first == '"' || first == '\'') && name.text[name.bytes - 1] == first) {
        return (EsPiece){name.text + 1, name.bytes - 2};
    }
    return name;
}

EsStatus es_text_check_name(const EsTextLines *lines, EsPiece name, const char *what) {
    if (name.bytes == 0) {
        return ES_LINE_FAIL(lines, name.text, "the %s has no name", what);
    }
    if (name.bytes > ES_KG_MAX_NAME_BYTES) {
        return ES_LINE_FAIL(lines, name.text,
                            "the %s has a name of %zu bytes, at most %d are "
                            "allowed",
                            what, name.bytes, ES_KG_MAX_NAME_BYTES);
    }
    for (size_t i = 0; i < name.bytes; i++) {
        if (is_blank(name.text[i])) {
            EsExcerpt excerpt;
            return ES_LINE_FAIL(lines, name.text + i, "a blank inside the %s %s", what,
                                es_text_excerpt(name, excerpt));
        }
    }
    return ES_STATUS_OK;
}

static int count_bytes(EsPiece piece, char byte) {
    int n = 0;
    for (size_t i = 0; i < piece.bytes; i++) {
        n += piece.text[i] == byte;
    }
    return n;
}

// Splits the text between the brackets into two names.
static EsStatus split_arguments(const EsTextLines *lines, EsPiece inside, EsAtomText *atom) {
    EsExcerpt excerpt;
    int n_commas = count_bytes(inside, ',');
    if (n_commas != 1) {
        int n_arguments = n_commas > 0 || es_piece_trim(inside).bytes > 0 ? n_commas + 1 : 0;
        return ES_LINE_FAIL(lines, inside.text, "%s has %d argument%s, expected 2",
                            es_text_excerpt(atom->predicate, excerpt), n_arguments,
                            n_arguments == 1 ? "" : "s");
    }
    const char *open = memchr(inside.text, '(', inside.bytes);
    if (open != NULL) {
        return ES_LINE_FAIL(lines, open, "an opening bracket inside the arguments of %s",
                            es_text_excerpt(atom->predicate, excerpt));
    }
    const char *comma = memchr(inside.text, ',', inside.bytes);
    size_t a_bytes = (size_t)(comma - inside.text);
    atom->a = es_piece_trim((EsPiece){inside.text, a_bytes});
    atom->b = es_piece_trim((EsPiece){comma + 1, inside.bytes - a_bytes - 1});
    ES_TRY(es_text_check_name(lines, atom->a, "first argument"));
    return es_text_check_name(lines, atom->b, "second argument");
}

EsStatus es_text_take_atom(const EsTextLines *lines, EsPiece *rest, EsAtomText *atom) {
    EsPiece piece = es_piece_skip_blanks(*rest);
    EsExcerpt excerpt;
    if (piece.bytes == 0) {
        return ES_LINE_FAIL(lines, piece.text, "%s",
                            "the line ends where an atom is expected, "
                            "predicate(a,b)");
    }
    const char *end = piece.text + piece.bytes;
    const char *open = memchr(piece.text, '(', piece.bytes);
    if (open == NULL) {
        return ES_LINE_FAIL(lines, piece.text, "no opening bracket in %s, expected predicate(a,b)",
                            es_text_excerpt(piece, excerpt));
    }
    atom->predicate = es_piece_trim((EsPiece){piece.text, (size_t)(open - piece.text)});
    ES_TRY(es_text_check_name(lines, atom->predicate, "predicate"));
    for (const char *byte = piece.text; byte < open; byte++) {
        if (*byte == ',' || *byte == ')') {
            return ES_LINE_FAIL(lines, byte, "'%c' where a predicate is expected", *byte);
        }
    }
    const char *close = memchr(open, ')', (size_t)(end - open));
    if (close == NULL) {
        return ES_LINE_FAIL(lines, open, "the bracket of %s is never closed",
                            es_text_excerpt(atom->predicate, excerpt));
    }
    ES_TRY(split_arguments(lines, (EsPiece){open + 1, (size_t)(close - open - 1)}, atom));
    *rest = (EsPiece){close + 1, (size_t)(end - close - 1)};
    return ES_STATUS_OK;
}
