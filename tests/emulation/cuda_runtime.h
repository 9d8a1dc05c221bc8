// The part of the CUDA runtime that Esper uses, on the CPU: kernels run thread by thread when they
// are queued, so every call has ended when it returns. docs/testing.md, "Emulated CUDA".
#ifndef ES_EMULATION_CUDA_RUNTIME_H
#define ES_EMULATION_CUDA_RUNTIME_H

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emulated_device.h"
#include "emulated_math.h"
#include "emulated_types.h"

// --- errors ---

// X(name, value, text)
#define ES_EMULATED_ERRORS(X)                                                                      \
    X(cudaSuccess, 0, "no error")                                                                  \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                               \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                          \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                       \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                              \
    X(cudaErrorNotReady, 600, "device not ready")                                                  \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                   \
    X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")            \
    X(cudaErrorStreamCaptureUnsupported, 900, "not permitted while the stream is capturing")       \
    X(cudaErrorStreamCaptureInvalidated, 901, "capture was invalidated by an earlier error")

#define ES_EMULATED_ERROR(name, value, text) name = value,
enum cudaError { ES_EMULATED_ERRORS(ES_EMULATED_ERROR) };
#undef ES_EMULATED_ERROR
typedef cudaError cudaError_t;

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char *cudaGetErrorName(cudaError_t error);
// For a launch failure: which kernel, which block, what its threads were waiting for.
const char *cudaGetErrorString(cudaError_t error);

// --- devices ---

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    int major, minor, multiProcessorCount, warpSize, maxThreadsPerBlock, regsPerBlock, l2CacheSize;
    int maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor;
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int index);
cudaError_t cudaGetDevice(int *index);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int index);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int index);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceReset(); // forgets errors, keeps memory
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

// --- memory ---

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault,
};
enum { cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2 };

typedef struct CUstream_st *cudaStream_t;
#define cudaStreamLegacy ((cudaStream_t)1)

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
// New memory is filled with 0xFF; the pages before and after it cannot be touched.
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemset(void *memory, int byte, size_t bytes);
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream = NULL);
cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int byte, size_t width, size_t height,
                              cudaStream_t stream = NULL);
// Copies check that device memory is what they were told is device memory, all of it.
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = NULL);
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream = NULL);

template <typename T> static inline cudaError_t cudaMalloc(T **memory, size_t bytes) {
    return cudaMalloc((void **)memory, bytes);
}
template <typename T>
static inline cudaError_t cudaHostAlloc(T **memory, size_t bytes, unsigned flags) {
    return cudaHostAlloc((void **)memory, bytes, flags);
}
template <typename T> static inline cudaError_t cudaMallocHost(T **memory, size_t bytes) {
    return cudaHostAlloc((void **)memory, bytes, cudaHostAllocDefault);
}

// --- streams and events ---

enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
typedef struct CUevent_st *cudaEvent_t;

cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = NULL);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

// --- captures: a list of what was queued, replayed in the order it was queued in ---

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed,
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated,
};
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

// --- kernels ---

struct cudaFuncAttributes {
    size_t sharedSizeBytes;
    int maxThreadsPerBlock, numRegs, maxDynamicSharedSizeBytes;
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};

cudaError_t es_emulated_function_attributes(cudaFuncAttributes *attributes, const void *kernel);
cudaError_t es_emulated_set_function_attribute(const void *kernel, cudaFuncAttribute attribute,
                                               int value);
cudaError_t es_emulated_occupancy(int *n_blocks, int n_threads, size_t shared_bytes);

template <typename K>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, K *kernel) {
    return es_emulated_function_attributes(attributes, (const void *)kernel);
}
template <typename K>
static inline cudaError_t cudaFuncSetAttribute(K *kernel, cudaFuncAttribute attribute, int value) {
    return es_emulated_set_function_attribute((const void *)kernel, attribute, value);
}
// by threads and shared memory alone: registers are not known here
template <typename K>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n_blocks, K *,
                                                                        int n_threads,
                                                                        size_t shared_bytes) {
    return es_emulated_occupancy(n_blocks, n_threads, shared_bytes);
}

struct EsLaunchShape {
    const void *kernel;
    dim3 grid, block;
    size_t shared_bytes;
    bool is_cooperative; // all blocks are there at once
};

// Queue a kernel; `run` is what one thread does.
cudaError_t es_emulated_launch(const EsLaunchShape &shape, std::function<void()> run,
                               cudaStream_t stream);

// __shared__ alignas(16) float x[4]: a C++ compiler wants alignas in front of static, an attribute
// may stand anywhere. Last in this file, behind the headers of the C++ library, some of which write
// __attribute__((__noinline__)).
#define __noinline__ __attribute__((noinline))
#define alignas(...) __attribute__((aligned(__VA_ARGS__)))

#endif
