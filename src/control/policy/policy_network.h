// The learned policy as a network: feature layer, LSTM with residual, eight heads, state value, and
// two auxiliary outputs (value of the sampled operation, contribution of each slot). Version 1
// reads all slots side by side and is made for their number; version 2 reads them as a set
// (policy_set_network.c) and gives logits for every operation and slot (sampling_rules.h).
//
// Two plans share one set of parameters: *acting* runs one step of all environments and carries the
// recurrent state; *training* runs all steps of a rollout and their gradients. Training splits the
// environments into 8 shards, each with its own gradients, summed in a fixed tree: the bits do not
// depend on threads, nor on how many processes share the work.
//
//     EsPolicySpec spec = es_policy_spec_default(n_slots, 512);
//     EsPolicyNetwork *network; ES_TRY(es_policy_network_create(device, &spec, E, T, &network));
//     ES_TRY(es_policy_network_initialise(network, seed));
//     ES_TRY(es_policy_inference_act(network, features, blueprints, 0, &outputs));
//     EsPpoModel model = es_policy_training_model(network);
//
// E environments, T steps, S slots, D features of an observation, H hidden units, A logits.
#ifndef ES_CONTROL_POLICY_NETWORK_H
#define ES_CONTROL_POLICY_NETWORK_H

#include "control/rules/set_observation_rules.h"
#include "distributed/ranks.h"
#include "learning/ppo.h"
#include "network/plan/plan.h"

ES_EXTERN_C_BEGIN

#define ES_POLICY_SHARDS    8
#define ES_POLICY_WIDTH_MAX 8192

typedef struct EsPolicySpec {
    int n_slots;
    int n_hidden;   // of the LSTM; a multiple of 8
    int n_features; // of the feature layer; version 1: projected when not n_hidden
    float dropout;  // of the contribution output, in training
    int aux_stops;  // the auxiliary contribution does not train the shared layers
    int is_set;     // version 2: slots are read as a set
} EsPolicySpec;

// Version 1, as many features as hidden units (512 as published), dropout 0.1, aux_stops.
EsPolicySpec es_policy_spec_default(int n_slots, int n_hidden);

// ARGUMENT names the field that is out of range, and its range.
EsStatus es_policy_spec_check(const EsPolicySpec *spec);

// Parameters: 4,006,502 in version 1 for three slots, 512 hidden units and features; in version 2
// the same for any number of slots.
int64_t es_policy_spec_count(const EsPolicySpec *spec);

EsPolicyShape es_policy_spec_shape(const EsPolicySpec *spec); // heads in the order of EsHead
int es_policy_spec_version(const EsPolicySpec *spec);         // of network and observation: 1, 2
int es_policy_spec_observed(const EsPolicySpec *spec);        // numbers of an observation
int es_policy_spec_encoding(const EsPolicySpec *spec);        // version 2: features of a slot's

typedef struct EsPolicyNetwork EsPolicyNetwork;

// A network whose weights are 0 and whose recurrent state is 0. n_steps 0: no training plan.
// ARGUMENT names the invalid field of the spec. The device is borrowed.
EsStatus es_policy_network_create(EsDevice *device, const EsPolicySpec *spec, int64_t n_envs,
                                  int64_t n_steps, EsPolicyNetwork **network);

// The same on a CPU, with the shards of training divided over the ranks (borrowed; NULL: one
// process): each runs its own forward and back, outputs and gradients are gathered, and all take
// the same step. The calls of its PPO model are then collective.
EsStatus es_policy_network_create_shared(EsDevice *device, const EsPolicySpec *spec, int64_t n_envs,
                                         int64_t n_steps, EsRanks *ranks,
                                         EsPolicyNetwork **network);
void es_policy_network_destroy(EsPolicyNetwork *network);

// Orthogonal weights (gain sqrt 2; 0.01 for the last layer of a head, 0.1 for values, 1 for the
// LSTM), biases 0, forget bias 1 in both vectors, embeddings normal with deviation 0.02. `seed`
// also keys the dropout of training. Moments and recurrent state are cleared.
EsStatus es_policy_network_initialise(EsPolicyNetwork *network, uint64_t seed);

// Parameters by name, and the optimiser's moments, for checkpoints and policy files. The graph is
// that of acting: parameters are [1, ...], first and only row of the store. After a model's step
// row 0 of the store's gradients is their sum, clipped.
const EsGraph *es_policy_network_graph(const EsPolicyNetwork *network);
EsStore *es_policy_network_store(const EsPolicyNetwork *network);
EsOptimiser *es_policy_network_optimiser(const EsPolicyNetwork *network); // NULL without training
EsStream *es_policy_network_stream(const EsPolicyNetwork *network);       // the stream of its work
const EsPolicySpec *es_policy_network_spec(const EsPolicyNetwork *network);

ES_EXTERN_C_END

#endif
