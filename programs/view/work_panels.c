// Panels about the work itself, of all kinds of runs: the summary, speed and time, rails of a fit,
// anomalies, the newest events, settings.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "base/memory.h"
#include "view/chart.h"
#include "view/panels.h"

// --- the summary ---

static void add_entry(EsText *html, const char *name) {
    es_html_print(html, "<div><dt>%s</dt><dd>", name);
}

static void add_text_entry(EsText *html, const char *name, const char *foreign) {
    if (foreign[0] != '\0') {
        add_entry(html, name);
        es_html_add(html, foreign);
        es_text_add_string(html, "</dd></div>\n");
    }
}

static void add_number_entry(EsText *html, const char *name, double value, int n_digits,
                             const char *unit) {
    if (isfinite(value)) {
        add_entry(html, name);
        es_html_number(html, value, n_digits);
        es_html_print(html, "%s</dd></div>\n", unit);
    }
}

static void add_duration(EsText *html, double seconds) {
    if (isfinite(seconds)) {
        add_entry(html, "duration");
        if (seconds < 120) {
            es_html_print(html, "%.0f s</dd></div>\n", seconds);
        } else if (seconds < 7200) {
            es_html_print(html, "%.0f min %.0f s</dd></div>\n", floor(seconds / 60),
                          fmod(seconds, 60));
        } else {
            es_html_print(html, "%.0f h %.0f min</dd></div>\n", floor(seconds / 3600),
                          floor(fmod(seconds, 3600) / 60));
        }
    }
}

static double best_of(const json_t *table, const char *column) {
    double best = NAN;
    for (int i = 0; i < es_table_n_rows(table); i++) {
        best = fmax(best, es_column_real(table, column, i));
    }
    return best;
}

// The newest value of a metric; NaN when it was not recorded.
static double metric_of(const json_t *metrics, const char *name) {
    for (int i = 0; i < es_table_n_rows(metrics); i++) {
        if (strcmp(es_column_text(metrics, "name", i), name) == 0) {
            return es_column_real(metrics, "value", i);
        }
    }
    return NAN;
}

static void add_rounds(EsText *html, const json_t *run) {
    double last = es_column_real(run, "last_round", 0), asked = es_column_real(run, "n_rounds", 0);
    add_entry(html, "rounds");
    es_html_number(html, isfinite(last) ? last : 0, 9);
    if (isfinite(asked)) {
        es_text_add_string(html, " of ");
        es_html_number(html, asked, 9);
    }
    es_text_add_string(html, "</dd></div>\n");
}

static void draw_summary(const json_t *run, const json_t *curves, const json_t *last,
                         const json_t *metrics, EsText *html) {
    const char *outcome = es_column_text(run, "outcome", 0);
    double seconds = es_column_real(run, "seconds", 0);
    es_text_add_string(html, "<dl class=\"facts\">\n");
    add_text_entry(html, "run", es_column_text(run, "run_id", 0));
    add_text_entry(html, "kind", es_column_text(run, "kind", 0));
    add_text_entry(html, "task", es_column_text(run, "task", 0));
    add_text_entry(html, "device", es_column_text(run, "device", 0));
    add_text_entry(html, "state",
                   outcome[0] != '\0' ? outcome : "going on, or ended without a word");
    add_text_entry(html, "why", es_column_text(run, "detail", 0));
    add_rounds(html, run);
    add_number_entry(html, "accuracy, last round", es_column_real(last, "accuracy", 0), 4, " %");
    add_number_entry(html, "accuracy, best round", best_of(curves, "accuracy_max"), 4, " %");
    add_number_entry(html, "best validation", metric_of(metrics, "esper.fit.best_accuracy"), 4,
                     " %");
    add_number_entry(html, "test accuracy", metric_of(metrics, "esper.fit.test_accuracy"), 4, " %");
    add_number_entry(html, "parameters", metric_of(metrics, "esper.fit.parameters"), 9, "");
    add_number_entry(html, "host parameters", es_column_real(run, "n_host_parameters", 0), 9, "");
    add_number_entry(html, "environments", es_column_real(run, "n_envs", 0), 9, "");
    add_duration(html, isfinite(seconds) ? seconds : es_column_real(run, "elapsed_seconds", 0));
    add_number_entry(html, "steps per second", es_column_real(last, "steps_per_second", 0), 3, "");
    add_number_entry(html, "images per second", es_column_real(last, "images_per_second", 0), 3,
                     "");
    add_number_entry(html, "seed", es_column_real(run, "seed", 0), 9, "");
    add_text_entry(html, "started (UTC)", es_column_text(run, "started", 0));
    add_number_entry(html, "sessions", es_column_real(run, "n_sessions", 0), 9, "");
    add_text_entry(html, "build", es_column_text(run, "build", 0));
    if (es_column_real(run, "n_lost", 0) > 0) {
        add_number_entry(html, "lost records", es_column_real(run, "n_lost", 0), 9, " packets");
    }
    es_text_add_string(html, "</dl>\n");
}

EsStatus es_panel_summary(const EsPanelInput *input, EsText *html) {
    json_t *run = NULL, *curves = NULL, *last = NULL, *metrics = NULL;
    EsRunView *view = input->views[0];
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_run_view_read(view, "run", &input->question, &run));
    ES_TRY_GOTO(es_run_view_read(view, "curves", &input->question, &curves));
    ES_TRY_GOTO(es_run_view_read(view, "last", &input->question, &last));
    ES_TRY_GOTO(es_run_view_read(view, "newest_metrics", &input->question, &metrics));
    if (es_table_n_rows(run) == 0) {
        es_html_empty(html,
                      "The run has not begun to record: its facts appear with its first event.");
    } else {
        draw_summary(run, curves, last, metrics, html);
    }
done:
    json_decref(run);
    json_decref(curves);
    json_decref(last);
    json_decref(metrics);
    return status;
}

EsStatus es_panel_settings(const EsPanelInput *input, EsText *html) {
    json_t *run = NULL;
    ES_TRY(es_run_view_read(input->views[0], "run", &(EsViewQuestion){0}, &run));
    const char *config = es_column_text(run, "config", 0);
    if (config[0] == '\0') {
        es_html_empty(html, "The run has recorded no settings.");
    } else {
        es_text_add_string(html, "<details><summary>Show all settings</summary><pre>");
        while (*config != '\0') {
            size_t bytes = strcspn(config, "\n");
            es_text_add_utf8(html, config, bytes, ES_TEXT_HTML);
            es_text_add_string(html, "\n");
            config += bytes + (config[bytes] == '\n');
        }
        es_text_add_string(html, "</pre></details>\n");
    }
    json_decref(run);
    return ES_STATUS_OK;
}

// --- time ---

static EsStatus draw_phases(EsRunView *view, const EsViewQuestion *question, EsText *html) {
    enum { MAX_PHASES = 12 };
    json_t *table = NULL;
    ES_TRY(es_run_view_read(view, "phases", question, &table));
    EsBar bars[MAX_PHASES];
    char notes[MAX_PHASES][64], title[200];
    int n = ES_MIN(es_table_n_rows(table), MAX_PHASES);
    double total = 0;
    for (int i = 0; i < n; i++) {
        total += es_column_real(table, "total_ms", i);
    }
    for (int i = 0; i < n; i++) {
        double p50 = es_column_real(table, "p50_ms", i);
        snprintf(notes[i], sizeof notes[i], p50 < 10 ? "%% · p50 %.2f ms" : "%% · p50 %.0f ms",
                 p50);
        bars[i] = (EsBar){es_column_text(table, "phase", i),
                          100 * es_column_real(table, "total_ms", i) / fmax(total, 1e-9), NAN, NAN,
                          notes[i]};
    }
    snprintf(title, sizeof title, "Time by phase");
    es_chart_bars(html, title, "share of the last thousand rounds", bars, n);
    json_decref(table);
    return ES_STATUS_OK;
}

static EsStatus draw_memory(EsRunView *view, const EsViewQuestion *question, EsText *html) {
    json_t *table = NULL;
    ES_TRY(es_run_view_read(view, "memory", question, &table));
    int n = es_table_n_rows(table);
    if (n > 0) {
        es_panel_begin_table(html, "Memory, newest round, MiB",
                             "device|#allocated|#of|#resident in the process");
    }
    for (int i = 0; i < n; i++) {
        es_text_add_string(html, "<tr>");
        es_panel_cell(html, es_column_text(table, "device", i));
        es_panel_number_cell(html, es_column_real(table, "allocated_bytes", i) / 1048576, 4);
        es_panel_number_cell(html, es_column_real(table, "total_bytes", i) / 1048576, 6);
        es_panel_number_cell(html, es_column_real(table, "resident_bytes", i) / 1048576, 4);
        es_text_add_string(html, "</tr>\n");
    }
    if (n > 0) {
        es_panel_end_table(html);
    }
    json_decref(table);
    return ES_STATUS_OK;
}

EsStatus es_panel_time(const EsPanelInput *input, EsText *html) {
    es_text_add_string(html, "<div class=\"charts\">\n");
    ES_TRY(es_panel_draw_curve(input, html, "curves", "seconds", "Time of a round", "s", 1));
    ES_TRY(es_panel_draw_curve(input, html, "curves", "steps_per_second", "Environment steps",
                               "per second", 1));
    if (strcmp(es_run_view_kind(input->views[0]), "prove") != 0) {
        ES_TRY(es_panel_draw_curve(input, html, "curves", "images_per_second", "Training images",
                                   "per second", 1));
    }
    ES_TRY(es_panel_draw_curve(input, html, "utilisation", "utilisation",
                               "How busy the processors were", "% of wall clock times threads", 1));
    for (int i = 0; i < input->n_views; i++) {
        es_text_add_string(html, "<div>");
        if (input->n_views > 1) {
            es_text_add_string(html, "<h3>");
            es_html_add(html, es_run_view_name(input->views[i]));
            es_text_add_string(html, "</h3>");
        }
        ES_TRY(draw_phases(input->views[i], &input->question, html));
        ES_TRY(draw_memory(input->views[i], &input->question, html));
        es_text_add_string(html, "</div>\n");
    }
    es_text_add_string(html, "</div>\n");
    return ES_STATUS_OK;
}

// --- rails ---

#define N_EPOCHS 2000 // of the table "epochs", at most

// The number of a setting; NaN when the run has none, or it is 0.
static double setting_of(const EsRunView *view, const char *key) {
    char line[64];
    double value = NAN;
    snprintf(line, sizeof line, "\n%s = ", key);
    const char *found = strstr(es_run_view_recipe(view), line);
    return found != NULL && sscanf(found + strlen(line), "%lf", &value) == 1 && value > 0 ? value
                                                                                          : NAN;
}

// A latency of the table as a chart, beside its budget (NaN: none).
static EsStatus draw_latency(const json_t *table, const char *column, const char *title,
                             double budget, EsText *html) {
    int n = es_table_n_rows(table);
    double *numbers = NULL;
    ES_TRY(es_allocate(sizeof *numbers * 3 * (size_t)ES_MAX(n, 1), (void **)&numbers));
    for (int i = 0; i < n; i++) {
        numbers[i] = es_column_real(table, "round", i);
        numbers[n + i] = es_column_real(table, column, i);
        numbers[2 * n + i] = budget;
    }
    const EsSeries series[] = {
        {.label = "measured", .x = numbers, .y = numbers + n, .n = n},
        {.label = "budget", .x = numbers, .y = numbers + 2 * n, .n = n, .colour = 1},
    };
    es_chart_lines(html, &(EsChart){.title = title,
                                    .unit = "ms",
                                    .x_label = "epoch",
                                    .series = series,
                                    .n_series = isfinite(budget) ? 2 : 1,
                                    .starts_at_zero = 1});
    es_release(numbers);
    return ES_STATUS_OK;
}

static EsStatus draw_rail_events(EsRunView *view, const EsViewQuestion *question, EsText *html) {
    json_t *table = NULL;
    ES_TRY(es_run_view_read(view, "rails", question, &table));
    int n = es_table_n_rows(table);
    if (n == 0) {
        es_html_empty(html, "The rails have had nothing to do: budgets, deadlines, the breaker and "
                            "rollbacks are listed here when they act.");
    } else {
        es_panel_begin_table(html, "What the rails did, the newest first",
                             "#epoch|level|event|attributes");
        for (int i = 0; i < ES_MIN(n, 40); i++) {
            es_text_add_string(html, "<tr>");
            es_panel_number_cell(html, es_column_real(table, "round", i), 6);
            es_panel_cell(html, es_column_text(table, "level", i));
            es_panel_cell(html, es_column_text(table, "name", i));
            es_panel_cell(html, es_column_text(table, "attributes", i));
            es_text_add_string(html, "</tr>\n");
        }
        es_panel_end_table(html);
    }
    json_decref(table);
    return ES_STATUS_OK;
}

static const char *breaker_name(double state) {
    return state == 1 ? "closed" : state == 2 ? "open" : state == 3 ? "half open" : "not recorded";
}

static int compare_reals(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Nearest-rank percentiles of a column's finite numbers; NaN when there are none.
static EsStatus find_percentiles(const json_t *table, const char *column, double *p50,
                                 double *p95) {
    int n_rows = es_table_n_rows(table), n = 0;
    double *numbers = NULL;
    ES_TRY(es_allocate(sizeof *numbers * (size_t)ES_MAX(n_rows, 1), (void **)&numbers));
    for (int i = 0; i < n_rows; i++) {
        double value = es_column_real(table, column, i);
        if (isfinite(value)) {
            numbers[n++] = value;
        }
    }
    qsort(numbers, (size_t)n, sizeof *numbers, compare_reals);
    *p50 = n > 0 ? numbers[(int)ceil(0.5 * n) - 1] : NAN;
    *p95 = n > 0 ? numbers[(int)ceil(0.95 * n) - 1] : NAN;
    es_release(numbers);
    return ES_STATUS_OK;
}

// A row of the table of rails; a value that is missing was not measured.
static void draw_rail(EsText *html, const char *title, const char *words, double value,
                      const char *unit, double budget, const char *metric) {
    es_html_print(html, "<tr><th scope=\"row\">%s</th>", title);
    if (words != NULL && isfinite(value)) {
        es_html_print(html, "<td class=\"number\">%s</td>", words);
    } else if (isfinite(value)) {
        es_text_add_string(html, "<td class=\"number\">");
        es_html_number(html, value, 4);
        es_html_print(html, "%s%s</td>", unit[0] != '\0' ? " " : "", unit);
    } else {
        es_text_add_string(html, "<td class=\"number missing\">not measured</td>");
    }
    es_text_add_string(html, "<td class=\"number\">");
    if (isfinite(budget)) {
        es_html_number(html, budget, 4);
        es_html_print(html, "%s%s", unit[0] != '\0' ? " " : "", unit);
    }
    es_html_print(html, "</td><td>%s</td></tr>\n", metric);
}

static EsStatus draw_latencies(const EsRunView *view, const json_t *epochs, EsText *html) {
    double p50, p95, budget = setting_of(view, "epoch_budget_ms");
    ES_TRY(find_percentiles(epochs, "latency_ms", &p50, &p95));
    draw_rail(html, "epoch, p50", NULL, p50, "ms", budget, "tolaria.training.latency_ms");
    draw_rail(html, "epoch, p95", NULL, p95, "ms", budget, "tolaria.training.latency_ms");
    budget = setting_of(view, "hook_budget_ms");
    ES_TRY(find_percentiles(epochs, "hook_ms", &p50, &p95));
    draw_rail(html, "controller, p50", NULL, p50, "ms", budget, "tolaria.epoch_hook.latency_ms");
    draw_rail(html, "controller, p95", NULL, p95, "ms", budget, "tolaria.epoch_hook.latency_ms");
    return ES_STATUS_OK;
}

static const char *level_name(double level) {
    static const char *const names[] = {"1, notice", "2, elevated", "3, conservative", "4, halt"};
    return level >= 1 && level <= 4 ? names[(int)level - 1] : NULL;
}

// The state of everything that the rails watch, each with its name in telemetry.
static EsStatus draw_state(const EsRunView *view, const json_t *epochs, const json_t *metrics,
                           EsText *html) {
    static const struct {
        const char *title, *metric, *unit;
    } rows[] = {
        {"failed epochs", "tolaria.epochs.failed", ""},
        {"late decisions", "tolaria.timeout.tamiyo_total", ""},
        {"late preparations of seeds", "tolaria.timeout.kasmina_total", ""},
        {"rollbacks from memory", "tolaria.rollback.fast_hits_total", ""},
        {"rollbacks without a state in memory", "tolaria.rollback.fast_misses_total", ""},
        {"restores that failed", "tolaria.rollback.failures_total", ""},
        {"restores that were late", "tolaria.rollback.deadline_exceeded_total", ""},
        {"living seeds", "kasmina.seeds.active", ""},
        {"compiled step", "tolaria.train.compile_enabled", ""},
        {"captured step", "tolaria.train.graph_enabled", ""},
        {"warm-up left", "tolaria.compile_warmup_remaining", "batches"},
        {"graphs made ahead, under way", "kasmina.prefetch.inflight", ""},
        {"graphs made ahead, used", "kasmina.prefetch.used_total", ""},
        {"conflicts of gradients", "tolaria.grad_agg.conflict_ratio", ""},
        {"share of the teacher", "tolaria.grad_agg.teacher_share", ""},
    };
    int last = es_table_n_rows(epochs) - 1;
    double breaker = es_column_real(epochs, "breaker", last);
    double careful = es_column_real(epochs, "is_conservative", last);
    double level = metric_of(metrics, "tolaria.emergency.level");
    es_panel_begin_table(html, "State of the rails", "rail|#now|#budget|metric");
    ES_TRY(draw_latencies(view, epochs, html));
    draw_rail(html, "breaker", breaker_name(breaker), breaker, "", NAN, "tolaria.breaker.state");
    draw_rail(html, "mode", careful == 1 ? "conservative" : "normal", careful, "", NAN,
              "tolaria.mode.conservative");
    draw_rail(html, "emergency level, of 4", level_name(level), level, "", NAN,
              "tolaria.emergency.level");
    double restore_ms = metric_of(metrics, "tolaria.rollback.restore_latency_ms");
    draw_rail(html, "last rollback", restore_ms == 0 ? "none yet" : NULL, restore_ms, "ms",
              setting_of(view, "rollback_deadline_ms"), "tolaria.rollback.restore_latency_ms");
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        draw_rail(html, rows[i].title, NULL, metric_of(metrics, rows[i].metric), rows[i].unit, NAN,
                  rows[i].metric);
    }
    es_panel_end_table(html);
    if (es_table_n_rows(epochs) >= N_EPOCHS) {
        es_html_print(html,
                      "<p class=\"note\">p50, p95 and the curves are of the newest %d "
                      "epochs.</p>\n",
                      N_EPOCHS);
    }
    return ES_STATUS_OK;
}

static void draw_metrics(const json_t *table, EsText *html) {
    int n = es_table_n_rows(table), n_shown = 0;
    es_panel_begin_table(html, "Newest metrics", "metric|seed|#value");
    for (int i = 0; i < n; i++) {
        const char *name = es_column_text(table, "name", i);
        if (strncmp(name, "tolaria.", 8) == 0 || strncmp(name, "kasmina.", 8) == 0 ||
            strncmp(name, "esper.fit.", 10) == 0) {
            es_text_add_string(html, "<tr>");
            es_panel_cell(html, name);
            es_panel_cell(html, es_column_text(table, "seed_id", i));
            es_panel_number_cell(html, es_column_real(table, "value", i), 5);
            es_text_add_string(html, "</tr>\n");
            n_shown++;
        }
    }
    if (n_shown == 0) {
        es_text_add_string(html, "<tr><td colspan=\"3\">none recorded yet</td></tr>\n");
    }
    es_panel_end_table(html);
}

EsStatus es_panel_rails(const EsPanelInput *input, EsText *html) {
    json_t *epochs = NULL, *metrics = NULL;
    EsRunView *view = input->views[0];
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_run_view_read(view, "epochs", &input->question, &epochs));
    ES_TRY_GOTO(es_run_view_read(view, "newest_metrics", &input->question, &metrics));
    if (es_table_n_rows(epochs) == 0) {
        es_html_empty(html,
                      "This fit runs without rails: with them (configuration section [rails]) "
                      "the latency of epochs, the circuit breaker and the mode appear here.");
    } else {
        ES_TRY_GOTO(draw_state(view, epochs, metrics, html));
        es_text_add_string(html, "<div class=\"charts\">\n");
        ES_TRY_GOTO(draw_latency(epochs, "latency_ms", "Latency of an epoch",
                                 setting_of(view, "epoch_budget_ms"), html));
        ES_TRY_GOTO(draw_latency(epochs, "hook_ms", "Latency of the controller",
                                 setting_of(view, "hook_budget_ms"), html));
        es_text_add_string(html, "</div>\n");
        ES_TRY_GOTO(es_panel_draw_seeds(view, &input->question, "weight", "Weight of its seeds",
                                        "by stage and alpha, 0 to 1", html));
        es_text_add_string(html,
                           "<p class=\"note\">Seeds of the candidate that is looked at: alpha "
                           "is kasmina.seed.alpha, the weight is in seed_measured.</p>\n");
    }
    ES_TRY_GOTO(draw_rail_events(view, &input->question, html));
    draw_metrics(metrics, html);
done:
    json_decref(epochs);
    json_decref(metrics);
    return status;
}

// --- anomalies and events ---

EsStatus es_panel_anomalies(const EsPanelInput *input, EsText *html) {
    json_t *table = NULL;
    ES_TRY(es_run_view_read(input->views[0], "anomalies", &input->question, &table));
    int n = es_table_n_rows(table);
    if (n == 0) {
        es_html_empty(html, "All clear: no rule has found anything.");
    } else {
        es_panel_begin_table(html, "By rule, the most frequent first",
                             "rule|severity|#times|#first round|#last round|example");
        for (int i = 0; i < n; i++) {
            es_text_add_string(html, "<tr>");
            es_panel_cell(html, es_column_text(table, "rule", i));
            es_panel_cell(html, es_column_text(table, "severity", i));
            es_panel_number_cell(html, es_column_real(table, "n", i), 9);
            es_panel_number_cell(html, es_column_real(table, "first_round", i), 9);
            es_panel_number_cell(html, es_column_real(table, "last_round", i), 9);
            es_panel_cell(html, es_column_text(table, "detail", i));
            es_text_add_string(html, "</tr>\n");
        }
        es_panel_end_table(html);
    }
    json_decref(table);
    return ES_STATUS_OK;
}

EsStatus es_panel_log(const EsPanelInput *input, EsText *html) {
    json_t *table = NULL;
    ES_TRY(es_run_view_read(input->views[0], "log", &input->question, &table));
    int n = es_table_n_rows(table);
    if (n == 0) {
        es_html_empty(html, "Events appear here as they happen.");
    } else {
        es_panel_begin_table(html, "Times are UTC", "time|#round|#step|event");
        for (int i = 0; i < n; i++) {
            char moment[24] = "";
            double unix_time = es_column_real(table, "unix_time", i);
            time_t seconds = isfinite(unix_time) ? (time_t)unix_time : 0;
            struct tm parts;
            if (isfinite(unix_time) && gmtime_r(&seconds, &parts) != NULL) {
                strftime(moment, sizeof moment, "%H:%M:%S", &parts);
            }
            es_text_add_string(html, "<tr>");
            es_panel_cell(html, moment);
            es_panel_number_cell(html, es_column_real(table, "round", i), 9);
            es_panel_number_cell(html, es_column_real(table, "step", i), 9);
            es_panel_cell(html, es_column_text(table, "text", i));
            es_text_add_string(html, "</tr>\n");
        }
        es_panel_end_table(html);
    }
    json_decref(table);
    return ES_STATUS_OK;
}
