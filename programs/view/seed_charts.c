// Charts of measured seeds: a line for each seed of one environment, over the steps of its episode.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "view/chart.h"
#include "view/panels.h"

#define MAX_SEEDS 8 // as many as there are colours

// Rows [begin, end) of the table are of one seed.
typedef struct SeedRows {
    int begin, end;
    char label[160];
} SeedRows;

// Finds the seeds of the table; returns how many there are, of which the first MAX_SEEDS are kept.
static int find_seeds(const json_t *table, const char *word, SeedRows seeds[MAX_SEEDS]) {
    int n = 0, n_rows = es_table_n_rows(table);
    for (int begin = 0, end; begin < n_rows; begin = end) {
        const char *id = es_column_text(table, "seed_id", begin);
        for (end = begin + 1; end < n_rows; end++) {
            if (strcmp(es_column_text(table, "seed_id", end), id) != 0) {
                break;
            }
        }
        if (n < MAX_SEEDS) {
            seeds[n] = (SeedRows){.begin = begin, .end = end};
            snprintf(seeds[n].label, sizeof seeds[n].label, "%.40s %.60s, from %s %.0f",
                     es_column_text(table, "slot", begin),
                     es_column_text(table, "blueprint", begin), word,
                     es_column_real(table, "step", begin));
        }
        n++;
    }
    return n;
}

static EsStatus draw_column(const json_t *table, const SeedRows *seeds, int n_seeds,
                            const char *column, EsChart chart, EsText *html) {
    EsSeries series[MAX_SEEDS];
    double *numbers = NULL;
    int n_rows = es_table_n_rows(table);
    ES_TRY(es_allocate(sizeof *numbers * 2 * (size_t)n_rows, (void **)&numbers));
    for (int i = 0; i < n_rows; i++) {
        numbers[i] = es_column_real(table, "step", i);
        numbers[n_rows + i] = es_column_real(table, column, i);
    }
    for (int i = 0; i < n_seeds; i++) {
        series[i] = (EsSeries){.label = seeds[i].label,
                               .x = numbers + seeds[i].begin,
                               .y = numbers + n_rows + seeds[i].begin,
                               .n = seeds[i].end - seeds[i].begin,
                               .colour = i};
    }
    chart.series = series;
    chart.n_series = n_seeds;
    chart.starts_at_zero = chart.has_legend = 1;
    es_chart_lines(html, &chart);
    es_release(numbers);
    return ES_STATUS_OK;
}

EsStatus es_panel_draw_seeds(EsRunView *view, const EsViewQuestion *question, const char *column,
                             const char *title, const char *unit, EsText *html) {
    EsViewQuestion resolved = *question;
    const char *word = es_run_view_is_one_episode(view) ? "epoch" : "step";
    json_t *table = NULL;
    SeedRows seeds[MAX_SEEDS];
    char note[160] = "";
    ES_TRY(es_run_view_resolve(view, &resolved));
    ES_TRY(es_run_view_read(view, "measured", &resolved, &table));
    int n = find_seeds(table, word, seeds), n_shown = ES_MIN(n, MAX_SEEDS);
    EsStatus status = ES_STATUS_OK;
    if (n == 0) {
        es_html_empty(html, "Alpha, weight and gradient of each seed appear here as curves once a "
                            "seed was measured (telemetry level normal or debug, on the stride).");
        goto done;
    }
    if (n > n_shown) {
        snprintf(note, sizeof note, "The first %d of %d seeds.", n_shown, n);
    }
    es_text_add_string(html, "<div class=\"charts\">\n");
    ES_TRY_GOTO(draw_column(table, seeds, n_shown, "alpha",
                            (EsChart){.title = "Alpha of its seeds",
                                      .unit = "share in the blend, 0 to 1",
                                      .x_label = word,
                                      .note = n > n_shown ? note : NULL},
                            html));
    ES_TRY_GOTO(draw_column(table, seeds, n_shown, column,
                            (EsChart){.title = title, .unit = unit, .x_label = word}, html));
    es_text_add_string(html, "</div>\n");
    es_panel_note_full(html, table, "measurements of these seeds the first");
done:
    json_decref(table);
    return status;
}
