// Charts as SVG inside HTML: lines with intervals, bars, and the text they are made of.
//
// Colours, sizes and dark mode are the style sheet's (dashboard/page.css), by class; a chart has no
// script. Every chart has a caption, labelled axes, a legend where there is a choice, and a
// sentence for screen readers. This is the one place where texts from outside are escaped.
//
//     const EsSeries series = {.label = "demo", .x = round, .y = accuracy, .n = n};
//     es_chart_lines(text, &(EsChart){.title = "Accuracy", .unit = "%", .x_label = "round",
//                                     .series = &series, .n_series = 1});
#ifndef ES_PROGRAMS_CHART_H
#define ES_PROGRAMS_CHART_H

#include "telemetry/text.h"

// --- text ---

// A text from outside: markup and characters that could command a terminal are made harmless.
void es_html_add(EsText *text, const char *foreign);

// printf of our own words and numbers; never of a text from outside. At most 1,000 bytes.
void es_html_print(EsText *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A number for people, with about `n_digits` digits and thousands kept apart; "–" when missing.
void es_html_number(EsText *text, double value, int n_digits);

// <p class="empty">: what a panel will show, and when.
void es_html_empty(EsText *text, const char *words);

// --- charts ---

// One line; NaN breaks it. `low` and `high`, both or neither, are a band around it.
typedef struct EsSeries {
    const char *label;
    const double *x, *y, *low, *high; // borrowed, of n numbers
    int n;
    int colour; // 0..7
} EsSeries;

typedef struct EsChart {
    const char *title, *unit; // "Accuracy", "%"; a unit may be ""
    const char *x_label;
    const char *note;       // below the chart; nullable
    const EsSeries *series; // borrowed
    int n_series;
    int starts_at_zero;
    int has_legend; // also where there is one series
} EsChart;

// Nothing but a sentence where no series has a finite number.
void es_chart_lines(EsText *text, const EsChart *chart);

typedef struct EsBar {
    const char *label;
    double value, low, high; // the interval is NaN where there is none
    const char *note;        // behind the number; nullable
} EsBar;

// Horizontal bars from 0; values may be negative.
void es_chart_bars(EsText *text, const char *title, const char *unit, const EsBar *bars,
                   int n_bars);

#endif
