// Two runs beside each other: different settings, results of each, and whether a difference is
// more than chance.
//
// A is the reference, B is compared with it. Nothing is printed; `esper diff` does that.
//
//     EsRunComparison *comparison; ES_TRY(es_run_compare("runs/a", "runs/b", &comparison));
//     if (comparison->measures[ES_FIGURE_FINAL_ACCURACY] == ES_VERDICT_DIFFERS) { ... }
//     es_run_comparison_destroy(comparison);
#ifndef ES_RUNS_RUN_COMPARE_H
#define ES_RUNS_RUN_COMPARE_H

#include "runs/inspect/run_report.h"

typedef enum EsVerdict {
    ES_VERDICT_MISSING, // not measured in one of them, or in both
    ES_VERDICT_EQUAL,
    ES_VERDICT_NOISE,   // no more than twice the standard error of the difference
    ES_VERDICT_UNKNOWN, // one sample: nothing says how far chance moves it
    ES_VERDICT_DIFFERS
} EsVerdict;

// "missing", "equal", "noise", "unknown", "differs"
const char *es_verdict_name(EsVerdict verdict);

// Noise is a difference up to sqrt(a.noise^2 + b.noise^2), which for means is twice its standard
// error (Welch), or up to floor * |a|.
EsVerdict es_measure_compare(EsMeasure a, EsMeasure b, double floor);

// Pairs by name; `a` or `b` is NULL where that run has no such name. Borrowed from the reports. A's
// names come first, in its order.
typedef struct EsSettingPair {
    const EsRunSetting *a, *b;
} EsSettingPair;

typedef struct EsMetricPair {
    const EsRunMetric *a, *b;
    int is_equal; // newest values and means; there is no more of a verdict, see EsRunMetric
} EsMetricPair;

typedef struct EsLatencyPair {
    const EsRunLatency *a, *b;
    EsVerdict verdict; // on the medians
} EsLatencyPair;

typedef struct EsEventPair {
    const EsRunEventCount *a, *b;
} EsEventPair;

typedef struct EsHeldOutPair {
    const EsRunHeldOut *a, *b;
    EsMeasure difference; // B - A; noise: two standard errors, so half of an interval of 95 %
    int is_paired;        // mean of the differences of single episodes, which both have
    EsVerdict verdict;
} EsHeldOutPair;

typedef struct EsRunComparison {
    EsRunReport *a, *b; // owned
    EsVerdict measures[ES_FIGURE_COUNT];
    EsSettingPair *settings; // owned; only those that are not the same in both
    int n_settings;
    EsMetricPair *metrics; // owned
    int n_metrics;
    EsLatencyPair *latencies; // owned
    int n_latencies;
    EsEventPair *events; // owned
    int n_events;
    EsHeldOutPair *held_out; // owned
    int n_held_out;
    int n_lacking; // metric names and event types that A has and B lacks
} EsRunComparison;

// ARGUMENT when both paths are the same run; otherwise as es_run_report_read.
EsStatus es_run_compare(const char *a, const char *b, EsRunComparison **comparison);
void es_run_comparison_destroy(EsRunComparison *comparison);

// Returns whether B lacks an entry of A. Events of incidents (an anomaly, a trend, a rollback, a
// resumption, a round that lasts) are not lacking when nothing happened.
int es_metric_is_lacking(const EsMetricPair *pair);
int es_event_is_lacking(const EsEventPair *pair);

#endif
