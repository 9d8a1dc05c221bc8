// Takes the place of src/kernels/cuda/cuda_launch.cuh in the emulation.
#ifndef ES_KERNELS_CUDA_LAUNCH_CUH
#define ES_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#include <tuple>
#include <type_traits>

#define ES_DYNAMIC_SHARED(name) unsigned char *const name = es_emulated_dynamic_shared()

template <typename... Parameters, typename... Arguments>
static inline cudaError_t es_emulated_start(bool is_cooperative, void (*kernel)(Parameters...),
                                            dim3 grid, dim3 block, size_t shared_bytes,
                                            cudaStream_t stream, Arguments... arguments) {
    // the arguments are copied when the kernel is queued, and once more for each thread
    std::tuple<std::remove_const_t<Parameters>...> values(static_cast<Parameters>(arguments)...);
    EsLaunchShape shape = {(const void *)kernel, grid, block, shared_bytes, is_cooperative};
    return es_emulated_launch(
        shape, [kernel, values] { std::apply(kernel, values); }, stream);
}

template <typename... Parameters, typename... Arguments>
static inline cudaError_t es_launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                           size_t shared_bytes, cudaStream_t stream,
                                           Arguments... arguments) {
    return es_emulated_start(false, kernel, grid, block, shared_bytes, stream, arguments...);
}

template <typename... Parameters, typename... Arguments>
static inline cudaError_t es_launch_cooperative(void (*kernel)(Parameters...), dim3 grid,
                                                dim3 block, size_t shared_bytes,
                                                cudaStream_t stream, Arguments... arguments) {
    return es_emulated_start(true, kernel, grid, block, shared_bytes, stream, arguments...);
}

// --- words exchanged between thread blocks ---

static inline uint4 es_exchange_load(const void *p) { return *(const uint4 *)p; }
static inline void es_exchange_store(float *p, float value) { *p = value; }
static inline void es_exchange_pause() { es_emulated_pause(); }

#endif
