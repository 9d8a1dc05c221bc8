// A CUDA GPU as a device: runtime API, non-blocking streams, timed events, captures as CUDA graphs.
//
// Any thread may call in: each entry makes its device current first, because launches and
// allocations go to the device that is current for the thread.
#include "tensor/device_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>

static cudaStream_t stream_of(const EsStream *stream) { return (cudaStream_t)stream->handle; }
static cudaEvent_t event_of(const EsEvent *event) { return (cudaEvent_t)event->handle; }

static EsStatus make_current(const EsDevice *device) {
    ES_CUDA_TRY(cudaSetDevice(device->info.index));
    return ES_STATUS_OK;
}

void es_device_cuda_keep(EsDevice *device, EsStatus status) {
    if (device->status == ES_STATUS_OK) {
        device->status = status;
        snprintf(device->status_detail, sizeof device->status_detail, "%s", es_status_detail());
    }
}

// For calls that cannot return a failure: the device keeps it.
#define KEEP(device, call)                                                                         \
    do {                                                                                           \
        cudaError_t keep_error_ = (call);                                                          \
        if (keep_error_ != cudaSuccess) {                                                          \
            es_device_cuda_keep(device, es_cuda_failed(keep_error_, #call, __FILE__, __LINE__));   \
        }                                                                                          \
    } while (0)

// --- memory ---

static void cuda_close(EsDevice *device) { (void)device; }

static EsStatus cuda_allocate(EsDevice *device, size_t bytes, void **memory) {
    *memory = NULL;
    ES_TRY(make_current(device));
    cudaError_t error = cudaMalloc(memory, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        size_t free_bytes = 0, total_bytes = 0;
        cudaGetLastError();
        cudaMemGetInfo(&free_bytes, &total_bytes);
        return ES_FAIL(MEMORY, "%zu bytes were asked for on cuda:%d, %zu of %zu are free", bytes,
                       device->info.index, free_bytes, total_bytes);
    }
    ES_CUDA_TRY(error);
    // the fill runs on the default stream, which our streams do not wait for: it must have ended
    // before any of them starts
    error = cudaMemset(*memory, 0, bytes);
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(cudaStreamLegacy);
    }
    if (error != cudaSuccess) {
        cudaFree(*memory);
        *memory = NULL;
    }
    ES_CUDA_TRY(error);
    return ES_STATUS_OK;
}

static void cuda_release(EsDevice *device, void *memory) {
    KEEP(device, cudaSetDevice(device->info.index));
    KEEP(device, cudaFree(memory));
}

static EsStatus cuda_allocate_host(EsDevice *device, size_t bytes, void **memory) {
    *memory = NULL;
    ES_TRY(make_current(device));
    cudaError_t error = cudaHostAlloc(memory, bytes > 0 ? bytes : 1, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return ES_FAIL(MEMORY, "cannot allocate %zu bytes of pinned CPU memory", bytes);
    }
    ES_CUDA_TRY(error);
    memset(*memory, 0, bytes);
    return ES_STATUS_OK;
}

static void cuda_release_host(EsDevice *device, void *memory) {
    KEEP(device, cudaSetDevice(device->info.index));
    KEEP(device, cudaFreeHost(memory));
}

// --- streams ---

static EsStatus cuda_stream_create(EsDevice *device, void **handle) {
    ES_TRY(make_current(device));
    cudaStream_t stream = NULL;
    ES_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    *handle = stream;
    return ES_STATUS_OK;
}

static void cuda_stream_destroy(EsDevice *device, void *handle) {
    KEEP(device, cudaSetDevice(device->info.index));
    KEEP(device, cudaStreamDestroy((cudaStream_t)handle));
}

static EsStatus cuda_copy(EsStream *stream, void *to, const void *from, size_t bytes,
                          EsCopy direction) {
    ES_TRY(make_current(stream->device));
    cudaMemcpyKind kind = direction == ES_COPY_TO_DEVICE ? cudaMemcpyHostToDevice
                          : direction == ES_COPY_TO_HOST ? cudaMemcpyDeviceToHost
                                                         : cudaMemcpyDeviceToDevice;
    ES_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, kind, stream_of(stream)));
    return ES_STATUS_OK;
}

static EsStatus cuda_fill(EsStream *stream, void *memory, int byte, size_t bytes) {
    ES_TRY(make_current(stream->device));
    ES_CUDA_TRY(cudaMemsetAsync(memory, byte, bytes, stream_of(stream)));
    return ES_STATUS_OK;
}

static EsStatus wait_for_stream(EsStream *stream) {
    ES_TRY(make_current(stream->device));
    ES_CUDA_TRY(cudaStreamSynchronize(stream_of(stream)));
    return ES_STATUS_OK;
}

// A failed kernel shows here first, so the device keeps the failure too.
static EsStatus cuda_synchronize(EsStream *stream) {
    EsStatus status = wait_for_stream(stream);
    if (status != ES_STATUS_OK) {
        es_device_cuda_keep(stream->device, status);
    }
    return status;
}

// --- events ---

static EsStatus cuda_event_create(EsDevice *device, void **handle) {
    ES_TRY(make_current(device));
    cudaEvent_t event = NULL;
    ES_CUDA_TRY(cudaEventCreate(&event));
    *handle = event;
    return ES_STATUS_OK;
}

static void cuda_event_destroy(EsDevice *device, void *handle) {
    KEEP(device, cudaSetDevice(device->info.index));
    KEEP(device, cudaEventDestroy((cudaEvent_t)handle));
}

static EsStatus cuda_event_record(EsEvent *event, EsStream *stream) {
    ES_TRY(make_current(event->device));
    ES_CUDA_TRY(cudaEventRecord(event_of(event), stream_of(stream)));
    return ES_STATUS_OK;
}

static EsStatus cuda_event_wait(EsEvent *event, EsStream *stream) {
    ES_TRY(make_current(event->device));
    ES_CUDA_TRY(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
    return ES_STATUS_OK;
}

static EsStatus wait_for_event(EsEvent *event) {
    ES_TRY(make_current(event->device));
    ES_CUDA_TRY(cudaEventSynchronize(event_of(event)));
    return ES_STATUS_OK;
}

static EsStatus cuda_event_synchronize(EsEvent *event) {
    EsStatus status = wait_for_event(event);
    if (status != ES_STATUS_OK) {
        es_device_cuda_keep(event->device, status);
    }
    return status;
}

static EsStatus cuda_event_elapsed_ms(EsEvent *from, EsEvent *to, float *ms) {
    ES_TRY(make_current(from->device));
    ES_CUDA_TRY(cudaEventElapsedTime(ms, event_of(from), event_of(to)));
    return ES_STATUS_OK;
}

// --- captures ---

// thread-local: other threads may go on allocating and synchronising while this one records
static EsStatus cuda_capture_begin(EsStream *stream) {
    ES_TRY(make_current(stream->device));
    ES_CUDA_TRY(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
    return ES_STATUS_OK;
}

static EsStatus cuda_capture_end(EsStream *stream, void **handle) {
    *handle = NULL;
    ES_TRY(make_current(stream->device));
    cudaGraph_t graph = NULL;
    ES_CUDA_TRY(cudaStreamEndCapture(stream_of(stream), &graph));
    cudaGraphExec_t executable = NULL;
    cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    if (error != cudaSuccess) {
        return es_cuda_failed(error, "cudaGraphInstantiate", __FILE__, __LINE__);
    }
    *handle = executable;
    return ES_STATUS_OK;
}

static EsStatus cuda_capture_replay(EsCapture *capture, EsStream *stream) {
    ES_TRY(make_current(stream->device));
    ES_CUDA_TRY(cudaGraphLaunch((cudaGraphExec_t)capture->handle, stream_of(stream)));
    return es_device_cuda_is_checked(stream->device) ? cuda_synchronize(stream) : ES_STATUS_OK;
}

static void cuda_capture_destroy(EsDevice *device, void *handle) {
    KEEP(device, cudaSetDevice(device->info.index));
    KEEP(device, cudaGraphExecDestroy((cudaGraphExec_t)handle));
}

// --- ranges ---

static void cuda_range_push(const char *name) { nvtxRangePushA(name); }

static void cuda_range_pop(void) { nvtxRangePop(); }

// --- opening ---

#define INTERFACE                                                                                  \
    {                                                                                              \
        cuda_close, cuda_allocate, cuda_release, cuda_allocate_host, cuda_release_host,            \
            cuda_stream_create, cuda_stream_destroy, cuda_copy, cuda_fill, cuda_synchronize,       \
            cuda_event_create, cuda_event_destroy, cuda_event_record, cuda_event_wait,             \
            cuda_event_synchronize, cuda_event_elapsed_ms, cuda_capture_begin, cuda_capture_end,   \
            cuda_capture_replay, cuda_capture_destroy, cuda_range_push, cuda_range_pop,            \
    }

// Launches of a device with the second, equal table are checked (ES_CUDA_SYNC): its address is the
// flag.
static const EsDeviceInterface plain_interface = INTERFACE;
static const EsDeviceInterface checked_interface = INTERFACE;

int es_device_cuda_is_checked(const EsDevice *device) {
    return device->interface == &checked_interface;
}

static __global__ void probe_kernel() {}

EsStatus es_device_open_cuda(EsDevice *device, int index) {
    int n_devices = 0;
    cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error != cudaSuccess || index >= n_devices) {
        cudaGetLastError();
        return ES_FAIL(UNSUPPORTED, "cuda:%d was asked for, this process sees %d CUDA devices (%s)",
                       index, error == cudaSuccess ? n_devices : 0, cudaGetErrorString(error));
    }
    cudaDeviceProp properties;
    ES_CUDA_TRY(cudaGetDeviceProperties(&properties, index));
    const char *checked = getenv("ES_CUDA_SYNC");
    device->interface =
        checked != NULL && strcmp(checked, "1") == 0 ? &checked_interface : &plain_interface;
    device->info.kind = ES_DEVICE_CUDA;
    device->info.index = index;
    snprintf(device->info.name, sizeof device->info.name, "%.127s", properties.name);
    snprintf(device->info.architecture, sizeof device->info.architecture, "sm_%d%d",
             properties.major, properties.minor);
    device->info.memory_bytes = properties.totalGlobalMem;
    device->info.n_processors = properties.multiProcessorCount;
    device->info.capability = 10 * properties.major + properties.minor;
    ES_TRY(make_current(device));
    cudaFuncAttributes attributes;
    error = cudaFuncGetAttributes(&attributes, probe_kernel);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return ES_FAIL(UNSUPPORTED, "cuda:%d (%s, %s) cannot run this build's kernels: %s", index,
                       device->info.name, device->info.architecture, cudaGetErrorString(error));
    }
    return ES_STATUS_OK;
}

int es_device_cuda_count(void) {
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return n_devices;
}
