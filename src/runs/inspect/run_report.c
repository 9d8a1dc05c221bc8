// Reading the report of a run: config.ini without a declared list of keys, summaries and long lists
// from the database, and samples condensed to a value with its noise.
#include "runs/inspect/run_report.h"

#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "telemetry/sinks/run_database.h"

struct EsRunText {
    EsRunText *next;
    char text[];
};

// --- lists, texts, rows ---

// lists begin with this many items and double
#define FIRST_ITEMS 8

EsStatus es_list_grow(void **items, int64_t n, size_t item_bytes) {
    int is_full = n == 0 || (n >= FIRST_ITEMS && (n & (n - 1)) == 0);
    if (!is_full) {
        return ES_STATUS_OK;
    }
    void *more = NULL;
    size_t wanted = n == 0 ? FIRST_ITEMS : 2 * (size_t)n;
    ES_TRY(es_allocate(wanted * item_bytes, &more));
    if (n > 0) {
        memcpy(more, *items, (size_t)n * item_bytes);
    }
    es_release(*items);
    *items = more;
    return ES_STATUS_OK;
}

// Keep a copy of the text for as long as the report.
static EsStatus keep_text(EsRunReport *report, const char *text, const char **kept) {
    EsRunText *entry = NULL;
    size_t length = strlen(text);
    ES_TRY(es_allocate(sizeof *entry + length + 1, (void **)&entry));
    memcpy(entry->text, text, length + 1);
    entry->next = report->texts;
    report->texts = entry;
    *kept = entry->text;
    return ES_STATUS_OK;
}

typedef EsStatus (*TakeRow)(void *context, const EsRunQuery *query);

static EsStatus take_rows(EsRunDatabase *database, const char *sql, TakeRow take, void *context) {
    EsRunQuery *query = NULL;
    int has_row = 0;
    ES_TRY(es_run_query_begin(database, sql, &query));
    EsStatus status = es_run_query_step(query, &has_row);
    while (status == ES_STATUS_OK && has_row) {
        status = take(context, query);
        if (status == ES_STATUS_OK) {
            status = es_run_query_step(query, &has_row);
        }
    }
    es_run_query_end(query);
    return status;
}

// Rows of this event; with 0 its table may not exist.
static int64_t count_rows(const EsRunReport *report, const char *name) {
    for (int i = 0; i < report->n_events; i++) {
        if (strcmp(report->events[i].name, name) == 0) {
            return report->events[i].n_rows;
        }
    }
    return 0;
}

// --- samples ---

typedef struct Samples {
    double *values; // owned
    int64_t n;
} Samples;

// Missing and non-finite values are left out.
static EsStatus add_sample(Samples *samples, double value) {
    if (!isfinite(value)) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_list_grow((void **)&samples->values, samples->n, sizeof *samples->values));
    samples->values[samples->n++] = value;
    return ES_STATUS_OK;
}

static void destroy_samples(Samples *samples) {
    es_release(samples->values);
    *samples = (Samples){0};
}

static EsMeasure missing_measure(void) { return (EsMeasure){NAN, NAN, NAN, 0}; }

static EsMeasure exact_measure(double value) {
    return isfinite(value) ? (EsMeasure){value, 0, 0, 1} : missing_measure();
}

// Mean and standard deviation of independent samples (noise: two standard errors), or of a series
// (noise: unknown, see EsRunMetric).
static EsMeasure mean_of(const Samples *samples, int is_series) {
    if (samples->n == 0) {
        return missing_measure();
    }
    double deviation = 0;
    double mean = es_mean(samples->values, samples->n, sizeof *samples->values, &deviation);
    if (samples->n == 1) {
        return (EsMeasure){mean, NAN, NAN, 1};
    }
    double noise = is_series ? NAN : 2 * deviation / sqrt((double)samples->n);
    return (EsMeasure){mean, deviation, noise, samples->n};
}

// Quantile and interquartile range; sorts. The noise is the range.
static EsMeasure quantile_of(Samples *samples, double share) {
    if (samples->n == 0) {
        return missing_measure();
    }
    es_sort_doubles(samples->values, samples->n);
    double value = es_quantile(samples->values, samples->n, share);
    if (samples->n == 1) {
        return (EsMeasure){value, NAN, NAN, 1};
    }
    double range = es_quantile(samples->values, samples->n, 0.75) -
                   es_quantile(samples->values, samples->n, 0.25);
    return (EsMeasure){value, range, range, samples->n};
}

// --- metrics ---

typedef struct Metrics {
    EsRunReport *report;
    Samples samples; // of the metric at hand, the last in the list
} Metrics;

static void finish_metric(Metrics *metrics) {
    EsRunReport *report = metrics->report;
    if (report->n_metrics > 0) {
        report->metrics[report->n_metrics - 1].mean = mean_of(&metrics->samples, 1);
    }
    metrics->samples.n = 0;
}

// Rows come by name, oldest first.
static EsStatus take_metric(void *context, const EsRunQuery *query) {
    Metrics *metrics = context;
    EsRunReport *report = metrics->report;
    const char *name = es_run_query_text(query, 0, NULL);
    double value = es_run_query_real(query, 1);
    if (name == NULL) {
        return ES_STATUS_OK;
    }
    if (report->n_metrics == 0 || strcmp(report->metrics[report->n_metrics - 1].name, name) != 0) {
        finish_metric(metrics);
        ES_TRY(es_list_grow((void **)&report->metrics, report->n_metrics, sizeof *report->metrics));
        EsRunMetric *metric = &report->metrics[report->n_metrics];
        ES_TRY(keep_text(report, name, &metric->name));
        report->n_metrics++;
    }
    report->metrics[report->n_metrics - 1].last = value;
    return add_sample(&metrics->samples, value);
}

static EsStatus read_metrics(EsRunReport *report, EsRunDatabase *database) {
    if (count_rows(report, "metric") == 0) {
        return ES_STATUS_OK;
    }
    Metrics metrics = {.report = report};
    EsStatus status =
        take_rows(database,
                  "WITH newest AS (SELECT name AS of, max(round) AS last_round FROM event_metric "
                  "GROUP BY name) "
                  "SELECT name, value FROM event_metric JOIN newest ON name = of "
                  "WHERE round > last_round - 10 ORDER BY name, round, sequence, row",
                  take_metric, &metrics);
    finish_metric(&metrics);
    destroy_samples(&metrics.samples);
    return status;
}

// --- latencies ---

static EsStatus add_latency(EsRunReport *report, const char *name, EsRunLatency **latency) {
    ES_TRY(
        es_list_grow((void **)&report->latencies, report->n_latencies, sizeof *report->latencies));
    EsRunLatency *added = &report->latencies[report->n_latencies];
    ES_TRY(keep_text(report, name, &added->name));
    report->n_latencies++;
    *latency = added;
    return ES_STATUS_OK;
}

typedef struct Phases {
    EsRunReport *report;
    EsRunLatency *latency; // of the phase at hand
    Samples p50, p95, max; // one sample per round
} Phases;

static void finish_phase(Phases *phases) {
    if (phases->latency != NULL) {
        phases->latency->p50_ms = quantile_of(&phases->p50, 0.5);
        phases->latency->p95_ms = quantile_of(&phases->p95, 0.5);
        phases->latency->max_ms = quantile_of(&phases->max, 1);
    }
    phases->p50.n = phases->p95.n = phases->max.n = 0;
}

// Rows come by phase.
static EsStatus take_phase(void *context, const EsRunQuery *query) {
    Phases *phases = context;
    const char *phase = es_run_query_text(query, 0, NULL);
    if (phase == NULL) {
        return ES_STATUS_OK;
    }
    char name[128];
    snprintf(name, sizeof name, "phase %.100s", phase);
    if (phases->latency == NULL || strcmp(phases->latency->name, name) != 0) {
        finish_phase(phases);
        ES_TRY(add_latency(phases->report, name, &phases->latency));
    }
    phases->latency->n_calls += es_run_query_int(query, 1);
    ES_TRY(add_sample(&phases->p50, es_run_query_real(query, 2)));
    ES_TRY(add_sample(&phases->p95, es_run_query_real(query, 3)));
    return add_sample(&phases->max, es_run_query_real(query, 4));
}

static EsStatus read_phases(EsRunReport *report, EsRunDatabase *database) {
    Phases phases = {.report = report};
    EsStatus status = take_rows(
        database,
        "SELECT phase, n_calls, p50_ms, p95_ms, max_ms FROM event_phase_profiled ORDER BY phase",
        take_phase, &phases);
    finish_phase(&phases);
    destroy_samples(&phases.p50);
    destroy_samples(&phases.p95);
    destroy_samples(&phases.max);
    return status;
}

static const char *const step_parts[] = {"step total", "step train", "step validate",
                                         "step decide"};

typedef struct Steps {
    Samples parts[ES_COUNT_OF(step_parts)];
} Steps;

static EsStatus take_step(void *context, const EsRunQuery *query) {
    Steps *steps = context;
    for (size_t i = 0; i < ES_COUNT_OF(step_parts); i++) {
        ES_TRY(add_sample(&steps->parts[i], es_run_query_real(query, (int)i)));
    }
    return ES_STATUS_OK;
}

static EsStatus read_steps(EsRunReport *report, EsRunDatabase *database) {
    Steps steps = {0};
    EsStatus status = take_rows(
        database, "SELECT total_ms, train_ms, validate_ms, decide_ms FROM event_step_timed",
        take_step, &steps);
    for (size_t i = 0; i < ES_COUNT_OF(step_parts); i++) {
        EsRunLatency *latency = NULL;
        if (status == ES_STATUS_OK && steps.parts[i].n > 0) {
            status = add_latency(report, step_parts[i], &latency);
        }
        if (latency != NULL) {
            latency->n_calls = steps.parts[i].n;
            latency->p50_ms = quantile_of(&steps.parts[i], 0.5);
            latency->p95_ms = quantile_of(&steps.parts[i], 0.95);
            latency->max_ms = quantile_of(&steps.parts[i], 1);
        }
        destroy_samples(&steps.parts[i]);
    }
    return status;
}

static EsStatus read_latencies(EsRunReport *report, EsRunDatabase *database) {
    if (count_rows(report, "step_timed") > 0) {
        ES_TRY(read_steps(report, database));
    }
    return count_rows(report, "phase_profiled") > 0 ? read_phases(report, database) : ES_STATUS_OK;
}

// --- settings: config.ini with the keys of a run of any kind and version ---

#define LARGEST_FILE_BYTES (1 << 20)

typedef struct Reading {
    EsRunReport *report;
    const char *text; // the rest of the file
    size_t text_bytes;
    int line;
    EsStatus status; // first failure; reading ends with it
} Reading;

// The reader inih calls for each line, like fgets. Leading blanks are dropped, since inih takes an
// indented line for a continuation; comments may be longer than its buffer.
static char *read_line(char *line, int line_bytes, void *context) {
    Reading *reading = context;
    if (reading->status != ES_STATUS_OK || reading->text_bytes == 0) {
        return NULL;
    }
    const char *start = reading->text;
    const char *newline = memchr(start, '\n', reading->text_bytes);
    size_t taken = newline != NULL ? (size_t)(newline - start) + 1 : reading->text_bytes;
    size_t length = taken;
    reading->text += taken;
    reading->text_bytes -= taken;
    reading->line++;
    while (length > 0 && (*start == ' ' || *start == '\t')) {
        start++;
        length--;
    }
    if (length > 0 && (*start == '#' || *start == ';')) {
        length = 1;
    }
    if (length >= (size_t)line_bytes || memchr(start, '\0', length) != NULL) {
        reading->status = ES_FAIL(INPUT, "%s/config.ini:%d: the line is too long or not text",
                                  reading->report->path, reading->line);
        return NULL;
    }
    memcpy(line, start, length);
    line[length] = '\0';
    return line;
}

static EsStatus add_setting(EsRunReport *report, const char *section, const char *key,
                            const char *value) {
    char name[256];
    snprintf(name, sizeof name, "%.120s%s%.120s", section, section[0] != '\0' ? "." : "", key);
    ES_TRY(es_list_grow((void **)&report->settings, report->n_settings, sizeof *report->settings));
    EsRunSetting *setting = &report->settings[report->n_settings];
    ES_TRY(keep_text(report, name, &setting->name));
    ES_TRY(keep_text(report, value, &setting->value));
    report->n_settings++;
    return ES_STATUS_OK;
}

// The handler inih calls for each value: 1 = go on.
static int accept_value(void *context, const char *section, const char *name, const char *value) {
    Reading *reading = context;
    if (reading->status == ES_STATUS_OK) {
        reading->status = add_setting(reading->report, section, name, value);
    }
    return reading->status == ES_STATUS_OK;
}

// Reads all settings of config.ini, under any name.
static EsStatus read_settings(EsRunReport *report) {
    char path[4096];
    void *text = NULL;
    Reading reading = {.report = report};
    snprintf(path, sizeof path, "%s/config.ini", report->path);
    ES_TRY(es_file_read_all(path, LARGEST_FILE_BYTES, &text, &reading.text_bytes));
    reading.text = text;
    int error_line = ini_parse_stream(read_line, &reading, accept_value, &reading);
    if (reading.status == ES_STATUS_OK && error_line > 0) {
        reading.status =
            ES_FAIL(INPUT, "%s:%d: expected \"key = value\" or \"[section]\"", path, error_line);
    } else if (reading.status == ES_STATUS_OK && error_line < 0) {
        reading.status = ES_FAIL(MEMORY, "no memory to parse %s", path);
    }
    es_release(text);
    return reading.status;
}

static const struct {
    const char *name, *unit;
} about[] = {
#define X(NAME, name, unit, floor) {name, unit},
    ES_FIGURE_LIST(X)
#undef X
};

const char *es_figure_name(EsFigure figure) { return about[figure].name; }
const char *es_figure_unit(EsFigure figure) { return about[figure].unit; }

typedef struct Tables {
    EsRunReport *report;
    EsRunDatabase *database;
} Tables;

static EsStatus take_count(void *context, const EsRunQuery *query) {
    *(int64_t *)context = es_run_query_int(query, 0);
    return ES_STATUS_OK;
}

static EsStatus take_table(void *context, const EsRunQuery *query) {
    Tables *tables = context;
    EsRunReport *report = tables->report;
    const char *name = es_run_query_text(query, 0, NULL);
    char sql[256];
    int64_t n_rows = 0;
    if (name == NULL || strlen(name) > 100 || strchr(name, '"') != NULL) {
        return ES_STATUS_OK; // not one of ours
    }
    snprintf(sql, sizeof sql, "SELECT count(*) FROM \"%s\"", name);
    ES_TRY(take_rows(tables->database, sql, take_count, &n_rows));
    if (n_rows == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_list_grow((void **)&report->events, report->n_events, sizeof *report->events));
    EsRunEventCount *event = &report->events[report->n_events];
    event->n_rows = n_rows;
    ES_TRY(keep_text(report, name + strlen("event_"), &event->name));
    report->n_events++;
    return ES_STATUS_OK;
}

static EsStatus read_events(EsRunReport *report, EsRunDatabase *database) {
    Tables tables = {report, database};
    return take_rows(database,
                     "SELECT name FROM sqlite_schema WHERE type = 'table' AND "
                     "substr(name, 1, 6) = 'event_' ORDER BY name",
                     take_table, &tables);
}

// --- kind, outcome, figures ---

typedef struct Summary {
    EsRunReport *report;
    int64_t n_envs;
    int64_t n_rounds;
    EsMeasure best;
    Samples seconds, steps_per_second, images_per_second; // of rounds
    Samples rewards, losses, parameter_ratios;            // of the last episodes
} Summary;

static EsStatus keep_cell(EsRunReport *report, const EsRunQuery *query, int column,
                          const char **kept) {
    const char *text = es_run_query_text(query, column, NULL);
    return text != NULL ? keep_text(report, text, kept) : ES_STATUS_OK;
}

static EsStatus take_start(void *context, const EsRunQuery *query) {
    Summary *summary = context;
    EsRunReport *report = summary->report;
    ES_TRY(keep_cell(report, query, 0, &report->kind));
    ES_TRY(keep_cell(report, query, 1, &report->task));
    ES_TRY(keep_cell(report, query, 2, &report->device));
    summary->n_envs = summary->report->n_envs = es_run_query_int(query, 3);
    report->measures[ES_FIGURE_HOST_PARAMETERS] = exact_measure(es_run_query_real(query, 4));
    return ES_STATUS_OK;
}

static EsStatus take_end(void *context, const EsRunQuery *query) {
    Summary *summary = context;
    return keep_cell(summary->report, query, 0, &summary->report->outcome);
}

// Mean and deviation over the environments of a round.
static EsMeasure measure_envs(double mean, double deviation, int64_t n_envs) {
    if (!isfinite(mean)) {
        return missing_measure();
    }
    if (n_envs < 2 || !isfinite(deviation)) {
        return (EsMeasure){mean, NAN, NAN, 1};
    }
    return (EsMeasure){mean, deviation, 2 * deviation / sqrt((double)n_envs), n_envs};
}

static EsStatus take_round(void *context, const EsRunQuery *query) {
    Summary *summary = context;
    EsMeasure *measures = summary->report->measures;
    EsMeasure accuracy =
        measure_envs(es_run_query_real(query, 0), es_run_query_real(query, 1), summary->n_envs);
    summary->n_rounds++;
    if (accuracy.n > 0) {
        measures[ES_FIGURE_FINAL_ACCURACY] = accuracy;
        if (summary->best.n == 0 || accuracy.value > summary->best.value) {
            summary->best = accuracy;
        }
    }
    // means without a spread, for runs that record no episodes
    const struct {
        EsFigure figure;
        double value;
    } means[] = {{ES_FIGURE_FINAL_LOSS, es_run_query_real(query, 2)},
                 {ES_FIGURE_REWARD, es_run_query_real(query, 3)}};
    for (size_t i = 0; i < ES_COUNT_OF(means); i++) {
        measures[means[i].figure] =
            isfinite(means[i].value) ? (EsMeasure){means[i].value, NAN, NAN, 1} : missing_measure();
    }
    ES_TRY(add_sample(&summary->seconds, es_run_query_real(query, 4)));
    ES_TRY(add_sample(&summary->steps_per_second, es_run_query_real(query, 5)));
    return add_sample(&summary->images_per_second, es_run_query_real(query, 6));
}

static EsStatus take_episode(void *context, const EsRunQuery *query) {
    Summary *summary = context;
    ES_TRY(add_sample(&summary->losses, es_run_query_real(query, 0)));
    ES_TRY(add_sample(&summary->rewards, es_run_query_real(query, 1)));
    return add_sample(&summary->parameter_ratios, es_run_query_real(query, 2));
}

static void finish_summary(Summary *summary) {
    EsMeasure *measures = summary->report->measures;
    measures[ES_FIGURE_ROUNDS] = exact_measure((double)summary->n_rounds);
    measures[ES_FIGURE_BEST_ACCURACY] = summary->best;
    const struct {
        EsFigure figure;
        const Samples *samples;
    } episodes[] = {{ES_FIGURE_FINAL_LOSS, &summary->losses},
                    {ES_FIGURE_REWARD, &summary->rewards},
                    {ES_FIGURE_PARAMETER_RATIO, &summary->parameter_ratios}};
    for (size_t i = 0; i < ES_COUNT_OF(episodes); i++) {
        if (episodes[i].samples->n > 0) {
            measures[episodes[i].figure] = mean_of(episodes[i].samples, 0);
        }
    }
    // of n rounds: n times the mean, and sqrt(n) times the deviation
    EsMeasure mean = mean_of(&summary->seconds, 0);
    double n = (double)mean.n;
    measures[ES_FIGURE_SECONDS] =
        (EsMeasure){n * mean.value, n * mean.noise / 2, n * mean.noise, mean.n};
    measures[ES_FIGURE_STEPS_PER_SECOND] = quantile_of(&summary->steps_per_second, 0.5);
    measures[ES_FIGURE_IMAGES_PER_SECOND] = quantile_of(&summary->images_per_second, 0.5);
    measures[ES_FIGURE_ANOMALIES] =
        exact_measure((double)count_rows(summary->report, "anomaly_detected"));
}

static EsStatus read_summary(EsRunReport *report, EsRunDatabase *database) {
    Summary summary = {.report = report, .best = missing_measure()};
    const struct {
        const char *event, *sql;
        TakeRow take;
    } queries[] = {
        {"run_started",
         "SELECT kind, task, device, n_envs, n_host_parameters FROM event_run_started "
         "ORDER BY rowid LIMIT 1",
         take_start},
        {"run_ended", "SELECT outcome FROM event_run_ended ORDER BY rowid DESC LIMIT 1", take_end},
        {"round_completed",
         "SELECT accuracy, accuracy_std, loss, reward, seconds, steps_per_second, "
         "images_per_second FROM event_round_completed ORDER BY round, rowid",
         take_round},
        {"episode_outcome",
         "SELECT final_loss, reward, parameter_ratio FROM event_episode_outcome "
         "WHERE arm IS NULL AND round = (SELECT max(round) FROM event_episode_outcome "
         "WHERE arm IS NULL) ORDER BY env",
         take_episode},
    };
    EsStatus status = ES_STATUS_OK;
    for (size_t i = 0; i < ES_COUNT_OF(queries) && status == ES_STATUS_OK; i++) {
        if (count_rows(report, queries[i].event) > 0) {
            status = take_rows(database, queries[i].sql, queries[i].take, &summary);
        }
    }
    if (status == ES_STATUS_OK) {
        finish_summary(&summary);
    }
    destroy_samples(&summary.seconds);
    destroy_samples(&summary.steps_per_second);
    destroy_samples(&summary.images_per_second);
    destroy_samples(&summary.rewards);
    destroy_samples(&summary.losses);
    destroy_samples(&summary.parameter_ratios);
    return status;
}

// --- held-out results ---

static EsStatus add_held_out(EsRunReport *report, const char *name, const char *unit,
                             EsRunHeldOut **held_out) {
    ES_TRY(es_list_grow((void **)&report->held_out, report->n_held_out, sizeof *report->held_out));
    EsRunHeldOut *added = &report->held_out[report->n_held_out];
    *added = (EsRunHeldOut){.unit = unit, .score = missing_measure()};
    ES_TRY(keep_text(report, name, &added->name));
    report->n_held_out++;
    *held_out = added;
    return ES_STATUS_OK;
}

static void finish_held_out(EsRunReport *report) {
    if (report->n_held_out > 0) {
        EsRunHeldOut *held_out = &report->held_out[report->n_held_out - 1];
        Samples samples = {held_out->scores, held_out->n};
        held_out->score = mean_of(&samples, 0);
    }
}

// Rows come by policy, episodes rising.
static EsStatus take_held_out(void *context, const EsRunQuery *query) {
    EsRunReport *report = context;
    const char *name = es_run_query_text(query, 0, NULL);
    double score = es_run_query_real(query, 2);
    if (name == NULL || !isfinite(score)) {
        return ES_STATUS_OK;
    }
    EsRunHeldOut *held_out =
        report->n_held_out > 0 ? &report->held_out[report->n_held_out - 1] : NULL;
    if (held_out == NULL || strcmp(held_out->name, name) != 0) {
        finish_held_out(report);
        ES_TRY(add_held_out(report, name, "%", &held_out));
    }
    ES_TRY(es_list_grow((void **)&held_out->episodes, held_out->n, sizeof *held_out->episodes));
    ES_TRY(es_list_grow((void **)&held_out->scores, held_out->n, sizeof *held_out->scores));
    held_out->episodes[held_out->n] = es_run_query_int(query, 1);
    held_out->scores[held_out->n++] = score;
    return ES_STATUS_OK;
}

// The interval of 95 % is about two standard errors to each side.
static EsStatus take_ranking(void *context, const EsRunQuery *query) {
    const char *name = es_run_query_text(query, 0, NULL);
    double mrr = es_run_query_real(query, 1);
    EsRunHeldOut *held_out = NULL;
    if (name == NULL || !isfinite(mrr)) {
        return ES_STATUS_OK;
    }
    ES_TRY(add_held_out(context, name, "MRR", &held_out));
    held_out->score =
        (EsMeasure){mrr, NAN, (es_run_query_real(query, 3) - es_run_query_real(query, 2)) / 2,
                    ES_MAX(es_run_query_int(query, 4), 1)};
    return ES_STATUS_OK;
}

// A fit has one number, hosts a mean and a deviation; both are metrics of the end.
static EsStatus read_test_metrics(EsRunReport *report) {
    const EsRunMetric *fit = NULL, *hosts = NULL, *deviation = NULL;
    EsRunHeldOut *held_out = NULL;
    for (int i = 0; i < report->n_metrics; i++) {
        const EsRunMetric *metric = &report->metrics[i];
        fit = strcmp(metric->name, "esper.fit.test_accuracy") == 0 ? metric : fit;
        hosts = strcmp(metric->name, "esper.hosts.test_accuracy") == 0 ? metric : hosts;
        deviation = strcmp(metric->name, "esper.hosts.test_accuracy_std") == 0 ? metric : deviation;
    }
    if (fit != NULL && isfinite(fit->last)) {
        ES_TRY(add_held_out(report, "network", "%", &held_out));
        held_out->score = (EsMeasure){fit->last, NAN, NAN, 1};
    }
    if (hosts != NULL && isfinite(hosts->last)) {
        ES_TRY(add_held_out(report, "hosts", "%", &held_out));
        held_out->score = measure_envs(
            hosts->last, deviation != NULL ? deviation->last : (double)NAN, report->n_envs);
    }
    return ES_STATUS_OK;
}

// INPUT: a run of a schema without these columns.
static EsStatus take_known_rows(EsRunDatabase *database, const char *sql, TakeRow take,
                                EsRunReport *report) {
    EsStatus status = take_rows(database, sql, take, report);
    return status == ES_STATUS_INPUT ? ES_STATUS_OK : status;
}

static EsStatus read_held_out(EsRunReport *report, EsRunDatabase *database) {
    if (count_rows(report, "episode_outcome") > 0) {
        // a policy's place is that of its first row
        ES_TRY(take_known_rows(
            database,
            "SELECT arm, episode, test_accuracy, min(rowid) OVER (PARTITION BY arm) "
            "AS place FROM event_episode_outcome WHERE arm IS NOT NULL AND round = "
            "(SELECT round FROM event_episode_outcome ORDER BY rowid DESC LIMIT 1) "
            "ORDER BY place, episode",
            take_held_out, report));
        finish_held_out(report);
    }
    if (count_rows(report, "proof_ranked") > 0) {
        ES_TRY(
            take_known_rows(database,
                            "SELECT arm, mrr, mrr_low, mrr_high, n_queries FROM event_proof_ranked "
                            "WHERE split = 'test' AND rowid IN (SELECT max(rowid) FROM "
                            "event_proof_ranked WHERE split = 'test' GROUP BY arm) ORDER BY rowid",
                            take_ranking, report));
    }
    return read_test_metrics(report);
}

// --- the whole ---

// Messages for usual mistakes, before SQLite and the parser put them in their words.
static EsStatus check_folder(const char *path) {
    struct stat info;
    char inside[4096];
    if (stat(path, &info) != 0) {
        int reason = errno;
        snprintf(inside, sizeof inside, "runs/%s", path);
        const char *hint = path[0] != '/' && stat(inside, &info) == 0 ? inside : NULL;
        return hint != NULL ? ES_FAIL(INPUT, "no such run: %s; did you mean %s?", path, hint)
                            : ES_FAIL(INPUT, "no such run: %s: %s", path, strerror(reason));
    }
    if (!S_ISDIR(info.st_mode)) {
        return ES_FAIL(INPUT, "%s is not a run folder: it is a file", path);
    }
    int length = snprintf(inside, sizeof inside, "%s/config.ini", path);
    if (length >= (int)sizeof inside) {
        return ES_FAIL(INPUT, "the path of the run is too long: %.60s...", path);
    }
    if (stat(inside, &info) != 0) {
        return ES_FAIL(INPUT, "%s is not a run folder: there is no config.ini in it", path);
    }
    snprintf(inside, sizeof inside, "%s/run.db", path);
    if (stat(inside, &info) != 0) {
        return ES_FAIL(INPUT,
                       "%s has no run.db: the run was made without a database, with "
                       "--telemetry.sqlite=off or by a build without SQLite",
                       path);
    }
    return ES_STATUS_OK;
}

EsStatus es_run_report_read(const char *path, EsRunReport **report) {
    EsRunDatabase *database = NULL;
    EsRunReport *read = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(check_folder(path));
    ES_TRY(es_allocate(sizeof *read, (void **)&read));
    read->kind = read->task = read->device = "?";
    read->outcome = "unfinished";
    for (int i = 0; i < ES_FIGURE_COUNT; i++) {
        read->measures[i] = missing_measure();
    }
    ES_TRY_GOTO(keep_text(read, path, &read->path));
    ES_TRY_GOTO(read_settings(read));
    ES_TRY_GOTO(es_run_database_open(path, &database));
    ES_TRY_GOTO(read_events(read, database));
    ES_TRY_GOTO(read_summary(read, database));
    ES_TRY_GOTO(read_metrics(read, database));
    ES_TRY_GOTO(read_latencies(read, database));
    ES_TRY_GOTO(read_held_out(read, database));
    *report = read;
    read = NULL;
done:
    es_run_database_close(database);
    es_run_report_destroy(read);
    return status;
}

void es_run_report_destroy(EsRunReport *report) {
    if (report == NULL) {
        return;
    }
    while (report->texts != NULL) {
        EsRunText *next = report->texts->next;
        es_release(report->texts);
        report->texts = next;
    }
    for (int i = 0; i < report->n_held_out; i++) {
        es_release(report->held_out[i].episodes);
        es_release(report->held_out[i].scores);
    }
    es_release(report->held_out);
    es_release(report->settings);
    es_release(report->metrics);
    es_release(report->latencies);
    es_release(report->events);
    es_release(report);
}
