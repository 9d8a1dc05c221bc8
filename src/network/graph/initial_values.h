// The values that parameters start from: a function of the random key and of a value's place in the
// slab alone, with the same bits on every machine.
#ifndef ES_NETWORK_INITIAL_VALUES_H
#define ES_NETWORK_INITIAL_VALUES_H

#include "network/graph/graph.h"
#include "network/graph/initial_rules.h"

ES_EXTERN_C_BEGIN

// Doubles of workspace that the largest ORTHOGONAL parameter of the graph needs; 0 without one.
size_t es_initial_workspace(const EsGraph *graph);

// Fill one parameter or state of one environment, whose part of the slab begins at `part`. The
// workspace may be NULL where nothing is ORTHOGONAL.
void es_initial_values(const EsValue *value, const EsInitialKey *key, double *workspace,
                       float *part);

ES_EXTERN_C_END

#endif
