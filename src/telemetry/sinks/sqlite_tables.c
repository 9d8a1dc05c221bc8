// Making tables and views, and bringing those of an earlier schema up to this one: schemas only
// ever add tables and columns, so that what is missing is added and old rows read as NULL there.
#include "telemetry/sinks/sqlite_tables.h"

#include <stdio.h>

#include "base/macros.h"
#include "telemetry/sinks/sqlite_common.h"
#include "telemetry/sinks/sqlite_views.h"

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

// Whether the table of an event has a column.
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

EsStatus es_sqlite_tables_create(sqlite3 *db) {
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

EsStatus es_sqlite_tables_trim(sqlite3 *db, int64_t last_round) {
    sqlite3_str *sql = sqlite3_str_new(db);
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        sqlite3_str_appendf(sql, "DELETE FROM \"event_%w\" WHERE round > %lld;\n",
                            es_event_schema((EsEventType)type)->name, (long long)last_round);
    }
    return execute(db, sql, "cannot delete the rows of dropped rounds");
}

EsStatus es_sqlite_tables_prepare_insert(sqlite3 *db, const EsEventSchema *schema,
                                         sqlite3_stmt **statement) {
    sqlite3_str *sql = sqlite3_str_new(db);
    // by name: columns that were added to an older table stand at its end
    sqlite3_str_appendf(sql, "INSERT INTO \"event_%w\" (sequence, row, unix_time, round, step",
                        schema->name);
    for (int i = 0; i < schema->n_columns; i++) {
        sqlite3_str_appendf(sql, ", \"%w\"", schema->columns[i].name);
    }
    sqlite3_str_appendall(sql, ") VALUES (?");
    for (int i = 1; i < ES_SQLITE_COMMON_COLUMNS + schema->n_columns; i++) {
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
