// The views of run.db: the tables a user asks for by name. `esper query --views` and
// docs/telemetry.md print this list; it needs no SQLite.
//
// To add one: write columns and SELECT in sqlite_views.c. A test selects every view and compares
// its columns with the list.
#ifndef ES_TELEMETRY_SQLITE_VIEWS_H
#define ES_TELEMETRY_SQLITE_VIEWS_H

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

#endif
