#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "esper/version.h"
#include "telemetry/sample_run.h"
#include "telemetry/sinks/sqlite_common.h"
#include "temp_folder.h"

// A connection of another program.
static sqlite3 *connect_to(const char *path) {
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
        printf("%s: %s\n", path, sqlite3_errmsg(db));
        exit(1);
    }
    return db;
}

static void execute(sqlite3 *db, const char *sql) {
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        ES_TEST_FAIL("%s: %s", sql, message);
    }
    sqlite3_free(message);
}

// The first cell as text: "NULL" for NULL, "error" when it fails.
static const char *ask(sqlite3 *db, const char *sql) {
    static char text[4096];
    sqlite3_stmt *statement = NULL;
    snprintf(text, sizeof text, "error");
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        snprintf(text, sizeof text, "error: %s", sqlite3_errmsg(db));
    } else if (sqlite3_step(statement) == SQLITE_ROW) {
        const char *cell = (const char *)sqlite3_column_text(statement, 0);
        snprintf(text, sizeof text, "%s", cell != NULL ? cell : "NULL");
    }
    sqlite3_finalize(statement);
    return text;
}

static const char *ask_file(const char *path, const char *sql) {
    sqlite3 *db = connect_to(path);
    const char *text = ask(db, sql);
    sqlite3_close(db);
    return text;
}

TEST(every_type_has_a_table_with_its_columns) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    EXPECT_TEXT(sink.name, "sqlite");
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        REQUIRE_OK(send_missing(&sink, (EsEventType)type, (EsEventTime){type, type - 1}));
    }
    REQUIRE_OK(sink.flush(sink.state));
    sqlite3 *db = connect_to(path);
    static const char *const types[] = {"INTEGER", "REAL", "TEXT"};
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        const EsEventSchema *schema = es_event_schema((EsEventType)type);
        char sql[512], expected[32];
        for (int i = 0; i < schema->n_columns; i++) {
            const EsEventColumn *column = &schema->columns[i];
            snprintf(
                sql, sizeof sql,
                "SELECT type FROM pragma_table_info('event_%s') WHERE cid = %d AND name = '%s'",
                schema->name, 5 + i, column->name);
            EXPECT_TEXT(ask(db, sql), types[column->type]);
            snprintf(sql, sizeof sql, "SELECT count(*) FROM event_%s WHERE \"%s\" IS NULL",
                     schema->name, column->name);
            EXPECT_TEXT(ask(db, sql), "1");
        }
        snprintf(sql, sizeof sql, "SELECT round FROM event_%s", schema->name);
        snprintf(expected, sizeof expected, "%d", type);
        EXPECT_TEXT(ask(db, sql), expected);
    }
    EXPECT_TEXT(ask(db, "SELECT step FROM event_run_started"), "NULL");
    EXPECT_TEXT(ask(db, "SELECT step FROM event_run_ended"), "0");
    EXPECT_TEXT(ask(db, "SELECT value FROM meta WHERE key = 'schema_version'"), "10");
    EXPECT_TEXT(ask(db, "SELECT value FROM meta WHERE key = 'program_version'"), ES_VERSION);
    EXPECT_TEXT(ask(db, "PRAGMA journal_mode"), "wal");
    sqlite3_close(db);
    sink.close(sink.state);
}

// Fill the page that holds `text` with 0xff; returns how many bytes of the file were left alone.
static size_t spoil_page_with(const char *path, const char *text) {
    static char bytes[1 << 22];
    size_t n_bytes = 0, n_text = strlen(text);
    FILE *file = fopen(path, "r+b");
    n_bytes = file != NULL ? fread(bytes, 1, sizeof bytes, file) : 0;
    for (size_t at = 0; at + n_text <= n_bytes; at++) {
        if (memcmp(bytes + at, text, n_text) == 0) {
            memset(bytes, 0xff, 4096);
            fseek(file, (long)(at / 4096 * 4096), SEEK_SET);
            fwrite(bytes, 1, 4096, file);
            fclose(file);
            return n_bytes - 4096;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    ES_TEST_FAIL("%s is not in %s", text, path);
    return 0;
}

TEST(damage_in_the_middle_is_found_on_resume) {
    const char *path = temp_path("run.db");
    EsSink sink;
    char name[64];
    EsMetricEvent row = es_metric(name, 1);
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    for (int round = 1; round <= 2000; round++) {
        snprintf(name, sizeof name, "a name that is long enough, %d", round);
        REQUIRE_OK(send_rows(&sink, ES_EVENT_METRIC, (EsEventTime){round, -1}, &row, 1));
    }
    sink.close(sink.state);
    REQUIRE_OK(es_sqlite_sink_open(path, 2000, &sink));
    sink.close(sink.state);
    EXPECT(spoil_page_with(path, "long enough, 1000") > 4096);
    EXPECT_STATUS(es_sqlite_sink_open(path, 2000, &sink), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "run.db");
    EXPECT_CONTAINS(es_status_detail(), "damaged");
}

TEST(a_ranking_replaces_an_earlier_one) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    for (int time = 1; time <= 2; time++) {
        EsProofRankedEvent ranked = {.arm = "policy", .split = "valid", .mrr = 0.25 * time};
        EsProofRankedEvent other = {.arm = "proved", .split = "test", .mrr = 0.125};
        EsMetricEvent metrics[] = {es_metric("proof/validation_mrr", 0.25 * time),
                                   es_metric("proof/depth", 3)};
        REQUIRE_OK(send_rows(&sink, ES_EVENT_PROOF_RANKED, (EsEventTime){3, -1}, &ranked, 1));
        REQUIRE_OK(
            send_rows(&sink, ES_EVENT_METRIC, (EsEventTime){3, -1}, metrics, time == 1 ? 2 : 1));
        REQUIRE_OK(send_rows(&sink, ES_EVENT_PROOF_RANKED, (EsEventTime){time, -1}, &other, 1));
        ranked.split = "test";
        REQUIRE_OK(send_rows(&sink, ES_EVENT_PROOF_RANKED, (EsEventTime){3, -1}, &ranked, 1));
        REQUIRE_OK(sink.flush(sink.state));
    }
    sink.close(sink.state);
    EXPECT_TEXT(ask_file(path, "SELECT group_concat(round || split || mrr, ' ') FROM "
                               "(SELECT * FROM rankings ORDER BY round, split)"),
                "1test0.125 2test0.125 3test0.5 3valid0.5");
    EXPECT_TEXT(ask_file(path, "SELECT group_concat(name || value, ' ') FROM "
                               "(SELECT * FROM event_metric ORDER BY name)"),
                "proof/depth3.0 proof/validation_mrr0.5");
}

TEST(rows_of_the_former_name_of_a_rule_have_its_new_one_in_the_view) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    EsAnomalyDetectedEvent rows[] = {{.rule = "ransomware_signature", .detail = "old"},
                                     {.rule = "costly_dependence", .detail = "new"},
                                     {.rule = "kl_spike", .detail = "other"}};
    REQUIRE_OK(send_rows(&sink, ES_EVENT_ANOMALY_DETECTED, (EsEventTime){1, -1}, rows, 3));
    sink.close(sink.state);
    EXPECT_TEXT(ask_file(path, "SELECT group_concat(detail, ' ') FROM anomalies WHERE rule = "
                               "'costly_dependence'"),
                "old new");
    EXPECT_TEXT(ask_file(path, "SELECT count(*) FROM anomalies"), "3");
}

TEST(values_come_back_as_they_went_in) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    EsMetricEvent rows[] = {es_metric("a\xc3\xa9'\"\n", 0.1),
                            es_metric("max", INFINITY),
                            es_metric("min", -INFINITY),
                            es_metric("nan", NAN),
                            es_metric("missing", es_missing_real()),
                            es_metric("", -0.0),
                            es_metric(NULL, 4.9406564584124654e-324)};
    REQUIRE_OK(send_rows(&sink, ES_EVENT_METRIC, (EsEventTime){3, 10}, rows, 7));
    EsCheckpointSavedEvent saved = {.path = "checkpoints/3", .bytes = INT64_MAX, .is_best = -1};
    REQUIRE_OK(send_rows(&sink, ES_EVENT_CHECKPOINT_SAVED, (EsEventTime){3, -1}, &saved, 1));
    REQUIRE_OK(sink.flush(sink.state));
    sqlite3 *db = connect_to(path);
    EXPECT_TEXT(ask(db, "SELECT hex(name) FROM event_metric WHERE row = 0"), "61C3A927220A");
    EXPECT_TEXT(ask(db, "SELECT value = 0.1 FROM event_metric WHERE row = 0"), "1");
    EXPECT_TEXT(ask(db, "SELECT value FROM event_metric WHERE name = 'max'"), "Inf");
    EXPECT_TEXT(ask(db, "SELECT value FROM event_metric WHERE name = 'min'"), "-Inf");
    EXPECT_TEXT(ask(db, "SELECT value FROM event_metric WHERE name = 'nan'"), "NULL");
    EXPECT_TEXT(ask(db, "SELECT value FROM event_metric WHERE name = 'missing'"), "NULL");
    EXPECT_TEXT(ask(db, "SELECT typeof(value) FROM event_metric WHERE name = ''"), "real");
    EXPECT_TEXT(ask(db, "SELECT value > 0 FROM event_metric WHERE name IS NULL"), "1");
    EXPECT_TEXT(ask(db, "SELECT bytes FROM event_checkpoint_saved"), "9223372036854775807");
    EXPECT_TEXT(ask(db, "SELECT is_best FROM event_checkpoint_saved"), "-1");
    EXPECT_TEXT(ask(db, "SELECT round || ' ' || step FROM event_metric"), "3 10");
    EXPECT_TEXT(ask(db, "SELECT unix_time FROM event_metric"), "1700000180.0");
    EXPECT_TEXT(ask(db, "SELECT count(DISTINCT sequence) || count(DISTINCT row) FROM event_metric"),
                "17");
    sqlite3_close(db);
    sink.close(sink.state);
}

TEST(rows_are_seen_after_a_flush_and_not_before) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    REQUIRE_OK(sink.flush(sink.state)); // nothing to do
    sqlite3 *db = connect_to(path);
    REQUIRE_OK(send_metric(&sink, 1, "x", 1));
    EXPECT_TEXT(ask(db, "SELECT count(*) FROM event_metric"), "0");
    REQUIRE_OK(sink.flush(sink.state));
    EXPECT_TEXT(ask(db, "SELECT count(*) FROM event_metric"), "1");
    REQUIRE_OK(send_metric(&sink, 2, "x", 2));
    REQUIRE_OK(sink.flush(sink.state));
    EXPECT_TEXT(ask(db, "SELECT count(*) FROM event_metric"), "2");
    sqlite3_close(db);
    sink.close(sink.state);
}

TEST(closing_leaves_one_file) {
    const char *path = temp_path("run.db");
    int n_open = count_open_files();
    char log[600];
    REQUIRE_OK(write_sample_run(path, 1));
    snprintf(log, sizeof log, "%s-wal", path);
    EXPECT(access(log, F_OK) != 0);
    snprintf(log, sizeof log, "%s-shm", path);
    EXPECT(access(log, F_OK) != 0);
    EXPECT_TEXT(ask_file(path, "PRAGMA journal_mode"), "delete");
    EXPECT_TEXT(ask_file(path, "PRAGMA integrity_check"), "ok");
    EXPECT_EQ(count_open_files(), n_open);
}

// SQLite finds the log by the name of the database: closing one that was renamed would delete the
// log of another in its place.
TEST(a_database_that_was_renamed_is_reported_and_another_left_alone) {
    const char *path = temp_path("run.db");
    EsSink first, second;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &first));
    REQUIRE_OK(send_missing(&first, ES_EVENT_METRIC, (EsEventTime){1, -1}));
    REQUIRE_OK(first.flush(first.state));
    EXPECT_EQ(rename(path, temp_path("moved.db")), 0);
    EXPECT_EQ(rename(temp_path("run.db-wal"), temp_path("moved.db-wal")), 0);
    EXPECT_EQ(rename(temp_path("run.db-shm"), temp_path("moved.db-shm")), 0);
    REQUIRE_OK(send_missing(&first, ES_EVENT_METRIC, (EsEventTime){2, -1}));
    EXPECT_STATUS(first.flush(first.state), IO);
    EXPECT_CONTAINS(es_status_detail(), "run.db was removed or renamed");
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &second));
    REQUIRE_OK(send_missing(&second, ES_EVENT_METRIC, (EsEventTime){3, -1}));
    REQUIRE_OK(second.flush(second.state));
    first.close(first.state);
    EXPECT_EQ(access(temp_path("run.db-wal"), F_OK), 0);
    EXPECT_TEXT(ask_file(path, "select group_concat(round) from event_metric"), "3");
    second.close(second.state);
    EXPECT_TEXT(ask_file(temp_path("moved.db"), "select group_concat(round) from event_metric"),
                "1,2");
}

TEST(an_existing_database_is_continued_and_trimmed) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(write_sample_run(path, 3));
    EXPECT_TEXT(ask_file(path, "SELECT max(round) FROM raw_events"), "3");
    const char *n_before = "SELECT count(*) FROM raw_events WHERE round <= 1";
    char n_kept[32];
    snprintf(n_kept, sizeof n_kept, "%s", ask_file(path, n_before));

    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    sink.close(sink.state);
    EXPECT_TEXT(ask_file(path, "SELECT max(round) FROM raw_events"), "3");

    REQUIRE_OK(es_sqlite_sink_open(path, 1, &sink));
    EXPECT_TEXT(ask_file(path, "SELECT max(round) FROM raw_events"), "1");
    EXPECT_TEXT(ask_file(path, "SELECT count(*) FROM raw_events"), n_kept);
    REQUIRE_OK(send_round(&sink, 2));
    REQUIRE_OK(sink.flush(sink.state));
    sink.close(sink.state);
    EXPECT_TEXT(ask_file(path, "SELECT group_concat(round) FROM rounds"), "1,2");

    REQUIRE_OK(es_sqlite_sink_open(path, 0, &sink));
    sink.close(sink.state);
    EXPECT_TEXT(ask_file(path, "SELECT group_concat(event) FROM raw_events"), "run_started");
}

TEST(a_later_schema_version_is_refused) {
    const char *path = temp_path("run.db");
    EsSink sink = {.name = "untouched"};
    REQUIRE_OK(write_sample_run(path, 2));
    sqlite3 *db = connect_to(path);
    execute(db, "UPDATE meta SET value = 99 WHERE key = 'schema_version'");
    sqlite3_close(db);
    EXPECT_STATUS(es_sqlite_sink_open(path, 0, &sink), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "run.db has schema 99; this program writes schema 10");
    EXPECT_TEXT(sink.name, "untouched");
    EXPECT_TEXT(ask_file(path, "SELECT max(round) FROM event_metric"), "2");
}

// tables and columns that an earlier schema lacks are added; its rows stay
TEST(an_earlier_schema_is_brought_up) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(write_sample_run(path, 2));
    sqlite3 *db = connect_to(path);
    // views name the columns that go
    char views[4096];
    snprintf(views, sizeof views, "%s",
             ask(db, "SELECT group_concat('DROP VIEW ' || name, '; ') FROM sqlite_schema "
                     "WHERE type = 'view'"));
    execute(db, views);
    execute(db, "DROP TABLE event_plans_measured; PRAGMA application_id = 0;"
                "ALTER TABLE event_round_completed DROP COLUMN accuracy;"
                "UPDATE meta SET value = 1 WHERE key = 'schema_version'");
    sqlite3_close(db);
    const char *n_rows = ask_file(path, "SELECT count(*) FROM event_round_completed");
    EXPECT(strcmp(n_rows, "0") != 0);
    REQUIRE_OK(es_sqlite_sink_open(path, 2, &sink));
    sink.close(sink.state);
    EXPECT_TEXT(ask_file(path, "SELECT value FROM meta WHERE key = 'schema_version'"), "10");
    EXPECT_TEXT(ask_file(path, "SELECT count(*) FROM event_plans_measured"), "0");
    EXPECT_TEXT(ask_file(path, "SELECT count(accuracy) FROM event_round_completed"), "0");
    EXPECT_TEXT(ask_file(path, "SELECT count(*) = 2 FROM rounds"), "1");
    EXPECT_TEXT(ask_file(path, "PRAGMA application_id"), "1165193330");
}

TEST(what_is_no_run_database_is_refused) {
    const char *path = temp_path("run.db");
    int n_open = count_open_files();
    EsSink sink = {.name = "untouched"};
    uint8_t noise[8192];
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (uint8_t)(i * 2654435761u >> 7);
    }
    write_temp_file("run.db", noise, sizeof noise);
    EXPECT_STATUS(es_sqlite_sink_open(path, -1, &sink), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "run.db: cannot read: the file is no SQLite database");

    unlink(path);
    sqlite3 *db = NULL;
    sqlite3_open(path, &db);
    execute(db, "CREATE TABLE meta (name TEXT)");
    sqlite3_close(db);
    EXPECT_STATUS(es_sqlite_sink_open(path, -1, &sink), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "not the database of a run");

    EXPECT_STATUS(es_sqlite_sink_open(temp_folder(), -1, &sink), IO);
    EXPECT_STATUS(es_sqlite_sink_open("/nowhere/at/all/run.db", -1, &sink), IO);
    EXPECT_CONTAINS(es_status_detail(), "/nowhere/at/all/run.db.new: cannot open: No such file");
    EXPECT_TEXT(sink.name, "untouched");
    EXPECT_EQ(count_open_files(), n_open);
}

TEST(a_truncated_database_is_an_error_and_no_crash) {
    const char *path = temp_path("run.db");
    REQUIRE_OK(write_sample_run(path, 3));
    struct stat info;
    stat(path, &info);
    // at every eighth of the file, and in the middle of a page
    for (int eighth = 1; eighth < 8; eighth++) {
        EsSink sink = {0};
        if (truncate(path, info.st_size * (8 - eighth) / 8 + 100) != 0) {
            ES_TEST_FAIL("cannot truncate");
        }
        EsStatus status = es_sqlite_sink_open(path, 1, &sink);
        if (status == ES_STATUS_OK) {
            ES_TEST_FAIL("opened with %d eighths gone", eighth);
            sink.close(sink.state);
        } else {
            EXPECT_EQ(status, ES_STATUS_INPUT);
            EXPECT_CONTAINS(es_status_detail(), "the file is damaged");
        }
    }
}

TEST(a_reader_with_an_open_transaction_does_not_hold_the_sink_up) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    REQUIRE_OK(send_metric(&sink, 1, "x", 1));
    REQUIRE_OK(sink.flush(sink.state));
    sqlite3 *reader = connect_to(path);
    execute(reader, "BEGIN");
    EXPECT_TEXT(ask(reader, "SELECT count(*) FROM event_metric"), "1");
    for (int round = 2; round <= 50; round++) {
        // several times the log that is emptied by itself
        for (int i = 0; i < 400; i++) {
            REQUIRE_OK(send_metric(&sink, round, "a metric with a name of some length", i));
        }
        EXPECT_STATUS(sink.flush(sink.state), OK);
    }
    EXPECT_TEXT(ask(reader, "SELECT count(*) FROM event_metric"), "1");
    execute(reader, "COMMIT");
    EXPECT_TEXT(ask(reader, "SELECT count(*) FROM event_metric"), "19601");
    // closing with a reader connected: stays in WAL mode, nothing is lost
    sink.close(sink.state);
    EXPECT_TEXT(ask(reader, "SELECT count(*) FROM event_metric"), "19601");
    EXPECT_TEXT(ask(reader, "PRAGMA journal_mode"), "wal");
    sqlite3_close(reader);
}

TEST(another_writer_makes_a_write_fail_and_it_recovers) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    EsSqliteSink *state = sink.state;
    sqlite3_busy_timeout(state->db, 20);
    sqlite3 *writer = connect_to(path);
    execute(writer, "BEGIN IMMEDIATE");
    EXPECT_STATUS(send_metric(&sink, 1, "lost", 1), IO);
    EXPECT_CONTAINS(es_status_detail(), "run.db: cannot begin a transaction: another program");
    EXPECT_STATUS(sink.flush(sink.state), OK);
    execute(writer, "COMMIT");
    EXPECT_STATUS(send_metric(&sink, 1, "kept", 1), OK);
    EXPECT_STATUS(sink.flush(sink.state), OK);
    EXPECT_TEXT(ask(writer, "SELECT group_concat(name) FROM event_metric"), "kept");
    sqlite3_close(writer);
    sink.close(sink.state);
}

TEST(a_full_database_is_reported_and_recovers) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    EsSqliteSink *state = sink.state;
    REQUIRE_OK(send_metric(&sink, 1, "before", 1));
    REQUIRE_OK(sink.flush(sink.state));
    char sql[80];
    int n_pages = atoi(ask(state->db, "PRAGMA page_count"));
    snprintf(sql, sizeof sql, "PRAGMA max_page_count = %d", n_pages + 5);
    execute(state->db, sql);

    int n_written = 0;
    EsStatus status = ES_STATUS_OK;
    while (n_written < 100000 && status == ES_STATUS_OK) {
        status = send_metric(&sink, 2, "fills the pages", n_written);
        n_written += status == ES_STATUS_OK;
    }
    EXPECT_EQ(status, ES_STATUS_IO);
    EXPECT_CONTAINS(es_status_detail(), "cannot write into event_metric");
    EXPECT_CONTAINS(es_status_detail(), "full");
    // those that were written before in the same transaction are gone too, and it says so
    EXPECT(n_written > 10);
    EXPECT_STATUS(sink.flush(sink.state), IO);
    char expected[80];
    snprintf(expected, sizeof expected, "%d packets written since the last flush were lost",
             n_written);
    EXPECT_CONTAINS(es_status_detail(), expected);
    EXPECT_STATUS(sink.flush(sink.state), OK);

    execute(state->db, "PRAGMA max_page_count = 1000000");
    EXPECT_STATUS(send_metric(&sink, 3, "after", 1), OK);
    EXPECT_STATUS(sink.flush(sink.state), OK);
    EXPECT_TEXT(ask_file(path, "SELECT group_concat(name) FROM event_metric"), "before,after");
    sink.close(sink.state);
    EXPECT_TEXT(ask_file(path, "PRAGMA integrity_check"), "ok");
}

TEST(a_commit_the_system_refuses_is_reported_and_recovers) {
    const char *path = temp_path("run.db");
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    REQUIRE_OK(send_metric(&sink, 1, "before", 1));
    REQUIRE_OK(sink.flush(sink.state));
    char log[600];
    struct stat info;
    snprintf(log, sizeof log, "%s-wal", path);
    stat(log, &info);
    struct rlimit limit, old;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = (rlim_t)info.st_size;
    setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_STATUS(send_metric(&sink, 2, "lost", 2), OK);
    EXPECT_STATUS(sink.flush(sink.state), IO);
    EXPECT_CONTAINS(es_status_detail(), "the system refused to write");
    EXPECT_CONTAINS(es_status_detail(), "run.db: cannot commit 1 packets: disk I/O error");
    setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_STATUS(send_metric(&sink, 3, "after", 3), OK);
    EXPECT_STATUS(sink.flush(sink.state), OK);
    sink.close(sink.state);
    EXPECT_TEXT(ask_file(path, "SELECT group_concat(name) FROM event_metric"), "before,after");
}

TEST(a_killed_process_loses_what_was_not_flushed_and_nothing_else) {
    const char *path = temp_path("run.db");
    pid_t child = fork();
    if (child == 0) {
        EsSink sink;
        if (es_sqlite_sink_open(path, -1, &sink) == ES_STATUS_OK &&
            send_metric(&sink, 1, "flushed", 1) == ES_STATUS_OK &&
            sink.flush(sink.state) == ES_STATUS_OK &&
            send_metric(&sink, 2, "not flushed", 1) == ES_STATUS_OK) {
            raise(SIGKILL);
        }
        _exit(1);
    }
    int code = 0;
    waitpid(child, &code, 0);
    EXPECT(WIFSIGNALED(code));
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(path, -1, &sink));
    EXPECT_TEXT(ask_file(path, "SELECT group_concat(name) FROM event_metric"), "flushed");
    sink.close(sink.state);
}
