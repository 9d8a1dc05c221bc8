// Shared by all users of SQLite: its errors as statuses, and opening a database by path.
#ifndef ES_TELEMETRY_SQLITE_COMMON_H
#define ES_TELEMETRY_SQLITE_COMMON_H

#include <sqlite3.h>
#include <stdint.h>

#include "telemetry/event.h"

// Record SQLite's last failure on `db` as "FILE: DOING: reason by SQLite and the system". Call it
// before anything else is done with `db`, which forgets the text. A damaged file is INPUT,
// SQLITE_INTERRUPT is INTERRUPTED, SQLITE_NOMEM is MEMORY, the rest is IO.
EsStatus es_sqlite_fail(sqlite3 *db, int code, const char *file, int line, const char *doing, ...)
    __attribute__((format(printf, 5, 6)));

#define ES_SQLITE_FAIL(db, code, ...) es_sqlite_fail((db), (code), __FILE__, __LINE__, __VA_ARGS__)

// Return a failure of SQLite upward; the rest names the attempt, as for printf.
#define ES_SQLITE_TRY(db, call, ...)                                                               \
    do {                                                                                           \
        int es_sqlite_code_ = (call);                                                              \
        if (es_sqlite_code_ != SQLITE_OK) {                                                        \
            return ES_SQLITE_FAIL(db, es_sqlite_code_, __VA_ARGS__);                               \
        }                                                                                          \
    } while (0)

// Opens a database with SQLITE_OPEN_* flags; `parameters` follow the question mark in SQLite's
// URIs, "" for none. A path is taken literally, special characters included. *db is NULL on
// failure.
EsStatus es_sqlite_open(const char *path, int flags, const char *parameters, sqlite3 **db);

// The schema version in the table meta: 0 when the database is empty, INPUT when it holds something
// else than a run.
EsStatus es_sqlite_schema_version(sqlite3 *db, int64_t *version);

// CONFIG, with both numbers, when a database has a later schema than this program's, or the
// application id of another program; `path` is for the message.
EsStatus es_sqlite_check_schema(sqlite3 *db, const char *path, int64_t version);

// "Espr": PRAGMA application_id of a run's database.
#define ES_SQLITE_APPLICATION_ID 0x45737072

EsStatus es_sqlite_application_id(sqlite3 *db, int64_t *id);

// The state of a SQLite sink; seen by sqlite_sink.c and its test.
typedef struct EsSqliteSink {
    sqlite3 *db;                          // owned
    sqlite3_stmt *insert[ES_EVENT_COUNT]; // owned; prepared when a type first comes
    int64_t n_pending;                    // packets in the open transaction
    int64_t n_rolled_back;                // packets lost since the last flush by a failed write

    sqlite3_stmt *build[ES_EVENT_COUNT][2]; // owned; of the summaries of a type: by round, by 16
    int has_no_summaries;                   // one failed: rows alone are written
    int64_t summed_round;                   // newest round that may be summed up
    int64_t n_sixteens;                     // buckets of 16 up to it; -1: some were taken back
    int64_t version, last_round;            // of the database when it was opened; to keep, -1: all
} EsSqliteSink;

#endif
