// Queries to train on in which every depth comes as often as every other.
//
// Deep facts are few, 4 % of those of family; drawn evenly they would hardly be seen.
#ifndef ES_RUNS_PROVE_BALANCE_H
#define ES_RUNS_PROVE_BALANCE_H

#include "runs/prove/prove_evaluate.h"

// Facts whose depth in the graph is min_query_depth to max_query_depth, by depth. Those of a depth
// that has fewer than another are repeated until there are as many: all n times, and the first of
// them once more. INPUT when there are none.
EsStatus es_prove_balance_queries(const EsProveSettings *settings, const EsKnowledgeGraph *graph,
                                  EsProveQueries *queries);

#endif
