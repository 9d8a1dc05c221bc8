// Line and bar charts: scales with round ticks, then paths and text.
#include "view/chart.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

// --- text ---

void es_html_add(EsText *text, const char *foreign) {
    es_text_add_utf8(text, foreign, strlen(foreign), ES_TEXT_HTML);
}

void es_html_print(EsText *text, const char *format, ...) {
    char line[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    es_text_add_string(text, line);
}

// Digits of a whole number below 1e15 in groups of three, kept apart by narrow blanks.
static void add_grouped(EsText *text, double value) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.0f", fabs(value));
    es_text_add_string(text, value < 0 ? "\xe2\x88\x92" : "");
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            es_text_add_string(text, "\xe2\x80\xaf");
        }
        es_text_add(text, &digits[i], 1);
    }
}

void es_html_number(EsText *text, double value, int n_digits) {
    double size = fabs(value);
    if (!isfinite(value)) {
        es_text_add_string(text, isnan(value) ? "\xe2\x80\x93" : value > 0 ? "∞" : "−∞");
    } else if (size == 0) {
        es_text_add_string(text, "0");
    } else if (size >= 1e15 || size < 1e-4) {
        es_html_print(text, "%s%.*e", value < 0 ? "\xe2\x88\x92" : "", n_digits - 1, size);
    } else if (size >= pow(10, n_digits - 1) || size == floor(size)) {
        add_grouped(text, round(value));
    } else {
        // below 0.1 the zeros behind the point do not count as digits
        int n_before = size >= 0.1 && size < 1 ? 1 : (int)floor(log10(size)) + 1;
        es_html_print(text, "%s%.*f", value < 0 ? "\xe2\x88\x92" : "",
                      ES_MAX(n_digits - n_before, 0), size);
    }
}

void es_html_empty(EsText *text, const char *words) {
    es_html_print(text, "<p class=\"empty\">%s</p>\n", words);
}

// --- scales ---

#define WIDTH   480
#define HEIGHT  250
#define LEFT    58
#define RIGHT   14
#define TOP     12
#define BOTTOM  42
#define N_TICKS 5

typedef struct Scale {
    double low, high, step; // of the data, at round numbers
    double begin, end;      // on the drawing
} Scale;

static double round_step(double range) {
    double raw = range / N_TICKS, size = pow(10, floor(log10(raw))), share = raw / size;
    return size * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

// A scale around [low, high] whose ends are ticks, or for `is_tight` the ends themselves.
static Scale make_scale(double low, double high, int is_tight, double begin, double end) {
    if (high - low < 1e-9 * ES_MAX(fabs(high), 1e-3)) {
        double margin = fabs(high) > 0 ? fabs(high) * 0.1 : 1;
        int is_positive = low >= 0; // a count of 0 has no room below
        low -= is_tight ? 0 : margin;
        low = is_positive ? fmax(low, 0) : low;
        high += margin;
    }
    double step = round_step(high - low);
    if (!is_tight) {
        low = floor(low / step + 1e-9) * step;
        high = ceil(high / step - 1e-9) * step;
    }
    return (Scale){low, high, step, begin, end};
}

static double place(const Scale *scale, double value) {
    return scale->begin +
           (value - scale->low) / (scale->high - scale->low) * (scale->end - scale->begin);
}

static void extend(double value, double *low, double *high) {
    if (isfinite(value)) {
        *low = fmin(*low, value);
        *high = fmax(*high, value);
    }
}

static int find_ranges(const EsChart *chart, double x[2], double y[2]) {
    x[0] = y[0] = INFINITY;
    x[1] = y[1] = -INFINITY;
    for (int s = 0; s < chart->n_series; s++) {
        const EsSeries *series = &chart->series[s];
        for (int i = 0; i < series->n; i++) {
            if (isfinite(series->y[i])) {
                extend(series->x[i], &x[0], &x[1]);
                extend(series->y[i], &y[0], &y[1]);
                if (series->low != NULL) {
                    extend(series->low[i], &y[0], &y[1]);
                    extend(series->high[i], &y[0], &y[1]);
                }
            }
        }
    }
    if (chart->starts_at_zero) {
        extend(0, &y[0], &y[1]);
    }
    return y[0] <= y[1];
}

// --- lines ---

// "1.5 M": a number of the scale in units of the scale's largest.
static void add_large_tick(EsText *text, double value, double step, double largest) {
    static const struct {
        double size;
        const char *letter;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}};
    size_t i = 0;
    while (i + 1 < ES_COUNT_OF(units) && largest < units[i].size) {
        i++;
    }
    int n_decimals = ES_MIN(ES_MAX((int)ceil(log10(units[i].size / step) - 1e-9), 0), 4);
    es_html_print(text, "%s%.*f\xe2\x80\xaf%s", value < 0 ? "\xe2\x88\x92" : "", n_decimals,
                  fabs(value) / units[i].size, units[i].letter);
}

static void add_tick(EsText *text, double value, const Scale *scale, double step) {
    double largest = fmax(fabs(scale->low), fabs(scale->high));
    if (fabs(value) < step * 1e-6) {
        es_text_add_string(text, "0");
    } else if (largest >= 1e15) {
        es_html_print(text, "%.2e", value);
    } else if (largest >= 1e6) {
        add_large_tick(text, value, step, largest);
    } else if (step >= 1) {
        add_grouped(text, value);
    } else {
        int n_decimals = (int)ceil(-log10(step) - 1e-9);
        const char *sign = value < 0 ? "\xe2\x88\x92" : "";
        if (n_decimals > 4) {
            es_html_print(text, "%s%.1e", sign, fabs(value));
        } else {
            es_html_print(text, "%s%.*f", sign, n_decimals, fabs(value));
        }
    }
}

static void add_axes(EsText *text, const EsChart *chart, const Scale *x, const Scale *y) {
    for (double value = y->low; value <= y->high + y->step * 1e-6; value += y->step) {
        double at = place(y, value);
        es_html_print(text, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, at, WIDTH - RIGHT);
        es_html_print(text, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                      LEFT - 7, at + 4);
        add_tick(text, value, y, y->step);
        es_text_add_string(text, "</text>");
    }
    double step = ES_MAX(x->step, 1); // rounds, steps and epochs are whole
    for (double value = ceil(x->low / step) * step; value <= x->high; value += step) {
        double at = place(x, value);
        es_html_print(text, "<path class=\"axis\" d=\"M%.1f %dv5\"/>", at, HEIGHT - BOTTOM);
        es_html_print(text, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", at,
                      HEIGHT - BOTTOM + 19);
        add_tick(text, value, x, step);
        es_text_add_string(text, "</text>");
    }
    es_html_print(text, "<path class=\"axis\" d=\"M%d %dH%d\"/>", LEFT, HEIGHT - BOTTOM,
                  WIDTH - RIGHT);
    es_html_print(text,
                  "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                  (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, chart->x_label);
}

static void add_line(EsText *text, const EsSeries *series, const Scale *x, const Scale *y) {
    es_html_print(text, "<path class=\"line c%d\" d=\"", series->colour);
    int is_down = 0;
    for (int i = 0; i < series->n; i++) {
        if (isfinite(series->y[i])) {
            es_html_print(text, "%c%.1f %.1f", is_down ? 'L' : 'M', place(x, series->x[i]),
                          place(y, series->y[i]));
        }
        is_down = isfinite(series->y[i]);
    }
    es_text_add_string(text, "\"/>");
    // a point that has no neighbour has no line
    for (int i = 0; i < series->n; i++) {
        int is_alone = isfinite(series->y[i]) && (i == 0 || !isfinite(series->y[i - 1])) &&
                       (i + 1 == series->n || !isfinite(series->y[i + 1]));
        if (is_alone || (series->n <= 12 && isfinite(series->y[i]))) {
            es_html_print(text, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>",
                          series->colour, place(x, series->x[i]), place(y, series->y[i]));
        }
    }
}

// A name in a list that | divides.
static void add_name(EsText *text, const char *name) {
    while (*name != '\0') {
        size_t bytes = strcspn(name, "|");
        es_text_add_utf8(text, name, bytes, ES_TEXT_HTML);
        name += bytes;
        if (*name == '|') {
            es_text_add_string(text, "/");
            name++;
        }
    }
}

static int has_band_at(const EsSeries *series, int i) {
    return isfinite(series->low[i]) && isfinite(series->high[i]);
}

// The points [begin, end), along the upper edge and back along the lower one.
static void add_band_part(EsText *text, const EsSeries *series, int begin, int end, const Scale *x,
                          const Scale *y) {
    es_html_print(text, "<path class=\"band c%d\" d=\"", series->colour);
    for (int pass = 0; pass < 2; pass++) {
        for (int k = begin; k < end; k++) {
            int i = pass == 0 ? k : begin + end - 1 - k;
            double value = pass == 0 ? series->high[i] : series->low[i];
            es_html_print(text, "%s%.1f %.1f", pass == 0 && k == begin ? "M" : "L",
                          place(x, series->x[i]), place(y, value));
        }
    }
    es_text_add_string(text, "Z\"/>\n");
}

// In parts: where there is no interval there is no band.
static void add_band(EsText *text, const EsSeries *series, const Scale *x, const Scale *y) {
    for (int begin = 0, end; begin < series->n; begin = end) {
        for (end = begin; end < series->n && has_band_at(series, end);) {
            end++;
        }
        if (end > begin) {
            add_band_part(text, series, begin, end, x, y);
        } else {
            end++;
        }
    }
}

static void add_legend(EsText *text, const EsChart *chart) {
    if (chart->n_series > 1 || chart->has_legend) {
        es_text_add_string(text, "<ul class=\"legend\">");
        for (int i = 0; i < chart->n_series; i++) {
            es_html_print(text,
                          "<li><svg class=\"key\" viewBox=\"0 0 22 10\" aria-hidden=\"true\"><path "
                          "class=\"line c%d\" d=\"M1 5H21\"/></svg>",
                          chart->series[i].colour);
            es_html_add(text, chart->series[i].label);
            es_text_add_string(text, "</li>");
        }
        es_text_add_string(text, "</ul>");
    }
    if (chart->note != NULL) {
        es_html_print(text, "<p class=\"note\">%s</p>", chart->note);
    }
}

static double last_finite(const EsSeries *series) {
    for (int i = series->n - 1; i >= 0; i--) {
        if (isfinite(series->y[i])) {
            return series->y[i];
        }
    }
    return NAN;
}

static void add_caption(EsText *text, const char *title, const char *unit) {
    es_html_print(text, "<figure class=\"chart\"><figcaption>%s", title);
    if (unit[0] != '\0') {
        es_html_print(text, " <span class=\"unit\">%s</span>", unit);
    }
    es_text_add_string(text, "</figcaption>\n");
}

void es_chart_lines(EsText *text, const EsChart *chart) {
    double x_range[2], y_range[2];
    add_caption(text, chart->title, chart->unit);
    if (!find_ranges(chart, x_range, y_range)) {
        es_html_empty(text, "Nothing recorded yet.");
        es_text_add_string(text, "</figure>\n");
        return;
    }
    Scale x = make_scale(x_range[0], x_range[1], 1, LEFT, WIDTH - RIGHT);
    Scale y = make_scale(y_range[0], y_range[1], 0, HEIGHT - BOTTOM, TOP);
    // the page's script reads points off the lines by these
    es_html_print(text,
                  "<svg viewBox=\"0 0 %d %d\" data-x=\"%g %g %g %g\" data-y=\"%g %g %g %g\" "
                  "data-names=\"",
                  WIDTH, HEIGHT, x.low, x.high, x.begin, x.end, y.low, y.high, y.begin, y.end);
    for (int i = 0; i < chart->n_series; i++) {
        es_text_add_string(text, i > 0 ? "|" : "");
        add_name(text, chart->series[i].label);
    }
    es_html_print(text, "\" role=\"img\" aria-label=\"%s%s%s by %s", chart->title,
                  chart->unit[0] != '\0' ? ", " : "", chart->unit, chart->x_label);
    for (int i = 0; i < chart->n_series; i++) {
        es_text_add_string(text, i == 0 ? "; last: " : ", ");
        es_html_add(text, chart->series[i].label);
        es_text_add_string(text, " ");
        es_html_number(text, last_finite(&chart->series[i]), 4);
    }
    es_text_add_string(text, "\">\n");
    add_axes(text, chart, &x, &y);
    for (int i = 0; i < chart->n_series; i++) {
        if (chart->series[i].low != NULL) {
            add_band(text, &chart->series[i], &x, &y);
        }
    }
    for (int i = 0; i < chart->n_series; i++) {
        add_line(text, &chart->series[i], &x, &y);
    }
    es_text_add_string(text, "</svg>\n");
    add_legend(text, chart);
    es_text_add_string(text, "</figure>\n");
}

// --- bars ---

#define BAR_HEIGHT 26
#define BAR_LEFT   138
#define BAR_DIGITS 4
// characters of a label that fit to the left of the bars
#define LABEL_CHARACTERS 19

static void add_bar_label(EsText *text, const char *label) {
    size_t bytes = strlen(label), fit = es_text_fit(label, bytes, LABEL_CHARACTERS);
    es_text_add_string(text, "<title>");
    es_html_add(text, label);
    es_text_add_string(text, "</title>");
    es_text_add_utf8(text, label, fit, ES_TEXT_HTML);
    es_text_add_string(text, fit < bytes ? "\xe2\x80\xa6" : "");
}

static void add_bar(EsText *text, const EsBar *bar, const Scale *x, int i) {
    double y = i * BAR_HEIGHT, zero = place(x, 0), end = place(x, bar->value);
    int has_interval = isfinite(bar->low) && isfinite(bar->high);
    es_html_print(text, "<text class=\"tick\" x=\"%d\" y=\"%.0f\" text-anchor=\"end\">",
                  BAR_LEFT - 8, y + 17);
    add_bar_label(text, bar->label);
    es_text_add_string(text, "</text>");
    if (isfinite(bar->value)) {
        es_html_print(text,
                      "<rect class=\"bar\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"16\"/>",
                      fmin(zero, end), y + 4, fmax(fabs(end - zero), 1));
    }
    if (has_interval) {
        double low = place(x, bar->low), high = place(x, bar->high);
        es_html_print(text,
                      "<path class=\"whisker\" d=\"M%.1f %.0fH%.1fM%.1f %.0fv8M%.1f %.0fv8\"/>",
                      low, y + 12, high, low, y + 8, high, y + 8);
    }
    double right = fmax(zero, has_interval ? place(x, bar->high) : end);
    es_html_print(text, "<text class=\"value\" x=\"%.1f\" y=\"%.0f\">", fmax(right, BAR_LEFT) + 7,
                  y + 17);
    es_html_number(text, bar->value, BAR_DIGITS);
    if (bar->note != NULL) {
        es_text_add_string(text, " ");
        es_html_add(text, bar->note);
    }
    es_text_add_string(text, "</text>\n");
}

// Room for the number and the note behind a bar, by the widest digits of the page's bold font.
static double value_width(const EsBar *bar) {
    EsText number = {0};
    es_html_number(&number, bar->value, BAR_DIGITS);
    size_t n_characters = number.length > 0 ? es_text_width(number.bytes, number.length) : 0;
    es_text_destroy(&number);
    if (bar->note != NULL) {
        n_characters += 1 + es_text_width(bar->note, strlen(bar->note));
    }
    return 8 + 8.6 * (double)n_characters;
}

void es_chart_bars(EsText *text, const char *title, const char *unit, const EsBar *bars,
                   int n_bars) {
    double low = 0, high = 0, widest = 0;
    for (int i = 0; i < n_bars; i++) {
        widest = fmax(widest, value_width(&bars[i]));
        extend(bars[i].value, &low, &high);
        extend(bars[i].low, &low, &high);
        extend(bars[i].high, &low, &high);
    }
    add_caption(text, title, unit);
    if (n_bars == 0) {
        es_html_empty(text, "Nothing recorded yet.");
        es_text_add_string(text, "</figure>\n");
        return;
    }
    Scale x = make_scale(low, high, 1, BAR_LEFT, WIDTH - widest);
    int height = n_bars * BAR_HEIGHT + 4;
    es_html_print(text, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s, %s\">\n", WIDTH,
                  height, title, unit);
    es_html_print(text, "<path class=\"axis\" d=\"M%.1f 0V%d\"/>\n", place(&x, 0), height);
    for (int i = 0; i < n_bars; i++) {
        add_bar(text, &bars[i], &x, i);
    }
    es_text_add_string(text, "</svg></figure>\n");
}
