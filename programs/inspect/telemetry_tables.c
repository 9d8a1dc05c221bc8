#include "inspect/telemetry_tables.h"

#include "telemetry/event.h"
#include "telemetry/sinks/sqlite_views.h"

static const char *const level_names[] = {[ES_LEVEL_OFF] = "off",
                                          [ES_LEVEL_MINIMAL] = "minimal",
                                          [ES_LEVEL_NORMAL] = "normal",
                                          [ES_LEVEL_DEBUG] = "debug"};
static const char *const type_names[] = {
    [ES_COLUMN_INT] = "INTEGER", [ES_COLUMN_REAL] = "REAL", [ES_COLUMN_TEXT] = "TEXT"};

static void print_event_list(FILE *stream) {
    fprintf(
        stream,
        "## Events\n\n"
        "Version %d of the schema. Every event is a table `event_<name>` in run.db and an object "
        "per line in events.jsonl.\n\n"
        "| event | when | from level | on | if a queue is full |\n|---|---|---|---|---|\n",
        ES_EVENT_SCHEMA_VERSION);
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        const EsEventSchema *schema = es_event_schema((EsEventType)type);
        fprintf(stream, "| `%s` | %s | %s | %s | %s |\n", schema->name, schema->help,
                level_names[schema->level],
                schema->pace == ES_PACE_STRIDED ? "the stride" : "every occasion",
                schema->delivery == ES_DELIVERY_KEPT ? "kept" : "dropped");
    }
}

static void print_event(FILE *stream, const EsEventSchema *schema) {
    fprintf(stream, "\n### `event_%s`\n\n| column | type | meaning |\n|---|---|---|\n",
            schema->name);
    for (int i = 0; i < schema->n_columns; i++) {
        const EsEventColumn *column = &schema->columns[i];
        fprintf(stream, "| `%s` | %s | %s |\n", column->name, type_names[column->type],
                column->help);
    }
}

static void print_view(FILE *stream, const EsView *view) {
    fprintf(stream, "\n### `%s`\n\n%s.\n\n| column | meaning |\n|---|---|\n", view->name,
            view->help);
    for (int i = 0; i < view->n_columns; i++) {
        fprintf(stream, "| `%s` | %s |\n", view->columns[i].name, view->columns[i].help);
    }
}

void es_telemetry_tables_print(FILE *stream) {
    print_event_list(stream);
    fprintf(stream,
            "\nAll event tables begin with these columns; any other value may be NULL, which means "
            "not measured.\n\n"
            "| column | type | meaning |\n|---|---|---|\n"
            "| `sequence` | INTEGER | position in the order of emission, from 1 in each sitting |\n"
            "| `row` | INTEGER | position in its packet, from 0 |\n"
            "| `unix_time` | REAL | when it was emitted, seconds |\n"
            "| `round` | INTEGER | from 1; 0 for what comes before the first |\n"
            "| `step` | INTEGER | in the round, from 0; NULL for events of a whole round |\n");
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        print_event(stream, es_event_schema((EsEventType)type));
    }
    fprintf(stream, "\n## Views\n");
    for (int i = 0; i < es_view_count(); i++) {
        print_view(stream, es_view(i));
    }
}
