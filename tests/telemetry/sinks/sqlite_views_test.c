#include <sqlite3.h>

#include "telemetry/sample_run.h"
#include "telemetry/sinks/run_database.h"
#include "telemetry/sinks/sqlite_views.h"
#include "temp_folder.h"

typedef struct Fixture {
    EsRunDatabase *database;
    int n_open; // files before
} Fixture;

static Fixture create_fixture(int n_rounds) {
    Fixture fixture = {.n_open = count_open_files()};
    const char *path = temp_path("run.db");
    if (n_rounds == 0) {
        EsSink sink;
        REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
        sink.close(sink.state);
    } else {
        REQUIRE_OK(write_sample_run(path, n_rounds));
    }
    write_temp_text("config.ini", "");
    REQUIRE_OK(es_run_database_open(temp_folder(), &fixture.database));
    return fixture;
}

static void destroy_fixture(Fixture *fixture) {
    es_run_database_close(fixture->database);
    EXPECT_EQ(count_open_files(), fixture->n_open);
}

// All rows as text: cells parted by "|", rows by a newline, NULL empty.
static const char *ask(const Fixture *fixture, const char *sql) {
    static char text[8192];
    size_t used = 0;
    EsRunQuery *query = NULL;
    int has_row = 0;
    text[0] = '\0';
    if (es_run_query_begin(fixture->database, sql, &query) != ES_STATUS_OK) {
        snprintf(text, sizeof text, "error: %s", es_status_detail());
        return text;
    }
    EsStatus status;
    while ((status = es_run_query_step(query, &has_row)) == ES_STATUS_OK && has_row) {
        for (int i = 0; i < es_run_query_n_columns(query); i++) {
            const char *cell = es_run_query_text(query, i, NULL);
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                     i > 0 ? "|" : (used > 0 ? "\n" : ""), cell ? cell : "");
        }
    }
    if (status != ES_STATUS_OK) {
        snprintf(text, sizeof text, "error: %s", es_status_detail());
    }
    es_run_query_end(query);
    return text;
}

// Select everything of every view; the columns must be those of the list.
static void select_all(const Fixture *fixture, int expects_rows) {
    for (int i = 0; i < es_view_count(); i++) {
        const EsView *view = es_view(i);
        char sql[128];
        EsRunQuery *query = NULL;
        int has_row = 0, n_rows = 0;
        EsStatus status;
        snprintf(sql, sizeof sql, "SELECT * FROM %s", view->name);
        REQUIRE_OK(es_run_query_begin(fixture->database, sql, &query));
        EXPECT_EQ(es_run_query_n_columns(query), view->n_columns);
        for (int j = 0; j < view->n_columns; j++) {
            EXPECT_TEXT(es_run_query_column_name(query, j), view->columns[j].name);
        }
        while ((status = es_run_query_step(query, &has_row)) == ES_STATUS_OK && has_row) {
            n_rows++;
        }
        if (status != ES_STATUS_OK || (n_rows > 0) != expects_rows) {
            ES_TEST_FAIL("%s: %d rows, %s", view->name, n_rows, es_status_detail());
        }
        es_run_query_end(query);
    }
}

TEST(all_views_of_an_empty_database) {
    Fixture fixture = create_fixture(0);
    select_all(&fixture, 0);
    destroy_fixture(&fixture);
}

TEST(all_views_of_a_run) {
    Fixture fixture = create_fixture(3);
    select_all(&fixture, 1);
    destroy_fixture(&fixture);
}

TEST(runs_and_rounds) {
    Fixture fixture = create_fixture(3);
    EXPECT_TEXT(ask(&fixture, "SELECT run_id, kind, last_round, n_rounds, started, n_sittings, "
                              "outcome, seconds, n_lost FROM runs"),
                "sample|grow|3|3|2023-11-14 22:13:20|1|done|1.5|0");
    EXPECT_TEXT(ask(&fixture, "SELECT round, time, accuracy, rolling_accuracy, value_loss FROM "
                              "rounds ORDER BY round"),
                "1|2023-11-14 22:14:20|52.5||0.5\n2|2023-11-14 22:15:20|54.5||0.5\n"
                "3|2023-11-14 22:16:20|56.5||0.5");
    EXPECT_TEXT(ask(&fixture, "SELECT round, n_timed, step_ms, train_ms, steps_per_second FROM "
                              "throughput WHERE round = 2"),
                "2|2|4.0|3.0|120.0");
    EXPECT_TEXT(ask(&fixture, "SELECT count(*), sum(n_fossils) FROM episodes"), "6|3");
    EXPECT_TEXT(ask(&fixture, "SELECT round, value FROM metrics WHERE name = 'charts/SPS'"),
                "1|121.0\n2|122.0\n3|123.0");
    destroy_fixture(&fixture);
}

TEST(seeds_from_germination_to_their_end) {
    Fixture fixture = create_fixture(2);
    EXPECT_TEXT(ask(&fixture, "SELECT seed_id, env, blueprint, stages, last_stage, n_gates_failed, "
                              "outcome, end_step, n_steps_alive, improvement, contribution, "
                              "prune_reason FROM seeds ORDER BY seed_id"),
                "a1|0|norm|TRAINING > BLENDING > HOLDING|HOLDING|1|fossilized|9|9|3.5|2.25|\n"
                "b1|1|depthwise|||0|pruned|5|5|-1.5||no contribution\n"
                "c2|0|norm|TRAINING > BLENDING > HOLDING|HOLDING|0|alive|||||");
    destroy_fixture(&fixture);
}

TEST(anomalies_and_distributions) {
    Fixture fixture = create_fixture(2);
    EXPECT_TEXT(ask(&fixture, "SELECT round, step, rule, severity, env, value, detail FROM "
                              "anomalies ORDER BY severity DESC"),
                "2||kl_spike|warning||0.2|KL was 0.2\n"
                "2|7|governor_rollback|critical|1|Inf|set back to its snapshot: divergence, 2 in a "
                "row");
    EXPECT_TEXT(ask(&fixture, "SELECT * FROM action_distribution WHERE round = 1 ORDER BY op"),
                "1|GERMINATE|2|50.0|0|2\n1|WAIT|2|50.0|2|2");
    EXPECT_TEXT(ask(&fixture, "SELECT arm, n, accuracy_mean, reward_min, reward_max, "
                              "round(correlation, 12), status FROM reward_calibration"),
                "|4|53.5|6.0|7.5|1.0|well_calibrated");
    EXPECT_TEXT(ask(&fixture, "SELECT round(accuracy_std, 6), round(reward_std, 6) FROM "
                              "reward_calibration"),
                "1.290994|0.645497");
    destroy_fixture(&fixture);
}

TEST(a_round_of_proving_has_its_validation) {
    Fixture fixture = create_fixture(3);
    EXPECT_TEXT(ask(&fixture, "SELECT round, positives_proved, depth, mrr FROM proofs"),
                "3|75.0|2.5|0.25");
    EXPECT_TEXT(ask(&fixture, "SELECT round, arm, split, n_queries FROM rankings"),
                "3|policy|valid|9");
    destroy_fixture(&fixture);
}

TEST(a_round_of_proving_is_counted) {
    Fixture fixture = create_fixture(3);
    EXPECT_TEXT(ask(&fixture, "SELECT group_concat(counted_by || ' ' || depth || ': ' || n_proved "
                              "|| '/' || n_asked || ' ' || proved, ', ') FROM (SELECT * FROM "
                              "proof_depths WHERE round = 3 AND label = 1 ORDER BY depth)"),
                "proof 2: 3/3 100.0, actions 4: 0/1 0.0");
    EXPECT_TEXT(ask(&fixture, "SELECT * FROM proof_predicates"), "3|uncle|1|4|3|75.0|2.5");
    EXPECT_TEXT(ask(&fixture, "SELECT round, env, episode, query, n_steps, n_atoms FROM "
                              "proof_trees"),
                "3|2|7|wife(eve,adam)|1|2");
    destroy_fixture(&fixture);
}

TEST(calibration_needs_three_episodes) {
    Fixture fixture = create_fixture(1);
    EXPECT_TEXT(ask(&fixture, "SELECT n, correlation, status FROM reward_calibration"),
                "2||insufficient_data");
    destroy_fixture(&fixture);
}

TEST(raw_events_are_valid_json) {
    Fixture fixture = create_fixture(2);
    EXPECT_TEXT(ask(&fixture, "SELECT count(*) FROM raw_events WHERE NOT json_valid(data)"), "0");
    EXPECT_TEXT(ask(&fixture, "SELECT json_extract(data, '$.loss'), json_extract(data, '$.env') "
                              "FROM raw_events WHERE event = 'governor_rollback'"),
                "Infinity|1");
    EXPECT_TEXT(ask(&fixture, "SELECT json_type(data, '$.rolling_accuracy') FROM raw_events WHERE "
                              "event = 'round_completed' AND round = 1"),
                "null");
    destroy_fixture(&fixture);
}
