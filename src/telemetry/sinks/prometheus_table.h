// The table behind the Prometheus endpoint: the latest value of every metric and a counter per
// event type, rendered in the text format 0.0.4.
//
// Names are made of [a-zA-Z0-9_:]. Metrics whose names become the same ("a.b", "a/b") are one
// family of samples: the first is bare, each later one carries its own name in the label raw_name.
// One thread at a time.
#ifndef ES_TELEMETRY_PROMETHEUS_TABLE_H
#define ES_TELEMETRY_PROMETHEUS_TABLE_H

#include "telemetry/event.h"
#include "telemetry/text.h"

typedef struct EsPrometheusMetric {
    char *raw_name; // owned, ended by 0
    char *name;     // owned; as Prometheus sees it
    double value;
    int is_first;           // of its family
    int32_t next_in_family; // -1 at the end
    int32_t last_in_family; // only of the first one; itself when alone
} EsPrometheusMetric;

// Positions of metrics, found by a name: open addressing, a power of two, at most half full.
typedef struct EsPrometheusIndex {
    int32_t *slots; // owned; position + 1, 0 when free
    size_t n_slots;
} EsPrometheusIndex;

typedef struct EsPrometheusTable {
    EsText labels;               // run="demo",kind="hosts", or empty
    EsPrometheusMetric *metrics; // owned, in order of appearance
    size_t n_metrics, capacity;
    EsPrometheusIndex by_raw_name, by_name; // by_name holds the first of each family
    EsText scratch;
    int64_t n_events[ES_EVENT_COUNT];
} EsPrometheusTable;

// `labels` (nullable) are shown with every sample: names of [a-zA-Z0-9_] not starting with a digit
// or "__", each once, none of them type or raw_name, at most 16; values in quotes, where \\ \" and
// \n are escapes. ARGUMENT says at which byte it is something else.
EsStatus es_prometheus_table_create(EsPrometheusTable *table, const char *labels);
void es_prometheus_table_destroy(EsPrometheusTable *table);

void es_prometheus_table_count(EsPrometheusTable *table, EsEventType type);

// `name` is not ended by 0 and has no zero byte.
EsStatus es_prometheus_table_set(EsPrometheusTable *table, const char *name, size_t name_bytes,
                                 double value);

void es_prometheus_table_render(const EsPrometheusTable *table, EsText *text);

#endif
