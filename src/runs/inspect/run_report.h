// A report of a run, read once from its folder into plain data: settings, outcome, metrics,
// latencies. Works while the run is going on, and then holds the state so far.
//
//     EsRunReport *report; ES_TRY(es_run_report_read("runs/demo", &report));
//     printf("%g\n", report->measures[ES_FIGURE_FINAL_ACCURACY].value);
//     es_run_report_destroy(report);
#ifndef ES_RUNS_RUN_REPORT_H
#define ES_RUNS_RUN_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "esper/status.h"

// A number, and how far chance may have moved it.
typedef struct EsMeasure {
    double value;  // NaN when it was not measured
    double spread; // of the samples: standard deviation, or interquartile range of a median
    double noise;  // two standard errors of a mean, the range of a median; 0: exact; NaN: unknown
    int64_t n;     // samples; 0 = not measured
} EsMeasure;

// X(NAME, name, unit, floor): differences up to floor * value are noise even if the spread is
// smaller, since a machine is never equally fast twice. Throughput comes last.
#define ES_FIGURE_LIST(X)                                                                          \
    X(ROUNDS, "rounds", "", 0)                                                                     \
    X(FINAL_ACCURACY, "final accuracy", "%", 0)                                                    \
    X(BEST_ACCURACY, "best accuracy", "%", 0)                                                      \
    X(FINAL_LOSS, "final loss", "", 0)                                                             \
    X(REWARD, "final reward", "", 0)                                                               \
    X(HOST_PARAMETERS, "host parameters", "", 0)                                                   \
    X(PARAMETER_RATIO, "parameter ratio", "", 0)                                                   \
    X(SECONDS, "seconds", "s", 0.03)                                                               \
    X(ANOMALIES, "anomalies", "", 0)                                                               \
    X(STEPS_PER_SECOND, "environment steps", "/s", 0.03)                                           \
    X(IMAGES_PER_SECOND, "training images", "/s", 0.03)

typedef enum EsFigure {
#define X(NAME, name, unit, floor) ES_FIGURE_##NAME,
    ES_FIGURE_LIST(X)
#undef X
        ES_FIGURE_COUNT
} EsFigure;

#define ES_FIGURE_FIRST_OF_THROUGHPUT ES_FIGURE_STEPS_PER_SECOND

const char *es_figure_name(EsFigure figure);
const char *es_figure_unit(EsFigure figure); // "" for a plain number

// All texts are owned by the report. Every list below begins with the name by which two runs are
// paired.
typedef struct EsRunSetting {
    const char *name; // "section.key"
    const char *value;
} EsRunSetting;

// A metric is one number per round: its change over rounds is learning, and says
// nothing of chance. Its noise is unknown.
typedef struct EsRunMetric {
    const char *name;
    double last;    // newest value, NaN when that is missing
    EsMeasure mean; // over its last ten rounds
} EsRunMetric;

typedef struct EsRunLatency {
    const char *name; // "phase train", "step total"
    EsMeasure p50_ms; // phases: median over rounds of the round's median
    EsMeasure p95_ms; // phases: median over rounds
    EsMeasure max_ms;
    int64_t n_calls;
} EsRunLatency;

typedef struct EsRunEventCount {
    const char *name;
    int64_t n_rows; // at least 1
} EsRunEventCount;

// Held-out results of one policy, baseline or scorer, in data that decided nothing.
typedef struct EsRunHeldOut {
    const char *name;  // "ppo", "wait", ...; "network" of a fit, "hosts" of hosts
    const char *unit;  // "%": test accuracy; "MRR": mean reciprocal rank of test queries, 0 to 1
    EsMeasure score;   // mean over episodes, hosts or queries
    int64_t *episodes; // owned [n], rising: ids; NULL where there are none
    double *scores;    // owned [n], of these episodes
    int64_t n;
} EsRunHeldOut;

typedef struct EsRunText EsRunText;

typedef struct EsRunReport {
    const char *path;                           // as given
    const char *kind, *task, *device, *outcome; // "?" when not recorded; outcome "unfinished"
    int64_t n_envs;                             // environments; 0 when not recorded
    EsMeasure measures[ES_FIGURE_COUNT];
    EsRunSetting *settings; // owned, in the file's order
    int n_settings;
    EsRunMetric *metrics; // owned, by name
    int n_metrics;
    EsRunLatency *latencies; // owned
    int n_latencies;
    EsRunEventCount *events; // owned, by name
    int n_events;
    EsRunHeldOut *held_out; // owned, in the order of the comparison: the run's own policy first
    int n_held_out;
    EsRunText *texts; // owned, of all names and values
} EsRunReport;

// INPUT when there is no such run, when its database is missing or its config.ini cannot be read;
// UNSUPPORTED without SQLite in the build.
EsStatus es_run_report_read(const char *path, EsRunReport **report);
void es_run_report_destroy(EsRunReport *report);

// Makes room for item `n` of a list that has n; *items is released with es_release.
EsStatus es_list_grow(void **items, int64_t n, size_t item_bytes);

#endif
