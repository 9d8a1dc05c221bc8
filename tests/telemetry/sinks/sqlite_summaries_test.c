// Summaries hold what the rows of their events hold: while a run is written, after a resume, after
// a kill, in databases of earlier schemas, and with rows that come late.
#include "telemetry/sinks/sqlite_views.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "telemetry/sample_run.h"
#include "temp_folder.h"

// --- a run of uneven numbers ---

// A number that depends on its place alone; now and then missing.
static double number_of(int64_t round, int place, int salt) {
    uint64_t bits = (uint64_t)round * 2654435761u + (uint64_t)place * 40503u + (uint64_t)salt * 97u;
    bits = (bits ^ (bits >> 7)) * 0x9e3779b97f4a7c15u;
    return bits % 11 == 0 ? es_missing_real() : (double)(bits >> 40) / 3e5 - 20;
}

static EsStatus send_episodes(EsSink *sink, int64_t round, int salt) {
    EsEpisodeOutcomeEvent rows[4];
    for (int env = 0; env < 4; env++) {
        rows[env] = (EsEpisodeOutcomeEvent){.env = env,
                                            .arm = env == 3 ? "wait" : NULL, // held out
                                            .final_accuracy = number_of(round, env, salt),
                                            .parameter_ratio = number_of(round, 10 + env, salt),
                                            .reward = number_of(round, 20 + env, salt),
                                            .n_fossils = env,
                                            .n_steps = round % 7 == 0 ? ES_MISSING_INT : round};
    }
    return send_rows(sink, ES_EVENT_EPISODE_OUTCOME, (EsEventTime){round, -1}, rows, 4);
}

// Steps 0 and 10 are on the stride; an operation of step 3 is not counted.
static EsStatus send_decisions(EsSink *sink, int64_t round) {
    static const char *const ops[] = {"WAIT", "GERMINATE", NULL, "PRUNE"};
    for (int step = 0; step <= 10; step++) {
        EsDecisionTakenEvent rows[2] = {{.op = ops[(round + step) % 4], .is_forced = step == 10},
                                        {.op = "WAIT", .is_forced = round % 2}};
        if (step % 10 == 0) {
            ES_TRY(send_missing(sink, ES_EVENT_ENV_STEPPED, (EsEventTime){round, step}));
        }
        if (step % 10 == 0 || step == 3) {
            ES_TRY(send_rows(sink, ES_EVENT_DECISION_TAKEN, (EsEventTime){round, step}, rows, 2));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus send_uneven_round(EsSink *sink, int64_t round, int salt) {
    const EsEventTime time = {round, -1};
    EsRoundCompletedEvent done = {.accuracy = number_of(round, 30, salt),
                                  .reward = number_of(round, 31, salt),
                                  .loss = round % 5 == 0 ? INFINITY : 1,
                                  .n_fossils = round,
                                  .seconds = 0.1};
    EsUpdateCompletedEvent update = {.entropy = number_of(round, 32, salt),
                                     .n_nonfinite = round % 3};
    EsProofRoundEvent proof = {.depth = number_of(round, 33, salt), .n_positives = round};
    ES_TRY(send_decisions(sink, round));
    ES_TRY(send_episodes(sink, round, salt));
    if (round % 4 != 1) { // not every round has one
        ES_TRY(send_rows(sink, ES_EVENT_UPDATE_COMPLETED, time, &update, 1));
    }
    ES_TRY(send_rows(sink, ES_EVENT_ROUND_COMPLETED, time, &done, 1));
    return send_rows(sink, ES_EVENT_PROOF_ROUND, time, &proof, 1); // after its round's end
}

static EsStatus send_span(EsSink *sink, int64_t first, int64_t last, int salt) {
    for (int64_t round = first; round <= last; round++) {
        ES_TRY(send_uneven_round(sink, round, salt));
    }
    return sink->flush(sink->state);
}

// --- comparison ---

static int64_t ask_int(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    int64_t value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        ES_TEST_FAIL("%s: %s", sqlite3_errmsg(db), sql);
    } else if (sqlite3_step(statement) == SQLITE_ROW) {
        value = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return value;
}

// The condition on the rows that are summed, written anew.
static const char *condition_of(const EsSummary *summary) {
    switch (summary->type) {
    case ES_EVENT_EPISODE_OUTCOME:
        return "arm IS NULL";
    case ES_EVENT_DECISION_TAKEN:
        return "EXISTS (SELECT 1 FROM event_env_stepped s WHERE s.round = "
               "event_decision_taken.round"
               " AND s.step = event_decision_taken.step)";
    default:
        return "1";
    }
}

// Numbers that are not the same, up to the order in which they were added; missing is the same as
// missing.
#define DIFFER(a, b)                                                                               \
    "(" a " IS NOT " b " AND NOT coalesce(abs(" a " - " b ") <= 1e-9 * (1 + abs(" b ")), 0))"

// Compares the buckets of a level, and one column, with the rows themselves.
static void expect_buckets(sqlite3 *db, const EsSummary *summary, int level, const char *column) {
    char sql[4096];
    const char *name = es_event_schema(summary->type)->name;
    const char *key = summary->key != NULL ? "coalesce(op, '')" : "''";
    const char *stored_key = summary->key != NULL ? "op" : "''";
    snprintf(
        sql, sizeof sql,
        "WITH direct AS (SELECT (round - 1) / %d AS bucket, %s AS name, count(*) AS n,\n"
        "  count(%s) AS x_n, sum(%s) AS x_sum, min(%s) AS x_min, max(%s) AS x_max\n"
        "  FROM event_%s WHERE %s AND round <=\n"
        "  (SELECT max(last) FROM summary_%s WHERE level = %d) GROUP BY 1, 2),\n"
        "stored AS (SELECT (first - 1) / %d AS bucket, %s AS name, n_rows AS n, %s_n AS x_n,\n"
        "  %s_sum AS x_sum, %s_min AS x_min, %s_max AS x_max, first, last\n"
        "  FROM summary_%s WHERE level = %d)\n"
        "SELECT (SELECT count(*) FROM direct) <> (SELECT count(*) FROM stored) OR\n"
        "  (SELECT count(*) FROM direct JOIN stored USING (bucket, name)) <>\n"
        "  (SELECT count(*) FROM direct) OR (SELECT count(*) FROM direct d JOIN stored s\n"
        "  USING (bucket, name) WHERE d.n <> s.n OR d.x_n <> s.x_n OR s.last - s.first + 1 <> %d\n"
        "  OR " DIFFER("s.x_sum", "d.x_sum") " OR s.x_min IS NOT d.x_min\n"
                                             "  OR s.x_max IS NOT d.x_max)",
        level, key, column, column, column, column, name, condition_of(summary), name, level, level,
        stored_key, column, column, column, column, name, level, level);
    if (ask_int(db, sql) != 0) {
        ES_TEST_FAIL("summary_%s, level %d, %s is not the sum of its rows", name, level, column);
    }
}

// Compares what a reader is given, buckets and the rows after them, with all rows.
static void expect_rows(sqlite3 *db, const EsSummary *summary, int level) {
    EsText sql = {0};
    char text[1024];
    const char *name = es_event_schema(summary->type)->name, *column = summary->columns[0];
    snprintf(
        text, sizeof text,
        "SELECT a.n <> b.n OR a.x_n <> b.x_n OR " DIFFER(
            "a.x", "b.x") " FROM "
                          "(SELECT count(*) AS n, count(%s) AS x_n, sum(%s) AS x FROM event_%s "
                          "WHERE %s) b, "
                          "(SELECT sum(n_rows) AS n, sum(%s_n) AS x_n, sum(%s_sum) AS x FROM (",
        column, column, name, condition_of(summary), column, column);
    es_text_add_string(&sql, text);
    es_summary_add_rows(&sql, summary, level);
    es_text_add_string(&sql, ")) a");
    es_text_add(&sql, "", 1);
    if (ask_int(db, sql.bytes) != 0) {
        ES_TEST_FAIL("rows of summary_%s, level %d, are not those of the event", name, level);
    }
    es_text_destroy(&sql);
}

// All summaries of a database, and the last rounds that they reach by round and by sixteen.
static void expect_summaries(const char *path, int last_1, int last_16) {
    sqlite3 *db = NULL;
    EXPECT_EQ(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    for (int i = 0; i < es_summary_count(); i++) {
        const EsSummary *summary = es_summary(i);
        char sql[200];
        for (int level = summary->has_level_1 ? 1 : ES_SUMMARY_ROUNDS; level <= ES_SUMMARY_ROUNDS;
             level *= ES_SUMMARY_ROUNDS) {
            for (int c = 0; c < summary->n_columns; c++) {
                expect_buckets(db, summary, level, summary->columns[c]);
            }
            expect_rows(db, summary, level);
            snprintf(sql, sizeof sql,
                     "SELECT coalesce(max(last), 0) FROM summary_%s WHERE level = %d",
                     es_event_schema(summary->type)->name, level);
            EXPECT_EQ((int)ask_int(db, sql), level == 1 ? last_1 : last_16);
        }
    }
    sqlite3_close(db);
}

// --- the tests ---

TEST(buckets_are_the_sums_of_their_rows) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    expect_summaries(path, 0, 0);
    REQUIRE_OK(send_span(&sink, 1, 16, 1));
    expect_summaries(path, 15, 0); // rows of the sixteenth may still come
    REQUIRE_OK(send_span(&sink, 17, 70, 1));
    expect_summaries(path, 69, 64);
    sink.close(sink.state);
    expect_summaries(path, 70, 64);
}

TEST(summaries_follow_a_resume) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    REQUIRE_OK(send_span(&sink, 1, 70, 1));
    sink.close(sink.state);
    REQUIRE_OK(es_sqlite_sink_open(path, 37, &sink));
    expect_summaries(path, 37, 32);
    REQUIRE_OK(send_span(&sink, 38, 90, 2)); // other numbers than before
    expect_summaries(path, 89, 80);
    sink.close(sink.state);
    expect_summaries(path, 90, 80);
    REQUIRE_OK(es_sqlite_sink_open(path, 0, &sink));
    expect_summaries(path, 0, 0);
    sink.close(sink.state);
}

TEST(summaries_of_a_killed_run) {
    const char *path = temp_path("run.db");
    EsSink sink;
    pid_t child = fork();
    if (child == 0) {
        if (es_sqlite_sink_open(path, -1, &sink) != ES_STATUS_OK ||
            send_span(&sink, 1, 40, 1) != ES_STATUS_OK ||
            send_uneven_round(&sink, 41, 1) != ES_STATUS_OK) { // not flushed
            _exit(1);
        }
        kill(getpid(), SIGKILL);
    }
    int outcome = 0;
    EXPECT_EQ(waitpid(child, &outcome, 0), child);
    EXPECT(WIFSIGNALED(outcome) && WTERMSIG(outcome) == SIGKILL);
    expect_summaries(path, 39, 32);
    REQUIRE_OK(es_sqlite_sink_open(path, 35, &sink));
    REQUIRE_OK(send_span(&sink, 36, 50, 2));
    sink.close(sink.state);
    expect_summaries(path, 50, 48);
}

TEST(a_database_without_summaries_gets_them) {
    const char *path = temp_path("run.db");
    EsSink sink;
    sqlite3 *db = NULL;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    REQUIRE_OK(send_span(&sink, 1, 50, 1));
    sink.close(sink.state);
    EXPECT_EQ(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db,
                           "DROP TABLE summary_round_completed; DROP TABLE summary_proof_round;"
                           "ALTER TABLE summary_episode_outcome DROP COLUMN reward_sum;"
                           "DELETE FROM summary_decision_taken WHERE level = 1 AND first > 20;"
                           "UPDATE meta SET value = 9 WHERE key = 'schema_version'",
                           NULL, NULL, NULL),
              SQLITE_OK);
    sqlite3_close(db);
    REQUIRE_OK(es_sqlite_sink_open(path, 50, &sink));
    sink.close(sink.state);
    expect_summaries(path, 50, 48);
}

TEST(late_rows_are_summed_up) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    REQUIRE_OK(send_span(&sink, 1, 40, 1));
    REQUIRE_OK(send_episodes(&sink, 20, 3));
    EsUpdateCompletedEvent update = {.entropy = 1};
    REQUIRE_OK(send_rows(&sink, ES_EVENT_UPDATE_COMPLETED, (EsEventTime){3, -1}, &update, 1));
    REQUIRE_OK(send_span(&sink, 41, 41, 1));
    expect_summaries(path, 40, 32);
    sink.close(sink.state);
}

// Another program has removed a summary: rows are written as ever, and the next session sums up.
TEST(a_summary_that_fails_costs_no_row) {
    const char *path = temp_path("run.db");
    EsSink sink;
    sqlite3 *db = NULL;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    REQUIRE_OK(send_span(&sink, 1, 20, 1));
    EXPECT_EQ(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, "DROP TABLE summary_decision_taken", NULL, NULL, NULL), SQLITE_OK);
    REQUIRE_OK(send_span(&sink, 21, 40, 1));
    EXPECT_EQ((int)ask_int(db, "SELECT count(DISTINCT round) FROM event_round_completed"), 40);
    EXPECT_EQ((int)ask_int(db, "SELECT count(*) FROM summary_round_completed"), 0);
    sqlite3_close(db);
    sink.close(sink.state);
    REQUIRE_OK(es_sqlite_sink_open(path, 40, &sink));
    sink.close(sink.state);
    expect_summaries(path, 40, 32);
}
