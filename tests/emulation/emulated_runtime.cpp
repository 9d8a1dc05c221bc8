// Errors, the device, its memory, copies, launches.
#include "emulated_internal.h"

#include <map>
#include <mutex>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_PROCESSORS 132 // as an H200 has

namespace {

struct Device {
    std::mutex mutex;
    cudaError_t killed_by = cudaSuccess;
    std::string killed_text;
    std::map<uintptr_t, size_t> allocations; // address, bytes
    std::map<const void *, size_t> shared_limits;
    size_t used_bytes = 0;
};

Device &device() {
    static Device *one = new Device; // never destroyed: threads may outlive static objects
    return *one;
}

thread_local cudaError_t last_error = cudaSuccess;

size_t memory_bytes() {
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 4 * 3;
}

size_t mapped_bytes(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

// Returns whether all of [memory, memory + bytes) lies in one allocation.
bool is_device_memory(const void *memory, size_t bytes) {
    std::lock_guard<std::mutex> lock(device().mutex);
    auto after = device().allocations.upper_bound((uintptr_t)memory);
    if (after == device().allocations.begin()) {
        return false;
    }
    auto found = std::prev(after);
    return (uintptr_t)memory + bytes <= found->first + found->second;
}

bool touches_device_memory(const void *memory) { return is_device_memory(memory, 1); }

// bytes that `height` rows of `width` cover
size_t span(size_t pitch, size_t width, size_t height) {
    return height == 0 || width == 0 ? 0 : (height - 1) * pitch + width;
}

bool agrees(const void *memory, size_t bytes, bool should_be_device) {
    return should_be_device ? is_device_memory(memory, bytes) : !touches_device_memory(memory);
}

} // namespace

// --- errors ---

cudaError_t es_emulated_result(cudaError_t error) {
    Device &d = device();
    std::lock_guard<std::mutex> lock(d.mutex);
    error = d.killed_by != cudaSuccess ? d.killed_by : error;
    last_error = error != cudaSuccess ? error : last_error;
    return error;
}

void es_emulated_kill(const std::string &text) {
    Device &d = device();
    std::lock_guard<std::mutex> lock(d.mutex);
    if (d.killed_by == cudaSuccess) {
        d.killed_by = cudaErrorLaunchFailure;
        d.killed_text = text;
    }
}

cudaError_t cudaPeekAtLastError() {
    std::lock_guard<std::mutex> lock(device().mutex);
    return device().killed_by != cudaSuccess ? device().killed_by : last_error;
}

cudaError_t cudaGetLastError() {
    cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorName(cudaError_t error) {
#define ES_EMULATED_NAME(name, value, text)                                                        \
    if (error == name) {                                                                           \
        return #name;                                                                              \
    }
    ES_EMULATED_ERRORS(ES_EMULATED_NAME)
#undef ES_EMULATED_NAME
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    if (error == cudaErrorLaunchFailure && device().killed_by == error) {
        return device().killed_text.c_str();
    }
#define ES_EMULATED_TEXT(name, value, text)                                                        \
    if (error == name) {                                                                           \
        return text;                                                                               \
    }
    ES_EMULATED_ERRORS(ES_EMULATED_TEXT)
#undef ES_EMULATED_TEXT
    return "unrecognized error code";
}

// --- the device ---

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaSetDevice(int index) {
    return es_emulated_result(index == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *index) {
    *index = 0;
    return es_emulated_result(cudaSuccess);
}

// sizes as an H200 has them, so that what is laid out for it is what runs here
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int index) {
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "emulated on the CPU");
    properties->totalGlobalMem = memory_bytes();
    properties->sharedMemPerBlock = ES_EMULATED_SHARED_LIMIT;
    properties->sharedMemPerBlockOptin = ES_EMULATED_SHARED_OPTIN;
    properties->sharedMemPerMultiprocessor = (size_t)228 << 10;
    properties->major = 9;
    properties->multiProcessorCount = N_PROCESSORS;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = ES_EMULATED_THREADS_LIMIT;
    properties->regsPerBlock = 65536;
    properties->l2CacheSize = 50 << 20;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxBlocksPerMultiProcessor = 32;
    return cudaSetDevice(index);
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int index) {
    cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, index);
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = p.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)p.sharedMemPerBlock;
        break;
    case cudaDevAttrWarpSize:
        *value = p.warpSize;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = p.multiProcessorCount;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = p.maxThreadsPerMultiProcessor;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = p.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = p.minor;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)p.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)p.sharedMemPerBlockOptin;
        break;
    default:
        return es_emulated_result(cudaErrorInvalidValue);
    }
    return error;
}

cudaError_t cudaDeviceSynchronize() {
    return es_emulated_result(es_emulated_breaks_capture() ? cudaErrorStreamCaptureUnsupported
                                                           : cudaSuccess);
}

cudaError_t cudaDeviceReset() {
    std::lock_guard<std::mutex> lock(device().mutex);
    device().killed_by = cudaSuccess;
    last_error = cudaSuccess;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = 13000;
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }

// --- memory ---

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    *total_bytes = memory_bytes();
    *free_bytes = *total_bytes - std::min(*total_bytes, device().used_bytes);
    return es_emulated_result(cudaSuccess);
}

// [page that cannot be touched][slack][memory, aligned to 256][page that cannot be touched]
cudaError_t cudaMalloc(void **memory, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), free_bytes = 0, total_bytes = 0;
    *memory = NULL;
    if (es_emulated_breaks_capture()) {
        return es_emulated_result(cudaErrorStreamCaptureUnsupported);
    }
    cudaMemGetInfo(&free_bytes, &total_bytes);
    if (bytes > free_bytes) {
        return es_emulated_result(cudaErrorMemoryAllocation);
    }
    size_t rounded = (std::max(bytes, (size_t)1) + 255) / 256 * 256, mapped = mapped_bytes(rounded);
    char *base = (char *)mmap(NULL, mapped + 2 * page, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED || mprotect(base + page, mapped, PROT_READ | PROT_WRITE) != 0) {
        return es_emulated_result(cudaErrorMemoryAllocation);
    }
    memset(base + page, 0xFF, mapped);
    *memory = base + page + mapped - rounded;
    std::lock_guard<std::mutex> lock(device().mutex);
    device().allocations[(uintptr_t)*memory] = bytes;
    device().used_bytes += bytes;
    return device().killed_by;
}

cudaError_t cudaFree(void *memory) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 0;
    if (es_emulated_breaks_capture()) {
        return es_emulated_result(cudaErrorStreamCaptureUnsupported);
    }
    if (memory == NULL) {
        return es_emulated_result(cudaSuccess);
    }
    {
        std::lock_guard<std::mutex> lock(device().mutex);
        auto found = device().allocations.find((uintptr_t)memory);
        if (found == device().allocations.end()) {
            last_error = cudaErrorInvalidValue;
            return last_error;
        }
        bytes = found->second;
        device().used_bytes -= bytes;
        device().allocations.erase(found);
    }
    size_t rounded = (std::max(bytes, (size_t)1) + 255) / 256 * 256, mapped = mapped_bytes(rounded);
    munmap((char *)memory + rounded - mapped - page, mapped + 2 * page);
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
    *memory = aligned_alloc(4096, mapped_bytes(bytes));
    return es_emulated_result(*memory == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFreeHost(void *memory) {
    free(memory);
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int byte, size_t width, size_t height,
                              cudaStream_t stream) {
    size_t bytes = span(pitch, width, height);
    if (width > pitch || (bytes > 0 && !is_device_memory(memory, bytes))) {
        return es_emulated_result(cudaErrorInvalidValue);
    }
    return es_emulated_queue(stream, [=] {
        for (size_t row = 0; row < height; row++) {
            memset((char *)memory + row * pitch, byte, width);
        }
        return cudaSuccess;
    });
}

cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream) {
    return cudaMemset2DAsync(memory, bytes, byte, bytes, 1, stream);
}

cudaError_t cudaMemset(void *memory, int byte, size_t bytes) {
    return cudaMemsetAsync(memory, byte, bytes, NULL);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
    size_t to_bytes = span(to_pitch, width, height), from_bytes = span(from_pitch, width, height);
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) {
        to_device = touches_device_memory(to);
        from_device = touches_device_memory(from);
    }
    if (width > to_pitch || width > from_pitch ||
        (to_bytes > 0 &&
         !(agrees(to, to_bytes, to_device) && agrees(from, from_bytes, from_device)))) {
        return es_emulated_result(cudaErrorInvalidValue);
    }
    return es_emulated_queue(stream, [=] {
        for (size_t row = 0; row < height; row++) {
            memmove((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
        }
        return cudaSuccess;
    });
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
    return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, NULL);
}

// --- launches ---

size_t es_emulated_shared_limit(const void *kernel) {
    std::lock_guard<std::mutex> lock(device().mutex);
    auto found = device().shared_limits.find(kernel);
    return found == device().shared_limits.end() ? ES_EMULATED_SHARED_LIMIT : found->second;
}

cudaError_t es_emulated_function_attributes(cudaFuncAttributes *attributes, const void *kernel) {
    *attributes = {};
    attributes->maxThreadsPerBlock = ES_EMULATED_THREADS_LIMIT;
    attributes->maxDynamicSharedSizeBytes = (int)es_emulated_shared_limit(kernel);
    return es_emulated_result(cudaSuccess);
}

cudaError_t es_emulated_set_function_attribute(const void *kernel, cudaFuncAttribute attribute,
                                               int value) {
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || (size_t)value > ES_EMULATED_SHARED_OPTIN) {
            return es_emulated_result(cudaErrorInvalidValue);
        }
        std::lock_guard<std::mutex> lock(device().mutex);
        device().shared_limits[kernel] = std::max((size_t)value, ES_EMULATED_SHARED_LIMIT);
    }
    return cudaSuccess;
}

cudaError_t es_emulated_occupancy(int *n_blocks, int n_threads, size_t shared_bytes) {
    // a block also takes 1 KB of shared memory for the system
    size_t by_shared = ((size_t)228 << 10) / (shared_bytes + 1024);
    *n_blocks = std::min(std::min((int)by_shared, 2048 / std::max(n_threads, 1)), 32);
    return es_emulated_result(cudaSuccess);
}

cudaError_t es_emulated_launch(const EsLaunchShape &shape, std::function<void()> run,
                               cudaStream_t stream) {
    dim3 g = shape.grid, b = shape.block;
    bool is_grid_good =
        g.x > 0 && g.x <= INT32_MAX && g.y > 0 && g.y <= 65535 && g.z > 0 && g.z <= 65535;
    bool is_block_good = b.x > 0 && b.x <= 1024 && b.y > 0 && b.y <= 1024 && b.z > 0 && b.z <= 64 &&
                         b.x * b.y * b.z <= ES_EMULATED_THREADS_LIMIT;
    if (!is_grid_good || !is_block_good) {
        return es_emulated_result(cudaErrorInvalidConfiguration);
    }
    if (shape.shared_bytes > es_emulated_shared_limit(shape.kernel)) {
        return es_emulated_result(cudaErrorInvalidValue);
    }
    int n_sharing = 0;
    es_emulated_occupancy(&n_sharing, (int)(b.x * b.y * b.z), shape.shared_bytes);
    if (shape.is_cooperative && (uint64_t)g.x * g.y * g.z > (uint64_t)n_sharing * N_PROCESSORS) {
        return es_emulated_result(cudaErrorCooperativeLaunchTooLarge);
    }
    return es_emulated_queue(
        stream, [shape, run = std::move(run)] { return es_emulated_run_grid(shape, run); });
}
