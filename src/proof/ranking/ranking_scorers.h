// Scores of candidates by proofs: of the breadth-first prover, or of a search.
//
//     EsProofScorer *proofs;
//     ES_TRY(es_proof_scorer_create_prover(graph, &prover, ES_SCORE_SHORTEST, n_threads, &proofs));
//     EsCandidateScorer scorer = es_proof_scorer_candidates(proofs);
#ifndef ES_PROOF_RANKING_SCORERS_H
#define ES_PROOF_RANKING_SCORERS_H

#include "proof/ranking/ranking.h"
#include "proof/search/proof_search.h"
#include "proof/search/prover.h"

ES_EXTERN_C_BEGIN

typedef enum EsScoreKind {
    ES_SCORE_PROVED,      // 1 or 0
    ES_SCORE_SHORTEST,    // the shorter the proof the higher; without one below all
    ES_SCORE_PROBABILITY, // log-probability, less 100 without a proof; searches alone
    ES_SCORE_EVIDENCE,    // of all proofs found, as in EsProofAnswer; -100 without one; searches
                          // with a queue alone, which then go on to their limits
    ES_N_SCORE_KINDS
} EsScoreKind;

// "proved", "shortest", "probability", "evidence" by kind.
extern const char *const es_score_kind_names[ES_N_SCORE_KINDS];

// Sums over all candidates scored since the scorer was made, or the report begun anew.
typedef struct EsScorerReport {
    int64_t n_candidates, n_proved;
    int64_t n_limited;  // undecided: a limit on states or expansions was met
    int64_t n_expanded; // for a prover, expansions whose successors were listed
    int64_t n_overlong, n_overflow;
} EsScorerReport;

// One prover or search per worker. The graph and the guides are borrowed.
typedef struct EsProofScorer EsProofScorer;
EsStatus es_proof_scorer_create_prover(const EsKnowledgeGraph *graph,
                                       const EsProverSettings *settings, EsScoreKind kind,
                                       int n_workers, EsProofScorer **scorer);

// `guides` (n_workers) holds one per worker, because a guide serves one thread at a time; NULL:
// equal probabilities.
EsStatus es_proof_scorer_create_search(const EsKnowledgeGraph *graph,
                                       const EsProofSearchSettings *settings,
                                       const EsProofGuide *guides, EsScoreKind kind, int n_workers,
                                       EsProofScorer **scorer);
void es_proof_scorer_destroy(EsProofScorer *scorer);

// For es_ranking_create; borrows the scorer.
EsCandidateScorer es_proof_scorer_candidates(EsProofScorer *scorer);

EsScorerReport es_proof_scorer_report(const EsProofScorer *scorer);

// Begins the report anew: candidates scored before, to fit weights, are no part of the ranking. Not
// while threads score.
void es_proof_scorer_reset_report(EsProofScorer *scorer);

ES_EXTERN_C_END

#endif
