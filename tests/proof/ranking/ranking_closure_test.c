// Full filtered rankings by membership in the closure, against all constants, on the knowledge
// graphs under ES_KG_DIR: nothing is drawn, so an independent program's figures are matched
// exactly.
#include <limits.h>

#include "es_test.h"
#include "proof/graph/knowledge_file.h"
#include "proof/ranking/ranking.h"
#include "proof/search/closure.h"

static EsStatus score_by_closure(void *context, int worker, const EsAtom *candidates, int32_t count,
                                 EsCandidateScore *scores) {
    (void)worker;
    for (int32_t i = 0; i < count; i++) {
        int is_in = es_closure_has(context, &candidates[i]);
        EsCandidateScore made = {is_in, is_in ? 1 : ES_KG_DEPTH_NONE, 0};
        scores[i] = made;
    }
    return ES_STATUS_OK;
}

// All test queries against all corruptions: MRR, and the share of negatives in the closure.
static void expect_full_ranking(const char *name, double mrr, double share, double share_bound) {
    char folder[PATH_MAX];
    EsKnowledgeGraph *graph = NULL;
    EsClosure *closure = NULL;
    EsKnownAtoms *known = NULL;
    EsThreadPool *pool = NULL;
    EsRanking *ranking = NULL;
    EsRankingSettings settings = es_ranking_defaults();
    settings.n_corruptions = 0;
    snprintf(folder, sizeof folder, "%s/%s", getenv("ES_KG_DIR"), name);
    REQUIRE_OK(es_kg_load(folder, NULL, &graph));
    REQUIRE_OK(es_closure_create(graph, ES_CLOSURE_DEFAULT_LIMIT, &closure));
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    EsCandidateScorer scorer = {closure, score_by_closure};
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TEST];
    REQUIRE_OK(es_ranking_create(known, &settings, &scorer, pool, split->atoms, NULL, split->count,
                                 &ranking));
    double found = (double)ranking->all.n_negatives_proved / (double)ranking->all.n_negatives;
    printf("%s: MRR %.4f, Hits@10 %.4f, negatives in the closure %.4f %%\n", name,
           ranking->all.reciprocal.mean, ranking->all.hits[2], 100 * found);
    EXPECT_NEAR(ranking->all.reciprocal.mean, mrr, 5e-4);
    EXPECT_NEAR(found, share, share_bound);
    es_ranking_destroy(ranking);
    es_thread_pool_destroy(pool);
    es_known_atoms_destroy(known);
    es_closure_destroy(closure);
    es_kg_destroy(graph);
}

TEST(full_rankings) {
    if (getenv("ES_KG_DIR") == NULL) {
        SKIP("ES_KG_DIR is not set");
    }
    expect_full_ranking("family", 0.694, 0.00092, 5e-6);
    expect_full_ranking("umls", 0.193, 0.196, 5e-4);
}
