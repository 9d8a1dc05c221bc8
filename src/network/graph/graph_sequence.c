// The builders of graph.h for words and sequences: embedding and LSTM.
#include <math.h>

#include "network/graph/graph_build.h"

static EsValueId add_embedding(EsGraph *graph, const char *name, EsValueId ids, int64_t n_rows,
                               int64_t n_features, EsInitial initial, float bound) {
    if (!es_graph_check(graph, name, ids, 2, ES_DTYPE_I32)) {
        return ES_NO_VALUE;
    }
    int64_t count = graph->values[ids].dim[1];
    EsValueId table = es_graph_add_parameter_with(
        graph, name, "table", 2, (int64_t[]){n_rows, n_features}, initial, bound, 0.0f);
    EsValueId y = es_graph_add_activation(graph, name, ES_DTYPE_F32, 3,
                                          (int64_t[]){graph->n_envs, count, n_features});
    EsValueId n_invalid =
        es_graph_value(graph, "invalid ids", ES_ROLE_RESULT, ES_DTYPE_I32, 1, &graph->n_envs);
    es_graph_add_node(graph, ES_OP_EMBEDDING, 2, (EsValueId[]){table, ids}, 2,
                      (EsValueId[]){y, n_invalid});
    return y;
}

EsValueId es_graph_embedding(EsGraph *graph, const char *name, EsValueId ids, int64_t n_rows,
                             int64_t n_features) {
    return add_embedding(graph, name, ids, n_rows, n_features, ES_INITIAL_UNIFORM,
                         1.0f / sqrtf((float)n_features));
}

EsValueId es_graph_embedding_normal(EsGraph *graph, const char *name, EsValueId ids, int64_t n_rows,
                                    int64_t n_features, float deviation) {
    return add_embedding(graph, name, ids, n_rows, n_features, ES_INITIAL_NORMAL, deviation);
}

// What weights and biases of an LSTM start from.
typedef struct LstmStart {
    EsInitial weight, bias;
    float weight_bound, bias_bound, bias_start;
} LstmStart;

static EsRecurrent add_lstm(EsGraph *graph, const char *name, EsValueId x, EsValueId reset,
                            EsValueId h_start, EsValueId c_start, int64_t n_hidden,
                            LstmStart from) {
    EsRecurrent nothing = {ES_NO_VALUE, ES_NO_VALUE};
    if (!es_graph_check(graph, name, x, 4, ES_DTYPE_F32)) {
        return nothing;
    }
    const int64_t n_steps = graph->values[x].dim[1], n_rows = graph->values[x].dim[2];
    const int64_t n_in = graph->values[x].dim[3], n_gates = 4 * n_hidden;
    const int64_t per_step[] = {n_steps, n_rows}, start[] = {n_rows, n_hidden};
    if ((reset != ES_NO_VALUE &&
         !es_graph_check_dims(graph, name, reset, 2, per_step, ES_DTYPE_U8)) ||
        (h_start != ES_NO_VALUE &&
         !es_graph_check_dims(graph, name, h_start, 2, start, ES_DTYPE_F32)) ||
        (c_start != ES_NO_VALUE &&
         !es_graph_check_dims(graph, name, c_start, 2, start, ES_DTYPE_F32))) {
        return nothing;
    }
    const int64_t state[] = {graph->n_envs, n_steps, n_rows, n_hidden};
    const int64_t gate[] = {graph->n_envs, n_steps, n_rows, n_gates};
    EsValueId input =
        es_graph_add_parameter_with(graph, name, "weight_ih", 2, (int64_t[]){n_gates, n_in},
                                    from.weight, from.weight_bound, 0.0f);
    EsValueId recurrent =
        es_graph_add_parameter_with(graph, name, "weight_hh", 2, (int64_t[]){n_gates, n_hidden},
                                    from.weight, from.weight_bound, 0.0f);
    EsValueId bias_input = es_graph_add_parameter_with(graph, name, "bias_ih", 1, &n_gates,
                                                       from.bias, from.bias_bound, from.bias_start);
    EsValueId bias_recurrent = es_graph_add_parameter_with(
        graph, name, "bias_hh", 1, &n_gates, from.bias, from.bias_bound, from.bias_start);
    EsValueId gates = es_graph_add_activation(graph, "lstm gates", ES_DTYPE_F32, 4, gate);
    EsValueId c = es_graph_add_activation(graph, "lstm cells", ES_DTYPE_F32, 4, state);
    EsValueId y = es_graph_add_activation(graph, name, ES_DTYPE_F32, 4, state);
    es_graph_add_node(
        graph, ES_OP_LSTM, 8,
        (EsValueId[]){input, recurrent, bias_input, bias_recurrent, x, reset, h_start, c_start}, 3,
        (EsValueId[]){gates, c, y});
    return (EsRecurrent){y, c};
}

EsRecurrent es_graph_lstm(EsGraph *graph, const char *name, EsValueId x, EsValueId reset,
                          EsValueId h_start, EsValueId c_start, int64_t n_hidden) {
    float bound = 1.0f / sqrtf((float)n_hidden);
    LstmStart from = {ES_INITIAL_UNIFORM, ES_INITIAL_UNIFORM, bound, bound, 0.0f};
    return add_lstm(graph, name, x, reset, h_start, c_start, n_hidden, from);
}

EsRecurrent es_graph_lstm_with(EsGraph *graph, const char *name, EsValueId x, EsValueId reset,
                               EsValueId h_start, EsValueId c_start, int64_t n_hidden,
                               EsLstmOptions options) {
    LstmStart from = {options.initial, ES_INITIAL_FORGET, options.scale, 0.0f, options.forget_bias};
    return add_lstm(graph, name, x, reset, h_start, c_start, n_hidden, from);
}
