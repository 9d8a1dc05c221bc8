// Devices by name, and the dispatch of memory, streams, events and captures to CPU or CUDA.
#include "tensor/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/device_internal.h"
#include "tensor/profile.h"

// Defined in device_cpu.c.
EsStatus es_device_open_cpu(EsDevice *device);

static EsStatus parse_cuda_index(const char *name, int *index) {
    *index = 0;
    if (name[4] == '\0') {
        return ES_STATUS_OK;
    }
    char *end = NULL;
    errno = 0;
    long value = strtol(name + 5, &end, 10);
    if (name[4] != ':' || name[5] < '0' || name[5] > '9' || *end != '\0' || errno != 0 ||
        value > 1023) {
        return ES_FAIL(ARGUMENT, "device \"%s\" is not one of cpu, cuda, cuda:N", name);
    }
    *index = (int)value;
    return ES_STATUS_OK;
}

EsStatus es_device_open(const char *name, const EsDeviceOptions *options, EsDevice **device_out) {
    *device_out = NULL;
    EsDevice *device = NULL;
    ES_TRY(es_allocate(sizeof *device, (void **)&device));
    if (options != NULL) {
        device->options = *options;
    }
    EsStatus status = ES_STATUS_OK;
    if (strcmp(name, "cpu") == 0) {
        status = es_device_open_cpu(device);
    } else if (strncmp(name, "cuda", 4) == 0) {
        int index = 0;
        status = parse_cuda_index(name, &index);
        if (status == ES_STATUS_OK) {
            status = es_device_open_cuda(device, index);
        }
    } else {
        status = ES_FAIL(ARGUMENT, "device \"%s\" is not one of cpu, cuda, cuda:N", name);
    }
    if (status != ES_STATUS_OK) {
        es_release(device);
        return status;
    }
    *device_out = device;
    return ES_STATUS_OK;
}

EsStatus es_device_open_serial(const EsDevice *device, EsDevice **serial) {
    ES_ASSERT(device->info.kind == ES_DEVICE_CPU);
    EsDeviceOptions options = {.n_threads = 1, .n_lanes = device->info.n_lanes};
    return es_device_open("cpu", &options, serial);
}

void es_device_close(EsDevice *device) {
    if (device != NULL) {
        es_profile_stop(device);
        device->interface->close(device);
        es_release(device);
    }
}

const EsDeviceInfo *es_device_info(const EsDevice *device) { return &device->info; }

EsStatus es_device_status(const EsDevice *device) {
    return device->status == ES_STATUS_OK
               ? ES_STATUS_OK
               : es_status_set(device->status, __FILE__, __LINE__, "%s", device->status_detail);
}

void es_device_forgive(EsDevice *device) { device->status = ES_STATUS_OK; }

EsDeviceCounters es_device_counters(const EsDevice *device) { return device->counters; }

EsDeviceCounters es_device_counters_since(const EsDevice *device, EsDeviceCounters before) {
    EsDeviceCounters counters = device->counters;
    counters.n_allocations -= before.n_allocations;
    counters.n_synchronizations -= before.n_synchronizations;
    counters.n_copies -= before.n_copies;
    counters.n_launches -= before.n_launches;
    for (int direction = 0; direction < ES_COPY_DIRECTIONS; direction++) {
        counters.copied_bytes[direction] -= before.copied_bytes[direction];
    }
    return counters;
}

EsStatus es_device_allocate(EsDevice *device, size_t bytes, void **memory) {
    device->counters.n_allocations++;
    return device->interface->allocate(device, bytes, memory);
}

void es_device_release(EsDevice *device, void *memory) {
    if (memory != NULL) {
        device->interface->release(device, memory);
    }
}

EsStatus es_device_create_tensor(EsDevice *device, EsDtype dtype, int rank, const int64_t *dims,
                                 EsTensor *tensor) {
    *tensor = es_tensor_view(NULL, dtype, device, rank, dims);
    return es_device_allocate(device, es_tensor_bytes(tensor), &tensor->data);
}

void es_device_destroy_tensor(EsTensor *tensor) {
    if (tensor->data != NULL) {
        es_device_release(tensor->device, tensor->data);
        tensor->data = NULL;
    }
}

EsStatus es_device_allocate_host(EsDevice *device, size_t bytes, void **memory) {
    device->counters.n_allocations++;
    return device->interface->allocate_host(device, bytes, memory);
}

void es_device_release_host(EsDevice *device, void *memory) {
    if (memory != NULL) {
        device->interface->release_host(device, memory);
    }
}

EsStatus es_stream_create(EsDevice *device, EsStream **stream_out) {
    *stream_out = NULL;
    EsStream *stream = NULL;
    ES_TRY(es_allocate(sizeof *stream, (void **)&stream));
    stream->device = device;
    EsStatus status = device->interface->stream_create(device, &stream->handle);
    if (status != ES_STATUS_OK) {
        es_release(stream);
        return status;
    }
    *stream_out = stream;
    return ES_STATUS_OK;
}

void es_stream_destroy(EsStream *stream) {
    if (stream != NULL) {
        stream->device->interface->stream_destroy(stream->device, stream->handle);
        es_release(stream);
    }
}

EsDevice *es_stream_device(const EsStream *stream) { return stream->device; }

EsStatus es_stream_copy(EsStream *stream, void *to, const void *from, size_t bytes,
                        EsCopy direction) {
    static const char *const names[] = {"copy to device", "copy to host", "copy on device"};
    EsDevice *device = stream->device;
    device->counters.n_copies++;
    device->counters.copied_bytes[direction] += (int64_t)bytes;
    int span = es_profile_span_begin(device, stream, ES_PROFILE_COPY, names[direction]);
    es_profile_span_bytes(device, span, bytes);
    EsStatus status = device->interface->copy(stream, to, from, bytes, direction);
    es_profile_span_end(device, stream, span);
    return status;
}

EsStatus es_stream_fill(EsStream *stream, void *memory, int byte, size_t bytes) {
    EsDevice *device = stream->device;
    int span = es_profile_span_begin(device, stream, ES_PROFILE_COPY, "fill");
    es_profile_span_bytes(device, span, bytes);
    EsStatus status = device->interface->fill(stream, memory, byte, bytes);
    es_profile_span_end(device, stream, span);
    return status;
}

EsStatus es_stream_synchronize(EsStream *stream) {
    stream->device->counters.n_synchronizations++;
    return stream->device->interface->synchronize(stream);
}

void es_stream_parallel(EsStream *stream, int64_t n_pieces, EsPieceFunction function,
                        void *context) {
    ES_ASSERT(stream->device->pool != NULL);
    es_thread_pool_run(stream->device->pool, n_pieces, function, context);
}

EsThreadPool *es_stream_pool(const EsStream *stream) { return stream->device->pool; }

EsStatus es_event_create(EsDevice *device, EsEvent **event_out) {
    *event_out = NULL;
    EsEvent *event = NULL;
    ES_TRY(es_allocate(sizeof *event, (void **)&event));
    event->device = device;
    EsStatus status = device->interface->event_create(device, &event->handle);
    if (status != ES_STATUS_OK) {
        es_release(event);
        return status;
    }
    *event_out = event;
    return ES_STATUS_OK;
}

void es_event_destroy(EsEvent *event) {
    if (event != NULL) {
        event->device->interface->event_destroy(event->device, event->handle);
        es_release(event);
    }
}

EsStatus es_event_record(EsEvent *event, EsStream *stream) {
    return event->device->interface->event_record(event, stream);
}

EsStatus es_event_wait(EsEvent *event, EsStream *stream) {
    return event->device->interface->event_wait(event, stream);
}

EsStatus es_event_synchronize(EsEvent *event) {
    event->device->counters.n_synchronizations++;
    return event->device->interface->event_synchronize(event);
}

EsStatus es_event_elapsed_ms(EsEvent *from, EsEvent *to, float *ms) {
    return from->device->interface->event_elapsed_ms(from, to, ms);
}

EsStatus es_capture_begin(EsStream *stream) {
    if (es_profile_forbids_capture(stream->device)) {
        return ES_FAIL(UNSUPPORTED, "launches are being timed one by one");
    }
    ES_TRY(stream->device->interface->capture_begin(stream));
    stream->is_capturing = 1;
    stream->before_capture = stream->device->counters;
    return ES_STATUS_OK;
}

// Takes bytes that were captured, not moved, off the counters.
static EsDeviceCounters take_captured(EsStream *stream) {
    EsDevice *device = stream->device;
    EsDeviceCounters captured = es_device_counters_since(device, stream->before_capture);
    memcpy(device->counters.copied_bytes, stream->before_capture.copied_bytes,
           sizeof device->counters.copied_bytes);
    return captured;
}

EsStatus es_capture_end(EsStream *stream, EsCapture **capture_out) {
    *capture_out = NULL;
    EsCapture *capture = NULL;
    void *handle = NULL;
    // the stream must leave capture mode even when there is no memory for the struct
    EsStatus status = stream->device->interface->capture_end(stream, &handle);
    stream->is_capturing = 0;
    EsDeviceCounters captured = take_captured(stream);
    if (status == ES_STATUS_OK) {
        status = es_allocate(sizeof *capture, (void **)&capture);
        if (status != ES_STATUS_OK) {
            stream->device->interface->capture_destroy(stream->device, handle);
        }
    }
    ES_TRY(status);
    capture->device = stream->device;
    capture->handle = handle;
    memcpy(capture->copied_bytes, captured.copied_bytes, sizeof capture->copied_bytes);
    *capture_out = capture;
    return ES_STATUS_OK;
}

EsStatus es_capture_replay(EsCapture *capture, EsStream *stream) {
    EsDevice *device = capture->device;
    device->counters.n_launches++;
    for (int direction = 0; direction < ES_COPY_DIRECTIONS; direction++) {
        device->counters.copied_bytes[direction] += capture->copied_bytes[direction];
    }
    int span = es_profile_span_begin(device, stream, ES_PROFILE_REPLAY, "captured work");
    EsStatus status = device->interface->capture_replay(capture, stream);
    es_profile_span_end(device, stream, span);
    return status;
}

void es_capture_destroy(EsCapture *capture) {
    if (capture != NULL) {
        capture->device->interface->capture_destroy(capture->device, capture->handle);
        es_release(capture);
    }
}
