// One step of training an embedding model: the loss of a batch of questions, its gradient, and the
// update by Adagrad.
//
// A question is a row of the relations and a given term; its answer is a constant. The loss is the
// mean over the batch of the cross entropy of the answer against the candidates, plus the
// regularisation N3: regularisation / B times the sum of |z|^3 over all complex numbers z of the
// three vectors of every question (Lacroix, Usunier, Obozinski, 2018). Candidates are all
// constants, or a sample of N that the whole batch shares. Then the answer stands beside the
// sample, a candidate that is the answer is left out, and the others' scores are raised by
// log((C-1)/N), so that the sum of their exponentials estimates that over all constants.
//
// The gradient of a row is a list of terms (one per question it occurs in, one as candidate), added
// in the order of the batch by the thread that updates the row: no sum depends on the number of
// threads.
#ifndef ES_PROOF_EMBEDDING_TRAIN_BATCH_H
#define ES_PROOF_EMBEDDING_TRAIN_BATCH_H

#include "proof/ranking/embedding_model.h"
#include "tensor/device.h"

ES_EXTERN_C_BEGIN

typedef struct EsEmbeddingQuestion {
    int32_t row;    // of the model's relations
    int32_t term;   // constant that is given
    int32_t answer; // constant
} EsEmbeddingQuestion;

typedef struct EsEmbeddingBatchSizes {
    int32_t n_questions;  // at most, per batch
    int32_t n_candidates; // sampled; 0: all constants
} EsEmbeddingBatchSizes;

typedef struct EsEmbeddingBatch EsEmbeddingBatch;

// Scratch memory and the optimiser's state. `stream` of a CPU device and `model` are borrowed.
EsStatus es_embedding_batch_create(EsEmbeddingModel *model, EsStream *stream,
                                   EsEmbeddingBatchSizes sizes, EsEmbeddingBatch **batch);
void es_embedding_batch_destroy(EsEmbeddingBatch *batch);

// The loss of n >= 1 questions; the terms of its gradient stay in the batch. `candidates` are as
// many distinct constants as the sizes say, NULL for all.
double es_embedding_batch_loss(EsEmbeddingBatch *batch, const EsEmbeddingQuestion *questions,
                               int32_t n, const int32_t *candidates, float regularisation);

// Adagrad with the last loss's gradient: s += g^2, x -= learning_rate g / (sqrt(s) + 1e-10), on the
// rows that have one.
void es_embedding_batch_update(EsEmbeddingBatch *batch, float learning_rate);

// The last loss's gradient in full, for tests: d_constants (C x W), d_relations (2 P x W).
void es_embedding_batch_gradient(EsEmbeddingBatch *batch, float *d_constants, float *d_relations);

ES_EXTERN_C_END

#endif
