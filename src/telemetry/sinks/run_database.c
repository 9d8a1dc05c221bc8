#include "telemetry/sinks/run_database.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/memory.h"
#include "telemetry/sinks/run_database_internal.h"
#include "telemetry/sinks/sqlite_common.h"

// A writer never blocks readers for longer than it takes to change the journal mode.
#define BUSY_MS 5000
// virtual machine steps of SQLite between two looks at the limits, well under a millisecond
#define PROGRESS_STEPS 1000

// --- opening ---

// A folder without a database: of a run that was told not to make one, or of anything else.
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

// Where nothing can be written, SQLite cannot make the shared memory a database in WAL mode needs.
// The file alone is whole then, but without what is still in the log.
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

// The connection is read-only twice over. This notes what was tried, which SQLite's texts do not
// tell, and denies what reads but reaches outside; es_run_query_begin refuses what would write.
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
    // The first is what the user wrote, and CREATE goes on to changes of SQLite's own tables.
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
