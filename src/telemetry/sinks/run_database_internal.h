// Inside a run database and its queries; seen by run_database.c and run_query.c.
#ifndef ES_TELEMETRY_RUN_DATABASE_INTERNAL_H
#define ES_TELEMETRY_RUN_DATABASE_INTERNAL_H

#include <sqlite3.h>

#include "telemetry/sinks/run_database.h"

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

#endif
