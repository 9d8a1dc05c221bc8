// A comparison of policies as JSON: evaluation.json of a run folder, and what --json prints.
#ifndef ES_RUNS_GROW_EVALUATION_FILE_H
#define ES_RUNS_GROW_EVALUATION_FILE_H

#include <jansson.h>

#include "runs/grow/grow_evaluate.h"

// {"test_accuracy": [mean, low, high], ...} of intervals [ES_N_MEASURES]. The caller owns it; NULL
// without memory.
json_t *es_grow_intervals_json(const EsInterval *intervals);

// Everything of the arms that have played: episodes, means, differences. The caller owns it; NULL
// without memory.
json_t *es_grow_evaluation_json(const EsGrowEvaluation *evaluation);

// Written atomically, every number with all its bits.
EsStatus es_grow_evaluation_save(const EsGrowEvaluation *evaluation, const char *path);

// The outcomes; es_grow_evaluation_compare makes the intervals anew. INPUT names what is wrong.
EsStatus es_grow_evaluation_load(const char *path, EsGrowEvaluation **evaluation);

#endif
