// The settings of proving: keys, what is refused, and what follows from them.
#include "runs/prove/prove_settings.h"

#include "es_test.h"

TEST(defaults_are_settings_that_can_be_trained_with) {
    EsProveSettings settings;
    es_prove_run_config(&settings);
    EXPECT_STATUS(es_prove_settings_check(&settings), OK);
    EsProofTrainingSettings training = es_prove_settings_training(&settings);
    EXPECT_STATUS(es_ppo_settings_check(&training.ppo, 1), OK);
    EXPECT_STATUS(es_proof_policy_settings_check(&training.policy), OK);
    EXPECT_EQ(training.env.n_envs, 128);
    EXPECT_EQ(training.env.n_negatives, 1);
    EXPECT_EQ(training.env.reward_type, 4);
    EXPECT(training.env.is_corrupting[ES_CORRUPT_HEAD] && training.env.is_corrupting[1]);
    EXPECT_EQ(training.schedule.n_rounds, settings.run.n_rounds);
    EXPECT_EQ(training.ppo.head[0].entropy_weight, 1);
}

TEST(keys_of_the_parts_are_keys_of_the_run) {
    EsProveSettings settings;
    EsConfig config = es_prove_run_config(&settings);
    EXPECT_NEAR(settings.ppo.gamma, 0.99, 1e-6); // proofs have defaults of their own
    EXPECT_STATUS(es_config_override(&config, "ppo.gamma=0.5"), OK);
    EXPECT_STATUS(es_config_override(&config, "ppo.warmup=0.25"), OK);
    EXPECT_STATUS(es_config_override(&config, "policy.layers=3"), OK);
    EXPECT_STATUS(es_config_override(&config, "policy.embedder=sum"), OK);
    EXPECT_EQ(es_prove_settings_training(&settings).policy.encoder, ES_PROOF_ENCODER_NAMES);
    EXPECT_STATUS(es_config_override(&config, "policy.encoder=structure"), OK);
    EXPECT_EQ(settings.n_proofs, -1); // runs without the key end as they did
    EXPECT_STATUS(es_config_override(&config, "env.corrupt=tail"), OK);
    EXPECT_STATUS(es_config_override(&config, "search.kind=beam"), OK);
    EsProofTrainingSettings training = es_prove_settings_training(&settings);
    EXPECT_EQ(training.ppo.gamma, 0.5f);
    EXPECT_EQ(training.schedule.warmup, 0.25f);
    EXPECT_EQ(training.policy.layers, 3);
    EXPECT_EQ(training.policy.embedder, ES_PROOF_EMBEDDER_SUM);
    EXPECT_EQ(training.policy.encoder, ES_PROOF_ENCODER_STRUCTURE);
    EXPECT_EQ(training.env.is_corrupting[ES_CORRUPT_HEAD], 0);
    EXPECT_EQ(es_prove_settings_search(&settings).kind, ES_SEARCH_BEAM);
    EXPECT_EQ(es_prove_settings_ranking(&settings, 7).uses_side[ES_CORRUPT_HEAD], 0);
    EXPECT_EQ(es_prove_settings_ranking(&settings, 7).n_corruptions, 7);
}

TEST(hostile_settings_are_refused) {
    static const char *const wrong[] = {
        "policy.encoder=name", "evaluate.proofs=-2",   "env.envs=0",          "env.envs=65537",
        "env.steps=0",         "env.max_atoms=0",      "env.reward=6",        "env.corrupt=middle",
        "env.max_states=-1",   "env.max_states=40000", "ppo.rate=-1",         "ppo.rate=nan",
        "ppo.bootstraps=1",    "ppo.total_updates=5",  "ppo.warmup=2",        "ppo.warmup_start=0",
        "policy.embed=0",      "policy.temperature=0", "policy.embd=8",       "search.kind=depth",
        "search.nodes=0",      "validate.every=-1",    "prove.people=1",      "run.rounds=0",
        "evaluate.queries=x",  "nothing.at=all",       "ppo.auxiliary_clip=1"};
    for (size_t i = 0; i < ES_COUNT_OF(wrong); i++) {
        EsProveSettings settings;
        EsConfig config = es_prove_run_config(&settings);
        EsStatus status = es_config_override(&config, wrong[i]);
        if (status != ES_STATUS_CONFIG && status != ES_STATUS_ARGUMENT) {
            ES_TEST_FAIL("%s was taken (%d)", wrong[i], (int)status);
        }
    }
    EsProveSettings settings;
    EsConfig config = es_prove_run_config(&settings);
    EXPECT_STATUS(es_config_override(&config, "env.min_query_depth=3"), OK);
    EXPECT_STATUS(es_prove_settings_check(&settings), CONFIG);
    es_prove_run_config(&settings);
    EXPECT_STATUS(es_config_override(&config, "prove.rules=other.txt"), OK);
    EXPECT_STATUS(es_prove_settings_check(&settings), CONFIG);
    es_prove_run_config(&settings);
    EXPECT_STATUS(es_config_override(&config, "search.score=evidence"), OK);
    EXPECT_STATUS(es_prove_settings_check(&settings), OK);
    EXPECT_STATUS(es_config_override(&config, "search.kind=greedy"), OK);
    EXPECT_STATUS(es_prove_settings_check(&settings), CONFIG);
    es_prove_run_config(&settings);
    EXPECT_STATUS(es_config_override(&config, "run.device=cuda"), OK);
    EXPECT_STATUS(es_prove_settings_check(&settings), CONFIG);
}

// Without files there are no published depths, so that a range needs depths of its own.
TEST(depths_can_be_found_instead_of_read) {
    EsProveSettings settings;
    EsConfig config = es_prove_run_config(&settings);
    EsKnowledgeGraph *graph = NULL;
    EXPECT_STATUS(es_config_override(&config, "prove.people=60"), OK);
    EXPECT_STATUS(es_config_override(&config, "env.min_query_depth=2"), OK);
    EXPECT_STATUS(es_config_override(&config, "env.max_query_depth=3"), OK);
    for (int finds = 0; finds < 2; finds++) {
        settings.finds_depths = finds;
        REQUIRE_OK(es_prove_settings_graph(&settings, &graph));
        const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TRAIN];
        EsProverSettings prover_settings = es_prover_defaults();
        EsProver *prover = NULL;
        prover_settings.max_depth = 3;
        REQUIRE_OK(es_prover_create(graph, &prover_settings, &prover));
        for (int32_t i = 0; i < split->count; i++) {
            EsProverAnswer answer;
            REQUIRE_OK(es_prover_find_depth(prover, &split->atoms[i], &answer));
            EXPECT_EQ(split->depths[i], finds ? answer.depth : ES_KG_DEPTH_ABSENT);
        }
        es_prover_destroy(prover);
        es_kg_destroy(graph);
    }
}

TEST(rate_and_entropy_anneal) {
    EsPpoSettings ppo = es_ppo_defaults();
    EsProofSchedule schedule = es_proof_training_defaults().schedule;
    ppo.rate = 0.01f;
    ppo.entropy_start = 0.5f;
    ppo.entropy_end = 0.1f;
    EXPECT_EQ(es_proof_schedule_settings(&schedule, &ppo, 50).rate, ppo.rate); // no rounds
    schedule.n_rounds = 100;
    schedule.warmup = 0.2f;
    schedule.warmup_start = 0.1f;
    schedule.rate_end = 0.05f;
    schedule.entropy_share = 0.5f;
    static const struct {
        int64_t n_done;
        double rate, entropy;
    } cases[] = {{0, 0.001, 0.5},     {10, 0.0055, 0.461803}, {20, 0.01, 0.361803},
                 {25, 0.009909, 0.3}, {50, 0.00706775, 0.1},  {60, 0.00525, 0.1},
                 {100, 0.0005, 0.1},  {200, 0.0005, 0.1}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsPpoSettings now = es_proof_schedule_settings(&schedule, &ppo, cases[i].n_done);
        EXPECT_NEAR((double)now.rate, cases[i].rate, 1e-6);
        EXPECT_NEAR((double)now.entropy_start, cases[i].entropy, 1e-5);
        EXPECT_EQ(now.entropy_start, now.entropy_end);
        EXPECT_EQ(now.bootstraps, 0);
        EXPECT(now.rate > 0);
    }
}

TEST(a_longer_run_has_a_longer_schedule_unless_told) {
    EsProveSettings settings;
    EsConfig config = es_prove_run_config(&settings);
    settings.run.n_rounds = 77;
    EXPECT_EQ(es_prove_settings_training(&settings).schedule.n_rounds, 77);
    EXPECT_STATUS(es_config_override(&config, "ppo.anneal_rounds=30"), OK);
    EXPECT_EQ(es_prove_settings_training(&settings).schedule.n_rounds, 30);
}
