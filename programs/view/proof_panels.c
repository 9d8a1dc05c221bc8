// The panel about proofs: queries proved by depth and by predicate, proofs drawn as trees, and the
// newest queries. Counts are of all episodes where the run has them, else of its sample.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "view/chart.h"
#include "view/panels.h"

// --- shares ---

#define MAX_BARS 24

// The words of a chart of shares.
typedef struct Shares {
    const char *column; // of the labels
    const char *title;
    const char *unit;
} Shares;

static EsBar make_bar(const json_t *table, int row, const char *column, char label[48],
                      char note[48]) {
    double count = es_column_real(table, "n", row), proved = es_column_real(table, "n_proved", row);
    const char *word = es_column_text(table, column, row);
    if (word[0] != '\0') {
        snprintf(label, 48, "%.47s", word);
    } else {
        snprintf(label, 48, "%.0f", es_column_real(table, column, row));
    }
    snprintf(note, 48, "%% of %.0f", count);
    return (EsBar){label, 100 * proved / fmax(count, 1), NAN, NAN, note};
}

// Bars of the share proved in rows [begin, end); of more than MAX_BARS the first and the last ones.
static void draw_shares(const json_t *table, int begin, int end, const Shares *shares,
                        EsText *html) {
    EsBar bars[MAX_BARS];
    char labels[MAX_BARS][48], notes[MAX_BARS][48];
    int n = end - begin, n_shown = ES_MIN(n, MAX_BARS);
    char title[160];
    for (int i = 0; i < n_shown; i++) {
        int row = n > MAX_BARS && i >= MAX_BARS / 2 ? end - MAX_BARS + i : begin + i;
        bars[i] = make_bar(table, row, shares->column, labels[i], notes[i]);
    }
    snprintf(title, sizeof title, n > MAX_BARS ? "%s: the first %d and the last %d of %d" : "%s",
             shares->title, MAX_BARS / 2, MAX_BARS / 2, n);
    es_chart_bars(html, title, shares->unit, bars, n_shown);
}

// The first row whose depth is not that of a known proof; these come first.
static int count_known(const json_t *depths) {
    int n = 0;
    while (n < es_table_n_rows(depths) &&
           strcmp(es_column_text(depths, "counted_by", n), "proof") == 0) {
        n++;
    }
    return n;
}

static void draw_counted(const json_t *depths, const json_t *predicates, const json_t *corruptions,
                         EsText *html) {
    int n_known = count_known(depths), n = es_table_n_rows(depths);
    double first = INFINITY, last = 0, n_all = 0;
    for (int i = 0; i < n; i++) {
        first = fmin(first, es_column_real(depths, "first_round", i));
        last = fmax(last, es_column_real(depths, "last_round", i));
        n_all += es_column_real(depths, "n", i);
    }
    es_text_add_string(html, "<p class=\"note\">All ");
    es_html_number(html, n_all, 15);
    es_html_print(html, " episodes with true queries that ended in rounds %.0f to %.0f.</p>\n",
                  isfinite(first) ? first : 0, last);
    es_text_add_string(html, "<div class=\"charts\">\n");
    if (n_known > 0) {
        draw_shares(depths, 0, n_known,
                    &(Shares){"depth", "By depth", "% proved, by steps of the shortest proof"},
                    html);
    }
    if (n > n_known) {
        draw_shares(depths, n_known, n,
                    &(Shares){"depth", n_known > 0 ? "Without a known depth" : "By actions",
                              "% proved, by actions of the episode"},
                    html);
    }
    draw_shares(predicates, 0, es_table_n_rows(predicates),
                &(Shares){"predicate", "By predicate, the best first", "% proved"}, html);
    int n_false = es_table_n_rows(corruptions), is_cut = n_false > MAX_BARS / 2;
    if (n_false > 0) { // the others are as they should be, or better than these
        draw_shares(
            corruptions, 0, is_cut ? MAX_BARS / 2 : n_false,
            &(Shares){"predicate",
                      is_cut ? "Corruptions, the worst predicates" : "Corruptions, the worst first",
                      "% proved, which none should be"},
            html);
    }
    es_text_add_string(html, "</div>\n");
}

// A run whose schema has no counts of all episodes, or whose telemetry left them out.
static void draw_sampled(const json_t *depths, const json_t *predicates, EsText *html) {
    static const char unit[] = "% proved, last hundred rounds, sample";
    es_text_add_string(html, "<p class=\"note\">A sample: episodes of the first environments. "
                             "This run has no counts of all episodes.</p>\n"
                             "<div class=\"charts\">\n");
    draw_shares(depths, 0, es_table_n_rows(depths),
                &(Shares){"depth", "By actions of the episode", unit}, html);
    draw_shares(predicates, 0, es_table_n_rows(predicates),
                &(Shares){"predicate", "By predicate, the best first", unit}, html);
    es_text_add_string(html, "</div>\n");
}

// --- trees ---

// levels that lists are nested to; deeper atoms stay on the last
#define MAX_LEVELS 40

// A line of a proof: two blanks a level, the atom, a tab, why it holds.
typedef struct ProofLine {
    int level;
    const char *atom, *reason;
    size_t atom_bytes, reason_bytes;
} ProofLine;

// Reads the line at *text and goes to the next.
static ProofLine take_line(const char **text) {
    size_t bytes = strcspn(*text, "\n"), n_blanks = strspn(*text, " ");
    const char *atom = *text + ES_MIN(n_blanks, bytes);
    size_t n_left = bytes - (size_t)(atom - *text);
    const char *tab = memchr(atom, '\t', n_left);
    size_t atom_bytes = tab != NULL ? (size_t)(tab - atom) : n_left;
    *text += bytes + ((*text)[bytes] == '\n');
    return (ProofLine){.level = (int)ES_MIN(n_blanks / 2, MAX_LEVELS),
                       .atom = atom,
                       .reason = tab != NULL ? tab + 1 : "",
                       .atom_bytes = atom_bytes,
                       .reason_bytes = tab != NULL ? n_left - atom_bytes - 1 : 0};
}

static int is_leaf(const ProofLine *line) {
    return line->reason_bytes < 5 || memcmp(line->reason, "rule ", 5) != 0;
}

// Nested lists, one for the atoms of a rule's body.
static void draw_tree(const char *proof, EsText *html) {
    int level = -1; // of the open lists
    while (*proof != '\0') {
        ProofLine line = take_line(&proof);
        if (line.level > level) {
            // a line can only be a child of the one before
            es_text_add_string(html, level < 0 ? "<ul class=\"tree\">" : "<ul>");
            line.level = ++level;
        } else {
            for (; level > line.level; level--) {
                es_text_add_string(html, "</li></ul>");
            }
            es_text_add_string(html, "</li>");
        }
        es_text_add_string(html, is_leaf(&line) ? "\n<li class=\"leaf\"><code>" : "\n<li><code>");
        es_text_add_utf8(html, line.atom, line.atom_bytes, ES_TEXT_HTML);
        es_text_add_string(html, "</code> <span class=\"why\">");
        es_text_add_utf8(html, line.reason, line.reason_bytes, ES_TEXT_HTML);
        es_text_add_string(html, "</span>");
    }
    for (; level >= 0; level--) {
        es_text_add_string(html, "</li></ul>");
    }
    es_text_add_string(html, "\n");
}

static void draw_trees(const json_t *table, EsText *html) {
    int n = es_table_n_rows(table);
    if (n == 0) {
        es_html_empty(html, "Proofs appear here as trees, the newest first, once a true query is "
                            "proved in one of the first environments (telemetry level normal or "
                            "debug; runs of earlier versions have none).");
        return;
    }
    es_text_add_string(html, "<h3>Newest proofs</h3>\n<div class=\"proofs\">\n");
    for (int i = 0; i < n; i++) {
        double n_steps = es_column_real(table, "n_steps", i);
        es_text_add_string(html, "<figure class=\"proof\"><figcaption>");
        es_html_add(html, es_column_text(table, "query", i));
        es_html_print(html,
                      " <span class=\"unit\">round %.0f, environment %.0f, %.0f action%s</span>"
                      "</figcaption>\n<div class=\"scroll\">",
                      es_column_real(table, "round", i), es_column_real(table, "env", i), n_steps,
                      n_steps == 1 ? "" : "s");
        draw_tree(es_column_text(table, "proof", i), html);
        es_text_add_string(html, "</div></figure>\n");
    }
    es_text_add_string(html, "</div>\n");
}

// --- queries ---

static void draw_queries(const json_t *table, EsText *html) {
    es_panel_begin_table(html, "Newest queries of the first environments",
                         "#round|query|kind|outcome|#actions");
    for (int i = 0; i < es_table_n_rows(table); i++) {
        int is_true = es_column_real(table, "label", i) == 1;
        es_text_add_string(html, "<tr>");
        es_panel_number_cell(html, es_column_real(table, "round", i), 6);
        es_panel_cell(html, es_column_text(table, "query", i));
        es_panel_cell(html, is_true ? "true" : "corruption");
        es_panel_cell(html, es_column_real(table, "is_proved", i) == 1 ? "proved" : "not proved");
        es_panel_number_cell(html, es_column_real(table, "n_steps", i), 4);
        es_text_add_string(html, "</tr>\n");
    }
    es_panel_end_table(html);
}

// --- the panel ---

// Draws the shares; *has_some where there were any.
static EsStatus draw_all_shares(const EsPanelInput *input, EsText *html, int *has_some) {
    json_t *depths = NULL, *predicates = NULL, *corruptions = NULL;
    EsRunView *view = input->views[0];
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_run_view_read(view, "proof_depths", &input->question, &depths));
    if (es_table_n_rows(depths) > 0) {
        ES_TRY_GOTO(es_run_view_read(view, "proof_predicates", &input->question, &predicates));
        ES_TRY_GOTO(es_run_view_read(view, "proof_corruptions", &input->question, &corruptions));
        draw_counted(depths, predicates, corruptions, html);
        *has_some = 1;
        goto done;
    }
    json_decref(depths);
    depths = NULL;
    ES_TRY_GOTO(es_run_view_read(view, "depths", &input->question, &depths));
    ES_TRY_GOTO(es_run_view_read(view, "predicates", &input->question, &predicates));
    *has_some = es_table_n_rows(depths) > 0;
    if (*has_some) {
        draw_sampled(depths, predicates, html);
    }
done:
    json_decref(depths);
    json_decref(predicates);
    json_decref(corruptions);
    return status;
}

EsStatus es_panel_proofs(const EsPanelInput *input, EsText *html) {
    json_t *trees = NULL, *queries = NULL;
    EsRunView *view = input->views[0];
    EsStatus status = ES_STATUS_OK;
    int has_some = 0;
    ES_TRY_GOTO(draw_all_shares(input, html, &has_some));
    ES_TRY_GOTO(es_run_view_read(view, "proof_trees", &input->question, &trees));
    ES_TRY_GOTO(es_run_view_read(view, "queries", &input->question, &queries));
    if (!has_some && es_table_n_rows(queries) == 0) {
        es_html_empty(html, "Proofs by depth and predicate appear here after the first round "
                            "(telemetry level normal or debug).");
    } else {
        draw_trees(trees, html);
        draw_queries(queries, html);
    }
done:
    json_decref(trees);
    json_decref(queries);
    return status;
}
