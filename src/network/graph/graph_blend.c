// Builders for slots: the input from the host, the blending of a seed, and the layers of seeds
// alone.
#include "network/graph/graph_blend.h"

#include "network/graph/graph_build.h"

// Every factor of a fresh squeeze-and-excite is sigmoid(3) = 0.953: near 1, but where the sigmoid
// still has a slope.
#define EXCITE_BIAS 3.0f

static int check_mode(EsGraph *graph, const char *what, EsValueId mode) {
    return es_graph_check(graph, what, mode, 1, ES_DTYPE_I32);
}

EsValueId es_graph_seed_input(EsGraph *graph, EsValueId h, EsValueId mode) {
    if (!es_graph_check_layer_input(graph, "seed input", h) ||
        !check_mode(graph, "seed input", mode)) {
        return ES_NO_VALUE;
    }
    EsRole role = graph->values[h].role;
    if (role != ES_ROLE_ACTIVATION && role != ES_ROLE_RESULT) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT,
                             "seed input: \"%s\" is not computed by the graph; a seed reads an "
                             "activation",
                             graph->values[h].name);
    }
    EsValueId x = es_graph_add_like(graph, "seed input", h);
    es_graph_add_node(graph, ES_OP_SEED_INPUT, (EsValueId[]){h, mode}, &x);
    if (x != ES_NO_VALUE) {
        graph->values[x].alias_of = h;
    }
    return x;
}

static int64_t gate_width(int64_t n_channels) { return ES_MAX(8, n_channels / 4); }

int64_t es_graph_gate_parameter_count(int64_t n_channels) {
    return gate_width(n_channels) * (n_channels + 2) + 1;
}

EsValueId es_graph_gate(EsGraph *graph, const char *name, EsValueId x) {
    char hidden[ES_NAME_BYTES], out[ES_NAME_BYTES];
    if (!es_graph_check(graph, name, x, 5, ES_DTYPE_F32) ||
        !es_graph_join_name(graph, name, "hidden", hidden) ||
        !es_graph_join_name(graph, name, "out", out)) {
        return ES_NO_VALUE;
    }
    const int64_t n_rows = graph->values[x].dim[1], n_channels = graph->values[x].dim[2];
    EsValueId z = es_graph_pool(graph, ES_POOL_GLOBAL, x);
    z = es_graph_linear(graph, hidden, z, gate_width(n_channels));
    z = es_graph_activation(graph, ES_ACTIVATION_RELU, z);
    z = es_graph_linear(graph, out, z, 1);
    z = es_graph_activation(graph, ES_ACTIVATION_SIGMOID, z);
    return es_graph_reshape(graph, z, 1, &n_rows);
}

EsValueId es_graph_blend(EsGraph *graph, EsValueId h, EsValueId seed, EsValueId gate,
                         EsValueId alpha, EsValueId mode) {
    if (!es_graph_check_same_shape(graph, "blend", h, seed) ||
        !es_graph_check(graph, "blend", alpha, 1, ES_DTYPE_F32) ||
        !check_mode(graph, "blend", mode)) {
        return ES_NO_VALUE;
    }
    if (graph->values[h].rank < 2) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT, "blend: \"%s\" has no axis of images",
                             graph->values[h].name);
    }
    const int64_t n_rows = graph->values[h].dim[1];
    if (gate != ES_NO_VALUE &&
        (!es_graph_check_layer_input(graph, "blend", gate) ||
         !es_graph_check_dims(graph, "blend", gate, 1, &n_rows, ES_DTYPE_F32))) {
        return ES_NO_VALUE;
    }
    EsValueId y = es_graph_add_like(graph, "blend", h);
    const EsValueId inputs[] = {h, seed, gate, alpha, mode};
    es_graph_add_node(graph, ES_OP_BLEND_FORWARD, inputs, &y);
    return y;
}

EsValueId es_graph_channel_scale(EsGraph *graph, EsValueId x, EsValueId w) {
    if (!es_graph_check(graph, "channel scale", x, 5, ES_DTYPE_F32) ||
        !es_graph_check_layer_input(graph, "channel scale", w) ||
        !es_graph_check_dims(graph, "channel scale", w, 2, graph->values[x].dim + 1,
                             ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    EsValueId y = es_graph_add_like(graph, "channel scale", x);
    es_graph_add_node(graph, ES_OP_CHANNEL_SCALE_FORWARD, (EsValueId[]){x, w}, &y);
    return y;
}

EsValueId es_graph_norm_mix(EsGraph *graph, const char *name, EsValueId x, EsValueId n) {
    if (!es_graph_check_same_shape(graph, name, x, n)) {
        return ES_NO_VALUE;
    }
    EsValueId g = es_graph_add_parameter(graph, name, "mix", 1, (int64_t[]){1}, 0.0f, 0.0f);
    EsValueId y = es_graph_add_like(graph, name, x);
    es_graph_add_node(graph, ES_OP_NORM_MIX_FORWARD, (EsValueId[]){x, n, g}, &y);
    return y;
}

EsValueId es_graph_squeeze_excite(EsGraph *graph, const char *name, EsValueId x) {
    char squeeze[ES_NAME_BYTES], excite[ES_NAME_BYTES];
    if (!es_graph_check(graph, name, x, 5, ES_DTYPE_F32) ||
        !es_graph_join_name(graph, name, "squeeze", squeeze) ||
        !es_graph_join_name(graph, name, "excite", excite)) {
        return ES_NO_VALUE;
    }
    const int64_t n_channels = graph->values[x].dim[2];
    const EsLinearOptions constant = {.has_bias = 1, .is_constant = 1, .bias_start = EXCITE_BIAS};
    // with C/4 units and no bias, signs of their own would leave some seeds without a living unit
    const EsLinearOptions positive = {.is_positive = 1};
    EsValueId w = es_graph_pool(graph, ES_POOL_GLOBAL, x);
    w = es_graph_linear_with(graph, squeeze, w, ES_MAX(1, n_channels / 4), positive);
    w = es_graph_activation(graph, ES_ACTIVATION_RELU, w);
    w = es_graph_linear_with(graph, excite, w, n_channels, constant);
    w = es_graph_activation(graph, ES_ACTIVATION_SIGMOID, w);
    return es_graph_channel_scale(graph, x, w);
}
