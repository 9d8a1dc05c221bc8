// Shared parts of the CUDA kernels: launching, loads and stores over the activation types, sums in
// a fixed order.
//
// A launcher opens an EsLaunch, which makes the device current and opens a profiler range, and
// starts kernels through it. Launchers neither allocate nor wait nor read device memory, so they
// may run while the stream is being captured.
//
//     EsLaunch launch(s, "activation_forward");
//     ES_DISPATCH_DTYPE(x->dtype, T,
//                       launch.start(forward_kernel<T>, grid, ES_THREADS, es_data<T>(x), count));
#ifndef ES_KERNELS_CUDA_COMMON_CUH
#define ES_KERNELS_CUDA_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include "kernels/cuda/cuda_launch.cuh"
#include "kernels/kernels.h"
#include "tensor/device_cuda.h"
#include "tensor/profile.h"

// --- launching ---

// grid.y and grid.z end at 65,535, grid.x at 2^31 - 1: dimensions that grow with E go into x.
#define ES_MAX_GRID_Y 65535
// dynamic shared memory that a kernel may have without being allowed to
#define ES_SHARED_BYTES_FREE ((size_t)48 << 10)

class EsLaunch {
  public:
    EsLaunch(EsStream *stream, const char *name)
        : device_(stream->device), stream_((cudaStream_t)stream->handle), name_(name) {
        nvtxRangePushA(name);
        keep(cudaSetDevice(device_->info.index));
        queue_ = stream;
        span_ = es_profile_span_begin(device_, stream, ES_PROFILE_LAUNCH, name);
    }
    ~EsLaunch() {
        es_profile_span_end(device_, queue_, span_);
        nvtxRangePop();
    }
    EsLaunch(const EsLaunch &) = delete;
    EsLaunch &operator=(const EsLaunch &) = delete;

    // Queue a kernel. An empty grid is no work, not an error.
    template <typename... Parameters, typename... Arguments>
    void start(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... arguments) {
        start_shared(kernel, grid, block, 0, arguments...);
    }

    // With dynamic shared memory (ES_DYNAMIC_SHARED). Above 48 KB a kernel must be allowed to have
    // it; the call is cheap and may stand in a capture, so it is repeated at every launch.
    template <typename... Parameters, typename... Arguments>
    void start_shared(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                      Arguments... arguments) {
        if (grid.x == 0 || grid.y == 0) {
            return;
        }
        if (shared_bytes > ES_SHARED_BYTES_FREE) {
            keep(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)shared_bytes));
        }
        keep(es_launch_kernel(kernel, grid, block, shared_bytes, stream_, arguments...));
        note(grid, block, shared_bytes);
        check();
    }

    // Most blocks that a cooperative launch of the kernel may have.
    template <typename... Parameters>
    int64_t count_resident(void (*kernel)(Parameters...), int n_threads, size_t shared_bytes) {
        int n_sharing = 0;
        keep(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n_sharing, kernel, n_threads,
                                                           shared_bytes));
        return (int64_t)n_sharing * device_->info.n_processors;
    }

    // A kernel whose blocks wait for each other, at most count_resident of them.
    template <typename... Parameters, typename... Arguments>
    void start_cooperative(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                           size_t shared_bytes, Arguments... arguments) {
        keep(es_launch_cooperative(kernel, grid, block, shared_bytes, stream_, arguments...));
        note(grid, block, shared_bytes);
        check();
    }

    // Every byte of `bytes` in each of n_envs places that are stride_bytes apart.
    void fill(void *memory, int byte, size_t bytes, size_t stride_bytes, size_t n_envs) {
        keep(cudaMemset2DAsync(memory, stride_bytes, byte, bytes, n_envs, stream_));
    }

    // Zeroes a tensor, environment by environment, and leaves the memory between them alone.
    void fill_zero(const EsTensor *tensor) {
        size_t element_bytes = es_dtype_bytes(tensor->dtype);
        size_t n_envs = (size_t)tensor->dim[0];
        if (es_tensor_count(tensor) > 0) {
            fill(tensor->data, 0, es_tensor_bytes(tensor) / n_envs,
                 (size_t)tensor->stride[0] * element_bytes, n_envs);
        }
    }

  private:
    void note(dim3 grid, dim3 block, size_t shared_bytes) {
        const uint32_t grid_size[3] = {grid.x, grid.y, grid.z};
        const uint32_t block_size[3] = {block.x, block.y, block.z};
        device_->counters.n_launches++;
        es_profile_span_kernel(device_, span_, grid_size, block_size, shared_bytes);
    }

    void keep(cudaError_t error) {
        if (error != cudaSuccess) {
            es_device_cuda_keep(device_, es_cuda_failed(error, name_, __FILE__, __LINE__));
        }
    }

    // ES_CUDA_SYNC=1; a stream that is being captured must not be waited for
    void check() {
        cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
        if (es_device_cuda_is_checked(device_)) {
            keep(cudaStreamIsCapturing(stream_, &capturing));
            if (capturing == cudaStreamCaptureStatusNone) {
                keep(cudaStreamSynchronize(stream_));
            }
        }
    }

    EsDevice *device_;
    cudaStream_t stream_;
    const char *name_;
    EsStream *queue_;
    int span_; // of the profile
};

// Run a statement with T standing for the activation type of `dtype`.
#define ES_DISPATCH_DTYPE(dtype, T, ...)                                                           \
    do {                                                                                           \
        if ((dtype) == ES_DTYPE_BF16) {                                                            \
            typedef __nv_bfloat16 T;                                                               \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef float T;                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

// The memory of a tensor that is taken as a whole; NULL for a nullable tensor that is absent.
template <typename T> static inline T *es_data(const EsTensor *tensor) {
    return tensor == NULL ? NULL : (T *)tensor->data;
}

// Memory with an environment axis that has a stride of its own, as members of a slab [E, P] have.
template <typename T> struct EsEnvs {
    T *data; // NULL for a nullable tensor that is absent
    int64_t stride;

    __device__ T *at(int64_t env) const { return data + env * stride; }
};

template <typename T> static inline EsEnvs<const T> es_in(const EsTensor *tensor) {
    EsEnvs<const T> envs = {es_data<const T>(tensor), tensor == NULL ? 0 : tensor->stride[0]};
    return envs;
}

template <typename T> static inline EsEnvs<T> es_out(const EsTensor *tensor) {
    EsEnvs<T> envs = {es_data<T>(tensor), tensor == NULL ? 0 : tensor->stride[0]};
    return envs;
}

static inline int64_t es_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// --- elements over environments ---

#define ES_THREADS 256
#define ES_TILE    1024 // elements a block of ES_THREADS serves, four per thread

// [E, count] elements, a block never crosses environments. `count` < 2^31; offsets into the whole
// tensor are 64-bit.
struct EsTiles {
    uint32_t count; // elements of one environment
    uint32_t blocks_per_env;
};

static inline EsTiles es_tiles(int64_t count) {
    ES_ASSERT(count >= 0 && count < INT32_MAX - ES_TILE);
    EsTiles tiles = {(uint32_t)count, (uint32_t)es_ceil_div(count, ES_TILE)};
    return tiles;
}

static inline dim3 es_tiles_grid(EsTiles tiles, int64_t n_envs) {
    return dim3((unsigned)(tiles.blocks_per_env * n_envs));
}

// The elements [j, end) in steps of ES_THREADS that this thread serves, and their environment.
struct EsTileSpan {
    int64_t env;
    uint32_t j, end;
};

static __device__ __forceinline__ EsTileSpan es_tile_span(EsTiles tiles) {
    uint32_t env = blockIdx.x / tiles.blocks_per_env;
    uint32_t first = (blockIdx.x - env * tiles.blocks_per_env) * ES_TILE;
    EsTileSpan span = {(int64_t)env, first + threadIdx.x, min(first + ES_TILE, tiles.count)};
    return span;
}

// --- loads and stores ---

static __device__ __forceinline__ float es_load(const float *p) { return *p; }
static __device__ __forceinline__ float es_load(const __nv_bfloat16 *p) {
    return __bfloat162float(*p);
}
static __device__ __forceinline__ void es_store(float *p, float v) { *p = v; }
static __device__ __forceinline__ void es_store(__nv_bfloat16 *p, float v) {
    *p = __float2bfloat16_rn(v);
}

// A weight as activations of type T meet it: rounded to bf16 where they are bf16.
template <typename T> static __device__ __forceinline__ float es_weight(float w);
template <> __device__ __forceinline__ float es_weight<float>(float w) { return w; }
template <> __device__ __forceinline__ float es_weight<__nv_bfloat16>(float w) {
    return __bfloat162float(__float2bfloat16_rn(w));
}

// --- sums in a fixed order ---

// All lanes get the sum; a butterfly, so that every lane has the same bits.
template <typename V> static __device__ __forceinline__ V es_warp_sum(V value) {
    for (int offset = 16; offset > 0; offset >>= 1) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    }
    return value;
}

// All threads get the sum. Every thread of the block must call; blockDim.x is a multiple of 32.
template <typename V> static __device__ V es_block_sum(V value) {
    __shared__ V partial[32];
    value = es_warp_sum(value);
    __syncthreads(); // the partial sums of an earlier call may still be read
    if (threadIdx.x % 32 == 0) {
        partial[threadIdx.x / 32] = value;
    }
    __syncthreads();
    V total = partial[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; warp++) {
        total += partial[warp];
    }
    return total;
}

// One thread's walk over the elements of one channel of [N, C, plane], in steps of blockDim.x,
// without divisions.
struct EsChannelWalk {
    uint32_t n, p; // image, position in the plane
    uint32_t step_n, step_p, plane;

    __device__ EsChannelWalk(uint32_t plane_count)
        : n(threadIdx.x / plane_count), p(threadIdx.x % plane_count),
          step_n(blockDim.x / plane_count), step_p(blockDim.x % plane_count), plane(plane_count) {}

    __device__ void advance() {
        n += step_n;
        p += step_p;
        if (p >= plane) {
            p -= plane;
            n++;
        }
    }
};

// Threads for a block that sums `count` elements: a multiple of 32, at most `most`.
static inline unsigned es_block_for(int64_t count, unsigned most) {
    unsigned threads = 32;
    while (threads < most && threads < count) {
        threads *= 2;
    }
    return threads;
}

// Returns true in all threads of the last of n_blocks thread blocks that share a counter, which is
// 0 before and after. Every thread calls it, after its block's results are written; the last block
// then sees the results of the others. One thread's fences stand for all: the barriers on both
// sides order the others' accesses with them. Begins and ends with a barrier.
static __device__ __forceinline__ bool es_block_is_last(int32_t *counter, int n_blocks) {
    __shared__ int is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(counter, 1) == n_blocks - 1;
        if (is_last) {
            *counter = 0;
        }
        __threadfence();
    }
    __syncthreads();
    return is_last != 0;
}

#endif
