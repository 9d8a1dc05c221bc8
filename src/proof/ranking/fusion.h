// One score from an embedding model and from proofs.
//
// For a candidate with embedding probability k the score is w log k + bonus when it is proved, and
// w log k - penalty when it is not; a longer proof may count for less, and a proof that a policy
// found may also bring its log-probability. Where evidence comes from does not matter: any search
// fills the arrays. Ranks depend on ratios alone, so a fit keeps w and the penalty and looks for
// the rest, over all predicates and then for those where weights of their own hold up.
//
//     EsFusion *fusion; ES_TRY(es_fusion_create(graph, es_fusion_defaults(), &fusion));
//     ES_TRY(es_fusion_fit(fusion, &validation, &report));            // optional
//     es_fusion_score(fusion, query.predicate, &evidence, count, score);
//
// Candidates scored by embedding and proofs together, for a ranking (ranking.h), and the fit of the
// weights on queries whose answer is known. Embeddings are of predicates of two arguments, and so
// are all queries here.
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
#ifndef ES_PROOF_FUSION_H
#define ES_PROOF_FUSION_H

#include "proof/graph/knowledge_graph.h"
#include "proof/ranking/embedding_model.h"
#include "proof/ranking/ranking.h"

ES_EXTERN_C_BEGIN

// --- the formula and its fit ---

typedef struct EsFusionWeights {
    float embedding;       // w, > 0
    float bonus;           // of a proof of one step
    float penalty;         // taken off without a proof
    float per_step;        // taken off for each further step of a proof
    float log_probability; // times a proof's log-probability, where there is one
} EsFusionWeights;

// Evidence about candidates, one entry each; borrowed.
typedef struct EsFusionEvidence {
    const float *log_embedding;   // natural logarithm of the embedding's probability
    const int32_t *depth;         // steps of the proof; below 0: not proved, or not decided
    const float *log_probability; // of the proof under a policy; read where proved. Nullable
} EsFusionEvidence;

// Weights of every predicate.
typedef struct EsFusion {
    EsFusionWeights overall;
    int32_t n_predicates;
    EsFusionWeights *of_predicate; // owned                                               (P + 1)
    uint8_t *has_own;              // its weights are not `overall`; owned                (P + 1)
} EsFusion;

// Questions with a known answer to fit on: candidates first[i] to first[i+1] - 1 of the evidence
// belong to question i, the true one first. Borrowed.
typedef struct EsFusionQuestions {
    int32_t count;
    const int32_t *predicate; // (count)
    const int32_t *first;     // (count + 1)
    EsFusionEvidence evidence;
} EsFusionQuestions;

typedef struct EsFusionReport {
    double mrr_embedding; // of the embedding alone
    double mrr_before;    // with the weights as they were
    double mrr_overall;   // with one set of weights for all predicates
    double mrr_after;     // with weights of their own where they hold up
    int32_t n_own;        // predicates that have some
} EsFusionReport;

// w 2, bonus 1, penalty 0.5, nothing for length or log-probability.
EsFusionWeights es_fusion_defaults(void);

// The same weights for every predicate. ARGUMENT when w is not above 0 or a weight is not finite.
EsStatus es_fusion_create(const EsKnowledgeGraph *graph, EsFusionWeights weights,
                          EsFusion **fusion);
// Accepts NULL.
void es_fusion_destroy(EsFusion *fusion);

// Scores of `count` candidates of a question for this predicate, 1 to P. No floor is put under the
// logarithms: they are finite, and a floor would make ties of all candidates below it.
void es_fusion_score(const EsFusion *fusion, int32_t predicate, const EsFusionEvidence *evidence,
                     int32_t count, double *score);

// Choose bonus, per_step and, where there are log-probabilities, their weight from a grid, for the
// best mean reciprocal rank of the true candidates. A predicate gets weights of its own when,
// chosen on every second of its questions, they rank the others no worse than the common ones, both
// ways, and better in sum. ARGUMENT without questions.
EsStatus es_fusion_fit(EsFusion *fusion, const EsFusionQuestions *questions,
                       EsFusionReport *report);

// --- candidates of a ranking ---

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
