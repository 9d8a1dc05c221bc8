// The alpha controller against the tables of the specification, to the digits printed there.
#include "growth/rules/alpha_rules.h"

#include "es_test.h"

static EsSeed at_rest(float alpha) {
    EsSeed seed;
    es_seed_reset(&seed);
    es_seed_reset_report(&seed);
    es_alpha_set(&seed, alpha);
    return seed;
}

// Ramp from 0 to `target` over n ticks, against the expected shares of the target.
static void expect_ramp(int32_t curve, float k, float target, int32_t n, const double *expected) {
    EsSeed seed = at_rest(0);
    EXPECT(es_alpha_retarget(&seed, target, n, curve, k));
    for (int32_t tick = 0; tick < n; tick++) {
        EXPECT_EQ(seed.alpha_mode, ES_ALPHA_UP);
        EXPECT_EQ(es_alpha_step(&seed), tick == n - 1);
        EXPECT_NEAR(seed.alpha, expected[tick] * (double)target, 5.1e-6);
    }
    EXPECT(seed.alpha == target);
    EXPECT_EQ(seed.alpha_mode, ES_ALPHA_HOLD);
}

TEST(sigmoid_table) {
    const double n3[] = {.11731, .88269, 1};
    const double n5[] = {.02424, .23014, .76986, .97576, 1};
    const double n8[] = {.00856, .04518, .18085, .5, .81915, .95482, .99144, 1};
    const double gentle[] = {.10432, .33908, .66092, .89568, 1};
    const double sharp[] = {.00074, .08317, .91683, .99926, 1};
    expect_ramp(ES_CURVE_SIGMOID, 12, 1, 3, n3);
    expect_ramp(ES_CURVE_SIGMOID, 12, 1, 5, n5);
    expect_ramp(ES_CURVE_SIGMOID, 12, 1, 8, n8);
    expect_ramp(ES_CURVE_SIGMOID, 12, 0.7f, 8, n8);
    expect_ramp(ES_CURVE_SIGMOID, 6, 1, 5, gentle);
    expect_ramp(ES_CURVE_SIGMOID, 24, 1, 5, sharp);
}

TEST(cosine_table) {
    const double n3[] = {.25, .75, 1};
    const double n5[] = {.09549, .34549, .65451, .90451, 1};
    const double n8[] = {.03806, .14645, .30866, .5, .69134, .85355, .96194, 1};
    expect_ramp(ES_CURVE_COSINE, 12, 1, 3, n3);
    expect_ramp(ES_CURVE_COSINE, 12, 1, 5, n5);
    expect_ramp(ES_CURVE_COSINE, 12, 0.5f, 8, n8);
}

TEST(linear_table) {
    const double n5[] = {.2, .4, .6, .8, 1};
    const double n1[] = {1};
    expect_ramp(ES_CURVE_LINEAR, 12, 1, 5, n5);
    expect_ramp(ES_CURVE_LINEAR, 12, 0.7f, 1, n1);
}

TEST(moves_only_toward_the_target) {
    const int32_t curves[] = {ES_CURVE_LINEAR, ES_CURVE_COSINE, ES_CURVE_SIGMOID};
    for (int i = 0; i < 3; i++) {
        for (int32_t n = 1; n <= 20; n++) {
            EsSeed seed = at_rest(0.9f);
            EXPECT(es_alpha_retarget(&seed, 0.2f, n, curves[i], 24));
            EXPECT_EQ(seed.alpha_mode, ES_ALPHA_DOWN);
            float last = seed.alpha;
            for (int32_t tick = 0; tick < n; tick++) {
                es_alpha_step(&seed);
                EXPECT(seed.alpha <= last && seed.alpha >= 0.2f);
                last = seed.alpha;
            }
            EXPECT(seed.alpha == 0.2f);
        }
    }
}

TEST(retargets_in_hold_alone) {
    EsSeed seed = at_rest(0);
    EXPECT(es_alpha_retarget(&seed, 1, 5, ES_CURVE_LINEAR, 12));
    es_alpha_step(&seed);
    EsSeed before = seed;
    EXPECT(!es_alpha_retarget(&seed, 0.5f, 3, ES_CURVE_COSINE, 6));
    EXPECT(memcmp(&before, &seed, sizeof seed) == 0);
}

TEST(zero_ticks_jump) {
    EsSeed seed = at_rest(0.5f);
    EXPECT(es_alpha_retarget(&seed, 1, 0, ES_CURVE_LINEAR, 12));
    EXPECT(seed.alpha == 1);
    EXPECT_EQ(seed.alpha_mode, ES_ALPHA_HOLD);
    EXPECT(es_alpha_is_reached(&seed));
    EXPECT_EQ(es_alpha_step(&seed), 0);
}

TEST(equal_target_stays_at_rest) {
    EsSeed seed = at_rest(1);
    EXPECT(es_alpha_retarget(&seed, 1, 5, ES_CURVE_LINEAR, 12));
    EXPECT_EQ(seed.alpha_mode, ES_ALPHA_HOLD);
    EXPECT_EQ(seed.alpha_ticks, 0); // no ramp is left to do
    EXPECT_EQ(es_alpha_step(&seed), 0);
    EXPECT(es_alpha_is_reached(&seed));
}

TEST(targets_and_steepness_are_clamped) {
    EsSeed seed = at_rest(0.5f);
    EXPECT(es_alpha_retarget(&seed, 7, 1, ES_CURVE_SIGMOID, -3));
    EXPECT(seed.alpha_target == 1);
    EXPECT_NEAR(seed.alpha_steepness, 0.1, 1e-6);
    es_alpha_step(&seed);
    EXPECT(es_alpha_retarget(&seed, NAN, 1, ES_CURVE_LINEAR, NAN));
    EXPECT(seed.alpha_target == 0);
    // a very flat sigmoid is nearly linear
    EXPECT_NEAR(es_alpha_progress(ES_CURVE_SIGMOID, 0.1, 0.3), 0.3, 1e-3);
}

TEST(velocity) {
    EsSeed seed = at_rest(0.2f);
    EXPECT(es_alpha_velocity(&seed) == 0);
    es_alpha_retarget(&seed, 1, 4, ES_CURVE_LINEAR, 12);
    EXPECT_NEAR(es_alpha_velocity(&seed), 0.2, 1e-7);
}

// Original: the freeze lifts one step after the ramp has ended.
TEST(freeze_lifts_with_the_last_tick) {
    EsSeed seed = at_rest(1);
    EXPECT(!es_seed_is_frozen(&seed));
    es_alpha_retarget(&seed, 0.5f, 2, ES_CURVE_LINEAR, 12);
    EXPECT(es_seed_is_frozen(&seed));
    es_alpha_step(&seed);
    EXPECT(es_seed_is_frozen(&seed));
    es_alpha_step(&seed);
    EXPECT(!es_seed_is_frozen(&seed));
}
