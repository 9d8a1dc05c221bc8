// Candidates scored by embedding and proofs together, for a ranking (ranking.h), and the fit of the
// weights on queries whose answer is known.
//
// The first candidate of a call is the query, as es_ranking_create passes them; every other differs
// from it in one argument, which gives the side on which the embedding is asked. Probabilities of
// an embedding can be compared on one side alone, so a candidate's is taken relative to the query's
// on the same side; the query has log 1.
//
//     int32_t most = es_fusion_scorer_candidates_of(known, &settings); EsFusionScorer *both;
//     ES_TRY(es_fusion_scorer_create(model, fusion, &proofs, n_threads, most, &both));
//     ES_TRY(es_fusion_scorer_fit(both, known, &settings, pool, valid, n_valid, &report));
//     EsCandidateScorer scorer = es_fusion_scorer_candidates(both);
#ifndef ES_PROOF_FUSION_SCORER_H
#define ES_PROOF_FUSION_SCORER_H

#include "proof/ranking/embedding_model.h"
#include "proof/ranking/fusion.h"
#include "proof/ranking/ranking.h"

ES_EXTERN_C_BEGIN

// Source of proofs.
typedef struct EsFusionProofs {
    EsCandidateScorer scorer; // its context is borrowed; without a score function: no proofs
    int gives_probability;    // the score of a proved candidate is the proof's log-probability
} EsFusionProofs;

// The most candidates that a ranking with these settings passes in one call.
int32_t es_fusion_scorer_candidates_of(const EsKnownAtoms *known,
                                       const EsRankingSettings *settings);

// Borrows everything it is given, and changes `fusion` in the fit alone. n_workers is the size of
// the pools that will use it, max_candidates the most that one call has, the query included.
typedef struct EsFusionScorer EsFusionScorer;
EsStatus es_fusion_scorer_create(const EsEmbeddingModel *model, EsFusion *fusion,
                                 const EsFusionProofs *proofs, int n_workers,
                                 int32_t max_candidates, EsFusionScorer **scorer);
void es_fusion_scorer_destroy(EsFusionScorer *scorer);

// For es_ranking_create; borrows the scorer.
EsCandidateScorer es_fusion_scorer_candidates(EsFusionScorer *scorer);

// Gathers the evidence for scores: proofs into `scores` (count), and the evidence in the worker's
// own arrays, until its next call. The query comes first.
EsStatus es_fusion_scorer_gather(EsFusionScorer *scorer, int worker, const EsAtom *candidates,
                                 int32_t count, EsCandidateScore *scores,
                                 EsFusionEvidence *evidence);

// Gather it for these queries and their corruptions, as the settings draw them, and fit the weights
// (es_fusion_fit). The settings' progress is called as in a ranking. ARGUMENT without a query that
// has corruptions.
EsStatus es_fusion_scorer_fit(EsFusionScorer *scorer, const EsKnownAtoms *known,
                              const EsRankingSettings *settings, EsThreadPool *pool,
                              const EsAtom *queries, int32_t count, EsFusionReport *report);

ES_EXTERN_C_END

#endif
