// A run as its viewers see it: named tables of its records, the same for the report, the page and
// the terminal.
//
// A table is one of a fixed list of queries on run.db; nothing that a viewer is given becomes SQL.
// It is a JSON object of columns, all of one length: {"round": [1, 2], "accuracy": [61.5, null]}.
// Rounds are put together in buckets where there are more than a chart shows; of an episode with
// more records than a table holds there are the newest. A run may still be going on. One thread per
// view.
//
//     EsRunView *view; ES_TRY(es_run_view_open("runs/demo", &view));
//     json_t *curves; ES_TRY(es_run_view_read(view, "curves", &(EsViewQuestion){0}, &curves));
//     double last = es_column_real(curves, "accuracy", es_table_n_rows(curves) - 1);
#ifndef ES_PROGRAMS_RUN_VIEW_H
#define ES_PROGRAMS_RUN_VIEW_H

#include <jansson.h>
#include <stdint.h>

#include "esper/status.h"

typedef struct EsRunView EsRunView;

// The most rows of a table.
#define ES_TABLE_MAX_ROWS 20000

// `path` is a run folder or its run.db. INPUT when there is no such run, UNSUPPORTED without
// SQLite.
EsStatus es_run_view_open(const char *path, EsRunView **view);
void es_run_view_close(EsRunView *view);

// The run's own words, owned by the view; "" where nothing was recorded.
const char *es_run_view_name(const EsRunView *view);
const char *es_run_view_kind(const EsRunView *view); // grow, fit, prove or hosts
int64_t es_run_view_seed(const EsRunView *view);
// Returns whether all its rounds are the steps of one episode: of hosts and fits.
int es_run_view_is_one_episode(const EsRunView *view);
// Its settings without comments and without the seed: equal in runs that repeat each other.
const char *es_run_view_recipe(const EsRunView *view);

// The part of a run that a table is about; each table uses some of these.
typedef struct EsViewQuestion {
    int64_t round;  // 0: the newest one that has records of single environments
    int64_t env;    // global index; es_run_view_resolve puts the most accurate in place of -1
    int n_points;   // rows that a curve is reduced to; 0: 240
    int64_t bucket; // rounds of a row, for curves that are put together; 0: by n_points
} EsViewQuestion;

// Rounds of a row of this run's curves.
int64_t es_run_view_bucket(EsRunView *view, const EsViewQuestion *question);

// Puts the newest round and its most accurate environment in place of 0 and -1.
EsStatus es_run_view_resolve(EsRunView *view, EsViewQuestion *question);

// One row per table: name and contents, for --help and docs.
int es_view_table_count(void);
const char *es_view_table_name(int index);
const char *es_view_table_help(int index);

// The best network that the run has kept, networks/1/network.json (docs/networks.md); json_decref
// it. *network is NULL when there is none, or it cannot be read.
EsStatus es_run_view_network(EsRunView *view, json_t **network);

// The confusions of that network, networks/1/confusion.json beside it; json_decref them. *confusion
// is NULL when there are none; INPUT when they cannot be read.
EsStatus es_run_view_confusion(EsRunView *view, json_t **confusion);

// Reads a table; json_decref it. ARGUMENT when there is none of that name. A table that the run's
// schema is too old for has no rows. A view remembers what it has read, and gives it again: open a
// new one for news.
EsStatus es_run_view_read(EsRunView *view, const char *name, const EsViewQuestion *question,
                          json_t **table);

// --- cells of a table ---

int es_table_n_rows(const json_t *table);
// Returns whether there may be more rows than it holds.
int es_table_is_full(const json_t *table);
// NaN where the cell is missing, or is a text.
double es_column_real(const json_t *table, const char *column, int row);
// "" where the cell is missing, or is a number.
const char *es_column_text(const json_t *table, const char *column, int row);

#endif
