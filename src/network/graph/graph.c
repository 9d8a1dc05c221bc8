// Values and nodes of a graph, and its first failure, after which builders do nothing.
#include "network/graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "network/graph/graph_build.h"

const EsOpInfo *es_op_info(EsOp op) {
    static const EsOpInfo infos[] = {
#define X(name, kernel, inputs, outputs, ...) {#kernel, inputs, outputs},
        ES_KERNEL_OP_LIST(X)
#undef X
#define X(name, word, inputs, outputs) {#word, inputs, outputs},
            ES_ALIAS_OP_LIST(X)
#undef X
    };
    return &infos[op];
}

const char *es_op_name(EsOp op) { return es_op_info(op)->name; }

EsStatus es_graph_create(int64_t n_envs, EsGraph **graph) {
    *graph = NULL;
    if (n_envs < 1) {
        return ES_FAIL(ARGUMENT, "a graph needs at least one environment, not %lld",
                       (long long)n_envs);
    }
    ES_TRY(es_allocate(sizeof **graph, (void **)graph));
    (*graph)->n_envs = n_envs;
    return ES_STATUS_OK;
}

void es_graph_destroy(EsGraph *graph) {
    if (graph != NULL) {
        es_release(graph->values);
        es_release(graph->nodes);
        es_release(graph);
    }
}

EsStatus es_graph_status(const EsGraph *graph) {
    if (graph->status == ES_STATUS_OK) {
        return ES_STATUS_OK;
    }
    return es_status_set(graph->status, __FILE__, __LINE__, "%s", graph->detail);
}

EsValueId es_graph_fail(EsGraph *graph, EsStatus status, const char *format, ...) {
    if (graph->status == ES_STATUS_OK) {
        graph->status = status;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(graph->detail, sizeof graph->detail, format, arguments);
        va_end(arguments);
    }
    return ES_NO_VALUE;
}

// Room for one more element of an array that doubles.
static int grow(EsGraph *graph, void **array, int count, int *capacity, size_t element_bytes) {
    if (count < *capacity) {
        return 1;
    }
    int wanted = *capacity == 0 ? 64 : *capacity * 2;
    if (es_reallocate(array, (size_t)*capacity * element_bytes, (size_t)wanted * element_bytes) !=
        ES_STATUS_OK) {
        es_graph_fail(graph, ES_STATUS_MEMORY, "out of memory for a graph of %d elements", wanted);
        return 0;
    }
    *capacity = wanted;
    return 1;
}

EsValueId es_graph_value(EsGraph *graph, const char *name, EsRole role, EsDtype dtype, int rank,
                         const int64_t *dims) {
    // the caller's dims may be those of a value, which growing moves
    int64_t copied[ES_MAX_RANK] = {0};
    for (int axis = 0; axis < rank && axis < ES_MAX_RANK; axis++) {
        copied[axis] = dims[axis];
    }
    if (graph->status != ES_STATUS_OK || !grow(graph, (void **)&graph->values, graph->n_values,
                                               &graph->values_capacity, sizeof(EsValue))) {
        return ES_NO_VALUE;
    }
    if (rank < 0 || rank > ES_MAX_RANK) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT, "%s: rank %d, at most %d", name, rank,
                             ES_MAX_RANK);
    }
    EsValue *value = &graph->values[graph->n_values];
    memset(value, 0, sizeof *value);
    snprintf(value->name, sizeof value->name, "%s", name);
    value->role = role;
    value->dtype = dtype;
    value->rank = rank;
    value->producer = -1;
    value->alias_of = ES_NO_VALUE;
    value->gradient = ES_NO_VALUE;
    for (int axis = 0; axis < ES_MAX_RANK; axis++) {
        value->dim[axis] = axis < rank ? copied[axis] : 1;
        if (value->dim[axis] < 1) {
            return es_graph_fail(graph, ES_STATUS_ARGUMENT,
                                 "%s: dimension %d is %lld, must be at least 1", name, axis,
                                 (long long)value->dim[axis]);
        }
    }
    return graph->n_values++;
}

EsNode *es_graph_node(EsGraph *graph, EsOp op) {
    if (graph->status != ES_STATUS_OK || !grow(graph, (void **)&graph->nodes, graph->n_nodes,
                                               &graph->nodes_capacity, sizeof(EsNode))) {
        return &graph->discarded;
    }
    EsNode *node = &graph->nodes[graph->n_nodes++];
    memset(node, 0, sizeof *node);
    node->op = op;
    return node;
}

void es_graph_node_inputs(EsGraph *graph, EsNode *node, int n_inputs, const EsValueId *inputs) {
    (void)graph;
    ES_ASSERT(n_inputs <= ES_MAX_NODE_INPUTS);
    node->n_inputs = n_inputs;
    memcpy(node->input, inputs, (size_t)n_inputs * sizeof *inputs);
}

void es_graph_node_outputs(EsGraph *graph, EsNode *node, int n_outputs, const EsValueId *outputs) {
    ES_ASSERT(n_outputs <= ES_MAX_NODE_OUTPUTS);
    node->n_outputs = n_outputs;
    memcpy(node->output, outputs, (size_t)n_outputs * sizeof *outputs);
    if (graph->status != ES_STATUS_OK) {
        return;
    }
    int needs = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        needs |= node->input[i] != ES_NO_VALUE && graph->values[node->input[i]].needs_gradient;
    }
    for (int i = 0; i < n_outputs; i++) {
        if (outputs[i] != ES_NO_VALUE) {
            graph->values[outputs[i]].producer = (int32_t)(node - graph->nodes);
            graph->values[outputs[i]].needs_gradient = needs;
        }
    }
}

// A value with the environment axis put in front.
static EsValueId add_per_env(EsGraph *graph, const char *name, EsRole role, EsDtype dtype, int rank,
                             const int64_t *dims) {
    int64_t all[ES_MAX_RANK] = {graph->n_envs};
    for (int axis = 0; axis < rank && axis + 1 < ES_MAX_RANK; axis++) {
        all[axis + 1] = dims[axis];
    }
    return es_graph_value(graph, name, role, dtype, rank + 1, all);
}

int64_t es_value_count(const EsValue *value) {
    int64_t count = 1;
    for (int axis = 1; axis < value->rank; axis++) {
        count *= value->dim[axis];
    }
    return count;
}

EsValueId es_graph_input(EsGraph *graph, const char *name, EsDtype dtype, int rank,
                         const int64_t *dims) {
    return add_per_env(graph, name, ES_ROLE_INPUT, dtype, rank, dims);
}

EsValueId es_graph_shared_input(EsGraph *graph, const char *name, EsDtype dtype, int rank,
                                const int64_t *dims) {
    EsValueId id = es_graph_value(graph, name, ES_ROLE_INPUT, dtype, rank, dims);
    if (id != ES_NO_VALUE) {
        graph->values[id].is_shared = 1;
    }
    return id;
}

// Members of a slab start on a vector boundary within an environment's part.
static int64_t add_to_slab(int64_t *slab_count, int64_t count) {
    const int64_t boundary = ES_ALIGNMENT / (int64_t)sizeof(float);
    int64_t offset = *slab_count;
    *slab_count = (offset + count + boundary - 1) / boundary * boundary;
    return offset;
}

static void check_overlap(EsGraph *graph, EsValueId id) {
    const EsValue *value = &graph->values[id];
    for (int i = 0; i < id; i++) {
        const EsValue *other = &graph->values[i];
        if (other->role == ES_ROLE_PARAMETER &&
            other->slab_offset < value->slab_offset + es_value_count(value) &&
            value->slab_offset < other->slab_offset + es_value_count(other)) {
            es_graph_fail(graph, ES_STATUS_ARGUMENT, "parameter \"%s\" lies over \"%s\"",
                          value->name, other->name);
        }
    }
}

EsValueId es_graph_parameter(EsGraph *graph, const char *name, int rank, const int64_t *dims,
                             float bound, float start) {
    return es_graph_parameter_with(graph, name, rank, dims, ES_INITIAL_UNIFORM, bound, start);
}

EsValueId es_graph_parameter_with(EsGraph *graph, const char *name, int rank, const int64_t *dims,
                                  EsInitial initial, float bound, float start) {
    for (int i = 0; i < graph->n_values; i++) {
        if (graph->values[i].role == ES_ROLE_PARAMETER &&
            strcmp(graph->values[i].name, name) == 0) {
            return es_graph_fail(graph, ES_STATUS_ARGUMENT, "parameter \"%s\" exists already",
                                 name);
        }
    }
    EsValueId id = add_per_env(graph, name, ES_ROLE_PARAMETER, ES_DTYPE_F32, rank, dims);
    if (id != ES_NO_VALUE) {
        EsValue *value = &graph->values[id];
        value->needs_gradient = 1;
        value->initial = initial;
        value->bound = bound;
        value->start = start;
        value->slab_offset = add_to_slab(&graph->next_parameter, es_value_count(value));
        graph->n_parameters = ES_MAX(graph->n_parameters, graph->next_parameter);
        check_overlap(graph, id);
    }
    return id;
}

int64_t es_graph_seek_parameters(EsGraph *graph, int64_t offset) {
    int64_t old = graph->next_parameter;
    if (offset < 0 || offset % (ES_ALIGNMENT / (int64_t)sizeof(float)) != 0) {
        es_graph_fail(graph, ES_STATUS_ARGUMENT,
                      "parameters cannot go to offset %lld, which is no multiple of %d bytes",
                      (long long)offset, ES_ALIGNMENT);
        return old;
    }
    graph->next_parameter = offset;
    return old;
}

EsValueId es_graph_state(EsGraph *graph, const char *name, int rank, const int64_t *dims,
                         float start) {
    EsValueId id = add_per_env(graph, name, ES_ROLE_STATE, ES_DTYPE_F32, rank, dims);
    if (id != ES_NO_VALUE) {
        EsValue *value = &graph->values[id];
        value->start = start;
        value->slab_offset = add_to_slab(&graph->n_states, es_value_count(value));
    }
    return id;
}

void es_graph_keep(EsGraph *graph, EsValueId value) {
    if (value != ES_NO_VALUE && graph->values[value].role == ES_ROLE_ACTIVATION) {
        graph->values[value].role = ES_ROLE_RESULT;
    }
}

int64_t es_graph_parameter_count(const EsGraph *graph) {
    int64_t count = 0;
    for (int i = 0; i < graph->n_values; i++) {
        if (graph->values[i].role == ES_ROLE_PARAMETER) {
            count += es_value_count(&graph->values[i]);
        }
    }
    return count;
}

EsValueId es_graph_find(const EsGraph *graph, const char *name) {
    for (int i = 0; i < graph->n_values; i++) {
        if (strcmp(graph->values[i].name, name) == 0) {
            return i;
        }
    }
    return ES_NO_VALUE;
}

// --- building nodes ---

// Checks and small steps that all builders share.

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
