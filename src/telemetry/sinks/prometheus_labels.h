// Checking the labels a user gives to all samples of the Prometheus endpoint.
#ifndef ES_TELEMETRY_PROMETHEUS_LABELS_H
#define ES_TELEMETRY_PROMETHEUS_LABELS_H

#include "telemetry/text.h"

// Add `labels` (a list like run="demo",kind="hosts") to `text` as Prometheus wants them; the rules
// are those of es_prometheus_table_create.
EsStatus es_prometheus_labels_check(const char *labels, EsText *text);

#endif
