#include "control/policy/policy_act_internal.h"

const EsActKernels *es_policy_act_kernels_cuda(void) { return NULL; }
