// The list of panels, and what they are made of: curves of several runs with intervals over seeds,
// and tables.
#include "view/panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "esper/log.h"
#include "view/chart.h"

// --- the list ---

#define ALL "grow fit prove hosts"

static const EsPanel panels[] = {
    {"summary", "The run", "What was run, on what, and how far it is.", ALL, 0, 1, ALL,
     es_panel_summary},
    {"curves", "Learning curves",
     "By round (an epoch of a fit). Runs that differ by their seed alone are one line, their mean, "
     "with its 95 % interval; around a single run the band is one standard deviation over its "
     "environments.",
     ALL, 1, 1, ALL, es_panel_curves},
    {"comparison", "Against baselines",
     "Held-out episodes or queries, the same for every policy; bars are means, whiskers their 95 % "
     "intervals.",
     "grow prove", 0, 1, "grow prove", es_panel_comparison},
    {"network", "The network as it grows",
     "One host at one step: its slots, and the seeds in them with stage, share alpha and "
     "contribution (accuracy lost without the seed, percent points).",
     "grow fit", 0, 1, "fit", es_panel_network},
    {"fitted", "The network it keeps",
     "The best by validation, which <code>esper predict</code> and <code>esper export</code> use; "
     "its test samples decided nothing.",
     "fit", 0, 1, "fit", es_panel_fitted},
    {"confusion", "What it confuses",
     "The network it keeps, on the test samples (validation samples where there are none): which "
     "classes it takes for which, and the samples that it was most sure of, wrongly.",
     "fit", 0, 1, "fit", es_panel_confusion},
    {"topologies", "Grown networks", "Hosts of the newest complete round, the most accurate first.",
     "grow", 0, 1, "grow", es_panel_topologies},
    {"environments", "Environments",
     "The newest recorded step of every host; a stronger colour is more accurate. Choose one to "
     "look at.",
     "grow fit hosts", 0, 1, "", es_panel_environments},
    {"decisions", "Decisions",
     "What the policy did, and what else it could have: the legal values with their probabilities "
     "(the chosen one in bold); policies that are not learned have none.",
     "grow fit", 0, 1, "grow fit", es_panel_decisions},
    {"rewards", "Reward, term by term", "Mean of the recorded steps of a round.", "grow", 0, 0,
     "grow", es_panel_rewards},
    {"rails", "Rails of the fit",
     "Time of epochs, circuit breaker, mode, rollbacks; metrics under their names in telemetry.",
     "fit", 0, 1, "fit", es_panel_rails},
    {"proofs", "Proofs",
     "Queries proved by depth and by predicate, and what proofs look like: under every atom those "
     "that its rule needs.",
     "prove", 0, 1, "prove", es_panel_proofs},
    {"policy", "Health of the policy", "Updates by PPO: is it learning, and does it stay stable?",
     "grow prove", 1, 1, "grow prove", es_panel_policy},
    {"time", "Speed, and where time goes", "Throughput by round, and the phases of a round.", ALL,
     1, 1, ALL, es_panel_time},
    {"anomalies", "Anomalies", "What a rule found wrong (docs/telemetry.md, \"Anomaly rules\").",
     ALL, 0, 1, ALL, es_panel_anomalies},
    {"log", "Newest events", "Seeds, anomalies, checkpoints and rails, the newest first.", ALL, 0,
     1, "", es_panel_log},
    {"settings", "Settings", "The whole configuration, as the run recorded it.", ALL, 0, 1, ALL,
     es_panel_settings},
};

int es_panel_count(void) { return (int)ES_COUNT_OF(panels); }
const EsPanel *es_panel(int index) { return &panels[index]; }

const EsPanel *es_panel_find(const char *name) {
    for (size_t i = 0; i < ES_COUNT_OF(panels); i++) {
        if (strcmp(panels[i].name, name) == 0) {
            return &panels[i];
        }
    }
    return NULL;
}

int es_kind_is_among(const char *kinds, const char *kind) {
    size_t bytes = strlen(kind);
    const char *found = bytes > 0 ? strstr(kinds, kind) : NULL;
    return found != NULL && (found[bytes] == ' ' || found[bytes] == '\0');
}

EsStatus es_panel_draw(const EsPanel *panel, const EsPanelInput *input, EsText *html) {
    es_html_print(html, "<section class=\"panel%s\" id=\"panel-%s\"><h2>%s",
                  panel->is_wide ? " wide" : "", panel->name, panel->title);
    if (input->n_views > 1 && !panel->compares) {
        es_text_add_string(html, " <span class=\"unit\">of ");
        es_html_add(html, es_run_view_name(input->views[0]));
        es_text_add_string(html, "</span>");
    }
    es_text_add_string(html, "</h2>\n");
    es_html_print(html, "<p class=\"help\">%s</p>\n", panel->help);
    EsStatus status = panel->draw(input, html);
    if (status == ES_STATUS_MEMORY) {
        return status;
    }
    if (status != ES_STATUS_OK) { // the other panels may well be whole
        es_log(ES_LOG_WARNING, "the panel \"%s\" is not whole: %s", panel->title,
               es_status_detail());
        es_text_add_string(html, "<p class=\"empty\">This panel is not whole: ");
        es_html_add(html, es_status_detail());
        es_text_add_string(html, "</p>\n");
    }
    es_text_add_string(html, "</section>\n");
    return html->status;
}

// --- tables ---

void es_panel_begin_table(EsText *html, const char *caption, const char *headings) {
    es_html_print(html,
                  "<div class=\"scroll\" tabindex=\"0\"><table><caption>%s</caption><thead><tr>",
                  caption);
    while (*headings != '\0') {
        int bytes = (int)strcspn(headings, "|"), is_number = headings[0] == '#';
        es_html_print(html, "<th scope=\"col\"%s>%.*s</th>", is_number ? " class=\"number\"" : "",
                      bytes - is_number, headings + is_number);
        headings += bytes + (headings[bytes] == '|');
    }
    es_text_add_string(html, "</tr></thead><tbody>\n");
}

void es_panel_cell(EsText *html, const char *foreign) {
    es_text_add_string(html, "<td>");
    es_html_add(html, foreign);
    es_text_add_string(html, "</td>");
}

void es_panel_number_cell(EsText *html, double value, int n_digits) {
    es_text_add_string(html, "<td class=\"number\">");
    es_html_number(html, value, n_digits);
    es_text_add_string(html, "</td>");
}

void es_panel_end_table(EsText *html) { es_text_add_string(html, "</tbody></table></div>\n"); }

void es_panel_note_full(EsText *html, const json_t *table, const char *what) {
    if (es_table_is_full(table)) {
        es_html_print(html, "<p class=\"note\">There is more than is shown: of the %s %d.</p>\n",
                      what, ES_TABLE_MAX_ROWS);
    }
}

// --- curves ---

// A line of the chart with the numbers it owns.
typedef struct Curve {
    EsSeries series;
    double *numbers; // owned: x, y, low and high, n of each
    char label[160];
} Curve;

static EsStatus allocate_curve(Curve *curve, int n) {
    ES_TRY(es_allocate(sizeof(double) * 4 * (size_t)ES_MAX(n, 1), (void **)&curve->numbers));
    curve->series.n = n;
    curve->series.x = curve->numbers;
    curve->series.y = curve->numbers + n;
    return ES_STATUS_OK;
}

// Rows are means of `bucket` rounds and carry the last of them.
static int64_t bucket_at(const json_t *table, int row, int64_t bucket) {
    return ((int64_t)es_column_real(table, "round", row) - 1) / bucket;
}

static int find_bucket(const json_t *table, int64_t number, int64_t bucket) {
    int n = es_table_n_rows(table);
    for (int i = 0; i < n; i++) {
        if (bucket_at(table, i, bucket) == number) {
            return i;
        }
    }
    return -1;
}

static double last_round(const json_t *table) {
    int n = es_table_n_rows(table);
    return n > 0 ? es_column_real(table, "round", n - 1) : 0;
}

// The mean over the runs of a group, by the rounds of its longest.
static EsStatus fill_mean(Curve *curve, json_t *const *tables, int n_tables, const char *column,
                          int64_t bucket) {
    const json_t *longest = tables[0];
    for (int t = 1; t < n_tables; t++) {
        longest = last_round(tables[t]) > last_round(longest) ? tables[t] : longest;
    }
    int n = es_table_n_rows(longest);
    ES_TRY(allocate_curve(curve, n));
    double *x = curve->numbers, *y = x + n, *low = y + n, *high = low + n;
    for (int i = 0; i < n; i++) {
        double values[ES_PANEL_MAX_VIEWS];
        int n_values = 0;
        x[i] = es_column_real(longest, "round", i);
        for (int t = 0; t < n_tables; t++) {
            int row = find_bucket(tables[t], bucket_at(longest, i, bucket), bucket);
            double value = row >= 0 ? es_column_real(tables[t], column, row) : NAN;
            if (isfinite(value)) {
                values[n_values++] = value;
            }
        }
        EsInterval interval = {NAN, NAN, NAN};
        if (n_values > 0) {
            interval = es_student_mean(values, n_values, sizeof values[0]);
        }
        y[i] = interval.mean;
        low[i] = interval.low;
        high[i] = interval.high;
    }
    curve->series.low = low;
    curve->series.high = high;
    return ES_STATUS_OK;
}

static EsStatus fill_single(Curve *curve, const json_t *table, const char *column) {
    int n = es_table_n_rows(table), has_band = strcmp(column, "accuracy") == 0;
    ES_TRY(allocate_curve(curve, n));
    double *x = curve->numbers, *y = x + n, *low = y + n, *high = low + n;
    for (int i = 0; i < n; i++) {
        x[i] = es_column_real(table, "round", i);
        y[i] = es_column_real(table, column, i);
        low[i] = y[i] - es_column_real(table, "accuracy_std", i);
        high[i] = y[i] + es_column_real(table, "accuracy_std", i);
    }
    curve->series.low = has_band ? low : NULL;
    curve->series.high = has_band ? high : NULL;
    return ES_STATUS_OK;
}

// Returns whether run b repeats run a: same kind, same settings but for threads and the seed.
static int repeats(const EsRunView *a, const EsRunView *b) {
    const char *recipe = es_run_view_recipe(a);
    return recipe[0] != '\0' && strcmp(es_run_view_recipe(b), recipe) == 0 &&
           strcmp(es_run_view_kind(a), es_run_view_kind(b)) == 0 &&
           es_run_view_seed(a) != es_run_view_seed(b);
}

// The runs that repeat run i and each other. Returns how many; 0 when an earlier run has it among
// its own.
static int find_group(const EsPanelInput *input, int i, int members[ES_PANEL_MAX_VIEWS]) {
    int n = 0;
    for (int k = 0; k < input->n_views; k++) {
        int is_member = k == i || repeats(input->views[i], input->views[k]);
        // of several runs of one seed the first counts
        for (int j = 0; j < n && k != i && is_member; j++) {
            is_member =
                es_run_view_seed(input->views[members[j]]) != es_run_view_seed(input->views[k]);
        }
        if (is_member && k < i) {
            return 0;
        }
        if (is_member) {
            members[n++] = k;
        }
    }
    return n;
}

static EsStatus fill_group(const EsPanelInput *input, const int *members, int n_members,
                           const char *table, const char *column, Curve *curve) {
    json_t *tables[ES_PANEL_MAX_VIEWS] = {NULL};
    EsViewQuestion question = input->question;
    EsStatus status = ES_STATUS_OK;
    int64_t bucket = 1;
    for (int i = 0; i < n_members; i++) {
        bucket = ES_MAX(bucket, es_run_view_bucket(input->views[members[i]], &input->question));
    }
    question.bucket = bucket;
    for (int i = 0; i < n_members; i++) {
        ES_TRY_GOTO(es_run_view_read(input->views[members[i]], table, &question, &tables[i]));
    }
    const char *name = es_run_view_name(input->views[members[0]]);
    if (n_members > 1) {
        snprintf(curve->label, sizeof curve->label, "%.120s and %d more seed%s", name,
                 n_members - 1, n_members > 2 ? "s" : "");
        status = fill_mean(curve, tables, n_members, column, bucket);
    } else {
        snprintf(curve->label, sizeof curve->label, "%.150s", name);
        status = fill_single(curve, tables[0], column);
    }
    curve->series.label = curve->label;
done:
    for (int i = 0; i < n_members; i++) {
        json_decref(tables[i]);
    }
    return status;
}

static int has_number(const EsSeries *series) {
    int i = 0;
    while (i < series->n && !isfinite(series->y[i])) {
        i++;
    }
    return i < series->n;
}

static int is_all_fits(const EsPanelInput *input) {
    int n = 0;
    while (n < input->n_views && strcmp(es_run_view_kind(input->views[n]), "fit") == 0) {
        n++;
    }
    return n == input->n_views;
}

EsStatus es_panel_draw_curve(const EsPanelInput *input, EsText *html, const char *table,
                             const char *column, const char *title, const char *unit,
                             int starts_at_zero) {
    Curve curves[ES_PANEL_MAX_VIEWS] = {0};
    EsSeries series[ES_PANEL_MAX_VIEWS];
    int n_curves = 0, n_series = 0;
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < input->n_views && status == ES_STATUS_OK; i++) {
        int members[ES_PANEL_MAX_VIEWS], n_members = find_group(input, i, members);
        if (n_members > 0) {
            Curve *curve = &curves[n_curves];
            status = fill_group(input, members, n_members, table, column, curve);
            curve->series.colour = n_curves++ % 8;
            if (has_number(&curve->series)) {
                series[n_series++] = curve->series;
            }
        }
    }
    if (status == ES_STATUS_OK) {
        es_chart_lines(html, &(EsChart){.title = title,
                                        .unit = unit,
                                        .x_label = is_all_fits(input) ? "epoch" : "round",
                                        .series = series,
                                        .n_series = n_series,
                                        .starts_at_zero = starts_at_zero,
                                        .has_legend = input->n_views > 1});
    }
    for (int i = 0; i < n_curves; i++) {
        es_release(curves[i].numbers);
    }
    return status;
}

// --- panels of all runs ---

static int has_kind(const EsPanelInput *input, const char *kinds) {
    for (int i = 0; i < input->n_views; i++) {
        if (es_kind_is_among(kinds, es_run_view_kind(input->views[i]))) {
            return 1;
        }
    }
    return 0;
}

EsStatus es_panel_curves(const EsPanelInput *input, EsText *html) {
    es_text_add_string(html, "<div class=\"charts\">\n");
    ES_TRY(es_panel_draw_curve(
        input, html, "curves", "accuracy",
        has_kind(input, "prove") ? "Accuracy (proofs: queries answered rightly)" : "Accuracy", "%",
        0));
    if (has_kind(input, "grow prove")) {
        ES_TRY(es_panel_draw_curve(input, html, "curves", "reward", "Reward of an episode", "", 0));
    }
    if (has_kind(input, "grow fit hosts")) {
        ES_TRY(es_panel_draw_curve(input, html, "curves", "loss", "Loss", "", 0));
    }
    if (has_kind(input, "grow fit")) {
        ES_TRY(es_panel_draw_curve(input, html, "curves", "n_fossils", "Fossils at the round's end",
                                   "seeds, all hosts", 1));
    }
    if (has_kind(input, "grow")) {
        ES_TRY(es_panel_draw_curve(input, html, "episodes", "parameter_ratio",
                                   "Parameters at the end of an episode", "times the host's", 0));
    }
    if (has_kind(input, "prove")) {
        ES_TRY(es_panel_draw_curve(input, html, "proofs", "positives_proved",
                                   "True queries that were proved", "%", 0));
        ES_TRY(es_panel_draw_curve(input, html, "proofs", "depth", "Actions of an episode", "mean",
                                   1));
    }
    es_text_add_string(html, "</div>\n");
    return ES_STATUS_OK;
}

EsStatus es_panel_policy(const EsPanelInput *input, EsText *html) {
    static const struct {
        const char *column, *title, *unit;
    } charts[] = {
        {"entropy", "Entropy of the choices", "share of the largest possible; low = few choices"},
        {"kl_divergence", "KL divergence of an update", "above 0.1 is a spike"},
        {"clip_fraction", "Clipped ratios", "share"},
        {"explained_variance", "Explained variance of the value", "1 = perfect, 0 = none"},
        {"value_loss", "Value loss", ""},
        {"gradient_norm", "Gradient norm", "before clipping"},
    };
    es_text_add_string(html, "<div class=\"charts\">\n");
    for (size_t i = 0; i < ES_COUNT_OF(charts); i++) {
        ES_TRY(es_panel_draw_curve(input, html, "updates", charts[i].column, charts[i].title,
                                   charts[i].unit, 0));
    }
    es_text_add_string(html, "</div>\n");
    return ES_STATUS_OK;
}
