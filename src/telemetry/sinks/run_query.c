// Queries on a run's database, and what is said about wrong ones.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/spelling.h"
#include "telemetry/sinks/run_database_internal.h"
#include "telemetry/sinks/sqlite_common.h"
#include "telemetry/sinks/sqlite_views.h"

// --- errors ---

// The line of `sql` around byte `offset`, and a caret below it. "" when the place is unknown.
static void show_place(const char *sql, int offset, char *text, size_t text_bytes) {
    enum { BEFORE = 50, AFTER = 30 };
    text[0] = '\0';
    if (offset < 0 || (size_t)offset > strlen(sql)) {
        return;
    }
    const char *at = sql + offset, *begin = at, *end = at;
    while (begin > sql && begin[-1] != '\n' && at - begin < BEFORE) {
        begin--;
    }
    // not in the middle of a character: UTF-8 goes on with 10xxxxxx
    while (begin < at && (*begin & 0xc0) == 0x80) {
        begin++;
    }
    while (*end != '\0' && *end != '\n' && (end - at < AFTER || (*end & 0xc0) == 0x80)) {
        end++;
    }
    int indent = 0;
    for (const char *c = begin; c < at; c++) {
        indent += (*c & 0xc0) != 0x80;
    }
    snprintf(text, text_bytes, "\n  %.*s\n  %*s^", (int)(end - begin), begin, indent, "");
}

// "no such table: X" and "no such column: X" deserve a suggestion; NULL otherwise.
static const char *suggest(const char *message) {
    const char *word = strrchr(message, ' ');
    if (word == NULL) {
        return NULL;
    }
    int is_table = strncmp(message, "no such table:", 14) == 0;
    int is_column = strncmp(message, "no such column:", 15) == 0;
    const char *dot = strrchr(word, '.');
    EsSpelling spelling = es_spelling_begin(dot != NULL ? dot + 1 : word + 1);
    for (int i = 0; i < es_view_count(); i++) {
        const EsView *view = es_view(i);
        if (is_table) {
            es_spelling_offer(&spelling, view->name);
        }
        for (int j = 0; is_column && j < view->n_columns; j++) {
            es_spelling_offer(&spelling, view->columns[j].name);
        }
    }
    return is_table || is_column ? es_spelling_suggestion(&spelling) : NULL;
}

static EsStatus refuse(const EsRunDatabase *database) {
    return ES_FAIL(INPUT, "%s is refused: a run's database is only read here",
                   database->tried != NULL ? database->tried : "this statement");
}

// A failure of the user's SQL; other failures are passed on as they are.
static EsStatus fail_query(EsRunDatabase *database, int code, const char *sql) {
    if (database->is_denied) {
        return refuse(database);
    }
    if (database->is_late) {
        return ES_FAIL(INTERRUPTED, "the query took more than %g seconds and was stopped",
                       database->limit_seconds);
    }
    switch (code & 0xff) {
    case SQLITE_INTERRUPT:
        return ES_FAIL(INTERRUPTED, "the query was interrupted");
    case SQLITE_ERROR:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
    case SQLITE_RANGE: {
        char place[160];
        const char *message = sqlite3_errmsg(database->db);
        const char *near = suggest(message);
        show_place(sql, sqlite3_error_offset(database->db), place, sizeof place);
        const char *list = strncmp(message, "no such table:", 14) == 0 && near == NULL
                               ? "; esper query --views lists what there is"
                               : "";
        return ES_FAIL(INPUT, "%s%s%s%s%s%s", message, near != NULL ? "; did you mean \"" : "",
                       near != NULL ? near : "", near != NULL ? "\"?" : "", list, place);
    }
    default:
        return ES_SQLITE_FAIL(database->db, code, "cannot read");
    }
}

// --- the life of a query ---

// Whether anything but blanks and comments is left. Fails with MEMORY alone.
static EsStatus find_statement(sqlite3 *db, const char *sql, int *found) {
    sqlite3_stmt *statement = NULL;
    const char *tail = sql;
    *found = 0;
    while (!*found && tail[strspn(tail, " \t\r\n;")] != '\0') {
        const char *begin = tail;
        int code = sqlite3_prepare_v2(db, begin, -1, &statement, &tail);
        *found = code != SQLITE_OK || statement != NULL || tail == begin;
        sqlite3_finalize(statement);
        statement = NULL;
        if (code == SQLITE_NOMEM) {
            return ES_SQLITE_FAIL(db, code, "cannot read");
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_run_query_begin(EsRunDatabase *database, const char *sql, EsRunQuery **query) {
    *query = NULL;
    sqlite3_stmt *statement = NULL;
    const char *tail = NULL;
    database->tried = NULL;
    database->is_denied = 0;
    database->is_late = 0;
    database->deadline_ns = 0;
    int code = sqlite3_prepare_v2(database->db, sql, -1, &statement, &tail);
    if (code != SQLITE_OK) {
        return fail_query(database, code, sql);
    }
    EsStatus status;
    int has_more = 0;
    ES_TRY_GOTO(find_statement(database->db, tail, &has_more));
    if (statement == NULL && !has_more) {
        status = ES_FAIL(INPUT, "the query is empty");
        goto done;
    }
    if (statement != NULL && !sqlite3_stmt_readonly(statement)) {
        status = refuse(database);
        goto done;
    }
    if (statement == NULL || has_more) {
        status = ES_FAIL(INPUT, "there is more than one statement; ask them one by one");
        goto done;
    }
    database->is_denied = 0; // that may have been the rest
    void *memory = NULL;
    ES_TRY_GOTO(es_allocate(sizeof(EsRunQuery), &memory));
    *query = memory;
    (*query)->database = database;
    (*query)->statement = statement;
    return ES_STATUS_OK;
done:
    sqlite3_finalize(statement);
    return status;
}

void es_run_query_end(EsRunQuery *query) {
    if (query != NULL) {
        sqlite3_finalize(query->statement);
        es_release(query);
    }
}

static EsStatus check_binding(EsRunQuery *query, int code, int position) {
    if (code == SQLITE_RANGE) {
        return ES_FAIL(ARGUMENT, "the query has no question mark number %d", position);
    }
    return code == SQLITE_OK ? ES_STATUS_OK
                             : ES_SQLITE_FAIL(query->database->db, code, "cannot set a value");
}

EsStatus es_run_query_bind_int(EsRunQuery *query, int position, int64_t value) {
    return check_binding(query, sqlite3_bind_int64(query->statement, position, value), position);
}

EsStatus es_run_query_bind_text(EsRunQuery *query, int position, const char *text) {
    int code = sqlite3_bind_text(query->statement, position, text, -1, SQLITE_STATIC);
    return check_binding(query, code, position);
}

EsStatus es_run_query_step(EsRunQuery *query, int *has_row) {
    EsRunDatabase *database = query->database;
    int64_t start_ns = es_clock_ns();
    database->is_late = 0;
    database->deadline_ns =
        database->limit_seconds > 0
            ? start_ns + (int64_t)(database->limit_seconds * 1e9) - query->used_ns
            : 0;
    int code = sqlite3_step(query->statement);
    query->used_ns += es_clock_ns() - start_ns;
    *has_row = code == SQLITE_ROW;
    // texts are made ready here, where lack of memory can be told
    for (int i = 0; *has_row && i < sqlite3_column_count(query->statement); i++) {
        if (sqlite3_column_type(query->statement, i) == SQLITE_TEXT &&
            sqlite3_column_text(query->statement, i) == NULL) {
            code = SQLITE_NOMEM;
        }
    }
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? ES_STATUS_OK
               : fail_query(database, code, sqlite3_sql(query->statement));
}

int es_run_query_n_columns(const EsRunQuery *query) {
    return sqlite3_column_count(query->statement);
}

const char *es_run_query_column_name(const EsRunQuery *query, int column) {
    const char *name = sqlite3_column_name(query->statement, column);
    return name != NULL ? name : "";
}

EsRunCell es_run_query_cell(const EsRunQuery *query, int column) {
    switch (sqlite3_column_type(query->statement, column)) {
    case SQLITE_INTEGER:
        return ES_RUN_CELL_INT;
    case SQLITE_FLOAT:
        return ES_RUN_CELL_REAL;
    case SQLITE_TEXT:
        return ES_RUN_CELL_TEXT;
    case SQLITE_BLOB:
        return ES_RUN_CELL_BLOB;
    default:
        return ES_RUN_CELL_NULL;
    }
}

int64_t es_run_query_int(const EsRunQuery *query, int column) {
    return sqlite3_column_int64(query->statement, column);
}

double es_run_query_real(const EsRunQuery *query, int column) {
    return sqlite3_column_type(query->statement, column) == SQLITE_NULL
               ? NAN
               : sqlite3_column_double(query->statement, column);
}

const char *es_run_query_text(const EsRunQuery *query, int column, size_t *bytes) {
    const char *text = (const char *)sqlite3_column_text(query->statement, column);
    if (bytes != NULL) {
        *bytes = (size_t)sqlite3_column_bytes(query->statement, column);
    }
    return text;
}
