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

// --- names ---

static int is_quote(char byte) { return byte == '"' || byte == '\''; }

// Bytes of an escape at `at` inside a name between `quote`s: 2, or 0 when none is there.
static size_t escape_bytes(const char *at, const char *end, char quote) {
    if (end - at < 2) {
        return 0;
    }
    int is_backslash = at[0] == '\\' && (at[1] == '\\' || is_quote(at[1]));
    return is_backslash || (at[0] == quote && at[1] == quote) ? 2 : 0;
}

int es_text_take_quoted(EsPiece *rest, const char *ends, EsNameText *name) {
    const char *begin = rest->text, *end = begin + rest->bytes, *at = begin + 1;
    while (at < end) {
        size_t n_bytes = escape_bytes(at, end, *begin);
        if (n_bytes == 0 && *at == *begin) {
            break;
        }
        at += n_bytes > 0 ? n_bytes : 1;
    }
    if (at >= end) {
        return 0;
    }
    if (at + 1 < end && !is_blank(at[1]) && strchr(ends, at[1]) == NULL) {
        return 0;
    }
    *name =
        (EsNameText){{begin, (size_t)(at + 1 - begin)}, {begin + 1, (size_t)(at - begin - 1)}, 1};
    *rest = (EsPiece){at + 1, (size_t)(end - at - 1)};
    return 1;
}

size_t es_name_text_copy(EsNameText name, char *text, size_t bytes) {
    const char *at = name.inside.text, *end = at + name.inside.bytes;
    size_t length = 0;
    while (at < end) {
        at += name.is_quoted && escape_bytes(at, end, name.whole.text[0]) > 0 ? 1 : 0;
        if (length < bytes) {
            text[length] = *at;
        }
        length++;
        at++;
    }
    return length;
}

EsNameText es_name_text_bare(EsPiece piece) { return (EsNameText){piece, piece, 0}; }

EsStatus es_text_check_name(const EsTextLines *lines, EsNameText name, const char *what) {
    size_t bytes = es_name_text_copy(name, NULL, 0);
    if (bytes == 0) {
        return ES_LINE_FAIL(lines, name.inside.text, "the %s has no name", what);
    }
    if (bytes > ES_KG_MAX_NAME_BYTES) {
        return ES_LINE_FAIL(lines, name.inside.text,
                            "the %s has a name of %zu bytes, at most %d are "
                            "allowed",
                            what, bytes, ES_KG_MAX_NAME_BYTES);
    }
    for (size_t i = 0; i < name.inside.bytes && !name.is_quoted; i++) {
        if (is_blank(name.inside.text[i])) {
            EsExcerpt excerpt;
            return ES_LINE_FAIL(lines, name.inside.text + i,
                                "a blank inside the %s %s; a name with blanks needs quotes", what,
                                es_text_excerpt(name.inside, excerpt));
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_text_check_predicate(const EsTextLines *lines, EsNameText name) {
    char copy[4];
    EsPiece text = name.inside;
    if (name.is_quoted) {
        size_t bytes = es_name_text_copy(name, copy, sizeof copy);
        text = (EsPiece){copy, ES_MIN(bytes, sizeof copy)};
    }
    if (es_kg_is_test_name(text.text, text.bytes)) {
        return ES_LINE_FAIL(lines, name.inside.text, "%s",
                            "a predicate with the name of a comparison or negation");
    }
    return ES_STATUS_OK;
}

EsStatus es_text_check_operand(const EsTextLines *lines, EsKgTest test, EsNameText name) {
    char text[32];
    size_t bytes = es_name_text_copy(name, text, sizeof text - 1);
    text[ES_MIN(bytes, sizeof text - 1)] = '\0';
    if (test == ES_KG_NOT_EQUAL || es_kg_integer(text) != ES_KG_NO_INTEGER) {
        return ES_STATUS_OK;
    }
    EsExcerpt excerpt;
    return ES_LINE_FAIL(lines, name.whole.text,
                        "%s is compared by %s, which takes integers of at most 18 digits, without "
                        "leading zeros",
                        es_text_excerpt(name.inside, excerpt), es_kg_test_names[test]);
}

// --- atoms ---

// bytes that end a plain name
static const unsigned char is_special[256] = {
    [' '] = 1, ['\t'] = 1, [','] = 1, ['('] = 1, [')'] = 1};

// Bytes before the first that is one of `bytes`.
static size_t bytes_before(EsPiece piece, const char *bytes) {
    size_t n = 0;
    while (n < piece.bytes && strchr(bytes, piece.text[n]) == NULL) {
        n++;
    }
    return n;
}

// Take one argument, up to a comma or a closing bracket.
static EsStatus take_argument(const EsTextLines *lines, EsPiece *rest, const EsAtomText *atom,
                              EsNameText *name) {
    *rest = es_piece_skip_blanks(*rest);
    if (rest->bytes > 0 && is_quote(rest->text[0]) && es_text_take_quoted(rest, ",)", name)) {
        return ES_STATUS_OK;
    }
    EsPiece bare = {rest->text, bytes_before(*rest, ",()")};
    if (bare.bytes < rest->bytes && bare.text[bare.bytes] == '(') {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, bare.text + bare.bytes,
                            "an opening bracket inside the arguments of %s",
                            es_text_excerpt(atom->predicate.inside, excerpt));
    }
    *rest = (EsPiece){rest->text + bare.bytes, rest->bytes - bare.bytes};
    *name = es_name_text_bare(es_piece_trim(bare));
    return ES_STATUS_OK;
}

// Take the arguments and the closing bracket; *rest begins behind the opening one.
static EsStatus take_arguments(const EsTextLines *lines, EsPiece *rest, EsAtomText *atom) {
    const char *open = rest->text - 1, *inside = rest->text;
    static const char *const places[ES_KG_MAX_ARITY] = {"first argument", "second argument",
                                                        "third argument", "fourth argument"};
    EsNameText unused;
    EsExcerpt excerpt;
    int n_arguments = 0;
    for (;;) {
        ES_TRY(take_argument(lines, rest, atom,
                             n_arguments < ES_KG_MAX_ARITY ? &atom->terms[n_arguments] : &unused));
        n_arguments++;
        *rest = es_piece_skip_blanks(*rest);
        if (rest->bytes == 0) {
            return ES_LINE_FAIL(lines, open, "the bracket of %s is never closed",
                                es_text_excerpt(atom->predicate.inside, excerpt));
        }
        char byte = rest->text[0];
        *rest = (EsPiece){rest->text + 1, rest->bytes - 1};
        if (byte == ')') {
            break;
        }
    }
    if (n_arguments > ES_KG_MAX_ARITY) {
        return ES_LINE_FAIL(lines, inside, "%s has %d arguments, at most %d are allowed",
                            es_text_excerpt(atom->predicate.inside, excerpt), n_arguments,
                            ES_KG_MAX_ARITY);
    }
    // predicate() has none
    int is_empty = n_arguments == 1 && atom->terms[0].whole.bytes == 0;
    atom->n_terms = is_empty ? 0 : n_arguments;
    for (int i = 0; i < atom->n_terms; i++) {
        ES_TRY(es_text_check_name(lines, atom->terms[i], places[i]));
    }
    return ES_STATUS_OK;
}

// Take the predicate, up to its opening bracket.
static EsStatus take_predicate(const EsTextLines *lines, EsPiece *rest, EsNameText *predicate) {
    EsPiece piece = *rest;
    if (is_quote(piece.text[0]) && es_text_take_quoted(rest, "(", predicate)) {
        *rest = es_piece_skip_blanks(*rest);
        if (rest->bytes > 0 && rest->text[0] == '(') {
            return es_text_check_name(lines, *predicate, "predicate");
        }
        *rest = piece;
    }
    const char *open = memchr(piece.text, '(', piece.bytes);
    ES_ASSERT(open != NULL);
    EsPiece bare = {piece.text, (size_t)(open - piece.text)};
    *predicate = es_name_text_bare(es_piece_trim(bare));
    ES_TRY(es_text_check_name(lines, *predicate, "predicate"));
    for (const char *byte = piece.text; byte < open; byte++) {
        if (*byte == ',' || *byte == ')') {
            return ES_LINE_FAIL(lines, byte, "'%c' where a predicate is expected", *byte);
        }
    }
    *rest = (EsPiece){open, piece.bytes - bare.bytes};
    return ES_STATUS_OK;
}

// Take a predicate without brackets, up to a blank or the end, less a period there.
static EsStatus take_bare_predicate(const EsTextLines *lines, EsPiece *rest,
                                    EsNameText *predicate) {
    EsPiece bare = {rest->text, 0};
    if (!is_quote(rest->text[0]) || !es_text_take_quoted(rest, ".", predicate)) {
        while (bare.bytes < rest->bytes && !is_blank(bare.text[bare.bytes])) {
            bare.bytes++;
        }
        int is_last = bare.bytes == rest->bytes;
        bare.bytes -= is_last && bare.bytes > 1 && bare.text[bare.bytes - 1] == '.';
        *rest = (EsPiece){rest->text + bare.bytes, rest->bytes - bare.bytes};
        *predicate = es_name_text_bare(bare);
        size_t n_plain = bytes_before(bare, ",)");
        if (n_plain < bare.bytes) {
            return ES_LINE_FAIL(lines, bare.text + n_plain, "'%c' where a predicate is expected",
                                bare.text[n_plain]);
        }
        if (es_kg_looks_variable(bare.text, bare.bytes)) {
            EsExcerpt excerpt;
            return ES_LINE_FAIL(lines, bare.text,
                                "%s where an atom is expected; without arguments a predicate that "
                                "looks like a variable needs quotes",
                                es_text_excerpt(bare, excerpt));
        }
    }
    return es_text_check_name(lines, *predicate, "predicate");
}

// Returns whether the predicate at the front has a bracket: behind its quotes, or anywhere in what
// follows when it has none.
static int has_bracket(EsPiece piece) {
    EsNameText unused;
    if (is_quote(piece.text[0]) && es_text_take_quoted(&piece, "(.", &unused)) {
        piece = es_piece_skip_blanks(piece);
        return piece.bytes > 0 && piece.text[0] == '(';
    }
    return memchr(piece.text, '(', piece.bytes) != NULL;
}

// Take a name without quotes, blanks and brackets up to `end` from *at; 0 where it is another kind
// of name, or the byte behind it is another.
static int take_plain_name(const char **at, const char *stop, EsNameText *name) {
    const char *begin = *at, *end = begin;
    while (end < stop && !is_special[(unsigned char)*end]) {
        end++;
    }
    size_t bytes = (size_t)(end - begin);
    *name = es_name_text_bare((EsPiece){begin, bytes});
    *at = end;
    return end < stop && bytes > 0 && bytes <= ES_KG_MAX_NAME_BYTES && !is_quote(*begin);
}

// Take an atom of plain names without blanks, as nearly all are; 0 is returned and nothing taken
// where it is none, for the whole parser to read or to refuse.
static int take_plain_atom(EsPiece *rest, EsAtomText *atom) {
    const char *at = rest->text, *stop = at + rest->bytes;
    if (!take_plain_name(&at, stop, &atom->predicate) || *at != '(') {
        return 0;
    }
    for (atom->n_terms = 0; *at != ')';) {
        at++;
        if (atom->n_terms == ES_KG_MAX_ARITY ||
            !take_plain_name(&at, stop, &atom->terms[atom->n_terms++]) ||
            (*at != ',' && *at != ')')) {
            return 0;
        }
    }
    *rest = (EsPiece){at + 1, (size_t)(stop - at - 1)};
    return 1;
}

EsStatus es_text_take_atom(const EsTextLines *lines, EsPiece *rest, EsAtomText *atom) {
    *rest = es_piece_skip_blanks(*rest);
    if (take_plain_atom(rest, atom)) {
        return es_text_check_predicate(lines, atom->predicate);
    }
    if (rest->bytes == 0) {
        return ES_LINE_FAIL(lines, rest->text, "%s",
                            "the line ends where an atom is expected, "
                            "predicate(a,b)");
    }
    if (!has_bracket(*rest)) {
        atom->n_terms = 0;
        ES_TRY(take_bare_predicate(lines, rest, &atom->predicate));
        return es_text_check_predicate(lines, atom->predicate);
    }
    ES_TRY(take_predicate(lines, rest, &atom->predicate));
    ES_TRY(es_text_check_predicate(lines, atom->predicate));
    *rest = (EsPiece){rest->text + 1, rest->bytes - 1};
    return take_arguments(lines, rest, atom);
}

// --- literals ---

EsPiece es_piece_cut_front(EsPiece piece, size_t bytes) {
    return (EsPiece){piece.text + bytes, piece.bytes - bytes};
}

int es_piece_starts_with(EsPiece piece, const char *text) {
    return piece.bytes >= strlen(text) && memcmp(piece.text, text, strlen(text)) == 0;
}

static int starts_with_arrow(EsPiece piece) { return es_piece_starts_with(piece, "->"); }

// The comparison that stands at the front, the longest that fits.
static EsKgTest test_at(EsPiece piece) {
    EsKgTest found = ES_KG_NO_TEST;
    for (int test = ES_KG_NOT_EQUAL; test < ES_KG_NEGATION; test++) {
        if (es_piece_starts_with(piece, es_kg_test_names[test]) &&
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
            rest = es_piece_cut_front(rest, 1);
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
        *rest = es_piece_cut_front(*rest, 1);
        bare.bytes++;
    }
    if (rest->bytes == 0 && bare.bytes > 0 && bare.text[bare.bytes - 1] == '.') {
        *rest = (EsPiece){rest->text - 1, 1};
        bare.bytes--;
    }
    *name = es_name_text_bare(bare);
    return es_text_check_name(lines, *name, "term of a comparison");
}

int es_name_text_is_variable(EsNameText name) {
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
        !es_name_text_is_variable(literal->atom.terms[0])) {
        // a predicate without arguments
        literal->atom.predicate = literal->atom.terms[0];
        literal->atom.n_terms = 0;
        return es_text_check_predicate(lines, literal->atom.predicate);
    }
    if (literal->test == ES_KG_NO_TEST && ends_atom(*rest)) {
        return ES_LINE_FAIL(lines, begin.text,
                            "%s alone looks like a variable; a predicate of that name without "
                            "arguments needs quotes",
                            es_text_excerpt(literal->atom.terms[0].inside, excerpt));
    }
    if (literal->test == ES_KG_NO_TEST) {
        return ES_LINE_FAIL(lines, begin.text,
                            "%s is neither an atom predicate(a,b) nor a comparison by !=, <, <=, > "
                            "or >=",
                            es_text_excerpt(begin, excerpt));
    }
    *rest = es_piece_cut_front(*rest, strlen(es_kg_test_names[literal->test]));
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
        piece = es_piece_cut_front(piece, 1);
        name.inside.bytes++;
    }
    return name.inside.bytes > 0 && !es_name_text_is_variable(name) &&
           ends_atom(es_piece_skip_blanks(piece));
}

// Take "not" or \+ off the front of an atom; 0 is returned where neither stands.
static int take_negation(EsPiece *rest) {
    int is_word =
        es_piece_starts_with(*rest, "not") && rest->bytes > 3 && is_any_of(rest->text[3], " \t");
    if (!is_word && !es_piece_starts_with(*rest, "\\+")) {
        return 0;
    }
    EsPiece atom = es_piece_skip_blanks(es_piece_cut_front(*rest, is_word ? 3 : 2));
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
    // a period is the end, unless more follows
    int is_end = rest->bytes == 1 && rest->text[0] == '.';
    if (is_end || (rest->bytes > 0 && is_any_of(rest->text[0], ",()"))) {
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

// --- into a builder ---

EsStatus es_text_intern(EsKgBuilder *builder, EsKgNameKind kind, EsNameText name, int32_t *number) {
    if (!name.is_quoted) {
        return es_kg_builder_intern(builder, kind, name.inside.text, name.inside.bytes, number);
    }
    char text[ES_KG_MAX_NAME_BYTES];
    size_t bytes = es_name_text_copy(name, text, sizeof text);
    return es_kg_builder_intern(builder, kind, text, bytes, number);
}

EsStatus es_text_intern_predicate(const EsTextLines *lines, EsKgBuilder *builder,
                                  const EsAtomText *atom, int is_negated, int32_t *number) {
    char text[ES_KG_MAX_NAME_BYTES];
    int32_t predicate;
    if (is_negated) {
        size_t bytes = es_name_text_copy(atom->predicate, text, sizeof text);
        ES_TRY(
            es_kg_builder_intern_negation(builder, text, bytes, atom->n_terms, number, &predicate));
    } else {
        ES_TRY(es_text_intern(builder, ES_KG_PREDICATE, atom->predicate, &predicate));
        *number = predicate;
    }
    int arity = es_kg_builder_claim_arity(builder, predicate, atom->n_terms);
    if (arity != atom->n_terms) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, atom->predicate.whole.text,
                            "%s has %d argument%s here and %d before; a predicate has one number "
                            "of arguments",
                            es_text_excerpt(atom->predicate.inside, excerpt), atom->n_terms,
                            atom->n_terms == 1 ? "" : "s", arity);
    }
    return ES_STATUS_OK;
}

EsStatus es_text_intern_atom(const EsTextLines *lines, EsKgBuilder *builder,
                             const EsAtomText *spelt, EsWideAtom *atom) {
    int32_t predicate, terms[ES_KG_MAX_ARITY];
    ES_TRY(es_text_intern_predicate(lines, builder, spelt, 0, &predicate));
    for (int i = 0; i < spelt->n_terms; i++) {
        ES_TRY(es_text_intern(builder, ES_KG_CONSTANT, spelt->terms[i], &terms[i]));
    }
    *atom = es_wide_atom_make(predicate, terms, spelt->n_terms);
    return ES_STATUS_OK;
}

// --- writing ---

void es_text_out_add(EsTextOut *out, const char *bytes, size_t count) {
    size_t room = out->length + 1 < out->bytes ? out->bytes - 1 - out->length : 0;
    if (room > 0) {
        memcpy(out->at + out->length, bytes, ES_MIN(count, room));
    }
    out->length += count;
}

void es_text_out_add_text(EsTextOut *out, const char *text) {
    es_text_out_add(out, text, strlen(text));
}

void es_text_out_add_quoted(EsTextOut *out, const char *name) {
    es_text_out_add(out, "'", 1);
    for (; *name != '\0'; name++) {
        es_text_out_add(out, "\\", *name == '\'' || *name == '\\');
        es_text_out_add(out, name, 1);
    }
    es_text_out_add(out, "'", 1);
}

int es_text_out_end(EsTextOut *out) {
    if (out->bytes > 0) {
        out->at[ES_MIN(out->length, out->bytes - 1)] = '\0';
    }
    return (int)out->length;
}
