// Ranking of queries against their corruptions: MRR, Hits@k and proof rates.
//
// Each query is scored with K corruptions of each of its arguments, none of them known true
// (corruptions.h), and ranked among those of each place. Candidates with the same score as the
// query stand before or behind it with equal chance: a rank is the exact expectation over the order
// of ties. A query's figures are the mean over its places, those of the ranking the mean over its
// queries. A query without arguments has no corruption and no rank. Nothing depends on the number
// of threads. Arrays of queries have the graph's query_cells for each, as EsQuerySplit has them.
//
//     EsRankingSettings settings = es_ranking_defaults();
//     EsRanking *ranking;
//     ES_TRY(es_ranking_create(known, &settings, &scorer, pool, queries, NULL, count, &ranking));
//     printf("MRR %.3f\n", ranking->all.reciprocal.mean);
//     es_ranking_destroy(ranking);
#ifndef ES_PROOF_RANKING_H
#define ES_PROOF_RANKING_H

#include "base/statistics.h"
#include "base/thread_pool.h"
#include "proof/ranking/corruptions.h"

ES_EXTERN_C_BEGIN

#define ES_N_HITS 3
// 1, 3, 10
extern const int32_t es_hits_at[ES_N_HITS];

// --- scores ---

typedef struct EsCandidateScore {
    double score;  // higher ranks first; not NaN
    int32_t depth; // of the proof found, ES_KG_DEPTH_NONE without one
    int met_limit; // without a proof, and undecided
} EsCandidateScore;

// Scores the candidates: a prover, a search, an embedding model, or several of them combined.
typedef struct EsCandidateScorer {
    void *context;
    // Fill scores (count), which are compared within the call alone. All candidates have one
    // predicate and stand one behind the other, each with the cells of it (es_kg_cells). Threads
    // call it at the same time, each with its own `worker`, below the size of the pool; scores must
    // not depend on that.
    EsStatus (*score)(void *context, int worker, const EsAtom *candidates, int32_t count,
                      EsCandidateScore *scores);
} EsCandidateScorer;

// --- ranks ---

// Expectation over the order of ties.
typedef struct EsExpectedRank {
    double reciprocal;      // of 1/rank
    double hits[ES_N_HITS]; // of rank <= es_hits_at[i]
} EsExpectedRank;

// With n_better scores above and n_tied others equal, the rank is n_better + 1 to n_better + n_tied
// + 1 with equal chance: E[1/rank] = (H(n_better + n_tied + 1) - H(n_better)) / (n_tied + 1).
EsExpectedRank es_expected_rank(int32_t n_better, int32_t n_tied);

// Its reciprocal alone.
double es_expected_reciprocal(int32_t n_better, int32_t n_tied);

typedef struct EsQueryRank {
    EsExpectedRank sides[ES_N_CORRUPT_SIDES]; // mean over its places; zero where n_negatives is
    EsExpectedRank mean;                      // over all places that have negatives
    int32_t n_negatives[ES_N_CORRUPT_SIDES];
    int32_t n_negatives_proved[ES_N_CORRUPT_SIDES];
    int32_t n_negatives_limited[ES_N_CORRUPT_SIDES];
    EsCandidateScore positive;
} EsQueryRank;

// Means over the queries that have negatives.
typedef struct EsRankingSummary {
    int32_t n_queries;
    int32_t n_proved, n_limited; // of the queries
    EsInterval reciprocal;       // MRR, with the bootstrap's interval over queries
    double hits[ES_N_HITS];
    int64_t n_negatives, n_negatives_proved, n_negatives_limited;
} EsRankingSummary;

// Queries that have a depth, or a predicate, in common.
typedef struct EsRankingGroup {
    int32_t key;
    EsRankingSummary summary;
} EsRankingGroup;

// --- the ranking ---

typedef struct EsRankingSettings {
    EsCorruptionSettings corruptions; // its seed is the bootstrap's too
    int32_t n_corruptions;            // K per place, 0: all there are
    int uses_side[ES_N_CORRUPT_SIDES];
    // Called by the thread that ranks after each of its queries, with those of all threads; may be
    // NULL.
    void (*progress)(void *context, int32_t n_done, int32_t count);
    void *progress_context;
} EsRankingSettings;

// 100 corruptions of every place, from all constants, seed 0.
EsRankingSettings es_ranking_defaults(void);

typedef struct EsRanking {
    int32_t n_queries;
    EsQueryRank *queries;                       // in the order given; owned          (n_queries)
    EsRankingSummary all;                       // both sides
    EsRankingSummary sides[ES_N_CORRUPT_SIDES]; // one side alone
    EsRankingGroup *by_depth;                   // by key; owned
    EsRankingGroup *by_predicate;               // likewise
    int32_t n_depths, n_predicates;
    int32_t n_without; // queries that have no negative on any side; no other count has them
} EsRanking;

// Rank queries over the graph of `known`. `depths` (count) groups them for by_depth; with NULL the
// depth of the proof found does. NUMERIC when a score is NaN; failures of the scorer are passed on.
EsStatus es_ranking_create(const EsKnownAtoms *known, const EsRankingSettings *settings,
                           const EsCandidateScorer *scorer, EsThreadPool *pool,
                           const EsAtom *queries, const int32_t *depths, int32_t count,
                           EsRanking **ranking);
void es_ranking_destroy(EsRanking *ranking);

// Chooses n of `count` queries: the first, or spaced ones, which are every (count / n)th up to half
// of them and floor(i count / n) above; all when n is 0 or above `count`. Returns the count of
// numbers written.
int32_t es_ranking_choose(int32_t count, int32_t n, int is_spaced, int32_t *numbers);

// Queries of a split whose predicates have min_arity to max_arity arguments, n of them, chosen as
// above.
typedef struct EsRankingChoice {
    EsKgSplit split;
    int min_arity, max_arity;
    int32_t n;
    int is_spaced;
} EsRankingChoice;

// Queries of the split with so many arguments, before n of them are taken.
int32_t es_ranking_count(const EsKnowledgeGraph *graph, const EsRankingChoice *choice);

// The chosen ones. The caller releases *queries, which hold query_cells each.
EsStatus es_ranking_take(const EsKnowledgeGraph *graph, const EsRankingChoice *choice,
                         EsAtom **queries, int32_t *count);

ES_EXTERN_C_END

#endif
