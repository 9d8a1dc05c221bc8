// Reverse-mode differentiation on the graph: every forward node that a parameter's value passes
// through gets the nodes of its gradient appended, last node first. A value read by several nodes
// gets one gradient per reader, summed by ADD nodes.
#include <stdio.h>
#include <string.h>

#include "network/graph/graph_build.h"

typedef struct Differentiation {
    EsGraph *graph;
    EsNode node; // a copy of the forward node at hand: appending may move the array
} Differentiation;

static int needs(const Differentiation *d, EsValueId value) {
    return value != ES_NO_VALUE && d->graph->values[value].needs_gradient;
}

// A fresh value for one contribution to the gradient of `of`. The gradient of a parameter lives in
// the gradient slab.
static EsValueId contribution(EsGraph *graph, EsValueId of) {
    EsValue source = graph->values[of];
    char name[ES_NAME_BYTES];
    snprintf(name, sizeof name, "d %.60s", source.name);
    EsRole role = source.role == ES_ROLE_PARAMETER ? ES_ROLE_GRADIENT : ES_ROLE_ACTIVATION;
    EsValueId id = es_graph_value(graph, name, role, source.dtype, source.rank, source.dim);
    if (id != ES_NO_VALUE) {
        graph->values[id].slab_offset = source.slab_offset;
        graph->values[id].is_rounded = source.is_rounded;
    }
    return id;
}

// Take `part` into the gradient of `of`.
static void accumulate(EsGraph *graph, EsValueId of, EsValueId part) {
    EsValueId before = graph->values[of].gradient;
    if (before == ES_NO_VALUE) {
        graph->values[of].gradient = part;
        return;
    }
    // only the sum may stand in the gradient slab
    if (graph->values[of].role == ES_ROLE_PARAMETER) {
        graph->values[before].role = ES_ROLE_ACTIVATION;
        graph->values[part].role = ES_ROLE_ACTIVATION;
    }
    EsValueId total = contribution(graph, of);
    es_graph_add_node(graph, ES_OP_ADD, (EsValueId[]){before, part}, &total);
    graph->values[of].gradient = total;
}

// Append a gradient node whose outputs are contributions to `targets`; a target that needs no
// gradient is left out.
static EsNode *append(Differentiation *d, EsOp op, const EsValueId *inputs,
                      const EsValueId *targets) {
    EsValueId outputs[ES_MAX_NODE_OUTPUTS];
    const int n_targets = es_op_info(op)->n_outputs;
    for (int i = 0; i < n_targets; i++) {
        outputs[i] = needs(d, targets[i]) ? contribution(d->graph, targets[i]) : ES_NO_VALUE;
    }
    EsNode *node = es_graph_add_node(d->graph, op, inputs, outputs);
    node->attributes = d->node.attributes;
    int index = (int)(node - d->graph->nodes);
    for (int i = 0; i < n_targets && d->graph->status == ES_STATUS_OK; i++) {
        if (outputs[i] != ES_NO_VALUE) {
            accumulate(d->graph, targets[i], outputs[i]);
        }
    }
    return d->graph->status == ES_STATUS_OK ? &d->graph->nodes[index] : &d->graph->discarded;
}

// y = op(x, weight[, bias]): two nodes
static void layer_gradient(Differentiation *d, EsOp input_op, EsOp weight_op, EsValueId d_y) {
    const EsValueId x = d->node.input[0], weight = d->node.input[1];
    const EsValueId bias = d->node.n_inputs > 2 ? d->node.input[2] : ES_NO_VALUE;
    append(d, weight_op, (EsValueId[]){x, d_y}, (EsValueId[]){weight, bias});
    if (needs(d, x)) {
        append(d, input_op, (EsValueId[]){weight, d_y}, &x);
    }
}

static void norm_gradient(Differentiation *d, EsValueId d_y) {
    const EsValueId x = d->node.input[0], mean = d->node.input[1], inv_std = d->node.input[2];
    const EsValueId gamma = d->node.input[3], beta = d->node.input[4];
    int32_t source = d->graph->values[mean].producer;
    if (d->graph->nodes[source].op != ES_OP_BATCHNORM_STATISTICS) {
        es_graph_fail(d->graph, ES_STATUS_UNSUPPORTED,
                      "\"%s\": batch norm with running statistics has no gradient here",
                      d->graph->values[d->node.output[0]].name);
        return;
    }
    append(d, ES_OP_BATCHNORM_BACKWARD_SUMS, (EsValueId[]){x, mean, inv_std, d_y},
           (EsValueId[]){gamma, beta});
    if (needs(d, x) && d->graph->status == ES_STATUS_OK) {
        const EsValueId inputs[] = {x,
                                    mean,
                                    inv_std,
                                    gamma,
                                    d->graph->values[gamma].gradient,
                                    d->graph->values[beta].gradient,
                                    d_y};
        append(d, ES_OP_BATCHNORM_BACKWARD_INPUT, inputs, &x);
    }
}

static void lstm_gradient(Differentiation *d, EsValueId d_y) {
    EsValueId inputs[12];
    memcpy(inputs, d->node.input, 8 * sizeof *inputs);
    memcpy(inputs + 8, d->node.output, 3 * sizeof *inputs);
    inputs[11] = d_y;
    // in the order of the kernel's outputs: gates, x, h_start, c_start, then the four weights
    const EsValueId targets[] = {d->node.output[0], d->node.input[4], d->node.input[6],
                                 d->node.input[7],  d->node.input[0], d->node.input[1],
                                 d->node.input[2],  d->node.input[3]};
    append(d, ES_OP_LSTM_BACKWARD, inputs, targets);
}

static void concat_gradient(Differentiation *d, EsValueId d_y) {
    int64_t first = 0;
    for (int i = 0; i < d->node.n_inputs; i++) {
        const EsValueId x = d->node.input[i];
        if (needs(d, x)) {
            append(d, ES_OP_CONCAT_BACKWARD, &d_y, &x)->attributes.first = first;
        }
        const EsValue *value = &d->graph->values[x];
        first += value->dim[value->rank - 1];
    }
}

static void add_gradient(Differentiation *d, EsValueId d_y) {
    for (int i = 0; i < 2; i++) {
        if (needs(d, d->node.input[i])) {
            accumulate(d->graph, d->node.input[i], d_y);
        }
    }
}

static void layernorm_gradient(Differentiation *d, EsValueId y, EsValueId d_y) {
    const EsValueId *in = d->node.input, *out = d->node.output;
    if (!needs(d, in[0])) {
        es_graph_fail(d->graph, ES_STATUS_UNSUPPORTED,
                      "\"%s\": layer norm of a value without gradient cannot be trained",
                      d->graph->values[y].name);
        return;
    }
    append(d, ES_OP_LAYERNORM_BACKWARD, (EsValueId[]){in[0], out[0], out[1], in[1], d_y},
           (EsValueId[]){in[0], in[1], in[2]});
}

static void reshape_gradient(Differentiation *d, EsValueId d_y) {
    int n_values = d->graph->n_values;
    append(d, ES_OP_RESHAPE, &d_y, &d->node.input[0]);
    // the first value it made is the gradient under the old shape
    if (d->graph->status == ES_STATUS_OK) {
        d->graph->values[n_values].alias_of = d_y;
    }
}

// The gradient nodes of one forward node, given the gradient of its main output.
static void differentiate_node(Differentiation *d, EsValueId y, EsValueId d_y) {
    const EsValueId *in = d->node.input, *out = d->node.output;
    switch (d->node.op) {
    case ES_OP_ADD:
        add_gradient(d, d_y);
        break;
    case ES_OP_CONCAT_FORWARD:
        concat_gradient(d, d_y);
        break;
    case ES_OP_LINEAR_FORWARD:
        layer_gradient(d, ES_OP_LINEAR_BACKWARD_INPUT, ES_OP_LINEAR_BACKWARD_WEIGHT, d_y);
        break;
    case ES_OP_CONV2D_FORWARD:
        layer_gradient(d, ES_OP_CONV2D_BACKWARD_INPUT, ES_OP_CONV2D_BACKWARD_WEIGHT, d_y);
        break;
    case ES_OP_DEPTHWISE_FORWARD:
        layer_gradient(d, ES_OP_DEPTHWISE_BACKWARD_INPUT, ES_OP_DEPTHWISE_BACKWARD_WEIGHT, d_y);
        break;
    case ES_OP_BATCHNORM_APPLY:
        norm_gradient(d, d_y);
        break;
    case ES_OP_GROUPNORM_FORWARD:
        append(d, ES_OP_GROUPNORM_BACKWARD, (EsValueId[]){in[0], out[0], out[1], in[1], d_y},
               (EsValueId[]){in[0], in[1], in[2]});
        break;
    case ES_OP_LAYERNORM_FORWARD:
        layernorm_gradient(d, y, d_y);
        break;
    case ES_OP_ACTIVATION_FORWARD:
        append(d, ES_OP_ACTIVATION_BACKWARD, (EsValueId[]){y, d_y}, &in[0]);
        break;
    case ES_OP_POOL_FORWARD:
        append(d, ES_OP_POOL_BACKWARD, (EsValueId[]){in[0], d_y}, &in[0]);
        break;
    case ES_OP_SET_SUM:
        append(d, ES_OP_SET_BROADCAST, (EsValueId[]){d_y, in[1]}, &in[0]);
        break;
    case ES_OP_SET_BROADCAST:
        append(d, ES_OP_SET_SUM, (EsValueId[]){d_y, in[1]}, &in[0]);
        break;
    case ES_OP_SET_MAX_FORWARD:
        append(d, ES_OP_SET_MAX_BACKWARD, (EsValueId[]){in[0], y, d_y}, &in[0]);
        break;
    case ES_OP_RESHAPE:
        reshape_gradient(d, d_y);
        break;
    case ES_OP_SEED_INPUT:
        append(d, ES_OP_SEED_INPUT_BACKWARD, (EsValueId[]){in[1], d_y}, &in[0]);
        break;
    case ES_OP_BLEND_FORWARD:
        append(d, ES_OP_BLEND_BACKWARD, (EsValueId[]){in[0], in[1], in[2], in[3], in[4], d_y},
               (EsValueId[]){in[0], in[1], in[2]});
        break;
    case ES_OP_CHANNEL_SCALE_FORWARD:
        append(d, ES_OP_CHANNEL_SCALE_BACKWARD, (EsValueId[]){in[0], in[1], d_y},
               (EsValueId[]){in[0], in[1]});
        break;
    case ES_OP_NORM_MIX_FORWARD:
        append(d, ES_OP_NORM_MIX_BACKWARD, (EsValueId[]){in[0], in[1], in[2], d_y},
               (EsValueId[]){in[0], in[1], in[2]});
        break;
    case ES_OP_EMBEDDING_FORWARD:
        append(d, ES_OP_EMBEDDING_BACKWARD, (EsValueId[]){in[1], d_y}, &in[0]);
        break;
    case ES_OP_LSTM_FORWARD:
        lstm_gradient(d, d_y);
        break;
    case ES_OP_DROPOUT:
        append(d, ES_OP_DROPOUT, (EsValueId[]){in[0], in[1], d_y}, &in[2]);
        break;
    default:
        es_graph_fail(d->graph, ES_STATUS_UNSUPPORTED, "\"%s\": %s has no gradient",
                      d->graph->values[y].name, es_op_name(d->node.op));
    }
}

// The output whose gradient a node passes on: the last one, which is the layer's result.
static EsValueId main_output(const EsNode *node) {
    return node->op == ES_OP_EMBEDDING_FORWARD ? node->output[0]
                                               : node->output[node->n_outputs - 1];
}

// A gradient that reached another output than the main one would be lost.
static void check_outputs(EsGraph *graph, const EsNode *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        EsValueId out = node->output[i];
        if (out != ES_NO_VALUE && out != main_output(node) &&
            graph->values[out].gradient != ES_NO_VALUE) {
            es_graph_fail(graph, ES_STATUS_UNSUPPORTED, "\"%s\" of %s passes no gradient on",
                          graph->values[out].name, es_op_name(node->op));
        }
    }
}

// The gradient nodes of the nodes [0, last), last first, from the gradients that some of their
// outputs have. A parameter that is not reached has no gradient value; plans clear its part of the
// slab.
static EsStatus walk_back(Differentiation *d, int32_t last) {
    EsGraph *graph = d->graph;
    for (int32_t i = last - 1; i >= 0 && graph->status == ES_STATUS_OK; i--) {
        d->node = graph->nodes[i];
        EsValueId y = main_output(&d->node);
        check_outputs(graph, &d->node);
        if (graph->values[y].gradient != ES_NO_VALUE && graph->values[y].needs_gradient) {
            differentiate_node(d, y, graph->values[y].gradient);
        }
    }
    return es_graph_status(graph);
}

EsStatus es_graph_differentiate(EsGraph *graph, EsValueId loss) {
    ES_TRY(es_graph_status(graph));
    int32_t last = loss >= 0 && loss < graph->n_values ? graph->values[loss].producer : -1;
    if (last < 0 || graph->nodes[last].op != ES_OP_CROSS_ENTROPY_FORWARD ||
        graph->nodes[last].output[0] != loss) {
        return ES_FAIL(ARGUMENT, "the value to differentiate is not a loss");
    }
    if (graph->n_forward_nodes != 0) {
        return ES_FAIL(ARGUMENT, "the graph has been differentiated already");
    }
    if (!graph->values[graph->nodes[last].input[0]].needs_gradient) {
        return ES_FAIL(ARGUMENT, "the loss depends on no parameter");
    }
    graph->n_forward_nodes = graph->n_nodes;
    Differentiation d = {.graph = graph, .node = graph->nodes[last]};
    append(&d, ES_OP_CROSS_ENTROPY_BACKWARD, d.node.input, &d.node.input[0]);
    return walk_back(&d, last);
}

// May this input bring in the gradient of this value?
static EsStatus check_given(const EsGraph *graph, EsValueId id, EsValueId d_id) {
    if (id < 0 || id >= graph->n_values || d_id < 0 || d_id >= graph->n_values) {
        return ES_FAIL(ARGUMENT, "no such value to differentiate");
    }
    const EsValue *value = &graph->values[id], *d_value = &graph->values[d_id];
    if (value->role != ES_ROLE_RESULT || value->dtype != ES_DTYPE_F32 ||
        main_output(&graph->nodes[value->producer]) != id) {
        return ES_FAIL(ARGUMENT, "\"%s\" cannot be differentiated: it is no kept output of a layer",
                       value->name);
    }
    if (!value->needs_gradient) {
        return ES_FAIL(ARGUMENT, "\"%s\" depends on no parameter", value->name);
    }
    if (d_value->role != ES_ROLE_INPUT || d_value->dtype != ES_DTYPE_F32 || d_value->is_shared ||
        d_value->rank != value->rank || memcmp(d_value->dim, value->dim, sizeof value->dim) != 0) {
        return ES_FAIL(ARGUMENT, "the gradient of \"%s\", \"%s\", is no F32 input of its shape",
                       value->name, d_value->name);
    }
    return ES_STATUS_OK;
}

EsStatus es_graph_differentiate_from(EsGraph *graph, int n, const EsValueId *values,
                                     const EsValueId *d_values) {
    ES_TRY(es_graph_status(graph));
    if (graph->n_forward_nodes != 0) {
        return ES_FAIL(ARGUMENT, "the graph has been differentiated already");
    }
    if (n < 1) {
        return ES_FAIL(ARGUMENT, "there is no value to differentiate");
    }
    for (int i = 0; i < n; i++) {
        ES_TRY(check_given(graph, values[i], d_values[i]));
        for (int j = 0; j < i; j++) {
            if (values[j] == values[i]) {
                return ES_FAIL(ARGUMENT, "\"%s\" is given twice", graph->values[values[i]].name);
            }
        }
    }
    for (int i = 0; i < n; i++) {
        graph->values[values[i]].gradient = d_values[i];
    }
    graph->n_forward_nodes = graph->n_nodes;
    graph->is_given_gradients = 1;
    Differentiation d = {.graph = graph};
    return walk_back(&d, graph->n_nodes);
}
