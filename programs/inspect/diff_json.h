// A comparison of two runs as JSON.
#ifndef ES_PROGRAMS_DIFF_JSON_H
#define ES_PROGRAMS_DIFF_JSON_H

#include <stdio.h>

#include "runs/inspect/run_compare.h"

// {"a", "b", "configuration", "outcome", "throughput", "metrics", "latencies", "events",
// "n_lacking"}; what was not measured is null. IO when the stream fails.
EsStatus es_diff_json_print(const EsRunComparison *comparison, FILE *stream);

#endif
