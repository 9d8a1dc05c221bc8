// Checks and small steps that all builders share.
#include "network/graph/graph_build.h"

#include <stdio.h>
#include <string.h>

int es_graph_check_exists(EsGraph *graph, const char *what, EsValueId id) {
    if (graph->status == ES_STATUS_OK && (id < 0 || id >= graph->n_values)) {
        es_graph_fail(graph, ES_STATUS_ARGUMENT, "%s: no such value", what);
    }
    return graph->status == ES_STATUS_OK;
}

int es_graph_check(EsGraph *graph, const char *what, EsValueId id, int rank, EsDtype dtype) {
    if (!es_graph_check_exists(graph, what, id)) {
        return 0;
    }
    const EsValue *value = &graph->values[id];
    if (value->rank != rank || value->dtype != dtype) {
        es_graph_fail(graph, ES_STATUS_ARGUMENT,
                      "%s: \"%s\" is %s of rank %d, expected %s of rank %d", what, value->name,
                      es_dtype_name(value->dtype), value->rank, es_dtype_name(dtype), rank);
    } else if (value->is_shared) {
        es_graph_fail(graph, ES_STATUS_ARGUMENT,
                      "%s: \"%s\" is shared by all environments; one of each is needed", what,
                      value->name);
    }
    return graph->status == ES_STATUS_OK;
}

int es_graph_check_shared(EsGraph *graph, const char *what, EsValueId id, int rank, EsDtype dtype) {
    if (es_graph_check_exists(graph, what, id) &&
        (!graph->values[id].is_shared || graph->values[id].rank != rank ||
         graph->values[id].dtype != dtype)) {
        es_graph_fail(graph, ES_STATUS_ARGUMENT, "%s: \"%s\" is not a shared %s of rank %d", what,
                      graph->values[id].name, es_dtype_name(dtype), rank);
    }
    return graph->status == ES_STATUS_OK;
}

int es_graph_check_layer_input(EsGraph *graph, const char *what, EsValueId id) {
    if (!es_graph_check_exists(graph, what, id)) {
        return 0;
    }
    const EsValue *value = &graph->values[id];
    if (value->role == ES_ROLE_PARAMETER || value->role == ES_ROLE_STATE) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT, "%s: \"%s\" is a parameter or a state",
                             what, value->name) != ES_NO_VALUE;
    }
    return es_graph_check(graph, what, id, value->rank, ES_DTYPE_F32);
}

int es_graph_check_dims(EsGraph *graph, const char *what, EsValueId id, int rank,
                        const int64_t *dims, EsDtype dtype) {
    if (!es_graph_check(graph, what, id, rank + 1, dtype)) {
        return 0;
    }
    for (int axis = 0; axis < rank; axis++) {
        if (graph->values[id].dim[axis + 1] != dims[axis]) {
            es_graph_fail(graph, ES_STATUS_ARGUMENT,
                          "%s: \"%s\" has %lld at axis %d, expected %lld", what,
                          graph->values[id].name, (long long)graph->values[id].dim[axis + 1],
                          axis + 1, (long long)dims[axis]);
            return 0;
        }
    }
    return 1;
}

int es_graph_check_same_shape(EsGraph *graph, const char *what, EsValueId a, EsValueId b) {
    if (!es_graph_check_layer_input(graph, what, a) ||
        !es_graph_check_layer_input(graph, what, b)) {
        return 0;
    }
    const EsValue *first = &graph->values[a], *second = &graph->values[b];
    if (memcmp(first->dim, second->dim, sizeof first->dim) != 0) {
        es_graph_fail(graph, ES_STATUS_ARGUMENT, "%s: \"%s\" and \"%s\" have different shapes",
                      what, first->name, second->name);
        return 0;
    }
    return 1;
}

EsValueId es_graph_add_activation(EsGraph *graph, const char *name, EsDtype dtype, int rank,
                                  const int64_t *dims) {
    EsValueId id = es_graph_value(graph, name, ES_ROLE_ACTIVATION, dtype, rank, dims);
    if (id != ES_NO_VALUE) {
        graph->values[id].is_rounded = dtype == ES_DTYPE_F32;
    }
    return id;
}

EsValueId es_graph_add_statistic(EsGraph *graph, const char *name, int rank, const int64_t *dims) {
    return es_graph_value(graph, name, ES_ROLE_ACTIVATION, ES_DTYPE_F32, rank, dims);
}

EsValueId es_graph_add_like(EsGraph *graph, const char *name, EsValueId model) {
    EsValue copy = graph->values[model];
    return es_graph_add_activation(graph, name, copy.dtype, copy.rank, copy.dim);
}

EsValueId es_graph_add_parameter_with(EsGraph *graph, const char *layer, const char *part, int rank,
                                      const int64_t *dims, EsInitial initial, float bound,
                                      float start) {
    char name[ES_NAME_BYTES];
    if (!es_graph_join_name(graph, layer, part, name)) {
        return ES_NO_VALUE;
    }
    return es_graph_parameter_with(graph, name, rank, dims, initial, bound, start);
}

EsValueId es_graph_add_parameter(EsGraph *graph, const char *layer, const char *part, int rank,
                                 const int64_t *dims, float bound, float start) {
    return es_graph_add_parameter_with(graph, layer, part, rank, dims, ES_INITIAL_UNIFORM, bound,
                                       start);
}

int es_graph_join_name(EsGraph *graph, const char *layer, const char *part,
                       char name[ES_NAME_BYTES]) {
    if (snprintf(name, ES_NAME_BYTES, "%s.%s", layer, part) >= ES_NAME_BYTES) {
        es_graph_fail(graph, ES_STATUS_ARGUMENT, "layer name \"%s\" is too long", layer);
        return 0;
    }
    return 1;
}

EsNode *es_graph_add_node_of(EsGraph *graph, EsOp op, int n_inputs, const EsValueId *inputs,
                             const EsValueId *outputs) {
    EsNode *node = es_graph_node(graph, op);
    es_graph_node_inputs(graph, node, n_inputs, inputs);
    es_graph_node_outputs(graph, node, es_op_info(op)->n_outputs, outputs);
    return node;
}

EsNode *es_graph_add_node(EsGraph *graph, EsOp op, const EsValueId *inputs,
                          const EsValueId *outputs) {
    ES_ASSERT(es_op_info(op)->n_inputs != ES_OP_ANY);
    return es_graph_add_node_of(graph, op, es_op_info(op)->n_inputs, inputs, outputs);
}
