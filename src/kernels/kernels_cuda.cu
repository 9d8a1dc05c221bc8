// The table of CUDA kernels.
#include "kernels/kernels.h"

const EsKernels *es_kernels_cuda(void) {
    // in the order of the list, which is the order of the struct
    static const EsKernels cuda = {
#define X(name, parameters) es_##name##_cuda,
        ES_KERNEL_LIST(X)
#undef X
    };
    return &cuda;
}
