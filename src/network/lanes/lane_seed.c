// Lowering of seeds: the parts that blueprints are made of, and slots. How a slot blends is read
// from memory when the program runs.
#include "network/lanes/lane_internal.h"

static const EsValue *value_at(const EsLowering *l, EsValueId value) {
    return &l->graph->values[value];
}

// Activation of a value to read, -1 for an absent one.
static int read_activation(EsLowering *l, int node, EsValueId value, int halo) {
    return value != ES_NO_VALUE ? es_lane_input_activation(l, node, value, halo) : -1;
}

static int write_activation(EsLowering *l, EsValueId value) {
    return value != ES_NO_VALUE ? es_lane_output_activation(l, value) : -1;
}

static void copy_results(EsLowering *l, int node) {
    const EsNode *n = &l->graph->nodes[node];
    for (int i = 0; i < n->n_outputs; i++) {
        if (n->output[i] != ES_NO_VALUE && l->activation_of[n->output[i]] >= 0) {
            es_lane_copy_result(l, n->output[i], node);
        }
    }
}

// Sums for the gradients of parameters, which must stand in the gradient slab.
static int add_sums(EsLowering *l, int node, int count, int n_gradients,
                    const EsValueId *gradients) {
    EsLaneProgram *p = l->program;
    for (int i = 0; i < n_gradients; i++) {
        if (gradients[i] == ES_NO_VALUE || value_at(l, gradients[i])->role != ES_ROLE_GRADIENT) {
            es_lane_fail_node(l, node, "belongs to a parameter with several readers");
            return -1;
        }
    }
    p->sums[p->n_sums] = (LaneSums){.node = node, .count = count, .phase = -1};
    return p->n_sums++;
}

static void emit_sums(EsLowering *l, LaneInstruction instruction) {
    int phase = es_lane_emit(l, instruction);
    if (instruction.sums >= 0) {
        l->program->sums[instruction.sums].phase = phase;
    }
}

// The same pixels under another name; an image, a row or a number stays one.
static void lower_alias(EsLowering *l, int node) {
    const EsNode *n = &l->graph->nodes[node];
    const EsValue *x = value_at(l, n->input[0]), *y = value_at(l, n->output[0]);
    int activation = read_activation(l, node, n->input[0], 0);
    for (int axis = 1; axis < ES_MAX_RANK; axis++) {
        if (x->dim[axis] != y->dim[axis]) {
            es_lane_fail_node(l, node, "mixes images or channels");
        }
    }
    l->activation_of[n->output[0]] = activation;
    es_lane_copy_result(l, n->output[0], node);
}

// The ADD that alone reads a value, when its other operand is there already: *other. -1: no such.
static int find_sum(const EsLowering *l, EsValueId value, EsValueId *other) {
    int node = es_graph_next_reader(l->graph, value, 0);
    if (node < 0 || l->graph->nodes[node].op != ES_OP_ADD || l->is_absorbed[node] ||
        es_graph_next_reader(l->graph, value, node + 1) >= 0 ||
        value_at(l, value)->role != ES_ROLE_ACTIVATION) {
        return -1;
    }
    const EsValueId *in = l->graph->nodes[node].input;
    *other = in[0] == value ? in[1] : in[0];
    return *other != value && l->activation_of[*other] >= 0 ? node : -1;
}

// A residual sum behind the norm is taken in the same pass.
static void lower_groupnorm(EsLowering *l, int node) {
    const EsNode *n = &l->graph->nodes[node];
    EsValueId other = ES_NO_VALUE, y = n->output[2];
    int sum = find_sum(l, y, &other);
    if (sum >= 0) {
        l->is_absorbed[sum] = 1;
        y = l->graph->nodes[sum].output[0];
    } else {
        other = ES_NO_VALUE;
    }
    LaneInstruction run =
        es_lane_make(LANE_GROUPNORM_FORWARD, node, read_activation(l, node, n->input[0], 0),
                     read_activation(l, node, other, 0), write_activation(l, n->output[0]));
    run.d = write_activation(l, n->output[1]);
    run.e = write_activation(l, y);
    es_lane_emit(l, run);
    if (sum >= 0) {
        es_lane_copy_result(l, y, node);
    }
}

// inputs x, mean, inv_std, gamma, d_y; outputs d_x, d_gamma, d_beta
static void lower_groupnorm_gradient(EsLowering *l, int node) {
    const EsNode *n = &l->graph->nodes[node];
    int channels = (int)value_at(l, n->input[0])->dim[2];
    LaneInstruction run = es_lane_make(
        LANE_GROUPNORM_BACKWARD, node, read_activation(l, node, n->input[0], 0),
        read_activation(l, node, n->input[1], 0), read_activation(l, node, n->input[2], 0));
    run.d = read_activation(l, node, n->input[4], 0);
    run.e = write_activation(l, n->output[0]);
    run.sums = add_sums(l, node, 2 * channels, 2, n->output + 1);
    emit_sums(l, run);
}

static void lower_depthwise(EsLowering *l, int node) {
    const EsNode *n = &l->graph->nodes[node];
    int is_weight = n->op == ES_OP_DEPTHWISE_BACKWARD_WEIGHT,
        is_input = n->op == ES_OP_DEPTHWISE_BACKWARD_INPUT;
    const EsValue *weight = value_at(l, is_weight  ? n->output[0]
                                        : is_input ? n->input[0]
                                                   : n->input[1]);
    if (weight->dim[2] != 3) {
        es_lane_fail_node(l, node, "is no 3x3 convolution");
        return;
    }
    if (is_weight) {
        LaneInstruction run = es_lane_make(LANE_DEPTHWISE_BACKWARD_WEIGHT, node,
                                           read_activation(l, node, n->input[0], 1),
                                           read_activation(l, node, n->input[1], 0), -1);
        run.sums = add_sums(l, node, (int)weight->dim[1] * 9, 1, n->output);
        emit_sums(l, run);
        return;
    }
    int from = read_activation(l, node, n->input[is_input], 1);
    es_lane_emit(l, es_lane_make(is_input ? LANE_DEPTHWISE_BACKWARD_INPUT : LANE_DEPTHWISE_FORWARD,
                                 node, from, write_activation(l, n->output[0]), -1));
}

// inputs x, w or n [, d_y]; outputs y, or d_x, d_w or d_n
static void lower_pair(EsLowering *l, int node, LaneOp op) {
    const EsNode *n = &l->graph->nodes[node];
    int is_mix = op == LANE_NORM_MIX_FORWARD || op == LANE_NORM_MIX_BACKWARD;
    int is_gradient = op == LANE_CHANNEL_SCALE_BACKWARD || op == LANE_NORM_MIX_BACKWARD;
    int a = read_activation(l, node, n->input[0], 0), b = read_activation(l, node, n->input[1], 0);
    if (!is_gradient) {
        es_lane_emit(l, es_lane_make(op, node, a, b, write_activation(l, n->output[0])));
        return;
    }
    // the parameter g stands before d_y
    LaneInstruction run =
        es_lane_make(op, node, a, b, read_activation(l, node, n->input[is_mix ? 3 : 2], 0));
    run.d = write_activation(l, n->output[0]);
    run.e = write_activation(l, n->output[1]);
    if (is_mix) {
        run.sums = add_sums(l, node, 1, 1, n->output + 2);
    }
    emit_sums(l, run);
}

// The node's numbers that a lifecycle writes must be inputs, to be read at run time.
static int check_inputs(EsLowering *l, int node, int n_inputs, const EsValueId *inputs) {
    for (int i = 0; i < n_inputs; i++) {
        if (value_at(l, inputs[i])->role != ES_ROLE_INPUT) {
            es_lane_fail_node(l, node, "has a mode or alpha that is not an input");
            return 0;
        }
    }
    return 1;
}

// inputs h, seed, gate, alpha, mode [, d_y]; outputs y, or d_h, d_seed, d_gate
static void lower_blend(EsLowering *l, int node) {
    const EsNode *n = &l->graph->nodes[node];
    int is_gradient = n->op == ES_OP_BLEND_BACKWARD;
    if (!check_inputs(l, node, 2, n->input + ES_BLEND_INPUT_ALPHA)) {
        return;
    }
    LaneInstruction run = es_lane_make(is_gradient ? LANE_BLEND_BACKWARD : LANE_BLEND_FORWARD, node,
                                       read_activation(l, node, n->input[0], 0),
                                       read_activation(l, node, n->input[1], 0),
                                       read_activation(l, node, n->input[2], 0));
    if (is_gradient) {
        run.d = read_activation(l, node, n->input[5], 0);
        run.e = write_activation(l, n->output[0]);
        run.f = write_activation(l, n->output[1]);
        run.g = write_activation(l, n->output[2]);
    } else {
        run.d = write_activation(l, n->output[0]);
    }
    es_lane_emit(l, run);
}

// The gradient of h through the seed is added to the direct one.
static void lower_seed_input(EsLowering *l, int node) {
    const EsNode *n = &l->graph->nodes[node];
    if (!check_inputs(l, node, 1, n->input)) {
        return;
    }
    EsValueId other = ES_NO_VALUE, d_h = n->output[0];
    int sum = find_sum(l, d_h, &other);
    if (sum >= 0) {
        l->is_absorbed[sum] = 1;
        d_h = l->graph->nodes[sum].output[0];
    } else {
        other = ES_NO_VALUE;
    }
    int d_x = read_activation(l, node, n->input[1], 0), rest = read_activation(l, node, other, 0);
    es_lane_emit(l,
                 es_lane_make(LANE_SEED_INPUT_BACKWARD, node, d_x, rest, write_activation(l, d_h)));
    if (sum >= 0) {
        es_lane_copy_result(l, d_h, node);
    }
}

void es_lane_lower_seed(EsLowering *l, int node) {
    switch (l->graph->nodes[node].op) {
    case ES_OP_RESHAPE:
    case ES_OP_SEED_INPUT:
        lower_alias(l, node);
        return;
    case ES_OP_GROUPNORM_FORWARD:
        lower_groupnorm(l, node);
        break;
    case ES_OP_GROUPNORM_BACKWARD:
        lower_groupnorm_gradient(l, node);
        break;
    case ES_OP_DEPTHWISE_FORWARD:
    case ES_OP_DEPTHWISE_BACKWARD_INPUT:
    case ES_OP_DEPTHWISE_BACKWARD_WEIGHT:
        lower_depthwise(l, node);
        break;
    case ES_OP_CHANNEL_SCALE_FORWARD:
        lower_pair(l, node, LANE_CHANNEL_SCALE_FORWARD);
        break;
    case ES_OP_CHANNEL_SCALE_BACKWARD:
        lower_pair(l, node, LANE_CHANNEL_SCALE_BACKWARD);
        break;
    case ES_OP_NORM_MIX_FORWARD:
        lower_pair(l, node, LANE_NORM_MIX_FORWARD);
        break;
    case ES_OP_NORM_MIX_BACKWARD:
        lower_pair(l, node, LANE_NORM_MIX_BACKWARD);
        break;
    case ES_OP_BLEND_FORWARD:
    case ES_OP_BLEND_BACKWARD:
        lower_blend(l, node);
        break;
    case ES_OP_SEED_INPUT_BACKWARD:
        lower_seed_input(l, node);
        break;
    default:
        es_lane_fail_node(l, node, "is not an operation of the vector engine");
    }
    if (l->status == ES_STATUS_OK) {
        copy_results(l, node);
    }
}
