#include "network/plan/plan_internal.h"

// NULL for an absent optional value
static const EsTensor *at(const EsTensor *tensors, EsValueId value) {
    return value == ES_NO_VALUE ? NULL : &tensors[value];
}

static EsLstmWeights lstm_weights(const EsTensor *tensors, const EsValueId *value) {
    return (EsLstmWeights){tensors[value[0]], tensors[value[1]], tensors[value[2]],
                           tensors[value[3]]};
}

void es_execute_node(const EsKernels *k, EsStream *s, const EsNode *node, const EsTensor *tensors) {
    const EsTensor *in[ES_MAX_NODE_INPUTS] = {0}, *out[ES_MAX_NODE_OUTPUTS] = {0};
    for (int i = 0; i < node->n_inputs; i++) {
        in[i] = at(tensors, node->input[i]);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        out[i] = at(tensors, node->output[i]);
    }
    const EsAttributes *a = &node->attributes;
    EsLstmWeights weights, d_weights;
    switch (node->op) {
    case ES_OP_ADD:
        k->add(s, in[0], in[1], out[0]);
        break;
    case ES_OP_CONCAT:
        k->concat_forward(s, node->n_inputs, in, out[0]);
        break;
    case ES_OP_CONCAT_INPUT:
        k->concat_backward(s, a->first, in[0], out[0]);
        break;
    case ES_OP_LINEAR:
        k->linear_forward(s, in[0], in[1], in[2], out[0]);
        break;
    case ES_OP_LINEAR_INPUT:
        k->linear_backward_input(s, in[0], in[1], out[0]);
        break;
    case ES_OP_LINEAR_WEIGHT:
        k->linear_backward_weight(s, in[0], in[1], out[0], out[1]);
        break;
    case ES_OP_CONV2D:
        k->conv2d_forward(s, in[0], in[1], in[2], out[0]);
        break;
    case ES_OP_CONV2D_INPUT:
        k->conv2d_backward_input(s, in[0], in[1], out[0]);
        break;
    case ES_OP_CONV2D_WEIGHT:
        k->conv2d_backward_weight(s, in[0], in[1], out[0], out[1]);
        break;
    case ES_OP_DEPTHWISE:
        k->depthwise_forward(s, in[0], in[1], out[0]);
        break;
    case ES_OP_DEPTHWISE_INPUT:
        k->depthwise_backward_input(s, in[0], in[1], out[0]);
        break;
    case ES_OP_DEPTHWISE_WEIGHT:
        k->depthwise_backward_weight(s, in[0], in[1], out[0]);
        break;
    case ES_OP_NORM_STATISTICS:
        k->batchnorm_statistics(s, a->norm, in[0], out[0], out[1], in[1], in[2]);
        break;
    case ES_OP_NORM_RUNNING:
        k->batchnorm_from_running(s, a->norm, in[0], in[1], out[0], out[1]);
        break;
    case ES_OP_NORM_APPLY:
        k->batchnorm_apply(s, in[0], in[1], in[2], in[3], in[4], out[0]);
        break;
    case ES_OP_NORM_SUMS:
        k->batchnorm_backward_sums(s, in[0], in[1], in[2], in[3], out[0], out[1]);
        break;
    case ES_OP_NORM_INPUT:
        k->batchnorm_backward_input(s, in[0], in[1], in[2], in[3], in[4], in[5], in[6], out[0]);
        break;
    case ES_OP_GROUPNORM:
        k->groupnorm_forward(s, a->norm, in[0], in[1], in[2], out[0], out[1], out[2]);
        break;
    case ES_OP_GROUPNORM_GRADIENT:
        k->groupnorm_backward(s, a->norm, in[0], in[1], in[2], in[3], in[4], out[0], out[1],
                              out[2]);
        break;
    case ES_OP_LAYERNORM:
        k->layernorm_forward(s, a->norm, in[0], in[1], in[2], out[0], out[1], out[2]);
        break;
    case ES_OP_LAYERNORM_GRADIENT:
        k->layernorm_backward(s, in[0], in[1], in[2], in[3], in[4], out[0], out[1], out[2]);
        break;
    case ES_OP_ACTIVATION:
        k->activation_forward(s, a->activation, in[0], out[0]);
        break;
    case ES_OP_ACTIVATION_INPUT:
        k->activation_backward(s, a->activation, in[0], in[1], out[0]);
        break;
    case ES_OP_POOL:
        k->pool_forward(s, a->pool, in[0], out[0]);
        break;
    case ES_OP_POOL_INPUT:
        k->pool_backward(s, a->pool, in[0], in[1], out[0]);
        break;
    case ES_OP_SEED_INPUT_GRADIENT:
        k->seed_input_backward(s, in[0], in[1], out[0]);
        break;
    case ES_OP_BLEND:
        k->blend_forward(s, in[0], in[1], in[2], in[3], in[4], out[0]);
        break;
    case ES_OP_BLEND_GRADIENT:
        k->blend_backward(s, in[0], in[1], in[2], in[3], in[4], in[5], out[0], out[1], out[2]);
        break;
    case ES_OP_CHANNEL_SCALE:
        k->channel_scale_forward(s, in[0], in[1], out[0]);
        break;
    case ES_OP_CHANNEL_SCALE_GRADIENT:
        k->channel_scale_backward(s, in[0], in[1], in[2], out[0], out[1]);
        break;
    case ES_OP_NORM_MIX:
        k->norm_mix_forward(s, in[0], in[1], in[2], out[0]);
        break;
    case ES_OP_NORM_MIX_GRADIENT:
        k->norm_mix_backward(s, in[0], in[1], in[2], in[3], out[0], out[1], out[2]);
        break;
    case ES_OP_CROSS_ENTROPY:
        k->cross_entropy_forward(s, in[0], in[1], out[0], out[1], out[2]);
        break;
    case ES_OP_CROSS_ENTROPY_INPUT:
        k->cross_entropy_backward(s, in[0], in[1], NULL, out[0]);
        break;
    case ES_OP_EMBEDDING:
        k->embedding_forward(s, in[0], in[1], out[0], out[1]);
        break;
    case ES_OP_EMBEDDING_TABLE:
        k->embedding_backward(s, in[0], in[1], out[0]);
        break;
    case ES_OP_LSTM:
        weights = lstm_weights(tensors, node->input);
        k->lstm_forward(s, &weights, in[4], in[5], in[6], in[7], out[0], out[1], out[2]);
        break;
    case ES_OP_LSTM_GRADIENT:
        weights = lstm_weights(tensors, node->input);
        d_weights = lstm_weights(tensors, node->output + 4);
        k->lstm_backward(s, &weights, in[4], in[5], in[6], in[7], in[8], in[9], in[10], in[11],
                         out[0], out[1], out[2], out[3], &d_weights);
        break;
    case ES_OP_DROPOUT:
        k->dropout(s, a->dropout, in[0], in[1], in[2], out[0]);
        break;
    case ES_OP_GATHER_ORDER:
        k->gather_order(s, &a->order, in[0], in[1], out[0]);
        break;
    case ES_OP_GATHER_IMAGES:
        k->gather_images(s, &a->gather, in[0], in[1], in[2], in[3], out[0]);
        break;
    case ES_OP_GATHER_LABELS:
        k->gather_labels(s, in[0], in[1], out[0]);
        break;
    case ES_OP_RESHAPE:
    case ES_OP_DETACH:
    case ES_OP_SEED_INPUT:
        break;
    case ES_OP_COUNT:
        ES_ASSERT(node->op != ES_OP_COUNT);
    }
}
