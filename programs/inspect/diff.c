// `esper diff`: two runs beside each other, as a table or as JSON.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "runs/inspect/run_compare.h"

// --- JSON ---

// Names come from files: one that is not UTF-8 must not lose the whole entry.
static json_t *text_or_null(const char *text) {
    json_t *string = text != NULL ? json_string(text) : NULL;
    return string != NULL ? string : json_null();
}

static json_t *describe_measure(EsMeasure measure) {
    if (measure.n == 0) {
        return json_null();
    }
    json_t *object = json_object();
    json_object_set_new(object, "value", es_json_number(measure.value));
    json_object_set_new(object, "spread", es_json_number(measure.spread));
    json_object_set_new(object, "noise", es_json_number(measure.noise));
    json_object_set_new(object, "samples", json_integer((json_int_t)measure.n));
    return object;
}

static json_t *describe_run(const EsRunReport *report) {
    json_t *object = json_object();
    json_object_set_new(object, "path", text_or_null(report->path));
    json_object_set_new(object, "kind", text_or_null(report->kind));
    json_object_set_new(object, "task", text_or_null(report->task));
    json_object_set_new(object, "device", text_or_null(report->device));
    json_object_set_new(object, "outcome", text_or_null(report->outcome));
    return object;
}

static json_t *describe_settings(const EsRunComparison *comparison) {
    json_t *array = json_array();
    for (int i = 0; i < comparison->n_settings; i++) {
        const EsSettingPair *pair = &comparison->settings[i];
        json_t *object = json_object();
        json_object_set_new(object, "name",
                            text_or_null(pair->a != NULL ? pair->a->name : pair->b->name));
        json_object_set_new(object, "a", text_or_null(pair->a != NULL ? pair->a->value : NULL));
        json_object_set_new(object, "b", text_or_null(pair->b != NULL ? pair->b->value : NULL));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *describe_figures(const EsRunComparison *comparison, int first, int end) {
    json_t *array = json_array();
    for (int i = first; i < end; i++) {
        EsMeasure a = comparison->a->measures[i], b = comparison->b->measures[i];
        json_t *object = json_object();
        json_object_set_new(object, "name", json_string(es_figure_name((EsFigure)i)));
        json_object_set_new(object, "unit", json_string(es_figure_unit((EsFigure)i)));
        json_object_set_new(object, "a", describe_measure(a));
        json_object_set_new(object, "b", describe_measure(b));
        json_object_set_new(object, "difference", es_json_number(b.value - a.value));
        json_object_set_new(object, "verdict",
                            json_string(es_verdict_name(comparison->measures[i])));
        json_array_append_new(array, object);
    }
    return array;
}

// A single number has no interval.
static json_t *describe_interval(EsMeasure measure) {
    if (measure.n == 0) {
        return json_null();
    }
    json_t *object = json_object();
    json_object_set_new(object, "value", es_json_number(measure.value));
    json_object_set_new(object, "low", es_json_number(measure.value - measure.noise));
    json_object_set_new(object, "high", es_json_number(measure.value + measure.noise));
    json_object_set_new(object, "samples", json_integer((json_int_t)measure.n));
    return object;
}

static json_t *describe_held_out(const EsRunComparison *comparison) {
    json_t *array = json_array();
    for (int i = 0; i < comparison->n_held_out; i++) {
        const EsHeldOutPair *pair = &comparison->held_out[i];
        const EsRunHeldOut *any = pair->a != NULL ? pair->a : pair->b;
        json_t *object = json_object();
        json_object_set_new(object, "name", text_or_null(any->name));
        json_object_set_new(object, "unit", json_string(any->unit));
        json_object_set_new(object, "a",
                            pair->a != NULL ? describe_interval(pair->a->score) : json_null());
        json_object_set_new(object, "b",
                            pair->b != NULL ? describe_interval(pair->b->score) : json_null());
        json_object_set_new(object, "difference", describe_interval(pair->difference));
        json_object_set_new(object, "is_paired", json_boolean(pair->is_paired));
        json_object_set_new(object, "verdict", json_string(es_verdict_name(pair->verdict)));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *describe_metric(const EsRunMetric *metric) {
    if (metric == NULL) {
        return json_null();
    }
    json_t *object = json_object();
    json_object_set_new(object, "last", es_json_number(metric->last));
    json_object_set_new(object, "last_ten_rounds", describe_measure(metric->mean));
    return object;
}

static json_t *describe_metrics(const EsRunComparison *comparison) {
    json_t *array = json_array();
    for (int i = 0; i < comparison->n_metrics; i++) {
        const EsMetricPair *pair = &comparison->metrics[i];
        double difference =
            pair->a != NULL && pair->b != NULL ? pair->b->mean.value - pair->a->mean.value : NAN;
        json_t *object = json_object();
        json_object_set_new(object, "name",
                            text_or_null(pair->a != NULL ? pair->a->name : pair->b->name));
        json_object_set_new(object, "a", describe_metric(pair->a));
        json_object_set_new(object, "b", describe_metric(pair->b));
        json_object_set_new(object, "difference", es_json_number(difference));
        json_object_set_new(object, "is_equal", json_boolean(pair->is_equal));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *describe_latency(const EsRunLatency *latency) {
    if (latency == NULL) {
        return json_null();
    }
    json_t *object = json_object();
    json_object_set_new(object, "calls", json_integer((json_int_t)latency->n_calls));
    json_object_set_new(object, "p50_ms", describe_measure(latency->p50_ms));
    json_object_set_new(object, "p95_ms", describe_measure(latency->p95_ms));
    json_object_set_new(object, "max_ms", es_json_number(latency->max_ms.value));
    return object;
}

static json_t *describe_latencies(const EsRunComparison *comparison) {
    json_t *array = json_array();
    for (int i = 0; i < comparison->n_latencies; i++) {
        const EsLatencyPair *pair = &comparison->latencies[i];
        json_t *object = json_object();
        json_object_set_new(object, "name",
                            text_or_null(pair->a != NULL ? pair->a->name : pair->b->name));
        json_object_set_new(object, "a", describe_latency(pair->a));
        json_object_set_new(object, "b", describe_latency(pair->b));
        if (pair->a != NULL && pair->b != NULL) {
            json_t *ratio = json_object();
            json_object_set_new(ratio, "p50",
                                es_json_number(pair->b->p50_ms.value / pair->a->p50_ms.value));
            json_object_set_new(ratio, "p95",
                                es_json_number(pair->b->p95_ms.value / pair->a->p95_ms.value));
            json_object_set_new(ratio, "max",
                                es_json_number(pair->b->max_ms.value / pair->a->max_ms.value));
            json_object_set_new(object, "ratio", ratio);
        }
        json_object_set_new(object, "verdict", json_string(es_verdict_name(pair->verdict)));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *describe_events(const EsRunComparison *comparison) {
    json_t *array = json_array();
    for (int i = 0; i < comparison->n_events; i++) {
        const EsEventPair *pair = &comparison->events[i];
        json_t *object = json_object();
        json_object_set_new(object, "name",
                            text_or_null(pair->a != NULL ? pair->a->name : pair->b->name));
        json_object_set_new(object, "a", json_integer(pair->a != NULL ? pair->a->n_rows : 0));
        json_object_set_new(object, "b", json_integer(pair->b != NULL ? pair->b->n_rows : 0));
        json_object_set_new(object, "is_lacking", json_boolean(es_event_is_lacking(pair)));
        json_array_append_new(array, object);
    }
    return array;
}

// Prints {"a", "b", "configuration", "outcome", "held_out", "throughput", "metrics", "latencies",
// "events", "n_lacking"}; a missing measure is null. IO when the stream fails.
static EsStatus print_json(const EsRunComparison *comparison, FILE *stream) {
    json_t *root = json_object();
    json_object_set_new(root, "a", describe_run(comparison->a));
    json_object_set_new(root, "b", describe_run(comparison->b));
    json_object_set_new(root, "configuration", describe_settings(comparison));
    json_object_set_new(root, "outcome",
                        describe_figures(comparison, 0, ES_FIGURE_FIRST_OF_THROUGHPUT));
    json_object_set_new(root, "held_out", describe_held_out(comparison));
    json_object_set_new(
        root, "throughput",
        describe_figures(comparison, ES_FIGURE_FIRST_OF_THROUGHPUT, ES_FIGURE_COUNT));
    json_object_set_new(root, "metrics", describe_metrics(comparison));
    json_object_set_new(root, "latencies", describe_latencies(comparison));
    json_object_set_new(root, "events", describe_events(comparison));
    json_object_set_new(root, "n_lacking", json_integer(comparison->n_lacking));
    return es_json_write(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15), stream);
}

// --- cells ---

static void print_text(const char *text, int width) { es_padded_text_print(text, width, stdout); }

static void print_cell(double value, const char *format, int width) {
    char text[32] = "-";
    if (isfinite(value)) {
        snprintf(text, sizeof text, format, value);
    }
    printf(" %*s", width, text);
}

static void print_number(double value, const char *format) { print_cell(value, format, 11); }

static const char *mark_of(EsVerdict verdict) {
    static const char *const marks[] = {[ES_VERDICT_MISSING] = "",
                                        [ES_VERDICT_EQUAL] = "=",
                                        [ES_VERDICT_NOISE] = "~",
                                        [ES_VERDICT_UNKNOWN] = "?",
                                        [ES_VERDICT_DIFFERS] = "*"};
    return marks[verdict];
}

static void print_mark(EsVerdict verdict) {
    const char *mark = mark_of(verdict);
    printf("%s%s\n", mark[0] != '\0' ? "  " : "", mark);
}

// An exact value has no spread.
static void print_measure(EsMeasure measure) {
    print_number(measure.n > 0 ? measure.value : NAN, "%.6g");
    print_number(measure.n > 1 ? measure.spread : NAN, "%.3g");
}

static void print_measures(EsMeasure a, EsMeasure b) {
    print_measure(a);
    print_measure(b);
    print_number(b.value - a.value, "%+.4g");
}

// --- sections ---

static void print_runs(const EsRunComparison *comparison) {
    const EsRunReport *runs[] = {comparison->a, comparison->b};
    for (int i = 0; i < 2; i++) {
        printf("%c  ", 'A' + i);
        const char *texts[] = {runs[i]->kind, runs[i]->task, runs[i]->device, runs[i]->outcome};
        print_text(runs[i]->path, 0);
        for (size_t k = 0; k < ES_COUNT_OF(texts); k++) {
            printf("%s", k == 0 ? "  (" : ", ");
            print_text(texts[k], 0);
        }
        printf(")\n");
    }
}

static void print_settings(const EsRunComparison *comparison) {
    if (comparison->n_settings == 0) {
        printf("\nconfiguration: the same\n");
        return;
    }
    int width = 30;
    printf("\n%-*s %-24s %s\n", width, "configuration", "A", "B");
    for (int i = 0; i < comparison->n_settings; i++) {
        const EsSettingPair *pair = &comparison->settings[i];
        printf("  ");
        print_text(pair->a != NULL ? pair->a->name : pair->b->name, width - 2);
        printf(" ");
        print_text(pair->a != NULL ? pair->a->value : "(not there)", 24);
        printf(" ");
        print_text(pair->b != NULL ? pair->b->value : "(not there)", 0);
        printf("\n");
    }
}

static void print_heading(const char *title, int width) {
    printf("\n%-*s %11s %11s %11s %11s %11s\n", width, title, "A", "spread", "B", "spread",
           "B - A");
}

static void print_figures(const EsRunComparison *comparison, const char *title, int first,
                          int end) {
    int width = 24;
    print_heading(title, width);
    for (int i = first; i < end; i++) {
        EsMeasure a = comparison->a->measures[i], b = comparison->b->measures[i];
        if (a.n > 0 || b.n > 0) {
            const char *unit = es_figure_unit((EsFigure)i);
            char label[64];
            snprintf(label, sizeof label, "%s%s%s", es_figure_name((EsFigure)i),
                     unit[0] != '\0' ? ", " : "", unit);
            printf("  %-*s", width - 2, label);
            print_measures(a, b);
            print_mark(comparison->measures[i]);
        }
    }
}

// A value and, where it is known, half of its interval of 95 %.
static void print_interval(EsMeasure measure, int is_signed, int is_mrr) {
    char text[48] = "-";
    int n_decimals = is_mrr ? 4 : 2;
    if (measure.n > 0 && isfinite(measure.value)) {
        int length =
            snprintf(text, sizeof text, is_signed ? "%+.*f" : "%.*f", n_decimals, measure.value);
        if (isfinite(measure.noise) && measure.n > 1) {
            snprintf(text + length, sizeof text - (size_t)length, " +- %.*f", n_decimals,
                     measure.noise);
        }
    }
    printf(" %18s", text);
}

static void print_held_out(const EsRunComparison *comparison) {
    const EsMeasure missing = {NAN, NAN, NAN, 0};
    int width = 24;
    for (int i = 0; i < comparison->n_held_out; i++) {
        const EsHeldOutPair *pair = &comparison->held_out[i];
        const EsRunHeldOut *any = pair->a != NULL ? pair->a : pair->b;
        width = ES_MAX(width, ES_MIN(es_padded_text_width(any->name), 60) + 7);
    }
    printf("\n%-*s %18s %18s %18s\n", width, "held-out, test split", "A", "B", "B - A");
    for (int i = 0; i < comparison->n_held_out; i++) {
        const EsHeldOutPair *pair = &comparison->held_out[i];
        const EsRunHeldOut *any = pair->a != NULL ? pair->a : pair->b;
        int is_mrr = strcmp(any->unit, "MRR") == 0;
        printf("  ");
        print_text(any->name, width - 7);
        printf(" %-4s", is_mrr ? "MRR" : "%");
        print_interval(pair->a != NULL ? pair->a->score : missing, 0, is_mrr);
        print_interval(pair->b != NULL ? pair->b->score : missing, 0, is_mrr);
        print_interval(pair->difference, 1, is_mrr);
        printf("%s", pair->is_paired ? "  paired" : "");
        print_mark(pair->verdict);
    }
}

static int width_of_metrics(const EsRunComparison *comparison) {
    int width = 24;
    for (int i = 0; i < comparison->n_metrics; i++) {
        const EsMetricPair *pair = &comparison->metrics[i];
        int length = es_padded_text_width(pair->a != NULL ? pair->a->name : pair->b->name);
        width = ES_MAX(width, ES_MIN(length, 60) + 2);
    }
    return width;
}

static void print_metrics(const EsRunComparison *comparison) {
    int width = width_of_metrics(comparison), n_equal = 0;
    printf("\n%-*s %11s %11s %11s %11s %11s %11s %11s\n", width, "metrics", "last A", "last B",
           "A, mean 10", "spread", "B, mean 10", "spread", "B - A");
    for (int i = 0; i < comparison->n_metrics; i++) {
        const EsMetricPair *pair = &comparison->metrics[i];
        if (pair->a == NULL || pair->b == NULL) {
            continue;
        }
        if (pair->is_equal) {
            n_equal++;
            continue;
        }
        printf("  ");
        print_text(pair->a->name, width - 2);
        print_number(pair->a->last, "%.6g");
        print_number(pair->b->last, "%.6g");
        print_measures(pair->a->mean, pair->b->mean);
        printf("\n");
    }
    if (n_equal > 0) {
        printf("  %d equal in both\n", n_equal);
    }
}

#define LATENCY_WIDTH 9

static void print_ratio(double a, double b) {
    print_cell(a, "%.4g", LATENCY_WIDTH);
    print_cell(b, "%.4g", LATENCY_WIDTH);
    print_cell(b / a, "%.2fx", LATENCY_WIDTH);
}

static void print_latency(const EsLatencyPair *pair) {
    const EsMeasure missing = {NAN, NAN, NAN, 0};
    const EsRunLatency absent = {.p50_ms = missing, .p95_ms = missing, .max_ms = missing};
    const EsRunLatency *a = pair->a != NULL ? pair->a : &absent;
    const EsRunLatency *b = pair->b != NULL ? pair->b : &absent;
    printf("  ");
    print_text(pair->a != NULL ? pair->a->name : pair->b->name, 16);
    print_cell(a->p50_ms.value, "%.4g", LATENCY_WIDTH);
    print_cell(a->p50_ms.spread, "%.3g", LATENCY_WIDTH);
    print_cell(b->p50_ms.value, "%.4g", LATENCY_WIDTH);
    print_cell(b->p50_ms.spread, "%.3g", LATENCY_WIDTH);
    print_cell(b->p50_ms.value / a->p50_ms.value, "%.2fx", LATENCY_WIDTH);
    print_ratio(a->p95_ms.value, b->p95_ms.value);
    print_ratio(a->max_ms.value, b->max_ms.value);
    print_mark(pair->verdict);
}

static void print_latencies(const EsRunComparison *comparison) {
    static const char *const columns[] = {"p50 A", "spread", "p50 B", "spread", "B/A", "p95 A",
                                          "p95 B", "B/A",    "max A", "max B",  "B/A"};
    printf("\n%-18s", "latency, ms");
    for (size_t i = 0; i < ES_COUNT_OF(columns); i++) {
        printf(" %*s", LATENCY_WIDTH, columns[i]);
    }
    printf("\n");
    for (int i = 0; i < comparison->n_latencies; i++) {
        print_latency(&comparison->latencies[i]);
    }
}

// The names that one run alone has, on a line of their own.
static void print_lonely(const EsRunComparison *comparison, int is_a) {
    int n = 0;
    for (int i = 0; i < comparison->n_metrics + comparison->n_events; i++) {
        const char *kind = "metric ", *name = NULL;
        if (i < comparison->n_metrics) {
            const EsMetricPair *pair = &comparison->metrics[i];
            const EsRunMetric *own = is_a ? pair->a : pair->b, *other = is_a ? pair->b : pair->a;
            name = own != NULL && other == NULL ? own->name : NULL;
        } else {
            const EsEventPair *pair = &comparison->events[i - comparison->n_metrics];
            const EsRunEventCount *own = is_a ? pair->a : pair->b;
            const EsRunEventCount *other = is_a ? pair->b : pair->a;
            kind = "event ";
            name = own != NULL && other == NULL ? own->name : NULL;
        }
        if (name != NULL) {
            printf("%s%s", n++ == 0 ? (is_a ? "\nonly in A: " : "\nonly in B: ") : ", ", kind);
            print_text(name, 0);
        }
    }
    if (n > 0) {
        printf("\n");
    }
}

static void print_comparison(const EsRunComparison *comparison) {
    print_runs(comparison);
    print_settings(comparison);
    print_figures(comparison, "outcome", 0, ES_FIGURE_FIRST_OF_THROUGHPUT);
    if (comparison->n_held_out > 0) {
        print_held_out(comparison);
    }
    print_figures(comparison, "throughput", ES_FIGURE_FIRST_OF_THROUGHPUT, ES_FIGURE_COUNT);
    if (comparison->n_latencies > 0) {
        print_latencies(comparison);
    }
    if (comparison->n_metrics > 0) {
        print_metrics(comparison);
    }
    print_lonely(comparison, 1);
    print_lonely(comparison, 0);
    printf("\n* differs   ~ within noise   ? one sample, no noise known   = equal\n");
}

// --- the command ---

static EsExit fail_superset(const EsRunComparison *comparison) {
    fflush(stdout);
    fprintf(stderr, "esper diff: ");
    es_padded_text_print(comparison->b->path, 0, stderr);
    fprintf(stderr, " lacks %d of the metrics and events that ", comparison->n_lacking);
    es_padded_text_print(comparison->a->path, 0, stderr);
    fprintf(stderr, " has:");
    for (int i = 0; i < comparison->n_metrics; i++) {
        if (es_metric_is_lacking(&comparison->metrics[i])) {
            fputc(' ', stderr);
            es_padded_text_print(comparison->metrics[i].a->name, 0, stderr);
        }
    }
    for (int i = 0; i < comparison->n_events; i++) {
        if (es_event_is_lacking(&comparison->events[i])) {
            fputc(' ', stderr);
            es_padded_text_print(comparison->events[i].a->name, 0, stderr);
        }
    }
    fprintf(stderr, "\n");
    return ES_EXIT_FAILED;
}

static EsExit compare_runs(const char *a, const char *b, int as_json, int is_superset) {
    EsRunComparison *comparison = NULL;
    EsStatus status = es_run_compare(a, b, &comparison);
    if (status == ES_STATUS_OK && as_json) {
        status = es_output_status(print_json(comparison, stdout));
    } else if (status == ES_STATUS_OK) {
        print_comparison(comparison);
    }
    EsExit code = es_command_finish("diff", status);
    if (status == ES_STATUS_OK && is_superset && comparison->n_lacking > 0) {
        code = fail_superset(comparison);
    }
    es_run_comparison_destroy(comparison);
    return code;
}

static void print_explanation(void) {
    printf(
        "\nsections:\n"
        "  configuration  settings of config.ini that are not the same in both\n"
        "  outcome        accuracy over the environments of the last and of the best round;\n"
        "                 loss, reward, parameters over the last episodes; time, anomalies\n"
        "  held-out       results on the test split: of grow by policy and baseline, its own\n"
        "                 first; of prove mean reciprocal ranks; of a fit its network, of hosts\n"
        "                 their mean; with intervals of two standard errors (about 95 %%). Where\n"
        "                 both have held-out episodes of the same numbers, differences are paired\n"
        "  throughput     median over rounds\n"
        "  latency        of phases (median over rounds of p50 and p95) and of timed steps\n"
        "  metrics        newest value, and mean over the last ten rounds; not compared, since\n"
        "                 changes over rounds say nothing about chance\n"
        "\n\"spread\" is the standard deviation, of medians the interquartile range. A\n"
        "difference is marked * when it exceeds twice its standard error over environments\n"
        "(Welch: the root of the sum of both squared errors), for medians the root of the sum\n"
        "of both squared spreads. Times must also differ by more than 3 %%. Two runs with other\n"
        "seeds say more than any mark.\n"
        "\nexit codes: 0 compared, with or without differences; 1 with --superset when B lacks\n"
        "something; 2 no such run, or no run.db in it.\n");
}

EsExit cmd_diff(int argc, char **argv) {
    int as_json = 0, is_superset = 0;
    const EsOption options[] = {
        ES_OPTION_FLAG("superset", &is_superset,
                       "fail when B lacks a metric or event type that A has"),
        ES_OPTION_FLAG("json", &as_json, "print one JSON object"),
    };
    const EsOptionTable table = {
        .command = "diff",
        .usage = "[options] A B",
        .summary = "Compare two runs: settings, outcomes and speed. A is the reference. Runs may\n"
                   "still be going on; nothing is changed.",
        .example = "esper diff runs/hosts-before runs/hosts-after",
        .print_more = print_explanation,
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = 2,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    if (arguments.n_positional != 2) {
        return es_command_finish("diff", ES_FAIL(ARGUMENT, "two run folders are needed, %d given",
                                                 arguments.n_positional));
    }
    return compare_runs(arguments.positional[0], arguments.positional[1], as_json, is_superset);
}
