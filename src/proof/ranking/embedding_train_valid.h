// How well an embedding model ranks the queries of the split VALID, to know when to stop training.
//
// Each query is ranked on both sides against all constants but those that make a fact or another
// query of VALID; the split TEST is not looked at. Evaluation of a finished model, with chosen
// corruptions and all known atoms, is another matter (ranking.h).
#ifndef ES_PROOF_EMBEDDING_TRAIN_VALID_H
#define ES_PROOF_EMBEDDING_TRAIN_VALID_H

#include "base/thread_pool.h"
#include "proof/ranking/embedding_model.h"

ES_EXTERN_C_BEGIN

typedef struct EsEmbeddingValid EsEmbeddingValid;

// `count` queries, evenly spaced; 0: all. The graph is borrowed.
EsStatus es_embedding_valid_create(const EsKnowledgeGraph *graph, int32_t count, int n_threads,
                                   EsEmbeddingValid **valid);
void es_embedding_valid_destroy(EsEmbeddingValid *valid);

// The mean reciprocal rank, both sides, ties by expectation; NaN without queries. The pool has
// n_threads; the result does not depend on how many.
double es_embedding_valid_mrr(EsEmbeddingValid *valid, const EsEmbeddingModel *model,
                              EsThreadPool *pool);

ES_EXTERN_C_END

#endif
