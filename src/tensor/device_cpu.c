// The CPU as a device: memory is memory, a stream runs at once, an event is a time.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "tensor/device_internal.h"

EsStatus es_device_open_cpu(EsDevice *device);

static void cpu_close(EsDevice *device) { es_thread_pool_destroy(device->pool); }

static EsStatus cpu_allocate(EsDevice *device, size_t bytes, void **memory) {
    (void)device;
    return es_allocate(bytes, memory);
}

static void cpu_release(EsDevice *device, void *memory) {
    (void)device;
    es_release(memory);
}

static EsStatus cpu_handle_create(EsDevice *device, void **handle) {
    (void)device;
    *handle = NULL;
    return ES_STATUS_OK;
}

static void cpu_handle_destroy(EsDevice *device, void *handle) {
    (void)device;
    (void)handle;
}

static EsStatus cpu_copy(EsStream *stream, void *to, const void *from, size_t bytes,
                         EsCopy direction) {
    (void)stream;
    (void)direction;
    memmove(to, from, bytes);
    return ES_STATUS_OK;
}

static EsStatus cpu_fill(EsStream *stream, void *memory, int byte, size_t bytes) {
    (void)stream;
    memset(memory, byte, bytes);
    return ES_STATUS_OK;
}

static EsStatus cpu_synchronize(EsStream *stream) {
    (void)stream;
    return ES_STATUS_OK;
}

static EsStatus cpu_event_record(EsEvent *event, EsStream *stream) {
    (void)stream;
    event->recorded_ns = es_clock_ns();
    return ES_STATUS_OK;
}

static EsStatus cpu_event_wait(EsEvent *event, EsStream *stream) {
    (void)event;
    (void)stream;
    return ES_STATUS_OK;
}

static EsStatus cpu_event_synchronize(EsEvent *event) {
    (void)event;
    return ES_STATUS_OK;
}

static EsStatus cpu_event_elapsed_ms(EsEvent *from, EsEvent *to, float *ms) {
    *ms = (float)((double)(to->recorded_ns - from->recorded_ns) * 1e-6);
    return ES_STATUS_OK;
}

static EsStatus cpu_capture_begin(EsStream *stream) {
    (void)stream;
    return ES_FAIL(UNSUPPORTED, "work on the CPU cannot be captured; it runs directly");
}

static EsStatus cpu_capture_end(EsStream *stream, void **handle) {
    *handle = NULL;
    return cpu_capture_begin(stream);
}

static EsStatus cpu_capture_replay(EsCapture *capture, EsStream *stream) {
    (void)capture;
    return cpu_capture_begin(stream);
}

static const EsDeviceInterface cpu_interface = {
    .close = cpu_close,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .allocate_host = cpu_allocate,
    .release_host = cpu_release,
    .stream_create = cpu_handle_create,
    .stream_destroy = cpu_handle_destroy,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .synchronize = cpu_synchronize,
    .event_create = cpu_handle_create,
    .event_destroy = cpu_handle_destroy,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .event_synchronize = cpu_event_synchronize,
    .event_elapsed_ms = cpu_event_elapsed_ms,
    .capture_begin = cpu_capture_begin,
    .capture_end = cpu_capture_end,
    .capture_replay = cpu_capture_replay,
    .capture_destroy = cpu_handle_destroy,
};

static int widest_lanes(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
        return 16;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return 8;
    }
#endif
    return 4;
}

// Without stdio, which needs memory: a processor must not change its name where that is short.
static void read_processor_name(char *name, size_t name_bytes) {
    char text[4096]; // the first processor's part is shorter
    int file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    text[ES_MAX(n, 0)] = '\0';
    const char *line = strstr(text, "model name");
    const char *colon = line != NULL ? strchr(line, ':') : NULL;
    if (colon == NULL) {
        snprintf(name, name_bytes, "processor of unknown make");
        return;
    }
    colon += 1 + (colon[1] == ' ');
    snprintf(name, name_bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
}

EsStatus es_device_open_cpu(EsDevice *device) {
    int widest = widest_lanes();
    int n_lanes = device->options.n_lanes == 0 ? widest : device->options.n_lanes;
    if (n_lanes != 4 && n_lanes != 8 && n_lanes != 16) {
        return ES_FAIL(ARGUMENT, "lanes must be 4, 8 or 16, not %d", n_lanes);
    }
    if (n_lanes > widest) {
        return ES_FAIL(UNSUPPORTED, "this processor runs %d lanes at most, %d were asked for",
                       widest, n_lanes);
    }
    device->interface = &cpu_interface;
    device->info.kind = ES_DEVICE_CPU;
    device->info.n_lanes = n_lanes;
    snprintf(device->info.architecture, sizeof device->info.architecture, "%s",
             n_lanes == 16  ? "AVX-512"
             : n_lanes == 8 ? "AVX2"
                            : "baseline");
    read_processor_name(device->info.name, sizeof device->info.name);
    device->info.memory_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGE_SIZE);
    ES_TRY(es_thread_pool_create(&device->pool, device->options.n_threads));
    device->info.n_processors = es_thread_pool_size(device->pool);
    return ES_STATUS_OK;
}
