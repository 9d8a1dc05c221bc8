// Proofs within a limit, by depth: against searches one by one, and the same for any threads.
#include "es_test.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/graph/kinship_graph.h"
#include "proof/search/prover.h"
#include "runs/prove/prove_evaluate.h"

typedef struct ProofsCase {
    EsKnowledgeGraph *graph;
    EsDevice *device;
    EsProofPolicy *trained, *untrained;
    EsThreadPool *pool;
} ProofsCase;

static ProofsCase make_case(int n_threads) {
    ProofsCase test = {.graph = NULL};
    EsDeviceOptions options = {.n_threads = 1};
    EsProofPolicySettings settings = es_proof_policy_defaults();
    settings.encoder = ES_PROOF_ENCODER_STRUCTURE;
    settings.embed = 8;
    settings.hidden = 16;
    REQUIRE_OK(es_kinship_graph_create(120, 4, &test.graph));
    REQUIRE_OK(es_device_open("cpu", &options, &test.device));
    REQUIRE_OK(es_proof_policy_create(test.device, test.graph, &settings, 1, &test.trained));
    REQUIRE_OK(es_proof_policy_create(test.device, test.graph, &settings, 2, &test.untrained));
    REQUIRE_OK(es_thread_pool_create(&test.pool, n_threads));
    return test;
}

static void destroy_case(ProofsCase *test) {
    es_thread_pool_destroy(test->pool);
    es_proof_policy_destroy(test->trained);
    es_proof_policy_destroy(test->untrained);
    es_device_close(test->device);
    es_kg_destroy(test->graph);
}

static EsProveContest make_contest(const ProofsCase *test) {
    const EsQuerySplit *split = &test->graph->splits[ES_KG_SPLIT_TEST];
    EsProveContest contest = {.graph = test->graph,
                              .settings = es_proof_search_defaults(),
                              .trained = test->trained,
                              .untrained = test->untrained,
                              .pool = test->pool,
                              .queries = split->atoms,
                              .n_queries = split->count,
                              .max_steps = 4};
    contest.settings.max_expanded = 20;
    contest.settings.max_depth = 5;
    contest.settings.value_weight = 2;
    return contest;
}

// Counts one search's proofs of the queries of some depth, a query at a time.
static int32_t count_singly(const ProofsCase *test, EsProofSearchSettings settings,
                            const EsProofPolicy *policy, int32_t steps, int32_t *n_queries) {
    const EsQuerySplit *split = &test->graph->splits[ES_KG_SPLIT_TEST];
    EsProofPolicyScorer *scorer = NULL;
    EsProofGuide guide = {NULL, NULL};
    EsProofSearch *search = NULL;
    EsProver *prover = NULL;
    EsProverSettings depths = es_prover_defaults();
    int32_t n_proved = 0;
    if (policy != NULL) {
        REQUIRE_OK(es_proof_policy_scorer_create(policy, NULL, 1 << 16, &scorer));
        guide = es_proof_policy_scorer_guide(scorer);
    }
    REQUIRE_OK(
        es_proof_search_create(test->graph, &settings, policy != NULL ? &guide : NULL, &search));
    REQUIRE_OK(es_prover_create(test->graph, &depths, &prover));
    *n_queries = 0;
    for (int32_t i = 0; i < split->count; i++) {
        EsProverAnswer shortest;
        EsProofAnswer answer;
        REQUIRE_OK(es_prover_find_depth(prover, &split->atoms[i], &shortest));
        if (shortest.depth == steps) {
            REQUIRE_OK(es_proof_search_find(search, &split->atoms[i], &answer));
            n_proved += answer.is_proved;
            ++*n_queries;
        }
    }
    es_prover_destroy(prover);
    es_proof_search_destroy(search);
    es_proof_policy_scorer_destroy(scorer);
    return n_proved;
}

TEST(counts_are_those_of_single_searches) {
    ProofsCase test = make_case(2);
    EsProveContest contest = make_contest(&test);
    EsProveProofs proofs;
    REQUIRE_OK(es_prove_proofs_count(&contest, &proofs));
    EXPECT_EQ(proofs.n_nodes, 20);
    const EsProofPolicy *const policies[ES_N_PROVE_GUIDES] = {test.trained, test.untrained};
    for (int guide = 0; guide < ES_N_PROVE_GUIDES; guide++) {
        EsProofSearchSettings settings = contest.settings;
        int32_t sums[2] = {0, 0};
        if (guide == ES_PROVE_GUIDE_BREADTH) {
            settings.kind = ES_SEARCH_BREADTH;
        }
        settings.value_weight = guide < ES_PROVE_GUIDE_UNIFORM ? 2 : 0;
        for (int32_t steps = 2; steps <= 4; steps++) {
            int32_t n_queries = 0;
            int32_t n = count_singly(&test, settings, policies[guide], steps, &n_queries);
            const EsProofTally *tally = &proofs.tallies[guide][steps];
            EXPECT(n_queries > 0);
            EXPECT_EQ(tally->n_queries, n_queries);
            EXPECT_EQ(tally->n_proved, n);
            sums[0] += n;
            sums[1] += steps > 2 ? n : 0;
        }
        EXPECT_EQ(proofs.tallies[guide][0].n_proved, sums[0]);
        EXPECT_EQ(proofs.tallies[guide][1].n_proved, sums[1]);
        EXPECT_EQ(proofs.tallies[guide][5].n_queries, 0);
    }
    destroy_case(&test);
}

TEST(threads_change_nothing_and_few_queries_are_spaced) {
    ProofsCase one = make_case(1), three = make_case(3);
    EsProveContest contest = make_contest(&one), other = make_contest(&three);
    EsProveProofs proofs, more;
    contest.n_most = other.n_most = 50;
    contest.untrained = other.untrained = NULL;
    REQUIRE_OK(es_prove_proofs_count(&contest, &proofs));
    REQUIRE_OK(es_prove_proofs_count(&other, &more));
    EXPECT_EQ(proofs.tallies[ES_PROVE_GUIDE_TRAINED][0].n_queries, 50);
    EXPECT(proofs.tallies[ES_PROVE_GUIDE_TRAINED][1].n_queries > 0);
    json_t *a = es_prove_proofs_json(&proofs), *b = es_prove_proofs_json(&more);
    EXPECT(json_equal(a, b));
    const json_t *guides = json_object_get(a, "by_steps");
    EXPECT_EQ((int)json_object_size(guides), 3); // no untrained one
    const json_t *trained = json_object_get(guides, "trained");
    EXPECT_EQ((int)json_integer_value(json_object_get(json_object_get(trained, "all"), "queries")),
              50);
    EXPECT(json_object_get(trained, "9") == NULL);
    json_decref(a);
    json_decref(b);
    destroy_case(&one);
    destroy_case(&three);
}

TEST(no_deep_query_is_no_failure) {
    ProofsCase test = make_case(1);
    EsProveContest contest = make_contest(&test);
    EsProveProofs proofs;
    contest.n_queries = 0;
    REQUIRE_OK(es_prove_proofs_count(&contest, &proofs));
    EXPECT_EQ(proofs.tallies[ES_PROVE_GUIDE_UNIFORM][0].n_queries, 0);
    json_t *json = es_prove_proofs_json(&proofs);
    EXPECT(json != NULL);
    json_decref(json);
    destroy_case(&test);
}
