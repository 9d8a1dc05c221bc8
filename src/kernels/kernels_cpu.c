#include "kernels/kernels.h"

const EsKernels *es_kernels_of(const EsDevice *device) {
    static const EsKernels cpu = {
#define X(name, parameters) .name = es_##name##_cpu,
        ES_KERNEL_LIST(X)
#undef X
    };
    return es_device_info(device)->kind == ES_DEVICE_CUDA ? es_kernels_cuda() : &cpu;
}
