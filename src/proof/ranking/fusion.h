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
#ifndef ES_PROOF_FUSION_H
#define ES_PROOF_FUSION_H

#include "proof/graph/knowledge_graph.h"

ES_EXTERN_C_BEGIN

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

ES_EXTERN_C_END

#endif
