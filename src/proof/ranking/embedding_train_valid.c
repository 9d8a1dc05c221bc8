// C constants.
#include "proof/ranking/embedding_train_valid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/ranking/ranking.h"

struct EsEmbeddingValid {
    const EsKnowledgeGraph *graph; // borrowed
    const EsEmbeddingModel *model; // borrowed during es_embedding_valid_mrr
    EsAtom *sorted;                // the whole split, for membership                 (n_sorted)
    int32_t n_sorted, n_queries;
    double *reciprocals; // of each query and side                               (n_queries x 2)
    float *scores;       // of each thread                                       (n_threads x C)
};

EsStatus es_embedding_valid_create(const EsKnowledgeGraph *graph, int32_t count, int n_threads,
                                   EsEmbeddingValid **valid) {
    *valid = NULL;
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_VALID];
    size_t n_all = (size_t)split->count, C = (size_t)graph->n_constants;
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsEmbeddingValid), &memory));
    EsEmbeddingValid *made = memory;
    made->graph = graph;
    made->n_sorted = split->count;
    made->n_queries = count == 0 ? split->count : ES_MIN(count, split->count);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(ES_MAX(n_all, 1) * sizeof(EsAtom), &memory));
    made->sorted = memory;
    ES_TRY_GOTO(es_allocate(ES_MAX(n_all, 1) * 2 * sizeof(double), &memory));
    made->reciprocals = memory;
    ES_TRY_GOTO(es_allocate((size_t)n_threads * ES_MAX(C, 1) * sizeof(float), &memory));
    made->scores = memory;
    if (n_all > 0) {
        memcpy(made->sorted, split->atoms, n_all * sizeof(EsAtom));
        qsort(made->sorted, n_all, sizeof(EsAtom), es_atom_compare);
    }
    *valid = made;
    made = NULL;
done:
    es_embedding_valid_destroy(made);
    return status;
}

void es_embedding_valid_destroy(EsEmbeddingValid *valid) {
    if (valid != NULL) {
        es_release(valid->sorted);
        es_release(valid->reciprocals);
        es_release(valid->scores);
        es_release(valid);
    }
}

static int is_known(const EsEmbeddingValid *valid, EsAtom atom) {
    return es_kg_has_fact(valid->graph, atom) ||
           bsearch(&atom, valid->sorted, (size_t)valid->n_sorted, sizeof atom, es_atom_compare) !=
               NULL;
}

// piece = (query, side)
static void rank_query(void *context, int64_t piece, int worker) {
    EsEmbeddingValid *valid = context;
    const EsQuerySplit *split = &valid->graph->splits[ES_KG_SPLIT_VALID];
    EsCorruptSide side = piece % 2 == 0 ? ES_CORRUPT_HEAD : ES_CORRUPT_TAIL;
    EsAtom query = split->atoms[piece / 2 * split->count / valid->n_queries];
    int32_t C = valid->graph->n_constants;
    float *score = valid->scores + (size_t)worker * (size_t)C;
    es_embedding_model_score_all(valid->model, side, query, score);
    int32_t answer = side == ES_CORRUPT_HEAD ? query.a : query.b;
    int32_t n_better = 0, n_equal = 0;
    for (int32_t c = 1; c <= C; c++) {
        EsAtom atom = query;
        *(side == ES_CORRUPT_HEAD ? &atom.a : &atom.b) = c;
        if (c != answer && score[c - 1] >= score[answer - 1] && !is_known(valid, atom)) {
            n_better += score[c - 1] > score[answer - 1];
            n_equal += !(score[c - 1] > score[answer - 1]);
        }
    }
    valid->reciprocals[piece] = es_expected_reciprocal(n_better, n_equal);
}

double es_embedding_valid_mrr(EsEmbeddingValid *valid, const EsEmbeddingModel *model,
                              EsThreadPool *pool) {
    if (valid->n_queries == 0) {
        return NAN;
    }
    valid->model = model;
    int64_t n = 2 * (int64_t)valid->n_queries;
    es_thread_pool_run(pool, n, rank_query, valid);
    valid->model = NULL;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += valid->reciprocals[i];
    }
    return sum / (double)n;
}
