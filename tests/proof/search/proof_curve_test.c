// Curves of proofs against expansions: by hand, against searches with smaller budgets, and the same
// for any number of threads.
#include "proof/search/proof_curve.h"

#include "proof/graph/kinship_graph.h"
#include "proof/random_graph.h"
#include "proof/search/prover.h"
#include "proof/search_case.h"

static EsProofCurve *make_curve(const EsKnowledgeGraph *graph,
                                const EsProofSearchSettings *settings, int n_threads,
                                const EsAtom *queries, int32_t count) {
    HashGuide states[4];
    EsProofGuide guides[4];
    EsThreadPool *pool = NULL;
    EsProofCurve *curve = NULL;
    for (int w = 0; w < n_threads; w++) {
        states[w] = (HashGuide){.n_predicates = graph->n_predicates};
        guides[w] = (EsProofGuide){&states[w], score_by_hash};
    }
    REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
    REQUIRE_OK(es_proof_curve_create(graph, settings, guides, pool, queries, count, &curve));
    es_thread_pool_destroy(pool);
    return curve;
}

TEST(counts_by_hand) {
    int64_t expanded[] = {7, 2, 50, 2}, needed[] = {2, 2, 7};
    int32_t depth[] = {3, 1, ES_KG_DEPTH_NONE, 2};
    EsProofCurve curve = {4, 3, expanded, depth, needed};
    static const struct {
        int64_t budget, n_spent;
        int32_t n_proofs;
    } cases[] = {{1, 4, 0}, {2, 8, 2}, {6, 16, 2}, {7, 18, 3}, {50, 61, 3}, {1000, 61, 3}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EXPECT_EQ(es_proof_curve_proofs(&curve, cases[i].budget), cases[i].n_proofs);
        EXPECT_EQ(es_proof_curve_spent(&curve, cases[i].budget), cases[i].n_spent);
    }
    EXPECT_EQ(es_proof_curve_budget(&curve, 1), 2);
    EXPECT_EQ(es_proof_curve_budget(&curve, 2), 2);
    EXPECT_EQ(es_proof_curve_budget(&curve, 3), 7);
    EXPECT_EQ(es_proof_curve_budget(&curve, 4), -1);
}

TEST(tallies_by_hand) {
    int64_t expanded[] = {7, 2, 50, 2, 9}, needed[] = {2, 2, 7, 9};
    int32_t found[] = {3, 1, ES_KG_DEPTH_NONE, 2, 6};           // by the search
    int32_t shortest[] = {3, 1, 4, 2, ES_PROVER_DEPTH_UNKNOWN}; // of the queries
    EsProofCurve curve = {5, 4, expanded, found, needed};
    EsProofTally all = es_proof_curve_tally(&curve, shortest, 1, INT32_MAX, 7);
    EXPECT_EQ(all.n_queries, 4);
    EXPECT_EQ(all.n_proved, 3);
    EXPECT_EQ(all.n_expanded, 7 + 2 + 7 + 2);
    EXPECT_NEAR(all.low, 30.06, 0.01);
    EXPECT_NEAR(all.high, 95.44, 0.01);
    EsProofTally deep = es_proof_curve_tally(&curve, shortest, 3, 3, 6);
    EXPECT_EQ(deep.n_queries, 1);
    EXPECT_EQ(deep.n_proved, 0);
    EXPECT_EQ(deep.n_expanded, 6);
    EsProofTally none = es_proof_curve_tally(&curve, shortest, 5, 9, 100);
    EXPECT_EQ(none.n_queries, 0);
    EXPECT(isnan(none.low) && isnan(none.high));
}

// A search that may expand B states proves exactly those that the curve says.
TEST(smaller_budgets_prove_what_the_curve_says) {
    int n_between = 0;
    for (uint32_t number = 0; number < 6; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TEST];
        EsProofSearchSettings settings = es_proof_search_defaults();
        settings.max_depth = 4;
        settings.batch = 1 + (int32_t)(number % 2) * 3;
        EsProofCurve *all = make_curve(graph, &settings, 1, split->atoms, split->count);
        for (int64_t budget = 1; budget < 40; budget *= 3) {
            settings.max_expanded = budget;
            EsProofCurve *cut = make_curve(graph, &settings, 1, split->atoms, split->count);
            EXPECT_EQ(cut->n_proved, es_proof_curve_proofs(all, budget));
            EXPECT_EQ(es_proof_curve_spent(cut, budget), es_proof_curve_spent(all, budget));
            n_between += cut->n_proved > 0 && cut->n_proved < all->n_proved;
            es_proof_curve_destroy(cut);
        }
        if (all->n_proved > 0) {
            int64_t last = es_proof_curve_budget(all, all->n_proved);
            EXPECT_EQ(es_proof_curve_proofs(all, last), all->n_proved);
            EXPECT(es_proof_curve_proofs(all, last - 1) < all->n_proved);
        }
        es_proof_curve_destroy(all);
        es_kg_destroy(graph);
    }
    EXPECT(n_between > 5);
}

TEST(threads_do_not_matter) {
    EsKnowledgeGraph *graph = NULL;
    EsProofSearchSettings settings = es_proof_search_defaults();
    REQUIRE_OK(es_kinship_graph_create(100, 3, &graph));
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TEST];
    size_t count = (size_t)split->count;
    settings.max_depth = 3;
    EsProofCurve *one = make_curve(graph, &settings, 1, split->atoms, split->count);
    EsProofCurve *four = make_curve(graph, &settings, 4, split->atoms, split->count);
    EXPECT(one->n_proved > 20);
    EXPECT_EQ(one->n_proved, four->n_proved);
    EXPECT(memcmp(one->expanded, four->expanded, count * sizeof *one->expanded) == 0);
    EXPECT(memcmp(one->depth, four->depth, count * sizeof *one->depth) == 0);
    es_proof_curve_destroy(one);
    es_proof_curve_destroy(four);
    es_kg_destroy(graph);
}

TEST(failures_are_passed_on) {
    EsKnowledgeGraph *graph = NULL;
    EsThreadPool *pool = NULL;
    EsProofCurve *curve = NULL;
    EsProofSearchSettings settings = es_proof_search_defaults();
    REQUIRE_OK(es_kinship_graph_create(20, 3, &graph));
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    EsAtom wrong = {1, graph->n_constants + 1, 1};
    EXPECT_STATUS(es_proof_curve_create(graph, &settings, NULL, pool, &wrong, 1, &curve), ARGUMENT);
    EXPECT(curve == NULL);
    settings.max_depth = 0;
    EXPECT_STATUS(es_proof_curve_create(graph, &settings, NULL, pool, &wrong, 1, &curve), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "max_depth is 0");
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
}
