// The panel of decisions: what the policy chose in one environment and what else it could have, how
// often each value of each head was chosen, and the operations over the run.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "view/chart.h"
#include "view/panels.h"

// --- why ---

#define MAX_VALUES   16 // of a head
#define SHOWN_VALUES 4  // of them, the most probable, and the chosen one

// A legal value of a head.
typedef struct Option {
    const char *name;   // borrowed from the JSON
    double probability; // NaN: the policy has none
    int is_chosen;
} Option;

// Reads the options of a column, {"WAIT":0.81,"GERMINATE":0.19}.
static int read_options(const json_t *choice, const char *chosen, Option options[MAX_VALUES]) {
    int n = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)choice, name, value) {
        if (n < MAX_VALUES) {
            options[n++] = (Option){name, json_is_number(value) ? json_number_value(value) : NAN,
                                    strcmp(name, chosen) == 0};
        }
    }
    return n;
}

// Counts options that are more probable than this one, or as probable and before it.
static int rank_of(const Option *options, int n, int i) {
    int rank = 0;
    for (int k = 0; k < n; k++) {
        rank += options[k].probability > options[i].probability ||
                (options[k].probability == options[i].probability && k < i);
    }
    return rank;
}

static void draw_option(const Option *option, EsText *html) {
    es_html_print(html, "<span class=\"option%s\">", option->is_chosen ? " chosen" : "");
    es_html_add(html, option->name);
    if (isfinite(option->probability)) {
        es_html_print(html,
                      " <svg class=\"key share\" viewBox=\"0 0 40 8\" aria-hidden=\"true\">"
                      "<rect class=\"gauge\" width=\"40\" height=\"8\"/><rect class=\"gauge-fill\" "
                      "width=\"%.1f\" height=\"8\"/></svg> %.1f %%",
                      40 * fmin(fmax(option->probability, 0), 1), 100 * option->probability);
    }
    es_text_add_string(html, "</span>\n");
}

// Draws the legal values of a head, with their probabilities; those without any only where all of
// them are. Nothing where the text is none of ours.
static void draw_choice(const char *title, const char *text, const char *chosen, EsText *html) {
    Option options[MAX_VALUES];
    json_t *choice = json_loads(text, 0, NULL);
    int n = read_options(choice, chosen, options), n_hidden = 0;
    if (n > 0) {
        es_html_print(html, "<div class=\"choice\"><span class=\"head\">%s</span><span>\n", title);
        for (int i = 0; i < n; i++) {
            int is_shown = n <= SHOWN_VALUES || options[i].is_chosen ||
                           !isfinite(options[i].probability) ||
                           rank_of(options, n, i) < SHOWN_VALUES;
            n_hidden += !is_shown;
            if (is_shown) {
                draw_option(&options[i], html);
            }
        }
        if (n_hidden > 0) {
            es_html_print(html, "<span class=\"unit\">and %d more</span>\n", n_hidden);
        }
        es_text_add_string(html, "</span></div>\n");
    }
    json_decref(choice);
}

// The last rows of both tables are the same decision; runs of earlier versions have no `why`.
static void draw_why(const json_t *table, const json_t *why, int i, EsText *html) {
    const char *slot = es_column_text(table, "slot", i);
    int row = i - es_table_n_rows(table) + es_table_n_rows(why);
    if (row < 0 || es_column_real(table, "step", i) != es_column_real(why, "step", row)) {
        return;
    }
    draw_choice("operation", es_column_text(why, "op_probabilities", row),
                es_column_text(table, "op", i), html);
    if (slot[0] != '\0') { // waiting has none
        draw_choice("slot", es_column_text(why, "slot_probabilities", row), slot, html);
    }
    draw_choice("blueprint", es_column_text(why, "blueprint_probabilities", row),
                es_column_text(table, "blueprint", i), html);
}

static void draw_decision(const json_t *table, const json_t *why, int i, EsText *html) {
    es_text_add_string(html, "<tr>");
    es_panel_number_cell(html, es_column_real(table, "step", i), 6);
    es_panel_cell(html, es_column_text(table, "op", i));
    es_text_add_string(html, "<td>");
    es_html_add(html, es_column_text(table, "slot", i));
    es_text_add_string(html, " ");
    es_html_add(html, es_column_text(table, "blueprint", i));
    es_text_add_string(html, "</td>");
    es_panel_number_cell(html, es_column_real(table, "confidence", i), 3);
    es_panel_number_cell(html, es_column_real(table, "value", i), 3);
    int is_forced = es_column_real(table, "is_forced", i) == 1;
    int is_refused = es_column_real(table, "is_success", i) == 0;
    es_text_add_string(html, "<td>");
    if (is_forced) {
        es_text_add_string(html, "no other was legal");
    } else {
        draw_why(table, why, i, html);
    }
    if (is_refused) {
        es_text_add_string(html, "refused: ");
        es_html_add(html, es_column_text(table, "refusal", i));
    }
    es_text_add_string(html, "</td></tr>\n");
}

// --- heads ---

// Draws how often the values of one head, rows [begin, end), were chosen.
static void draw_head(const json_t *table, int begin, int end, EsText *html) {
    static const struct {
        const char *head, *title, *unit;
    } heads[] = {{"op", "Operation", "% (number) of recorded steps"},
                 {"slot", "Slot", "% (number) of decisions with one"},
                 {"blueprint", "Blueprint", "% (number) of germinations"},
                 {"style", "Style", "% (number) of decisions with one"},
                 {"tempo", "Tempo", "% (number) of germinations"},
                 {"alpha_target", "Alpha target", "% (number) of decisions with one"},
                 {"alpha_speed", "Alpha speed", "% (number) of decisions with one"},
                 {"alpha_curve", "Alpha curve", "% (number) of decisions with one"}};
    EsBar bars[MAX_VALUES];
    char notes[MAX_VALUES][24];
    size_t h = 0;
    int n = ES_MIN(end - begin, MAX_VALUES);
    while (h < ES_COUNT_OF(heads) &&
           strcmp(heads[h].head, es_column_text(table, "head", begin)) != 0) {
        h++;
    }
    for (int i = 0; i < n; i++) {
        snprintf(notes[i], sizeof notes[i], "(%.0f)", es_column_real(table, "n", begin + i));
        bars[i] = (EsBar){es_column_text(table, "value", begin + i),
                          es_column_real(table, "percent", begin + i), NAN, NAN, notes[i]};
    }
    if (h < ES_COUNT_OF(heads)) {
        es_chart_bars(html, heads[h].title, heads[h].unit, bars, n);
    }
}

static EsStatus draw_heads(EsRunView *view, const EsViewQuestion *question, EsText *html) {
    json_t *table = NULL;
    ES_TRY(es_run_view_read(view, "heads", question, &table));
    int n = es_table_n_rows(table);
    if (n > 0) {
        es_html_print(html, "<h3>Chosen, by head: %s</h3>\n<div class=\"charts\">\n",
                      es_run_view_is_one_episode(view) ? "all epochs"
                                                       : "twenty rounds up to this one");
        for (int begin = 0, end; begin < n; begin = end) {
            for (end = begin + 1; end < n && strcmp(es_column_text(table, "head", end),
                                                    es_column_text(table, "head", begin)) == 0;) {
                end++;
            }
            draw_head(table, begin, end, html);
        }
        es_text_add_string(html, "</div>\n");
    }
    json_decref(table);
    return ES_STATUS_OK;
}

// --- the panel ---

// Shares of the operations over the run, one line each, in the order and colours of this list.
static EsStatus draw_shares(EsRunView *view, const EsViewQuestion *question, EsText *html) {
    static const char *const ops[] = {"WAIT",  "GERMINATE", "SET_ALPHA_TARGET",
                                      "PRUNE", "FOSSILIZE", "ADVANCE"};
    enum { N_OPS = ES_COUNT_OF(ops), MAX_BUCKETS = 64 };
    json_t *table = NULL;
    EsViewQuestion coarse = *question;
    coarse.n_points = MAX_BUCKETS - 4;
    ES_TRY(es_run_view_read(view, "actions", &coarse, &table));
    int64_t n_rounds = es_run_view_bucket(view, &coarse);
    double x[MAX_BUCKETS] = {0}, total[MAX_BUCKETS] = {0}, y[N_OPS][MAX_BUCKETS] = {{0}};
    EsSeries series[N_OPS];
    int n_series = 0, n_buckets = 0, is_used[N_OPS] = {0};
    for (int i = 0; i < es_table_n_rows(table); i++) {
        double round = es_column_real(table, "round", i), n = es_column_real(table, "n", i);
        double place = (round - 1) / (double)n_rounds; // of a bucket's last round
        int bucket = place >= 0 && place < MAX_BUCKETS ? (int)place : -1, op = 0;
        while (op < N_OPS && strcmp(ops[op], es_column_text(table, "op", i)) != 0) {
            op++;
        }
        if (bucket >= 0 && op < N_OPS) {
            n_buckets = ES_MAX(n_buckets, bucket + 1);
            x[bucket] = fmax(x[bucket], round);
            y[op][bucket] = n;
            total[bucket] += n;
            is_used[op] = 1;
        }
    }
    for (int op = 0; op < N_OPS; op++) {
        for (int i = 0; i < n_buckets; i++) {
            y[op][i] = total[i] > 0 ? 100 * y[op][i] / total[i] : NAN;
        }
        if (is_used[op]) {
            series[n_series++] =
                (EsSeries){.label = ops[op], .x = x, .y = y[op], .n = n_buckets, .colour = op};
        }
    }
    es_chart_lines(html, &(EsChart){.title = "Operations chosen",
                                    .unit = "% of recorded steps",
                                    .x_label = "round",
                                    .series = series,
                                    .n_series = n_series,
                                    .starts_at_zero = 1});
    json_decref(table);
    return ES_STATUS_OK;
}

static void draw_decisions(EsRunView *view, const EsViewQuestion *question, const json_t *table,
                           const json_t *why, EsText *html) {
    char caption[80];
    int n = es_table_n_rows(table);
    int is_whole = es_run_view_is_one_episode(view);
    int length = snprintf(caption, sizeof caption, "%s %lld",
                          is_whole ? "Candidate" : "Environment", (long long)question->env);
    if (!is_whole) {
        snprintf(caption + length, sizeof caption - (size_t)length, ", round %lld",
                 (long long)question->round);
    }
    es_panel_begin_table(html, caption,
                         is_whole ? "#epoch|operation|on|#probability|#value|why"
                                  : "#step|operation|on|#probability|#value|why");
    for (int i = ES_MAX(n - 30, 0); i < n; i++) {
        draw_decision(table, why, i, html);
    }
    es_panel_end_table(html);
}

EsStatus es_panel_decisions(const EsPanelInput *input, EsText *html) {
    EsRunView *view = input->views[0];
    EsViewQuestion question = input->question;
    json_t *table = NULL, *why = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_run_view_resolve(view, &question));
    ES_TRY_GOTO(es_run_view_read(view, "decisions", &question, &table));
    ES_TRY_GOTO(es_run_view_read(view, "why", &question, &why));
    if (es_table_n_rows(table) == 0) {
        es_html_empty(html, "Decisions of the environment that is looked at appear here, with what "
                            "was legal and how probable it was.");
    } else {
        draw_decisions(view, &question, table, why, html);
    }
    ES_TRY_GOTO(draw_heads(view, &question, html));
    if (!es_run_view_is_one_episode(view)) {
        status = draw_shares(view, &question, html);
    }
done:
    json_decref(table);
    json_decref(why);
    return status;
}
