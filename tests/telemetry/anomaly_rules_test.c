// The rules over rounds, hosts, seeds, memory and updates of the policy: each just below, at and
// above its limit; what is remembered; missing against NaN.
#include <stddef.h>

#include "base/macros.h"
#include "base/range_check.h"
#include "es_test.h"
#include "telemetry/anomaly_rules.h"

static EsAnomalyList create_list(void) {
    EsAnomalyList list;
    REQUIRE_OK(es_anomaly_list_create(&list, 300));
    return list;
}

static EsAnomalyDetector create_detector(void) {
    EsAnomalyDetector detector;
    es_anomaly_detector_reset(&detector, NULL, es_anomaly_growth_heads, ES_N_GROWTH_HEADS);
    return detector;
}

// A row that is not there has empty texts, so that a test can go on.
static const EsAnomalyDetectedEvent *row_at(const EsAnomalyList *found, int64_t index) {
    static const EsAnomalyDetectedEvent none = {
        .rule = "", .severity = "", .event_name = "", .detail = ""};
    return index < found->n_rows ? &found->rows[index] : &none;
}

// --- rounds ---

static int check_round(EsAnomalyDetector *detector, double accuracy, double progress,
                       EsAnomalyList *found, EsTrendDetectedEvent *trend) {
    es_anomaly_list_reset(found);
    return es_anomaly_check_round(detector, &(EsRoundHealth){accuracy, progress}, found, trend);
}

// Ten rounds whose mean is 50 when the last is `last`.
static void fill_rounds(EsAnomalyDetector *detector, double last, EsAnomalyList *found) {
    EsTrendDetectedEvent trend;
    check_round(detector, 100 - last, 0.5, found, &trend);
    for (int i = 0; i < 8; i++) {
        check_round(detector, 50, 0.5, found, &trend);
    }
}

TEST(performance_degrades_at_a_tenth_below_the_rolling_mean) {
    EsAnomalyList found = create_list();
    EsTrendDetectedEvent trend;
    const double last[] = {45.0625, 45, 44.9375};
    for (int i = 0; i < 3; i++) {
        EsAnomalyDetector detector = create_detector();
        fill_rounds(&detector, last[i], &found);
        check_round(&detector, last[i], 0.1, &found, &trend);
        EXPECT_NEAR(detector.state.rolling_accuracy, 50, 0);
        EXPECT_EQ(found.n_rows, i > 0);
    }
    EXPECT_TEXT(row_at(&found, 0)->rule, "performance_degradation");
    EXPECT_TEXT(row_at(&found, 0)->event_name, "PERFORMANCE_DEGRADATION");
    EXPECT_NEAR(row_at(&found, 0)->value, 0.10125, 1e-15);
    EXPECT_NEAR(row_at(&found, 0)->threshold, 0.1, 0);
    EXPECT_TEXT(row_at(&found, 0)->detail,
                "accuracy 44.94 is 10.1 % below the mean of the last rounds, 50.00");
    // too early, or nobody knows when
    const double progress[] = {0.0999, es_missing_real()};
    for (size_t i = 0; i < ES_COUNT_OF(progress); i++) {
        EsAnomalyDetector detector = create_detector();
        fill_rounds(&detector, 20, &found);
        check_round(&detector, 20, progress[i], &found, &trend);
        EXPECT_EQ(found.n_rows, 0);
    }
    es_anomaly_list_destroy(&found);
}

TEST(rolling_accuracy_forgets_the_eleventh_round) {
    EsAnomalyList found = create_list();
    EsTrendDetectedEvent trend;
    EsAnomalyDetector detector = create_detector();
    check_round(&detector, 90, 0, &found, &trend);
    EXPECT_NEAR(detector.state.rolling_accuracy, 90, 0);
    for (int i = 0; i < 9; i++) {
        check_round(&detector, 40, 0, &found, &trend);
    }
    EXPECT_NEAR(detector.state.rolling_accuracy, 45, 0);
    check_round(&detector, 40, 0, &found, &trend);
    EXPECT_NEAR(detector.state.rolling_accuracy, 40, 0);
    es_anomaly_list_destroy(&found);
}

TEST(trend_turns_at_its_limits) {
    // the rolling mean of {10, x} is 10 + delta for x = 10 + 2 delta
    const struct {
        double delta;
        const char *trend;
    } cases[] = {{0, "plateau"},
                 {0.4375, "plateau"},
                 {-0.4375, "plateau"},
                 {0.5, NULL},
                 {-0.5, NULL},
                 {2, NULL},
                 {-2, NULL},
                 {2.0625, "improvement"},
                 {-2.0625, "degradation"}};
    EsAnomalyList found = create_list();
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsAnomalyDetector detector = create_detector();
        EsTrendDetectedEvent trend = {0};
        EXPECT_EQ(check_round(&detector, 10, 0, &found, &trend), 0); // nothing to compare with
        int has_trend = check_round(&detector, 10 + 2 * cases[i].delta, 0, &found, &trend);
        EXPECT_EQ(has_trend, cases[i].trend != NULL);
        if (has_trend && cases[i].trend != NULL) {
            EXPECT_TEXT(trend.trend, cases[i].trend);
            EXPECT_NEAR(trend.delta, cases[i].delta, 0);
            EXPECT_NEAR(trend.rolling_accuracy, 10 + cases[i].delta, 0);
            EXPECT_NEAR(trend.previous_accuracy, 10, 0);
        }
    }
    es_anomaly_list_destroy(&found);
}

TEST(rounds_without_an_accuracy_are_left_out) {
    EsAnomalyList found = create_list();
    EsTrendDetectedEvent trend;
    EsAnomalyDetector detector = create_detector();
    check_round(&detector, 50, 0.5, &found, &trend);
    EXPECT_EQ(check_round(&detector, es_missing_real(), 0.5, &found, &trend), 0);
    EXPECT_EQ(found.n_rows, 0);
    EXPECT_EQ(check_round(&detector, NAN, 0.5, &found, &trend), 0);
    EXPECT_EQ(found.n_rows, 1);
    EXPECT_TEXT(row_at(&found, 0)->rule, "numerical_instability");
    EXPECT_EQ(detector.state.n_accuracies, 1);
    // an accuracy of 0 from the start is no division by zero
    detector = create_detector();
    check_round(&detector, 0, 0.5, &found, &trend);
    EXPECT_EQ(found.n_rows, 0);
    es_anomaly_list_destroy(&found);
}

// --- hosts, seeds, memory ---

TEST(names_the_hosts_whose_loss_is_not_finite) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    const double loss[] = {0.5, NAN, es_missing_real(), 1e300, INFINITY};
    EsHostsHealth health = {loss, 5, 64};
    EXPECT_EQ(es_anomaly_check_hosts(&detector, &health, &found), 2);
    EXPECT_EQ(found.n_rows, 2);
    EXPECT_EQ(row_at(&found, 0)->env, 65);
    EXPECT_EQ(row_at(&found, 1)->env, 68);
    EXPECT_TEXT(row_at(&found, 1)->rule, "numerical_instability");
    EXPECT_TEXT(row_at(&found, 1)->detail,
                "loss of environment 68 is inf; 2 of 5 hosts have such a loss");
    EXPECT_EQ(found.n_unlisted, 0);
    es_anomaly_list_destroy(&found);
}

TEST(lists_a_hundred_hosts_and_counts_all) {
    double loss[250];
    for (int e = 0; e < 250; e++) {
        loss[e] = e % 2 == 0 ? NAN : 1;
    }
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    EXPECT_EQ(es_anomaly_check_hosts(&detector, &(EsHostsHealth){loss, 250, 0}, &found), 125);
    EXPECT_EQ(found.n_rows, 100);
    EXPECT_EQ(found.n_unlisted, 25);
    EXPECT_EQ(row_at(&found, 99)->env, 198);
    EXPECT_CONTAINS(row_at(&found, 99)->detail, "125 of 250 hosts");
    es_anomaly_list_reset(&found);
    EXPECT_EQ(es_anomaly_check_hosts(&detector, &(EsHostsHealth){loss, 199, 0}, &found), 100);
    EXPECT_EQ(found.n_rows, 100);
    EXPECT_EQ(found.n_unlisted, 0);
    es_anomaly_list_destroy(&found);
}

TEST(full_list_still_counts) {
    const double loss[] = {NAN, NAN, NAN};
    EsAnomalyList found;
    REQUIRE_OK(es_anomaly_list_create(&found, 2));
    EsAnomalyDetector detector = create_detector();
    EXPECT_EQ(es_anomaly_check_hosts(&detector, &(EsHostsHealth){loss, 3, 0}, &found), 3);
    EXPECT_EQ(found.n_rows, 2);
    EXPECT_EQ(found.n_unlisted, 1);
    es_anomaly_list_destroy(&found);
    es_anomaly_list_destroy(&found);
}

// Check one seed; returns the only row (its texts are gone), rule NULL when there is none.
static EsAnomalyDetectedEvent check_seed(double contribution, double improvement, double joint,
                                         char rule[64]) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    EsRewardHealth seed = {7, "r0c1", contribution, improvement, joint};
    es_anomaly_check_reward(&detector, &seed, 1, &found);
    EXPECT(found.n_rows <= 1);
    EsAnomalyDetectedEvent row = {0};
    rule[0] = '\0';
    if (found.n_rows > 0) {
        row = found.rows[0];
        snprintf(rule, 64, "%s", row.rule);
        EXPECT_EQ(row.env, 7);
        EXPECT_CONTAINS(row.detail, "slot r0c1: ");
    }
    es_anomaly_list_destroy(&found);
    return row;
}

TEST(reward_rules_turn_at_their_limits) {
    const struct {
        double contribution, improvement;
        const char *rule, *severity;
        double value, joint;
    } cases[] = {
        {4.9375, 1, "", NULL, 0, 0},
        {5, 1, "attribution_ratio", "warning", 5, 0},
        {10, 1, "attribution_ratio", "warning", 10, 0},
        {10, 0, "", NULL, 0, 0}, // both must be above 0
        {-10, -1, "", NULL, 0, 0},
        {nextafter(10, 0), -5, "", NULL, 0, -50},
        {50, -5, "", NULL, 0, nextafter(-10, 0)},
        {50, -50, "", NULL, 0, es_missing_real()}, // a host that got worse for other reasons
        {10, -5, "costly_dependence", "warning", 10, -10},
        {nextafter(20, 0), 0, "costly_dependence", "warning", nextafter(20, 0), -10},
        {20, -5, "costly_dependence", "critical", 20, -30},
        {es_missing_real(), -5, "", NULL, 0, 0},
        {5, es_missing_real(), "", NULL, 0, 0},
        {INFINITY, 1, "numerical_instability", "error", INFINITY, 0},
        {es_missing_real(), -INFINITY, "numerical_instability", "error", -INFINITY, 0},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        char rule[64];
        EsAnomalyDetectedEvent row =
            check_seed(cases[i].contribution, cases[i].improvement, cases[i].joint, rule);
        EXPECT_TEXT(rule, cases[i].rule);
        if (cases[i].severity != NULL && rule[0] != '\0') {
            EXPECT_TEXT(row.severity, cases[i].severity);
            EXPECT(row.value == cases[i].value);
        }
    }
}

static int64_t check_memory(EsAnomalyDetector *detector, int device, int64_t allocated,
                            double now_s, EsAnomalyList *found) {
    EsMemoryHealth health = {device, "cuda:0", allocated, 10000};
    es_anomaly_list_reset(found);
    es_anomaly_check_memory(detector, &health, now_s, found);
    return found->n_rows;
}

TEST(memory_warns_at_its_share_and_then_is_quiet) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    EXPECT_EQ(check_memory(&detector, 0, 8499, 0, &found), 0);
    EXPECT_EQ(check_memory(&detector, 0, 8500, 0, &found), 1); // also at time 0
    EXPECT_TEXT(row_at(&found, 0)->rule, "memory_warning");
    EXPECT_TEXT(row_at(&found, 0)->event_name, "MEMORY_WARNING");
    EXPECT_NEAR(row_at(&found, 0)->value, 0.85, 0);
    EXPECT_CONTAINS(row_at(&found, 0)->detail, "cuda:0: ");
    EXPECT_EQ(check_memory(&detector, 0, 9999, 59.875, &found), 0);
    EXPECT_EQ(check_memory(&detector, 1, 9999, 59.875, &found), 1); // another device
    EXPECT_EQ(check_memory(&detector, 0, 9999, 60, &found), 1);
    EXPECT_EQ(check_memory(&detector, 0, 9999, 119.875, &found), 0);
    EXPECT_EQ(check_memory(&detector, 0, 9999, 120, &found), 1);
    es_anomaly_list_destroy(&found);
}

TEST(memory_that_is_not_known_is_silent) {
    EsAnomalyList found = create_list();
    EsAnomalyDetector detector = create_detector();
    EXPECT_EQ(check_memory(&detector, 0, ES_MISSING_INT, 0, &found), 0);
    EsMemoryHealth health = {0, "cpu", 5000, ES_MISSING_INT};
    es_anomaly_check_memory(&detector, &health, 0, &found);
    EXPECT_EQ(found.n_rows, 0);
    es_anomaly_list_destroy(&found);
}

// --- states from files ---

// A number of accuracies below 0 would be an index before the ring.
TEST(a_state_that_no_report_left_is_refused) {
    static const int64_t wrong[] = {INT64_MIN, -11, -1, ES_COUNTER_MAX + 1, INT64_MAX};
    EsAnomalyState good = {.n_accuracies = 3, .accuracy = {50, 60, 70}, .rolling_accuracy = 60},
                   bad;
    EXPECT_STATUS(es_anomaly_state_check(&good, "rank0.json"), OK);
    for (size_t v = 0; v < sizeof wrong / sizeof *wrong; v++) {
        bad = good;
        bad.n_accuracies = wrong[v];
        EXPECT_STATUS(es_anomaly_state_check(&bad, "rank0.json"), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "rank0.json: anomaly_state: n_accuracies is ");
        bad = good;
        bad.n_gradients = wrong[v];
        EXPECT_STATUS(es_anomaly_state_check(&bad, "rank0.json"), INPUT);
    }
    bad = good;
    bad.n_low_updates[ES_ANOMALY_MAX_HEADS - 1] = -1;
    EXPECT_STATUS(es_anomaly_state_check(&bad, "rank0.json"), INPUT);
    bad = good;
    bad.accuracy[ES_ANOMALY_WINDOW - 1] = NAN;
    EXPECT_STATUS(es_anomaly_state_check(&bad, "rank0.json"), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "accuracy[9] is nan, must be finite");
}

// --- updates of the policy ---

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
