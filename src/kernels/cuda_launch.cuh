// Starting a kernel. The one place with CUDA's own syntax for it, so that the emulation
// (tests/emulation) can run kernels on the CPU by putting its own file in front of this one.
#ifndef ES_KERNELS_CUDA_LAUNCH_CUH
#define ES_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

// Dynamic shared memory of the running kernel, as bytes; one name per kernel.
#define ES_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

// First statement of every kernel that is queued early (EsLaunch::start_early): lets the next such
// kernel come to the multiprocessors while this one's last blocks of threads run, and waits until
// all that was queued before has ended. Before it nothing may be read that others write.
static __device__ __forceinline__ void es_begin_early() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Queue a kernel; says whether it could be queued, not how it ended.
template <typename... Parameters, typename... Arguments>
static inline cudaError_t es_launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                           size_t shared_bytes, cudaStream_t stream,
                                           Arguments... arguments) {
    kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
    return cudaGetLastError();
}

// The same for a kernel that begins with es_begin_early; from sm_90 on.
template <typename... Parameters, typename... Arguments>
static inline cudaError_t es_launch_kernel_early(void (*kernel)(Parameters...), dim3 grid,
                                                 dim3 block, size_t shared_bytes,
                                                 cudaStream_t stream, Arguments... arguments) {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

#endif
