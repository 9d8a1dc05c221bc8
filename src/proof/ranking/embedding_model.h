// An embedding model of a knowledge graph: how plausible an atom is, whether or not it can be
// proved.
//
// ComplEx (Trouillon et al., 2016): every constant and relation is a vector of D complex numbers,
// and the score of p(a,b) is the real part of sum over d of a_d p_d conj(b_d). Relations are there
// twice (Lacroix, Usunier, Obozinski, 2018): one vector asks for b given a, a second, the
// reciprocal, asks for a given b. Callers see the logarithm of a probability, the softmax of
// the scores over all constants at the side that is asked for. The training maximises it, so it is
// calibrated; a sigmoid of a score would not be, because the training leaves
// the scores of a question free up to a constant. Candidates for one question keep the order of
// their scores. Written by the training (embedding_train.h), then only read, by any number of
// threads.
//
//     EsEmbeddingModel *model;
//     ES_TRY(es_embedding_model_load("family.safetensors", graph, &model));
//     es_embedding_model_scores(model, ES_CORRUPT_TAIL, atoms, count, log_probability);
//     es_embedding_model_destroy(model);
#ifndef ES_PROOF_EMBEDDING_MODEL_H
#define ES_PROOF_EMBEDDING_MODEL_H

#include "proof/graph/knowledge_graph.h"
#include "proof/ranking/corruptions.h"

ES_EXTERN_C_BEGIN

// complex numbers per vector: a multiple of the step, so that rows are whole vectors of 16 floats
#define ES_EMBEDDING_DIMENSION_STEP 8
#define ES_EMBEDDING_MAX_DIMENSIONS 1024

// C constants, P predicates, D complex numbers, width W = 2 D: D real parts, then D imaginary ones.
typedef struct EsEmbeddingModel {
    int32_t n_constants, n_predicates, n_dimensions;
    int32_t width;                         // of a row, floats
    float *constants;                      // constant c in row c - 1                    (C x W)
    float *relations;                      // p asked for b in row p - 1, for a in row P + p - 1
                                           //                                           (2 P x W)
    char names_hash[ES_SHA256_TEXT_BYTES]; // of the graph's names, see es_kg_names_hash
} EsEmbeddingModel;

// A model for this graph with all numbers 0. ARGUMENT when n_dimensions is not a multiple of
// ES_EMBEDDING_DIMENSION_STEP from 8 to ES_EMBEDDING_MAX_DIMENSIONS.
EsStatus es_embedding_model_create(const EsKnowledgeGraph *graph, int32_t n_dimensions,
                                   EsEmbeddingModel **model);
// Accepts NULL.
void es_embedding_model_destroy(EsEmbeddingModel *model);

// Natural logarithms of the probability of each atom: of b given p(a,?) with ES_CORRUPT_TAIL, of a
// given p(?,b) with ES_CORRUPT_HEAD. Atoms in a row that ask the same question share its one pass
// over all constants; otherwise each costs one. Allocates nothing.
void es_embedding_model_scores(const EsEmbeddingModel *model, EsCorruptSide side,
                               const EsAtom *atoms, int32_t count, float *log_probability);

// These logarithms less the query's own, for atoms that ask the query's question: the sum
// over all constants cancels, so each costs one product.
void es_embedding_model_ratios(const EsEmbeddingModel *model, EsCorruptSide side, EsAtom query,
                               const EsAtom *atoms, int32_t count, float *log_ratio);

// As es_embedding_model_scores for every constant in the place that `side` asks for; the query's
// own argument there is not read. Constant c at [c - 1] (C).
void es_embedding_model_score_all(const EsEmbeddingModel *model, EsCorruptSide side, EsAtom query,
                                  float *log_probability);

// Safetensors, written atomically; docs/file-formats.md has the names.
EsStatus es_embedding_model_save(const EsEmbeddingModel *model, const char *path);

// INPUT says how the file is damaged, or how it differs from the graph: other sizes, other names.
EsStatus es_embedding_model_load(const char *path, const EsKnowledgeGraph *graph,
                                 EsEmbeddingModel **model);

// --- for the training ---

// The vector that meets the candidates of a question: query[] = term times relation, so that a
// candidate's score is the plain product of query and candidate. `row` of relations, `term` a
// constant (W).
void es_embedding_question(const EsEmbeddingModel *model, int32_t row, int32_t term,
                           float *ES_RESTRICT query);

// The sum of products, in an order that depends on width alone; a multiple of 16.
float es_embedding_dot(const float *ES_RESTRICT x, const float *ES_RESTRICT y, int32_t width);

ES_EXTERN_C_END

#endif
