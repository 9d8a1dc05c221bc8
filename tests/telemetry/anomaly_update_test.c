// The rules over updates of the policy: each just below, at and above its limit; what is
// remembered; missing against NaN.
#include <stddef.h>

#include "anomaly_case.h"
#include "base/macros.h"

static const EsAnomalyDetectedEvent *find_row(const EsAnomalyList *found, const char *rule) {
    for (int64_t i = 0; i < found->n_rows; i++) {
        if (strcmp(found->rows[i].rule, rule) == 0) {
            return &found->rows[i];
        }
    }
    return NULL;
}

static EsUpdateHealth make_healthy_update(void) {
    static const double heads[ES_N_GROWTH_HEADS] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    return (EsUpdateHealth){.policy_loss = -0.01,
                            .value_loss = 0.5,
                            .bellman_error = 0.4,
                            .entropy = 0.6,
                            .kl_divergence = 0.01,
                            .clip_fraction = 0.1,
                            .explained_variance = -3, // bad, but never an anomaly
                            .ratio_min = 0.7,
                            .ratio_max = 1.4,
                            .gradient_norm = 0.8,
                            .n_nonfinite_gradients = 0,
                            .n_usable_steps = 100,
                            .head_entropy = heads,
                            .lstm_h = {0.5, 0.9},
                            .lstm_c = {0.6, 1.1}};
}

// Check one update with a fresh detector. Expect the rule alone, with its event, value and limit;
// rule NULL: nothing.
static void expect_update(EsUpdateHealth health, const char *rule, const char *event, double value,
                          double threshold, int line) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    es_anomaly_check_update(&detector, &health, &found);
    if (rule == NULL) {
        if (found.n_rows != 0) {
            ES_TEST_FAIL("line %d: found %s (%s), expected nothing", line, row_at(&found, 0)->rule,
                         row_at(&found, 0)->detail);
        }
    } else if (found.n_rows != 1 || strcmp(row_at(&found, 0)->rule, rule) != 0) {
        ES_TEST_FAIL("line %d: %lld rows, the first %s, expected one of %s", line,
                     (long long)found.n_rows, found.n_rows > 0 ? row_at(&found, 0)->rule : "none",
                     rule);
    } else {
        EXPECT_TEXT(row_at(&found, 0)->event_name, event);
        EXPECT_TEXT(row_at(&found, 0)->severity, "warning");
        EXPECT(row_at(&found, 0)->env == ES_MISSING_INT);
        EXPECT_NEAR(row_at(&found, 0)->value, value, 0);
        EXPECT_NEAR(row_at(&found, 0)->threshold, threshold, 0);
        EXPECT(strlen(row_at(&found, 0)->detail) > 10);
    }
    es_anomaly_list_destroy(&found);
}

typedef struct UpdateCase {
    size_t offset; // of the field
    double limit;
    int is_upper;         // found above the limit; below it otherwise
    const char *at_limit; // what another rule says at the limit, NULL = nothing
    const char *rule, *event;
} UpdateCase;

#define FIELD(name) offsetof(EsUpdateHealth, name)

static const UpdateCase update_cases[] = {
    {FIELD(ratio_max), 5, 1, NULL, "ratio_explosion", "RATIO_EXPLOSION_DETECTED"},
    {FIELD(ratio_min), 0.1, 0, NULL, "ratio_collapse", "RATIO_COLLAPSE_DETECTED"},
    {FIELD(value_loss), 5, 1, NULL, "value_collapse", "VALUE_COLLAPSE_DETECTED"},
    {FIELD(bellman_error), 5, 1, NULL, "value_collapse", "VALUE_COLLAPSE_DETECTED"},
    {FIELD(entropy), 0.3, 0, NULL, "entropy_low", "GRADIENT_ANOMALY"},
    {FIELD(entropy), 0.1, 0, "entropy_low", "entropy_collapse", "GRADIENT_ANOMALY"},
    {FIELD(kl_divergence), 0.1, 1, NULL, "kl_spike", "GRADIENT_ANOMALY"},
    {FIELD(kl_divergence), 0.5, 1, "kl_spike", "kl_extreme", "GRADIENT_ANOMALY"},
    {FIELD(lstm_h.env_rms_max), 10, 1, NULL, "lstm_h_explosion", "GRADIENT_ANOMALY"},
    {FIELD(lstm_c.env_rms_max), 10, 1, NULL, "lstm_c_explosion", "GRADIENT_ANOMALY"},
    {FIELD(lstm_h.rms), 1e-6, 0, NULL, "lstm_h_vanishing", "GRADIENT_ANOMALY"},
    {FIELD(lstm_c.rms), 1e-6, 0, NULL, "lstm_c_vanishing", "GRADIENT_ANOMALY"},
};

static EsUpdateHealth update_with(size_t offset, double value) {
    EsUpdateHealth health = make_healthy_update();
    memcpy((char *)&health + offset, &value, sizeof value);
    return health;
}

TEST(finds_nothing_in_a_healthy_update) {
    expect_update(make_healthy_update(), NULL, NULL, 0, 0, __LINE__);
}

TEST(update_rules_turn_at_their_limits) {
    for (size_t i = 0; i < ES_COUNT_OF(update_cases); i++) {
        const UpdateCase *c = &update_cases[i];
        double outward = c->is_upper ? INFINITY : -INFINITY;
        double outside = nextafter(c->limit, outward), inside = nextafter(c->limit, -outward);
        // the milder rule at the limit has its own threshold
        double milder = c->is_upper ? 0.1 : 0.3;
        expect_update(update_with(c->offset, inside), c->at_limit, c->event, inside, milder,
                      __LINE__);
        expect_update(update_with(c->offset, c->limit), c->at_limit, c->event, c->limit, milder,
                      __LINE__);
        expect_update(update_with(c->offset, outside), c->rule, c->event, outside, c->limit,
                      __LINE__);
        // missing is neither
        expect_update(update_with(c->offset, es_missing_real()), NULL, NULL, 0, 0, __LINE__);
    }
}

TEST(value_collapse_needs_steps_that_trained_the_actor) {
    EsUpdateHealth health = make_healthy_update();
    health.value_loss = 50;
    expect_update(health, "value_collapse", "VALUE_COLLAPSE_DETECTED", 50, 5, __LINE__);
    health.n_usable_steps = 0;
    expect_update(health, NULL, NULL, 0, 0, __LINE__);
    health.n_usable_steps = ES_MISSING_INT;
    expect_update(health, NULL, NULL, 0, 0, __LINE__);
}

TEST(unmeasured_update_is_silent) {
    EsUpdateHealth health = es_update_health_unmeasured();
    EXPECT(es_is_missing_real(health.policy_loss) && es_is_missing_real(health.lstm_c.rms));
    EXPECT(es_is_missing_real(health.gradient_norm) && es_is_missing_real(health.ratio_min));
    expect_update(health, NULL, NULL, 0, 0, __LINE__);
}

TEST(computed_nan_and_infinity_are_named) {
    const double broken[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < ES_COUNT_OF(broken); i++) {
        EsAnomalyList found = create_list();
        EsAnomalyDetector detector = create_detector();
        EsUpdateHealth health = update_with(FIELD(explained_variance), broken[i]);
        health.kl_divergence = broken[i];
        es_anomaly_check_update(&detector, &health, &found);
        EXPECT_EQ(found.n_rows, 1); // no threshold rule on top
        EXPECT_TEXT(row_at(&found, 0)->rule, "numerical_instability");
        EXPECT_TEXT(row_at(&found, 0)->event_name, "NUMERICAL_INSTABILITY_DETECTED");
        EXPECT_TEXT(row_at(&found, 0)->severity, "error");
        EXPECT_TEXT(row_at(&found, 0)->detail,
                    "not finite in this update (2 in all): kl_divergence, explained_variance");
        EXPECT(!isfinite(row_at(&found, 0)->value) &&
               !es_is_missing_real(row_at(&found, 0)->value));
        es_anomaly_list_destroy(&found);
    }
}

TEST(ratios_that_are_not_finite_have_a_rule_of_their_own) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    EsUpdateHealth health = update_with(FIELD(ratio_max), INFINITY);
    es_anomaly_check_update(&detector, &health, &found);
    EXPECT_EQ(found.n_rows, 2);
    EXPECT(find_row(&found, "numerical_instability") != NULL);
    const EsAnomalyDetectedEvent *row = find_row(&found, "ratio_nan_inf");
    EXPECT(row != NULL && strcmp(row->event_name, "GRADIENT_ANOMALY") == 0 && isinf(row->value));
    es_anomaly_list_destroy(&found);
}

TEST(counts_and_flags_of_what_is_not_finite) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    EsUpdateHealth health = make_healthy_update();
    health.n_nonfinite_gradients = 1;
    health.lstm_has_nan = 1;
    es_anomaly_check_update(&detector, &health, &found);
    EXPECT_EQ(found.n_rows, 2);
    EXPECT(find_row(&found, "lstm_nan") != NULL && find_row(&found, "lstm_inf") == NULL);
    const EsAnomalyDetectedEvent *row = find_row(&found, "numerical_instability");
    EXPECT(row != NULL && row->value == 1 && row->threshold == 0);
    health = make_healthy_update();
    health.lstm_has_inf = 1;
    es_anomaly_list_reset(&found);
    es_anomaly_check_update(&detector, &health, &found);
    EXPECT_EQ(found.n_rows, 1);
    EXPECT_TEXT(row_at(&found, 0)->rule, "lstm_inf");
    es_anomaly_list_destroy(&found);
}

// --- heads ---

// Rows of entropy_collapse_op after one more update with this entropy of op.
static int64_t update_op(EsAnomalyDetector *detector, double entropy, EsAnomalyList *found) {
    double heads[ES_N_GROWTH_HEADS] = {1, 1, 1, 1, 1, 1, 1, entropy};
    EsUpdateHealth health = make_healthy_update();
    health.head_entropy = heads;
    es_anomaly_list_reset(found);
    es_anomaly_check_update(detector, &health, found);
    int64_t n = 0;
    for (int64_t i = 0; i < found->n_rows; i++) {
        n += strcmp(found->rows[i].rule, "entropy_collapse_op") == 0;
    }
    return n;
}

TEST(head_collapses_after_three_low_updates) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    EXPECT_EQ(update_op(&detector, nextafter(0.08, 0), &found), 0);
    EXPECT_EQ(update_op(&detector, nextafter(0.08, 0), &found), 0);
    EXPECT_EQ(update_op(&detector, nextafter(0.08, 0), &found), 1);
    EXPECT_EQ(found.n_rows, 1);
    EXPECT_TEXT(row_at(&found, 0)->event_name, "GRADIENT_ANOMALY");
    EXPECT_NEAR(row_at(&found, 0)->threshold, 0.08, 0);
    EXPECT_CONTAINS(row_at(&found, 0)->detail,
                    "entropy of head op is 0.08, below 0.08, in 3 updates");
    EXPECT_EQ(update_op(&detector, 0.01, &found), 1); // as long as it lasts
    // at the limit is not below it
    detector = create_detector();
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(update_op(&detector, 0.08, &found), 0);
    }
    es_anomaly_list_destroy(&found);
}

TEST(head_is_clear_only_above_its_recovery) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    const double recovery = 1.5 * 0.08;
    update_op(&detector, 0.05, &found);
    update_op(&detector, 0.05, &found);
    // up to 1.5 times the limit nothing is forgotten
    EXPECT_EQ(update_op(&detector, recovery, &found), 0);
    EXPECT_EQ(update_op(&detector, 0.05, &found), 1);
    EXPECT_EQ(update_op(&detector, recovery, &found), 0);
    EXPECT_EQ(update_op(&detector, 0.05, &found), 1);
    EXPECT_EQ(update_op(&detector, nextafter(recovery, 1), &found), 0);
    EXPECT_EQ(update_op(&detector, 0.05, &found), 0);
    EXPECT_EQ(update_op(&detector, 0.05, &found), 0);
    EXPECT_EQ(update_op(&detector, 0.05, &found), 1);
    es_anomaly_list_destroy(&found);
}

TEST(missing_and_nan_entropies_leave_the_count) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    update_op(&detector, 0.05, &found);
    update_op(&detector, 0.05, &found);
    EXPECT_EQ(update_op(&detector, es_missing_real(), &found), 0);
    EXPECT_EQ(found.n_rows, 0);
    EXPECT_EQ(update_op(&detector, NAN, &found), 0);
    EXPECT_EQ(found.n_rows, 1);
    EXPECT_TEXT(row_at(&found, 0)->detail, "not finite in this update (1 in all): entropy of op");
    EXPECT_EQ(update_op(&detector, 0.05, &found), 1);
    es_anomaly_list_destroy(&found);
}

TEST(every_head_has_its_own_limit) {
    const double limits[] = {0.10, 0.05, 0.08, 0.05, 0.08, 0.08, 0.08, 0.08};
    const char *const rules[] = {"entropy_collapse_slot",         "entropy_collapse_blueprint",
                                 "entropy_collapse_style",        "entropy_collapse_tempo",
                                 "entropy_collapse_alpha_target", "entropy_collapse_alpha_speed",
                                 "entropy_collapse_alpha_curve",  "entropy_collapse_op"};
    EsAnomalyList found = create_list();
    for (int head = 0; head < ES_N_GROWTH_HEADS; head++) {
        for (int is_low = 0; is_low < 2; is_low++) {
            double heads[] = {1, 1, 1, 1, 1, 1, 1, 1};
            heads[head] = is_low ? nextafter(limits[head], 0) : limits[head];
            EsUpdateHealth health = make_healthy_update();
            health.head_entropy = heads;
            EsAnomalyDetector detector = create_detector();
            es_anomaly_list_reset(&found);
            for (int i = 0; i < 3; i++) {
                es_anomaly_check_update(&detector, &health, &found);
            }
            EXPECT_EQ(found.n_rows, is_low);
            EXPECT(!is_low || strcmp(row_at(&found, 0)->rule, rules[head]) == 0);
        }
    }
    es_anomaly_list_destroy(&found);
}

// --- gradients ---

static void update_gradient(EsAnomalyDetector *detector, double norm, EsAnomalyList *found) {
    EsUpdateHealth health = update_with(FIELD(gradient_norm), norm);
    es_anomaly_list_reset(found);
    es_anomaly_check_update(detector, &health, found);
}

// `n` updates with one norm.
static void repeat_gradient(EsAnomalyDetector *detector, double norm, int n, EsAnomalyList *found) {
    for (int i = 0; i < n; i++) {
        update_gradient(detector, norm, found);
        EXPECT_EQ(found->n_rows, 0);
    }
}

TEST(running_mean_of_the_gradient_norm_by_hand) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    update_gradient(&detector, 2, &found);
    EXPECT_NEAR(detector.state.gradient_norm_mean, 2, 0);
    update_gradient(&detector, 5, &found); // far off, and judged by nobody yet
    EXPECT_EQ(found.n_rows, 0);
    EXPECT_NEAR(detector.state.gradient_norm_mean, 3.5, 1e-15);
    update_gradient(&detector, 2, &found);
    EXPECT_NEAR(detector.state.gradient_norm_mean, 3, 1e-15);
    repeat_gradient(&detector, 3, 97, &found);
    EXPECT_NEAR(detector.state.gradient_norm_mean, 3, 1e-13);
    update_gradient(&detector, 4, &found); // drift 0.33; the 101st comes with the momentum
    EXPECT_EQ(found.n_rows, 0);
    EXPECT_NEAR(detector.state.gradient_norm_mean, 3.01, 1e-13);
    update_gradient(&detector, 6.02, &found); // drift 1
    EXPECT_EQ(found.n_rows, 1);
    EXPECT_TEXT(row_at(&found, 0)->rule, "gradient_norm_drift");
    EXPECT_TEXT(row_at(&found, 0)->event_name, "GRADIENT_PATHOLOGY_DETECTED");
    EXPECT_NEAR(row_at(&found, 0)->value, 1, 1e-8);
    EXPECT_NEAR(row_at(&found, 0)->threshold, 0.5, 0);
    EXPECT_NEAR(detector.state.gradient_norm_mean, 3.0401, 1e-13); // it counts all the same
    EXPECT_NEAR(detector.state.gradient_health_mean, 1, 1e-13);
    es_anomaly_list_destroy(&found);
}

TEST(drift_is_judged_after_twenty_updates) {
    EsAnomalyList found = create_list();
    for (int n = 18; n <= 21; n++) {
        EsAnomalyDetector detector = create_detector();
        repeat_gradient(&detector, 1, n, &found);
        update_gradient(&detector, 50, &found);
        EXPECT_EQ(found.n_rows, n >= 20);
    }
    es_anomaly_list_destroy(&found);
}

TEST(drift_turns_at_its_limit) {
    // |x - mean| / (mean + 1e-8) is 0.5 at x = 1.5 mean + 5e-9, the rounding of which decides
    EsAnomalyList found = create_list();
    const double at = 1.5 * 4 + 0.5e-8;
    const double norms[] = {at - 1e-14, at + 1e-14, 2 - 0.4e-8, 2 - 0.6e-8};
    const int expected[] = {0, 1, 0, 1};
    for (size_t i = 0; i < ES_COUNT_OF(norms); i++) {
        EsAnomalyDetector detector = create_detector();
        detector.limits.n_gradients_before = 1; // the mean is one number, without rounding
        update_gradient(&detector, 4, &found);
        update_gradient(&detector, norms[i], &found);
        EXPECT_EQ(found.n_rows, expected[i]);
    }
    es_anomaly_list_destroy(&found);
}

TEST(gradient_health_drifts_when_norms_vanish_or_explode) {
    EsAnomalyList found = create_list();
    const double norms[] = {1e-7, 9e-8, 100, 100.5};
    const int expected[] = {0, 1, 0, 1};
    for (size_t i = 0; i < ES_COUNT_OF(norms); i++) {
        EsAnomalyDetector detector = create_detector();
        repeat_gradient(&detector, 1, 99, &found);
        update_gradient(&detector, norms[i], &found);
        const EsAnomalyDetectedEvent *row = find_row(&found, "gradient_health_drift");
        EXPECT_EQ(row != NULL, expected[i]);
        EXPECT(row == NULL || fabs(row->value - 0.7) < 1e-7); // from 1 to 0.3
        EXPECT_NEAR(detector.state.gradient_health_mean, expected[i] ? 0.993 : 1, 1e-13);
    }
    es_anomaly_list_destroy(&found);
}

TEST(running_means_take_measured_finite_values_alone) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    update_gradient(&detector, es_missing_real(), &found);
    EXPECT_EQ(found.n_rows, 0);
    update_gradient(&detector, NAN, &found);
    EXPECT_EQ(found.n_rows, 1);
    EXPECT_EQ(detector.state.n_gradients, 0);
    update_gradient(&detector, 2, &found);
    update_gradient(&detector, INFINITY, &found);
    update_gradient(&detector, es_missing_real(), &found);
    EXPECT_EQ(detector.state.n_gradients, 1);
    EXPECT_NEAR(detector.state.gradient_norm_mean, 2, 0);
    es_anomaly_list_destroy(&found);
}

TEST(limits_of_the_caller_are_used) {
    EsAnomalyList found = create_list();
    EsAnomalyLimits limits = es_anomaly_limits_defaults();
    limits.high_kl = 0.001;
    EsAnomalyDetector detector;
    es_anomaly_detector_reset(&detector, &limits, NULL, 0);
    EsUpdateHealth health = make_healthy_update();
    es_anomaly_check_update(&detector, &health, &found);
    EXPECT_EQ(found.n_rows, 1);
    EXPECT_TEXT(row_at(&found, 0)->rule, "kl_spike");
    es_anomaly_list_destroy(&found);
}
