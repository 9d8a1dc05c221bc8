// One node of a graph as one kernel call. The switch is generated from the list of operations, so
// that a node's operands are named in one place.
#include "network/plan/plan_internal.h"

// NULL for an absent optional value
static const EsTensor *at(const EsTensor *tensors, EsValueId value) {
    return value == ES_NO_VALUE ? NULL : &tensors[value];
}

void es_execute_node(const EsKernels *k, EsStream *s, const EsNode *node, const EsTensor *tensors) {
    const EsTensor *in[ES_MAX_NODE_INPUTS] = {0}, *out[ES_MAX_NODE_OUTPUTS] = {0};
    const int n_inputs = node->n_inputs;
    for (int i = 0; i < n_inputs; i++) {
        in[i] = at(tensors, node->input[i]);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        out[i] = at(tensors, node->output[i]);
    }
    const EsAttributes *a = &node->attributes;
    switch (node->op) {
#define X(name, kernel, inputs, outputs, arguments)                                                \
    case ES_OP_##name:                                                                             \
        k->kernel arguments;                                                                       \
        break;
        ES_KERNEL_OP_LIST(X)
#undef X
#define X(name, kernel, inputs, outputs) case ES_OP_##name:
        ES_ALIAS_OP_LIST(X)
#undef X
        break;
    case ES_OP_COUNT:
        ES_ASSERT(node->op != ES_OP_COUNT);
    }
}
