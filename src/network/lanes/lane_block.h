// Finding what fuses: a convolution with the batch norm, ReLU and pooling behind it, and the nodes
// of their gradients.
#ifndef ES_NETWORK_LANE_BLOCK_H
#define ES_NETWORK_LANE_BLOCK_H

#include "network/graph/graph.h"

ES_EXTERN_C_BEGIN

// The nodes of one convolution with its batch norm, -1 where absent.
typedef struct EsLaneBlock {
    int statistics, running, apply, relu, pool; // forward
    int relu_input, pool_input, sums, input;    // backward
    int weight; // the weight gradient, where that alone reads the gradient of the convolution
} EsLaneBlock;

// The batch norm that alone reads this convolution's output; 0 when there is none.
int es_lane_block_find(const EsGraph *graph, int conv, EsLaneBlock *block);

// The next node at or after `from` that reads the value, or -1.
int es_graph_next_reader(const EsGraph *graph, EsValueId value, int from);

ES_EXTERN_C_END

#endif
