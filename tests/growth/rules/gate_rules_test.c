// Every check of every gate, passed and failed, permissive and strict.
#include "growth/rules/gate_rules.h"

#include "es_test.h"
#include "growth/rules/growth_names.h"

#define BIT(check) (1 << ES_GATE_CHECK_##check)

static EsGrowthSettings settings_with(int is_strict) {
    EsGrowthSettings settings = es_growth_settings_default(3, 10);
    settings.is_strict = is_strict;
    return settings;
}

// A seed that passes every gate, strict ones too.
static EsSeed good_seed(void) {
    EsSeed seed;
    es_seed_reset(&seed);
    es_seed_reset_report(&seed);
    seed.number = 1;
    seed.blueprint = 1;
    seed.stage = ES_STAGE_GERMINATED;
    seed.steps_in_stage = 10;
    seed.accuracy_stage_start = 50;
    seed.accuracy_now = 50.5f;
    seed.gradient_health = 0.7f;
    seed.n_exploding = 0;
    seed.gradient_ratio = 0.1f;
    es_alpha_set(&seed, 1);
    seed.contribution = 1;
    seed.contribution_age = 0;
    return seed;
}

static void expect_gate(int is_strict, EsSeed seed, int32_t gate, int32_t checked, int32_t failed) {
    EsGrowthSettings settings = settings_with(is_strict);
    EsGateResult result = es_gate_check(&settings, &seed, gate);
    EXPECT_EQ(result.gate, gate);
    EXPECT_EQ(result.checked, checked);
    EXPECT_EQ(result.failed, failed);
    EXPECT_EQ(es_gate_is_open(&result), failed == 0);
}

TEST(g0_needs_a_number_and_a_legal_blueprint) {
    int32_t all = BIT(SEED) | BIT(BLUEPRINT);
    for (int strict = 0; strict < 2; strict++) {
        EsSeed seed = good_seed();
        expect_gate(strict, seed, ES_GATE_G0, all, 0);
        seed.number = 0;
        expect_gate(strict, seed, ES_GATE_G0, all, BIT(SEED));
        const int32_t illegal[] = {-1, 0, 8, 12, 13}; // none, noop, transformer's, beyond
        for (size_t i = 0; i < ES_COUNT_OF(illegal); i++) {
            seed = good_seed();
            seed.blueprint = illegal[i];
            expect_gate(strict, seed, ES_GATE_G0, all, BIT(BLUEPRINT));
        }
    }
}

TEST(g1_needs_germinated) {
    for (int strict = 0; strict < 2; strict++) {
        EsSeed seed = good_seed();
        expect_gate(strict, seed, ES_GATE_G1, BIT(STAGE), 0);
        seed.stage = ES_STAGE_TRAINING;
        expect_gate(strict, seed, ES_GATE_G1, BIT(STAGE), BIT(STAGE));
    }
}

TEST(g2_permissive) {
    int32_t all = BIT(DWELL) | BIT(HEALTH_MEASURED) | BIT(NOT_EXPLODING) | BIT(HEALTH);
    EsSeed seed = good_seed();
    seed.accuracy_now = 10; // losing accuracy is no matter here
    expect_gate(0, seed, ES_GATE_G2, all, 0);
    seed.steps_in_stage = 9;
    expect_gate(0, seed, ES_GATE_G2, all, BIT(DWELL));
    seed = good_seed();
    seed.n_exploding = 1;
    expect_gate(0, seed, ES_GATE_G2, all, BIT(NOT_EXPLODING));
    seed = good_seed();
    seed.gradient_health = 0.69f;
    expect_gate(0, seed, ES_GATE_G2, all, BIT(HEALTH));
}

TEST(unmeasured_is_not_healthy) {
    EsSeed seed = good_seed();
    seed.gradient_health = ES_NOT_MEASURED;
    seed.n_exploding = ES_NOT_MEASURED;
    expect_gate(0, seed, ES_GATE_G2,
                BIT(DWELL) | BIT(HEALTH_MEASURED) | BIT(NOT_EXPLODING) | BIT(HEALTH),
                BIT(HEALTH_MEASURED) | BIT(NOT_EXPLODING) | BIT(HEALTH));
    expect_gate(0, seed, ES_GATE_G5, BIT(CONTRIBUTION_MEASURED) | BIT(HEALTHY), BIT(HEALTHY));
}

TEST(g2_strict) {
    int32_t all = BIT(DWELL) | BIT(IMPROVEMENT) | BIT(RATIO_MEASURED) | BIT(RATIO);
    EsSeed seed = good_seed();
    seed.gradient_health = 0; // health is no matter here
    expect_gate(1, seed, ES_GATE_G2, all, 0);
    seed.steps_in_stage = 9;
    expect_gate(1, seed, ES_GATE_G2, all, BIT(DWELL));
    seed = good_seed();
    seed.accuracy_now = 50.25f;
    expect_gate(1, seed, ES_GATE_G2, all, BIT(IMPROVEMENT));
    seed.accuracy_stage_start = ES_NOT_MEASURED;
    expect_gate(1, seed, ES_GATE_G2, all, BIT(IMPROVEMENT));
    seed = good_seed();
    seed.gradient_ratio = 0.09f;
    expect_gate(1, seed, ES_GATE_G2, all, BIT(RATIO));
    seed.gradient_ratio = ES_NOT_MEASURED;
    expect_gate(1, seed, ES_GATE_G2, all, BIT(RATIO_MEASURED) | BIT(RATIO));
}

// Without a dwell time a seed leaves TRAINING as the identity that it was born as, unmeasured.
TEST(g2_without_a_dwell_time) {
    for (int is_strict = 0; is_strict < 2; is_strict++) {
        EsGrowthSettings settings = settings_with(is_strict);
        EsSeed seed = good_seed();
        seed.gradient_health = seed.gradient_ratio = ES_NOT_MEASURED;
        seed.steps_in_stage = 0;
        EsGateResult result = es_gate_check(&settings, &seed, ES_GATE_G2);
        EXPECT(!es_gate_is_open(&result));
        settings.training_dwell = 0;
        result = es_gate_check(&settings, &seed, ES_GATE_G2);
        EXPECT_EQ(result.checked, BIT(DWELL));
        EXPECT(es_gate_is_open(&result));
    }
}

TEST(g3) {
    int32_t both = BIT(TARGET_FULL) | BIT(TARGET_REACHED);
    EsSeed seed = good_seed();
    seed.steps_in_stage = 0;
    expect_gate(0, seed, ES_GATE_G3, both, 0);
    expect_gate(1, seed, ES_GATE_G3, both | BIT(DWELL), BIT(DWELL));
    seed.steps_in_stage = 10;
    expect_gate(1, seed, ES_GATE_G3, both | BIT(DWELL), 0);
    es_alpha_set(&seed, 0.7f);
    expect_gate(0, seed, ES_GATE_G3, both, BIT(TARGET_FULL));
    es_alpha_retarget(&seed, 1, 3, ES_CURVE_LINEAR, 12);
    expect_gate(0, seed, ES_GATE_G3, both, BIT(TARGET_REACHED));
}

TEST(g5) {
    int32_t both = BIT(CONTRIBUTION_MEASURED) | BIT(HEALTHY);
    EsSeed seed = good_seed();
    expect_gate(0, seed, ES_GATE_G5, both, 0);
    expect_gate(1, seed, ES_GATE_G5, both | BIT(CONTRIBUTION), 0);
    seed.contribution = 0.99f;
    expect_gate(0, seed, ES_GATE_G5, both, 0);
    expect_gate(1, seed, ES_GATE_G5, both | BIT(CONTRIBUTION), BIT(CONTRIBUTION));
    seed = good_seed();
    seed.contribution_age = ES_NOT_MEASURED;
    expect_gate(0, seed, ES_GATE_G5, both, BIT(CONTRIBUTION_MEASURED));
    expect_gate(1, seed, ES_GATE_G5, both | BIT(CONTRIBUTION),
                BIT(CONTRIBUTION_MEASURED) | BIT(CONTRIBUTION));
    // original: the healthy flag is decoration, nothing ever clears it
    seed = good_seed();
    seed.n_exploding = 1;
    expect_gate(0, seed, ES_GATE_G5, both, BIT(HEALTHY));
}

TEST(there_is_no_g4) {
    EsGrowthSettings settings = settings_with(0);
    EsSeed seed = good_seed();
    EsGateResult result = es_gate_check(&settings, &seed, 4);
    EXPECT(!es_gate_is_open(&result));
    EXPECT_TEXT(es_gate_name(4), "?");
    EXPECT_TEXT(es_gate_name(ES_GATE_G5), "G5");
}

TEST(scores) {
    EsGrowthSettings settings = settings_with(0);
    EsSeed seed = good_seed();
    seed.accuracy_now = 52.5f;
    EXPECT_NEAR(es_gate_check(&settings, &seed, ES_GATE_G2).score, 0.5, 1e-7);
    seed.accuracy_now = 80;
    EXPECT_NEAR(es_gate_check(&settings, &seed, ES_GATE_G2).score, 1, 0);
    seed.accuracy_now = 20;
    EXPECT_NEAR(es_gate_check(&settings, &seed, ES_GATE_G2).score, 0, 0);
    EXPECT_NEAR(es_gate_check(&settings, &seed, ES_GATE_G3).score, 1, 0);
    seed.contribution = 4;
    EXPECT_NEAR(es_gate_check(&settings, &seed, ES_GATE_G5).score, 0.4, 1e-7);
    seed.contribution = -4;
    EXPECT_NEAR(es_gate_check(&settings, &seed, ES_GATE_G5).score, 0, 0);
    EXPECT_NEAR(es_gate_check(&settings, &seed, ES_GATE_G0).score, 1, 0);
}

TEST(names_of_checks) {
    char text[64];
    EXPECT_TEXT(es_gate_checks_write(0, text, sizeof text), "");
    EXPECT_TEXT(es_gate_checks_write(BIT(DWELL) | BIT(HEALTH), text, sizeof text), "dwell,health");
    EXPECT_TEXT(es_gate_checks_write(BIT(DWELL) | BIT(HEALTH), text, 9), "dwell,he");
    EXPECT_TEXT(es_gate_check_name(ES_N_GATE_CHECKS), "?");
}
