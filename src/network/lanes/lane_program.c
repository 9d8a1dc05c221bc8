// Lowering of a graph to lane instructions, node by node, and the life of a program.
#include "network/lanes/lane_program.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "network/lanes/lane_internal.h"

// --- fusion: a convolution with the batch norm, ReLU and pooling behind it ---

// The nodes of one convolution with its batch norm, -1 where absent.
typedef struct LaneBlock {
    int statistics, running, apply, relu, pool; // forward
    int relu_input, pool_input, sums, input;    // backward
    int weight; // the weight gradient, where that alone reads the gradient of the convolution
} LaneBlock;

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

// Fuses ReLU and pooling if nothing else reads the values in between.
static void extend_block(const EsGraph *graph, LaneBlock *block) {
    EsValueId z = graph->nodes[block->apply].output[0];
    int relu = es_graph_next_reader(graph, z, 0);
    if (relu < 0 || es_graph_next_reader(graph, z, relu + 1) >= 0 ||
        graph->values[z].role != ES_ROLE_ACTIVATION ||
        graph->nodes[relu].op != ES_OP_ACTIVATION_FORWARD ||
        graph->nodes[relu].attributes.activation != ES_ACTIVATION_RELU) {
        return;
    }
    block->relu = relu;
    EsValueId r = graph->nodes[relu].output[0];
    int pool = -1, pool_input = -1, n_others = 0;
    for (int n = es_graph_next_reader(graph, r, 0); n >= 0;
         n = es_graph_next_reader(graph, r, n + 1)) {
        const EsNode *reader = &graph->nodes[n];
        if (reader->op == ES_OP_ACTIVATION_BACKWARD && reader->input[0] == r) {
            block->relu_input = n;
        } else if (reader->op == ES_OP_POOL_FORWARD && reader->attributes.pool == ES_POOL_MAX2 &&
                   pool < 0) {
            pool = n;
        } else if (reader->op == ES_OP_POOL_BACKWARD && reader->attributes.pool == ES_POOL_MAX2) {
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

// Finds the batch norm that alone reads this convolution's output; returns 0 when there is none.
static int find_block(const EsGraph *graph, int conv, LaneBlock *block) {
    *block = (LaneBlock){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    EsValueId y = graph->nodes[conv].output[0];
    if (graph->values[y].role != ES_ROLE_ACTIVATION || graph->nodes[conv].input[2] != ES_NO_VALUE) {
        return 0;
    }
    for (int n = es_graph_next_reader(graph, y, 0); n >= 0;
         n = es_graph_next_reader(graph, y, n + 1)) {
        int *const part[] = {&block->statistics, &block->apply, &block->sums, &block->input};
        const EsOp op[] = {ES_OP_BATCHNORM_STATISTICS, ES_OP_BATCHNORM_APPLY,
                           ES_OP_BATCHNORM_BACKWARD_SUMS, ES_OP_BATCHNORM_BACKWARD_INPUT};
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
        if (reader >= 0 && graph->nodes[reader].op == ES_OP_CONV2D_BACKWARD_WEIGHT &&
            graph->values[d_y].role == ES_ROLE_ACTIVATION &&
            es_graph_next_reader(graph, d_y, reader + 1) < 0) {
            block->weight = reader;
        }
    }
    return 1;
}

// --- nodes ---

static const EsNode *node_at(const EsLowering *l, int node) { return &l->graph->nodes[node]; }

static const EsValue *value_at(const EsLowering *l, EsValueId value) {
    return &l->graph->values[value];
}

static int add_layer(EsLowering *l, int node, int kernel) {
    EsLaneProgram *p = l->program;
    const EsNode *n = node_at(l, node);
    const EsValue *weight = value_at(l, n->input[1]);
    LaneLayer *layer = &p->layers[p->n_layers++];
    const EsValue *y = value_at(l, n->output[0]);
    *layer = (LaneLayer){.filter = {.n_in = (int)weight->dim[2],
                                    .n_out = (int)weight->dim[1],
                                    .kernel = kernel,
                                    .height = y->rank == 5 ? (int)y->dim[3] : 1,
                                    .width = y->rank == 5 ? (int)y->dim[4] : 1},
                         .norm = -1,
                         .weight = n->input[1],
                         .bias = n->input[2],
                         .d_weight = weight->gradient,
                         .d_bias = n->input[2] != ES_NO_VALUE ? value_at(l, n->input[2])->gradient
                                                              : ES_NO_VALUE,
                         .gradient_phase = -1};
    if (layer->filter.n_in > ES_LANES_CHANNEL_LIMIT ||
        layer->filter.n_out > ES_LANES_CHANNEL_LIMIT) {
        es_lane_fail_node(l, node, "has more channels than the vector engine takes");
    }
    return p->n_layers - 1;
}

static int find_layer(EsLowering *l, int node, EsValueId weight, EsValueId d_weight) {
    EsLaneProgram *p = l->program;
    for (int i = 0; i < p->n_layers; i++) {
        if ((weight != ES_NO_VALUE && p->layers[i].weight == weight) ||
            (d_weight != ES_NO_VALUE && p->layers[i].d_weight == d_weight)) {
            return i;
        }
    }
    es_lane_fail_node(l, node, "belongs to no layer");
    return -1;
}

static int add_norm(EsLowering *l, const LaneBlock *block, int layer) {
    EsLaneProgram *p = l->program;
    const EsNode *apply = node_at(l, block->apply);
    const EsNode *source = node_at(l, block->statistics >= 0 ? block->statistics : block->running);
    const EsValue *x = value_at(l, apply->input[0]);
    int first_state = source->op == ES_OP_BATCHNORM_STATISTICS ? 1 : 0;
    LaneNormRecord *norm = &p->norms[p->n_norms++];
    *norm = (LaneNormRecord){.channels = (int)x->dim[2],
                             .has_relu = block->relu >= 0,
                             .is_pooled = block->pool >= 0,
                             .is_folded = block->pool >= 0,
                             .n_elements = (double)(x->dim[1] * x->dim[3] * x->dim[4]),
                             .options = source->attributes.norm,
                             .gamma = apply->input[3],
                             .beta = apply->input[4],
                             .running_mean = source->input[first_state],
                             .running_variance = source->input[first_state + 1],
                             .d_gamma = value_at(l, apply->input[3])->gradient,
                             .d_beta = value_at(l, apply->input[4])->gradient,
                             .statistics_phase = -1,
                             .sums_phase = -1,
                             .layer = layer};
    return p->n_norms - 1;
}

// Returns whether a block can use the patches of its single input channel: batch statistics (or
// those of the past, without a gradient), ReLU and pooling, and the gradient of its input is not
// wanted.
static int can_use_patches(const EsLowering *l, const LaneBlock *block, int layer) {
    int has_gradient = block->sums >= 0 && block->input >= 0 && block->pool_input >= 0 &&
                       block->relu_input >= 0 && block->weight >= 0 && block->statistics >= 0;
    int has_none =
        block->sums < 0 && block->input < 0 && block->pool_input < 0 && block->relu_input < 0;
    return block->relu >= 0 && block->pool >= 0 && (has_gradient || has_none) &&
           es_lane_has_patches(&l->program->layers[layer].filter);
}

// Forward: sums of patches, then convolution to rectified maxima in one go. The gradient follows
// when the node of its sums is lowered.
static void lower_patches(EsLowering *l, int node, const LaneBlock *block, int layer, int norm) {
    EsLaneProgram *p = l->program;
    const EsValue *y = value_at(l, node_at(l, block->pool)->output[0]);
    p->layers[layer].is_patched = p->norms[norm].is_patched = 1;
    p->layers[layer].norm = norm;
    p->norms[norm].is_folded = 0;
    int x = es_lane_input_activation(l, node, node_at(l, node)->input[0], 1);
    if (block->statistics >= 0) {
        LaneInstruction sums = es_lane_make(LANE_PATCH_SUMS, node, x, -1, -1);
        sums.layer = layer;
        p->norms[norm].statistics_phase = es_lane_emit(l, sums);
    }
    int choice = -1;
    if (block->weight >= 0) {
        choice = es_lane_add_activation(l, ES_NO_VALUE, (int)y->dim[2], (int)y->dim[3],
                                        es_lane_choice_width((int)y->dim[4], p->kernels->n_lanes));
        l->is_absorbed[block->input] = l->is_absorbed[block->weight] = 1;
    }
    p->norms[norm].x = x;
    p->norms[norm].choice = choice;
    LaneInstruction run =
        es_lane_make(LANE_PATCH_FORWARD, node, x,
                     es_lane_output_activation(l, node_at(l, block->pool)->output[0]), choice);
    run.layer = layer;
    run.norm = norm;
    run.phase = p->norms[norm].statistics_phase + 1;
    es_lane_emit(l, run);
    es_lane_copy_result(l, node_at(l, block->pool)->output[0], node);
}

// Convolution with sums and maxima, then the normalisation of the maxima.
static void lower_statistics(EsLowering *l, int node, const LaneBlock *block, int layer, int norm) {
    EsLaneProgram *p = l->program;
    const EsNode *conv = node_at(l, node);
    const EsValue *y = value_at(l, conv->output[0]);
    p->layers[layer].norm = p->norms[norm].is_folded ? norm : -1;
    int x = es_lane_input_activation(l, node, conv->input[0], p->layers[layer].filter.kernel / 2);
    int raw = es_lane_output_activation(l, conv->output[0]);
    int maxima = block->pool >= 0
                     ? es_lane_add_activation(l, ES_NO_VALUE, (int)y->dim[2], (int)(y->dim[3] / 2),
                                              (int)(y->dim[4] / 2))
                     : -1;
    if (l->status != ES_STATUS_OK) {
        return;
    }
    p->activations[raw].is_skipped = maxima >= 0 && block->input < 0;
    p->norms[norm].x = maxima >= 0 ? maxima : raw;
    LaneInstruction run = es_lane_make(LANE_CONV2D_STATISTICS, node, x, raw, maxima);
    run.layer = layer;
    run.norm = norm;
    int phase = es_lane_emit(l, run);
    p->norms[norm].statistics_phase = block->statistics >= 0 ? phase : -1;

    int last = block->pool >= 0 ? block->pool : block->relu >= 0 ? block->relu : block->apply;
    EsValueId result = node_at(l, last)->output[0];
    LaneInstruction normalise = es_lane_make(LANE_BATCHNORM_APPLY, node, p->norms[norm].x,
                                             es_lane_output_activation(l, result), -1);
    normalise.norm = norm;
    normalise.phase = p->norms[norm].statistics_phase + 1;
    es_lane_emit(l, normalise);
    es_lane_copy_result(l, result, node);
}

// A convolution with the batch norm, ReLU and pooling behind it.
static void lower_block(EsLowering *l, int node, const LaneBlock *block) {
    EsLaneProgram *p = l->program;
    int layer = add_layer(l, node, (int)value_at(l, node_at(l, node)->input[1])->dim[3]);
    int norm = add_norm(l, block, layer);
    if (can_use_patches(l, block, layer)) {
        lower_patches(l, node, block, layer, norm);
    } else {
        lower_statistics(l, node, block, layer, norm);
    }
    if (l->status != ES_STATUS_OK) {
        return;
    }
    const int parts[] = {block->statistics, block->running,    block->apply,     block->relu,
                         block->pool,       block->relu_input, block->pool_input};
    for (size_t i = 0; i < ES_COUNT_OF(parts); i++) {
        if (parts[i] >= 0) {
            l->is_absorbed[parts[i]] = 1;
        }
    }
    // the gradient enters behind the last fused operation
    int entry = block->pool_input >= 0   ? block->pool_input
                : block->relu_input >= 0 ? block->relu_input
                                         : block->sums;
    p->norms[norm].gradient_in =
        entry < 0 ? ES_NO_VALUE : node_at(l, entry)->input[entry == block->sums ? 3 : 1];
    if (block->sums >= 0) {
        l->norm_of[block->sums] = norm;
    }
    if (block->input >= 0) {
        l->norm_of[block->input] = norm;
    }
}

static void lower_norm_gradient(EsLowering *l, int node) {
    EsLaneProgram *p = l->program;
    int index = l->norm_of[node];
    if (index < 0) {
        es_lane_fail_node(l, node, "belongs to a batch norm that follows no convolution");
        return;
    }
    LaneNormRecord *norm = &p->norms[index];
    int gradient = es_lane_input_activation(l, node, norm->gradient_in, 0);
    if (norm->is_patched) {
        LaneLayer *layer = &p->layers[norm->layer];
        LaneInstruction weight =
            es_lane_make(LANE_PATCH_BACKWARD_WEIGHT, node, norm->x, gradient, norm->choice);
        weight.layer = norm->layer;
        layer->gradient_phase = norm->sums_phase = es_lane_emit(l, weight);
        return;
    }
    if (node_at(l, node)->op == ES_OP_BATCHNORM_BACKWARD_SUMS) {
        LaneInstruction sums =
            es_lane_make(LANE_BATCHNORM_BACKWARD_SUMS, node, norm->x, gradient, -1);
        sums.norm = index;
        sums.phase = norm->statistics_phase + 1;
        norm->sums_phase = es_lane_emit(l, sums);
        return;
    }
    int raw = l->activation_of[node_at(l, node)->input[0]];
    LaneInstruction input = es_lane_make(LANE_BATCHNORM_BACKWARD_INPUT, node, raw, gradient,
                                         norm->is_pooled ? norm->x : -1);
    input.d = es_lane_output_activation(l, node_at(l, node)->output[0]);
    input.norm = index;
    input.phase = norm->sums_phase + 1;
    es_lane_emit(l, input);
    // of a folded convolution the gradient has the folded sign: not for others to see
    if (!norm->is_folded) {
        es_lane_copy_result(l, node_at(l, node)->output[0], node);
    }
}

// Forward convolution or linear layer without batch norm.
static void lower_layer(EsLowering *l, int node, int kernel) {
    const EsNode *n = node_at(l, node);
    int layer = add_layer(l, node, kernel);
    int x = es_lane_input_activation(l, node, n->input[0], kernel / 2);
    LaneInstruction run =
        es_lane_make(LANE_CONV2D_FORWARD, node, x, es_lane_output_activation(l, n->output[0]), -1);
    run.layer = layer;
    es_lane_emit(l, run);
    es_lane_copy_result(l, n->output[0], node);
}

static void lower_layer_gradient(EsLowering *l, int node) {
    EsLaneProgram *p = l->program;
    const EsNode *n = node_at(l, node);
    int is_input = n->op == ES_OP_CONV2D_BACKWARD_INPUT || n->op == ES_OP_LINEAR_BACKWARD_INPUT;
    int layer = is_input ? find_layer(l, node, n->input[0], ES_NO_VALUE)
                         : find_layer(l, node, ES_NO_VALUE, n->output[0]);
    if (layer < 0) {
        return;
    }
    int half = p->layers[layer].filter.kernel / 2;
    LaneInstruction run;
    if (is_input) {
        int d_y = es_lane_input_activation(l, node, n->input[1], half);
        run = es_lane_make(LANE_CONV2D_BACKWARD_INPUT, node, d_y,
                           es_lane_output_activation(l, n->output[0]), -1);
        p->layers[layer].needs_flipped = 1;
    } else {
        run = es_lane_make(LANE_CONV2D_BACKWARD_WEIGHT, node,
                           es_lane_input_activation(l, node, n->input[0], half),
                           es_lane_input_activation(l, node, n->input[1], 0), -1);
    }
    run.layer = layer;
    int phase = es_lane_emit(l, run);
    if (is_input) {
        es_lane_copy_result(l, n->output[0], node);
    } else {
        p->layers[layer].gradient_phase = phase;
    }
}

static void lower_loss(EsLowering *l, int node) {
    EsLaneProgram *p = l->program;
    const EsNode *n = node_at(l, node);
    if (p->loss != ES_NO_VALUE || value_at(l, n->input[0])->dim[2] > ES_LANE_MAX_CLASSES) {
        es_lane_fail_node(l, node, "is a second loss, or has too many classes");
        return;
    }
    p->labels = n->input[1];
    p->loss = n->output[0];
    p->n_correct = n->output[1];
    p->n_invalid = n->output[2];
    int gradient_node = -1, gradient = -1;
    for (int g = es_graph_next_reader(l->graph, n->input[0], node + 1); g >= 0;
         g = es_graph_next_reader(l->graph, n->input[0], g + 1)) {
        if (node_at(l, g)->op == ES_OP_CROSS_ENTROPY_BACKWARD) {
            l->is_absorbed[g] = 1;
            gradient_node = g;
            gradient = es_lane_output_activation(l, node_at(l, g)->output[0]);
        }
    }
    es_lane_emit(l, es_lane_make(LANE_LOSS, node, es_lane_input_activation(l, node, n->input[0], 0),
                                 gradient, -1));
    if (gradient_node >= 0) {
        es_lane_copy_result(l, node_at(l, gradient_node)->output[0], node);
    }
}

// Operations that map one to one: inputs in order, one output.
static void lower_simple(EsLowering *l, int node, LaneOp op) {
    const EsNode *n = node_at(l, node);
    int a = es_lane_input_activation(l, node, n->input[0], 0);
    int b = n->n_inputs > 1 ? es_lane_input_activation(l, node, n->input[1], 0) : -1;
    int y = es_lane_output_activation(l, n->output[0]);
    es_lane_emit(l, n->n_inputs > 1 ? es_lane_make(op, node, a, b, y)
                                    : es_lane_make(op, node, a, y, -1));
    es_lane_copy_result(l, n->output[0], node);
}

static void lower_images(EsLowering *l, int node) {
    EsValueId images = node_at(l, node)->output[0];
    if (value_at(l, images)->dim[4] > ES_LANES_WIDTH_LIMIT) {
        es_lane_fail_node(l, node, "has wider images than the vector engine loads");
        return;
    }
    es_lane_emit(
        l, es_lane_make(LANE_LOAD_IMAGES, node, es_lane_output_activation(l, images), -1, -1));
    es_lane_copy_result(l, images, node);
}

static void lower_node(EsLowering *l, int node) {
    const EsNode *n = node_at(l, node);
    LaneBlock block;
    switch (n->op) {
    case ES_OP_GATHER_ORDER:
    case ES_OP_GATHER_LABELS:
        l->is_left_out[node] = 1;
        break;
    case ES_OP_GATHER_IMAGES:
        lower_images(l, node);
        break;
    case ES_OP_CONV2D_FORWARD:
        if (find_block(l->graph, node, &block)) {
            lower_block(l, node, &block);
        } else {
            lower_layer(l, node, (int)value_at(l, n->input[1])->dim[3]);
        }
        break;
    case ES_OP_LINEAR_FORWARD:
        lower_layer(l, node, 1);
        break;
    case ES_OP_CONV2D_BACKWARD_INPUT:
    case ES_OP_CONV2D_BACKWARD_WEIGHT:
    case ES_OP_LINEAR_BACKWARD_INPUT:
    case ES_OP_LINEAR_BACKWARD_WEIGHT:
        lower_layer_gradient(l, node);
        break;
    case ES_OP_BATCHNORM_BACKWARD_SUMS:
    case ES_OP_BATCHNORM_BACKWARD_INPUT:
        lower_norm_gradient(l, node);
        break;
    case ES_OP_ACTIVATION_FORWARD:
        lower_simple(l, node, LANE_ACTIVATION_FORWARD);
        break;
    case ES_OP_ACTIVATION_BACKWARD:
        lower_simple(l, node, LANE_ACTIVATION_BACKWARD);
        break;
    case ES_OP_POOL_FORWARD:
        lower_simple(l, node, LANE_POOL_FORWARD);
        break;
    case ES_OP_POOL_BACKWARD:
        lower_simple(l, node, LANE_POOL_BACKWARD);
        break;
    case ES_OP_ADD:
        lower_simple(l, node, LANE_ADD);
        break;
    case ES_OP_CROSS_ENTROPY_FORWARD:
        lower_loss(l, node);
        break;
    case ES_OP_BATCHNORM_FROM_RUNNING:
        // belongs to the block of a later convolution's norm; checked when that is lowered
        break;
    default:
        es_lane_lower_seed(l, node);
    }
}

// Stable order by phase; producers are renumbered.
static EsStatus sort_instructions(EsLaneProgram *p) {
    LaneInstruction *sorted = NULL;
    ES_TRY(es_allocate(sizeof *sorted * (size_t)ES_MAX(1, p->n_instructions), (void **)&sorted));
    int *new_index = NULL;
    EsStatus status =
        es_allocate(sizeof *new_index * (size_t)ES_MAX(1, p->n_instructions), (void **)&new_index);
    if (status == ES_STATUS_OK) {
        int count = 0;
        for (int phase = 0; phase < p->n_phases; phase++) {
            for (int i = 0; i < p->n_instructions; i++) {
                if (p->instructions[i].phase == phase) {
                    new_index[i] = count;
                    sorted[count++] = p->instructions[i];
                }
            }
        }
        memcpy(p->instructions, sorted, sizeof *sorted * (size_t)p->n_instructions);
        for (int i = 0; i < p->n_activations; i++) {
            p->activations[i].producer = new_index[p->activations[i].producer];
        }
    }
    es_release(new_index);
    es_release(sorted);
    return status;
}

// Every map of the program carries the same number of images.
static EsStatus count_images(EsLaneProgram *p) {
    for (int i = 0; i < p->n_activations; i++) {
        if (p->activations[i].value == ES_NO_VALUE) {
            continue;
        }
        int64_t n_images = p->graph->values[p->activations[i].value].dim[1];
        if (p->n_images != 0 && p->n_images != n_images) {
            return ES_FAIL(UNSUPPORTED, "the graph mixes batches of %d and %lld images",
                           p->n_images, (long long)n_images);
        }
        p->n_images = (int)n_images;
    }
    if (p->n_images == 0) {
        return ES_FAIL(UNSUPPORTED, "the graph has no images");
    }
    p->n_groups = (p->n_images + p->kernels->n_lanes - 1) / p->kernels->n_lanes;
    // by the batch alone, so that bits depend neither on threads nor on other hosts
    p->n_shards = ES_MIN(ES_MAX(p->n_groups / ES_LANE_SHARD_GROUPS, 1), ES_LANE_MAX_SHARDS);
    return ES_STATUS_OK;
}

// Checks that an instruction writes every value the caller wants to see: a value that was fused
// away has none.
static EsStatus check_results(const EsLowering *l) {
    const EsLaneProgram *p = l->program;
    for (EsValueId v = 0; v < l->graph->n_values; v++) {
        const EsValue *value = value_at(l, v);
        int is_written = value->role != ES_ROLE_RESULT || v == p->loss || v == p->n_correct ||
                         v == p->n_invalid ||
                         (value->producer >= 0 && l->is_left_out[value->producer]);
        for (int i = 0; i < p->n_instructions && !is_written; i++) {
            is_written = p->instructions[i].op == LANE_TO_ROWS && p->instructions[i].value == v;
        }
        if (!is_written) {
            return ES_FAIL(UNSUPPORTED, "\"%s\" is kept, but fused into its neighbours",
                           value->name);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus lower_graph(EsLowering *l) {
    for (int node = 0; node < l->graph->n_nodes && l->status == ES_STATUS_OK; node++) {
        if (!l->is_absorbed[node]) {
            lower_node(l, node);
        }
    }
    for (int i = 0; i < l->program->n_activations && l->status == ES_STATUS_OK; i++) {
        ES_ASSERT(l->program->activations[i].producer >= 0);
    }
    ES_TRY(l->status);
    ES_TRY(check_results(l));
    ES_TRY(count_images(l->program));
    return sort_instructions(l->program);
}

EsStatus es_lane_program_create(const EsGraph *graph, const EsTensor *tensors, EsDevice *device,
                                int is_hosted, unsigned char *is_left_out,
                                EsLaneProgram **program_out) {
    *program_out = NULL;
    EsLaneProgram *program = NULL;
    EsLowering l = {.graph = graph, .is_left_out = is_left_out};
    EsStatus status = ES_STATUS_OK;
    size_t n_nodes = (size_t)graph->n_nodes, n_values = (size_t)graph->n_values;
    memset(is_left_out, 0, n_nodes);
    ES_TRY_GOTO(es_allocate(sizeof *program, (void **)&program));
    program->graph = graph;
    program->tensors = tensors;
    program->kernels = es_lane_kernels(es_device_info(device)->n_lanes);
    program->n_envs = graph->n_envs;
    program->labels = program->loss = program->n_correct = program->n_invalid = ES_NO_VALUE;
    if (program->kernels == NULL) {
        status = ES_FAIL(UNSUPPORTED, "this build has no vector engine of that width");
        goto done;
    }
    ES_TRY_GOTO(es_allocate(sizeof(LaneLayer) * n_nodes, (void **)&program->layers));
    ES_TRY_GOTO(es_allocate(sizeof(LaneNormRecord) * n_nodes, (void **)&program->norms));
    ES_TRY_GOTO(es_allocate(sizeof(LaneSums) * n_nodes, (void **)&program->sums));
    ES_TRY_GOTO(es_allocate(n_nodes, (void **)&l.is_absorbed));
    ES_TRY_GOTO(es_allocate(sizeof(int) * n_values, (void **)&l.activation_of));
    ES_TRY_GOTO(es_allocate(sizeof(int) * n_nodes, (void **)&l.norm_of));
    memset(l.activation_of, -1, sizeof(int) * n_values);
    memset(l.norm_of, -1, sizeof(int) * n_nodes);
    l.program = program;
    ES_TRY_GOTO(lower_graph(&l));
    ES_TRY_GOTO(
        es_lane_program_place(program, is_hosted ? 1 : es_device_info(device)->n_processors));
    if (!is_hosted) {
        ES_TRY_GOTO(es_lane_program_allocate(program));
    }
done:
    es_release(l.is_absorbed);
    es_release(l.activation_of);
    es_release(l.norm_of);
    if (status != ES_STATUS_OK) {
        es_lane_program_destroy(program);
        return status;
    }
    *program_out = program;
    return ES_STATUS_OK;
}

void es_lane_program_destroy(EsLaneProgram *program) {
    if (program == NULL) {
        return;
    }
    es_release(program->instructions);
    es_release(program->activations);
    es_release(program->layers);
    es_release(program->norms);
    es_release(program->sums);
    es_release(program->worker_memory);
    es_release(program->host_memory);
    es_release(program->sum_memory);
    es_release(program->stored_memory);
    es_release(program);
}

size_t es_lane_program_bytes(const EsLaneProgram *program) { return program->total_bytes; }
