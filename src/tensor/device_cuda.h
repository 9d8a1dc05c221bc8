// What the CUDA device shares with the kernel launchers.
#ifndef ES_TENSOR_DEVICE_CUDA_H
#define ES_TENSOR_DEVICE_CUDA_H

#include "tensor/device_internal.h"

ES_EXTERN_C_BEGIN

// Whether ES_CUDA_SYNC=1 was in the environment when the device was opened: every launch then waits
// for itself and checks.
int es_device_cuda_is_checked(const EsDevice *device);

// Keep a failure of queued work: the device remembers the first, the thread's detail text is the
// latest.
void es_device_cuda_keep(EsDevice *device, EsStatus status);

ES_EXTERN_C_END

#endif
