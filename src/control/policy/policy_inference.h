// Inference with the policy network: one acting step of all environments, and the recurrent state
// that it carries on.
//
//     ES_TRY(es_policy_inference_act(network, features, blueprints, 0, &outputs));
//
// On the CPU a step runs the acting plan; on CUDA a fused step in a few launches where the network
// has one (policy_inference_internal.h), else the plan.
//
// E environments, S slots, D features of an observation, A logits (version 2: of a table).
#ifndef ES_CONTROL_POLICY_INFERENCE_H
#define ES_CONTROL_POLICY_INFERENCE_H

#include "control/policy/policy_network.h"

ES_EXTERN_C_BEGIN

// Zero the recurrent state where is_reset [E] is 1; NULL: everywhere.
EsStatus es_policy_inference_reset(EsPolicyNetwork *network, const uint8_t *is_reset);

// One step of all environments: features [E, D] normalised, blueprints [E, S]; outputs.logits
// [E, A] (version 2: tables, sampling_rules.h) and outputs.value [E] point into the network,
// valid until the next call; the auxiliary outputs are NULL. The recurrent state moves on, unless
// is_peek. Allocates nothing.
EsStatus es_policy_inference_act(EsPolicyNetwork *network, const float *features,
                                 const int32_t *blueprints, int is_peek, EsOutputs *outputs);

// Execution of an acting step, for reports.
typedef struct EsActingReport {
    int is_fused;       // policy_inference_internal.h; else a plan
    int n_launches;     // of a step; of a plan its nodes, some of which queue nothing
    char fallback[256]; // why a faster way is not taken; "" when it is
} EsActingReport;
EsActingReport es_policy_inference_report(const EsPolicyNetwork *network);

// Inputs of acting in the network's device memory, where a caller of es_policy_inference_act_queued
// writes them.
typedef struct EsPolicyInputs {
    float *features;     // [E, D]; version 2: of the host [E, 39],
    float *slots;        //   and of its slots [E, S, 66]; else NULL
    int32_t *blueprints; // [E, S]
} EsPolicyInputs;
EsPolicyInputs es_policy_inference_inputs(const EsPolicyNetwork *network);

// One step of all environments from es_policy_inference_inputs to device memory: queued on a stream
// of the network's device, nothing is waited for and nothing reaches the CPU. The recurrent state
// of environments with is_reset [E] (nullable, device memory) is zeroed first, and moves on. logits
// [E, A] and value [E] are in device memory, at the same place in every step. Other streams that
// changed weights or state must have been waited for. A fused step is launched one by one here, for
// a caller that captures it with its own work (decision_device.c).
EsStatus es_policy_inference_act_queued(EsPolicyNetwork *network, EsStream *stream,
                                        const uint8_t *is_reset, const float **logits,
                                        const float **value);

// RMS of hidden and cell states, and the largest of any environment, for health checks. Values
// that are not finite are left out of the sums. A device that fails counts as NaN.
typedef struct EsRecurrentHealth {
    double h_rms, h_env_rms_max, c_rms, c_env_rms_max;
    int has_nan, has_inf;
} EsRecurrentHealth;
EsRecurrentHealth es_policy_inference_health(const EsPolicyNetwork *network);

ES_EXTERN_C_END

#endif
