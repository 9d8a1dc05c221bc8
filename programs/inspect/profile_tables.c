#include "inspect/profile_tables.h"

#include <stdio.h>

#include "base/macros.h"
#include "cli/frame.h"

// phases and operations
typedef enum Part { PHASES, OPERATIONS } Part;

static int is_in(const EsProfileRow *row, Part part) {
    return (row->kind == ES_PROFILE_RANGE) == (part == PHASES);
}

static double sum_of(const EsProfileReport *report, Part part) {
    double sum = 0;
    for (int i = 0; i < report->n_rows; i++) {
        sum += is_in(&report->rows[i], part) ? report->rows[i].total_ms : 0;
    }
    return sum;
}

// Where the times of operations come from.
static const EsProfileReport *operations_of(const EsProfileResult *result) {
    return result->is_split ? &result->direct : &result->report;
}

static double steps_per_second(const EsProfileResult *result) {
    return 1e3 * result->n_active * result->settings->n_envs / result->active_ms;
}

// Rows are sorted within their kind; launches, replays and copies are shown as one list.
static const EsProfileRow *next_longest(const EsProfileReport *report, Part part,
                                        const EsProfileRow *after) {
    const EsProfileRow *best = NULL;
    for (int i = 0; i < report->n_rows; i++) {
        const EsProfileRow *row = &report->rows[i];
        int is_left = after == NULL || row->total_ms < after->total_ms ||
                      (row->total_ms == after->total_ms && row > after);
        if (is_in(row, part) && is_left && (best == NULL || row->total_ms > best->total_ms)) {
            best = row;
        }
    }
    return best;
}

// --- tables ---

static void print_rows(const EsProfileResult *result, const EsProfileReport *report, Part part) {
    double sum = sum_of(report, part);
    printf("%-28s %-7s %9s %11s %6s %9s %9s %9s\n", part == PHASES ? "phase" : "operation",
           part == PHASES ? "" : "kind", "per step", "ms per step", "share", "min ms", "mean ms",
           "max ms");
    const EsProfileRow *row = next_longest(report, part, NULL);
    for (; row != NULL; row = next_longest(report, part, row)) {
        printf("%-28s %-7s %9.1f %11.3f %5.1f%% %9.4f %9.4f %9.4f\n", row->name,
               part == PHASES ? "" : es_profile_kind_name(row->kind),
               (double)row->count / result->n_active, row->total_ms / result->n_active,
               sum > 0 ? 100 * row->total_ms / sum : 0, row->min_ms,
               row->total_ms / (double)row->count, row->max_ms);
    }
    if (sum == 0) {
        printf("(none)\n");
    }
}

static void print_counts(const EsProfileResult *result) {
    const EsDeviceCounters *counters = &result->report.counters;
    const struct {
        const char *name;
        int64_t count;
    } rows[] = {{"launches", counters->n_launches},
                {"copies", counters->n_copies},
                {"synchronisations", counters->n_synchronizations},
                {"allocations", counters->n_allocations}};
    printf("per step:");
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        printf("%s %s %.1f", i > 0 ? "," : "", rows[i].name,
               (double)rows[i].count / result->n_active);
    }
    printf("\n");
}

void es_profile_print_tables(const EsProfileResult *result) {
    const EsGrowSettings *settings = result->settings;
    const EsProfileReport *report = &result->report, *operations = operations_of(result);
    double idle_ms = report->window_ms - report->busy_ms;
    es_print("%s, %d environments, policy %s, on %s (%s)\n", settings->task, settings->n_envs,
             settings->policy, settings->run.device, result->device.name);
    printf("%d steps after %d of waiting and %d of warm-up: %.3f ms per step, %.0f environment "
           "steps/s while timed\n\n",
           result->n_active, result->n_wait, result->n_warmup, result->active_ms / result->n_active,
           steps_per_second(result));
    print_rows(result, report, PHASES);
    printf("\n");
    print_rows(result, operations, OPERATIONS);
    printf("\nidle: %.3f ms per step (%.1f %%) with no operation running%s\n",
           idle_ms / result->n_active,
           report->window_ms > 0 ? 100 * idle_ms / report->window_ms : 0,
           result->is_split ? ": between launches; a replay counts as one, and none is seen inside"
                            : "");
    print_counts(result);
    if (result->is_split) {
        printf("operations were timed launch by launch, in steps of their own without captures; "
               "the rest is of\nsteps with them, where a replay is one launch\n");
    } else if (result->device.kind == ES_DEVICE_CPU) {
        printf("operations are summed over threads; the rules of growth and the update of weights "
               "are none\n");
    }
    int64_t n_dropped = report->n_dropped + (result->is_split ? operations->n_dropped : 0);
    if (n_dropped > 0) {
        printf("%lld operations were not timed: there was room for the first ones alone; --active "
               "asks for fewer steps\n",
               (long long)n_dropped);
    }
}

// --- JSON ---

static json_t *rows_json(const EsProfileReport *report, Part part) {
    json_t *array = json_array();
    double sum = sum_of(report, part);
    const EsProfileRow *row = next_longest(report, part, NULL);
    for (; row != NULL; row = next_longest(report, part, row)) {
        json_array_append_new(
            array, json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "name", row->name, "kind",
                             es_profile_kind_name(row->kind), "count", (json_int_t)row->count,
                             "total_ms", row->total_ms, "min_ms", row->min_ms, "mean_ms",
                             row->total_ms / (double)row->count, "max_ms", row->max_ms, "share",
                             sum > 0 ? row->total_ms / sum : 0.0));
    }
    return array;
}

static json_t *counts_json(const EsProfileResult *result) {
    const EsDeviceCounters *counters = &result->report.counters;
    double n = result->n_active;
    return json_pack("{s:f, s:f, s:f, s:f}", "launches", (double)counters->n_launches / n, "copies",
                     (double)counters->n_copies / n, "synchronisations",
                     (double)counters->n_synchronizations / n, "allocations",
                     (double)counters->n_allocations / n);
}

EsStatus es_profile_print_json(const EsProfileResult *result) {
    const EsGrowSettings *settings = result->settings;
    const EsProfileReport *report = &result->report, *operations = operations_of(result);
    json_int_t n_dropped = report->n_dropped;
    n_dropped += result->is_split ? operations->n_dropped : 0;
    json_t *root = json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:b, s:I}",
        "task", settings->task, "envs", settings->n_envs, "policy", settings->policy, "device",
        settings->run.device, "device_name", result->device.name, "wait", result->n_wait, "warmup",
        result->n_warmup, "active", result->n_active, "active_ms", result->active_ms,
        "environment_steps_per_second", steps_per_second(result), "window_ms", report->window_ms,
        "idle_ms", report->window_ms - report->busy_ms, "per_step", counts_json(result), "phases",
        rows_json(report, PHASES), "operations", rows_json(operations, OPERATIONS),
        "operations_without_captures", result->is_split, "dropped", n_dropped);
    return es_json_print(root, 15);
}
