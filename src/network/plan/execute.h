// One node of a graph as one kernel call.
#ifndef ES_NETWORK_EXECUTE_H
#define ES_NETWORK_EXECUTE_H

#include "network/graph/graph.h"

ES_EXTERN_C_BEGIN

// `tensors` has one entry per value of the graph.
void es_execute_node(const EsKernels *kernels, EsStream *stream, const EsNode *node,
                     const EsTensor *tensors);

ES_EXTERN_C_END

#endif
