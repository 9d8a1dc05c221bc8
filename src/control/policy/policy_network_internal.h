// The parts of a policy network: what acting, training and the life of both share.
#ifndef ES_CONTROL_POLICY_NETWORK_INTERNAL_H
#define ES_CONTROL_POLICY_NETWORK_INTERNAL_H

#include "control/policy/policy_act.h"
#include "network/plan/recording.h"

ES_EXTERN_C_BEGIN

// A tensor seen from the host, such as an input or output of a plan. On the CPU `host` is the
// tensor's own memory and nothing is copied.
typedef struct EsPort {
    EsTensor tensor; // on the device
    void *host;      // the same values in host memory
    int owns_tensor, owns_host;
} EsPort;

// An input of a plan gets memory and is bound to it; a view is of memory that somebody else owns.
EsStatus es_port_open_input(EsPort *port, EsDevice *device, EsPlan *plan, const EsGraph *graph,
                            EsValueId value);
EsStatus es_port_open_view(EsPort *port, EsTensor tensor);
void es_port_close(EsPort *port);

// Queue the copy from host memory to the device, or back.
EsStatus es_port_send(const EsPort *port, EsStream *stream);
EsStatus es_port_fetch(const EsPort *port, EsStream *stream);

typedef struct EsPolicyActing {
    EsPolicyGraph graph;
    EsPlan *plan;             // acts where act is NULL
    EsPolicyAct *act;         // writes where the plan would
    EsRecording steps, peeks; // of act
    char fallback[256];       // why there is no act
    EsPort features, blueprints, logits, value;
    EsPort h, c;               // the recurrent state before a step           [1, E, H]
    EsTensor h_after, c_after; // after it, the plan's
    EsTensor zeros;            // owned: what a reset copies                  [1, H]
} EsPolicyActing;

// Training keeps its rows in the order of shards: environment e is number e % N of shard e / N,
// with N = ceil(E / 8); the rows of shards that are not full stay 0.
typedef struct EsPolicyTraining {
    EsPolicyGraph graph;
    EsPlan *plan;
    EsOptimiser *optimiser;
    EsPort features, blueprints, reset, op, episode, pass;
    EsPort d_logits, d_value, d_action_value, d_contribution;
    EsPort logits, value, action_value, contribution;
    EsOutputs outputs; // owned, in the order of the rollout
    // one per parameter tensor, owned
    int n_tensors;
    int32_t *part_of;     // es_policy_part_of
    double *sum_squares;  // of the last step's gradient
    int32_t *n_nonfinite; // likewise
    int has_rows;         // begin was called
    int has_outputs;      // forward was called, step not yet
    // on CUDA
    EsDeviceTrainee on_device;
    EsTensor parts; // owned: part_of in device memory
} EsPolicyTraining;

struct EsPolicyNetwork {
    EsDevice *device; // borrowed
    EsStream *stream; // owned
    EsStore *store;   // owned
    EsPolicySpec spec;
    EsPolicyShape shape;
    int64_t n_envs, n_steps;
    EsPolicyActing acting;
    EsPolicyTraining *training; // owned; NULL without
};

// Sets network->training, whole or not; made after the store, ended before it.
EsStatus es_policy_training_create(EsPolicyNetwork *network);
void es_policy_training_destroy(EsPolicyTraining *training);
EsStatus es_policy_training_initialise(EsPolicyTraining *training, EsStream *stream, uint64_t seed);

// What both forms of the trainee share: ARGUMENT names what a rollout has that the network was not
// made for; the forward pass, queued; the right to one step per pass.
EsStatus es_policy_check_rollout(const EsPolicyNetwork *network, const EsRolloutShape *shape);
EsStatus es_policy_queue_forward(EsPolicyNetwork *network, uint32_t pass);
EsStatus es_policy_take_outputs(EsPolicyTraining *training);

// Make training->on_device, for a network on CUDA whose training is there.
EsStatus es_policy_open_device_form(EsPolicyNetwork *network);

ES_EXTERN_C_END

#endif
