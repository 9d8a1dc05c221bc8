// Comparing two reports: figures against their noise, lists paired by name.
#include "runs/inspect/run_compare.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "runs/inspect/run_report.h"

// a machine is never equally fast twice; as in benchmarks
#define LATENCY_FLOOR 0.03

const char *es_verdict_name(EsVerdict verdict) {
    static const char *const names[] = {[ES_VERDICT_MISSING] = "missing",
                                        [ES_VERDICT_EQUAL] = "equal",
                                        [ES_VERDICT_NOISE] = "noise",
                                        [ES_VERDICT_UNKNOWN] = "unknown",
                                        [ES_VERDICT_DIFFERS] = "differs"};
    return names[verdict];
}

EsVerdict es_measure_compare(EsMeasure a, EsMeasure b, double floor) {
    if (a.n == 0 || b.n == 0) {
        return ES_VERDICT_MISSING;
    }
    double difference = fabs(b.value - a.value);
    if (difference == 0) {
        return ES_VERDICT_EQUAL;
    }
    if (difference <= floor * fabs(a.value)) {
        return ES_VERDICT_NOISE;
    }
    if (isnan(a.noise) || isnan(b.noise)) {
        return ES_VERDICT_UNKNOWN;
    }
    // errors of independent values add as squares (Welch)
    return difference <= hypot(a.noise, b.noise) ? ES_VERDICT_NOISE : ES_VERDICT_DIFFERS;
}

// --- pairing ---

// A list of structs that begin with their name.
typedef struct NamedList {
    const void *items;
    int n;
    size_t item_bytes;
} NamedList;

static const void *item_at(const NamedList *list, int index) {
    return (const char *)list->items + (size_t)index * list->item_bytes;
}

static const char *name_of(const void *item) {
    const char *name;
    memcpy(&name, item, sizeof name);
    return name;
}

// `hint` is where the name probably is: the lists of similar runs run in step.
static int find_name(const NamedList *list, const char *name, int hint) {
    for (int i = 0; i < list->n; i++) {
        int index = (i + hint) % list->n;
        if (strcmp(name_of(item_at(list, index)), name) == 0) {
            return index;
        }
    }
    return -1;
}

typedef EsStatus (*AddPair)(EsRunComparison *comparison, const void *a, const void *b);

static EsStatus pair_lists(EsRunComparison *comparison, NamedList a, NamedList b, AddPair add) {
    for (int i = 0; i < a.n; i++) {
        const void *item = item_at(&a, i);
        int other = find_name(&b, name_of(item), i);
        ES_TRY(add(comparison, item, other >= 0 ? item_at(&b, other) : NULL));
    }
    for (int i = 0; i < b.n; i++) {
        const void *item = item_at(&b, i);
        if (find_name(&a, name_of(item), i) < 0) {
            ES_TRY(add(comparison, NULL, item));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus add_setting(EsRunComparison *comparison, const void *a, const void *b) {
    EsSettingPair pair = {a, b};
    if (a != NULL && b != NULL && strcmp(pair.a->value, pair.b->value) == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_list_grow((void **)&comparison->settings, comparison->n_settings, sizeof pair));
    comparison->settings[comparison->n_settings++] = pair;
    return ES_STATUS_OK;
}

static EsStatus add_metric(EsRunComparison *comparison, const void *a, const void *b) {
    EsMetricPair pair = {a, b, 0};
    if (a != NULL && b != NULL) {
        pair.is_equal = pair.a->mean.value == pair.b->mean.value && pair.a->last == pair.b->last;
    }
    ES_TRY(es_list_grow((void **)&comparison->metrics, comparison->n_metrics, sizeof pair));
    comparison->metrics[comparison->n_metrics++] = pair;
    comparison->n_lacking += es_metric_is_lacking(&pair);
    return ES_STATUS_OK;
}

static EsStatus add_latency(EsRunComparison *comparison, const void *a, const void *b) {
    EsLatencyPair pair = {a, b, ES_VERDICT_MISSING};
    if (a != NULL && b != NULL) {
        pair.verdict = es_measure_compare(pair.a->p50_ms, pair.b->p50_ms, LATENCY_FLOOR);
    }
    ES_TRY(es_list_grow((void **)&comparison->latencies, comparison->n_latencies, sizeof pair));
    comparison->latencies[comparison->n_latencies++] = pair;
    return ES_STATUS_OK;
}

static EsStatus add_event(EsRunComparison *comparison, const void *a, const void *b) {
    EsEventPair pair = {a, b};
    ES_TRY(es_list_grow((void **)&comparison->events, comparison->n_events, sizeof pair));
    comparison->events[comparison->n_events++] = pair;
    comparison->n_lacking += es_event_is_lacking(&pair);
    return ES_STATUS_OK;
}

// Returns whether both have scores of the same episodes, at least two.
static int has_same_episodes(const EsRunHeldOut *a, const EsRunHeldOut *b) {
    return a->n > 1 && a->n == b->n && a->episodes != NULL && b->episodes != NULL &&
           memcmp(a->episodes, b->episodes, sizeof *a->episodes * (size_t)a->n) == 0;
}

static EsMeasure pair_episodes(const EsRunHeldOut *a, const EsRunHeldOut *b, double *differences) {
    for (int64_t i = 0; i < a->n; i++) {
        differences[i] = b->scores[i] - a->scores[i];
    }
    double deviation = 0, mean = es_mean(differences, a->n, sizeof *differences, &deviation);
    return (EsMeasure){mean, deviation, 2 * deviation / sqrt((double)a->n), a->n};
}

static EsVerdict judge_difference(EsMeasure difference) {
    if (difference.n == 0) {
        return ES_VERDICT_MISSING;
    }
    if (difference.value == 0) {
        return ES_VERDICT_EQUAL;
    }
    if (isnan(difference.noise)) {
        return ES_VERDICT_UNKNOWN;
    }
    return fabs(difference.value) <= difference.noise ? ES_VERDICT_NOISE : ES_VERDICT_DIFFERS;
}

static EsStatus add_held_out(EsRunComparison *comparison, const void *a, const void *b) {
    EsHeldOutPair pair = {.a = a, .b = b, .difference = {NAN, NAN, NAN, 0}};
    double *differences = NULL;
    if (a != NULL && b != NULL && strcmp(pair.a->unit, pair.b->unit) == 0) {
        EsMeasure x = pair.a->score, y = pair.b->score;
        pair.is_paired = has_same_episodes(pair.a, pair.b);
        if (pair.is_paired) {
            ES_TRY(es_allocate(sizeof *differences * (size_t)pair.a->n, (void **)&differences));
            pair.difference = pair_episodes(pair.a, pair.b, differences);
            es_release(differences);
        } else if (x.n > 0 && y.n > 0) {
            pair.difference =
                (EsMeasure){y.value - x.value, NAN, hypot(x.noise, y.noise), ES_MIN(x.n, y.n)};
        }
    }
    pair.verdict = judge_difference(pair.difference);
    ES_TRY(es_list_grow((void **)&comparison->held_out, comparison->n_held_out, sizeof pair));
    comparison->held_out[comparison->n_held_out++] = pair;
    return ES_STATUS_OK;
}

int es_metric_is_lacking(const EsMetricPair *pair) { return pair->b == NULL; }

int es_event_is_lacking(const EsEventPair *pair) {
    static const char *const incidents[] = {"anomaly_detected", "checkpoint_loaded",
                                            "governor_rollback", "round_progressed",
                                            "trend_detected"};
    if (pair->b != NULL) {
        return 0;
    }
    for (size_t i = 0; i < ES_COUNT_OF(incidents); i++) {
        if (strcmp(pair->a->name, incidents[i]) == 0) {
            return 0;
        }
    }
    return 1;
}

// --- the whole ---

static int is_same_folder(const char *a, const char *b) {
    struct stat info_a, info_b;
    return stat(a, &info_a) == 0 && stat(b, &info_b) == 0 && info_a.st_dev == info_b.st_dev &&
           info_a.st_ino == info_b.st_ino;
}

static EsStatus compare_reports(EsRunComparison *comparison) {
    static const double floors[] = {
#define X(NAME, name, unit, floor) floor,
        ES_FIGURE_LIST(X)
#undef X
    };
    const EsRunReport *a = comparison->a, *b = comparison->b;
    for (int i = 0; i < ES_FIGURE_COUNT; i++) {
        comparison->measures[i] = es_measure_compare(a->measures[i], b->measures[i], floors[i]);
    }
#define LIST(report, field) ((NamedList){report->field, report->n_##field, sizeof *report->field})
    ES_TRY(pair_lists(comparison, LIST(a, settings), LIST(b, settings), add_setting));
    ES_TRY(pair_lists(comparison, LIST(a, metrics), LIST(b, metrics), add_metric));
    ES_TRY(pair_lists(comparison, LIST(a, latencies), LIST(b, latencies), add_latency));
    ES_TRY(pair_lists(comparison, LIST(a, held_out), LIST(b, held_out), add_held_out));
    return pair_lists(comparison, LIST(a, events), LIST(b, events), add_event);
#undef LIST
}

EsStatus es_run_compare(const char *a, const char *b, EsRunComparison **comparison) {
    EsStatus status = ES_STATUS_OK;
    EsRunComparison *made = NULL;
    if (is_same_folder(a, b)) {
        return ES_FAIL(ARGUMENT, "%s and %s are the same run; name two", a, b);
    }
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    ES_TRY_GOTO(es_run_report_read(a, &made->a));
    ES_TRY_GOTO(es_run_report_read(b, &made->b));
    ES_TRY_GOTO(compare_reports(made));
    *comparison = made;
    made = NULL;
done:
    es_run_comparison_destroy(made);
    return status;
}

void es_run_comparison_destroy(EsRunComparison *comparison) {
    if (comparison == NULL) {
        return;
    }
    es_run_report_destroy(comparison->a);
    es_run_report_destroy(comparison->b);
    es_release(comparison->settings);
    es_release(comparison->metrics);
    es_release(comparison->latencies);
    es_release(comparison->events);
    es_release(comparison->held_out);
    es_release(comparison);
}
