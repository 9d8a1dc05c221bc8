// Opening a run's database for reading, and queries on it: an authorizer refuses every statement
// that writes, a progress handler stops late ones, and wrong SQL gets a caret and a suggestion.
#include "telemetry/sinks/run_database.h"

#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/words.h"
#include "esper/log.h"
#include "telemetry/sinks/sqlite_common.h"
#include "telemetry/sinks/sqlite_views.h"
#include "telemetry/text.h"

struct EsRunDatabase {
    sqlite3 *db; // owned
    char path[4096];
    int64_t schema_version, application_id;
    double limit_seconds;
    int (*wants_stop)(void);
    int64_t deadline_ns; // of the step at hand; 0: none
    const char *tried;   // by the statement at hand besides reading, static; NULL when nothing
    int is_denied;       // by the authorizer
    int is_late;         // the deadline has passed
};

struct EsRunQuery {
    EsRunDatabase *database; // borrowed
    sqlite3_stmt *statement; // owned
    int64_t used_ns;         // inside SQLite
};

// A writer never blocks readers for longer than it takes to change the journal mode.
#define BUSY_MS 5000
// virtual machine steps of SQLite between two looks at the limits, well under a millisecond
#define PROGRESS_STEPS 1000

// --- opening ---

// A folder without a database: of a run without that sink, or of anything else.
static EsStatus fail_missing(const char *path) {
    char config[4096 + 16], events[4096 + 16];
    struct stat info;
    snprintf(config, sizeof config, "%s/config.ini", path);
    snprintf(events, sizeof events, "%s/events.jsonl", path);
    if (stat(config, &info) != 0) {
        return ES_FAIL(INPUT, "%s: there is no run.db in this folder, and it is no run", path);
    }
    return ES_FAIL(INPUT,
                   "%s: there is no run.db in this folder: the run was made with "
                   "--telemetry.sqlite=off or --telemetry.level=off%s",
                   path, stat(events, &info) == 0 ? "; its events are in events.jsonl" : "");
}

// The database file of `path`: itself, or run.db inside.
static EsStatus find_file(const char *path, char file[4096]) {
    struct stat info;
    int length = snprintf(file, 4096, "%s", path);
    if (length < 0 || length >= 4096 - 16) {
        return ES_FAIL(INPUT, "the path of the run is too long: %.60s...", path);
    }
    if (stat(path, &info) != 0) {
        return ES_FAIL(INPUT, "no such run: %s: %s", path, strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) {
        const char *slash = length > 0 && path[length - 1] == '/' ? "" : "/";
        snprintf(file, 4096, "%s%srun.db", path, slash);
        if (stat(file, &info) != 0 && errno != ENOENT) {
            return ES_FAIL(INPUT, "%s: cannot look into this folder: %s", path, strerror(errno));
        }
        if (stat(file, &info) != 0) {
            return fail_missing(path);
        }
    }
    if (!S_ISREG(info.st_mode)) {
        return ES_FAIL(INPUT, "%s: neither a run folder nor a database file", file);
    }
    return ES_STATUS_OK;
}

static int has_log(const char *file) {
    char log[4096 + 8];
    struct stat info;
    snprintf(log, sizeof log, "%s-wal", file);
    return stat(log, &info) == 0 && info.st_size > 0;
}

static EsStatus connect(EsRunDatabase *database, const char *parameters) {
    ES_TRY(es_sqlite_open(database->path, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, parameters,
                          &database->db));
    sqlite3_busy_timeout(database->db, BUSY_MS);
    ES_SQLITE_TRY(database->db,
                  sqlite3_exec(database->db, "PRAGMA query_only = 1; SELECT 1 FROM sqlite_schema",
                               NULL, NULL, NULL),
                  "cannot read");
    return ES_STATUS_OK;
}

// Opens a database in a place that cannot be written, where SQLite cannot make the shared memory
// that WAL mode needs. The file alone is consistent then, but without the rows still in the log.
static EsStatus connect_anyhow(EsRunDatabase *database) {
    EsStatus status = connect(database, "mode=ro");
    int code = database->db != NULL ? sqlite3_errcode(database->db) & 0xff : SQLITE_OK;
    if (status == ES_STATUS_OK || (code != SQLITE_CANTOPEN && code != SQLITE_READONLY)) {
        return status;
    }
    sqlite3_close(database->db);
    database->db = NULL;
    ES_TRY(connect(database, "mode=ro&immutable=1"));
    if (has_log(database->path)) {
        es_log(ES_LOG_WARNING,
               "%s: its folder cannot be written, so SQLite cannot read the log beside it: the "
               "newest rows are missing. Copy the folder to see them.",
               database->path);
    }
    return ES_STATUS_OK;
}

static int watch_limits(void *context) {
    EsRunDatabase *database = context;
    if (database->deadline_ns != 0 && es_clock_ns() > database->deadline_ns) {
        database->is_late = 1;
        return 1;
    }
    return database->wants_stop != NULL && database->wants_stop();
}

static const char *name_action(int action) {
    switch (action) {
    case SQLITE_INSERT:
        return "INSERT";
    case SQLITE_UPDATE:
        return "UPDATE";
    case SQLITE_DELETE:
        return "DELETE";
    case SQLITE_PRAGMA:
        return "a PRAGMA that sets something";
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
        return "ATTACH";
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return "a transaction";
    case SQLITE_FUNCTION:
        return "load_extension";
    default:
        return "a statement that changes the schema";
    }
}

static int is_reading_pragma(const char *name, const char *argument) {
    static const char *const with_argument[] = {
        "table_info",  "table_xinfo",      "table_list",      "index_list", "index_info",
        "index_xinfo", "foreign_key_list", "integrity_check", "quick_check"};
    if (argument == NULL) {
        return 1; // a value is asked for, not set
    }
    for (size_t i = 0; i < ES_COUNT_OF(with_argument); i++) {
        if (sqlite3_stricmp(name, with_argument[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

// The connection is read-only twice over. This notes the attempted action, which SQLite's texts do
// not name, and denies reads that reach outside; es_run_query_begin refuses writes.
static int authorize(void *context, int action, const char *first, const char *second,
                     const char *schema, const char *trigger) {
    EsRunDatabase *database = context;
    (void)schema, (void)trigger;
    int is_denied = 0;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        if (sqlite3_stricmp(second, "load_extension") != 0) {
            return SQLITE_OK;
        }
        is_denied = 1;
        break;
    case SQLITE_PRAGMA:
        if (is_reading_pragma(first, second)) {
            return SQLITE_OK;
        }
        is_denied = 1;
        break;
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        is_denied = 1;
        break;
    default: // also seen when SQLite declares its own virtual tables, which is harmless
        break;
    }
    // The first is the user's statement; CREATE goes on to changes of SQLite's own tables.
    if (database->tried == NULL) {
        database->tried = name_action(action);
    }
    database->is_denied |= is_denied;
    return is_denied ? SQLITE_DENY : SQLITE_OK;
}

EsStatus es_run_database_open(const char *path, EsRunDatabase **database) {
    *database = NULL;
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsRunDatabase), &memory));
    EsRunDatabase *opened = memory;
    EsStatus status;
    ES_TRY_GOTO(find_file(path, opened->path));
    ES_TRY_GOTO(connect_anyhow(opened));
    ES_TRY_GOTO(es_sqlite_schema_version(opened->db, &opened->schema_version));
    if (opened->schema_version == 0) {
        status = ES_FAIL(INPUT, "%s: not the database of a run: it is empty", opened->path);
        goto done;
    }
    ES_TRY_GOTO(es_sqlite_application_id(opened->db, &opened->application_id));
    sqlite3_progress_handler(opened->db, PROGRESS_STEPS, watch_limits, opened);
    sqlite3_set_authorizer(opened->db, authorize, opened);
    *database = opened;
done:
    if (status != ES_STATUS_OK) {
        es_run_database_close(opened);
    }
    return status;
}

void es_run_database_close(EsRunDatabase *database) {
    if (database != NULL) {
        int code = sqlite3_close(database->db);
        ES_ASSERT(code == SQLITE_OK); // a query was not ended
        es_release(database);
    }
}

const char *es_run_database_path(const EsRunDatabase *database) { return database->path; }

int64_t es_run_database_schema_version(const EsRunDatabase *database) {
    return database->schema_version;
}

int es_run_database_is_marked(const EsRunDatabase *database) {
    return database->application_id == ES_SQLITE_APPLICATION_ID;
}

EsStatus es_run_database_check_schema(const EsRunDatabase *database) {
    return es_sqlite_check_schema(database->db, database->path, database->schema_version);
}

void es_run_database_set_limits(EsRunDatabase *database, double seconds, int (*wants_stop)(void)) {
    database->limit_seconds = seconds;
    database->wants_stop = wants_stop;
}

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

// Checks whether anything but blanks and comments is left. Fails with MEMORY alone.
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

EsStatus es_run_query_begin_summed(EsRunDatabase *database, const char *select, const char *event,
                                   int64_t bucket, EsRunQuery **query) {
    const EsSummary *summary = es_summary_find(event);
    int is_coarse = bucket % ES_SUMMARY_ROUNDS == 0;
    EsText sql = {0};
    *query = NULL;
    if (summary == NULL || !(is_coarse || summary->has_level_1)) {
        return ES_STATUS_OK;
    }
    es_text_add_string(&sql, select);
    es_text_add_string(&sql, " FROM (");
    es_summary_add_rows(&sql, summary, is_coarse ? ES_SUMMARY_ROUNDS : 1);
    es_text_add_string(&sql, ") GROUP BY (first - 1) / ");
    es_text_add_int(&sql, bucket);
    if (summary->key != NULL) {
        es_text_add_string(&sql, ", ");
        es_text_add_string(&sql, summary->key);
    }
    es_text_add_string(&sql, " ORDER BY (first - 1) / ");
    es_text_add_int(&sql, bucket);
    es_text_add(&sql, "", 1);
    EsStatus status = sql.status;
    if (status == ES_STATUS_OK) {
        status = es_run_query_begin(database, sql.bytes, query);
    }
    es_text_destroy(&sql);
    return status == ES_STATUS_INPUT ? ES_STATUS_OK : status;
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
    // texts are made ready here, where lack of memory can be reported
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
