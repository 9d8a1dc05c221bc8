// The kinds of node, once: X(NAME, kernel, inputs, outputs, arguments). An operation is spelt as
// its kernel (kernels/kernel_list.h), whose arguments name the node's operands: s is the stream, a
// its attributes, in and out its tensors, NULL where an optional one is absent. Operand counts,
// names and the executor come from this list.
//
// Operations that only give memory another name have no kernel.
#ifndef ES_NETWORK_OP_LIST_H
#define ES_NETWORK_OP_LIST_H

// of inputs: as many as the builder gives
#define ES_OP_ANY (-1)

// clang-format off
#define ES_KERNEL_OP_LIST(X) \
    X(ADD,                       add,                       2,  1, (s, in[0], in[1], out[0])) \
    X(CONCAT_FORWARD,            concat_forward,            ES_OP_ANY, 1, (s, n_inputs, in, out[0])) \
    X(CONCAT_BACKWARD,           concat_backward,           1,  1, (s, a->first, in[0], out[0])) \
    X(LINEAR_FORWARD,            linear_forward,            3,  1, (s, in[0], in[1], in[2], out[0])) \
    X(LINEAR_BACKWARD_INPUT,     linear_backward_input,     2,  1, (s, in[0], in[1], out[0])) \
    X(LINEAR_BACKWARD_WEIGHT,    linear_backward_weight,    2,  2, (s, in[0], in[1], out[0], out[1])) \
    X(CONV2D_FORWARD,            conv2d_forward,            3,  1, (s, in[0], in[1], in[2], out[0])) \
    X(CONV2D_BACKWARD_INPUT,     conv2d_backward_input,     2,  1, (s, in[0], in[1], out[0])) \
    X(CONV2D_BACKWARD_WEIGHT,    conv2d_backward_weight,    2,  2, (s, in[0], in[1], out[0], out[1])) \
    X(DEPTHWISE_FORWARD,         depthwise_forward,         2,  1, (s, in[0], in[1], out[0])) \
    X(DEPTHWISE_BACKWARD_INPUT,  depthwise_backward_input,  2,  1, (s, in[0], in[1], out[0])) \
    X(DEPTHWISE_BACKWARD_WEIGHT, depthwise_backward_weight, 2,  1, (s, in[0], in[1], out[0])) \
    X(BATCHNORM_STATISTICS,      batchnorm_statistics,      3,  2, (s, a->norm, in[0], out[0], out[1], in[1], in[2])) \
    X(BATCHNORM_FROM_RUNNING,    batchnorm_from_running,    2,  2, (s, a->norm, in[0], in[1], out[0], out[1])) \
    X(BATCHNORM_APPLY,           batchnorm_apply,           5,  1, (s, in[0], in[1], in[2], in[3], in[4], out[0])) \
    X(BATCHNORM_BACKWARD_SUMS,   batchnorm_backward_sums,   4,  2, (s, in[0], in[1], in[2], in[3], out[0], out[1])) \
    X(BATCHNORM_BACKWARD_INPUT,  batchnorm_backward_input,  7,  1, (s, in[0], in[1], in[2], in[3], in[4], in[5], in[6], out[0])) \
    X(GROUPNORM_FORWARD,         groupnorm_forward,         3,  3, (s, a->norm, in[0], in[1], in[2], out[0], out[1], out[2])) \
    X(GROUPNORM_BACKWARD,        groupnorm_backward,        5,  3, (s, a->norm, in[0], in[1], in[2], in[3], in[4], out[0], out[1], out[2])) \
    X(LAYERNORM_FORWARD,         layernorm_forward,         3,  3, (s, a->norm, in[0], in[1], in[2], out[0], out[1], out[2])) \
    X(LAYERNORM_BACKWARD,        layernorm_backward,        5,  3, (s, in[0], in[1], in[2], in[3], in[4], out[0], out[1], out[2])) \
    X(ACTIVATION_FORWARD,        activation_forward,        1,  1, (s, a->activation, in[0], out[0])) \
    X(ACTIVATION_BACKWARD,       activation_backward,       2,  1, (s, a->activation, in[0], in[1], out[0])) \
    X(POOL_FORWARD,              pool_forward,              1,  1, (s, a->pool, in[0], out[0])) \
    X(POOL_BACKWARD,             pool_backward,             2,  1, (s, a->pool, in[0], in[1], out[0])) \
    X(SET_SUM,                   set_sum,                   2,  1, (s, a->scale, in[0], in[1], out[0])) \
    X(SET_BROADCAST,             set_broadcast,             2,  1, (s, a->scale, in[0], in[1], out[0])) \
    X(SET_MAX_FORWARD,           set_max_forward,           1,  1, (s, in[0], out[0])) \
    X(SET_MAX_BACKWARD,          set_max_backward,          3,  1, (s, in[0], in[1], in[2], out[0])) \
    X(SEED_INPUT_BACKWARD,       seed_input_backward,       2,  1, (s, in[0], in[1], out[0])) \
    X(BLEND_FORWARD,             blend_forward,             5,  1, (s, in[0], in[1], in[2], in[3], in[4], out[0])) \
    X(BLEND_BACKWARD,            blend_backward,            6,  3, (s, in[0], in[1], in[2], in[3], in[4], in[5], out[0], out[1], out[2])) \
    X(CHANNEL_SCALE_FORWARD,     channel_scale_forward,     2,  1, (s, in[0], in[1], out[0])) \
    X(CHANNEL_SCALE_BACKWARD,    channel_scale_backward,    3,  2, (s, in[0], in[1], in[2], out[0], out[1])) \
    X(NORM_MIX_FORWARD,          norm_mix_forward,          3,  1, (s, in[0], in[1], in[2], out[0])) \
    X(NORM_MIX_BACKWARD,         norm_mix_backward,         4,  3, (s, in[0], in[1], in[2], in[3], out[0], out[1], out[2])) \
    X(CROSS_ENTROPY_FORWARD,     cross_entropy_forward,     2,  3, (s, a->smoothing, in[0], in[1], out[0], out[1], out[2])) \
    X(CROSS_ENTROPY_BACKWARD,    cross_entropy_backward,    2,  1, (s, a->smoothing, in[0], in[1], NULL, out[0])) \
    X(EMBEDDING_FORWARD,         embedding_forward,         2,  2, (s, in[0], in[1], out[0], out[1])) \
    X(EMBEDDING_BACKWARD,        embedding_backward,        2,  1, (s, in[0], in[1], out[0])) \
    X(LSTM_FORWARD,              lstm_forward,              8,  3, (s, &(EsLstmWeights){*in[0], *in[1], *in[2], *in[3]}, in[4], in[5], in[6], in[7], out[0], out[1], out[2])) \
    X(LSTM_BACKWARD,             lstm_backward,             12, 8, (s, &(EsLstmWeights){*in[0], *in[1], *in[2], *in[3]}, in[4], in[5], in[6], in[7], in[8], in[9], in[10], in[11], out[0], out[1], out[2], out[3], &(EsLstmWeights){*out[4], *out[5], *out[6], *out[7]})) \
    X(DROPOUT,                   dropout,                   3,  1, (s, a->dropout, in[0], in[1], in[2], out[0])) \
    X(GATHER_ORDER,              gather_order,              2,  1, (s, &a->order, in[0], in[1], out[0])) \
    X(GATHER_IMAGES,             gather_images,             4,  1, (s, &a->gather, in[0], in[1], in[2], in[3], out[0])) \
    X(GATHER_LABELS,             gather_labels,             2,  1, (s, in[0], in[1], out[0]))

#define ES_ALIAS_OP_LIST(X) \
    X(RESHAPE,    reshape,    1, 1) \
    X(DETACH,     detach,     1, 1) \
    X(SEED_INPUT, seed_input, 2, 1)
// clang-format on

#endif
