// Running scales: by hand, in one go against in parts, and what they do with bad numbers.
#include "learning/normaliser.h"

#include "es_test.h"

TEST(features_start_as_they_are) {
    EsFeatureNormaliser n;
    REQUIRE_OK(es_feature_normaliser_create(2, &n));
    const float raw[] = {0.5f, -2, 300, (float)NAN};
    float out[4];
    es_feature_normaliser_apply(&n, 2, raw, out);
    EXPECT_NEAR(out[0], 0.5 / sqrt(1.0001), 1e-7);
    EXPECT_NEAR(out[1], -2 / sqrt(1.0001), 1e-7);
    EXPECT_NEAR(out[2], 10, 0);
    EXPECT(isnan(out[3]));
    es_feature_normaliser_destroy(&n);
    es_feature_normaliser_destroy(&n);
}

TEST(features_move_by_one_percent_a_round) {
    EsFeatureNormaliser n;
    REQUIRE_OK(es_feature_normaliser_create(2, &n));
    // counted: (2, 10), (6, 10): means 4 and 10, variances 4 and 0
    const float raw[] = {2, 10, 77, 99, 6, 10};
    const uint8_t is_counted[] = {1, 0, 1};
    EXPECT_EQ(es_feature_normaliser_merge(&n, 3, raw, is_counted), 0);
    EXPECT_NEAR(n.mean[0], 0.04, 1e-15);
    EXPECT_NEAR(n.variance[0], 0.99 + 0.01 * 4 + 0.99 * 0.01 * 16, 1e-15);
    EXPECT_NEAR(n.mean[1], 0.1, 1e-15);
    EXPECT_NEAR(n.variance[1], 0.99 + 0.99 * 0.01 * 100, 1e-14);
    EXPECT_EQ(n.n_merged, 1);
    const uint8_t none[] = {0, 0, 0};
    EXPECT_EQ(es_feature_normaliser_merge(&n, 3, raw, none), 0);
    EXPECT_EQ(n.n_merged, 1);
    EXPECT_NEAR(n.mean[1], 0.1, 1e-15);
    float out[2];
    es_feature_normaliser_apply(&n, 1, raw, out);
    EXPECT_NEAR(out[0], (2 - 0.04) / sqrt(1.1884 + 1e-4), 1e-6);
    es_feature_normaliser_destroy(&n);
}

TEST(a_bad_number_spoils_nothing) {
    EsFeatureNormaliser n;
    REQUIRE_OK(es_feature_normaliser_create(2, &n));
    const float raw[] = {1, (float)INFINITY, 3, 5};
    EXPECT_EQ(es_feature_normaliser_merge(&n, 2, raw, NULL), 1);
    EXPECT_NEAR(n.mean[0], 0.02, 1e-15);
    EXPECT(n.mean[1] == 0 && n.variance[1] == 1);
    es_feature_normaliser_destroy(&n);
}

TEST(reward_scale_is_the_deviation_of_all_samples) {
    EsScaleNormaliser all = es_scale_normaliser_start(), parts = es_scale_normaliser_start();
    EXPECT_NEAR(es_reward_scale(&all), 1, 0);
    const float values[] = {3, 1, 4, 1, 5, 9, 2, 6};
    es_reward_scale_merge(&all, 8, values, NULL);
    double mean = 31.0 / 8, squares = 0;
    for (int i = 0; i < 8; i++) {
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    }
    EXPECT_NEAR(es_reward_scale(&all), sqrt(squares / 7), 1e-14);
    es_reward_scale_merge(&parts, 1, values, NULL);
    EXPECT_NEAR(es_reward_scale(&parts), 1, 0); // one sample has no spread
    es_reward_scale_merge(&parts, 4, values + 1, NULL);
    const uint8_t is_counted[] = {1, 1, 1};
    es_reward_scale_merge(&parts, 3, values + 5, is_counted);
    EXPECT_NEAR(es_reward_scale(&parts), sqrt(squares / 7), 1e-14);
    EXPECT_NEAR(parts.n_samples, 8, 0);
    EXPECT_NEAR(parts.mean, mean, 1e-14);
}

TEST(equal_rewards_do_not_blow_up_the_next) {
    EsScaleNormaliser s = es_scale_normaliser_start();
    const float zeros[100] = {0};
    es_reward_scale_merge(&s, 100, zeros, NULL);
    EXPECT_NEAR(es_reward_scale(&s), 1, 0);
    const float one[] = {1};
    es_reward_scale_merge(&s, 1, one, NULL);
    EXPECT_NEAR(es_reward_scale(&s), sqrt((100.0 / 101) / 100), 1e-14); // variance of one in 101
}

TEST(value_scale_warms_up_then_moves_slowly) {
    EsScaleNormaliser s = es_scale_normaliser_start();
    float values[40];
    for (int i = 0; i < 40; i++) {
        values[i] = (float)(i % 2 == 0 ? 1 : 5);
    }
    es_value_scale_merge(&s, 20, values, NULL);
    EXPECT_NEAR(es_value_scale(&s), 1, 0); // 20 samples
    es_value_scale_merge(&s, 40, values, NULL);
    EXPECT_NEAR(es_value_scale(&s), sqrt(4 + 1e-4), 1e-14); // all 60: mean 3, variance 4
    const float tens[] = {10, 10};
    es_value_scale_merge(&s, 2, tens, NULL);
    EXPECT_NEAR(s.mean, 0.99 * 3 + 0.01 * 10, 1e-14);
    EXPECT_NEAR(s.variance, 0.99 * 4 + 0.99 * 0.01 * 49, 1e-14);
    EXPECT_NEAR(s.n_samples, 62, 0);
}
