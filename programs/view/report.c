// `esper report`: runs as one HTML file that a colleague can open, print and keep. It needs no
// server, no script and nothing from outside.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "page_assets.h"
#include "view/chart.h"
#include "view/panels.h"

static void begin_page(EsRunView *const *views, int n_views, EsText *html) {
    es_text_add_string(html,
                       "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                       "style-src 'unsafe-inline'; img-src data:\">\n<title>Esper report: ");
    es_html_add(html, es_run_view_name(views[0]));
    if (n_views > 1) {
        es_html_print(html, " and %d more", n_views - 1);
    }
    es_text_add_string(html, "</title>\n<style>\n");
    es_text_add_string(html, page_css);
    es_text_add_string(html, "</style></head><body>\n<header><h1>");
    es_html_add(html, es_run_view_name(views[0]));
    if (n_views > 1) {
        es_html_print(html, " <span class=\"unit\">and %d more</span>", n_views - 1);
    }
    char date[32];
    time_t now = time(NULL);
    struct tm parts;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &parts));
    es_html_print(html,
                  "</h1><p class=\"help\">Written by esper report (%s), %s.</p></header>\n<main>",
                  es_build_commit(), date);
}

// Panels that compare: runs of one kind.
static EsStatus draw_common(EsRunView **views, int n_views, EsText *html) {
    const EsPanelInput input = {views, n_views, {.env = -1}, -1};
    const char *kind = es_run_view_kind(views[0]);
    es_text_add_string(html, "<h1>Runs of ");
    es_html_add(html, kind);
    es_text_add_string(html, " beside each other</h1>\n<div class=\"panels\">\n");
    for (int p = 0; p < es_panel_count(); p++) {
        const EsPanel *panel = es_panel(p);
        if (panel->compares && es_kind_is_among(panel->report_kinds, kind)) {
            ES_TRY(es_panel_draw(panel, &input, html));
        }
    }
    es_text_add_string(html, "</div>\n");
    return ES_STATUS_OK;
}

// One run by itself; with curves unless they were compared before.
static EsStatus draw_run(EsRunView *view, int has_heading, int is_compared, EsText *html) {
    const EsPanelInput input = {&view, 1, {.env = -1}, -1};
    if (has_heading) {
        es_text_add_string(html, "<h1>");
        es_html_add(html, es_run_view_name(view));
        es_text_add_string(html, "</h1>\n");
    }
    es_text_add_string(html, "<div class=\"panels\">\n");
    for (int p = 0; p < es_panel_count(); p++) {
        const EsPanel *panel = es_panel(p);
        if (es_kind_is_among(panel->report_kinds, es_run_view_kind(view)) &&
            !(is_compared && panel->compares)) {
            ES_TRY(es_panel_draw(panel, &input, html));
        }
    }
    es_text_add_string(html, "</div>\n");
    return ES_STATUS_OK;
}

// Collects the runs of one kind, in their order; returns how many.
static int find_kind(EsRunView **views, int n_views, const char *kind, EsRunView **found) {
    int n = 0;
    for (int i = 0; i < n_views; i++) {
        if (strcmp(es_run_view_kind(views[i]), kind) == 0) {
            found[n++] = views[i];
        }
    }
    return n;
}

static EsStatus draw_report(EsRunView **views, int n_views, EsText *html) {
    EsRunView *same[ES_PANEL_MAX_VIEWS];
    begin_page(views, n_views, html);
    for (int i = 0; i < n_views; i++) {
        int n_same = find_kind(views, n_views, es_run_view_kind(views[i]), same);
        if (n_same > 1 && same[0] == views[i]) {
            ES_TRY(draw_common(same, n_same, html));
        }
    }
    for (int i = 0; i < n_views; i++) {
        int n_same = find_kind(views, n_views, es_run_view_kind(views[i]), same);
        ES_TRY(draw_run(views[i], n_views > 1, n_same > 1, html));
    }
    es_text_add_string(html, "</main>\n<footer><p>What each panel means: docs/watching.md of Esper."
                             "</p></footer></body></html>\n");
    return html->status;
}

static EsStatus write_report(const EsArguments *arguments, const char *out, char path[4096]) {
    EsRunView *views[ES_PANEL_MAX_VIEWS] = {NULL};
    int n_views = arguments->n_positional;
    EsText html = {0};
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_views; i++) {
        ES_TRY_GOTO(es_run_view_open(arguments->positional[i], &views[i]));
    }
    const char *first = arguments->positional[0], *slash = strrchr(first, '/');
    int is_database = strcmp(slash != NULL ? slash + 1 : first, "run.db") == 0;
    int n_folder = !is_database ? (int)strlen(first) : slash != NULL ? (int)(slash - first) : 0;
    int length = out != NULL ? snprintf(path, 4096, "%s", out)
                             : snprintf(path, 4096, "%.*s%sreport.html", n_folder, first,
                                        n_folder > 0 ? "/" : "");
    if (length >= 4096) {
        status = ES_FAIL(ARGUMENT, "the path of the report is too long");
        goto done;
    }
    ES_TRY_GOTO(draw_report(views, n_views, &html));
    status = es_file_write_all(path, html.bytes, html.length);
done:
    for (int i = 0; i < n_views; i++) {
        es_run_view_close(views[i]);
    }
    es_text_destroy(&html);
    return status;
}

EsExit cmd_report(int argc, char **argv) {
    const char *out = NULL;
    const EsOption options[] = {
        ES_OPTION_TEXT("out", &out, NULL, "FILE",
                       "write the report to FILE (default RUN/report.html of the first run)"),
    };
    const EsOptionTable table = {
        .command = "report",
        .usage = "[options] RUN ...",
        .summary =
            "Write one HTML file about runs: what was run and on what, learning curves, grown\n"
            "networks as pictures, the comparison with baselines, speed and settings. It needs\n"
            "neither a server nor the network, prints well, and can be sent to a colleague.\n"
            "Several runs of a kind are compared; those that differ by their seed alone become a "
            "mean\n"
            "with an interval. A run may still be going on; nothing in it is changed but the\n"
            "report itself.",
        .example = "esper report runs/demo\n"
                   "         esper report runs/seeds/seed-* --out seeds.html",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = ES_PANEL_MAX_VIEWS,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    char path[4096];
    EsStatus status = arguments.n_positional > 0
                          ? write_report(&arguments, out, path)
                          : ES_FAIL(ARGUMENT, "which run? give a run folder");
    if (status == ES_STATUS_OK) {
        es_print("%s\n", path);
    }
    return es_command_finish("report", status);
}
