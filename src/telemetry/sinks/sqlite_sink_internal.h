// The state of a SQLite sink; seen by sqlite_sink.c and its test.
#ifndef ES_TELEMETRY_SQLITE_SINK_INTERNAL_H
#define ES_TELEMETRY_SQLITE_SINK_INTERNAL_H

#include <sqlite3.h>

#include "telemetry/event.h"

typedef struct EsSqliteSink {
    sqlite3 *db;                          // owned
    sqlite3_stmt *insert[ES_EVENT_COUNT]; // owned; prepared when a type first comes
    int64_t n_pending;                    // packets in the open transaction
    int64_t n_rolled_back;                // packets lost since the last flush by a failed write
} EsSqliteSink;

#endif
