// Starting a kernel, and words that thread blocks of one launch exchange. The one place with CUDA's
// own syntax for it, so that the emulation (tests/emulation) can run kernels on the CPU by putting
// its own file in front of this one.
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

// The same for a kernel whose blocks wait for each other: all of them are on the device at once, or
// it is not queued.
template <typename... Parameters, typename... Arguments>
static inline cudaError_t es_launch_cooperative(void (*kernel)(Parameters...), dim3 grid,
                                                dim3 block, size_t shared_bytes,
                                                cudaStream_t stream, Arguments... arguments) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// --- words exchanged between thread blocks ---
//
// A word says by its own value whether it has been written, so that neither flags nor fences are
// needed: a block of a cooperative launch looks at the words it waits for until all of them are
// there, and calls es_exchange_pause between two looks.

// Four words as the GPU's common cache has them. Each is whole; they need not be of one time.
static __device__ __forceinline__ uint4 es_exchange_load(const void *p) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

static __device__ __forceinline__ void es_exchange_store(float *p, float value) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(p), "f"(value) : "memory");
}

// Polling is all that a GPU does here; the emulation lets the other blocks run.
static __device__ __forceinline__ void es_exchange_pause(void) {}

#endif
