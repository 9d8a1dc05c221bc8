// The reader of facts and queries, one atom per line. With a pool a text is cut at line ends into a
// part per thread, each of which is read into a builder of its own; these are then put together in
// order. Where anything is wrong the text is read again by one thread, which finds the first
// mistake, with its line, as if there had been no parts.
#include <string.h>

#include "base/first_error.h"
#include "base/memory.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/text_line.h"

// --- one line ---

// "predicate(a,b)", with a period or not, or "predicate." with it.
static EsStatus parse_fact(const EsTextLines *lines, EsPiece line, EsAtomText *atom) {
    EsPiece rest = line;
    ES_TRY(es_text_take_atom(lines, &rest, atom));
    rest = es_piece_skip_blanks(rest);
    EsExcerpt excerpt;
    // text of another kind is not a list of predicates without arguments
    if (memchr(line.text, '(', line.bytes) == NULL && !(rest.bytes == 1 && rest.text[0] == '.')) {
        return ES_LINE_FAIL(lines, line.text,
                            "no opening bracket in %s, expected predicate(a,b), or a period behind "
                            "a predicate without arguments",
                            es_text_excerpt(line, excerpt));
    }
    if (rest.bytes > 1 || (rest.bytes == 1 && rest.text[0] != '.')) {
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
    *atom = (EsAtomText){es_name_text_bare(columns[1]),
                         {es_name_text_bare(columns[0]), es_name_text_bare(columns[2])},
                         2};
    ES_TRY(check_column(lines, columns[0], "head"));
    ES_TRY(check_column(lines, columns[1], "relation"));
    ES_TRY(es_text_check_predicate(lines, atom->predicate));
    return check_column(lines, columns[2], "tail");
}

static int starts_with_quote(EsPiece piece) {
    return piece.bytes > 0 && strchr("'\"", piece.text[0]) != NULL;
}

static void take_byte(EsPiece *rest) { *rest = (EsPiece){rest->text + 1, rest->bytes - 1}; }

// Take arguments with their brackets from the front of *rest; else 0 is returned and nothing is
// taken. A quote opens a name at the beginning of an argument alone.
static int take_brackets(EsPiece *rest) {
    EsPiece at = *rest;
    EsNameText unused;
    while (at.bytes > 0) {
        char byte = at.text[0];
        take_byte(&at);
        if (byte == ')') {
            *rest = at;
            return 1;
        }
        EsPiece argument = es_piece_skip_blanks(at);
        if ((byte == '(' || byte == ',') && starts_with_quote(argument) &&
            es_text_take_quoted(&argument, ",)", &unused)) {
            at = argument;
        }
    }
    return 0;
}

// Returns whether a line has a tab outside of a quoted predicate and of brackets that are closed.
static int has_columns_in(EsPiece line) {
    EsPiece rest = line;
    EsNameText unused;
    if (starts_with_quote(rest)) {
        es_text_take_quoted(&rest, "(", &unused);
    }
    while (rest.bytes > 0 && rest.text[0] != '\t') {
        if (rest.text[0] != '(') {
            take_byte(&rest);
        } else if (!take_brackets(&rest)) {
            // no atom, whatever follows
            return memchr(rest.text, '\t', rest.bytes) != NULL;
        }
    }
    return rest.bytes > 0;
}

// Checks whether the first line that holds an atom is one of columns.
static EsStatus find_format(const char *name, const char *text, size_t bytes, int *has_columns) {
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsPiece line;
    int is_there;
    *has_columns = 0;
    do {
        ES_TRY(es_text_lines_next(&lines, &line, &is_there));
    } while (is_there && line.text[0] == '%');
    *has_columns = is_there && has_columns_in(line);
    return ES_STATUS_OK;
}

// --- lines on one thread ---

// At most as many lines hold an atom.
static int64_t count_lines(const EsTextLines *lines) {
    int64_t count = 0;
    for (const char *at = lines->next; at != NULL && at < lines->end; count++) {
        at = memchr(at, '\n', (size_t)(lines->end - at));
        at = at != NULL ? at + 1 : NULL;
    }
    return count;
}

// blank lines are not to cost memory
#define MAX_RESERVED ((int64_t)1 << 26)

// An atom that is cut out and not yet numbered, with its line.
typedef struct PendingAtom {
    EsTextLines lines;
    EsAtomText spelt;
} PendingAtom;

// Atoms that are cut out before the first is numbered: meanwhile the places of their names in the
// builder are fetched, which are rarely in a cache.
#define MAX_PENDING 16

// Cut out the next atoms; *count are well formed before a line that is not, or before the end.
static EsStatus take_pending(const EsKgBuilder *builder, EsTextLines *lines, int has_columns,
                             PendingAtom *pending, int *count) {
    *count = 0;
    while (*count < MAX_PENDING) {
        EsPiece line;
        int is_there;
        ES_TRY(es_text_lines_next(lines, &line, &is_there));
        if (!is_there) {
            return ES_STATUS_OK;
        }
        if (!has_columns && line.text[0] == '%') {
            continue;
        }
        EsAtomText *spelt = &pending[*count].spelt;
        ES_TRY(has_columns ? parse_columns(lines, line, spelt) : parse_fact(lines, line, spelt));
        for (int i = 0; i < spelt->n_terms; i++) {
            es_kg_builder_prefetch(builder, ES_KG_CONSTANT, spelt->terms[i].inside.text,
                                   spelt->terms[i].inside.bytes);
        }
        pending[(*count)++].lines = *lines;
    }
    return ES_STATUS_OK;
}

static EsStatus read_lines(EsKgBuilder *builder, EsKgSplit split, EsTextLines lines,
                           int has_columns, int32_t *n_read) {
    PendingAtom pending[MAX_PENDING];
    int count;
    *n_read = 0;
    ES_TRY(es_kg_builder_reserve(builder, split, ES_MIN(count_lines(&lines), MAX_RESERVED)));
    do {
        EsStatus status = take_pending(builder, &lines, has_columns, pending, &count);
        for (int i = 0; i < count; i++) {
            EsWideAtom atom;
            ES_TRY(es_text_intern_atom(&pending[i].lines, builder, &pending[i].spelt, &atom));
            ES_TRY(es_kg_builder_add_query(builder, split, atom.cells));
            if (split == ES_KG_SPLIT_TRAIN) {
                ES_TRY(es_kg_builder_add_fact(builder, atom.cells));
            }
            (*n_read)++;
        }
        // behind the lines before it, which may have a mistake of their own
        ES_TRY(status);
    } while (count == MAX_PENDING);
    return ES_STATUS_OK;
}

// --- lines on many threads ---

// a smaller part is not worth a thread
#define MIN_PART_BYTES 4096

typedef struct TextChunk {
    EsTextLines lines;
    EsKgSplit split;
    int has_columns;
    EsKgBuilder *builder; // owned
    int32_t n_read;
    EsFirstError error;
} TextChunk;

static void read_chunk(void *context, int64_t i, int worker) {
    (void)worker;
    TextChunk *part = (TextChunk *)context + i;
    EsStatus status = es_kg_builder_create(&part->builder);
    if (status == ES_STATUS_OK) {
        status =
            read_lines(part->builder, part->split, part->lines, part->has_columns, &part->n_read);
    }
    es_first_error_capture(&part->error, status);
}

static void cut_lines(EsTextLines lines, int n_parts, TextChunk *parts) {
    const char *begin = lines.next, *end = lines.end;
    size_t bytes = (size_t)(end - begin);
    for (int i = 0; i < n_parts; i++) {
        const char *stop = ES_MAX(lines.next, begin + bytes / (size_t)n_parts * (size_t)(i + 1));
        const char *feed = i + 1 < n_parts ? memchr(stop, '\n', (size_t)(end - stop)) : NULL;
        lines.end = feed != NULL ? feed + 1 : end;
        parts[i].lines = lines;
        lines.next = lines.end;
    }
}

// Put the parts together. *is_whole is 0, and the builder is as it was, where one has a mistake.
static EsStatus join_parts(EsKgBuilder *builder, const TextChunk *parts, int n_parts,
                           int32_t *n_read, int *is_whole) {
    EsKgBuilder **pieces = NULL;
    *is_whole = 0;
    for (int i = 0; i < n_parts; i++) {
        if (parts[i].error.status != ES_STATUS_OK) {
            return parts[i].error.status == ES_STATUS_INPUT
                       ? ES_STATUS_OK
                       : es_first_error_rethrow(&parts[i].error);
        }
        *n_read += parts[i].n_read;
    }
    ES_TRY(es_allocate((size_t)n_parts * sizeof(EsKgBuilder *), (void **)&pieces));
    for (int i = 0; i < n_parts; i++) {
        pieces[i] = parts[i].builder;
    }
    EsStatus status = es_kg_builder_absorb(builder, pieces, n_parts, is_whole);
    es_release(pieces);
    return status;
}

static EsStatus read_parts(EsKgBuilder *builder, EsKgSplit split, EsTextLines lines,
                           int has_columns, int n_parts, int32_t *n_read, int *is_whole) {
    TextChunk *parts = NULL;
    ES_TRY(es_allocate((size_t)n_parts * sizeof *parts, (void **)&parts));
    for (int i = 0; i < n_parts; i++) {
        parts[i].split = split;
        parts[i].has_columns = has_columns;
    }
    cut_lines(lines, n_parts, parts);
    es_thread_pool_run(es_kg_builder_pool(builder), n_parts, read_chunk, parts);
    EsStatus status = join_parts(builder, parts, n_parts, n_read, is_whole);
    for (int i = 0; i < n_parts; i++) {
        es_kg_builder_destroy(parts[i].builder);
    }
    es_release(parts);
    return status;
}

EsStatus es_kg_text_read_triples(EsKgBuilder *builder, EsKgSplit split, const char *name,
                                 const char *text, size_t bytes, int32_t *n_read) {
    *n_read = 0;
    int has_columns, is_whole = 0;
    ES_TRY(find_format(name, text, bytes, &has_columns));
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    int n_threads = es_thread_pool_size(es_kg_builder_pool(builder));
    int n_parts = (int)ES_MIN((size_t)n_threads, bytes / MIN_PART_BYTES);
    if (n_parts > 1) {
        ES_TRY(read_parts(builder, split, lines, has_columns, n_parts, n_read, &is_whole));
    }
    return is_whole ? ES_STATUS_OK : read_lines(builder, split, lines, has_columns, n_read);
}
