// Growth in a build without CUDA: there is no such backend.
#include "growth/engine/growth_internal.h"

const EsGrowthBackend *es_growth_backend_cuda(void) { return NULL; }
