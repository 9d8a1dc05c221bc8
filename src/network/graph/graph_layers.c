// The builders of graph.h: shape checks, parameters with their initial ranges, one node each.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "network/graph/graph_build.h"

EsValueId es_graph_linear_with(EsGraph *graph, const char *name, EsValueId x, int64_t n_out,
                               EsLinearOptions options) {
    if (!es_graph_check(graph, name, x, 3, ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    int64_t n_rows = graph->values[x].dim[1], n_in = graph->values[x].dim[2];
    int is_uniform = options.initial == ES_INITIAL_UNIFORM;
    float bound = options.is_constant || !is_uniform ? 0.0f : 1.0f / sqrtf((float)n_in);
    float middle = options.is_positive ? bound / 2.0f : 0.0f;
    EsValueId weight = es_graph_add_parameter_with(
        graph, name, "weight", 2, (int64_t[]){n_out, n_in}, options.initial,
        is_uniform ? bound - middle : options.scale, middle);
    EsValueId bias = options.has_bias ? es_graph_add_parameter(graph, name, "bias", 1, &n_out,
                                                               bound, options.bias_start)
                                      : ES_NO_VALUE;
    EsValueId y = es_graph_add_activation(graph, name, ES_DTYPE_F32, 3,
                                          (int64_t[]){graph->n_envs, n_rows, n_out});
    es_graph_add_node(graph, ES_OP_LINEAR_FORWARD, (EsValueId[]){x, weight, bias}, &y);
    return y;
}

EsValueId es_graph_linear(EsGraph *graph, const char *name, EsValueId x, int64_t n_out) {
    return es_graph_linear_with(graph, name, x, n_out, (EsLinearOptions){.has_bias = 1});
}

static int check_kernel(EsGraph *graph, const char *name, int64_t kernel) {
    if (kernel < 1 || kernel > 7 || kernel % 2 == 0) {
        es_graph_fail(graph, ES_STATUS_ARGUMENT, "%s: kernel size %lld is not 1, 3, 5 or 7", name,
                      (long long)kernel);
        return 0;
    }
    return 1;
}

EsValueId es_graph_conv2d(EsGraph *graph, const char *name, EsValueId x, int64_t n_out,
                          int64_t kernel, int has_bias) {
    if (!es_graph_check(graph, name, x, 5, ES_DTYPE_F32) || !check_kernel(graph, name, kernel)) {
        return ES_NO_VALUE;
    }
    EsValue source = graph->values[x];
    float bound = 1.0f / sqrtf((float)(source.dim[2] * kernel * kernel));
    EsValueId weight = es_graph_add_parameter(
        graph, name, "weight", 4, (int64_t[]){n_out, source.dim[2], kernel, kernel}, bound, 0.0f);
    EsValueId bias = has_bias ? es_graph_add_parameter(graph, name, "bias", 1, &n_out, bound, 0.0f)
                              : ES_NO_VALUE;
    EsValueId y = es_graph_add_activation(
        graph, name, ES_DTYPE_F32, 5,
        (int64_t[]){source.dim[0], source.dim[1], n_out, source.dim[3], source.dim[4]});
    es_graph_add_node(graph, ES_OP_CONV2D_FORWARD, (EsValueId[]){x, weight, bias}, &y);
    return y;
}

EsValueId es_graph_depthwise(EsGraph *graph, const char *name, EsValueId x, int64_t kernel) {
    if (!es_graph_check(graph, name, x, 5, ES_DTYPE_F32) || !check_kernel(graph, name, kernel)) {
        return ES_NO_VALUE;
    }
    int64_t channels = graph->values[x].dim[2];
    float bound = 1.0f / sqrtf((float)(kernel * kernel));
    EsValueId weight = es_graph_add_parameter(graph, name, "weight", 3,
                                              (int64_t[]){channels, kernel, kernel}, bound, 0.0f);
    EsValueId y = es_graph_add_like(graph, name, x);
    es_graph_add_node(graph, ES_OP_DEPTHWISE_FORWARD, (EsValueId[]){x, weight}, &y);
    return y;
}

EsValueId es_graph_batchnorm(EsGraph *graph, const char *name, EsValueId x, int is_training) {
    if (!es_graph_check(graph, name, x, 5, ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    int64_t channels = graph->values[x].dim[2];
    const int64_t per_channel[] = {graph->n_envs, channels};
    char part[ES_NAME_BYTES];
    EsValueId gamma = es_graph_add_parameter(graph, name, "gamma", 1, &channels, 0.0f, 1.0f);
    EsValueId beta = es_graph_add_parameter(graph, name, "beta", 1, &channels, 0.0f, 0.0f);
    if (snprintf(part, sizeof part, "%s.running_variance", name) >= (int)sizeof part) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT, "layer name \"%s\" is too long", name);
    }
    snprintf(part, sizeof part, "%.*s.running_mean", ES_NAME_BYTES - 20, name);
    EsValueId running_mean = es_graph_state(graph, part, 1, &channels, 0.0f);
    snprintf(part, sizeof part, "%.*s.running_variance", ES_NAME_BYTES - 20, name);
    EsValueId running_variance = es_graph_state(graph, part, 1, &channels, 1.0f);
    EsValueId mean = es_graph_add_statistic(graph, "batch mean", 2, per_channel);
    EsValueId inv_std = es_graph_add_statistic(graph, "batch inv_std", 2, per_channel);
    EsValueId y = es_graph_add_like(graph, name, x);
    EsNode *node;
    if (is_training) {
        node = es_graph_add_node(graph, ES_OP_BATCHNORM_STATISTICS,
                                 (EsValueId[]){x, running_mean, running_variance},
                                 (EsValueId[]){mean, inv_std});
    } else {
        node = es_graph_add_node(graph, ES_OP_BATCHNORM_FROM_RUNNING,
                                 (EsValueId[]){running_mean, running_variance},
                                 (EsValueId[]){mean, inv_std});
    }
    node->attributes.norm = (EsNormOptions){.epsilon = ES_NORM_EPSILON, .momentum = 0.1f};
    es_graph_add_node(graph, ES_OP_BATCHNORM_APPLY, (EsValueId[]){x, mean, inv_std, gamma, beta},
                      &y);
    return y;
}

EsValueId es_graph_groupnorm_with(EsGraph *graph, const char *name, EsValueId x, int n_groups,
                                  float gamma_start, float epsilon) {
    if (!es_graph_check(graph, name, x, 5, ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    int64_t rows = graph->values[x].dim[1], channels = graph->values[x].dim[2];
    if (n_groups < 1 || channels % n_groups != 0) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT,
                             "%s: %lld channels do not divide into %d groups", name,
                             (long long)channels, n_groups);
    }
    const int64_t per_group[] = {graph->n_envs, rows, n_groups};
    EsValueId gamma = es_graph_add_parameter(graph, name, "gamma", 1, &channels, 0.0f, gamma_start);
    EsValueId beta = es_graph_add_parameter(graph, name, "beta", 1, &channels, 0.0f, 0.0f);
    EsValueId mean = es_graph_add_statistic(graph, "group mean", 3, per_group);
    EsValueId inv_std = es_graph_add_statistic(graph, "group inv_std", 3, per_group);
    EsValueId y = es_graph_add_like(graph, name, x);
    EsNode *node = es_graph_add_node(graph, ES_OP_GROUPNORM_FORWARD, (EsValueId[]){x, gamma, beta},
                                     (EsValueId[]){mean, inv_std, y});
    node->attributes.norm = (EsNormOptions){.epsilon = epsilon, .n_groups = n_groups};
    return y;
}

EsValueId es_graph_groupnorm(EsGraph *graph, const char *name, EsValueId x, int n_groups) {
    return es_graph_groupnorm_with(graph, name, x, n_groups, 1.0f, ES_NORM_EPSILON);
}

EsValueId es_graph_layernorm(EsGraph *graph, const char *name, EsValueId x) {
    if (!es_graph_check(graph, name, x, 3, ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    int64_t features = graph->values[x].dim[2];
    EsValueId gamma = es_graph_add_parameter(graph, name, "gamma", 1, &features, 0.0f, 1.0f);
    EsValueId beta = es_graph_add_parameter(graph, name, "beta", 1, &features, 0.0f, 0.0f);
    EsValueId mean = es_graph_add_statistic(graph, "row mean", 2, graph->values[x].dim);
    EsValueId inv_std = es_graph_add_statistic(graph, "row inv_std", 2, graph->values[x].dim);
    EsValueId y = es_graph_add_like(graph, name, x);
    EsNode *node = es_graph_add_node(graph, ES_OP_LAYERNORM_FORWARD, (EsValueId[]){x, gamma, beta},
                                     (EsValueId[]){mean, inv_std, y});
    node->attributes.norm = (EsNormOptions){.epsilon = ES_NORM_EPSILON};
    return y;
}

EsValueId es_graph_add(EsGraph *graph, EsValueId a, EsValueId b) {
    if (!es_graph_check_same_shape(graph, "add", a, b)) {
        return ES_NO_VALUE;
    }
    EsValueId y = es_graph_add_like(graph, "sum", a);
    es_graph_add_node(graph, ES_OP_ADD, (EsValueId[]){a, b}, &y);
    return y;
}

EsValueId es_graph_activation(EsGraph *graph, EsActivation kind, EsValueId x) {
    if (!es_graph_check_layer_input(graph, "activation", x)) {
        return ES_NO_VALUE;
    }
    EsValueId y = es_graph_add_like(graph, "activation", x);
    es_graph_add_node(graph, ES_OP_ACTIVATION_FORWARD, &x, &y)->attributes.activation = kind;
    return y;
}

EsValueId es_graph_reshape(EsGraph *graph, EsValueId x, int rank, const int64_t *dims) {
    if (!es_graph_check_exists(graph, "reshape", x)) {
        return ES_NO_VALUE;
    }
    EsValue source = graph->values[x];
    int64_t all[ES_MAX_RANK] = {graph->n_envs}, count = 1, wanted = 1;
    ES_ASSERT(rank < ES_MAX_RANK);
    for (int axis = 0; axis < rank; axis++) {
        all[axis + 1] = dims[axis];
        wanted *= dims[axis];
    }
    for (int axis = 1; axis < source.rank; axis++) {
        count *= source.dim[axis];
    }
    if (count != wanted || (source.role != ES_ROLE_ACTIVATION && source.role != ES_ROLE_RESULT)) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT,
                             "reshape: \"%s\" has %lld elements per environment, the new shape "
                             "%lld; only activations "
                             "are reshaped",
                             source.name, (long long)count, (long long)wanted);
    }
    EsValueId y = es_graph_add_activation(graph, source.name, source.dtype, rank + 1, all);
    es_graph_add_node(graph, ES_OP_RESHAPE, &x, &y);
    if (y != ES_NO_VALUE) {
        graph->values[y].alias_of = x;
    }
    return y;
}

// Equal in all axes but the last.
static int has_equal_rows(const EsValue *a, const EsValue *b) {
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, sizeof a->dim[0] * (size_t)(a->rank - 1)) == 0;
}

EsValueId es_graph_concat(EsGraph *graph, int n, const EsValueId *inputs) {
    if (n < 1 || n > ES_CONCAT_MAX) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT, "concat: %d values, from 1 to %d", n,
                             ES_CONCAT_MAX);
    }
    int64_t width = 0;
    for (int i = 0; i < n; i++) {
        if (!es_graph_check_layer_input(graph, "concat", inputs[i])) {
            return ES_NO_VALUE;
        }
        const EsValue *value = &graph->values[inputs[i]], *first = &graph->values[inputs[0]];
        if (value->rank < 2 || !has_equal_rows(value, first)) {
            return es_graph_fail(graph, ES_STATUS_ARGUMENT,
                                 "concat: \"%s\" and \"%s\" differ in more than the last axis",
                                 first->name, value->name);
        }
        width += value->dim[value->rank - 1];
    }
    EsValue model = graph->values[inputs[0]];
    model.dim[model.rank - 1] = width;
    EsValueId y = es_graph_add_activation(graph, "concat", ES_DTYPE_F32, model.rank, model.dim);
    es_graph_add_node_of(graph, ES_OP_CONCAT_FORWARD, n, inputs, &y);
    return y;
}

// A layer's input of rank 4: sets of rows.
static int check_sets(EsGraph *graph, const char *what, EsValueId x) {
    return es_graph_check_layer_input(graph, what, x) &&
           es_graph_check(graph, what, x, 4, ES_DTYPE_F32);
}

static EsValueId add_set_rows(EsGraph *graph, const char *name, EsValueId x) {
    EsValue sets = graph->values[x];
    const int64_t dims[] = {sets.dim[0], sets.dim[1], sets.dim[3]};
    return es_graph_add_activation(graph, name, ES_DTYPE_F32, 3, dims);
}

EsValueId es_graph_set_sum(EsGraph *graph, EsValueId x, EsValueId weights, float scale) {
    if (!check_sets(graph, "set_sum", x)) {
        return ES_NO_VALUE;
    }
    EsValue sets = graph->values[x];
    if (weights != ES_NO_VALUE &&
        !es_graph_check_dims(graph, "set_sum", weights, 2, sets.dim + 1, ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    if (weights != ES_NO_VALUE && graph->values[weights].needs_gradient) {
        return es_graph_fail(graph, ES_STATUS_UNSUPPORTED,
                             "set_sum: the weights \"%s\" depend on a parameter, which they would "
                             "not train",
                             graph->values[weights].name);
    }
    EsValueId y = add_set_rows(graph, "set_sum", x);
    es_graph_add_node(graph, ES_OP_SET_SUM, (EsValueId[]){x, weights}, &y)->attributes.scale =
        scale;
    return y;
}

EsValueId es_graph_set_broadcast(EsGraph *graph, EsValueId x, int64_t n_members) {
    if (!es_graph_check_layer_input(graph, "set_broadcast", x) ||
        !es_graph_check(graph, "set_broadcast", x, 3, ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    if (n_members < 1) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT, "set_broadcast: %lld members of a set",
                             (long long)n_members);
    }
    EsValue rows = graph->values[x];
    const int64_t dims[] = {rows.dim[0], rows.dim[1], n_members, rows.dim[2]};
    EsValueId y = es_graph_add_activation(graph, "set_broadcast", ES_DTYPE_F32, 4, dims);
    es_graph_add_node(graph, ES_OP_SET_BROADCAST, (EsValueId[]){x, ES_NO_VALUE}, &y)
        ->attributes.scale = 1.0f;
    return y;
}

EsValueId es_graph_set_max(EsGraph *graph, EsValueId x) {
    if (!check_sets(graph, "set_max", x)) {
        return ES_NO_VALUE;
    }
    EsValueId y = add_set_rows(graph, "set_max", x);
    es_graph_add_node(graph, ES_OP_SET_MAX_FORWARD, &x, &y);
    return y;
}

EsValueId es_graph_detach(EsGraph *graph, EsValueId x) {
    if (!es_graph_check_layer_input(graph, "detach", x)) {
        return ES_NO_VALUE;
    }
    if (graph->values[x].role == ES_ROLE_INPUT) {
        return x; // no gradient goes there anyway
    }
    EsValueId y = es_graph_add_like(graph, graph->values[x].name, x);
    es_graph_add_node(graph, ES_OP_DETACH, &x, &y);
    if (y != ES_NO_VALUE) {
        graph->values[y].alias_of = x;
        graph->values[y].is_rounded = graph->values[x].is_rounded;
        graph->values[y].needs_gradient = 0;
    }
    return y;
}

EsValueId es_graph_pool(EsGraph *graph, EsPool kind, EsValueId x) {
    if (!es_graph_check(graph, "pool", x, 5, ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    EsValue source = graph->values[x];
    if (kind != ES_POOL_GLOBAL && (source.dim[3] < 2 || source.dim[4] < 2)) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT,
                             "pool: \"%s\" is %lldx%lld, too small for a 2x2 window", source.name,
                             (long long)source.dim[3], (long long)source.dim[4]);
    }
    int rank = kind == ES_POOL_GLOBAL ? 3 : 5;
    source.dim[3] /= 2;
    source.dim[4] /= 2;
    EsValueId y = es_graph_add_activation(graph, "pool", ES_DTYPE_F32, rank, source.dim);
    es_graph_add_node(graph, ES_OP_POOL_FORWARD, &x, &y)->attributes.pool = kind;
    return y;
}

EsValueId es_graph_dropout(EsGraph *graph, EsDropoutOptions options, EsValueId episode,
                           EsValueId step, EsValueId x) {
    if (!es_graph_check(graph, "dropout", episode, 1, ES_DTYPE_I32) ||
        !es_graph_check_shared(graph, "dropout", step, 1, ES_DTYPE_I32) ||
        !es_graph_check_layer_input(graph, "dropout", x)) {
        return ES_NO_VALUE;
    }
    if (!(options.probability >= 0.0f && options.probability < 1.0f)) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT, "dropout: probability %g is outside [0, 1)",
                             (double)options.probability);
    }
    EsValueId y = es_graph_add_like(graph, "dropout", x);
    es_graph_add_node(graph, ES_OP_DROPOUT, (EsValueId[]){episode, step, x}, &y)
        ->attributes.dropout = options;
    return y;
}

EsLoss es_graph_cross_entropy(EsGraph *graph, EsValueId logits, EsValueId labels) {
    EsLoss loss = {ES_NO_VALUE, ES_NO_VALUE, ES_NO_VALUE};
    if (!es_graph_check(graph, "cross entropy", logits, 3, ES_DTYPE_F32) ||
        !es_graph_check(graph, "cross entropy", labels, 2, ES_DTYPE_I32)) {
        return loss;
    }
    if (graph->values[logits].dim[1] != graph->values[labels].dim[1]) {
        es_graph_fail(graph, ES_STATUS_ARGUMENT, "cross entropy: %lld rows of logits, %lld labels",
                      (long long)graph->values[logits].dim[1],
                      (long long)graph->values[labels].dim[1]);
        return loss;
    }
    int64_t n_envs = graph->n_envs;
    loss.loss = es_graph_value(graph, "loss", ES_ROLE_RESULT, ES_DTYPE_F32, 1, &n_envs);
    loss.n_correct = es_graph_value(graph, "correct", ES_ROLE_RESULT, ES_DTYPE_I32, 1, &n_envs);
    loss.n_invalid =
        es_graph_value(graph, "invalid labels", ES_ROLE_RESULT, ES_DTYPE_I32, 1, &n_envs);
    es_graph_add_node(graph, ES_OP_CROSS_ENTROPY_FORWARD, (EsValueId[]){logits, labels},
                      (EsValueId[]){loss.loss, loss.n_correct, loss.n_invalid});
    return loss;
}

void es_graph_smooth_labels(EsGraph *graph, EsLoss loss, float smoothing) {
    if (graph->status == ES_STATUS_OK && loss.loss != ES_NO_VALUE) {
        ES_ASSERT(graph->n_forward_nodes == 0);
        graph->nodes[graph->values[loss.loss].producer].attributes.smoothing = smoothing;
    }
}

EsValueId es_graph_gather_order(EsGraph *graph, EsSampleOrder order, int64_t n_batch,
                                EsValueId episode, EsValueId step) {
    if (!es_graph_check(graph, "gather order", episode, 1, ES_DTYPE_I32) ||
        !es_graph_check_shared(graph, "gather order", step, 1, ES_DTYPE_I32)) {
        return ES_NO_VALUE;
    }
    if (order.n_samples < 1 || order.n_samples > INT32_MAX || order.n_shares < 1 ||
        order.n_shares > INT32_MAX) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT, "gather order: %lld samples, %lld shares",
                             (long long)order.n_samples, (long long)order.n_shares);
    }
    EsValueId index = es_graph_add_activation(graph, "sample index", ES_DTYPE_I32, 2,
                                              (int64_t[]){graph->n_envs, n_batch});
    EsNode *node =
        es_graph_add_node(graph, ES_OP_GATHER_ORDER, (EsValueId[]){episode, step}, &index);
    node->attributes.order = order;
    return index;
}

EsValueId es_graph_gather_images(EsGraph *graph, EsGatherOptions options, EsValueId images,
                                 EsValueId index, EsValueId episode, EsValueId step) {
    if (!es_graph_check_exists(graph, "gather images", images)) {
        return ES_NO_VALUE;
    }
    EsValue source = graph->values[images];
    int is_rows = source.dtype == ES_DTYPE_F32;
    if (!es_graph_check_shared(graph, "gather images", images, 4,
                               is_rows ? ES_DTYPE_F32 : ES_DTYPE_U8) ||
        !es_graph_check(graph, "gather images", index, 2, ES_DTYPE_I32)) {
        return ES_NO_VALUE;
    }
    if (!is_rows && source.dim[1] > ES_MAX_IMAGE_CHANNELS) {
        return es_graph_fail(graph, ES_STATUS_ARGUMENT, "gather images: %lld channels, at most %d",
                             (long long)source.dim[1], ES_MAX_IMAGE_CHANNELS);
    }
    EsValueId y = es_graph_add_activation(graph, "images", ES_DTYPE_F32, 5,
                                          (int64_t[]){graph->n_envs, graph->values[index].dim[1],
                                                      source.dim[1], source.dim[2], source.dim[3]});
    es_graph_add_node(graph, ES_OP_GATHER_IMAGES, (EsValueId[]){images, index, episode, step}, &y)
        ->attributes.gather = options;
    return y;
}

EsValueId es_graph_gather_labels(EsGraph *graph, EsValueId labels, EsValueId index) {
    if (!es_graph_check_shared(graph, "gather labels", labels, 1, ES_DTYPE_U16) ||
        !es_graph_check(graph, "gather labels", index, 2, ES_DTYPE_I32)) {
        return ES_NO_VALUE;
    }
    EsValueId y =
        es_graph_add_activation(graph, "labels", ES_DTYPE_I32, 2, graph->values[index].dim);
    es_graph_add_node(graph, ES_OP_GATHER_LABELS, (EsValueId[]){labels, index}, &y);
    return y;
}

// --- sequences ---

// The builders of graph.h for words and sequences: embedding and LSTM.

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
    es_graph_add_node(graph, ES_OP_EMBEDDING_FORWARD, (EsValueId[]){table, ids},
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

// Initial weights and biases of an LSTM.
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
        graph, ES_OP_LSTM_FORWARD,
        (EsValueId[]){input, recurrent, bias_input, bias_recurrent, x, reset, h_start, c_start},
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
