// Candidates scored by the confidences of the rules that fire for them (rules: path_miner.h).
//
// A rule fires for h(a,b) when its body, over the graph's facts alone, gives it. The confidences of
// all that fire, the highest first, become one score, so that a candidate is compared with others:
//
//     max          by the highest, and where these are equal by the next, and so on (AnyBURL)
//     noisy or     1 - (1 - c1)(1 - c2)... over the `top` highest, as if rules failed independently
//
// All candidates of a query are scored at once: each rule is walked from the argument that they
// share. Which rules count, and how, is chosen on queries whose answer is known, never on those
// that are ranked.
//
//     EsConfidenceSettings settings = es_confidence_defaults();
//     EsConfidenceChoice choice = {0};
//     ES_TRY(es_confidence_choose(known, graph, &rules, &ranking, pool, valid, n_valid, &settings,
//                                 &choice));
//     EsConfidenceScorer *confidences;
//     ES_TRY(es_confidence_scorer_create(graph, &rules, &settings, n_threads, &confidences));
//     EsCandidateScorer scorer = es_confidence_scorer_candidates(confidences, 0);
#ifndef ES_PROOF_CONFIDENCE_SCORER_H
#define ES_PROOF_CONFIDENCE_SCORER_H

#include "proof/ranking/ranking.h"
#include "proof/search/path_miner.h"

ES_EXTERN_C_BEGIN

typedef enum EsConfidenceAggregation {
    ES_CONFIDENCE_MAX,
    ES_CONFIDENCE_NOISY_OR,
    ES_N_CONFIDENCE_AGGREGATIONS
} EsConfidenceAggregation;

// "max", "noisy_or".
extern const char *const es_confidence_aggregation_names[ES_N_CONFIDENCE_AGGREGATIONS];

typedef struct EsConfidenceSettings {
    EsConfidenceAggregation aggregation;
    int32_t top;           // rules of a noisy or, 0: all
    double smoothing;      // confidence = support / (given + smoothing)
    int32_t min_support;   // of a rule that counts
    double min_confidence; // likewise, smoothed
    int max_steps;         // likewise
    int uses_constants;    // rules with constants count
} EsConfidenceSettings;

// Noisy or of 5, smoothing 5, support 2, confidence 0.01, three steps, without constants.
EsConfidenceSettings es_confidence_defaults(void);

// --- the scorer ---

// The rules that pass the settings, copied and sorted by confidence. Borrows the graph.
typedef struct EsConfidenceScorer EsConfidenceScorer;
EsStatus es_confidence_scorer_create(const EsKnowledgeGraph *graph, const EsPathRules *rules,
                                     const EsConfidenceSettings *settings, int n_workers,
                                     EsConfidenceScorer **scorer);
void es_confidence_scorer_destroy(EsConfidenceScorer *scorer);

int32_t es_confidence_scorer_n_rules(const EsConfidenceScorer *scorer);

// For es_ranking_create, whose calls begin with the query; borrows the scorer. A candidate's depth
// is the number of steps of the most confident rule that fires, ES_KG_DEPTH_NONE without one. The
// score is the logarithm of the aggregate's odds, log(p / (1 - p)), -100 where no rule fires. Only
// the order by max, which looks beyond the highest confidence, has no such number: unless
// `gives_odds`, its scores are places among the candidates of the call.
EsCandidateScorer es_confidence_scorer_candidates(EsConfidenceScorer *scorer, int gives_odds);

// Candidates scored so far, and those for which a rule fired.
void es_confidence_scorer_count(const EsConfidenceScorer *scorer, int64_t *n_candidates,
                                int64_t *n_fired);

// Begins the count anew; not while threads score.
void es_confidence_scorer_reset_count(EsConfidenceScorer *scorer);

// The confidences of the rules that fire for an atom, highest first: at most `capacity` of them,
// with their rules where `fired` is not NULL. *count is how many fire. For explanations and
// features; one thread per worker number.
EsStatus es_confidence_scorer_explain(EsConfidenceScorer *scorer, int worker, EsAtom atom,
                                      double *confidences, EsPathRule *fired, int32_t capacity,
                                      int32_t *count);

// --- the choice ---

typedef struct EsConfidenceChoice {
    int fixes_aggregation; // to the next; set before
    EsConfidenceAggregation aggregation;
    double mrr; // of the settings chosen, on the queries they were chosen on
    int32_t n_tried;
} EsConfidenceChoice;

// Fill the settings from a grid, by the mean reciprocal rank of the queries among their corruptions
// as `ranking` draws them; of equals the first. Its progress is called as in a ranking, once for
// every query and smoothing. The same for any number of threads. ARGUMENT without queries.
EsStatus es_confidence_choose(const EsKnownAtoms *known, const EsKnowledgeGraph *graph,
                              const EsPathRules *rules, const EsRankingSettings *ranking,
                              EsThreadPool *pool, const EsAtom *queries, int32_t count,
                              EsConfidenceSettings *settings, EsConfidenceChoice *choice);

ES_EXTERN_C_END

#endif
