// Types of all metrics, and help texts with their units, for scrapers of /metrics.
//
// docs/telemetry.md, "Names", has the same names; the test `metrics` scrapes runs of all kinds and
// fails for a name that is not here.
#ifndef ES_TELEMETRY_METRIC_FAMILIES_H
#define ES_TELEMETRY_METRIC_FAMILIES_H

typedef struct EsMetricFamily {
    const char *name; // of the metric; a * stands for the name of a head of the policy
    const char *type; // "gauge" or "counter"
    const char *help;
} EsMetricFamily;

// The first that fits; NULL for a name that is not ours, as of a program with metrics of its own.
const EsMetricFamily *es_metric_family_find(const char *name);

#endif
