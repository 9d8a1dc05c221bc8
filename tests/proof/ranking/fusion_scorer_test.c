// Rankings by embedding and proofs together, and the fit on queries.
#include "proof/ranking/fusion.h"

#include "es_test.h"
#include "proof/graph/kinship_graph.h"
#include "proof/ranking/embedding_train.h"

// A village, a quickly trained model, and proofs that are made up: an atom is "proved" as `depth`
// says, so that every score can be worked out here.
typedef struct Village {
    EsKnowledgeGraph *graph;
    EsEmbeddingModel *model;
    EsKnownAtoms *known;
    EsFusion *fusion;
} Village;

static Village begin_village(void) {
    Village v = {0};
    EsEmbeddingReport report;
    REQUIRE_OK(es_kinship_graph_create(80, 1, &v.graph));
    EsEmbeddingSettings settings = es_embedding_defaults(v.graph);
    settings.n_dimensions = 16;
    settings.n_epochs = 5;
    EsDevice *device = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_embedding_model_train(device, v.graph, &settings, NULL, NULL, &report, &v.model));
    es_device_close(device);
    REQUIRE_OK(es_known_atoms_create(v.graph, &v.known));
    REQUIRE_OK(es_fusion_create(v.graph, es_fusion_defaults(), &v.fusion));
    return v;
}

static void end_village(Village *v) {
    es_fusion_destroy(v->fusion);
    es_known_atoms_destroy(v->known);
    es_embedding_model_destroy(v->model);
    es_kg_destroy(v->graph);
}

static int32_t invented_depth(EsAtom atom) {
    int32_t mixed = 7 * atom.a + 3 * atom.b + atom.predicate;
    return mixed % 5 == 0 ? 1 + mixed % 3 : ES_KG_DEPTH_NONE;
}

static EsStatus invent(void *context, int worker, const EsAtom *candidates, int32_t count,
                       EsCandidateScore *scores) {
    (void)context;
    (void)worker;
    for (int32_t i = 0; i < count; i++) {
        scores[i] = (EsCandidateScore){.score = -0.5 * candidates[i].b,
                                       .depth = invented_depth(candidates[i])};
    }
    return ES_STATUS_OK;
}

// The query, and nothing else, is proved.
static EsStatus prove_query(void *context, int worker, const EsAtom *candidates, int32_t count,
                            EsCandidateScore *scores) {
    (void)context;
    (void)worker;
    (void)candidates;
    for (int32_t i = 0; i < count; i++) {
        scores[i] = (EsCandidateScore){.depth = i == 0 ? 2 : ES_KG_DEPTH_NONE};
    }
    return ES_STATUS_OK;
}

static EsStatus refuse(void *context, int worker, const EsAtom *candidates, int32_t count,
                       EsCandidateScore *scores) {
    (void)context;
    (void)worker;
    (void)candidates;
    (void)count;
    (void)scores;
    return ES_FAIL(NUMERIC, "the proofs are lost");
}

static EsFusionScorer *make_scorer(const Village *v, const EsRankingSettings *settings,
                                   EsFusionProofs proofs, int n_workers) {
    EsFusionScorer *scorer = NULL;
    REQUIRE_OK(es_fusion_scorer_create(v->model, v->fusion, &proofs, n_workers,
                                       es_fusion_scorer_candidates_of(v->known, settings),
                                       &scorer));
    return scorer;
}

// The mean reciprocal rank of a query's side by the definition: 2 log k and the invented proofs.
static double plain_rank(const Village *v, const EsRankingSettings *settings, EsAtom query,
                         EsCorruptSide side, int uses_proofs) {
    EsAtom atoms[32];
    float log_k[32];
    atoms[0] = query;
    int32_t n = 1 + es_corruptions_list(v->known, &settings->corruptions, &query, (int)side,
                                        settings->n_corruptions, atoms + 1);
    es_embedding_model_scores(v->model, side, atoms, n, log_k);
    double own = 0;
    int32_t n_better = 0;
    for (int32_t i = 0; i < n; i++) {
        double proof = uses_proofs ? (invented_depth(atoms[i]) > 0 ? 1.0 : -0.5) : 0.0;
        double score = 2.0 * (double)log_k[i] + proof;
        own = i == 0 ? score : own;
        n_better += score > own;
    }
    return 1.0 / (n_better + 1);
}

static void check_ranking(int uses_proofs) {
    Village v = begin_village();
    EsRankingSettings settings = es_ranking_defaults();
    settings.n_corruptions = 20;
    EsFusionProofs proofs = {.scorer = {.score = uses_proofs ? invent : NULL}};
    EsFusionScorer *scorer = make_scorer(&v, &settings, proofs, 2);
    EsCandidateScorer candidates = es_fusion_scorer_candidates(scorer);
    const EsQuerySplit *test = &v.graph->splits[ES_KG_SPLIT_TEST];
    EsThreadPool *pool = NULL;
    EsRanking *ranking = NULL;
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    REQUIRE_OK(es_ranking_create(v.known, &settings, &candidates, pool, test->atoms, NULL,
                                 test->count, &ranking));
    for (int32_t i = 0; i < test->count; i++) {
        for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
            EXPECT_NEAR(ranking->queries[i].sides[side].reciprocal,
                        plain_rank(&v, &settings, test->atoms[i], (EsCorruptSide)side, uses_proofs),
                        1e-12);
        }
        EXPECT_EQ(ranking->queries[i].positive.depth,
                  uses_proofs ? invented_depth(test->atoms[i]) : ES_KG_DEPTH_NONE);
    }
    es_ranking_destroy(ranking);
    es_thread_pool_destroy(pool);
    es_fusion_scorer_destroy(scorer);
    end_village(&v);
}

TEST(embedding_alone) { check_ranking(0); }

TEST(embedding_and_proofs) { check_ranking(1); }

TEST(evidence_has_log_probabilities_where_proofs_do) {
    Village v = begin_village();
    EsRankingSettings settings = es_ranking_defaults();
    EsFusionProofs proofs = {.scorer = {.score = invent}, .gives_probability = 1};
    EsFusionScorer *scorer = make_scorer(&v, &settings, proofs, 1);
    const EsAtom atoms[] = {{1, 2, 3}, {1, 4, 3}, {1, 5, 3}, {1, 2, 6}};
    EsCandidateScore scores[4];
    EsFusionEvidence evidence;
    REQUIRE_OK(es_fusion_scorer_gather(scorer, 0, atoms, 4, scores, &evidence));
    for (int i = 0; i < 4; i++) {
        EXPECT_NEAR(evidence.log_probability[i], -0.5 * atoms[i].b, 0);
        EXPECT_EQ(evidence.depth[i], invented_depth(atoms[i]));
    }
    EXPECT(evidence.log_embedding[0] == 0);
    es_fusion_scorer_destroy(scorer);
    end_village(&v);
}

TEST(the_fit_sees_what_the_ranking_sees) {
    Village v = begin_village();
    EsRankingSettings settings = es_ranking_defaults();
    settings.n_corruptions = 20;
    const EsQuerySplit *valid = &v.graph->splits[ES_KG_SPLIT_VALID];
    EsFusionReport reports[2];
    EsFusionWeights weights[2];
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        EsFusionProofs proofs = {.scorer = {.score = prove_query}};
        EsFusionScorer *scorer = make_scorer(&v, &settings, proofs, n_threads);
        EsThreadPool *pool = NULL;
        v.fusion->overall = es_fusion_defaults();
        REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
        REQUIRE_OK(es_fusion_scorer_fit(scorer, v.known, &settings, pool, valid->atoms,
                                        valid->count, &reports[n_threads - 1]));
        weights[n_threads - 1] = v.fusion->overall;
        es_thread_pool_destroy(pool);
        es_fusion_scorer_destroy(scorer);
    }
    double sum = 0;
    for (int32_t i = 0; i < valid->count; i++) {
        sum += plain_rank(&v, &settings, valid->atoms[i], ES_CORRUPT_HEAD, 0) +
               plain_rank(&v, &settings, valid->atoms[i], ES_CORRUPT_TAIL, 0);
    }
    EXPECT_NEAR(reports[0].mrr_embedding, sum / (2 * valid->count), 1e-9);
    EXPECT_NEAR(reports[0].mrr_after, 1, 1e-12);
    EXPECT(reports[0].mrr_embedding < 1);
    EXPECT(reports[0].mrr_embedding == reports[1].mrr_embedding);
    EXPECT(reports[0].mrr_after == reports[1].mrr_after);
    EXPECT_EQ(memcmp(&weights[0], &weights[1], sizeof weights[0]), 0);
    end_village(&v);
}

TEST(failures_of_the_proofs_are_passed_on) {
    Village v = begin_village();
    EsRankingSettings settings = es_ranking_defaults();
    const EsQuerySplit *valid = &v.graph->splits[ES_KG_SPLIT_VALID];
    EsFusionProofs proofs = {.scorer = {.score = refuse}};
    EsFusionScorer *scorer = make_scorer(&v, &settings, proofs, 2);
    EsThreadPool *pool = NULL;
    EsFusionReport report;
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    EXPECT_STATUS(
        es_fusion_scorer_fit(scorer, v.known, &settings, pool, valid->atoms, valid->count, &report),
        NUMERIC);
    EXPECT_CONTAINS(es_status_detail(), "the proofs are lost");
    EXPECT_STATUS(es_fusion_scorer_fit(scorer, v.known, &settings, pool, valid->atoms, 0, &report),
                  ARGUMENT);
    es_thread_pool_destroy(pool);
    es_fusion_scorer_destroy(scorer);
    end_village(&v);
}
