// Shared by the files that fill EsRunFacts.
#ifndef ES_RUNS_RUN_FACTS_INTERNAL_H
#define ES_RUNS_RUN_FACTS_INTERNAL_H

#include <stddef.h>

#include "runs/inspect/run_facts.h"
#include "telemetry/sinks/run_database.h"

struct EsRunText {
    EsRunText *next;
    char text[];
};

// Keep a copy of the text for as long as the facts.
EsStatus es_run_facts_keep(EsRunFacts *facts, const char *text, const char **kept);

// Make room for item `n` of a list that has n; *items is released with es_release.
EsStatus es_list_grow(void **items, int64_t n, size_t item_bytes);

// The settings of config.ini, whatever their names.
EsStatus es_run_facts_read_settings(EsRunFacts *facts);

EsStatus es_run_facts_read_metrics(EsRunFacts *facts, EsRunDatabase *database);
EsStatus es_run_facts_read_latencies(EsRunFacts *facts, EsRunDatabase *database);

// Rows of this event; with 0 its table may not exist.
int64_t es_run_facts_event_rows(const EsRunFacts *facts, const char *name);

// Hand every row of the query to `take`, until one fails.
typedef EsStatus (*EsTakeRow)(void *context, const EsRunQuery *query);
EsStatus es_run_facts_each(EsRunDatabase *database, const char *sql, EsTakeRow take, void *context);

// --- samples ---

typedef struct EsSamples {
    double *values; // owned
    int64_t n;
} EsSamples;

// Missing and non-finite values are left out.
EsStatus es_samples_add(EsSamples *samples, double value);
void es_samples_destroy(EsSamples *samples);

// Mean and standard deviation of independent samples (noise: two standard errors), or of a series
// (noise: unknown, see EsRunMetric).
EsMeasure es_samples_mean(const EsSamples *samples, int is_series);

// Quantile and interquartile range; sorts. The noise is the range.
EsMeasure es_samples_quantile(EsSamples *samples, double share);

EsMeasure es_measure_missing(void);
EsMeasure es_measure_exact(double value);

#endif
