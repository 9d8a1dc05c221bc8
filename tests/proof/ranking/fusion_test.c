// Scores from embeddings and proofs, and the fit of their weights.
#include "proof/ranking/fusion.h"

#include "es_test.h"
#include "proof/small_graph.h"

static EsFusion *make_fusion(EsFusionWeights weights) {
    EsKnowledgeGraph *graph = make_small_graph("p(a,b) q(b,a)", "", "");
    EsFusion *fusion = NULL;
    REQUIRE_OK(es_fusion_create(graph, weights, &fusion));
    es_kg_destroy(graph);
    return fusion;
}

// Worked out by hand: 2 log k + 1 when proved, 2 log k - 0.5 when not, nothing else by default.
TEST(the_binary_bonus) {
    const float log_embedding[] = {-0.25f, -0.25f, -3.0f, -40.0f};
    const float log_probability[] = {-7.0f, 0.0f, -1.0f, 0.0f};
    const int32_t depth[] = {1, -1, 4, -2};
    const double expected[] = {0.5, -1.0, -5.0, -80.5};
    EsFusion *fusion = make_fusion(es_fusion_defaults());
    EsFusionEvidence evidence = {log_embedding, depth, log_probability};
    double score[4];
    es_fusion_score(fusion, 1, &evidence, 4, score);
    for (int i = 0; i < 4; i++) {
        EXPECT_NEAR(score[i], expected[i], 1e-12);
    }
    es_fusion_destroy(fusion);
}

// 2 log k + 3 - 0.5 (depth - 1) + 0.25 log p
TEST(length_and_log_probability) {
    const float log_embedding[] = {-1.0f, -1.0f, -1.0f, -1.0f};
    const float log_probability[] = {-2.0f, -4.0f, -8.0f, -3.0f};
    const int32_t depth[] = {1, 3, 0, -1};
    const double with[] = {0.5, -1.0, -1.0, -2.75}, without[] = {1.0, 0.0, 1.0, -2.75};
    EsFusionWeights weights = {
        .embedding = 2, .bonus = 3, .penalty = 0.75f, .per_step = 0.5f, .log_probability = 0.25f};
    EsFusion *fusion = make_fusion(weights);
    EsFusionEvidence evidence = {log_embedding, depth, log_probability};
    double score[4];
    es_fusion_score(fusion, 2, &evidence, 4, score);
    for (int i = 0; i < 4; i++) {
        EXPECT_NEAR(score[i], with[i], 1e-12);
    }
    evidence.log_probability = NULL;
    es_fusion_score(fusion, 2, &evidence, 4, score);
    for (int i = 0; i < 4; i++) {
        EXPECT_NEAR(score[i], without[i], 1e-12);
    }
    es_fusion_destroy(fusion);
}

TEST(weights_are_checked) {
    EsKnowledgeGraph *graph = make_small_graph("p(a,b)", "", "");
    EsFusion *fusion = NULL;
    EsFusionWeights weights[5];
    for (int i = 0; i < 5; i++) {
        weights[i] = es_fusion_defaults();
    }
    weights[0].embedding = 0;
    weights[1].bonus = NAN;
    weights[2].penalty = INFINITY;
    weights[3].per_step = NAN;
    weights[4].log_probability = -INFINITY;
    for (int i = 0; i < 5; i++) {
        EXPECT_STATUS(es_fusion_create(graph, weights[i], &fusion), ARGUMENT);
        EXPECT(fusion == NULL);
    }
    es_fusion_destroy(NULL);
    es_kg_destroy(graph);
}

// --- the fit ---

// Questions of three candidates. With `proof_of` 0 the true one alone is proved, with 1 the second
// alone, with -1 none. The embedding puts the second `lead` ahead of the true one, the third last.
#define MAX_QUESTIONS 100

typedef struct Made {
    int32_t count, predicate[MAX_QUESTIONS], first[MAX_QUESTIONS + 1], depth[3 * MAX_QUESTIONS];
    float log_embedding[3 * MAX_QUESTIONS];
} Made;

static void add_question(Made *made, int32_t predicate, float lead, int proof_of) {
    int32_t i = made->count++;
    made->predicate[i] = predicate;
    made->first[i] = 3 * i;
    made->first[i + 1] = 3 * i + 3;
    for (int k = 0; k < 3; k++) {
        made->depth[3 * i + k] = k == proof_of ? 2 : -1;
        made->log_embedding[3 * i + k] = k == 0 ? -4.0f : k == 1 ? -4.0f + lead : -9.0f;
    }
}

static EsFusionReport fit(EsFusion *fusion, const Made *made) {
    EsFusionQuestions questions = {
        made->count, made->predicate, made->first, {made->log_embedding, made->depth, NULL}};
    EsFusionReport report;
    REQUIRE_OK(es_fusion_fit(fusion, &questions, &report));
    return report;
}

TEST(good_proofs_are_trusted) {
    Made made = {0};
    for (int i = 0; i < 10; i++) {
        add_question(&made, 1, 3.5f, 0);
    }
    EsFusion *fusion = make_fusion(es_fusion_defaults());
    EsFusionReport report = fit(fusion, &made);
    EXPECT_NEAR(report.mrr_embedding, 0.5, 1e-12);
    EXPECT_NEAR(report.mrr_before, 0.5, 1e-12); // a gain of 1.5 against a lead of 7
    EXPECT_NEAR(report.mrr_overall, 1.0, 1e-12);
    EXPECT_NEAR(report.mrr_after, 1.0, 1e-12);
    // the least of the grid that is enough: 4 w above an unproved candidate
    EXPECT_NEAR(fusion->overall.bonus + fusion->overall.penalty, 8, 1e-6);
    EXPECT_NEAR(fusion->overall.embedding, 2, 0);
    EXPECT_EQ(report.n_own, 0); // too few questions to say
    es_fusion_destroy(fusion);
}

TEST(bad_proofs_are_ignored) {
    Made made = {0};
    for (int i = 0; i < 10; i++) {
        add_question(&made, 1, -0.5f, 1);
    }
    EsFusion *fusion = make_fusion(es_fusion_defaults());
    EsFusionReport report = fit(fusion, &made);
    EXPECT_NEAR(report.mrr_before, 0.5, 1e-12);
    EXPECT_NEAR(report.mrr_after, 1.0, 1e-12);
    EXPECT_NEAR(fusion->overall.bonus + fusion->overall.penalty, 0, 1e-6);
    es_fusion_destroy(fusion);
}

// Proofs are right for predicate 1, of which there are more, and wrong for predicate 2.
TEST(predicates_get_weights_of_their_own) {
    Made made = {0};
    for (int i = 0; i < 60; i++) {
        add_question(&made, 1, 0.75f, 0);
    }
    for (int i = 0; i < 30; i++) {
        add_question(&made, 2, -0.25f, 1);
    }
    EsFusion *fusion = make_fusion(es_fusion_defaults());
    EsFusionReport report = fit(fusion, &made);
    EXPECT_NEAR(report.mrr_overall, (60 + 15) / 90.0, 1e-12);
    EXPECT_NEAR(report.mrr_after, 1.0, 1e-12);
    EXPECT_EQ(report.n_own, 1);
    EXPECT(!fusion->has_own[1] && fusion->has_own[2]);
    EXPECT_NEAR(fusion->of_predicate[1].bonus + fusion->of_predicate[1].penalty, 2, 1e-6);
    EXPECT_NEAR(fusion->of_predicate[2].bonus + fusion->of_predicate[2].penalty, 0, 1e-6);
    es_fusion_destroy(fusion);
}

// Weights that suit one half of a predicate's questions alone do not hold up.
TEST(a_predicate_that_contradicts_itself_keeps_the_common_weights) {
    Made made = {0};
    for (int i = 0; i < 60; i++) {
        add_question(&made, 1, 0.75f, 0);
    }
    for (int i = 0; i < 30; i++) {
        add_question(&made, 2, i % 2 == 0 ? -0.25f : 0.25f, i % 2 == 0);
    }
    EsFusion *fusion = make_fusion(es_fusion_defaults());
    EsFusionReport report = fit(fusion, &made);
    EXPECT_EQ(report.n_own, 0);
    EXPECT(report.mrr_after == report.mrr_overall);
    es_fusion_destroy(fusion);
}

// Weights chosen on the odd half serve the even one well, those of the even half hurt the odd one:
// a gain in sum is not enough.
TEST(weights_must_hold_up_both_ways) {
    Made made = {0};
    for (int i = 0; i < 60; i++) {
        add_question(&made, 1, 0.75f, 0);
    }
    for (int i = 0; i < 40; i++) {
        int wants_little = i % 2 == 0 || i < 16;
        add_question(&made, 2, wants_little ? -0.6f : 0.3f, wants_little);
    }
    EsFusion *fusion = make_fusion(es_fusion_defaults());
    EsFusionReport report = fit(fusion, &made);
    EXPECT_EQ(report.n_own, 0);
    es_fusion_destroy(fusion);
}

// Ties count by expectation: three equal candidates give (1 + 1/2 + 1/3) / 3.
TEST(ties_and_no_questions) {
    const float equal[] = {-1.0f, -1.0f, -1.0f};
    const int32_t depth[] = {-1, -1, -1}, predicate[] = {1}, first[] = {0, 3};
    EsFusionQuestions questions = {1, predicate, first, {equal, depth, NULL}};
    EsFusion *fusion = make_fusion(es_fusion_defaults());
    EsFusionReport report;
    REQUIRE_OK(es_fusion_fit(fusion, &questions, &report));
    EXPECT_NEAR(report.mrr_after, 11.0 / 18.0, 1e-12);
    questions.count = 0;
    EXPECT_STATUS(es_fusion_fit(fusion, &questions, &report), ARGUMENT);
    es_fusion_destroy(fusion);
}
