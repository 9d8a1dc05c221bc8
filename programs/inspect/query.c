// `esper query`: SQL on the records of a run.
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "inspect/result_writer.h"
#include "runs/stop_signal.h"
#include "telemetry/sinks/run_database.h"
#include "telemetry/sinks/sqlite_views.h"

typedef struct Settings {
    int as_json, as_csv, lists_views;
    int limit; // rows; 0: all
    double timeout_seconds;
    const char *run, *sql;
} Settings;

static int wants_stop(void) { return es_stop_signal_time_ns() != 0; }

static EsResultFormat choose_format(const Settings *settings) {
    return settings->as_json ? ES_RESULT_JSON
                             : (settings->as_csv ? ES_RESULT_CSV : ES_RESULT_TABLE);
}

// Columns of the terminal on stdout, 0 when it is none.
static int terminal_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO)) {
        return 0;
    }
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    return 80;
}

// --- the result ---

static EsResultCell read_cell(const EsRunQuery *query, int column) {
    EsResultCell cell = {0};
    switch (es_run_query_cell(query, column)) {
    case ES_RUN_CELL_NULL:
        break;
    case ES_RUN_CELL_INT:
        cell.kind = ES_RESULT_INT;
        cell.integer = es_run_query_int(query, column);
        break;
    case ES_RUN_CELL_REAL:
        cell.kind = ES_RESULT_REAL;
        cell.real = es_run_query_real(query, column);
        break;
    case ES_RUN_CELL_TEXT:
        cell.kind = ES_RESULT_TEXT;
        cell.bytes = es_run_query_text(query, column, &cell.n_bytes);
        break;
    case ES_RUN_CELL_BLOB:
        cell.kind = ES_RESULT_BLOB;
        cell.bytes = es_run_query_text(query, column, &cell.n_bytes);
        break;
    }
    return cell;
}

// Copy rows until they end or the limit is reached; *is_cut says that there were more.
static EsStatus copy_rows(EsRunQuery *query, int limit, EsResultWriter *writer, EsResultCell *cells,
                          int64_t *n_rows, int *is_cut) {
    int n_columns = es_run_query_n_columns(query);
    *n_rows = 0;
    *is_cut = 0;
    for (;;) {
        int has_row = 0;
        ES_TRY(es_run_query_step(query, &has_row));
        if (!has_row) {
            return ES_STATUS_OK;
        }
        if (limit > 0 && *n_rows == limit) {
            *is_cut = 1;
            return ES_STATUS_OK;
        }
        for (int i = 0; i < n_columns; i++) {
            cells[i] = read_cell(query, i);
        }
        ES_TRY(es_result_writer_add(writer, cells));
        *n_rows += 1;
        if (es_output_is_lost()) {
            return ES_STATUS_OK; // no reader for the rest
        }
        // a query that streams can be stopped between rows too
        if (wants_stop()) {
            return ES_FAIL(INTERRUPTED, "the query was interrupted");
        }
    }
}

static EsStatus print_query(EsRunQuery *query, const Settings *settings) {
    size_t n_columns = (size_t)es_run_query_n_columns(query);
    EsResultWriter *writer = NULL;
    const char **names = NULL;
    EsResultCell *cells = NULL;
    int64_t n_rows = 0;
    int is_cut = 0;
    EsStatus status;
    ES_TRY_GOTO(es_allocate((n_columns + 1) * sizeof *names, (void **)&names));
    ES_TRY_GOTO(es_allocate((n_columns + 1) * sizeof *cells, (void **)&cells));
    for (size_t i = 0; i < n_columns; i++) {
        names[i] = es_run_query_column_name(query, (int)i);
    }
    ES_TRY_GOTO(es_result_writer_create(stdout, choose_format(settings), terminal_width(), names,
                                        (int)n_columns, &writer));
    ES_TRY_GOTO(copy_rows(query, settings->limit, writer, cells, &n_rows, &is_cut));
    ES_TRY_GOTO(es_result_writer_finish(writer));
    fflush(stdout);
    if (es_output_is_lost()) {
        goto done;
    }
    if (is_cut) {
        fprintf(stderr, "esper query: the first %lld rows; --limit 0 shows all\n",
                (long long)n_rows);
    } else if (n_rows == 0) {
        fprintf(stderr, "esper query: no rows\n");
    }
done:
    es_result_writer_destroy(writer);
    es_release(names);
    es_release(cells);
    return status;
}

static EsStatus run_query(const Settings *settings) {
    EsRunDatabase *database = NULL;
    EsRunQuery *query = NULL;
    ES_TRY(es_run_database_open(settings->run, &database));
    EsStatus status;
    es_run_database_set_limits(database, settings->timeout_seconds, wants_stop);
    ES_TRY_GOTO(es_run_query_begin(database, settings->sql, &query));
    status = print_query(query, settings);
done:
    es_run_query_end(query);
    es_run_database_close(database);
    return status;
}

// --- the views ---

static void print_views(void) {
    for (int i = 0; i < es_view_count(); i++) {
        const EsView *view = es_view(i);
        printf("%s%s: %s\n", i > 0 ? "\n" : "", view->name, view->help);
        for (int j = 0; j < view->n_columns; j++) {
            const EsViewColumn *column = &view->columns[j];
            printf(column->help[0] != '\0' ? "  %-20s %s\n" : "  %s\n", column->name, column->help);
        }
    }
    printf("\nEvery event also has a table: event_metric, event_env_stepped, ... with the columns\n"
           "in docs/telemetry.md (esper info --telemetry prints them).\n");
}

static EsResultCell text_cell(const char *text) {
    return (EsResultCell){.kind = ES_RESULT_TEXT, .bytes = text, .n_bytes = strlen(text)};
}

static EsStatus write_views(EsResultFormat format) {
    static const char *const names[] = {"view", "column", "help"};
    EsResultWriter *writer = NULL;
    ES_TRY(es_result_writer_create(stdout, format, 0, names, ES_COUNT_OF(names), &writer));
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < es_view_count() && status == ES_STATUS_OK; i++) {
        const EsView *view = es_view(i);
        for (int j = 0; j < view->n_columns && status == ES_STATUS_OK; j++) {
            const EsResultCell cells[] = {text_cell(view->name), text_cell(view->columns[j].name),
                                          text_cell(view->columns[j].help)};
            status = es_result_writer_add(writer, cells);
        }
    }
    if (status == ES_STATUS_OK) {
        status = es_result_writer_finish(writer);
    }
    es_result_writer_destroy(writer);
    return status;
}

static EsStatus list_views(const Settings *settings) {
    if (settings->as_json || settings->as_csv) {
        return write_views(choose_format(settings));
    }
    print_views();
    return ES_STATUS_OK;
}

// --- the command ---

static EsStatus check_arguments(const EsArguments *arguments, Settings *settings) {
    if (settings->as_json && settings->as_csv) {
        return ES_FAIL(ARGUMENT, "--json and --csv exclude each other");
    }
    if (settings->lists_views && arguments->n_positional > 0) {
        return ES_FAIL(ARGUMENT, "--views takes no run: all runs have the same views");
    }
    if (settings->lists_views) {
        return ES_STATUS_OK;
    }
    if (arguments->n_positional < 1) {
        return ES_FAIL(ARGUMENT, "which run? give its folder and a query");
    }
    if (arguments->n_positional < 2) {
        return ES_FAIL(ARGUMENT, "what to ask? give a query after the run, in quotes");
    }
    settings->run = arguments->positional[0];
    settings->sql = arguments->positional[1];
    return ES_STATUS_OK;
}

// A message is one line; the place in the SQL that a failure shows has two of its own, the last
// with a caret. Returns where they begin in the detail, its end when there are none.
static const char *find_place(const char *detail) {
    const char *end = detail + strlen(detail), *line = end;
    for (int n_lines = 0; end > detail && end[-1] == '^' && line > detail; line--) {
        n_lines += strncmp(line, "\n  ", 3) == 0;
        if (n_lines == 2) {
            return line;
        }
    }
    return end;
}

static EsExit finish(EsStatus status) {
    char place[1024];
    const char *begin = find_place(es_status_detail());
    snprintf(place, sizeof place, "%s", begin);
    if (status == ES_STATUS_OK || place[0] == '\0') {
        return es_command_finish("query", status);
    }
    int n_before = (int)(begin - es_status_detail());
    status = es_status_set(status, __FILE__, __LINE__, "%.*s", n_before, es_status_detail());
    EsExit code = es_command_finish("query", status);
    char *caret = strrchr(place, '\n');
    *caret = '\0';
    es_message("%s\n", place + 1);
    es_message("%s\n", caret + 1);
    return code;
}

static EsExit run_until_stopped(const Settings *settings) {
    EsStatus status = es_stop_signal_begin(NULL, NULL);
    if (status == ES_STATUS_OK) {
        status = run_query(settings);
    }
    int is_stopped = wants_stop();
    es_stop_signal_end();
    EsExit code = finish(status);
    // out of time, not interrupted
    return status == ES_STATUS_INTERRUPTED && !is_stopped ? ES_EXIT_FAILED : code;
}

EsExit cmd_query(int argc, char **argv) {
    Settings settings = {0};
    const EsOption options[] = {
        ES_OPTION_FLAG("json", &settings.as_json, "print an array of JSON objects"),
        ES_OPTION_FLAG("csv", &settings.as_csv, "print CSV with a line of names (RFC 4180)"),
        ES_OPTION_INT("limit", &settings.limit, "100", 0, 2147483647, "N",
                      "print at most N rows; 0 = all"),
        ES_OPTION_FLOAT("timeout", &settings.timeout_seconds, "30", 0, 1e6, "SECONDS",
                        "cancel a query that runs longer; 0 = never"),
        ES_OPTION_FLAG("views", &settings.lists_views, "list the views and their columns"),
    };
    const EsOptionTable table = {
        .command = "query",
        .usage = "[options] RUN \"SQL\"\n       esper query --views",
        .summary =
            "Query the records of a run in SQL (SQLite's). RUN is a run folder or its "
            "run.db.\n"
            "Nothing is ever changed, and the run may be going on. The views are runs,\n"
            "rounds, episodes, variants, seeds, decisions, rewards, contributions, seed_metrics, "
            "anomalies,\nproofs, proof_depths, proof_predicates, proof_trees, rankings, "
            "throughput, "
            "metrics,\nepochs, trainer_events, "
            "action_distribution, reward_calibration and raw_events.",
        .example =
            "esper query runs/demo \"SELECT round, accuracy, reward FROM rounds\"\n"
            "         esper query runs/demo \"SELECT blueprint, outcome, count(*), "
            "avg(contribution) FROM seeds\n"
            "                                GROUP BY blueprint, outcome\"\n"
            "         esper query runs/demo \"SELECT * FROM anomalies WHERE severity = "
            "'critical'\"\n"
            "         esper query runs/demo \"SELECT value FROM metrics WHERE name = "
            "'charts/SPS'\" --csv --limit 0\n"
            "         esper query runs/demo \"SELECT sql FROM sqlite_schema WHERE name = 'seeds'\"",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = 2,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = check_arguments(&arguments, &settings);
    if (status == ES_STATUS_OK && settings.lists_views) {
        es_options_note_unused(&table, &arguments, "limit timeout", "on --views");
        status = list_views(&settings);
    } else if (status == ES_STATUS_OK) {
        return run_until_stopped(&settings);
    }
    return es_command_finish("query", status);
}
