// Vital signs, snapshots, and what a rollback does.
#include "growth/rules/governor_rules.h"

#include "es_test.h"
#include "growth/lifecycle_case.h"

static EsGrowthEnv after_losses(const EsGrowthSettings *settings, int n, float loss) {
    EsGrowthEnv env;
    es_growth_env_reset(&env);
    for (int i = 0; i < n; i++) {
        EXPECT_EQ(es_governor_check(settings, &env, loss), ES_PANIC_NONE);
    }
    return env;
}

TEST(nan_panics_at_once) {
    EsGrowthSettings settings = es_growth_settings_default(1, 10);
    EsGrowthEnv env = after_losses(&settings, 3, 1);
    EXPECT_EQ(es_governor_check(&settings, &env, NAN), ES_PANIC_NAN);
    EXPECT_EQ(es_governor_check(&settings, &env, INFINITY), ES_PANIC_NAN);
    EXPECT_EQ(es_governor_check(&settings, &env, -INFINITY), ES_PANIC_NAN);
    EXPECT_EQ(env.n_governed, 3);
    env = after_losses(&settings, 0, 1);
    EXPECT_EQ(es_governor_check(&settings, &env, NAN), ES_PANIC_NAN);
}

TEST(lobotomy_is_a_fall_back_to_guessing) {
    EsGrowthSettings settings = es_growth_settings_default(1, 10);
    EXPECT_NEAR(settings.random_loss, 2.302585, 1e-6);
    EsGrowthEnv env = after_losses(&settings, 9, 1);
    EXPECT_EQ(es_governor_check(&settings, &env, 2.30f), ES_PANIC_NONE); // too few
    env = after_losses(&settings, 10, 1);
    EXPECT_EQ(es_governor_check(&settings, &env, 2.30f), ES_PANIC_LOBOTOMY);
    EXPECT_EQ(env.n_governed, 10);
    EXPECT_EQ(es_governor_check(&settings, &env, 2.16f), ES_PANIC_LOBOTOMY); // band 0.1497
    EXPECT_EQ(es_governor_check(&settings, &env, 2.15f), ES_PANIC_NONE);
    EXPECT_EQ(es_governor_check(&settings, &env, 2.46f), ES_PANIC_NONE);
    // a host that never got below 0.6 L0 = 1.3816 has lost nothing
    env = after_losses(&settings, 10, 1.39f);
    EXPECT_EQ(es_governor_check(&settings, &env, 2.30f), ES_PANIC_NONE);
    env = after_losses(&settings, 10, 1.38f);
    EXPECT_EQ(es_governor_check(&settings, &env, 2.30f), ES_PANIC_LOBOTOMY);
}

TEST(divergence_needs_all_three_conditions) {
    EsGrowthSettings settings = es_growth_settings_default(1, 10);
    EsGrowthEnv env = after_losses(&settings, 10, 1);
    es_governor_check(&settings, &env, 12.0f); // not above 12
    EXPECT_EQ(env.n_divergences, 0);
    env = after_losses(&settings, 10, 1);
    es_governor_check(&settings, &env, 12.1f);
    EXPECT_EQ(env.n_divergences, 1);
    env = after_losses(&settings, 10, 4.5f); // 3 mean = 13.5
    es_governor_check(&settings, &env, 13.4f);
    EXPECT_EQ(env.n_divergences, 0);
    env = after_losses(&settings, 10, 4.5f);
    es_governor_check(&settings, &env, 13.6f);
    EXPECT_EQ(env.n_divergences, 1);
    // losses of 0 and 5: mean 2.5, sigma 2.5, so that mean + 6 sigma = 17.5
    es_growth_env_reset(&env);
    for (int i = 0; i < 10; i++) {
        es_governor_check(&settings, &env, i % 2 == 0 ? 0.0f : 5.0f);
    }
    EsGrowthEnv copy = env;
    es_governor_check(&settings, &env, 17.4f);
    EXPECT_EQ(env.n_divergences, 0);
    es_governor_check(&settings, &copy, 17.6f);
    EXPECT_EQ(copy.n_divergences, 1);
}

TEST(third_divergence_in_a_row_panics) {
    EsGrowthSettings settings = es_growth_settings_default(1, 10);
    EsGrowthEnv env = after_losses(&settings, 10, 1);
    EXPECT_EQ(es_governor_check(&settings, &env, 20), ES_PANIC_NONE);
    EXPECT_EQ(es_governor_check(&settings, &env, 20), ES_PANIC_NONE);
    EXPECT_EQ(env.n_governed, 10); // anomalies are not remembered
    EXPECT_EQ(es_governor_check(&settings, &env, 1), ES_PANIC_NONE);
    EXPECT_EQ(env.n_divergences, 0);
    EXPECT_EQ(es_governor_check(&settings, &env, 20), ES_PANIC_NONE);
    EXPECT_EQ(es_governor_check(&settings, &env, 20), ES_PANIC_NONE);
    EXPECT_EQ(es_governor_check(&settings, &env, 20), ES_PANIC_DIVERGENCE);
    es_governor_reset(&env);
    EXPECT_EQ(env.n_divergences, 0);
    EXPECT_EQ(env.n_governed, 11);
}

TEST(window_of_twenty_forgets) {
    EsGrowthSettings settings = es_growth_settings_default(1, 10);
    EsGrowthEnv env = after_losses(&settings, 20, 6);
    double variance;
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(env.n_governed, 20);
        EXPECT_NEAR(es_governor_mean(&env, &variance), 6 - 3.0 * i / 20, 1e-12);
        es_governor_check(&settings, &env, 3);
    }
    EXPECT_NEAR(es_governor_mean(&env, &variance), 3, 0);
    EXPECT_NEAR(variance, 0, 0);
}

TEST(tiny_judges_from_five) {
    EsGrowthSettings settings = es_growth_settings_tiny(1, 10);
    EsGrowthEnv env = after_losses(&settings, 5, 1);
    EXPECT_EQ(es_governor_check(&settings, &env, 2.3f), ES_PANIC_LOBOTOMY);
    env = after_losses(&settings, 4, 1);
    EXPECT_EQ(es_governor_check(&settings, &env, 2.3f), ES_PANIC_NONE);
}

TEST(snapshot_every_five_steps) {
    LifecycleCase c = case_begin(es_growth_settings_default(1, 10));
    EXPECT_EQ(c.env.requests, ES_ENV_REQUEST_SNAPSHOT); // of the fresh host
    for (int step = 1; step <= 20; step++) {
        case_step(&c, es_action_wait());
        EXPECT_EQ(c.env.requests & ES_ENV_REQUEST_SNAPSHOT, step % 5 == 0);
    }
    EXPECT_EQ(c.env.snapshot_step, 20);
}

// Original: a step within a pending divergence is no panic, and may be blessed by a snapshot.
TEST(no_snapshot_while_divergence_is_pending) {
    LifecycleCase c = case_begin(es_growth_settings_default(1, 10));
    case_wait(&c, 13);
    EXPECT_EQ(c.env.snapshot_step, 10);
    c.loss = 50;
    case_wait(&c, 2); // steps 14 and 15
    EXPECT_EQ(c.env.n_divergences, 2);
    EXPECT_EQ(c.env.snapshot_step, 10);
    EXPECT_EQ(c.env.is_snapshot_due, 1);
    c.loss = 1;
    case_step(&c, es_action_wait()); // step 16: over, the snapshot is made up for
    EXPECT_EQ(c.env.requests, ES_ENV_REQUEST_SNAPSHOT);
    EXPECT_EQ(c.env.snapshot_step, 16);
}

// Original: a fossil younger than the last snapshot keeps whatever weights it has.
TEST(a_fossil_is_covered_in_its_own_step) {
    LifecycleCase c = case_begin(automatic(es_growth_settings_default(1, 10)));
    case_grow(&c, 0);
    while (c.env.step % 5 == 0) { // not by the cadence
        case_wait(&c, 1);
    }
    int32_t step = c.env.step;
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0));
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_FOSSILIZED);
    EXPECT_EQ(c.env.requests, ES_ENV_REQUEST_SNAPSHOT);
    EXPECT_EQ(c.env.snapshot_step, step);
}

TEST(no_fossil_while_divergence_is_pending) {
    LifecycleCase c = case_begin(automatic(es_growth_settings_default(1, 10)));
    case_grow(&c, 0);
    c.loss = 50;
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0));
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_HOLDING);
    EXPECT_EQ(c.env.refusal, ES_REFUSAL_DIVERGENCE_PENDING);
    EXPECT_EQ(c.env.effective_op, ES_GROWTH_OP_WAIT);
    c.loss = 1;
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0));
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_FOSSILIZED);
}

TEST(rollback) {
    LifecycleCase c = case_begin(automatic(es_growth_settings_default(3, 10)));
    case_grow(&c, 0);
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0));
    case_grow(&c, 1);
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 2));
    int32_t snapshot_step = c.env.snapshot_step;
    c.loss = NAN;
    case_step(&c, action_on(ES_GROWTH_OP_PRUNE, 1));
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_FOSSILIZED);
    EXPECT_EQ(c.seeds[0].requests, ES_SEED_REQUEST_ZERO_MOMENTUM);
    EXPECT_EQ(c.seeds[1].stage, ES_STAGE_EMBARGOED);
    EXPECT_EQ(c.seeds[1].prune_reason, ES_PRUNE_GOVERNOR_NAN);
    EXPECT_EQ(c.seeds[1].requests, ES_SEED_REQUEST_CLEAR);
    EXPECT_EQ(c.seeds[2].stage, ES_STAGE_EMBARGOED);
    EXPECT_EQ(c.env.requests, ES_ENV_REQUEST_RESTORE | ES_ENV_REQUEST_ZERO_MOMENTUM |
                                  ES_ENV_REQUEST_RESET_SCALER | ES_ENV_REQUEST_RESET_POLICY);
    EXPECT_EQ(c.env.refusal, ES_REFUSAL_ROLLED_BACK);
    EXPECT_EQ(c.env.is_success, 0);
    EXPECT_EQ(c.env.sampled_op, ES_GROWTH_OP_WAIT);
    EXPECT_EQ(c.env.n_rollbacks, 1);
    EXPECT_EQ(c.env.n_unrewarded_prunes, 2);
    EXPECT_EQ(c.env.snapshot_step, snapshot_step); // a panic never overwrites the snapshot
}

// Original: slots that already cool down are flagged, and penalised, once more.
TEST(cooling_slots_are_not_penalised_again) {
    LifecycleCase c = case_begin(automatic(es_growth_settings_default(2, 10)));
    case_grow(&c, 0);
    case_step(&c, action_on(ES_GROWTH_OP_PRUNE, 0));
    EXPECT_EQ(c.seeds[0].prune_reason, ES_PRUNE_POLICY);
    c.loss = INFINITY;
    case_wait(&c, 2);
    EXPECT_EQ(c.env.n_rollbacks, 2);
    EXPECT_EQ(c.env.n_unrewarded_prunes, 0);
    EXPECT_EQ(c.env.n_governor_pruned, 0);
    EXPECT_EQ(c.env.n_pruned, 1);
    EXPECT_EQ(c.seeds[0].prune_reason, ES_PRUNE_POLICY);
}

TEST(divergence_rolls_back_and_starts_over) {
    LifecycleCase c = case_begin(automatic(es_growth_settings_default(1, 10)));
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
    case_wait(&c, 12);
    c.loss = 90;
    case_wait(&c, 2);
    EXPECT_EQ(c.env.n_rollbacks, 0);
    case_wait(&c, 1);
    EXPECT_EQ(c.env.n_rollbacks, 1);
    EXPECT_EQ(c.env.n_divergences, 0);
    EXPECT_EQ(c.seeds[0].prune_reason, ES_PRUNE_GOVERNOR_DIVERGENCE);
    case_wait(&c, 2);
    EXPECT_EQ(c.env.n_rollbacks, 1);
}

TEST(tracker) {
    EsGrowthSettings settings = es_growth_settings_default(1, 10);
    EsGrowthEnv env;
    es_growth_env_reset(&env);
    // original: the first loss delta is infinite, the first accuracy delta the whole accuracy
    es_tracker_record(&settings, &env, 2, 20);
    EXPECT_NEAR(env.loss_delta, 0, 0);
    EXPECT_NEAR(env.accuracy_delta, 0, 0);
    EXPECT_EQ(env.plateau_steps, 0);
    es_tracker_record(&settings, &env, 1.5f, 30);
    EXPECT_NEAR(env.loss_delta, 0.5, 0);
    EXPECT_NEAR(env.accuracy_delta, 10, 0);
    es_tracker_record(&settings, &env, 1.5f, 30.25f);
    EXPECT_EQ(env.plateau_steps, 1);
    es_tracker_record(&settings, &env, 1.5f, 29);
    EXPECT_EQ(env.plateau_steps, 2);
    EXPECT_EQ(env.is_stabilised, 0);
    es_tracker_record(&settings, &env, 1.5f, 29.5f);
    EXPECT_EQ(env.plateau_steps, 0);
    EXPECT_EQ(env.is_stabilised, 1); // third stable step
    es_tracker_record(&settings, &env, NAN, 90);
    EXPECT_NEAR(env.best_accuracy, 30.25, 0);
    EXPECT_NEAR(env.loss_delta, 0, 0);
    es_tracker_record(&settings, &env, 1, 20); // latched although far from stable
    EXPECT_EQ(env.is_stabilised, 1);
    EXPECT_EQ(env.n_stable, 0);
    EXPECT_NEAR(es_tracker_value(&env, env.loss_history, 0), 1, 0);
    EXPECT_NEAR(es_tracker_value(&env, env.loss_history, 5), 2, 0);
    EXPECT_NEAR(es_tracker_value(&env, env.loss_history, 6), ES_NOT_MEASURED, 0);
    EXPECT_NEAR(es_tracker_best_loss(&env), 1, 0);
    for (int i = 0; i < 10; i++) {
        es_tracker_record(&settings, &env, 3, 20);
    }
    EXPECT_NEAR(es_tracker_best_loss(&env), 3, 0); // of the window
    EXPECT_NEAR(env.best_accuracy, 30.25, 0);      // of the episode
}
