// The tables and views of run.db, made from the event schema and the list of views.
#ifndef ES_TELEMETRY_SQLITE_TABLES_H
#define ES_TELEMETRY_SQLITE_TABLES_H

#include <sqlite3.h>

#include "telemetry/event.h"

// Columns of every event table that come before the event's own.
#define ES_SQLITE_COMMON_COLUMNS 5

// Make what is missing: the table meta, a table and an index on round per event type, columns that
// an earlier schema did not have; the views are made anew, so that they are this program's. The
// caller holds a transaction.
EsStatus es_sqlite_tables_create(sqlite3 *db);

// Delete the rows of all rounds above `last_round`. The caller holds a transaction.
EsStatus es_sqlite_tables_trim(sqlite3 *db, int64_t last_round);

// Prepare the statement that adds a row: sequence, row, unix_time, round, step, then the event's
// columns.
EsStatus es_sqlite_tables_prepare_insert(sqlite3 *db, const EsEventSchema *schema,
                                         sqlite3_stmt **statement);

#endif
