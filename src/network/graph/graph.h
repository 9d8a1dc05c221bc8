// Networks as data: a static graph of operations over values, built once, differentiated on the
// graph itself.
//
// A value is the output of one node, or comes from outside (inputs, parameters, state). Axis 0 of
// every value is E, the number of environments. Builders check shapes as they go and remember the
// first mistake, so a chain of them needs one test at the end, es_graph_status(). Nodes stand in an
// order in which they can run.
//
//     EsGraph *graph; ES_TRY(es_graph_create(n_envs, &graph));
//     EsValueId x = es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){N, 3, 32, 32});
//     EsValueId labels = es_graph_input(graph, "labels", ES_DTYPE_I32, 1, (int64_t[]){N});
//     EsValueId h = es_graph_relu(graph, es_graph_conv2d(graph, "conv", x, 8, 3, 0));
//     h = es_graph_pool(graph, ES_POOL_GLOBAL, h);
//     EsValueId logits = es_graph_linear(graph, "head", h, 10);
//     EsLoss loss = es_graph_cross_entropy(graph, logits, labels);
//     ES_TRY(es_graph_differentiate(graph, loss.loss));
#ifndef ES_NETWORK_GRAPH_H
#define ES_NETWORK_GRAPH_H

#include "kernels/kernels.h"
#include "network/graph/initial_rules.h"
#include "network/graph/op_list.h"

ES_EXTERN_C_BEGIN

typedef enum EsOp {
#define X(name, ...) ES_OP_##name,
    ES_KERNEL_OP_LIST(X) ES_ALIAS_OP_LIST(X)
#undef X
        ES_OP_COUNT
} EsOp;

// Spelling of an operation, as its kernel's, and its numbers of operands.
typedef struct EsOpInfo {
    const char *name;
    int n_inputs, n_outputs; // ES_OP_ANY: as many as the builder gives
} EsOpInfo;

// Owner and lifetime of a value's memory.
typedef enum EsRole {
    ES_ROLE_INPUT,      // the caller's; bound before the first run
    ES_ROLE_PARAMETER,  // slab [E, P] of the store
    ES_ROLE_GRADIENT,   // of a parameter: slab [E, P], same offsets
    ES_ROLE_STATE,      // slab [E, S] of the store: running statistics
    ES_ROLE_ACTIVATION, // the plan's; reused once the last reader has run
    ES_ROLE_RESULT      // the plan's; kept until the next run
} EsRole;

typedef int32_t EsValueId;
#define ES_NO_VALUE         (-1)
#define ES_MAX_NODE_INPUTS  12
#define ES_MAX_NODE_OUTPUTS 8
#define ES_NAME_BYTES       64
// Index of the input of BLEND_FORWARD and BLEND_BACKWARD that holds the alphas.
#define ES_BLEND_INPUT_ALPHA 3

typedef struct EsValue {
    char name[ES_NAME_BYTES];
    EsRole role;
    EsDtype dtype;
    int rank;
    int64_t dim[ES_MAX_RANK]; // dim[0] = E
    int32_t producer;         // node, -1 when from outside
    int is_shared;            // one tensor for all environments: axis 0 is not E
    EsValueId alias_of;       // RESHAPE, DETACH, SEED_INPUT: the value whose memory this is, else
                              // ES_NO_VALUE
    EsValueId gradient;       // of the loss with respect to this value, or ES_NO_VALUE
    int needs_gradient;       // depends on a parameter
    int is_rounded; // an activation that takes the plan's precision; statistics and losses stay f32
    int64_t slab_offset; // elements from the start of an environment's part of its slab
    EsInitial initial;   // parameters: how bound and start are meant
    float bound;
    float start;
} EsValue;

typedef union EsAttributes {
    EsNormOptions norm;
    EsActivation activation;
    EsPool pool;
    EsDropoutOptions dropout;
    EsGatherOptions gather;
    int64_t first; // CONCAT_BACKWARD: column of the joined rows
    EsSampleOrder order;
    float smoothing; // CROSS_ENTROPY_*: of labels
    float scale;     // SET_SUM, SET_BROADCAST
} EsAttributes;

typedef struct EsNode {
    EsOp op;
    int n_inputs, n_outputs;
    EsValueId input[ES_MAX_NODE_INPUTS];   // ES_NO_VALUE for an absent optional one
    EsValueId output[ES_MAX_NODE_OUTPUTS]; // likewise
    EsAttributes attributes;
} EsNode;

typedef struct EsGraph {
    int64_t n_envs;
    EsValue *values; // owned
    int n_values, values_capacity;
    EsNode *nodes; // owned
    int n_nodes, nodes_capacity;
    int64_t n_parameters, n_states; // elements of one environment's part of each slab
    int64_t next_parameter;         // offset of the next parameter
    int n_forward_nodes;            // nodes before differentiation; 0 = not differentiated
    int is_given_gradients;         // by es_graph_differentiate_from
    EsNode discarded;               // takes the nodes built after a failure
    EsStatus status;                // of the first builder that failed
    char detail[256];
} EsGraph;

// --- life ---

EsStatus es_graph_create(int64_t n_envs, EsGraph **graph);
void es_graph_destroy(EsGraph *graph);

// The first mistake made while building, with its text as the thread's detail; OK when there was
// none.
EsStatus es_graph_status(const EsGraph *graph);

// --- values from outside; dims leave out the environment axis ---

EsValueId es_graph_input(EsGraph *graph, const char *name, EsDtype dtype, int rank,
                         const int64_t *dims);
// One tensor for all environments, dims complete (images of the data set, the step counter).
EsValueId es_graph_shared_input(EsGraph *graph, const char *name, EsDtype dtype, int rank,
                                const int64_t *dims);
EsValueId es_graph_parameter(EsGraph *graph, const char *name, int rank, const int64_t *dims,
                             float bound, float start);
// Another start than a uniform one.
EsValueId es_graph_parameter_with(EsGraph *graph, const char *name, int rank, const int64_t *dims,
                                  EsInitial initial, float bound, float start);
EsValueId es_graph_state(EsGraph *graph, const char *name, int rank, const int64_t *dims,
                         float start);

// Regions: places the next parameters at this offset of an environment's part, a multiple of 16
// elements. Returns the offset that they would have had, to continue there later. Networks of
// different shapes can so share a store (es_store_create_sized): common parameters have the same
// offset, and a region is as large as its largest tenant. Parameters of one graph may not overlap.
int64_t es_graph_seek_parameters(EsGraph *graph, int64_t offset);

// Trainable numbers of one environment; padding between parameters is not counted.
int64_t es_graph_parameter_count(const EsGraph *graph);

// The first value of that name, or ES_NO_VALUE.
EsValueId es_graph_find(const EsGraph *graph, const char *name);

// Keep a value after the run.
void es_graph_keep(EsGraph *graph, EsValueId value);

// --- layers: create their parameters under `name` ---

// Uniform initial values within 1/sqrt(fan-in), weights and biases.
EsValueId es_graph_linear(EsGraph *graph, const char *name, EsValueId x, int64_t n_out);
typedef struct EsLinearOptions {
    int has_bias;
    int is_constant;   // weights start at 0 and biases at bias_start instead of uniform
    float bias_start;  // read when is_constant, and where the weights do not start uniform
    int is_positive;   // weights uniform in [0, 1/sqrt(fan-in)]: units behind a ReLU with inputs
                       // that are never negative start alive
    EsInitial initial; // of the weights: UNIFORM as above, or NORMAL or ORTHOGONAL,
    float scale;       // with this standard deviation or gain; biases then start at bias_start
} EsLinearOptions;
EsValueId es_graph_linear_with(EsGraph *graph, const char *name, EsValueId x, int64_t n_out,
                               EsLinearOptions options);
EsValueId es_graph_conv2d(EsGraph *graph, const char *name, EsValueId x, int64_t n_out,
                          int64_t kernel, int has_bias);
EsValueId es_graph_depthwise(EsGraph *graph, const char *name, EsValueId x, int64_t kernel);
// Added to the variance by norms without an epsilon of their own. The fused executor repeats the
// number (ES_FUSED_EPSILON); the parity tests compare.
#define ES_NORM_EPSILON 1e-5f
// Batch norm: the statistics of the batch (training) or the running ones.
EsValueId es_graph_batchnorm(EsGraph *graph, const char *name, EsValueId x, int is_training);
EsValueId es_graph_groupnorm(EsGraph *graph, const char *name, EsValueId x, int n_groups);
// gamma starts at gamma_start instead of 1: at 0 a residual branch starts as nothing.
EsValueId es_graph_groupnorm_with(EsGraph *graph, const char *name, EsValueId x, int n_groups,
                                  float gamma_start, float epsilon);
EsValueId es_graph_layernorm(EsGraph *graph, const char *name, EsValueId x);
EsValueId es_graph_embedding(EsGraph *graph, const char *name, EsValueId ids, int64_t n_rows,
                             int64_t n_features);
// Normal initial values of standard deviation `deviation`.
EsValueId es_graph_embedding_normal(EsGraph *graph, const char *name, EsValueId ids, int64_t n_rows,
                                    int64_t n_features, float deviation);
typedef struct EsRecurrent {
    EsValueId y; // [E, T, N, D], hidden states; the last step's is where to go on from
    EsValueId c; // [E, T, N, D], cell states, likewise (es_graph_keep to read them)
} EsRecurrent;
// x [E, T, N, I], reset u8 [E, T, N] or ES_NO_VALUE; h_start, c_start [E, N, D] or ES_NO_VALUE.
EsRecurrent es_graph_lstm(EsGraph *graph, const char *name, EsValueId x, EsValueId reset,
                          EsValueId h_start, EsValueId c_start, int64_t n_hidden);
typedef struct EsLstmOptions {
    EsInitial initial; // of both weight matrices [4D, I] and [4D, D]: NORMAL or ORTHOGONAL as
    float scale;       // whole matrices, with this standard deviation or gain
    float forget_bias; // of the forget gates in both bias vectors, 0 elsewhere
} EsLstmOptions;
EsRecurrent es_graph_lstm_with(EsGraph *graph, const char *name, EsValueId x, EsValueId reset,
                               EsValueId h_start, EsValueId c_start, int64_t n_hidden,
                               EsLstmOptions options);

// --- operations without parameters ---

EsValueId es_graph_add(EsGraph *graph, EsValueId a, EsValueId b);
EsValueId es_graph_activation(EsGraph *graph, EsActivation kind, EsValueId x);
// The same elements under another shape (dims leave out the environment axis); costs nothing.
EsValueId es_graph_reshape(EsGraph *graph, EsValueId x, int rank, const int64_t *dims);
// Rows side by side: n values of one shape but for the last axis, joined along it in their order;
// at most ES_CONCAT_MAX.
EsValueId es_graph_concat(EsGraph *graph, int n, const EsValueId *inputs);
// The same value, through which no gradient goes back; costs nothing.
EsValueId es_graph_detach(EsGraph *graph, EsValueId x);
EsValueId es_graph_pool(EsGraph *graph, EsPool kind, EsValueId x);
// Sets of rows (kernels/kernel_list.h): x [E, R, S, D], weights [E, R, S] or ES_NO_VALUE, which
// get no gradient. The first and the last make [E, R, D], the second [E, R, n_members, D] of it.
EsValueId es_graph_set_sum(EsGraph *graph, EsValueId x, EsValueId weights, float scale);
EsValueId es_graph_set_broadcast(EsGraph *graph, EsValueId x, int64_t n_members);
EsValueId es_graph_set_max(EsGraph *graph, EsValueId x);
EsValueId es_graph_dropout(EsGraph *graph, EsDropoutOptions options, EsValueId episode,
                           EsValueId step, EsValueId x);

typedef struct EsLoss {
    EsValueId loss;      // f32 [E], mean over rows
    EsValueId n_correct; // i32 [E]
    EsValueId n_invalid; // i32 [E], labels out of range
} EsLoss;
EsLoss es_graph_cross_entropy(EsGraph *graph, EsValueId logits, EsValueId labels);

// Labels share so much of their weight among all classes (kernels/kernel_list.h); before the
// graph is differentiated.
void es_graph_smooth_labels(EsGraph *graph, EsLoss loss, float smoothing);

// Batches from a data set in memory (kernels/kernel_list.h): images u8, or rows f32 as images of
// one pixel.
EsValueId es_graph_gather_order(EsGraph *graph, EsSampleOrder order, int64_t n_batch,
                                EsValueId episode, EsValueId step);
EsValueId es_graph_gather_images(EsGraph *graph, EsGatherOptions options, EsValueId images,
                                 EsValueId index, EsValueId episode, EsValueId step);
EsValueId es_graph_gather_labels(EsGraph *graph, EsValueId labels, EsValueId index);

// --- gradients ---

// Append the nodes that compute the gradient of `loss` (f32 [E], from es_graph_cross_entropy) with
// respect to every parameter, and set `gradient` of the values it passes through. Once per graph.
EsStatus es_graph_differentiate(EsGraph *graph, EsValueId loss);

// The same for the sum over i of <d_values[i], values[i]>: the loss is computed outside, between
// es_plan_run_forward and es_plan_run_backward, and d_values, inputs of the values' shapes, bring
// in its gradient with respect to them. The values are kept ones (es_graph_keep), each given once;
// a value may also be read by further nodes. The gradient of a parameter that no value depends on
// is 0. Once per graph, instead of es_graph_differentiate.
EsStatus es_graph_differentiate_from(EsGraph *graph, int n, const EsValueId *values,
                                     const EsValueId *d_values);

// --- inside network/ ---

// Append a value or a node; both note the first failure in the graph. es_graph_node fills its
// outputs' producers.
EsValueId es_graph_value(EsGraph *graph, const char *name, EsRole role, EsDtype dtype, int rank,
                         const int64_t *dims);
EsNode *es_graph_node(EsGraph *graph, EsOp op);
void es_graph_node_inputs(EsGraph *graph, EsNode *node, int n_inputs, const EsValueId *inputs);
void es_graph_node_outputs(EsGraph *graph, EsNode *node, int n_outputs, const EsValueId *outputs);
const EsOpInfo *es_op_info(EsOp op);
const char *es_op_name(EsOp op);

// Elements of one environment.
int64_t es_value_count(const EsValue *value);

// Note a failure in the graph, unless there is one already; returns ES_NO_VALUE.
EsValueId es_graph_fail(EsGraph *graph, EsStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

ES_EXTERN_C_END

#endif
