// The panels that people look at, each a fragment of HTML with its charts and tables: the page
// shows them live, the report prints them one below the other.
//
// A panel is drawn from one run or compares several; panels.c has the list. Nothing in a panel
// needs a script, a style of its own or anything from outside.
//
//     EsText html = {0};
//     EsPanelInput input = {.views = &view, .n_views = 1, .question = {.env = -1}, .step = -1};
//     ES_TRY(es_panel_draw(es_panel_find("curves"), &input, &html));
#ifndef ES_PROGRAMS_PANELS_H
#define ES_PROGRAMS_PANELS_H

#include "telemetry/text.h"
#include "view/run_view.h"

// The most runs that one panel compares.
#define ES_PANEL_MAX_VIEWS 12

typedef struct EsPanelInput {
    EsRunView **views; // borrowed; a panel that does not compare draws the first
    int n_views;
    EsViewQuestion question; // round and environment, for panels about single ones
    int64_t step;            // of the episode, for the picture of the network; -1: the last
} EsPanelInput;

typedef struct EsPanel {
    const char *name;         // in addresses
    const char *title;        // heading
    const char *help;         // one sentence below it
    const char *kinds;        // of runs that it is for, with blanks between
    int compares;             // draws all runs together
    int is_wide;              // takes a whole row of the page
    const char *report_kinds; // of runs whose report has it
    EsStatus (*draw)(const EsPanelInput *input, EsText *html);
} EsPanel;

int es_panel_count(void);
const EsPanel *es_panel(int index);
const EsPanel *es_panel_find(const char *name); // NULL when there is none

// Returns whether a kind of run is one of a panel's, of its `kinds` or `report_kinds`.
int es_kind_is_among(const char *kinds, const char *kind);

// Adds the panel as <section id="panel-NAME">.
EsStatus es_panel_draw(const EsPanel *panel, const EsPanelInput *input, EsText *html);

// --- parts of panels, for the other files ---

EsStatus es_panel_draw_curve(const EsPanelInput *input, EsText *html, const char *table,
                             const char *column, const char *title, const char *unit,
                             int starts_at_zero);

// Two charts of the seeds of one environment, a line for each, from the table "measured": alpha,
// and the column that is named. Nothing but a sentence where nothing was measured.
EsStatus es_panel_draw_seeds(EsRunView *view, const EsViewQuestion *question, const char *column,
                             const char *title, const char *unit, EsText *html);

// Begins a table with these headings, separated by '|'; a heading that begins with '#' is of
// numbers, which stand to the right.
void es_panel_begin_table(EsText *html, const char *caption, const char *headings);
void es_panel_cell(EsText *html, const char *foreign);
void es_panel_number_cell(EsText *html, double value, int n_digits);
void es_panel_end_table(EsText *html);

// A sentence where a table holds no more rows than it has: `what` are the newest or the first ones.
void es_panel_note_full(EsText *html, const json_t *table, const char *what);

EsStatus es_panel_summary(const EsPanelInput *input, EsText *html);
EsStatus es_panel_curves(const EsPanelInput *input, EsText *html);
EsStatus es_panel_comparison(const EsPanelInput *input, EsText *html);
EsStatus es_panel_network(const EsPanelInput *input, EsText *html);
EsStatus es_panel_fitted(const EsPanelInput *input, EsText *html);
EsStatus es_panel_confusion(const EsPanelInput *input, EsText *html);
EsStatus es_panel_topologies(const EsPanelInput *input, EsText *html);
EsStatus es_panel_environments(const EsPanelInput *input, EsText *html);
EsStatus es_panel_decisions(const EsPanelInput *input, EsText *html);
EsStatus es_panel_rewards(const EsPanelInput *input, EsText *html);
EsStatus es_panel_policy(const EsPanelInput *input, EsText *html);
EsStatus es_panel_anomalies(const EsPanelInput *input, EsText *html);
EsStatus es_panel_time(const EsPanelInput *input, EsText *html);
EsStatus es_panel_rails(const EsPanelInput *input, EsText *html);
EsStatus es_panel_proofs(const EsPanelInput *input, EsText *html);
EsStatus es_panel_log(const EsPanelInput *input, EsText *html);
EsStatus es_panel_settings(const EsPanelInput *input, EsText *html);

#endif
