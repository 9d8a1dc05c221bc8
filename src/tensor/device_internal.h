// The table that each kind of device fills, shared by device.c and the CUDA half of this folder.
#ifndef ES_TENSOR_DEVICE_INTERNAL_H
#define ES_TENSOR_DEVICE_INTERNAL_H

#include "tensor/device.h"

ES_EXTERN_C_BEGIN

// Operations that differ between kinds of device. Streams, events and captures are the kind's own
// structs behind `void *`.
typedef struct EsDeviceInterface {
    void (*close)(EsDevice *device);
    EsStatus (*allocate)(EsDevice *device, size_t bytes, void **memory);
    void (*release)(EsDevice *device, void *memory);
    EsStatus (*allocate_host)(EsDevice *device, size_t bytes, void **memory);
    void (*release_host)(EsDevice *device, void *memory);

    EsStatus (*stream_create)(EsDevice *device, void **handle);
    void (*stream_destroy)(EsDevice *device, void *handle);
    EsStatus (*copy)(EsStream *stream, void *to, const void *from, size_t bytes, EsCopy direction);
    EsStatus (*fill)(EsStream *stream, void *memory, int byte, size_t bytes);
    EsStatus (*synchronize)(EsStream *stream);

    EsStatus (*event_create)(EsDevice *device, void **handle);
    void (*event_destroy)(EsDevice *device, void *handle);
    EsStatus (*event_record)(EsEvent *event, EsStream *stream);
    EsStatus (*event_wait)(EsEvent *event, EsStream *stream);
    EsStatus (*event_synchronize)(EsEvent *event);
    EsStatus (*event_elapsed_ms)(EsEvent *from, EsEvent *to, float *ms);

    EsStatus (*capture_begin)(EsStream *stream);
    EsStatus (*capture_end)(EsStream *stream, void **handle);
    EsStatus (*capture_replay)(EsCapture *capture, EsStream *stream);
    void (*capture_destroy)(EsDevice *device, void *handle);

    // nullable: ranges of an outside profiler
    void (*range_push)(const char *name);
    void (*range_pop)(void);
} EsDeviceInterface;

typedef struct EsProfile EsProfile;

struct EsDevice {
    const EsDeviceInterface *interface; // borrowed, constant
    EsDeviceInfo info;
    EsDeviceOptions options;
    EsThreadPool *pool;      // owned, CPU alone
    EsStatus status;         // first failure of queued work
    char status_detail[256]; // its text
    EsDeviceCounters counters;
    EsProfile *profile; // owned; NULL: nothing is timed (profile.h)
};

struct EsStream {
    EsDevice *device; // borrowed
    void *handle;     // CUDA: cudaStream_t
    int is_capturing; // between es_capture_begin and end
    EsDeviceCounters before_capture;
};

struct EsEvent {
    EsDevice *device;    // borrowed
    void *handle;        // CUDA: cudaEvent_t
    int64_t recorded_ns; // CPU: when it was recorded
};

struct EsCapture {
    EsDevice *device;                         // borrowed
    void *handle;                             // CUDA: cudaGraphExec_t
    int64_t copied_bytes[ES_COPY_DIRECTIONS]; // by a replay
};

// Fill `device` (zeroed, options set) for cuda:index. UNSUPPORTED in a build without CUDA.
EsStatus es_device_open_cuda(EsDevice *device, int index);

ES_EXTERN_C_END

#endif
