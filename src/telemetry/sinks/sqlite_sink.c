// The SQLite sink: a transaction begins with the first packet after a flush, and a flush commits.
//
// In WAL mode with synchronous = NORMAL a commit is a write without fsync. A program that is killed
// loses rows that were not flushed and nothing else. A machine that loses power may also lose the
// last commits, those since SQLite's last checkpoint; whole transactions are left in either case.
// Telemetry is not worth an fsync per second: checkpoints of the run are written durably elsewhere,
// and rows above them are trimmed on resume.
#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/memory.h"
#include "esper/log.h"
#include "esper/version.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/sqlite_common.h"
#include "telemetry/sinks/sqlite_views.h"

// --- tables ---

// Tables and views are made from the event schema and the list of views. Schemas only ever add
// tables and columns: those of an earlier one get the missing ones, and old rows read as NULL
// there.

// Columns of every event table that come before the event's own.
#define COMMON_COLUMNS 5

static const char *const column_types[] = {
    [ES_COLUMN_INT] = "INTEGER", [ES_COLUMN_REAL] = "REAL", [ES_COLUMN_TEXT] = "TEXT"};

// Run the collected statements and release them.
static EsStatus execute(sqlite3 *db, sqlite3_str *sql, const char *doing) {
    char *text = sqlite3_str_finish(sql);
    if (text == NULL) {
        return ES_FAIL(MEMORY, "%s: %s: out of memory", sqlite3_db_filename(db, "main"), doing);
    }
    int code = sqlite3_exec(db, text, NULL, NULL, NULL);
    EsStatus status = code == SQLITE_OK ? ES_STATUS_OK : ES_SQLITE_FAIL(db, code, "%s", doing);
    sqlite3_free(text);
    return status;
}

static void append_table(sqlite3_str *sql, const EsEventSchema *schema) {
    sqlite3_str_appendf(sql,
                        "CREATE TABLE IF NOT EXISTS \"event_%w\" (sequence INTEGER, row INTEGER, "
                        "unix_time REAL, round INTEGER, step INTEGER",
                        schema->name);
    for (int i = 0; i < schema->n_columns; i++) {
        const EsEventColumn *column = &schema->columns[i];
        sqlite3_str_appendf(sql, ", \"%w\" %s", column->name, column_types[column->type]);
    }
    // for the trim, and for the many queries that look at one round
    sqlite3_str_appendf(sql,
                        ");\nCREATE INDEX IF NOT EXISTS \"event_%w_round\" ON \"event_%w\" "
                        "(round);\n",
                        schema->name, schema->name);
}

// Checks whether the table of an event has a column.
static EsStatus find_column(sqlite3 *db, const EsEventSchema *schema, const char *column,
                            int *is_there) {
    char table[96];
    snprintf(table, sizeof table, "event_%s", schema->name);
    int code =
        sqlite3_table_column_metadata(db, "main", table, column, NULL, NULL, NULL, NULL, NULL);
    *is_there = code == SQLITE_OK;
    return code == SQLITE_OK || code == SQLITE_ERROR
               ? ES_STATUS_OK
               : ES_SQLITE_FAIL(db, code, "cannot read the columns of %s", table);
}

// Add the columns that a table of an earlier schema lacks.
static EsStatus add_columns(sqlite3 *db, const EsEventSchema *schema, sqlite3_str *sql) {
    for (int i = 0; i < schema->n_columns; i++) {
        const EsEventColumn *column = &schema->columns[i];
        int is_there = 0;
        ES_TRY(find_column(db, schema, column->name, &is_there));
        if (!is_there) {
            sqlite3_str_appendf(sql, "ALTER TABLE \"event_%w\" ADD COLUMN \"%w\" %s;\n",
                                schema->name, column->name, column_types[column->type]);
        }
    }
    return ES_STATUS_OK;
}

// SELECT of the view raw_events for one type; the columns as a JSON object, which has no
// infinities.
static void append_raw_select(sqlite3_str *sql, const EsEventSchema *schema) {
    sqlite3_str_appendf(sql, "SELECT '%q', sequence, row, unix_time, round, step, json_object(",
                        schema->name);
    for (int i = 0; i < schema->n_columns; i++) {
        const EsEventColumn *column = &schema->columns[i];
        const char *comma = i > 0 ? ", " : "";
        if (column->type == ES_COLUMN_REAL) {
            sqlite3_str_appendf(sql,
                                "%s'%q', CASE WHEN \"%w\" > 1.7976931348623157e308 THEN 'Infinity' "
                                "WHEN \"%w\" < -1.7976931348623157e308 THEN '-Infinity' "
                                "ELSE \"%w\" END",
                                comma, column->name, column->name, column->name, column->name);
        } else {
            sqlite3_str_appendf(sql, "%s'%q', \"%w\"", comma, column->name, column->name);
        }
    }
    sqlite3_str_appendf(sql, ") FROM \"event_%w\"", schema->name);
}

static void append_view(sqlite3_str *sql, const EsView *view) {
    sqlite3_str_appendf(sql, "DROP VIEW IF EXISTS \"%w\";\nCREATE VIEW \"%w\" (", view->name,
                        view->name);
    for (int i = 0; i < view->n_columns; i++) {
        sqlite3_str_appendf(sql, "%s\"%w\"", i > 0 ? ", " : "", view->columns[i].name);
    }
    sqlite3_str_appendall(sql, ") AS ");
    if (view->select != NULL) {
        sqlite3_str_appendall(sql, view->select);
    } else {
        for (int type = 0; type < ES_EVENT_COUNT; type++) {
            sqlite3_str_appendall(sql, type > 0 ? "\nUNION ALL " : "");
            append_raw_select(sql, es_event_schema((EsEventType)type));
        }
    }
    sqlite3_str_appendall(sql, ";\n");
}

// Makes missing parts: the table meta, a table and an index on round per event type, columns that
// an earlier schema did not have; the views are made anew, so that they are this program's. The
// caller holds a transaction.
static EsStatus create_tables(sqlite3 *db) {
    sqlite3_str *sql = sqlite3_str_new(db);
    sqlite3_str_appendf(sql,
                        "PRAGMA application_id = %d;\n"
                        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value);\n"
                        "INSERT OR REPLACE INTO meta VALUES ('schema_version', %d), "
                        "('program_version', '%q');\n",
                        ES_SQLITE_APPLICATION_ID, ES_EVENT_SCHEMA_VERSION, ES_VERSION);
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        append_table(sql, es_event_schema((EsEventType)type));
    }
    ES_TRY(execute(db, sql, "cannot create the tables"));
    sql = sqlite3_str_new(db);
    EsStatus status = ES_STATUS_OK;
    for (int type = 0; type < ES_EVENT_COUNT && status == ES_STATUS_OK; type++) {
        status = add_columns(db, es_event_schema((EsEventType)type), sql);
    }
    for (int i = 0; i < es_view_count(); i++) {
        append_view(sql, es_view(i));
    }
    if (status != ES_STATUS_OK) {
        sqlite3_free(sqlite3_str_finish(sql));
        return status;
    }
    return execute(db, sql, "cannot create the views");
}

// Delete the rows of all rounds above `last_round`, and the summaries that had them. The caller
// holds a transaction.
static EsStatus trim_tables(sqlite3 *db, int64_t last_round) {
    sqlite3_str *sql = sqlite3_str_new(db);
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        const char *name = es_event_schema((EsEventType)type)->name;
        sqlite3_str_appendf(sql, "DELETE FROM \"event_%w\" WHERE round > %lld;\n", name,
                            (long long)last_round);
        if (es_summary_of((EsEventType)type) != NULL) {
            sqlite3_str_appendf(sql, "DELETE FROM \"summary_%w\" WHERE last > %lld;\n", name,
                                (long long)last_round);
        }
    }
    return execute(db, sql, "cannot delete the rows of dropped rounds");
}

// --- summaries ---

// Those of an earlier schema are dropped: they are made again, with this one's columns.
static EsStatus create_summaries(sqlite3 *db, int64_t version) {
    EsText text = {0};
    for (int i = 0; i < es_summary_count(); i++) {
        if (version < ES_EVENT_SCHEMA_VERSION) {
            es_text_add_string(&text, "DROP TABLE IF EXISTS summary_");
            es_text_add_string(&text, es_event_schema(es_summary(i)->type)->name);
            es_text_add_string(&text, ";\n");
        }
        es_summary_add_table(&text, es_summary(i));
    }
    EsStatus status = text.status;
    if (status == ES_STATUS_OK) {
        sqlite3_str *sql = sqlite3_str_new(db);
        sqlite3_str_append(sql, text.bytes, (int)text.length);
        status = execute(db, sql, "cannot create the summaries");
    }
    es_text_destroy(&text);
    return status;
}

static EsStatus prepare_build(sqlite3 *db, const EsSummary *summary, int level,
                              sqlite3_stmt **statement) {
    EsText sql = {0};
    es_summary_add_build(&sql, summary, level);
    EsStatus status = sql.status;
    if (status == ES_STATUS_OK) {
        int code = sqlite3_prepare_v3(db, sql.bytes, (int)sql.length, SQLITE_PREPARE_PERSISTENT,
                                      statement, NULL);
        status =
            code == SQLITE_OK ? ES_STATUS_OK : ES_SQLITE_FAIL(db, code, "cannot sum up rounds");
    }
    es_text_destroy(&sql);
    return status;
}

// Adds the buckets that are complete with `last_round`, after which no row of it or of an earlier
// one is expected. The caller holds a transaction.
static EsStatus sum_up(EsSqliteSink *sink, int64_t last_round) {
    static const int levels[] = {1, ES_SUMMARY_ROUNDS};
    int has_sixteen = last_round / ES_SUMMARY_ROUNDS != sink->n_sixteens;
    for (int i = 0; i < es_summary_count(); i++) {
        const EsSummary *summary = es_summary(i);
        for (int level = !summary->has_level_1; level < 1 + has_sixteen; level++) {
            sqlite3_stmt **statement = &sink->build[summary->type][level];
            if (*statement == NULL) {
                ES_TRY(prepare_build(sink->db, summary, levels[level], statement));
            }
            sqlite3_bind_int64(*statement, 1, last_round);
            sqlite3_step(*statement);
            int code = sqlite3_reset(*statement); // repeats the error of step
            ES_SQLITE_TRY(sink->db, code, "cannot sum up rounds");
        }
    }
    sink->summed_round = ES_MAX(sink->summed_round, last_round);
    sink->n_sixteens = last_round / ES_SUMMARY_ROUNDS;
    return ES_STATUS_OK;
}

// Takes back the bucket of a late row and all after it; they are made again with the next round.
// Rows of other types that a summary looks at (steps on the stride) do not come late.
static EsStatus take_back(EsSqliteSink *sink, const EsPacket *packet) {
    sqlite3_str *sql = sqlite3_str_new(sink->db);
    sqlite3_str_appendf(sql, "DELETE FROM \"summary_%w\" WHERE last >= %lld", packet->schema->name,
                        (long long)packet->header->round);
    sink->n_sixteens = -1;
    return execute(sink->db, sql, "cannot take back summaries");
}

static EsStatus keep_summaries(EsSqliteSink *sink, const EsPacket *packet) {
    int64_t round = packet->header->round;
    if (round <= sink->summed_round && es_summary_of(packet->type) != NULL) {
        ES_TRY(take_back(sink, packet));
    }
    // one round later: its last rows come after it was completed
    return packet->type == ES_EVENT_ROUND_COMPLETED ? sum_up(sink, round - 1) : ES_STATUS_OK;
}

// The newest complete round, 0 when there is none.
static EsStatus find_last_round(sqlite3 *db, int64_t *last_round) {
    sqlite3_stmt *statement = NULL;
    ES_SQLITE_TRY(db,
                  sqlite3_prepare_v2(db, "SELECT max(round) FROM event_round_completed", -1,
                                     &statement, NULL),
                  "cannot find the last round");
    int code = sqlite3_step(statement);
    *last_round = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    EsStatus status =
        code == SQLITE_ROW ? ES_STATUS_OK : ES_SQLITE_FAIL(db, code, "cannot find the last round");
    sqlite3_finalize(statement);
    return status;
}

// Sums up all complete rounds, where nothing more of them is to come.
static EsStatus sum_up_all(EsSqliteSink *sink) {
    int64_t last_round = 0;
    ES_TRY(find_last_round(sink->db, &last_round));
    return sum_up(sink, last_round);
}

// Prepare the statement that adds a row: sequence, row, unix_time, round, step, then the event's
// columns.
static EsStatus prepare_insert(sqlite3 *db, const EsEventSchema *schema, sqlite3_stmt **statement) {
    sqlite3_str *sql = sqlite3_str_new(db);
    // by name: columns that were added to an older table stand at its end
    sqlite3_str_appendf(sql, "INSERT INTO \"event_%w\" (sequence, row, unix_time, round, step",
                        schema->name);
    for (int i = 0; i < schema->n_columns; i++) {
        sqlite3_str_appendf(sql, ", \"%w\"", schema->columns[i].name);
    }
    sqlite3_str_appendall(sql, ") VALUES (?");
    for (int i = 1; i < COMMON_COLUMNS + schema->n_columns; i++) {
        sqlite3_str_appendall(sql, ", ?");
    }
    sqlite3_str_appendall(sql, ")");
    char *text = sqlite3_str_finish(sql);
    if (text == NULL) {
        return ES_FAIL(MEMORY, "%s: no memory for a statement", sqlite3_db_filename(db, "main"));
    }
    // persistent: kept for the whole run
    int code = sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
    EsStatus status = code == SQLITE_OK
                          ? ES_STATUS_OK
                          : ES_SQLITE_FAIL(db, code, "cannot write into event_%s", schema->name);
    sqlite3_free(text);
    return status;
}

// Readers in WAL mode hold no locks a writer needs. The time is for another program that writes,
// and at the start for readers of a database that is not in WAL mode yet.
#define BUSY_MS 2000

// --- transactions ---

// Give up the open transaction; its packets are reported by the next flush.
static void abandon(EsSqliteSink *sink) {
    // SQLite may have rolled back by itself, for example when the disk was full
    if (!sqlite3_get_autocommit(sink->db)) {
        sqlite3_exec(sink->db, "ROLLBACK", NULL, NULL, NULL);
    }
    sink->n_rolled_back += sink->n_pending;
    sink->n_pending = 0;
}

// Run a step in a transaction of its own.
static EsStatus in_transaction(EsSqliteSink *sink, EsStatus (*step)(EsSqliteSink *sink)) {
    ES_SQLITE_TRY(sink->db, sqlite3_exec(sink->db, "BEGIN IMMEDIATE", NULL, NULL, NULL),
                  "cannot begin a transaction");
    EsStatus status = step(sink);
    if (status == ES_STATUS_OK) {
        int code = sqlite3_exec(sink->db, "COMMIT", NULL, NULL, NULL);
        status = code == SQLITE_OK ? ES_STATUS_OK : ES_SQLITE_FAIL(sink->db, code, "cannot commit");
    }
    if (!sqlite3_get_autocommit(sink->db)) {
        sqlite3_exec(sink->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

// Returns whether the path still names the file that is open. SQLite itself would go on into one
// that was removed, and work on the log of another database under the same name.
static int is_in_place(EsSqliteSink *sink) {
    int has_moved = 0;
    return sqlite3_file_control(sink->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) !=
               SQLITE_OK ||
           !has_moved;
}

// --- writing ---

static int bind_cell(sqlite3_stmt *statement, int position, const EsPacket *packet, int64_t row,
                     int column) {
    switch (packet->schema->columns[column].type) {
    case ES_COLUMN_INT: {
        int64_t value = es_packet_int(packet, row, column);
        return value == ES_MISSING_INT ? sqlite3_bind_null(statement, position)
                                       : sqlite3_bind_int64(statement, position, value);
    }
    case ES_COLUMN_REAL: {
        double value = es_packet_real(packet, row, column);
        return isnan(value) ? sqlite3_bind_null(statement, position)
                            : sqlite3_bind_double(statement, position, value);
    }
    case ES_COLUMN_TEXT: {
        size_t bytes = 0;
        const char *text = es_packet_text(packet, row, column, &bytes);
        return text == NULL ? sqlite3_bind_null(statement, position)
                            : sqlite3_bind_text64(statement, position, text, bytes, SQLITE_STATIC,
                                                  SQLITE_UTF8);
    }
    }
    return SQLITE_MISUSE;
}

static int insert_row(sqlite3_stmt *statement, const EsPacket *packet, int64_t row) {
    int code = sqlite3_bind_int64(statement, 2, row);
    for (int i = 0; i < packet->schema->n_columns && code == SQLITE_OK; i++) {
        code = bind_cell(statement, COMMON_COLUMNS + 1 + i, packet, row, i);
    }
    if (code == SQLITE_OK) {
        sqlite3_step(statement);
        // repeats the error of step
        code = sqlite3_reset(statement);
    }
    return code;
}

static EsStatus insert_rows(EsSqliteSink *sink, const EsPacket *packet) {
    sqlite3_stmt **slot = &sink->insert[packet->type];
    if (*slot == NULL) {
        ES_TRY(prepare_insert(sink->db, packet->schema, slot));
    }
    sqlite3_stmt *statement = *slot;
    const EsPacketHeader *header = packet->header;
    sqlite3_bind_int64(statement, 1, header->sequence);
    sqlite3_bind_double(statement, 3, (double)header->unix_us * 1e-6);
    sqlite3_bind_int64(statement, 4, header->round);
    if (header->step < 0) {
        sqlite3_bind_null(statement, 5);
    } else {
        sqlite3_bind_int64(statement, 5, header->step);
    }
    int code = SQLITE_OK;
    for (int64_t row = 0; row < packet->n_rows && code == SQLITE_OK; row++) {
        code = insert_row(statement, packet, row);
    }
    EsStatus status =
        code == SQLITE_OK
            ? ES_STATUS_OK
            : ES_SQLITE_FAIL(sink->db, code, "cannot write into event_%s", packet->schema->name);
    // texts point into the packet, which the caller takes back
    sqlite3_clear_bindings(statement);
    return status;
}

// Binds round, `arm` and split of a ranking to the statement, and runs it.
static int remove_ranked(sqlite3_stmt *statement, const EsPacket *packet, int64_t row) {
    int code = sqlite3_bind_int64(statement, 1, packet->header->round);
    int variant = es_event_column(packet->type, "arm"),
        split = es_event_column(packet->type, "split");
    if (code == SQLITE_OK) {
        code = bind_cell(statement, 2, packet, row, variant);
    }
    if (code == SQLITE_OK) {
        code = bind_cell(statement, 3, packet, row, split);
    }
    if (code == SQLITE_OK) {
        sqlite3_step(statement);
        code = sqlite3_reset(statement);
    }
    return code;
}

// A run that is killed while it compares policies ranks the validation queries of its last round
// again when it is resumed. The earlier ranking, and the metrics that go with it, give way to the
// new one in the same transaction.
static EsStatus remove_former_rankings(EsSqliteSink *sink, const EsPacket *packet) {
    static const char rankings[] =
        "DELETE FROM event_proof_ranked WHERE round = ?1 AND arm IS ?2 AND split IS ?3";
    static const char metrics[] =
        "DELETE FROM event_metric WHERE ?3 = 'valid' AND ?2 = 'policy' AND round = ?1 AND "
        "substr(name, 1, 17) = 'proof/validation_'";
    const char *const texts[] = {rankings, metrics};
    int code = SQLITE_OK;
    for (size_t i = 0; i < ES_COUNT_OF(texts) && code == SQLITE_OK; i++) {
        sqlite3_stmt *statement = NULL;
        code = sqlite3_prepare_v2(sink->db, texts[i], -1, &statement, NULL);
        for (int64_t row = 0; row < packet->n_rows && code == SQLITE_OK; row++) {
            code = remove_ranked(statement, packet, row);
        }
        sqlite3_finalize(statement);
    }
    return code == SQLITE_OK ? ES_STATUS_OK
                             : ES_SQLITE_FAIL(sink->db, code, "cannot replace a ranking");
}

static EsStatus execute_text(sqlite3 *db, const char *text) {
    int code = sqlite3_exec(db, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? ES_STATUS_OK
                             : ES_SQLITE_FAIL(db, code, "cannot keep summaries apart");
}

// Empties what summaries there still are: later rows would not be in them.
static void forget_summaries(EsSqliteSink *sink) {
    char sql[128];
    for (int i = 0; i < es_summary_count(); i++) {
        snprintf(sql, sizeof sql, "DELETE FROM summary_%s",
                 es_event_schema(es_summary(i)->type)->name);
        (void)sqlite3_exec(sink->db, sql, NULL, NULL, NULL);
    }
}

// Summaries may be missing, for readers have the rows; rows may not. A failure undoes what it did
// and ends the summing; the next session sums up anew.
static EsStatus try_summaries(EsSqliteSink *sink, const EsPacket *packet) {
    ES_TRY(execute_text(sink->db, "SAVEPOINT summaries"));
    if (keep_summaries(sink, packet) == ES_STATUS_OK) {
        return execute_text(sink->db, "RELEASE summaries");
    }
    es_log(ES_LOG_WARNING, "rounds are not summed up any more: %s", es_status_detail());
    sink->has_no_summaries = 1;
    ES_TRY(execute_text(sink->db, "ROLLBACK TO summaries; RELEASE summaries"));
    forget_summaries(sink);
    return ES_STATUS_OK;
}

static EsStatus write_packet(void *state, const EsPacket *packet) {
    EsSqliteSink *sink = state;
    if (sqlite3_get_autocommit(sink->db)) {
        // immediate: a lock held by another program shows here, before anything could be lost
        ES_SQLITE_TRY(sink->db, sqlite3_exec(sink->db, "BEGIN IMMEDIATE", NULL, NULL, NULL),
                      "cannot begin a transaction");
    }
    EsStatus status = ES_STATUS_OK;
    if (packet->type == ES_EVENT_PROOF_RANKED) {
        status = remove_former_rankings(sink, packet);
    }
    if (status == ES_STATUS_OK) {
        status = insert_rows(sink, packet);
    }
    if (status == ES_STATUS_OK && !sink->has_no_summaries) {
        status = try_summaries(sink, packet);
    }
    if (status != ES_STATUS_OK) {
        abandon(sink);
        return status;
    }
    sink->n_pending++;
    return ES_STATUS_OK;
}

static EsStatus flush(void *state) {
    EsSqliteSink *sink = state;
    int64_t n_rolled_back = sink->n_rolled_back;
    EsStatus status = ES_STATUS_OK;
    if (!sqlite3_get_autocommit(sink->db)) {
        int code = sqlite3_exec(sink->db, "COMMIT", NULL, NULL, NULL);
        if (code != SQLITE_OK) {
            status = ES_SQLITE_FAIL(sink->db, code, "cannot commit %lld packets",
                                    (long long)sink->n_pending);
            abandon(sink);
        }
    }
    sink->n_pending = 0;
    sink->n_rolled_back = 0;
    if (status == ES_STATUS_OK && n_rolled_back > 0) {
        status = ES_FAIL(IO,
                         "%s: %lld packets written since the last flush were lost with a write "
                         "that failed after them",
                         sqlite3_db_filename(sink->db, "main"), (long long)n_rolled_back);
    }
    if (status == ES_STATUS_OK && !is_in_place(sink)) {
        status = ES_FAIL(IO, "%s was removed or renamed while it was written",
                         sqlite3_db_filename(sink->db, "main"));
    }
    return status;
}

static void finalize_statements(EsSqliteSink *sink) {
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        sqlite3_finalize(sink->insert[type]);
        sqlite3_finalize(sink->build[type][0]);
        sqlite3_finalize(sink->build[type][1]);
    }
}

static void close_sink(void *state) {
    EsSqliteSink *sink = state;
    flush(sink);
    if (is_in_place(sink) &&
        in_transaction(sink, sum_up_all) != ES_STATUS_OK) { // readers then read the rows
        es_log(ES_LOG_WARNING, "the last rounds are not summed up: %s", es_status_detail());
    }
    finalize_statements(sink);
    if (sink->db != NULL && is_in_place(sink)) {
        // Leave one file that can be copied, and read where nothing can be written. Not possible,
        // and not waited for, while a reader has the database open.
        sqlite3_busy_timeout(sink->db, 0);
        sqlite3_exec(sink->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    }
    sqlite3_close(sink->db);
    es_release(sink);
}

// --- opening ---

// File systems without shared memory have no WAL mode: SQLite then stays in the mode it was in.
static EsStatus set_journal(sqlite3 *db) {
    sqlite3_stmt *statement = NULL;
    ES_SQLITE_TRY(db, sqlite3_prepare_v2(db, "PRAGMA journal_mode = WAL", -1, &statement, NULL),
                  "cannot choose WAL mode");
    int code = sqlite3_step(statement);
    const char *mode = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    int is_wal = mode != NULL && strcmp(mode, "wal") == 0;
    EsStatus status =
        code == SQLITE_ROW ? ES_STATUS_OK : ES_SQLITE_FAIL(db, code, "cannot choose WAL mode");
    sqlite3_finalize(statement);
    ES_TRY(status);
    if (!is_wal) {
        es_log(ES_LOG_WARNING, "%s: no WAL mode on this file system; queries can hold the run up",
               sqlite3_db_filename(db, "main"));
    }
    // the log shrinks back to 16 MiB after a reader has kept it from being emptied
    ES_SQLITE_TRY(db,
                  sqlite3_exec(db,
                               "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = OFF;"
                               "PRAGMA journal_size_limit = 16777216",
                               NULL, NULL, NULL),
                  "cannot set up the connection");
    return ES_STATUS_OK;
}

// quick_check says in words that it could not read a page: for want of memory, say. Returns why, OK
// where it does not.
static int unread_page(const char *found) {
    const char *code = strstr(found, "unable to get the page. error code=");
    return code == NULL ? SQLITE_OK : atoi(strchr(code, '=') + 1);
}

// Checks all pages: one that was damaged between sessions would show in the middle of the run, or
// in no query at all. Reads the whole file, once per resume: 0.7 s for 225 MB that are cached.
static EsStatus check_pages(sqlite3 *db) {
    sqlite3_stmt *statement = NULL;
    ES_SQLITE_TRY(db, sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &statement, NULL),
                  "cannot be checked");
    int code = sqlite3_step(statement);
    const char *found = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    EsStatus status = ES_STATUS_OK;
    if (code != SQLITE_ROW) {
        status = ES_SQLITE_FAIL(db, code, "cannot be checked");
    } else if (found == NULL) {
        status = ES_FAIL(MEMORY, "%s: no memory to check it", sqlite3_db_filename(db, "main"));
    } else if (unread_page(found) != SQLITE_OK) {
        status = ES_SQLITE_FAIL(db, unread_page(found), "cannot be checked");
    } else if (strcmp(found, "ok") != 0) {
        status = ES_FAIL(INPUT, "%s: the file is damaged: %.200s", sqlite3_db_filename(db, "main"),
                         found);
    }
    sqlite3_finalize(statement);
    return status;
}

static EsStatus set_up_tables(EsSqliteSink *sink) {
    ES_TRY(create_tables(sink->db));
    ES_TRY(create_summaries(sink->db, sink->version));
    ES_TRY(sink->last_round >= 0 ? trim_tables(sink->db, sink->last_round) : ES_STATUS_OK);
    return sum_up_all(sink);
}

static EsStatus set_up(EsSqliteSink *sink, const char *path) {
    sqlite3_busy_timeout(sink->db, BUSY_MS);
    ES_TRY(es_sqlite_schema_version(sink->db, &sink->version));
    ES_TRY(es_sqlite_check_schema(sink->db, path, sink->version));
    // before anything is written: a damaged file is kept as it was found
    ES_TRY(sink->last_round >= 0 ? check_pages(sink->db) : ES_STATUS_OK);
    ES_TRY(set_journal(sink->db));
    return in_transaction(sink, set_up_tables);
}

// Make a new database under another name and put it in place when its tables are there, so that a
// program killed in between leaves no file rather than one without views.
static EsStatus create_database(const char *path) {
    char fresh[4096];
    EsSqliteSink sink = {.last_round = -1};
    if (snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh) {
        return ES_FAIL(ARGUMENT, "%.200s...: the path is too long", path);
    }
    unlink(fresh);
    EsStatus status = es_sqlite_open(
        fresh, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, "", &sink.db);
    if (status == ES_STATUS_OK) {
        sqlite3_exec(sink.db, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF", NULL, NULL,
                     NULL);
        status = in_transaction(&sink, set_up_tables);
    }
    finalize_statements(&sink);
    sqlite3_close(sink.db);
    if (status == ES_STATUS_OK && rename(fresh, path) != 0) {
        status = ES_FAIL(IO, "%s: cannot be created: %s", path, strerror(errno));
    }
    if (status != ES_STATUS_OK) {
        unlink(fresh);
    }
    return status;
}

const char *es_sqlite_sink_version(void) { return sqlite3_libversion(); }

EsStatus es_sqlite_sink_open(const char *path, int64_t last_round, EsSink *sink) {
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        ES_TRY(create_database(path));
    }
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsSqliteSink), &memory));
    EsSqliteSink *state = memory;
    state->last_round = last_round;
    EsStatus status = es_sqlite_open(
        path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, "", &state->db);
    if (status == ES_STATUS_OK) {
        status = set_up(state, path);
    }
    if (status != ES_STATUS_OK) {
        finalize_statements(state);
        sqlite3_close(state->db);
        es_release(state);
        return status;
    }
    *sink = (EsSink){
        .name = "sqlite",
        .state = state,
        .write = write_packet,
        .flush = flush,
        .close = close_sink,
    };
    return ES_STATUS_OK;
}
