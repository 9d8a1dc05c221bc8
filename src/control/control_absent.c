// Decisions and policies in a build without CUDA: there are no kernels, and no network on a GPU.
#include "control/decision/decision_internal.h"
#include "control/policy/policy_inference_internal.h"

const EsActKernels *es_policy_act_kernels_cuda(void) { return NULL; }

const EsDecisionKernels *es_decision_kernels_cuda(void) { return NULL; }

EsStatus es_policy_training_open_device_form(EsPolicyNetwork *network) {
    (void)network;
    return ES_FAIL(UNSUPPORTED, "a policy network on CUDA, but this build has no CUDA");
}
