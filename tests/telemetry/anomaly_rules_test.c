// The rules over rounds, hosts, seeds and memory: each just below, at and above its limit; what is
// remembered; missing against NaN.
#include "base/range_check.h"
#include "telemetry/anomaly_rules.h"

#include "anomaly_case.h"
#include "base/macros.h"

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
