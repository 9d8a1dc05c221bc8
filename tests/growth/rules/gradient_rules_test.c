// Gradient health, ratio and averages; unmeasured stays unmeasured.
#include "growth/rules/gradient_rules.h"

#include "es_test.h"

static EsGrowthSettings defaults(void) { return es_growth_settings_default(1, 10); }

static EsSeed training_seed(void) {
    EsSeed seed;
    es_seed_reset(&seed);
    es_seed_reset_report(&seed);
    seed.stage = ES_STAGE_TRAINING;
    return seed;
}

// One tensor of each of the given norms, 100 elements each.
static EsGradientSums sums_of(const double *norms, int n, float clip) {
    EsGrowthSettings settings = defaults();
    EsGradientSums sums = es_gradient_sums_empty();
    for (int i = 0; i < n; i++) {
        es_gradient_add(&settings, &sums, norms[i] * norms[i], 100, clip);
    }
    return sums;
}

static double health_of(const double *norms, int n, float clip) {
    EsGrowthSettings settings = defaults();
    EsGradientSums sums = sums_of(norms, n, clip);
    return (double)es_gradient_health(&settings, &sums);
}

TEST(health) {
    EXPECT_NEAR(health_of((double[]){1, 1, 1, 1}, 4, 1), 1, 0);
    EXPECT_NEAR(health_of((double[]){1, 1, 1, 0}, 4, 1), 0.875, 1e-7);
    EXPECT_NEAR(health_of((double[]){0, 0, 0, 0}, 4, 1), 0.5, 1e-7);
    EXPECT_NEAR(health_of((double[]){1, 1, 1, 11}, 4, 1), 0.8, 1e-7);
    EXPECT_NEAR(health_of((double[]){11, 11}, 2, 1), 0.2, 1e-7);
    EXPECT_NEAR(health_of((double[]){11, 0}, 2, 1), 0.35, 1e-7);
    EXPECT_NEAR(health_of((double[]){1, INFINITY}, 2, 1), 0, 0);
    EXPECT_NEAR(health_of((double[]){1, NAN}, 2, 1), 0, 0);
}

TEST(thresholds) {
    EXPECT_EQ(sums_of((double[]){0.9e-7}, 1, 1).n_vanishing, 1);
    EXPECT_EQ(sums_of((double[]){1.1e-7}, 1, 1).n_vanishing, 0);
    EXPECT_EQ(sums_of((double[]){9.9}, 1, 1).n_exploding, 0);
    EXPECT_EQ(sums_of((double[]){10.1}, 1, 1).n_exploding, 1);
}

// Original: 10 whatever the clip is.
TEST(exploding_follows_the_clip) {
    EXPECT_EQ(sums_of((double[]){6}, 1, 1).n_exploding, 0);
    EXPECT_EQ(sums_of((double[]){6}, 1, 0.5f).n_exploding, 1);
    EXPECT_EQ(sums_of((double[]){30}, 1, 5).n_exploding, 0);
}

// Original: a seed without gradients has norm 0 and health 1.
TEST(no_gradients_are_not_measured) {
    EsGrowthSettings settings = defaults();
    EsGradientSums none = es_gradient_sums_empty();
    EsGradientSums host = sums_of((double[]){1}, 1, 1);
    EXPECT_NEAR(es_gradient_health(&settings, &none), ES_NOT_MEASURED, 0);
    EsSeed seed = training_seed();
    es_gradient_record(&settings, &seed, &none, &host);
    EXPECT_NEAR(seed.gradient_health, ES_NOT_MEASURED, 0);
    EXPECT_NEAR(seed.gradient_norm, ES_NOT_MEASURED, 0);
    EXPECT_NEAR(seed.gradient_ratio, ES_NOT_MEASURED, 0);
    EXPECT_EQ(seed.n_exploding, ES_NOT_MEASURED);
}

TEST(only_trained_seeds_are_measured) {
    EsGrowthSettings settings = defaults();
    EsGradientSums sums = sums_of((double[]){1}, 1, 1);
    const int32_t silent[] = {ES_STAGE_DORMANT, ES_STAGE_GERMINATED, ES_STAGE_PRUNED,
                              ES_STAGE_EMBARGOED, ES_STAGE_RESETTING};
    for (size_t i = 0; i < ES_COUNT_OF(silent); i++) {
        EsSeed seed = training_seed();
        seed.stage = silent[i];
        es_gradient_record(&settings, &seed, &sums, &sums);
        EXPECT_NEAR(seed.gradient_health, ES_NOT_MEASURED, 0);
    }
    EsSeed frozen = training_seed();
    frozen.stage = ES_STAGE_BLENDING;
    frozen.alpha_mode = ES_ALPHA_DOWN;
    es_gradient_record(&settings, &frozen, &sums, &sums);
    EXPECT_NEAR(frozen.gradient_health, ES_NOT_MEASURED, 0);
    frozen.alpha_mode = ES_ALPHA_UP;
    es_gradient_record(&settings, &frozen, &sums, &sums);
    EXPECT_NEAR(frozen.gradient_health, 1, 0);
}

TEST(ratio) {
    EsGradientSums seed = sums_of((double[]){2}, 1, 1); // 2 / sqrt(100) = 0.2
    EsGradientSums host = sums_of((double[]){4, 3}, 2, 1);
    host.n_elements = 400; // 5 / sqrt(400) = 0.25
    EXPECT_NEAR(es_gradient_ratio(&seed, &host), 0.8, 1e-7);
    EsGradientSums zero = sums_of((double[]){0}, 1, 1);
    EXPECT_NEAR(es_gradient_ratio(&zero, &host), 0, 0);
    EXPECT_NEAR(es_gradient_ratio(&seed, &zero), 0, 0);
    EsGradientSums none = es_gradient_sums_empty();
    EXPECT_NEAR(es_gradient_ratio(&seed, &none), ES_NOT_MEASURED, 0);
    EsGradientSums broken = sums_of((double[]){NAN}, 1, 1);
    EXPECT_NEAR(es_gradient_ratio(&broken, &host), ES_NOT_MEASURED, 0);
}

// Original: a seed germinated in the first step of an episode averages from 0.
TEST(first_ratio_is_taken_as_it_is) {
    EsGrowthSettings settings = defaults();
    EsGradientSums sums = sums_of((double[]){2}, 1, 1);
    EsGradientSums host = sums_of((double[]){1}, 1, 1);
    EsSeed seed = training_seed();
    es_gradient_record(&settings, &seed, &sums, &host);
    EXPECT_NEAR(seed.gradient_ratio, 2, 1e-6);
    EXPECT_NEAR(seed.gradient_norm, 2, 1e-6);
    sums = sums_of((double[]){4}, 1, 1);
    es_gradient_record(&settings, &seed, &sums, &host);
    EXPECT_NEAR(seed.gradient_ratio, 0.9 * 2 + 0.1 * 4, 1e-6);
    EXPECT_NEAR(seed.gradient_norm_average, 2.2, 1e-6);
    EXPECT_NEAR(seed.gradient_norm, 4, 1e-6);
}

TEST(not_finite_is_measured_as_sick) {
    EsGrowthSettings settings = defaults();
    EsGradientSums good = sums_of((double[]){1}, 1, 1);
    EsGradientSums bad = sums_of((double[]){1, INFINITY}, 2, 1);
    EsSeed seed = training_seed();
    es_gradient_record(&settings, &seed, &good, &good);
    es_gradient_record(&settings, &seed, &bad, &good);
    EXPECT_NEAR(seed.gradient_health, 0, 0);
    EXPECT_EQ(seed.n_exploding, 1);
    EXPECT(isfinite(seed.gradient_norm) && seed.gradient_norm > 1e38f);
    EXPECT_NEAR(seed.gradient_ratio, 1, 1e-6); // averages keep to finite values
    EXPECT_NEAR(seed.gradient_norm_average, 1, 1e-6);
}

TEST(forgotten_is_unmeasured) {
    EsGrowthSettings settings = defaults();
    EsGradientSums good = sums_of((double[]){1}, 1, 1);
    EsSeed seed = training_seed();
    EsSeed blank = seed;
    es_gradient_record(&settings, &seed, &good, &good);
    EXPECT(memcmp(&seed, &blank, sizeof seed) != 0);
    es_gradient_forget(&seed);
    EXPECT(memcmp(&seed, &blank, sizeof seed) == 0);
}

// A clip of 0 clips nothing: no finite norm is ten times too large then.
TEST(without_a_clip_only_what_is_not_finite_explodes) {
    EsGrowthSettings settings = defaults();
    EsGradientSums sums = sums_of((double[]){0.5, 1e6, INFINITY}, 3, 0);
    EXPECT_EQ(sums.n_exploding, 1);
    sums = sums_of((double[]){0.5, 1e6}, 2, 0);
    EXPECT_NEAR(es_gradient_health(&settings, &sums), 1, 0);
}
