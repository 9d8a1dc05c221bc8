// The CUDA half of the device interface in a build without CUDA.
#include "tensor/device_internal.h"

EsStatus es_device_open_cuda(EsDevice *device, int index) {
    (void)device;
    return ES_FAIL(UNSUPPORTED,
                   "cuda:%d was asked for, but this build has no CUDA (-DES_CUDA=ON, docs/gpu.md)",
                   index);
}

int es_device_cuda_count(void) { return 0; }
