// Two small runs are written through the real sink, with numbers whose means are known by hand.
#include "runs/inspect/run_compare.h"

#include "base/macros.h"
#include "telemetry/hub.h"
#include "temp_folder.h"

// --- measures ---

static EsMeasure measure(double value, double noise) { return (EsMeasure){value, noise, noise, 9}; }

// 3 and 4 make an error of 5
TEST(errors_add_as_squares) {
    EXPECT_EQ(es_measure_compare(measure(10, 3), measure(15, 4), 0), ES_VERDICT_NOISE);
    EXPECT_EQ(es_measure_compare(measure(10, 3), measure(15.0625, 4), 0), ES_VERDICT_DIFFERS);
    EXPECT_EQ(es_measure_compare(measure(15.0625, 3), measure(10, 4), 0), ES_VERDICT_DIFFERS);
    EXPECT_EQ(es_measure_compare(measure(10, 1), measure(10, 5), 0), ES_VERDICT_EQUAL);
    EXPECT_EQ(es_measure_compare(measure(10, 0), measure(10.0001, 0), 0), ES_VERDICT_DIFFERS);
}

TEST(floor_hides_small_shares) {
    EXPECT_EQ(es_measure_compare(measure(100, 0), measure(103, 0), 0.03), ES_VERDICT_NOISE);
    EXPECT_EQ(es_measure_compare(measure(100, 0), measure(103.5, 0), 0.03), ES_VERDICT_DIFFERS);
    EXPECT_EQ(es_measure_compare(measure(-100, 0), measure(-97, 0), 0.03), ES_VERDICT_NOISE);
}

TEST(one_sample_and_none_are_no_verdict) {
    EsMeasure none = {NAN, NAN, NAN, 0}, single = {10, NAN, NAN, 1};
    EXPECT_EQ(es_measure_compare(none, measure(10, 1), 0), ES_VERDICT_MISSING);
    EXPECT_EQ(es_measure_compare(none, none, 0), ES_VERDICT_MISSING);
    EXPECT_EQ(es_measure_compare(single, measure(90, 1), 0), ES_VERDICT_UNKNOWN);
    EXPECT_EQ(es_measure_compare(single, single, 0), ES_VERDICT_EQUAL);
}

// --- runs ---

// The folder of a run; without a configuration when that is NULL.
static const char *create_run(const char *name, const char *config) {
    char file[64];
    REQUIRE_OK(es_folder_make(temp_path(name)));
    snprintf(file, sizeof file, "%s/config.ini", name);
    if (config != NULL) {
        write_temp_text(file, config);
    }
    return temp_path(name);
}

// Returns NULL where SQLite is not built in.
static EsHub *open_hub(const char *run) {
    char file[512];
    EsSink sink;
    EsHub *hub = NULL;
    snprintf(file, sizeof file, "%s/run.db", run);
    EsStatus status = es_sqlite_sink_open(file, -1, &sink);
    if (status == ES_STATUS_UNSUPPORTED) {
        return NULL;
    }
    REQUIRE_OK(status);
    EsHubOptions options = es_hub_defaults();
    REQUIRE_OK(es_hub_create(&options, &hub));
    REQUIRE_OK(es_hub_add_sink(hub, &sink));
    return hub;
}

static void close_hub(EsHub *hub) {
    EsHubHealth health;
    es_hub_close(hub, &health);
    EXPECT_EQ(health.sinks[0].n_dropped + health.sinks[0].n_lost, 0);
}

// Round r of 12: accuracy 50 + shift + r (falling in the last), four hosts, 2 s, and a metric that
// is r + shift.
static void emit_round(EsHub *hub, int64_t round, double shift) {
    EsEventTime time = {.round = round, .step = -1};
    EsRoundCompletedEvent row = {.n_episodes = 4 * round,
                                 .accuracy = round < 12 ? 50 + shift + (double)round : 40 + shift,
                                 .accuracy_std = 4,
                                 .rolling_accuracy = es_missing_real(),
                                 .reward = es_missing_real(),
                                 .loss = 1,
                                 .n_seeds = ES_MISSING_INT,
                                 .n_fossils = ES_MISSING_INT,
                                 .seconds = 2 + (round % 2 == 0 ? 0.125 : -0.125),
                                 .steps_per_second = 100 + (double)round,
                                 .images_per_second = 1000};
    es_emit_round_completed(hub, time, &row, 1);
    EsMetricEvent metrics[] = {es_metric("common/value", (double)round + shift),
                               es_metric("common/constant", 7),
                               es_metric("common/broken", round < 12 ? 1 : INFINITY)};
    es_emit_metric(hub, time, metrics, ES_COUNT_OF(metrics));
    EsPhaseProfiledEvent phase = {.phase = "train",
                                  .n_calls = 10,
                                  .total_ms = 100,
                                  .p50_ms = 8 + (double)round,
                                  .p95_ms = 20,
                                  .max_ms = 30 + (double)round};
    es_emit_phase_profiled(hub, time, &phase, 1);
    for (int64_t step = 0; step <= 20; step += 10) {
        EsStepTimedEvent timed = {.total_ms = (double)(step + round),
                                  .train_ms = 1,
                                  .validate_ms = 2,
                                  .decide_ms = es_missing_real()};
        es_emit_step_timed(hub, (EsEventTime){round, step}, &timed, 1);
    }
}

// The hub's lossy queue holds all of it; the flush keeps that true on a slow disk.
static void emit_run(EsHub *hub, const char *task, double shift, const char *own_metric) {
    EsRunStartedEvent start = {.kind = "hosts",
                               .run_id = "test",
                               .task = task,
                               .device = "cpu",
                               .n_envs = 4,
                               .n_rounds = 12,
                               .n_host_parameters = 1000};
    es_emit_run_started(hub, (EsEventTime){0, -1}, &start, 1);
    for (int64_t round = 1; round <= 12; round++) {
        emit_round(hub, round, shift);
        EXPECT_EQ(es_hub_flush(hub, 10), 1);
    }
    EsEpisodeOutcomeEvent outcomes[4];
    for (int e = 0; e < 4; e++) {
        outcomes[e] = (EsEpisodeOutcomeEvent){.env = e,
                                              .final_accuracy = 40,
                                              .final_loss = 0.5 + 0.25 * e,
                                              .parameter_ratio = 1,
                                              .reward = es_missing_real(),
                                              .stability = es_missing_real()};
    }
    es_emit_episode_outcome(hub, (EsEventTime){12, -1}, outcomes, 4);
    if (own_metric != NULL) {
        es_emit_metric(hub, (EsEventTime){12, -1}, &(EsMetricEvent){.name = own_metric, .value = 1},
                       1);
    }
}

static const EsMetricPair *find_metric(const EsRunComparison *comparison, const char *name) {
    for (int i = 0; i < comparison->n_metrics; i++) {
        const EsMetricPair *pair = &comparison->metrics[i];
        if (strcmp(pair->a != NULL ? pair->a->name : pair->b->name, name) == 0) {
            return pair;
        }
    }
    ES_TEST_FAIL("no metric %s", name);
    static const EsRunMetric nothing = {.name = ""};
    static const EsMetricPair none = {&nothing, &nothing, 0};
    return &none;
}

static const EsLatencyPair *find_latency(const EsRunComparison *comparison, const char *name) {
    for (int i = 0; i < comparison->n_latencies; i++) {
        const EsLatencyPair *pair = &comparison->latencies[i];
        if (strcmp(pair->a != NULL ? pair->a->name : pair->b->name, name) == 0) {
            return pair;
        }
    }
    ES_TEST_FAIL("no latency %s", name);
    static const EsRunLatency nothing = {.name = ""};
    static const EsLatencyPair none = {&nothing, &nothing, ES_VERDICT_MISSING};
    return &none;
}

static const char config_a[] = "# a comment\n[run]\nseed = 1\nkind = hosts\n\n[hosts]\nrate = 0.1\n"
                               "only_a = 5\n";
static const char config_b[] = "[run]\nkind = hosts\n  seed = 2\n[hosts]\nrate = 0.1\n"
                               "[new]\nonly_b = x y ; z\n";

static void check_settings(const EsRunComparison *comparison) {
    EXPECT_EQ(comparison->a->n_settings, 4);
    EXPECT_EQ(comparison->n_settings, 3);
    if (comparison->n_settings == 3) {
        const EsSettingPair *pairs = comparison->settings;
        EXPECT_TEXT(pairs[0].a->name, "run.seed");
        EXPECT_TEXT(pairs[0].a->value, "1");
        EXPECT_TEXT(pairs[0].b->value, "2");
        EXPECT_TEXT(pairs[1].a->name, "hosts.only_a");
        EXPECT(pairs[1].b == NULL && pairs[2].a == NULL);
        EXPECT_TEXT(pairs[2].b->name, "new.only_b");
        EXPECT_TEXT(pairs[2].b->value, "x y"); // what follows the semicolon is a comment
    }
}

static void check_outcome(const EsRunComparison *comparison) {
    const EsMeasure *a = comparison->a->measures, *b = comparison->b->measures;
    EXPECT_TEXT(comparison->a->kind, "hosts");
    EXPECT_TEXT(comparison->b->task, "other");
    EXPECT_TEXT(comparison->a->outcome, "unfinished");
    EXPECT_NEAR(a[ES_FIGURE_ROUNDS].value, 12, 0);
    EXPECT_EQ(comparison->measures[ES_FIGURE_ROUNDS], ES_VERDICT_EQUAL);
    EXPECT_NEAR(a[ES_FIGURE_FINAL_ACCURACY].value, 40, 0);
    EXPECT_NEAR(a[ES_FIGURE_FINAL_ACCURACY].spread, 4, 0);
    EXPECT_NEAR(a[ES_FIGURE_FINAL_ACCURACY].noise, 4, 1e-12); // 2 * 4 / sqrt(4)
    EXPECT_NEAR(a[ES_FIGURE_BEST_ACCURACY].value, 61, 0);
    EXPECT_NEAR(b[ES_FIGURE_BEST_ACCURACY].value, 70, 0);
    EXPECT_EQ(comparison->measures[ES_FIGURE_BEST_ACCURACY], ES_VERDICT_DIFFERS); // 9 > 4 sqrt(2)
    EXPECT_NEAR(a[ES_FIGURE_FINAL_LOSS].value, 0.875, 1e-12);                     // of episodes
    EXPECT_NEAR(a[ES_FIGURE_FINAL_LOSS].spread, sqrt(0.3125 / 3), 1e-12);
    EXPECT_EQ(a[ES_FIGURE_REWARD].n, 0);
    EXPECT_EQ(comparison->measures[ES_FIGURE_REWARD], ES_VERDICT_MISSING);
    EXPECT_NEAR(a[ES_FIGURE_HOST_PARAMETERS].value, 1000, 0);
    EXPECT_NEAR(a[ES_FIGURE_SECONDS].value, 24, 1e-12);
    // deviation sqrt(12 / 11) / 8 of a round, sqrt(12) times that for all
    EXPECT_NEAR(a[ES_FIGURE_SECONDS].spread, sqrt(12) * sqrt(12.0 / 11) / 8, 1e-12);
    EXPECT_NEAR(a[ES_FIGURE_STEPS_PER_SECOND].value, 106.5, 1e-12);
    EXPECT_NEAR(a[ES_FIGURE_STEPS_PER_SECOND].spread, 5.5, 1e-12); // quartiles 103.75 and 109.25
    EXPECT_NEAR(a[ES_FIGURE_ANOMALIES].value, 0, 0);
    EXPECT_NEAR(b[ES_FIGURE_ANOMALIES].value, 1, 0);
    EXPECT_EQ(comparison->measures[ES_FIGURE_ANOMALIES], ES_VERDICT_DIFFERS);
}

static void check_metrics(const EsRunComparison *comparison) {
    EXPECT_EQ(comparison->n_metrics, 5);
    const EsMetricPair *value = find_metric(comparison, "common/value");
    EXPECT_NEAR(value->a->last, 12, 0);
    EXPECT_NEAR(value->b->last, 21, 0);
    EXPECT_EQ(value->a->mean.n, 10);
    EXPECT_NEAR(value->a->mean.value, 7.5, 1e-12);             // rounds 3 to 12
    EXPECT_NEAR(value->a->mean.spread, sqrt(82.5 / 9), 1e-12); // 3.03
    EXPECT(isnan(value->a->mean.noise));                       // rounds are no samples
    EXPECT_EQ(value->is_equal, 0);
    EXPECT_EQ(find_metric(comparison, "common/constant")->is_equal, 1);
    const EsMetricPair *broken = find_metric(comparison, "common/broken");
    EXPECT(!isfinite(broken->a->last));
    EXPECT_EQ(broken->a->mean.n, 9); // what is finite
    EXPECT(find_metric(comparison, "only/a")->b == NULL);
    EXPECT(find_metric(comparison, "only/b")->a == NULL);
}

static void check_latencies(const EsRunComparison *comparison) {
    EXPECT_EQ(comparison->n_latencies, 4); // nothing was decided
    const EsLatencyPair *train = find_latency(comparison, "phase train");
    EXPECT_EQ(train->a->n_calls, 120);
    EXPECT_NEAR(train->a->p50_ms.value, 14.5, 1e-12);
    EXPECT_NEAR(train->a->p95_ms.value, 20, 1e-12);
    EXPECT_NEAR(train->a->max_ms.value, 42, 1e-12);
    EXPECT_EQ(train->verdict, ES_VERDICT_EQUAL);
    const EsLatencyPair *step = find_latency(comparison, "step total");
    EXPECT_EQ(step->a->n_calls, 36);
    EXPECT_NEAR(step->a->max_ms.value, 32, 1e-12);
    EXPECT_NEAR(step->a->p50_ms.value, 16.5, 1e-12);
}

static void check_events(const EsRunComparison *comparison) {
    const EsEventPair *anomaly = NULL, *metric = NULL;
    for (int i = 0; i < comparison->n_events; i++) {
        const EsEventPair *pair = &comparison->events[i];
        const char *name = pair->a != NULL ? pair->a->name : pair->b->name;
        anomaly = strcmp(name, "anomaly_detected") == 0 ? pair : anomaly;
        metric = strcmp(name, "metric") == 0 ? pair : metric;
    }
    EXPECT(anomaly != NULL && anomaly->a == NULL && anomaly->b->n_rows == 1);
    EXPECT(metric != NULL && metric->a->n_rows == 37 && metric->b->n_rows == 37);
}

TEST(compares_two_runs_by_hand) {
    const char *a = create_run("a", config_a), *b = create_run("b", config_b);
    EsHub *hub_a = open_hub(a), *hub_b = open_hub(b);
    EsRunComparison *comparison = NULL;
    if (hub_a == NULL || hub_b == NULL) {
        SKIP("no SQLite in this build");
    }
    emit_run(hub_a, "tiny", 0, "only/a");
    emit_run(hub_b, "other", 9, "only/b");
    EsAnomalyDetectedEvent anomaly = {.rule = "kl_spike", .severity = "warning", .event_name = "X"};
    es_emit_anomaly_detected(hub_b, (EsEventTime){3, -1}, &anomaly, 1);
    close_hub(hub_a);
    // the second is read while its writer has it open
    EXPECT_EQ(es_hub_flush(hub_b, 10), 1);
    REQUIRE_OK(es_run_compare(a, b, &comparison));
    check_settings(comparison);
    check_outcome(comparison);
    check_metrics(comparison);
    check_latencies(comparison);
    check_events(comparison);
    EXPECT_EQ(comparison->n_lacking, 1); // the metric only/a
    es_run_comparison_destroy(comparison);

    // the other way round: the anomaly that did not happen is not lacking
    REQUIRE_OK(es_run_compare(b, a, &comparison));
    EXPECT_EQ(comparison->n_lacking, 1);
    es_run_comparison_destroy(comparison);
    close_hub(hub_b);
}

TEST(empty_run_has_nothing_to_compare) {
    const char *a = create_run("a", "[run]\nkind = hosts\n"), *b = create_run("b", "");
    EsHub *hub_a = open_hub(a), *hub_b = open_hub(b);
    if (hub_a == NULL || hub_b == NULL) {
        SKIP("no SQLite in this build");
    }
    close_hub(hub_a);
    close_hub(hub_b);
    EsRunComparison *comparison = NULL;
    REQUIRE_OK(es_run_compare(a, b, &comparison));
    EXPECT_EQ(comparison->n_metrics + comparison->n_latencies + comparison->n_events, 0);
    EXPECT_EQ(comparison->measures[ES_FIGURE_FINAL_ACCURACY], ES_VERDICT_MISSING);
    EXPECT_EQ(comparison->measures[ES_FIGURE_SECONDS], ES_VERDICT_MISSING);
    EXPECT_EQ(comparison->n_settings, 1);
    es_run_comparison_destroy(comparison);
}

TEST(says_what_is_wrong_with_a_path) {
    EsRunComparison *comparison = NULL;
    const char *run = create_run("run", "[run]\n"), *bare = create_run("bare", NULL);
    const char *broken = create_run("broken", "nonsense\n");
    EXPECT_STATUS(es_run_compare("no/such/folder", run, &comparison), INPUT);
    EXPECT_TEXT(es_status_detail(), "no such run: no/such/folder: No such file or directory");
    EXPECT_STATUS(es_run_compare(run, temp_path("run/."), &comparison), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "are the same run");
    EXPECT_STATUS(es_run_compare(bare, run, &comparison), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "is not a run folder: there is no config.ini in it");
    EXPECT_STATUS(es_run_compare(temp_path("run/config.ini"), run, &comparison), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "is not a run folder: it is a file");
    EXPECT_STATUS(es_run_compare(run, bare, &comparison), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "has no run.db: the run was made without a database");
    EsHub *hub = open_hub(broken);
    if (hub != NULL) {
        close_hub(hub);
        EXPECT_STATUS(es_run_compare(broken, run, &comparison), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "config.ini:1: expected \"key = value\"");
    }
    EXPECT(comparison == NULL);
}
