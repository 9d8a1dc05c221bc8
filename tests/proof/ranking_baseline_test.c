// The rankings that proofs alone give on the knowledge graphs under ES_KG_DIR, against those an
// independent program found on the same queries with negatives of its own.
#include <limits.h>

#include "base/arena.h"
#include "es_test.h"
#include "proof/knowledge_file.h"
#include "proof/ranking_scorers.h"

typedef struct Baseline {
    const char *rules; // NULL: rules.txt
    int32_t n_queries;
    int32_t max_depth;
    EsScoreKind score;
    double mrr;
    double bound; // over eight other draws of negatives the figures differed by less than half
} Baseline;

static double rank_baseline(const EsKnowledgeGraph *graph, const Baseline *baseline,
                            int uses_domains) {
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TEST];
    EsRankingSettings settings = es_ranking_defaults();
    EsProverSettings prover = es_prover_defaults();
    EsKnownAtoms *known = NULL;
    EsThreadPool *pool = NULL;
    EsProofScorer *proofs = NULL;
    EsRanking *ranking = NULL;
    int32_t numbers[10000];
    EsAtom queries[10000];
    settings.corruptions.uses_domains = uses_domains;
    settings.uses_side[ES_CORRUPT_HEAD] = !uses_domains;
    prover.max_depth = baseline->max_depth;
    int32_t count = es_ranking_choose(split->count, baseline->n_queries, 1, numbers);
    for (int32_t i = 0; i < count; i++) {
        queries[i] = split->atoms[numbers[i]];
    }
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    REQUIRE_OK(es_proof_scorer_create_prover(graph, &prover, baseline->score, 2, &proofs));
    EsCandidateScorer scorer = es_proof_scorer_candidates(proofs);
    REQUIRE_OK(es_ranking_create(known, &settings, &scorer, pool, queries, NULL, count, &ranking));
    double mrr = ranking->all.reciprocal.mean;
    printf("depth %d, %s: MRR %.4f (%.3f to %.3f), expected %.3f\n", baseline->max_depth,
           es_score_kind_names[baseline->score], mrr, ranking->all.reciprocal.low,
           ranking->all.reciprocal.high, baseline->mrr);
    EXPECT_EQ(ranking->n_without, 0);
    es_ranking_destroy(ranking);
    es_proof_scorer_destroy(proofs);
    es_thread_pool_destroy(pool);
    es_known_atoms_destroy(known);
    return mrr;
}

static void expect_baselines(const char *name, int uses_domains, const Baseline *baselines,
                             size_t n_baselines) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/%s", getenv("ES_KG_DIR"), name);
    for (size_t i = 0; i < n_baselines; i++) {
        EsKnowledgeGraph *graph = NULL;
        REQUIRE_OK(es_kg_load(folder, baselines[i].rules, &graph));
        EXPECT_NEAR(rank_baseline(graph, &baselines[i], uses_domains), baselines[i].mrr,
                    baselines[i].bound);
        es_kg_destroy(graph);
    }
}

#define NEEDS_GRAPHS()                                                                             \
    if (getenv("ES_KG_DIR") == NULL) {                                                             \
        SKIP("ES_KG_DIR is not set");                                                              \
    }

// All four other regions are the negatives: nothing is drawn, so the figures are the same.
TEST(countries_baselines) {
    NEEDS_GRAPHS();
    const Baseline baselines[] = {
        {NULL, 0, 3, ES_SCORE_PROVED, 0.856, 5e-4},   {NULL, 0, 6, ES_SCORE_PROVED, 0.836, 5e-4},
        {NULL, 0, 9, ES_SCORE_PROVED, 0.755, 5e-4},   {NULL, 0, 3, ES_SCORE_SHORTEST, 0.845, 5e-4},
        {NULL, 0, 6, ES_SCORE_SHORTEST, 0.915, 5e-4}, {NULL, 0, 9, ES_SCORE_SHORTEST, 0.938, 6e-4}};
    expect_baselines("countries_s3", 1, baselines, sizeof baselines / sizeof *baselines);
}

// Few negatives can be proved, so that their choice hardly matters. Depth 4 has a fifth of the
// queries and the bound of its interval.
TEST(family_baselines) {
    NEEDS_GRAPHS();
    const Baseline baselines[] = {{NULL, 500, 2, ES_SCORE_PROVED, 0.905, 0.003},
                                  {NULL, 100, 4, ES_SCORE_PROVED, 0.942, 0.04},
                                  {"rules_amie.txt", 500, 4, ES_SCORE_PROVED, 0.772, 0.002}};
    expect_baselines("family", 0, baselines, sizeof baselines / sizeof *baselines);
}

TEST(wn18rr_baselines) {
    NEEDS_GRAPHS();
    const Baseline baselines[] = {{NULL, 500, 1, ES_SCORE_PROVED, 0.414, 0.002},
                                  {NULL, 500, 2, ES_SCORE_PROVED, 0.446, 0.003},
                                  {NULL, 500, 4, ES_SCORE_PROVED, 0.460, 0.003}};
    expect_baselines("wn18rr", 0, baselines, sizeof baselines / sizeof *baselines);
}

TEST(umls_baselines) {
    NEEDS_GRAPHS();
    const Baseline baselines[] = {{NULL, 500, 2, ES_SCORE_PROVED, 0.212, 0.005},
                                  {NULL, 500, 3, ES_SCORE_PROVED, 0.177, 0.005},
                                  {NULL, 500, 5, ES_SCORE_PROVED, 0.256, 0.005},
                                  {NULL, 500, 3, ES_SCORE_SHORTEST, 0.225, 0.005},
                                  {NULL, 500, 5, ES_SCORE_SHORTEST, 0.263, 0.005}};
    expect_baselines("umls", 0, baselines, sizeof baselines / sizeof *baselines);
}
