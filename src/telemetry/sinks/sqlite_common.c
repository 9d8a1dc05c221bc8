// SQLite's errors in a user's words, databases opened by path, and their schema and application id.
#include "telemetry/sinks/sqlite_common.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "telemetry/event_schema.h"

// An I/O error can be one of memory, too.
static int is_memory(int code) {
    return (code & 0xff) == SQLITE_NOMEM || code == SQLITE_IOERR_NOMEM;
}

static EsStatus status_of(int code) {
    if (is_memory(code)) {
        return ES_STATUS_MEMORY;
    }
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ES_STATUS_INPUT;
    case SQLITE_INTERRUPT:
        return ES_STATUS_INTERRUPTED;
    default:
        return ES_STATUS_IO;
    }
}

// The reason in a user's words, where SQLite's own say little.
static const char *reason_of(sqlite3 *db, int code) {
    if (is_memory(code)) {
        return "out of memory";
    }
    switch (code & 0xff) {
    case SQLITE_NOTADB:
        return "the file is no SQLite database";
    case SQLITE_CORRUPT:
        return "the file is damaged";
    case SQLITE_FULL:
        return "the disk, or the room allowed to the database, is full";
    case SQLITE_IOERR:
        return code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC
                   ? "disk I/O error, the system refused to write"
                   : "disk I/O error";
    case SQLITE_BUSY:
        return "another program is holding the database locked";
    default:
        return db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(code);
    }
}

EsStatus es_sqlite_fail(sqlite3 *db, int code, const char *file, int line, const char *doing, ...) {
    char what[256];
    va_list arguments;
    va_start(arguments, doing);
    vsnprintf(what, sizeof what, doing, arguments);
    va_end(arguments);

    const char *path = db != NULL ? sqlite3_db_filename(db, "main") : NULL;
    int primary = code & 0xff;
    int system_error =
        db != NULL && !is_memory(code) && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN)
            ? sqlite3_system_errno(db)
            : 0;
    return es_status_set(status_of(code), file, line, "%s: %s: %s%s%s%s",
                         path != NULL && path[0] != '\0' ? path : "database", what,
                         reason_of(db, code), system_error != 0 ? " (" : "",
                         system_error != 0 ? strerror(system_error) : "",
                         system_error != 0 ? ")" : "");
}

EsStatus es_sqlite_open(const char *path, int flags, const char *parameters, sqlite3 **db) {
    *db = NULL;
    // always a URI: some builds of SQLite take "file:..." and "?" in a plain path for one
    sqlite3_str *uri = sqlite3_str_new(NULL);
    sqlite3_str_appendall(uri, "file:");
    if (path[0] != '/') {
        sqlite3_str_appendall(uri, "./");
    }
    for (const char *at = path; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (isalnum(byte) || strchr("/._-", byte) != NULL) {
            sqlite3_str_appendchar(uri, 1, *at);
        } else {
            sqlite3_str_appendf(uri, "%%%02X", byte);
        }
    }
    sqlite3_str_appendf(uri, "?%s", parameters);
    char *text = sqlite3_str_finish(uri);
    if (text == NULL) {
        return ES_FAIL(MEMORY, "no memory to open %s", path);
    }
    int code = sqlite3_open_v2(text, db, flags | SQLITE_OPEN_URI, NULL);
    sqlite3_free(text);
    if (code != SQLITE_OK) {
        int system_error = *db != NULL && !is_memory(code) ? sqlite3_system_errno(*db) : 0;
        EsStatus status =
            es_status_set(status_of(code), __FILE__, __LINE__, "%s: cannot open: %s", path,
                          system_error != 0 ? strerror(system_error) : reason_of(*db, code));
        sqlite3_close(*db);
        *db = NULL;
        return status;
    }
    sqlite3_extended_result_codes(*db, 1);
    return ES_STATUS_OK;
}

// The number in the first row, -1 when there is none.
static EsStatus read_number(sqlite3 *db, const char *sql, int64_t *number) {
    sqlite3_stmt *statement = NULL;
    ES_SQLITE_TRY(db, sqlite3_prepare_v2(db, sql, -1, &statement, NULL), "cannot read");
    int code = sqlite3_step(statement);
    *number = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
    EsStatus status = code == SQLITE_ROW || code == SQLITE_DONE
                          ? ES_STATUS_OK
                          : ES_SQLITE_FAIL(db, code, "cannot read");
    sqlite3_finalize(statement);
    return status;
}

EsStatus es_sqlite_schema_version(sqlite3 *db, int64_t *version) {
    int64_t n_tables = 0, n_meta = 0;
    *version = 0;
    ES_TRY(read_number(db, "SELECT count(*) FROM sqlite_schema", &n_tables));
    if (n_tables == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(read_number(db,
                       "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'meta' "
                       "AND sql LIKE '%key%value%'",
                       &n_meta));
    if (n_meta > 0) {
        ES_TRY(read_number(db, "SELECT value FROM meta WHERE key = 'schema_version'", version));
    }
    if (*version <= 0) {
        return ES_FAIL(INPUT, "%s: not the database of a run: there is no schema version in it",
                       sqlite3_db_filename(db, "main"));
    }
    return ES_STATUS_OK;
}

EsStatus es_sqlite_check_schema(sqlite3 *db, const char *path, int64_t version) {
    int64_t id = 0;
    if (version > ES_EVENT_SCHEMA_VERSION) {
        return ES_FAIL(CONFIG,
                       "%s has schema %lld; this program writes schema %d: go on with the program "
                       "that wrote it, or begin a new run",
                       path, (long long)version, ES_EVENT_SCHEMA_VERSION);
    }
    ES_TRY(es_sqlite_application_id(db, &id));
    // 0: none, as databases from before there were markers
    return id == 0 || id == ES_SQLITE_APPLICATION_ID
               ? ES_STATUS_OK
               : ES_FAIL(CONFIG, "%s is the database of another program (application id %lld)",
                         path, (long long)id);
}

EsStatus es_sqlite_application_id(sqlite3 *db, int64_t *id) {
    return read_number(db, "PRAGMA application_id", id);
}
