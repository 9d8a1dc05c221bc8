// Reading a run's database: opened so that nothing can be changed, also while the run is writing.
//
// Readers never wait for the writer and the writer never fails because of a reader. A database that
// a killed run left behind is read with everything the run had flushed. One thread per database.
//
//     EsRunDatabase *database; ES_TRY(es_run_database_open("runs/demo", &database));
//     EsRunQuery *query; int has_row;
//     ES_TRY_GOTO(es_run_query_begin(database, "SELECT round, accuracy FROM rounds", &query));
//     while ((status = es_run_query_step(query, &has_row)) == ES_STATUS_OK && has_row) {
//         curve[n++] = es_run_query_real(query, 1);
//     }
//     es_run_query_end(query);
//     done: es_run_database_close(database);
#ifndef ES_TELEMETRY_RUN_DATABASE_H
#define ES_TELEMETRY_RUN_DATABASE_H

#include <stddef.h>
#include <stdint.h>

#include "esper/status.h"

typedef struct EsRunDatabase EsRunDatabase;

// `path` is a run folder or a database file. INPUT when there is no such run, when the file is
// damaged or was not written by Esper; UNSUPPORTED without SQLite in the build. Where the folder
// cannot be written, SQLite may be unable to see the newest rows of a run that was killed or is
// still going on: that is logged as a warning.
EsStatus es_run_database_open(const char *path, EsRunDatabase **database);

// All queries must have ended. Accepts NULL.
void es_run_database_close(EsRunDatabase *database);

// The database file, and the ES_EVENT_SCHEMA_VERSION of the program that wrote it.
const char *es_run_database_path(const EsRunDatabase *database);
int64_t es_run_database_schema_version(const EsRunDatabase *database);

// Returns whether it has our application id, which databases made before there were markers lack.
int es_run_database_is_marked(const EsRunDatabase *database);

// CONFIG, with both numbers, when it was written by a program of a later schema: it can be read,
// but not written. All earlier schemas can be gone on with.
EsStatus es_run_database_check_schema(const EsRunDatabase *database);

// Stop queries that have worked for more than `seconds` (0: no limit), or when `wants_stop`
// (nullable) says so; it is asked often. es_run_query_step then gives INTERRUPTED. The time between
// steps does not count.
void es_run_database_set_limits(EsRunDatabase *database, double seconds, int (*wants_stop)(void));

// --- queries ---

typedef struct EsRunQuery EsRunQuery;

// Prepare one statement that only reads. INPUT for anything else; the detail shows the place in
// `sql` where SQLite stopped, on lines of its own.
EsStatus es_run_query_begin(EsRunDatabase *database, const char *sql, EsRunQuery **query);
void es_run_query_end(EsRunQuery *query);

// The same for a SELECT without FROM, which is asked of the summary of an event (docs/telemetry.md,
// "Summaries") with a group for every `bucket` rounds (and for its key), in order. *query is NULL
// where there is no summary: of so few rounds, or in a database of an earlier schema.
EsStatus es_run_query_begin_summed(EsRunDatabase *database, const char *select, const char *event,
                                   int64_t bucket, EsRunQuery **query);

// Values for the question marks in `sql`, before the first step; positions count from 1. Text is
// borrowed until the query ends. ARGUMENT when there is no such position.
EsStatus es_run_query_bind_int(EsRunQuery *query, int position, int64_t value);
EsStatus es_run_query_bind_text(EsRunQuery *query, int position, const char *text);

// Go to the next row; *has_row is 0 after the last.
EsStatus es_run_query_step(EsRunQuery *query, int *has_row);

typedef enum EsRunCell {
    ES_RUN_CELL_NULL,
    ES_RUN_CELL_INT,
    ES_RUN_CELL_REAL,
    ES_RUN_CELL_TEXT,
    ES_RUN_CELL_BLOB
} EsRunCell;

// Columns count from 0; names are borrowed until the query ends.
int es_run_query_n_columns(const EsRunQuery *query);
const char *es_run_query_column_name(const EsRunQuery *query, int column);

// Cells of the current row. NULL reads as 0, as NaN and as the NULL pointer; a text or a blob is
// borrowed until the next step, ended by 0 and may hold more of them.
EsRunCell es_run_query_cell(const EsRunQuery *query, int column);
int64_t es_run_query_int(const EsRunQuery *query, int column);
double es_run_query_real(const EsRunQuery *query, int column);
const char *es_run_query_text(const EsRunQuery *query, int column, size_t *bytes); // bytes nullable

#endif
