// Each line is parsed whole before it is filtered, so that a damaged line is an error at any score
// and rank. Queries of valid and test are found in one sorted list.
#include "proof/graph/soft_facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/text_line.h"

typedef struct SoftLine {
    EsAtomText atom;
    double score;
    int64_t rank;
} SoftLine;

// Take one number from the front of *rest.
static EsStatus take_number(const EsTextLines *lines, EsPiece *rest, const char *what,
                            double *value) {
    *rest = es_piece_skip_blanks(*rest);
    EsPiece word = {rest->text, 0};
    while (word.bytes < rest->bytes && strchr(" \t", word.text[word.bytes]) == NULL) {
        word.bytes++;
    }
    char number[64] = "", *stop = number;
    if (word.bytes < sizeof number) {
        memcpy(number, word.text, word.bytes);
        number[word.bytes] = '\0';
        *value = strtod(number, &stop);
    }
    if (stop == number || *stop != '\0' || !isfinite(*value)) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, word.text, "the %s %s is not a number", what,
                            es_text_excerpt(word, excerpt));
    }
    *rest = (EsPiece){word.text + word.bytes, rest->bytes - word.bytes};
    return ES_STATUS_OK;
}

static EsStatus parse_line(const EsTextLines *lines, EsPiece line, SoftLine *soft) {
    EsPiece rest = line;
    double rank;
    ES_TRY(es_text_take_atom(lines, &rest, &soft->atom));
    ES_TRY(take_number(lines, &rest, "score", &soft->score));
    const char *rank_text = es_piece_skip_blanks(rest).text;
    ES_TRY(take_number(lines, &rest, "rank", &rank));
    if (rank < 1 || rank > 1e15 || rank != floor(rank)) {
        return ES_LINE_FAIL(lines, rank_text, "the rank is %g, expected a whole number from 1",
                            rank);
    }
    soft->rank = (int64_t)rank;
    rest = es_piece_skip_blanks(rest);
    if (rest.bytes > 0) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, rest.text, "%s after the rank", es_text_excerpt(rest, excerpt));
    }
    return ES_STATUS_OK;
}

// Queries of valid and test, sorted.
static EsStatus list_queries(const EsKnowledgeGraph *graph, EsAtom **atoms, size_t *count) {
    const EsQuerySplit *valid = &graph->splits[ES_KG_SPLIT_VALID];
    const EsQuerySplit *test = &graph->splits[ES_KG_SPLIT_TEST];
    size_t n_valid = (size_t)valid->count, n_test = (size_t)test->count;
    ES_TRY(es_allocate((n_valid + n_test + 1) * sizeof **atoms, (void **)atoms));
    if (n_valid > 0) {
        memcpy(*atoms, valid->atoms, n_valid * sizeof **atoms);
    }
    if (n_test > 0) {
        memcpy(*atoms + n_valid, test->atoms, n_test * sizeof **atoms);
    }
    *count = n_valid + n_test;
    qsort(*atoms, *count, sizeof **atoms, es_atom_compare);
    return ES_STATUS_OK;
}

static EsStatus add_atom(EsKgBuilder *builder, const EsKnowledgeGraph *graph, const SoftLine *soft,
                         const EsAtom *queries, size_t n_queries, EsSoftCounts *counts) {
    EsAtom atom;
    const struct {
        EsNameText name;
        EsKgNameKind kind;
        int32_t *number;
    } parts[] = {{soft->atom.predicate, ES_KG_PREDICATE, &atom.predicate},
                 {soft->atom.a, ES_KG_CONSTANT, &atom.a},
                 {soft->atom.b, ES_KG_CONSTANT, &atom.b}};
    for (size_t i = 0; i < ES_COUNT_OF(parts); i++) {
        char text[ES_KG_MAX_NAME_BYTES];
        size_t bytes = es_name_text_copy(parts[i].name, text, sizeof text);
        ES_TRY(es_kg_builder_intern(builder, parts[i].kind, text, bytes, parts[i].number));
    }
    if (bsearch(&atom, queries, n_queries, sizeof atom, es_atom_compare) != NULL) {
        counts->n_queries++;
        return ES_STATUS_OK;
    }
    // numbers beyond those of the graph are names that it does not have
    if (atom.predicate <= graph->n_predicates && atom.a <= graph->n_constants &&
        atom.b <= graph->n_constants && es_kg_has_fact(graph, atom)) {
        counts->n_known++;
        return ES_STATUS_OK;
    }
    counts->n_added++;
    return es_kg_builder_add_fact(builder, atom);
}

EsStatus es_soft_facts_read(EsKgBuilder *builder, const EsKnowledgeGraph *graph,
                            const EsSoftFilter *filter, const char *name, const char *text,
                            size_t bytes, EsSoftCounts *counts) {
    memset(counts, 0, sizeof *counts);
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsAtom *queries = NULL;
    size_t n_queries;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(list_queries(graph, &queries, &n_queries));
    for (;;) {
        EsPiece line;
        int is_there;
        SoftLine soft;
        ES_TRY_GOTO(es_text_lines_next(&lines, &line, &is_there));
        if (!is_there) {
            break;
        }
        if (line.text[0] == '#' || line.text[0] == '%') {
            continue;
        }
        ES_TRY_GOTO(parse_line(&lines, line, &soft));
        counts->n_read++;
        if (soft.score < filter->min_score ||
            (filter->max_rank > 0 && soft.rank > filter->max_rank)) {
            counts->n_filtered++;
            continue;
        }
        ES_TRY_GOTO(add_atom(builder, graph, &soft, queries, n_queries, counts));
    }
done:
    es_release(queries);
    return status;
}
