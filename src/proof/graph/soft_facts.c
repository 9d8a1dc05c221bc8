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
static EsStatus list_queries(const EsKnowledgeGraph *graph, EsWideAtom **atoms, size_t *count) {
    const EsKgSplit splits[] = {ES_KG_SPLIT_VALID, ES_KG_SPLIT_TEST};
    size_t most = (size_t)graph->splits[splits[0]].count + (size_t)graph->splits[splits[1]].count;
    ES_TRY(es_allocate((most + 1) * sizeof **atoms, (void **)atoms));
    *count = 0;
    for (size_t s = 0; s < ES_COUNT_OF(splits); s++) {
        for (int32_t i = 0; i < graph->splits[splits[s]].count; i++) {
            memcpy((*atoms)[(*count)++].cells, es_kg_query(graph, splits[s], i),
                   (size_t)graph->query_cells * sizeof(EsAtom));
        }
    }
    qsort(*atoms, *count, sizeof **atoms, es_wide_atom_compare);
    return ES_STATUS_OK;
}

// Returns whether an atom in a builder's numbers is a fact; numbers beyond those of the graph are
// names that it does not have.
static int is_known(const EsKnowledgeGraph *graph, const EsAtomText *spelt, const EsAtom *atom) {
    for (int i = 0; i < spelt->n_terms; i++) {
        if (es_atom_term(atom, i) > graph->n_constants) {
            return 0;
        }
    }
    return atom->predicate <= graph->n_predicates && es_kg_is_fact(graph, atom);
}

static EsStatus add_atom(EsKgBuilder *builder, const EsTextLines *lines,
                         const EsKnowledgeGraph *graph, const EsAtomText *spelt,
                         const EsWideAtom *queries, size_t n_queries, EsSoftCounts *counts) {
    EsWideAtom atom;
    ES_TRY(es_text_intern_atom(lines, builder, spelt, &atom));
    if (bsearch(&atom, queries, n_queries, sizeof atom, es_wide_atom_compare) != NULL) {
        counts->n_queries++;
        return ES_STATUS_OK;
    }
    if (is_known(graph, spelt, atom.cells)) {
        counts->n_known++;
        return ES_STATUS_OK;
    }
    counts->n_added++;
    return es_kg_builder_add_fact(builder, atom.cells);
}

EsStatus es_soft_facts_read(EsKgBuilder *builder, const EsKnowledgeGraph *graph,
                            const EsSoftFilter *filter, const char *name, const char *text,
                            size_t bytes, EsSoftCounts *counts) {
    memset(counts, 0, sizeof *counts);
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsWideAtom *queries = NULL;
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
        ES_TRY_GOTO(add_atom(builder, &lines, graph, &soft.atom, queries, n_queries, counts));
    }
done:
    es_release(queries);
    return status;
}
