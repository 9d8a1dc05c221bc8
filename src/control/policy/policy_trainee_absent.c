#include "control/policy/policy_network_internal.h"

EsStatus es_policy_open_device_form(EsPolicyNetwork *network) {
    (void)network;
    return ES_FAIL(UNSUPPORTED, "a policy network on CUDA, but this build has no CUDA");
}
