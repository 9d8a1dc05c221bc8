// Ranks by expectation against brute force, rankings by scorers whose figures are known, and the
// same figures for any number of threads.
#include "proof/ranking/ranking.h"

#include <string.h>

#include "base/memory.h"
#include "es_test.h"
#include "proof/graph/kinship_graph.h"
#include "proof/ranking/ranking_scorers.h"
#include "proof/search/closure.h"

// --- ties ---

static int64_t factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

// The rank of candidate 0 when candidates with equal scores stand in the order of `keys`.
static int rank_with_keys(const int *scores, const int *keys, int n) {
    int rank = 1;
    for (int i = 1; i < n; i++) {
        rank += scores[i] > scores[0] || (scores[i] == scores[0] && keys[i] < keys[0]);
    }
    return rank;
}

// Mean over all orders of n candidates.
static EsExpectedRank rank_by_force(const int *scores, int n) {
    EsExpectedRank mean = {0};
    int64_t n_orders = factorial(n);
    for (int64_t order = 0; order < n_orders; order++) {
        int keys[8], left[8];
        for (int i = 0; i < n; i++) {
            left[i] = i;
        }
        int64_t rest = order;
        for (int i = 0; i < n; i++) {
            int chosen = (int)(rest % (n - i));
            rest /= n - i;
            keys[i] = left[chosen];
            left[chosen] = left[n - i - 1];
        }
        int rank = rank_with_keys(scores, keys, n);
        mean.reciprocal += 1.0 / rank / (double)n_orders;
        for (int h = 0; h < ES_N_HITS; h++) {
            mean.hits[h] += (rank <= es_hits_at[h]) / (double)n_orders;
        }
    }
    return mean;
}

TEST(ties_are_the_mean_over_all_orders) {
    for (int code = 0; code < 729; code++) {
        int scores[7] = {1};
        for (int i = 1, rest = code; i < 7; i++, rest /= 3) {
            scores[i] = rest % 3;
        }
        int n_better = 0, n_tied = 0;
        for (int i = 1; i < 7; i++) {
            n_better += scores[i] > 1;
            n_tied += scores[i] == 1;
        }
        EsExpectedRank exact = es_expected_rank(n_better, n_tied);
        EsExpectedRank forced = rank_by_force(scores, 7);
        EXPECT_NEAR(exact.reciprocal, forced.reciprocal, 1e-12);
        for (int h = 0; h < ES_N_HITS; h++) {
            EXPECT_NEAR(exact.hits[h], forced.hits[h], 1e-12);
        }
    }
}

TEST(ranks_without_and_with_many_ties) {
    EXPECT_NEAR(es_expected_rank(0, 0).reciprocal, 1, 0);
    EXPECT_NEAR(es_expected_rank(4, 0).reciprocal, 0.2, 1e-15);
    EXPECT_NEAR(es_expected_rank(4, 0).hits[1], 0, 0);
    EXPECT_NEAR(es_expected_rank(4, 0).hits[2], 1, 0);
    // H(101) / 101, and a hit in ten places of 101
    EXPECT_NEAR(es_expected_rank(0, 100).reciprocal, 0.0515, 5e-5);
    EXPECT_NEAR(es_expected_rank(0, 100).hits[2], 10.0 / 101, 1e-15);
    EXPECT_NEAR(es_expected_rank(5, 9).hits[2], 0.5, 1e-15);
}

TEST(queries_are_chosen) {
    int32_t numbers[10];
    EXPECT_EQ(es_ranking_choose(10, 3, 0, numbers), 3);
    EXPECT_EQ(numbers[2], 2);
    EXPECT_EQ(es_ranking_choose(10, 3, 1, numbers), 3);
    EXPECT_EQ(numbers[1], 3);
    EXPECT_EQ(numbers[2], 6);
    EXPECT_EQ(es_ranking_choose(10, 5, 1, numbers), 5);
    EXPECT_EQ(numbers[4], 8);
    // above half of them still from the whole list, each once
    const int32_t six[] = {0, 1, 3, 5, 6, 8}, nine[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_EQ(es_ranking_choose(10, 6, 1, numbers), 6);
    EXPECT_EQ(memcmp(numbers, six, sizeof six), 0);
    EXPECT_EQ(es_ranking_choose(10, 9, 1, numbers), 9);
    EXPECT_EQ(memcmp(numbers, nine, sizeof nine), 0);
    EXPECT_EQ(es_ranking_choose(10, 0, 1, numbers), 10);
    EXPECT_EQ(numbers[9], 9);
    EXPECT_EQ(es_ranking_choose(10, 11, 0, numbers), 10);
    EXPECT_EQ(es_ranking_choose(0, 5, 1, numbers), 0);
}

// --- scorers whose figures are known ---

typedef struct Village {
    EsKnowledgeGraph *graph;
    EsKnownAtoms *known;
    EsThreadPool *pool;
    const EsAtom *queries;
    int32_t count;
} Village;

static Village make_village(int n_threads) {
    Village village = {.count = 60};
    REQUIRE_OK(es_kinship_graph_create(200, 1, &village.graph));
    REQUIRE_OK(es_known_atoms_create(village.graph, &village.known));
    REQUIRE_OK(es_thread_pool_create(&village.pool, n_threads));
    village.queries = village.graph->splits[ES_KG_SPLIT_TEST].atoms;
    EXPECT(village.graph->splits[ES_KG_SPLIT_TEST].count >= village.count);
    return village;
}

static void destroy_village(Village *village) {
    es_thread_pool_destroy(village->pool);
    es_known_atoms_destroy(village->known);
    es_kg_destroy(village->graph);
}

static EsRanking *rank(const Village *village, const EsRankingSettings *settings,
                       EsCandidateScorer scorer) {
    EsRanking *ranking = NULL;
    REQUIRE_OK(es_ranking_create(village->known, settings, &scorer, village->pool, village->queries,
                                 NULL, village->count, &ranking));
    return ranking;
}

// The calls of a progress.
typedef struct Calls {
    int32_t n_calls, n_done, count;
    int is_rising;
} Calls;

static void count_call(void *context, int32_t n_done, int32_t count) {
    Calls *calls = context;
    calls->is_rising &= n_done > calls->n_done;
    calls->n_calls++;
    calls->n_done = n_done;
    calls->count = count;
}

// Known atoms get `context` as score, all others 0.
static EsStatus score_by_truth(void *context, int worker, const EsAtom *candidates, int32_t count,
                               EsCandidateScore *scores) {
    const double *score = context;
    (void)candidates, (void)worker;
    for (int32_t i = 0; i < count; i++) {
        // the query comes first
        EsCandidateScore made = {i == 0 ? *score : 0, ES_KG_DEPTH_NONE, 0};
        scores[i] = made;
    }
    return ES_STATUS_OK;
}

TEST(known_scores_give_known_figures) {
    Village village = make_village(1);
    EsRankingSettings settings = es_ranking_defaults();
    double score = 0;
    EsCandidateScorer scorer = {&score, score_by_truth};
    EsRanking *equal = rank(&village, &settings, scorer);
    EXPECT_NEAR(equal->all.reciprocal.mean, es_expected_rank(0, 100).reciprocal, 1e-12);
    EXPECT_NEAR(equal->all.reciprocal.mean, 0.0515, 5e-5);
    EXPECT_NEAR(equal->all.hits[2], 10.0 / 101, 1e-12);
    EXPECT_EQ(equal->all.n_queries, 60);
    EXPECT_EQ(equal->all.n_negatives, 60 * 200);
    EXPECT_EQ(equal->sides[ES_CORRUPT_TAIL].n_negatives, 60 * 100);
    es_ranking_destroy(equal);
    score = 1;
    EsRanking *oracle = rank(&village, &settings, scorer);
    EXPECT_NEAR(oracle->all.reciprocal.mean, 1, 0);
    EXPECT_NEAR(oracle->all.reciprocal.low, 1, 0);
    EXPECT_NEAR(oracle->all.hits[0], 1, 0);
    es_ranking_destroy(oracle);
    score = -1;
    settings.uses_side[ES_CORRUPT_HEAD] = 0;
    EsRanking *last = rank(&village, &settings, scorer);
    EXPECT_NEAR(last->all.reciprocal.mean, 1.0 / 101, 1e-12);
    EXPECT_EQ(last->all.n_negatives, 60 * 100);
    EXPECT_EQ(last->sides[ES_CORRUPT_HEAD].n_queries, 0);
    es_ranking_destroy(last);
    destroy_village(&village);
}

// A long ranking is heard of after every query, not after rounds of them.
TEST(progress_comes_after_every_query) {
    Village village = make_village(1);
    EsRankingSettings settings = es_ranking_defaults();
    Calls calls = {.is_rising = 1};
    double score = 1;
    settings.progress = count_call;
    settings.progress_context = &calls;
    es_ranking_destroy(rank(&village, &settings, (EsCandidateScorer){&score, score_by_truth}));
    EXPECT_EQ(calls.n_calls, village.count);
    EXPECT_EQ(calls.n_done, village.count);
    EXPECT_EQ(calls.count, village.count);
    EXPECT(calls.is_rising);
    destroy_village(&village);
}

// Scores by a number made from the candidate alone: every figure again, by hand.
static double mix(EsAtom atom) {
    uint32_t mixed = ((uint32_t)atom.a * 2654435761u) ^ ((uint32_t)atom.b * 40503u);
    return (double)((mixed >> 13) % 7);
}

static EsStatus score_by_mix(void *context, int worker, const EsAtom *candidates, int32_t count,
                             EsCandidateScore *scores) {
    (void)context, (void)worker;
    for (int32_t i = 0; i < count; i++) {
        double score = mix(candidates[i]);
        EsCandidateScore made = {score, score >= 5 ? (int32_t)score : ES_KG_DEPTH_NONE, score == 0};
        scores[i] = made;
    }
    return ES_STATUS_OK;
}

TEST(figures_by_hand) {
    Village village = make_village(2);
    EsRankingSettings settings = es_ranking_defaults();
    EsCandidateScorer scorer = {NULL, score_by_mix};
    settings.n_corruptions = 0;
    EsRanking *ranking = rank(&village, &settings, scorer);
    EsAtom negatives[400];
    double sum = 0;
    int64_t n_negatives = 0, n_proved = 0, n_limited = 0;
    for (int32_t q = 0; q < village.count; q++) {
        for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
            int32_t n = es_corruptions_list(village.known, &settings.corruptions,
                                            &village.queries[q], side, 0, negatives);
            int32_t n_better = 0, n_tied = 0;
            for (int32_t i = 0; i < n; i++) {
                n_better += mix(negatives[i]) > mix(village.queries[q]);
                n_tied += mix(negatives[i]) == mix(village.queries[q]);
                n_proved += mix(negatives[i]) >= 5;
                n_limited += mix(negatives[i]) == 0;
            }
            n_negatives += n;
            sum += es_expected_rank(n_better, n_tied).reciprocal / 2 / village.count;
        }
    }
    EXPECT_NEAR(ranking->all.reciprocal.mean, sum, 1e-12);
    EXPECT(ranking->all.reciprocal.low < sum && sum < ranking->all.reciprocal.high);
    EXPECT_NEAR(ranking->all.reciprocal.mean,
                (ranking->sides[0].reciprocal.mean + ranking->sides[1].reciprocal.mean) / 2, 1e-12);
    EXPECT_EQ(ranking->all.n_negatives, n_negatives);
    EXPECT_EQ(ranking->all.n_negatives_proved, n_proved);
    EXPECT_EQ(ranking->all.n_negatives_limited, n_limited);
    es_ranking_destroy(ranking);
    destroy_village(&village);
}

// The queries of one predicate, by hand.
static void expect_predicate(const Village *village, const EsRanking *ranking,
                             const EsRankingGroup *group) {
    double sum = 0;
    int32_t n_queries = 0;
    for (int32_t q = 0; q < village->count; q++) {
        if (village->queries[q].predicate == group->key) {
            sum += ranking->queries[q].mean.reciprocal;
            n_queries++;
        }
    }
    EXPECT_EQ(group->summary.n_queries, n_queries);
    EXPECT_NEAR(group->summary.reciprocal.mean, sum / n_queries, 1e-12);
}

TEST(groups_hold_every_query_once) {
    Village village = make_village(1);
    EsRankingSettings settings = es_ranking_defaults();
    EsCandidateScorer scorer = {NULL, score_by_mix};
    EsRanking *ranking = rank(&village, &settings, scorer);
    const EsRankingGroup *groups[2] = {ranking->by_depth, ranking->by_predicate};
    int32_t n_groups[2] = {ranking->n_depths, ranking->n_predicates};
    for (int k = 0; k < 2; k++) {
        double sum = 0;
        int32_t n_queries = 0, n_proved = 0;
        for (int32_t g = 0; g < n_groups[k]; g++) {
            const EsRankingSummary *summary = &groups[k][g].summary;
            EXPECT(g == 0 || groups[k][g].key > groups[k][g - 1].key);
            sum += summary->reciprocal.mean * summary->n_queries;
            n_queries += summary->n_queries;
            n_proved += summary->n_proved;
            EXPECT(k == 1 || summary->n_proved == (groups[k][g].key > 0 ? summary->n_queries : 0));
        }
        EXPECT_EQ(n_queries, village.count);
        EXPECT_EQ(n_proved, ranking->all.n_proved);
        EXPECT_NEAR(sum / n_queries, ranking->all.reciprocal.mean, 1e-12);
    }
    for (int32_t g = 0; g < ranking->n_predicates; g++) {
        expect_predicate(&village, ranking, &ranking->by_predicate[g]);
    }
    EXPECT(n_groups[0] == 3 && n_groups[1] > 5);
    es_ranking_destroy(ranking);
    destroy_village(&village);
}

// --- proofs ---

static EsRanking *rank_by_search(const Village *village, EsSearchKind kind, int is_prover) {
    EsRankingSettings settings = es_ranking_defaults();
    EsProofSearchSettings search = es_proof_search_defaults();
    EsProverSettings prover = es_prover_defaults();
    EsProofScorer *scorer = NULL;
    int n_workers = es_thread_pool_size(village->pool);
    settings.n_corruptions = 20;
    search.kind = kind;
    search.max_depth = 3;
    prover.max_depth = 3;
    search.max_expanded = 500;
    EsScoreKind score = kind == ES_SEARCH_BEAM ? ES_SCORE_EVIDENCE : ES_SCORE_PROBABILITY;
    REQUIRE_OK(is_prover ? es_proof_scorer_create_prover(village->graph, &prover, ES_SCORE_SHORTEST,
                                                         n_workers, &scorer)
                         : es_proof_scorer_create_search(village->graph, &search, NULL, score,
                                                         n_workers, &scorer));
    EsRanking *ranking = rank(village, &settings, es_proof_scorer_candidates(scorer));
    EsScorerReport report = es_proof_scorer_report(scorer);
    EXPECT_EQ(report.n_candidates, village->count + ranking->all.n_negatives);
    EXPECT_EQ(report.n_proved, ranking->all.n_proved + ranking->all.n_negatives_proved);
    EXPECT(report.n_expanded > 0);
    es_proof_scorer_destroy(scorer);
    return ranking;
}

TEST(threads_give_the_same_bits) {
    Village one = make_village(1), two = make_village(2);
    for (int kind = 0; kind <= ES_N_SEARCH_KINDS; kind++) {
        EsSearchKind search = (EsSearchKind)(kind % ES_N_SEARCH_KINDS);
        EsRanking *first = rank_by_search(&one, search, kind == ES_N_SEARCH_KINDS);
        EsRanking *second = rank_by_search(&two, search, kind == ES_N_SEARCH_KINDS);
        EXPECT(memcmp(first->queries, second->queries,
                      (size_t)one.count * sizeof *first->queries) == 0);
        EXPECT(memcmp(&first->all, &second->all, sizeof first->all) == 0);
        EXPECT(first->all.n_proved > 0);
        es_ranking_destroy(first);
        es_ranking_destroy(second);
    }
    destroy_village(&one);
    destroy_village(&two);
}

// The rules of the village derive nothing but true atoms, so that no negative can be proved.
TEST(negatives_outside_the_closure_are_not_proved) {
    Village village = make_village(2);
    EsClosure *closure = NULL;
    REQUIRE_OK(es_closure_create(village.graph, ES_CLOSURE_DEFAULT_LIMIT, &closure));
    EsRanking *ranking = rank_by_search(&village, ES_SEARCH_BEST_FIRST, 0);
    for (int32_t q = 0; q < village.count; q++) {
        EXPECT(ranking->queries[q].positive.depth <= 0 ||
               es_closure_has(closure, &village.queries[q]));
    }
    EXPECT_EQ(ranking->all.n_negatives_proved, 0);
    es_ranking_destroy(ranking);
    es_closure_destroy(closure);
    destroy_village(&village);
}

// --- what is refused ---

static EsStatus score_as_nan(void *context, int worker, const EsAtom *candidates, int32_t count,
                             EsCandidateScore *scores) {
    ES_TRY(score_by_mix(context, worker, candidates, count, scores));
    scores[count - 1].score = NAN;
    return ES_STATUS_OK;
}

static EsStatus score_badly(void *context, int worker, const EsAtom *candidates, int32_t count,
                            EsCandidateScore *scores) {
    (void)context, (void)worker, (void)candidates, (void)count, (void)scores;
    return ES_FAIL(DEVICE, "the scorer fell asleep");
}

TEST(failures_are_passed_on) {
    Village village = make_village(2);
    EsRankingSettings settings = es_ranking_defaults();
    EsRanking *ranking = NULL;
    EsCandidateScorer scorer = {NULL, score_as_nan};
    EXPECT_STATUS(es_ranking_create(village.known, &settings, &scorer, village.pool,
                                    village.queries, NULL, village.count, &ranking),
                  NUMERIC);
    scorer.score = score_badly;
    EXPECT_STATUS(es_ranking_create(village.known, &settings, &scorer, village.pool,
                                    village.queries, NULL, village.count, &ranking),
                  DEVICE);
    EXPECT_CONTAINS(es_status_detail(), "the scorer fell asleep");
    EXPECT(ranking == NULL);
    settings.uses_side[0] = settings.uses_side[1] = 0;
    EXPECT_STATUS(es_ranking_create(village.known, &settings, &scorer, village.pool,
                                    village.queries, NULL, village.count, &ranking),
                  ARGUMENT);
    settings = es_ranking_defaults();
    EXPECT_STATUS(es_ranking_create(village.known, &settings, &scorer, village.pool,
                                    village.queries, NULL, 0, &ranking),
                  ARGUMENT);
    destroy_village(&village);
}
