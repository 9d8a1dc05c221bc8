// The CUDA device as kernel launchers see it, and the translation of CUDA runtime errors into
// EsStatus, for .cu files.
//
//     ES_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
#ifndef ES_TENSOR_DEVICE_CUDA_H
#define ES_TENSOR_DEVICE_CUDA_H

#include <cuda_runtime.h>

#include "esper/status.h"
#include "tensor/device_internal.h"

ES_EXTERN_C_BEGIN

// Returns whether ES_CUDA_SYNC=1 was in the environment when the device was opened: every launch
// then waits for itself and checks.
int es_device_cuda_is_checked(const EsDevice *device);

// Keep a failure of queued work: the device remembers the first, the thread's detail text is the
// latest.
void es_device_cuda_keep(EsDevice *device, EsStatus status);

// Record a CUDA error with its name, its text and the call, and clear the runtime's copy so that
// later calls are not blamed for it. Errors that kill the context stay: every later call reports
// them again.
static inline EsStatus es_cuda_failed(cudaError_t error, const char *call, const char *file,
                                      int line) {
    cudaGetLastError();
    return es_status_set(ES_STATUS_DEVICE, file, line, "%s (%s) from %s", cudaGetErrorName(error),
                         cudaGetErrorString(error), call);
}

// Return a failure of the CUDA runtime upward as DEVICE.
#define ES_CUDA_TRY(call)                                                                          \
    do {                                                                                           \
        cudaError_t es_cuda_error_ = (call);                                                       \
        if (es_cuda_error_ != cudaSuccess) {                                                       \
            return es_cuda_failed(es_cuda_error_, #call, __FILE__, __LINE__);                      \
        }                                                                                          \
    } while (0)

ES_EXTERN_C_END

#endif
