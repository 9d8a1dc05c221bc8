// The learned policy as a network: feature layer, LSTM with residual, eight heads, state value, and
// two auxiliary outputs (value of the sampled operation, contribution of each slot).
//
// Two plans share one set of parameters: *acting* runs one step of all environments and carries the
// recurrent state; *training* runs all steps of a rollout and their gradients. Training splits the
// environments into 8 shards, each with its own gradients, summed in a fixed tree: the bits do not
// depend on threads, nor on how many processes share the work.
//
//     EsPolicyNetwork *network; ES_TRY(es_policy_network_create(device, &spec, E, T, &network));
//     es_policy_network_initialise(network, seed);
//     es_policy_network_reset(network, NULL);
//     ES_TRY(es_policy_network_act(network, features, blueprints, &outputs));
//     EsTrainee trainee = es_policy_network_trainee(network);
#ifndef ES_CONTROL_POLICY_NETWORK_H
#define ES_CONTROL_POLICY_NETWORK_H

#include "control/observation_rules.h"
#include "learning/ppo.h"
#include "network/plan.h"

ES_EXTERN_C_BEGIN

typedef struct EsPolicySpec {
    int n_slots;
    int n_hidden;   // of the LSTM; a multiple of 8
    int n_features; // of the feature layer; projected when not n_hidden
    float dropout;  // of the contribution output, in training
    int aux_stops;  // the auxiliary contribution does not train the shared layers
} EsPolicySpec;

EsPolicySpec es_policy_spec_default(int n_slots, int n_hidden); // 512 as published; dropout 0.1

// Parameters: 4,006,502 for three slots, 512 hidden units and features.
int64_t es_policy_spec_count(const EsPolicySpec *spec);

EsPolicyShape es_policy_spec_shape(const EsPolicySpec *spec); // heads in the order of EsHead

typedef struct EsPolicyNetwork EsPolicyNetwork;

// n_steps 0: no training plan.
EsStatus es_policy_network_create(EsDevice *device, const EsPolicySpec *spec, int64_t n_envs,
                                  int64_t n_steps, EsPolicyNetwork **network);
void es_policy_network_destroy(EsPolicyNetwork *network);

// Orthogonal weights (gain sqrt 2; 0.01 for the last layer of a head, 0.1 for values), biases 0,
// forget bias 1 in both vectors.
EsStatus es_policy_network_initialise(EsPolicyNetwork *network, uint64_t seed);

// Zero the recurrent state where is_reset [E] is 1; NULL: everywhere.
EsStatus es_policy_network_reset(EsPolicyNetwork *network, const uint8_t *is_reset);

// One step of all environments: features [E, D] normalised, blueprints [E, S]; outputs.logits
// [E, A] and outputs.value [E] point into the network, valid until the next call. The recurrent
// state moves on, unless is_peek.
EsStatus es_policy_network_act(EsPolicyNetwork *network, const float *features,
                               const int32_t *blueprints, int is_peek, EsOutputs *outputs);

EsTrainee es_policy_network_trainee(EsPolicyNetwork *network);

// RMS of hidden and cell states, and the largest of any environment, for health checks.
typedef struct EsRecurrentHealth {
    double h_rms, h_env_rms_max, c_rms, c_env_rms_max;
    int has_nan, has_inf;
} EsRecurrentHealth;
EsRecurrentHealth es_policy_network_health(const EsPolicyNetwork *network);

// Parameters by name, and the optimiser's moments, for checkpoints and policy files.
const EsGraph *es_policy_network_graph(const EsPolicyNetwork *network);
EsStore *es_policy_network_store(EsPolicyNetwork *network);
EsOptimiser *es_policy_network_optimiser(EsPolicyNetwork *network); // NULL without training

ES_EXTERN_C_END

#endif
