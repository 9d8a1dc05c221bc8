// Training of an embedding model on the facts of a graph.
//
// Every fact p(a,b) is two questions, p(a,?) and p(?,b), each answered by cross entropy against all
// constants or a sample of them (embedding_train_batch.h). The queries of the graph are never
// trained on; those of the split VALID say when to stop: at times the model is ranked on them, and
// the caller gets the best one. Everything is a function of graph, settings and seed, for
// any number of threads.
//
//     EsEmbeddingSettings settings = es_embedding_defaults(graph);
//     EsEmbeddingReport report; EsEmbeddingModel *model;
//     ES_TRY(es_embedding_model_train(device, graph, &settings, NULL, NULL, &report, &model));
#ifndef ES_PROOF_EMBEDDING_TRAIN_H
#define ES_PROOF_EMBEDDING_TRAIN_H

#include "proof/ranking/embedding_model.h"
#include "tensor/device.h"

ES_EXTERN_C_BEGIN

typedef struct EsEmbeddingSettings {
    int32_t n_dimensions; // complex numbers per vector, see es_embedding_model_create
    int32_t n_epochs;     // passes over the facts, at most; at least 1
    int32_t batch;        // questions per step, at least 1
    int32_t n_candidates; // sampled per batch; 0: all constants
    float learning_rate;  // of Adagrad, > 0
    float regularisation; // weight of N3, >= 0
    float initial_scale;  // standard deviation of the initial numbers, > 0
    int32_t valid_every;  // epochs between rankings of VALID, at least 1
    int32_t patience;     // rankings without a new best before it stops, at least 1
    int32_t n_valid;      // queries of VALID that are ranked, evenly spaced; 0: all
    uint64_t seed;
} EsEmbeddingSettings;

// State of the training after an epoch.
typedef struct EsEmbeddingReport {
    int32_t epoch;      // epochs done
    double loss;        // mean of the epoch, regularisation included
    double seconds;     // since the start
    int is_ranked;      // valid_mrr is of this epoch
    double valid_mrr;   // filtered by facts and VALID, against all constants; NaN before the first
    double best_mrr;    // NaN before the first, and in a graph without VALID
    int32_t best_epoch; // 0: none ranked; the model is then the last
    int is_stopped;     // the callback asked for it
} EsEmbeddingReport;

// Called after every epoch; a result other than 0 ends the training, which then gives the best
// model so far.
typedef int (*EsEmbeddingProgress)(void *context, const EsEmbeddingReport *report);

// Settings that fit the size of the graph: all constants as candidates up to 8,192 of them.
EsEmbeddingSettings es_embedding_defaults(const EsKnowledgeGraph *graph);

// The device is a CPU, whose pool serves all parts. `progress` is nullable; `report` receives the
// last one. ARGUMENT says which setting is out of
// range, INPUT that the graph has no facts, NUMERIC that the loss is no longer finite.
EsStatus es_embedding_model_train(EsDevice *device, const EsKnowledgeGraph *graph,
                                  const EsEmbeddingSettings *settings, EsEmbeddingProgress progress,
                                  void *context, EsEmbeddingReport *report,
                                  EsEmbeddingModel **model);

ES_EXTERN_C_END

#endif
