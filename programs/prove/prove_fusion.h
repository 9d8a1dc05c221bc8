// The part of `esper prove eval` that adds an embedding model to the proofs: its options, the fit
// of the weights, and their output.
#ifndef ES_PROGRAMS_PROVE_FUSION_H
#define ES_PROGRAMS_PROVE_FUSION_H

#include <jansson.h>

#include "cli/options.h"
#include "proof/ranking/fusion.h"

typedef struct EsProveFusion {
    // filled by the options
    const char *path; // of the model; NULL: proofs alone
    int is_alone;     // the embedding without proofs
    int fits, n_fit;  // on this many queries of VALID
    double weight, bonus, penalty, per_step, log_weight;
    // filled by es_prove_fusion_begin
    EsEmbeddingModel *model;
    EsFusion *fusion;
    EsFusionScorer *scorer;
    EsFusionReport report; // of the fit
    int32_t n_fitted;      // queries of it
} EsProveFusion;

// Entries for a table of options.
#define ES_PROVE_FUSION_OPTIONS(fusion)                                                            \
    ES_OPTION_TEXT("embedding", &(fusion)->path, NULL, "FILE",                                     \
                   "add an embedding model (esper prove embed) to the proofs"),                    \
        ES_OPTION_FLAG("embedding-alone", &(fusion)->is_alone, "score by the model, no proofs"),   \
        ES_OPTION_FLAG("fit", &(fusion)->fits, "fit the weights of both on validation queries"),   \
        ES_OPTION_INT("fit-queries", &(fusion)->n_fit, "500", 0, 1000000000, "N",                  \
                      "validation queries to fit on, evenly spaced; 0: all"),                      \
        ES_OPTION_FLOAT("embedding-weight", &(fusion)->weight, "2", 1e-6, 1e6, "X",                \
                        "weight of the logarithm of the model's probability"),                     \
        ES_OPTION_FLOAT("bonus", &(fusion)->bonus, "1", -1e6, 1e6, "X",                            \
                        "bonus of a candidate with a proof"),                                      \
        ES_OPTION_FLOAT("penalty", &(fusion)->penalty, "0.5", -1e6, 1e6, "X",                      \
                        "penalty of a candidate without a proof"),                                 \
        ES_OPTION_FLOAT("per-step", &(fusion)->per_step, "0", -1e6, 1e6, "X",                      \
                        "penalty per step of a proof after the first"),                            \
        ES_OPTION_FLOAT("log-weight", &(fusion)->log_weight, "0", -1e6, 1e6, "X",                  \
                        "weight of log-probabilities of proofs, or log-odds of confidences")

// ARGUMENT when the options contradict each other; `split` will be ranked.
EsStatus es_prove_fusion_check(const EsProveFusion *fusion, EsKgSplit split);

// Load the model, fit if asked for, and put the fused scorer in the place of *scorer, which it
// borrows along with everything else. Does nothing without a model.
EsStatus es_prove_fusion_begin(EsProveFusion *fusion, const EsKnowledgeGraph *graph,
                               const EsKnownAtoms *known, const EsRankingSettings *settings,
                               EsThreadPool *pool, int gives_probability,
                               EsCandidateScorer *scorer);
void es_prove_fusion_end(EsProveFusion *fusion);

// Weights and fit; null without a model. NULL when memory ends.
json_t *es_prove_fusion_describe(const EsProveFusion *fusion);
void es_prove_fusion_print(const EsProveFusion *fusion);

#endif
