#include <sqlite3.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "esper/log.h"
#include "telemetry/sample_run.h"
#include "telemetry/sinks/run_database.h"
#include "temp_folder.h"

typedef struct Fixture {
    const char *path;
    int n_open; // files before
} Fixture;

static Fixture create_fixture(int n_rounds) {
    Fixture fixture = {.path = temp_path("run.db"), .n_open = count_open_files()};
    if (n_rounds > 0) {
        REQUIRE_OK(write_sample_run(fixture.path, n_rounds));
    }
    return fixture;
}

static void destroy_fixture(Fixture *fixture) { EXPECT_EQ(count_open_files(), fixture->n_open); }

static EsRunDatabase *open_run(const char *path) {
    EsRunDatabase *database = NULL;
    REQUIRE_OK(es_run_database_open(path, &database));
    return database;
}

// The number in the first row, or -1 with the failure printed.
static int64_t ask(EsRunDatabase *database, const char *sql) {
    EsRunQuery *query = NULL;
    int has_row = 0;
    EsStatus status = es_run_query_begin(database, sql, &query);
    if (status == ES_STATUS_OK) {
        status = es_run_query_step(query, &has_row);
    }
    int64_t number = status == ES_STATUS_OK && has_row ? es_run_query_int(query, 0) : -1;
    if (status != ES_STATUS_OK) {
        printf("%s: %s\n", sql, es_status_detail());
    }
    es_run_query_end(query);
    return number;
}

static EsStatus begin_and_end(EsRunDatabase *database, const char *sql) {
    EsRunQuery *query = NULL;
    EsStatus status = es_run_query_begin(database, sql, &query);
    if ((status == ES_STATUS_OK) != (query != NULL)) {
        ES_TEST_FAIL("status and query disagree");
    }
    es_run_query_end(query);
    return status;
}

// Write `n_rounds` and die without closing, as after kill -9.
static void write_and_die(const char *path, int n_rounds) {
    pid_t child = fork();
    if (child == 0) {
        EsSink sink;
        EsStatus status = es_sqlite_sink_open(path, -1, &sink);
        for (int round = 1; round <= n_rounds && status == ES_STATUS_OK; round++) {
            status = send_metric(&sink, round, "x", round);
        }
        if (status == ES_STATUS_OK) {
            status = sink.flush(sink.state);
        }
        _exit(status == ES_STATUS_OK ? 0 : 1);
    }
    int code = 0;
    waitpid(child, &code, 0);
    EXPECT_EQ(code, 0);
}

TEST(a_run_is_found_by_folder_and_by_file) {
    Fixture fixture = create_fixture(2);
    const char *const paths[] = {temp_folder(), temp_path(""), fixture.path};
    for (int i = 0; i < 3; i++) {
        EsRunDatabase *database = open_run(paths[i]);
        EXPECT_TEXT(es_run_database_path(database), fixture.path);
        EXPECT_EQ(es_run_database_schema_version(database), ES_EVENT_SCHEMA_VERSION);
        EXPECT_EQ(ask(database, "SELECT count(*) FROM rounds"), 2);
        es_run_database_close(database);
    }
    es_run_database_close(NULL);
    destroy_fixture(&fixture);
}

TEST(paths_are_taken_literally) {
    Fixture fixture = create_fixture(0);
    const char *folder = temp_path("a b?mode=memory&c#%41\xc3\xa9");
    char path[700];
    EXPECT_EQ(mkdir(folder, 0777), 0);
    snprintf(path, sizeof path, "%s/run.db", folder);
    REQUIRE_OK(write_sample_run(path, 1));
    EXPECT_EQ(access(path, F_OK), 0);
    EsRunDatabase *database = open_run(folder);
    EXPECT_EQ(ask(database, "SELECT count(*) FROM rounds"), 1);
    es_run_database_close(database);
    destroy_fixture(&fixture);
}

TEST(cells_of_all_kinds) {
    Fixture fixture = create_fixture(1);
    EsRunDatabase *database = open_run(fixture.path);
    EsRunQuery *query = NULL;
    int has_row = 0;
    REQUIRE_OK(es_run_query_begin(
        database, "SELECT 7 AS i, 0.5 AS r, 'a' || ?2 AS t, NULL AS n, x'00ff' AS b, ?1", &query));
    REQUIRE_OK(es_run_query_bind_int(query, 1, -3));
    REQUIRE_OK(es_run_query_bind_text(query, 2, "bc"));
    EXPECT_STATUS(es_run_query_bind_int(query, 3, 1), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "the query has no question mark number 3");
    REQUIRE_OK(es_run_query_step(query, &has_row));
    EXPECT(has_row);
    EXPECT_EQ(es_run_query_n_columns(query), 6);
    EXPECT_TEXT(es_run_query_column_name(query, 1), "r");
    static const EsRunCell kinds[] = {ES_RUN_CELL_INT,  ES_RUN_CELL_REAL, ES_RUN_CELL_TEXT,
                                      ES_RUN_CELL_NULL, ES_RUN_CELL_BLOB, ES_RUN_CELL_INT};
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(es_run_query_cell(query, i), kinds[i]);
    }
    size_t bytes = 0;
    EXPECT_EQ(es_run_query_int(query, 0), 7);
    EXPECT_NEAR(es_run_query_real(query, 1), 0.5, 0);
    EXPECT_TEXT(es_run_query_text(query, 2, &bytes), "abc");
    EXPECT_EQ(bytes, 3);
    EXPECT(isnan(es_run_query_real(query, 3)));
    EXPECT(es_run_query_text(query, 3, &bytes) == NULL);
    EXPECT_EQ(((const unsigned char *)es_run_query_text(query, 4, &bytes))[1], 0xff);
    EXPECT_EQ(bytes, 2);
    EXPECT_EQ(es_run_query_int(query, 5), -3);
    REQUIRE_OK(es_run_query_step(query, &has_row));
    EXPECT(!has_row);
    es_run_query_end(query);
    es_run_database_close(database);
    destroy_fixture(&fixture);
}

TEST(what_is_no_run_is_told) {
    Fixture fixture = create_fixture(0);
    EsRunDatabase *database = NULL;
    EXPECT_STATUS(es_run_database_open("/nowhere/run", &database), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "no such run: /nowhere/run: No such file");
    EXPECT_STATUS(es_run_database_open("", &database), INPUT);
    EXPECT_STATUS(es_run_database_open(temp_folder(), &database), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "there is no run.db in this folder");
    EXPECT_STATUS(es_run_database_open("/dev/null", &database), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "/dev/null: neither a run folder nor a database file");
    write_temp_text("run.db", "");
    EXPECT_STATUS(es_run_database_open(temp_folder(), &database), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "run.db: not the database of a run: it is empty");
    write_temp_text("run.db", "round,accuracy\n1,50\n2,51\n");
    EXPECT_STATUS(es_run_database_open(temp_folder(), &database), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "run.db: cannot read: the file is no SQLite database");
    EXPECT(database == NULL);
    destroy_fixture(&fixture);
}

TEST(damage_is_an_error_and_no_crash) {
    Fixture fixture = create_fixture(3);
    struct stat info;
    stat(fixture.path, &info);
    FILE *stream = fopen(fixture.path, "r+b");
    uint32_t state = 12345;
    int n_failed = 0;
    for (int trial = 0; trial < 40; trial++) {
        // 64 random bytes somewhere behind the file's header
        state = state * 1664525u + 1013904223u;
        fseek(stream, 100 + (long)(state >> 4) % (long)(info.st_size - 200), SEEK_SET);
        for (int i = 0; i < 64; i++) {
            state = state * 1664525u + 1013904223u;
            fputc((int)(state >> 24), stream);
        }
        fflush(stream);
        EsRunDatabase *database = NULL;
        EsStatus status = es_run_database_open(fixture.path, &database);
        if (status == ES_STATUS_OK) {
            EsRunQuery *query = NULL;
            int has_row = 1;
            status = es_run_query_begin(database, "SELECT * FROM raw_events", &query);
            while (status == ES_STATUS_OK && has_row) {
                status = es_run_query_step(query, &has_row);
            }
            es_run_query_end(query);
        }
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        n_failed += status != ES_STATUS_OK;
        es_run_database_close(database);
    }
    fclose(stream);
    EXPECT(n_failed > 0);
    EXPECT_EQ(truncate(fixture.path, info.st_size / 2), 0);
    EsRunDatabase *database = NULL;
    EXPECT_STATUS(es_run_database_open(fixture.path, &database), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "the file is damaged");
    destroy_fixture(&fixture);
}

TEST(nothing_can_be_changed) {
    Fixture fixture = create_fixture(1);
    EsRunDatabase *database = open_run(fixture.path);
    static const char *const writing[][2] = {
        {"INSERT INTO meta VALUES (1, 2)", "INSERT is refused"},
        {"UPDATE meta SET value = 2", "UPDATE is refused"},
        {"DELETE FROM event_metric", "DELETE is refused"},
        {"DROP TABLE meta", "refused"},
        {"CREATE TABLE t (x)", "refused"},
        {"CREATE TEMP TABLE t (x)", "refused"},
        {"ATTACH 'other.db' AS other", "ATTACH is refused"},
        {"PRAGMA query_only = 0", "a PRAGMA that sets something is refused"},
        {"PRAGMA journal_mode = DELETE", "a PRAGMA that sets something is refused"},
        {"BEGIN IMMEDIATE", "a transaction is refused"},
        {"WITH a AS (SELECT 1) INSERT INTO meta SELECT 1, 2 FROM a", "INSERT is refused"},
        {"SELECT load_extension('x')", "load_extension is refused"},
        {"VACUUM INTO 'copy.db'", "refused"},
        {"REINDEX", "refused"},
    };
    for (size_t i = 0; i < sizeof writing / sizeof writing[0]; i++) {
        EXPECT_STATUS(begin_and_end(database, writing[i][0]), INPUT);
        EXPECT_CONTAINS(es_status_detail(), writing[i][1]);
    }
    // and the next query is not taken for the refused one
    EXPECT_EQ(ask(database, "SELECT count(*) FROM meta"), 2);
    EXPECT_EQ(ask(database, "PRAGMA page_size"), 4096);
    EXPECT_EQ(ask(database, "SELECT count(*) FROM pragma_table_info('rounds')"), 24);
    es_run_database_close(database);
    destroy_fixture(&fixture);
}

TEST(wrong_sql_is_pointed_at) {
    Fixture fixture = create_fixture(1);
    EsRunDatabase *database = open_run(fixture.path);
    EXPECT_STATUS(begin_and_end(database, "SELECT round,\n  acuracy FROM rounds"), INPUT);
    EXPECT_TEXT(es_status_detail(), "no such column: acuracy; did you mean \"accuracy\"?\n"
                                    "    acuracy FROM rounds\n    ^");
    EXPECT_STATUS(begin_and_end(database, "SELECT * FROM round"), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "no such table: round; did you mean \"rounds\"?");
    EXPECT_STATUS(begin_and_end(database, "SELECT '\xc3\xa9\xc3\xa9' FORM rounds"), INPUT);
    EXPECT_TEXT(es_status_detail(),
                "near \"rounds\": syntax error\n  SELECT '\xc3\xa9\xc3\xa9' FORM rounds\n"
                "                   ^");
    EXPECT_STATUS(begin_and_end(database, "SELECT (1"), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "incomplete input");
    EXPECT_STATUS(begin_and_end(database, ""), INPUT);
    EXPECT_TEXT(es_status_detail(), "the query is empty");
    EXPECT_STATUS(begin_and_end(database, " ; -- nothing"), INPUT);
    EXPECT_TEXT(es_status_detail(), "the query is empty");
    EXPECT_STATUS(begin_and_end(database, "SELECT 1; SELECT 2"), INPUT);
    EXPECT_TEXT(es_status_detail(), "there is more than one statement; ask them one by one");
    EXPECT_STATUS(begin_and_end(database, "SELECT 1; DROP TABLE meta"), INPUT);
    EXPECT_STATUS(begin_and_end(database, "SELECT 1; garbage"), INPUT);
    EXPECT_STATUS(begin_and_end(database, "SELECT 1 ; /* end */ ; -- of it"), OK);
    // an error that shows only when the query runs
    EsRunQuery *query = NULL;
    int has_row = 0;
    REQUIRE_OK(es_run_query_begin(database, "SELECT json_extract('{', '$.x')", &query));
    EXPECT_STATUS(es_run_query_step(query, &has_row), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "malformed JSON");
    es_run_query_end(query);
    es_run_database_close(database);
    destroy_fixture(&fixture);
}

#define ENDLESS                                                                                    \
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

static int says_stop(void) { return 1; }

TEST(a_query_ends_when_its_time_is_up) {
    Fixture fixture = create_fixture(1);
    EsRunDatabase *database = open_run(fixture.path);
    EsRunQuery *query = NULL;
    int has_row = 0;
    es_run_database_set_limits(database, 0.05, NULL);
    REQUIRE_OK(es_run_query_begin(database, ENDLESS, &query));
    int64_t start_ns = es_clock_ns();
    EXPECT_STATUS(es_run_query_step(query, &has_row), INTERRUPTED);
    EXPECT_TEXT(es_status_detail(), "the query took more than 0.05 seconds and was stopped");
    EXPECT(es_clock_seconds_since(start_ns) < 5);
    es_run_query_end(query);
    // the next one has its own time
    EXPECT_EQ(ask(database, "SELECT count(*) FROM rounds"), 1);
    es_run_database_set_limits(database, 0, says_stop);
    REQUIRE_OK(es_run_query_begin(database, ENDLESS, &query));
    EXPECT_STATUS(es_run_query_step(query, &has_row), INTERRUPTED);
    EXPECT_TEXT(es_status_detail(), "the query was interrupted");
    es_run_query_end(query);
    es_run_database_close(database);
    destroy_fixture(&fixture);
}

TEST(a_run_can_be_read_while_it_writes) {
    Fixture fixture = create_fixture(0);
    EsSink sink;
    REQUIRE_OK(es_sqlite_sink_open(fixture.path, -1, &sink));
    EsRunDatabase *database = open_run(fixture.path);
    EXPECT_EQ(ask(database, "SELECT count(*) FROM metrics"), 0);
    REQUIRE_OK(send_metric(&sink, 1, "x", 1));
    EXPECT_EQ(ask(database, "SELECT count(*) FROM metrics"), 0);
    REQUIRE_OK(sink.flush(sink.state));
    EXPECT_EQ(ask(database, "SELECT count(*) FROM metrics"), 1);
    // a query in the middle of its rows, and the sink goes on
    EsRunQuery *query = NULL;
    int has_row = 0;
    REQUIRE_OK(es_run_query_begin(database, "SELECT * FROM metrics", &query));
    REQUIRE_OK(es_run_query_step(query, &has_row));
    REQUIRE_OK(send_metric(&sink, 2, "x", 2));
    EXPECT_STATUS(sink.flush(sink.state), OK);
    es_run_query_end(query);
    EXPECT_EQ(ask(database, "SELECT count(*) FROM metrics"), 2);
    sink.close(sink.state);
    EXPECT_EQ(ask(database, "SELECT count(*) FROM metrics"), 2);
    es_run_database_close(database);
    destroy_fixture(&fixture);
}

TEST(a_killed_run_is_read_with_its_log) {
    Fixture fixture = create_fixture(0);
    char log[600];
    write_and_die(fixture.path, 5);
    snprintf(log, sizeof log, "%s-wal", fixture.path);
    EXPECT_EQ(access(log, F_OK), 0);
    EsRunDatabase *database = open_run(fixture.path);
    EXPECT_EQ(ask(database, "SELECT count(*) FROM metrics"), 5);
    es_run_database_close(database);
    // the reader has not consumed it: the next one finds the same
    database = open_run(fixture.path);
    EXPECT_EQ(ask(database, "SELECT count(*) FROM metrics"), 5);
    es_run_database_close(database);
    destroy_fixture(&fixture);
}

static int n_warnings;

static void count_warning(void *context, EsLogLevel level, const char *line) {
    (void)context;
    if (level == ES_LOG_WARNING && strstr(line, "newest rows are missing") != NULL) {
        n_warnings++;
    }
}

// Close the folder to everybody; root needs to become somebody first.
static int close_folder(void) {
    chmod(temp_folder(), 0555);
    return geteuid() != 0 || seteuid(65534) == 0;
}

static void reopen_folder(void) {
    if (getuid() == 0 && seteuid(0) != 0) {
        ES_TEST_FAIL("cannot become root again");
    }
    chmod(temp_folder(), 0755);
}

TEST(a_folder_that_cannot_be_written) {
    Fixture fixture = create_fixture(3);
    if (!close_folder()) {
        reopen_folder();
        destroy_fixture(&fixture);
        SKIP("cannot give up the rights of root");
    }
    EsRunDatabase *database = open_run(temp_folder());
    EXPECT_EQ(ask(database, "SELECT count(*) FROM rounds"), 3);
    es_run_database_close(database);
    reopen_folder();

    // in WAL mode without log or shared memory, as when a reader was there when the run ended
    sqlite3 *db = NULL;
    sqlite3_open(fixture.path, &db);
    sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    sqlite3_close(db);
    close_folder();
    es_log_set_handler(count_warning, NULL, ES_LOG_WARNING);
    database = open_run(temp_folder());
    EXPECT_EQ(ask(database, "SELECT count(*) FROM rounds"), 3);
    es_run_database_close(database);
    EXPECT_EQ(n_warnings, 0);
    reopen_folder();

    // after kill -9 with log and shared memory: everything is seen
    unlink(fixture.path);
    write_and_die(fixture.path, 4);
    close_folder();
    database = open_run(temp_folder());
    EXPECT_EQ(ask(database, "SELECT count(*) FROM metrics"), 4);
    es_run_database_close(database);
    EXPECT_EQ(n_warnings, 0);
    reopen_folder();

    // copied without the shared memory: opened, and said that rows may be missing
    unlink(temp_path("run.db-shm"));
    close_folder();
    EsStatus status = es_run_database_open(temp_folder(), &database);
    reopen_folder();
    EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
    EXPECT_EQ(n_warnings, 1);
    if (status == ES_STATUS_OK) {
        es_run_database_close(database);
    }
    es_log_set_handler(NULL, NULL, ES_LOG_INFO);
    destroy_fixture(&fixture);
}
