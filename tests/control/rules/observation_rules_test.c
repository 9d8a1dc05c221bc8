// Observations, index by index, by hand; and over random lives: always finite, always in range.
#include "control/rules/observation_rules.h"

#include "control/random_life.h"
#include "control/rules/sampling_rules.h"
#include "es_test.h"
#include "growth/lifecycle_case.h"

// index by number, as the table in the documents has it, so that the names cannot drift
static float features[ES_OBSERVATION_HOST + ES_OBSERVATION_SLOT * ES_SLOTS_MAX];
static int32_t blueprints[ES_SLOTS_MAX];

static const float *observe(const LifecycleCase *c) {
    for (size_t i = 0; i < ES_COUNT_OF(features); i++) {
        features[i] = NAN;
    }
    es_env_observe(&c->settings, &c->env, c->seeds, features, blueprints);
    return features;
}

static double symlog7(double x) { return log1p(x) / 7; }

TEST(sizes) {
    EXPECT_EQ(es_observation_size(3), 116);
    EXPECT_EQ(es_observation_size(1), 54);
    LifecycleCase c = case_begin(es_growth_settings_default(3, 10));
    const float *x = observe(&c);
    for (int i = 0; i < 116; i++) {
        EXPECT(isfinite(x[i]));
    }
    EXPECT(isnan(x[116])); // and nothing beyond
}

TEST(a_fresh_host) {
    LifecycleCase c = case_begin(es_growth_settings_default(3, 10));
    c.loss = 2.3f;
    c.accuracy = 11;
    case_measure(&c);
    const float *x = observe(&c);
    EXPECT_NEAR(x[0], 1.0 / 150, 1e-7);
    EXPECT_NEAR(x[1], symlog7(2.3), 1e-7);
    EXPECT_NEAR(x[2], 0.11, 1e-7);
    for (int i = 3; i < 7; i++) {
        EXPECT(x[i] == -1);     // no loss yet
        EXPECT(x[i + 5] == -1); // no accuracy
    }
    EXPECT(x[7] == x[1]);
    EXPECT(x[12] == x[2]);
    EXPECT(x[13] == 0 && x[14] == 0 && x[15] == 0);
    EXPECT(x[16] == 1); // nothing has failed
    EXPECT(x[17] == 1); // WAIT
    for (int i = 18; i < 116; i++) {
        EXPECT(x[i] == 0);
    }
    EXPECT_EQ(blueprints[0], 13);
    EXPECT_EQ(blueprints[2], 13);
}

TEST(histories_are_oldest_first) {
    LifecycleCase c = case_begin(es_growth_settings_default(1, 10));
    for (int i = 1; i <= 7; i++) {
        c.loss = (float)i;
        c.accuracy = (float)(10 * i);
        case_measure(&c);
    }
    const float *x = observe(&c);
    for (int i = 0; i < 5; i++) {
        EXPECT_NEAR(x[3 + i], symlog7(3 + i), 1e-7);
        EXPECT_NEAR(x[8 + i], 0.1 * (3 + i), 1e-7);
    }
}

TEST(counts_of_stages) {
    LifecycleCase c = case_begin(es_growth_settings_default(5, 10));
    c.seeds[0].stage = ES_STAGE_TRAINING;
    c.seeds[1].stage = ES_STAGE_BLENDING;
    c.seeds[2].stage = ES_STAGE_HOLDING;
    c.seeds[3].stage = ES_STAGE_FOSSILIZED;
    c.seeds[4].stage = ES_STAGE_FOSSILIZED;
    const float *x = observe(&c);
    EXPECT_NEAR(x[13], 0.2, 1e-7);
    EXPECT_NEAR(x[14], 0.2, 1e-7);
    EXPECT_NEAR(x[15], 0.6, 1e-7);
}

TEST(last_operation) {
    LifecycleCase c = case_begin(es_growth_settings_default(2, 10));
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 1));
    const float *x = observe(&c);
    EXPECT(x[16] == 1);
    EXPECT(x[17] == 0 && x[18] == 1);
    EXPECT_NEAR(x[0], 2.0 / 150, 1e-7);
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 1)); // refused: sampled, without success
    x = observe(&c);
    EXPECT(x[16] == 0);
    EXPECT(x[18] == 0 && x[21] == 1);
}

TEST(after_a_rollback) {
    LifecycleCase c = case_begin(es_growth_settings_default(2, 10));
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 1));
    c.loss = NAN;
    case_measure(&c);
    const float *x = observe(&c);
    EXPECT(x[1] == -1);                  // not a number: a value of its own
    EXPECT_NEAR(x[7], symlog7(1), 1e-7); // what was last measured
    EXPECT_NEAR(x[2], 0.5, 1e-7);
    EsAction action = action_on(ES_GROWTH_OP_PRUNE, 1);
    es_env_apply(&c.settings, &c.env, c.seeds, &action);
    es_env_tick(&c.settings, &c.env, c.seeds);
    x = observe(&c);
    EXPECT(x[16] == 0);
    EXPECT(x[17] == 1); // WAIT, whatever was asked for
}

static EsSeed seed_with_every_field(void) {
    EsSeed seed = {.stage = ES_STAGE_BLENDING,
                   .blueprint = ES_BLUEPRINT_ID_DEPTHWISE,
                   .alpha = 0.4f,
                   .alpha_start = 0.1f,
                   .alpha_target = 0.7f,
                   .alpha_mode = ES_ALPHA_UP,
                   .alpha_ticks = 8,
                   .alpha_ticks_done = 3,
                   .tempo = 8,
                   .algorithm = ES_ALGORITHM_MULTIPLY,
                   .contribution = 2.5f,
                   .contribution_velocity = -1.5f,
                   .contribution_age = 4,
                   .interaction_sum = 3,
                   .gradient_norm = 1.7f,
                   .gradient_health = 0.6f,
                   .previous_health = 0.8f,
                   .n_vanishing = 0,
                   .n_exploding = 2,
                   .steps_in_stage = 6,
                   .age = 21};
    return seed;
}

// The policy's view of it, in order.
// clang-format off
static const double seen_of_every_field[31] = {
    1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, // present; BLENDING is the fifth of ten
    0.4, 0.25, -0.15,                // alpha; contribution and its velocity over 10
    8.0 / 12, 0.7, 0.5,              // tempo, alpha's target and mode
    8.0 / 150, 3.0 / 150, 5.0 / 150, // ticks of alpha: all, done, left
    0.6 / 8, 0.5, 0.3,               // alpha per tick, algorithm, interactions
    0.993251773 / 7, 0.6, 0, 1, 0.8, // ln(1 + 1.7) / 7, health, vanishing, exploding, health before
    6.0 / 150, 0.980149501, 21.0 / 150, // steps in the stage, 0.995^4, age
};
// clang-format on

// In the second of two slots.
TEST(every_number_of_a_slot) {
    LifecycleCase c = case_begin(es_growth_settings_default(2, 10));
    c.seeds[1] = seed_with_every_field();
    const float *x = observe(&c) + 23 + 31;
    for (int i = 0; i < 31; i++) {
        if (!(fabs((double)x[i] - seen_of_every_field[i]) <= 1e-7)) {
            ES_TEST_FAIL("number %d of the slot is %.9g, expected %.9g", i, (double)x[i],
                         seen_of_every_field[i]);
        }
    }
    EXPECT_EQ(blueprints[0], 13);
    EXPECT_EQ(blueprints[1], 4);
    for (int i = 23; i < 23 + 31; i++) {
        EXPECT(features[i] == 0); // the empty slot before it
    }
}

TEST(stages_are_one_hot) {
    const int32_t stages[] = {2, 3, 4, 6, 7, 8, 9, 10}; // 5 is retired
    const int position[] = {2, 3, 4, 5, 6, 7, 8, 9};
    for (size_t k = 0; k < ES_COUNT_OF(stages); k++) {
        LifecycleCase c = case_begin(es_growth_settings_default(1, 10));
        c.seeds[0].stage = stages[k];
        const float *x = observe(&c) + 23;
        EXPECT(x[0] == 1);
        for (int i = 0; i < 10; i++) {
            EXPECT(x[1 + i] == (i == position[k] ? 1 : 0));
        }
    }
}

TEST(large_numbers_are_bounded) {
    LifecycleCase c = case_begin(es_growth_settings_tiny(1, 10));
    c.loss = 1e30f;
    case_measure(&c);
    EsSeed *seed = &c.seeds[0];
    seed->stage = ES_STAGE_HOLDING;
    seed->contribution = -55;
    seed->contribution_age = 0;
    seed->contribution_velocity = 31;
    seed->interaction_sum = -12;
    seed->gradient_norm = 3e38f;
    seed->age = 1000;
    seed->steps_in_stage = 1000;
    seed->tempo = 1000;
    const float *x = observe(&c);
    EXPECT(x[1] == 2);
    EXPECT(x[23 + 12] == -1 && x[23 + 13] == 1 && x[23 + 22] == -1);
    EXPECT(x[23 + 23] == 2 && x[23 + 28] == 1 && x[23 + 30] == 1 && x[23 + 14] == 2);
    EXPECT(x[23 + 29] == 1); // measured in this step
}

// --- defects of the original, each seen here ---

// nothing about gradients is known in GERMINATED: -1, not "norm 0, health 0"
TEST(unmeasured_gradients_are_minus_one) {
    LifecycleCase c = case_begin(es_growth_settings_default(1, 10));
    c.has_no_gradients = 1;
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
    case_measure(&c);
    const float *x = observe(&c) + 23;
    EXPECT(x[23] == -1 && x[24] == -1 && x[27] == -1);
    EXPECT(x[25] == 0 && x[26] == 0);
}

// a seed in TRAINING has no contribution, and does not become fresh by waiting
TEST(freshness_needs_a_measurement) {
    LifecycleCase c = case_begin(automatic(es_growth_settings_default(1, 10)));
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
    for (int i = 0; i < 5; i++) {
        case_measure(&c);
        const float *x = observe(&c) + 23;
        EXPECT(x[12] == 0 && x[29] == -1);
        EsAction wait = es_action_wait();
        es_env_apply(&c.settings, &c.env, c.seeds, &wait);
        es_env_tick(&c.settings, &c.env, c.seeds);
    }
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_TRAINING);
}

// the change of a contribution reaches the policy
TEST(contribution_velocity_is_seen) {
    LifecycleCase c = case_begin(automatic(es_growth_settings_tiny(1, 10)));
    case_grow(&c, 0);
    case_measure(&c);
    float before = c.seeds[0].contribution_velocity;
    c.contribution = 6;
    case_measure(&c);
    const float *x = observe(&c) + 23;
    EXPECT_NEAR(x[12], 0.6, 1e-6);
    EXPECT_NEAR(x[13], (0.7 * (double)before + 0.3 * 4) / 10, 1e-6);
    EXPECT(x[13] > 0.05f);
}

// --- random lives ---

static int lowest_is(int i) { // may the number be negative?
    if (i < 23) {
        return i >= 1 && i <= 12 ? -1 : 0;
    }
    int k = (i - 23) % 31;
    return k == 12 || k == 13 || k == 20 || k == 22 || k == 23 || k == 24 || k == 27 || k == 29 ? -1
                                                                                                : 0;
}

static int highest_is(int i) { // logarithms and the tempo go further
    int k = i < 23 ? -1 : (i - 23) % 31;
    return i == 1 || (i >= 3 && i <= 7) || k == 14 || k == 23 ? 2 : 1;
}

TEST(finite_and_in_range_over_random_lives) {
    static RandomLife life;
    int64_t n_steps = 0, n_missing = 0, n_fresh = 0;
    for (uint32_t world = 0; n_steps < 100000; world++) {
        life_begin(&life, 3, world);
        EsAction action;
        do {
            life_measure(&life);
            es_env_observe(&life.settings, &life.env, life.seeds, features, blueprints);
            for (int i = 0; i < es_observation_size(life.settings.n_slots); i++) {
                // written so that NaN fails
                if (!(features[i] >= (float)lowest_is(i) && features[i] <= (float)highest_is(i))) {
                    ES_TEST_FAIL("world %u, step %d: feature %d is %g", world, life.env.step, i,
                                 (double)features[i]);
                    return;
                }
            }
            for (int s = 0; s < life.settings.n_slots; s++) {
                EXPECT((blueprints[s] == 13) == (life.seeds[s].stage == ES_STAGE_DORMANT));
                n_fresh += features[23 + 31 * s + 29] == 1;
            }
            n_missing += features[1] == -1;
            EsActionKey key = {5, world, (uint32_t)life.env.step};
            action = es_uniform_action(&key, &life.masks);
            n_steps++;
        } while (life_act(&life, &action));
    }
    EXPECT(n_missing > 100); // the sentinel came up
    EXPECT(n_fresh > 1000);
}
