// The text of a question.
#include <ctype.h>
#include <string.h>

#include "base/words.h"
#include "proof/graph/knowledge_text.h"
#include "proof/search/answers.h"

typedef struct Reader {
    const char *text, *at;
} Reader;

typedef struct Name {
    EsPiece piece;
    int is_quoted;
} Name;

#define FAIL_AT(reader, position, format, ...)                                                     \
    ES_FAIL(INPUT, "question, column %zu: " format, (size_t)((position) - (reader)->text) + 1,     \
            __VA_ARGS__)

static void skip_blanks(Reader *reader) { reader->at += strspn(reader->at, " \t\r\n"); }

static EsStatus take_byte(Reader *reader, char wanted, const char *where) {
    skip_blanks(reader);
    if (*reader->at != wanted) {
        EsExcerpt excerpt;
        return FAIL_AT(reader, reader->at, "%s where '%c' is expected %s",
                       *reader->at == '\0'
                           ? "the end"
                           : es_text_excerpt((EsPiece){reader->at, strlen(reader->at)}, excerpt),
                       wanted, where);
    }
    reader->at++;
    return ES_STATUS_OK;
}

// A name in quotes, or up to one of `ends`.
static EsStatus take_name(Reader *reader, const char *ends, const char *what, Name *name) {
    skip_blanks(reader);
    const char *begin = reader->at;
    name->is_quoted = *begin == '"' || *begin == '\'';
    if (name->is_quoted) {
        const char *end = strchr(begin + 1, *begin);
        if (end == NULL) {
            return FAIL_AT(reader, begin, "the quote of the %s is never closed", what);
        }
        name->piece = (EsPiece){begin + 1, (size_t)(end - begin - 1)};
        reader->at = end + 1;
    } else {
        size_t length = strcspn(begin, ends);
        reader->at += length;
        while (length > 0 && isspace((unsigned char)begin[length - 1])) {
            length--;
        }
        name->piece = (EsPiece){begin, length};
    }
    if (name->piece.bytes == 0 || name->piece.bytes > ES_KG_MAX_NAME_BYTES) {
        return FAIL_AT(reader, begin, "the %s has a name of %zu bytes, expected 1 to %d", what,
                       name->piece.bytes, ES_KG_MAX_NAME_BYTES);
    }
    return ES_STATUS_OK;
}

static EsStatus find_number(const Reader *reader, EsPiece piece, const char *what,
                            const char *const *names, int32_t n_names, int32_t *number) {
    char word[ES_KG_MAX_NAME_BYTES + 1];
    memcpy(word, piece.text, piece.bytes);
    word[piece.bytes] = '\0';
    EsSpelling spelling = es_spelling_begin(word);
    for (int32_t i = 1; i <= n_names; i++) {
        if (strcmp(names[i], word) == 0) {
            *number = i;
            return ES_STATUS_OK;
        }
        es_spelling_offer(&spelling, names[i]);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    EsExcerpt excerpt;
    es_text_excerpt(piece, excerpt);
    return nearest != NULL ? FAIL_AT(reader, piece.text, "unknown %s %s; did you mean \"%.100s\"?",
                                     what, excerpt, nearest)
                           : FAIL_AT(reader, piece.text, "unknown %s %s", what, excerpt);
}

static EsStatus number_argument(const EsKnowledgeGraph *graph, const Reader *reader, Name name,
                                EsQuestion *question, int32_t *term) {
    EsPiece piece = name.piece;
    char first = piece.text[0];
    if (name.is_quoted || !(isupper((unsigned char)first) || first == '_' || first == '?')) {
        return find_number(reader, piece, "constant", graph->constant_names, graph->n_constants,
                           term);
    }
    int is_nameless = piece.bytes == 1 && first == '_';
    if (question->n_variables == 1 && !is_nameless &&
        es_piece_equals(question->variables[0], piece)) {
        *term = -1;
        return ES_STATUS_OK;
    }
    question->variables[question->n_variables++] = piece;
    *term = -question->n_variables;
    char word[ES_KG_MAX_NAME_BYTES + 1];
    memcpy(word, piece.text, piece.bytes);
    word[piece.bytes] = '\0';
    int32_t shadowed = es_kg_constant(graph, word);
    question->shadowed = shadowed != 0 ? shadowed : question->shadowed;
    return ES_STATUS_OK;
}

EsStatus es_question_parse(const EsKnowledgeGraph *graph, const char *text, EsQuestion *question) {
    memset(question, 0, sizeof *question);
    Reader reader = {text, text};
    Name predicate, a, b;
    ES_TRY(take_name(&reader, "(", "predicate", &predicate));
    ES_TRY(take_byte(&reader, '(', "after the predicate, as in predicate(a,X)"));
    ES_TRY(take_name(&reader, ",()", "first argument", &a));
    ES_TRY(take_byte(&reader, ',', "between two arguments"));
    ES_TRY(take_name(&reader, ",()", "second argument", &b));
    ES_TRY(take_byte(&reader, ')', "after the second argument"));
    skip_blanks(&reader);
    reader.at += *reader.at == '.';
    skip_blanks(&reader);
    if (*reader.at != '\0') {
        EsExcerpt excerpt;
        return FAIL_AT(&reader, reader.at, "%s after the atom",
                       es_text_excerpt((EsPiece){reader.at, strlen(reader.at)}, excerpt));
    }
    ES_TRY(find_number(&reader, predicate.piece, "predicate", graph->predicate_names,
                       graph->n_predicates, &question->form.predicate));
    ES_TRY(number_argument(graph, &reader, a, question, &question->form.a));
    return number_argument(graph, &reader, b, question, &question->form.b);
}

int es_question_matches(EsAtom form, EsAtom atom) {
    return form.predicate == atom.predicate && (form.a < 0 || form.a == atom.a) &&
           (form.b < 0 || form.b == atom.b) && (form.a > 0 || form.a != form.b || atom.a == atom.b);
}
