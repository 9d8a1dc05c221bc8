// The SQLite sink and the run database in a build without SQLite: opening says so, and since
// nothing can be opened, the rest is never reached.
#include "base/macros.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/run_database.h"

const char *es_sqlite_sink_version(void) { return NULL; }

EsStatus es_sqlite_sink_open(const char *path, int64_t last_round, EsSink *sink) {
    (void)last_round, (void)sink;
    return ES_FAIL(UNSUPPORTED, "%s: cannot be written: this build has no SQLite", path);
}

EsStatus es_run_database_open(const char *path, EsRunDatabase **database) {
    *database = NULL;
    return ES_FAIL(UNSUPPORTED,
                   "%s: cannot be read: this build has no SQLite. Install its development files "
                   "and build again.",
                   path);
}

void es_run_database_close(EsRunDatabase *database) { ES_ASSERT(database == NULL); }

const char *es_run_database_path(const EsRunDatabase *database) {
    ES_ASSERT(database == NULL);
    return "";
}

int64_t es_run_database_schema_version(const EsRunDatabase *database) {
    ES_ASSERT(database == NULL);
    return 0;
}

int es_run_database_is_marked(const EsRunDatabase *database) {
    ES_ASSERT(database == NULL);
    return 0;
}

EsStatus es_run_database_check_schema(const EsRunDatabase *database) {
    ES_ASSERT(database == NULL);
    return ES_STATUS_OK;
}

void es_run_database_set_limits(EsRunDatabase *database, double seconds, int (*wants_stop)(void)) {
    (void)seconds, (void)wants_stop;
    ES_ASSERT(database == NULL);
}

static EsStatus fail_query(void) { return ES_FAIL(UNSUPPORTED, "this build has no SQLite"); }

EsStatus es_run_query_begin(EsRunDatabase *database, const char *sql, EsRunQuery **query) {
    (void)database, (void)sql;
    *query = NULL;
    return fail_query();
}

EsStatus es_run_query_begin_summed(EsRunDatabase *database, const char *select, const char *event,
                                   int64_t bucket, EsRunQuery **query) {
    (void)database, (void)select, (void)event, (void)bucket;
    *query = NULL;
    return fail_query();
}

void es_run_query_end(EsRunQuery *query) { ES_ASSERT(query == NULL); }

EsStatus es_run_query_bind_int(EsRunQuery *query, int position, int64_t value) {
    (void)query, (void)position, (void)value;
    return fail_query();
}

EsStatus es_run_query_bind_text(EsRunQuery *query, int position, const char *text) {
    (void)query, (void)position, (void)text;
    return fail_query();
}

EsStatus es_run_query_step(EsRunQuery *query, int *has_row) {
    (void)query;
    *has_row = 0;
    return fail_query();
}

int es_run_query_n_columns(const EsRunQuery *query) {
    (void)query;
    return 0;
}

const char *es_run_query_column_name(const EsRunQuery *query, int column) {
    (void)query, (void)column;
    return "";
}

EsRunCell es_run_query_cell(const EsRunQuery *query, int column) {
    (void)query, (void)column;
    return ES_RUN_CELL_NULL;
}

int64_t es_run_query_int(const EsRunQuery *query, int column) {
    (void)query, (void)column;
    return 0;
}

double es_run_query_real(const EsRunQuery *query, int column) {
    (void)query, (void)column;
    return 0;
}

const char *es_run_query_text(const EsRunQuery *query, int column, size_t *bytes) {
    (void)query, (void)column;
    if (bytes != NULL) {
        *bytes = 0;
    }
    return NULL;
}
