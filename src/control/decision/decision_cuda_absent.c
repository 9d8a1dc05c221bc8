#include "control/decision/decision_internal.h"

const EsDecisionKernels *es_decision_kernels_cuda(void) { return NULL; }
