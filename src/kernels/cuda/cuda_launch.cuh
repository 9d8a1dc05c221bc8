// Starting a kernel. The one place with CUDA's own syntax for it, so that the emulation
// (tests/emulation) can run kernels on the CPU by putting its own file in front of this one.
#ifndef ES_KERNELS_CUDA_LAUNCH_CUH
#define ES_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

// Dynamic shared memory of the running kernel, as bytes; one name per kernel.
#define ES_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

// Queue a kernel; says whether it could be queued, not how it ended.
template <typename... Parameters, typename... Arguments>
static inline cudaError_t es_launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                           size_t shared_bytes, cudaStream_t stream,
                                           Arguments... arguments) {
    kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
    return cudaGetLastError();
}

#endif
