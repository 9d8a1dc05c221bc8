#include "network/lanes/lane_block.h"

int es_graph_next_reader(const EsGraph *graph, EsValueId value, int from) {
    for (int n = from; n < graph->n_nodes; n++) {
        const EsNode *node = &graph->nodes[n];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->input[i] == value) {
                return n;
            }
        }
    }
    return -1;
}

// Fuse ReLU and pooling where nothing else looks at what lies between.
static void extend_block(const EsGraph *graph, EsLaneBlock *block) {
    EsValueId z = graph->nodes[block->apply].output[0];
    int relu = es_graph_next_reader(graph, z, 0);
    if (relu < 0 || es_graph_next_reader(graph, z, relu + 1) >= 0 ||
        graph->values[z].role != ES_ROLE_ACTIVATION || graph->nodes[relu].op != ES_OP_ACTIVATION ||
        graph->nodes[relu].attributes.activation != ES_ACTIVATION_RELU) {
        return;
    }
    block->relu = relu;
    EsValueId r = graph->nodes[relu].output[0];
    int pool = -1, pool_input = -1, n_others = 0;
    for (int n = es_graph_next_reader(graph, r, 0); n >= 0;
         n = es_graph_next_reader(graph, r, n + 1)) {
        const EsNode *reader = &graph->nodes[n];
        if (reader->op == ES_OP_ACTIVATION_INPUT && reader->input[0] == r) {
            block->relu_input = n;
        } else if (reader->op == ES_OP_POOL && reader->attributes.pool == ES_POOL_MAX2 &&
                   pool < 0) {
            pool = n;
        } else if (reader->op == ES_OP_POOL_INPUT && reader->attributes.pool == ES_POOL_MAX2) {
            pool_input = n;
        } else {
            n_others++;
        }
    }
    if (pool >= 0 && n_others == 0 && graph->values[r].role == ES_ROLE_ACTIVATION) {
        block->pool = pool;
        block->pool_input = pool_input;
    }
}

int es_lane_block_find(const EsGraph *graph, int conv, EsLaneBlock *block) {
    *block = (EsLaneBlock){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    EsValueId y = graph->nodes[conv].output[0];
    if (graph->values[y].role != ES_ROLE_ACTIVATION || graph->nodes[conv].input[2] != ES_NO_VALUE) {
        return 0;
    }
    for (int n = es_graph_next_reader(graph, y, 0); n >= 0;
         n = es_graph_next_reader(graph, y, n + 1)) {
        int *const part[] = {&block->statistics, &block->apply, &block->sums, &block->input};
        const EsOp op[] = {ES_OP_NORM_STATISTICS, ES_OP_NORM_APPLY, ES_OP_NORM_SUMS,
                           ES_OP_NORM_INPUT};
        size_t k = 0;
        while (k < ES_COUNT_OF(op) && (graph->nodes[n].op != op[k] || *part[k] >= 0)) {
            k++;
        }
        if (k == ES_COUNT_OF(op)) {
            return 0;
        }
        *part[k] = n;
    }
    if (block->apply < 0) {
        return 0;
    }
    if (block->statistics < 0) {
        block->running = graph->values[graph->nodes[block->apply].input[1]].producer;
    }
    extend_block(graph, block);
    if (block->input >= 0) {
        EsValueId d_y = graph->nodes[block->input].output[0];
        int reader = es_graph_next_reader(graph, d_y, 0);
        if (reader >= 0 && graph->nodes[reader].op == ES_OP_CONV2D_WEIGHT &&
            graph->values[d_y].role == ES_ROLE_ACTIVATION &&
            es_graph_next_reader(graph, d_y, reader + 1) < 0) {
            block->weight = reader;
        }
    }
    return 1;
}
