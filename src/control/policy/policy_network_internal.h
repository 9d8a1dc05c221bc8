// The parts of a policy network: its graph, and the state of acting and training.
//
// One description of the graph serves both plans: acting runs one step of all environments,
// training runs all steps of G shards of them and takes gradients with respect to its outputs.
// Their parameters have the same names in the same order, so they share a store.
//
// Inside control/: policy_network.h is for everybody else.
//
// G shards (acting: 1), T steps (acting: 1), N environments of a shard, S slots, H hidden units,
// A logits. Rows of a shard are t N + n.
#ifndef ES_CONTROL_POLICY_NETWORK_INTERNAL_H
#define ES_CONTROL_POLICY_NETWORK_INTERNAL_H

#include "control/policy/policy_network.h"
#include "network/plan/graph_capture.h"

ES_EXTERN_C_BEGIN

// --- layers ---

// Acting does not use the auxiliary outputs: their layers are then declared for the sake of the
// store's layout, and compute nothing. Layers of acting and training have the same names in the
// same order.

// Gains of orthogonal initial weights: layers before a ReLU, the last layer of a head (all actions
// about equally likely at first), the last layer of a value.
#define ES_GAIN_LAYER 1.41421356f
#define ES_GAIN_HEAD  0.01f
#define ES_GAIN_VALUE 0.1f

#define ES_POLICY_EMBEDDING_WIDTH  4
#define ES_POLICY_EMBEDDING_SPREAD 0.02f

// Input of a layer: rows of `width` features.
typedef struct EsSignal {
    EsGraph *graph;
    EsValueId value; // read when !is_declared
    int64_t width;
    int is_declared;
} EsSignal;

EsSignal es_signal_linear(EsSignal x, const char *name, int64_t n_out, float gain);
EsSignal es_signal_product(EsSignal x, const char *name, int64_t n_out, float gain); // no bias
EsSignal es_signal_normalise(EsSignal x, const char *name);
EsSignal es_signal_rectify(EsSignal x);

// Linear layers "<name>.linear<i>" of the given widths with a ReLU between them, and layer norms
// "<name>.norm<i>" after the first n_norms.
EsSignal es_signal_stack(EsSignal x, const char *name, int n_layers, const int64_t *widths,
                         int n_norms, float last_gain);

// A tower of four layers from x to one number, for H hidden units.
EsSignal es_signal_value(EsSignal x, const char *name, int64_t n_hidden);

EsValueId es_signal_reshape(EsGraph *graph, EsValueId x, int64_t n_rows, int64_t width);

// The numbers of such layers, counted apart from the graph so that one can check the other.
int64_t es_count_linear(int64_t n_in, int64_t n_out);
int64_t es_count_value(int64_t n_in, int64_t n_hidden);

// --- the graph ---

typedef struct EsPolicyGraphSize {
    int is_training;
    int64_t n_shards; // G
    int64_t n_steps;  // T
    int64_t n_rows;   // N
} EsPolicyGraphSize;

typedef struct EsPolicyGraph {
    EsGraph *graph; // owned
    EsPolicyGraphSize size;

    // inputs of both
    EsValueId features;   // [G, T N, 23 + 31 S]; version 2: the host's [G, T N, 39],
    EsValueId slots;      //   and the slots' [G, T N S, 66]
    EsValueId blueprints; // i32 [G, T N S]
    // of acting
    EsValueId h_start, c_start; // [G, N, H]
    // of training
    EsValueId reset; // u8 [G, T, N]
    EsValueId op;    // one-hot of the operation that was drawn             [G, T N, 6]
    // of version 2, where several operations read the head: one-hot of the variant that was read
    EsValueId variant[ES_N_HEADS]; // [G, T N, V], slot: [G, T N S, V]
    EsValueId slot;                // version 2: one-hot of the slot that was drawn [G, T N, S]
    EsValueId share;               // version 2: weights of slots in their mean     [G, T N, S]
    EsValueId episode;             // i32 [G], and
    EsValueId pass;                // i32 [1]: key of the dropout's draws
    EsValueId d_logits, d_value, d_action_value, d_contribution; // as the outputs

    // outputs of both
    // heads in the order of EsHead [G, T N, A]; version 2, acting: a table (sampling_rules.h)
    EsValueId logits;
    EsValueId value; // [G, T N, 1]
    // of acting
    EsValueId h, c; // after the step                                        [G, 1, N, H]
    // of training
    EsValueId action_value; // [G, T N, 1]
    EsValueId contribution; // [G, T N, S]
} EsPolicyGraph;

// Values that the size does not have are ES_NO_VALUE. Training graphs are differentiated.
EsStatus es_policy_graph_create(const EsPolicySpec *spec, EsPolicyGraphSize size,
                                EsPolicyGraph *graph);
void es_policy_graph_destroy(EsPolicyGraph *graph);

// Parts of a graph that both versions have. The core z = LN(h) + x; the value of the operation that
// was drawn, which never trains the shared layers (returns z without gradient; ES_NO_VALUE while
// acting); dropout of the contributions, with its inputs.
EsSignal es_policy_graph_recurrence(EsPolicyGraph *graph, const EsPolicySpec *spec, EsSignal x);
EsValueId es_policy_graph_action_value(EsPolicyGraph *graph, const EsPolicySpec *spec, EsSignal z);
EsSignal es_policy_graph_dropout(EsPolicyGraph *graph, const EsPolicySpec *spec, EsSignal x);

// policy_set_network.c: all of version 2, and the number of its parameters.
void es_policy_set_build(EsPolicyGraph *graph, const EsPolicySpec *spec);
int64_t es_policy_set_count(const EsPolicySpec *spec);

// Whose own the parameter is: head 0..7, or
enum { ES_POLICY_PART_VALUE = ES_N_HEADS, ES_POLICY_PART_ACTION_VALUE, ES_POLICY_PART_OTHER };
int es_policy_part_of(const char *parameter);

// --- staging tensors ---

// A tensor seen from the CPU, such as an input or output of a plan. On the CPU `host` is the
// tensor's own memory and nothing is copied.
typedef struct EsStagingTensor {
    EsTensor tensor; // on the device
    void *host;      // the same values in CPU memory
    int owns_tensor, owns_host;
} EsStagingTensor;

// An input of a plan gets memory and is bound to it; a view is of memory owned elsewhere.
EsStatus es_staging_open_input(EsStagingTensor *staging, EsDevice *device, EsPlan *plan,
                               const EsGraph *graph, EsValueId value);
EsStatus es_staging_open_view(EsStagingTensor *staging, EsTensor tensor);
void es_staging_close(EsStagingTensor *staging);

// Queues the copy from CPU memory to the device, or back.
EsStatus es_staging_send(const EsStagingTensor *staging, EsStream *stream);
EsStatus es_staging_fetch(const EsStagingTensor *staging, EsStream *stream);

// --- acting and training ---

typedef struct EsPolicyAct EsPolicyAct; // policy_inference_internal.h

typedef struct EsPolicyActing {
    EsPolicyGraph graph;
    EsPlan *plan;                // acts where act is NULL
    EsPolicyAct *act;            // writes where the plan would
    EsGraphCapture steps, peeks; // of act
    char fallback[256];          // why there is no act
    EsStagingTensor features, blueprints, logits, value;
    EsStagingTensor slots;     // version 2
    EsStagingTensor h, c;      // the recurrent state before a step           [1, E, H]
    EsTensor h_after, c_after; // after it, the plan's
    EsTensor zeros;            // owned: source of a reset                  [1, H]
} EsPolicyActing;

// Training keeps its rows in the order of shards: environment e is number e % N of shard e / N,
// with N = ceil(E / 8); the rows of shards that are not full stay 0.
typedef struct EsPolicyTraining {
    EsPolicyGraph graph; // of the shards [own.first, own.end)
    EsPlan *plan;        // with the optimiser's step where this process has all shards
    EsOptimiser *optimiser;
    EsShare own;
    float *shards; // owned: of one output at a time, in the order of shards; NULL: all are own
    EsStagingTensor features, blueprints, reset, op, episode, pass;
    EsStagingTensor slots, slot, share;  // version 2
    EsStagingTensor variant[ES_N_HEADS]; // version 2, where there are several
    EsStagingTensor d_logits, d_value, d_action_value, d_contribution;
    EsStagingTensor logits, value, action_value, contribution;
    EsOutputs outputs; // owned, in the order of the rollout
    // one per parameter tensor, owned
    int n_tensors;
    int32_t *part_of;     // es_policy_part_of
    double *sum_squares;  // of the last step's gradient
    int32_t *n_nonfinite; // likewise
    int has_rows;         // begin was called
    int has_outputs;      // forward was called, step not yet
    // on CUDA
    EsPpoDeviceModel on_device;
    EsTensor parts; // owned: part_of in device memory
} EsPolicyTraining;

struct EsPolicyNetwork {
    EsDevice *device; // borrowed
    EsStream *stream; // owned
    EsStore *store;   // owned
    EsPolicySpec spec;
    EsPolicyShape shape;
    int64_t n_envs, n_steps;
    EsRanks *ranks; // borrowed: they share the training; NULL: one process
    EsPolicyActing acting;
    EsPolicyTraining *training; // owned; NULL without
};

// policy_inference.c: the acting plan and the fused step, where the device has one.
EsStatus es_policy_acting_create(EsPolicyNetwork *network);
void es_policy_acting_destroy(EsPolicyActing *acting);

// Sets network->training, whole or not; made after the store, ended before it.
EsStatus es_policy_training_create(EsPolicyNetwork *network);
void es_policy_training_destroy(EsPolicyTraining *training);
EsStatus es_policy_training_initialise(EsPolicyTraining *training, EsStream *stream, uint64_t seed);

// Shared by both forms of the PPO model: ARGUMENT names the size of a rollout that does not fit the
// network; the forward pass, queued; the right to one step per pass.
EsStatus es_policy_training_check_rollout(const EsPolicyNetwork *network,
                                          const EsRolloutShape *shape);
EsStatus es_policy_training_queue_forward(EsPolicyNetwork *network, uint32_t pass);
EsStatus es_policy_training_take_outputs(EsPolicyTraining *training);

// Make training->on_device, for a network on CUDA whose training is there.
EsStatus es_policy_training_open_device_form(EsPolicyNetwork *network);

ES_EXTERN_C_END

#endif
