// Views of run.db, the tables that a user asks for by name, and summaries: what there is beside the
// event tables. `esper query --views` and docs/telemetry.md print these lists; they need no SQLite.
//
// To add a view: write columns and SELECT in sqlite_views.c. A test selects every view and compares
// its columns with the list.
//
// Summaries are sums over rounds, kept while a run is written, so that the curves of a long run are
// read from few rows. They are made of the event tables and hold nothing of their own.
//
// A row of "summary_<name>" sums up the rows of "event_<name>" in a bucket of rounds: `level`
// rounds, `first` to `last`, levels 16 and, where a round has many rows, 1. There are complete
// buckets alone, up to some round; later rows are read from the event table. So a bucket never
// changes: rounds that are dropped take theirs along, and what is missing is made again.
//
// Columns: level, first, last, the key if there is one, n_rows; then of each summed column x its
// count of values x_n, and x_sum, x_min and x_max (NULL without values).
//
//     EsText sql = {0};
//     es_text_add_string(&sql, "SELECT max(last), sum(reward_sum) / sum(reward_n) FROM (");
//     es_summary_add_rows(&sql, es_summary_find("round_completed"), ES_SUMMARY_ROUNDS);
//     es_text_add_string(&sql, ") GROUP BY (first - 1) / 64");
#ifndef ES_TELEMETRY_SQLITE_VIEWS_H
#define ES_TELEMETRY_SQLITE_VIEWS_H

#include "telemetry/event.h"
#include "telemetry/text.h"

// --- views ---

typedef struct EsViewColumn {
    const char *name, *help;
} EsViewColumn;

typedef struct EsView {
    const char *name;
    const char *help;
    const char *select; // the columns in order; NULL for raw_events, made from the event schema
    const EsViewColumn *columns;
    int n_columns;
} EsView;

int es_view_count(void);
const EsView *es_view(int index);

// --- summaries ---

// Rounds of a bucket. Charts put a power of two of rounds together: buckets of charts are whole
// numbers of these, or so small that there are few.
#define ES_SUMMARY_ROUNDS 16

typedef struct EsSummary {
    EsEventType type;  // the rows that are summed, and the name
    const char *help;  // which rows
    const char *key;   // column that splits the rows of a bucket; NULL: none
    const char *where; // condition on rows; NULL: none
    int is_on_stride;  // rows of steps that have a row in event_env_stepped alone
    int has_level_1;   // is summed by round, too
    const char *const *columns;
    int n_columns;
} EsSummary;

int es_summary_count(void);
const EsSummary *es_summary(int index);
const EsSummary *es_summary_find(const char *name); // NULL when there is none
const EsSummary *es_summary_of(EsEventType type);   // NULL when there is none

void es_summary_add_table(EsText *sql, const EsSummary *summary);

// An INSERT of the missing buckets of a level whose last round is at most ?1. Level 16 of a summary
// that has level 1 is made from that.
void es_summary_add_build(EsText *sql, const EsSummary *summary, int level);

// A SELECT of first, last, key, n_rows and the sums: buckets of a level, and what comes after them
// row by row.
void es_summary_add_rows(EsText *sql, const EsSummary *summary, int level);

#endif
