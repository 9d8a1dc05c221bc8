// The rankings that proofs alone give on the knowledge graphs under ES_KG_DIR, against those an
// independent program found on the same queries with negatives of its own.
#include <limits.h>

#include "base/macros.h"
#include "es_test.h"
#include "proof/graph/knowledge_file.h"
#include "proof/ranking/ranking_scorers.h"

typedef struct Baseline {
    const char *rules; // NULL: rules.txt
    int32_t max_depth;
    int32_t n_proved; // of the queries
    double proved;    // MRR of ES_SCORE_PROVED
    double shortest;  // and of ES_SCORE_SHORTEST; NAN: not known
    double bound;     // over eight other draws of negatives the figures differed by less than half
} Baseline;

typedef struct Sides {
    int uses_domains;
    int uses_head; // beside the tail
} Sides;

// All queries of the split test, or 500 of them.
static EsRanking *rank_queries(const EsKnowledgeGraph *graph, int32_t max_depth, EsScoreKind score,
                               Sides sides) {
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TEST];
    EsRankingSettings settings = es_ranking_defaults();
    EsProverSettings prover = es_prover_defaults();
    EsKnownAtoms *known = NULL;
    EsThreadPool *pool = NULL;
    EsProofScorer *proofs = NULL;
    EsRanking *ranking = NULL;
    int32_t numbers[500];
    EsAtom queries[500];
    settings.corruptions.uses_domains = sides.uses_domains;
    settings.uses_side[ES_CORRUPT_HEAD] = sides.uses_head;
    prover.max_depth = max_depth;
    int32_t count = es_ranking_choose(split->count, 500, 1, numbers);
    for (int32_t i = 0; i < count; i++) {
        queries[i] = split->atoms[numbers[i]];
    }
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    REQUIRE_OK(es_proof_scorer_create_prover(graph, &prover, score, 2, &proofs));
    EsCandidateScorer scorer = es_proof_scorer_candidates(proofs);
    REQUIRE_OK(es_ranking_create(known, &settings, &scorer, pool, queries, NULL, count, &ranking));
    EXPECT_EQ(ranking->n_without, 0);
    EXPECT_EQ(es_proof_scorer_report(proofs).n_limited, 0);
    es_proof_scorer_destroy(proofs);
    es_thread_pool_destroy(pool);
    es_known_atoms_destroy(known);
    return ranking;
}

// The MRR of ES_SCORE_PROVED from a ranking by the shortest proof, which takes the same proofs: a
// query that is proved ties with the negatives that are, one that is not stands behind them.
static double reciprocal_of_proved(const EsRanking *ranking) {
    double sum = 0;
    for (int32_t i = 0; i < ranking->n_queries; i++) {
        const EsQueryRank *query = &ranking->queries[i];
        double of_query = 0;
        int n_sides = 0;
        for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
            int32_t n = query->n_negatives[side], n_proved = query->n_negatives_proved[side];
            if (n > 0) {
                of_query += query->positive.depth > 0
                                ? es_expected_reciprocal(0, n_proved)
                                : es_expected_reciprocal(n_proved, n - n_proved);
                n_sides++;
            }
        }
        sum += of_query / n_sides;
    }
    return sum / ranking->n_queries;
}

static void expect_baselines(const char *name, Sides sides, const Baseline *baselines,
                             size_t n_baselines) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/%s", getenv("ES_KG_DIR"), name);
    for (size_t i = 0; i < n_baselines; i++) {
        const Baseline *expected = &baselines[i];
        EsKnowledgeGraph *graph = NULL;
        REQUIRE_OK(es_kg_load(folder, expected->rules, &graph));
        EsRanking *ranking = rank_queries(graph, expected->max_depth, ES_SCORE_SHORTEST, sides);
        double proved = reciprocal_of_proved(ranking), shortest = ranking->all.reciprocal.mean;
        printf("%s, depth %d: %d proved, MRR %.4f, expected %.3f; shortest first %.4f, expected "
               "%.3f\n",
               name, expected->max_depth, ranking->all.n_proved, proved, expected->proved, shortest,
               expected->shortest);
        EXPECT_EQ(ranking->all.n_proved, expected->n_proved);
        EXPECT_NEAR(proved, expected->proved, expected->bound);
        if (!isnan(expected->shortest)) {
            EXPECT_NEAR(shortest, expected->shortest, expected->bound);
        }
        es_ranking_destroy(ranking);
        es_kg_destroy(graph);
    }
}

static const Sides both_sides = {.uses_head = 1};

#define NEEDS_GRAPHS()                                                                             \
    if (getenv("ES_KG_DIR") == NULL) {                                                             \
        SKIP("ES_KG_DIR is not set");                                                              \
    }

// All four other regions are the negatives: nothing is drawn, so the figures are the same.
TEST(countries_baselines) {
    NEEDS_GRAPHS();
    const Baseline baselines[] = {{NULL, 3, 19, 0.856, 0.845, 5e-4},
                                  {NULL, 6, 23, 0.836, 0.915, 5e-4},
                                  {NULL, 9, 24, 0.755, 0.938, 6e-4}};
    expect_baselines("countries_s3", (Sides){.uses_domains = 1}, baselines, ES_COUNT_OF(baselines));
}

// Few negatives can be proved, so that their choice hardly matters.
TEST(family_baselines) {
    NEEDS_GRAPHS();
    const Baseline baselines[] = {{NULL, 2, 452, 0.905, NAN, 0.003},
                                  {"rules_amie.txt", 4, 380, 0.772, NAN, 0.002}};
    expect_baselines("family", both_sides, baselines, ES_COUNT_OF(baselines));
}

// Depth 3 proves 462 queries and has an MRR of 0.923, so that a step less shows in either. Tails
// alone take half the time; the expected figures are those of both sides.
TEST(family_baseline_of_depth_4) {
    NEEDS_GRAPHS();
    const Baseline baseline = {NULL, 4, 477, 0.942, 0.952, 0.003};
    expect_baselines("family", (Sides){.uses_head = 0}, &baseline, 1);
}

// So few negatives are proved that the order of proofs hardly matters: one figure for both scores
// of depth 2.
TEST(wn18rr_baselines) {
    NEEDS_GRAPHS();
    const Baseline baselines[] = {{NULL, 1, 191, 0.414, NAN, 0.002},
                                  {NULL, 2, 208, 0.446, 0.446, 0.003},
                                  {NULL, 4, 217, 0.460, 0.460, 0.003}};
    expect_baselines("wn18rr", both_sides, baselines, ES_COUNT_OF(baselines));
}

TEST(umls_baselines) {
    NEEDS_GRAPHS();
    const Baseline baselines[] = {{NULL, 2, 157, 0.212, NAN, 0.005},
                                  {NULL, 3, 234, 0.177, 0.225, 0.005},
                                  {NULL, 5, 417, 0.256, 0.263, 0.005}};
    expect_baselines("umls", both_sides, baselines, ES_COUNT_OF(baselines));
}

// The scorer that knows two scores gives the MRR that was derived above from the other's proofs.
TEST(proved_or_not_is_ranked_as_derived) {
    NEEDS_GRAPHS();
    char folder[PATH_MAX];
    EsKnowledgeGraph *graph = NULL;
    Sides regions = {.uses_domains = 1};
    snprintf(folder, sizeof folder, "%s/countries_s3", getenv("ES_KG_DIR"));
    REQUIRE_OK(es_kg_load(folder, NULL, &graph));
    for (int32_t max_depth = 3; max_depth <= 9; max_depth += 3) {
        EsRanking *shortest = rank_queries(graph, max_depth, ES_SCORE_SHORTEST, regions);
        EsRanking *proved = rank_queries(graph, max_depth, ES_SCORE_PROVED, regions);
        EXPECT_NEAR(reciprocal_of_proved(shortest), proved->all.reciprocal.mean, 1e-12);
        EXPECT(fabs(shortest->all.reciprocal.mean - proved->all.reciprocal.mean) > 0.001);
        es_ranking_destroy(shortest);
        es_ranking_destroy(proved);
    }
    es_kg_destroy(graph);
}
