// Devices, their memory, streams and events: one interface for the CPU and for CUDA.
//
// A device hands out memory; work is queued on a stream (the operations are in kernels/kernels.h).
// On the CPU a stream runs everything at once, on its device's thread pool; on CUDA it is
// asynchronous. Errors of queued work are kept by the device: ask es_device_status() once per step.
//
//     EsDevice *device; ES_TRY(es_device_open("cuda:0", NULL, &device));
//     EsStream *stream; ES_TRY(es_stream_create(device, &stream));
//     void *memory;     ES_TRY(es_device_allocate(device, bytes, &memory));
//     ES_TRY(es_stream_copy(stream, memory, host, bytes, ES_COPY_TO_DEVICE));
//     ES_TRY(es_stream_synchronize(stream));
#ifndef ES_TENSOR_DEVICE_H
#define ES_TENSOR_DEVICE_H

#include <stddef.h>

#include "base/thread_pool.h"
#include "esper/status.h"
#include "tensor/tensor.h"

ES_EXTERN_C_BEGIN

typedef enum EsDeviceKind { ES_DEVICE_CPU, ES_DEVICE_CUDA } EsDeviceKind;
typedef enum EsCopy {
    ES_COPY_TO_DEVICE,
    ES_COPY_TO_HOST,
    ES_COPY_ON_DEVICE,
    ES_COPY_DIRECTIONS
} EsCopy;

typedef struct EsStream EsStream;
typedef struct EsEvent EsEvent;
typedef struct EsCapture EsCapture; // captured work of a stream that can be replayed

typedef struct EsDeviceOptions {
    int n_threads; // CPU: threads of the pool, 0 = one per processor
    int n_lanes;   // CPU: images per vector, 4, 8 or 16; 0 = the widest this machine runs
} EsDeviceOptions;

typedef struct EsDeviceInfo {
    EsDeviceKind kind;
    int index;             // n of cuda:n
    char name[128];        // as the vendor spells it
    char architecture[32]; // "AVX-512", "sm_90"
    size_t memory_bytes;   // in all
    int n_processors;      // threads of the pool; multiprocessors
    int capability;        // CUDA: 10 major + minor, 90 for sm_90
    int n_lanes;           // CPU: images per vector
} EsDeviceInfo;

// --- devices ---

// `name` is "cpu", "cuda" (= cuda:0) or "cuda:N"; options may be NULL. Fails with UNSUPPORTED where
// this build or machine has no such device.
EsStatus es_device_open(const char *name, const EsDeviceOptions *options, EsDevice **device);
void es_device_close(EsDevice *device);

// A CPU of one thread with the vector width of `device`, itself a CPU, for one worker of its pool.
// Every worker needs its own: a piece of a pool must not run on that pool, and the counters of a
// device belong to one thread.
EsStatus es_device_open_serial(const EsDevice *device, EsDevice **serial);

// CUDA devices this process can see; 0 in a build without CUDA.
int es_device_cuda_count(void);

const EsDeviceInfo *es_device_info(const EsDevice *device);

// The first failure of queued work since the device was opened, with its text as the thread's
// detail, or OK.
EsStatus es_device_status(const EsDevice *device);

// Forget a failure of work that was only being captured (es_capture_begin) and never ran.
void es_device_forgive(EsDevice *device);

// Zeroed memory on the device, 64-byte aligned or better. Slow: set-up only. Counted.
EsStatus es_device_allocate(EsDevice *device, size_t bytes, void **memory);
void es_device_release(EsDevice *device, void *memory);

// A contiguous tensor with zeroed memory of its own, and its end; a tensor without memory is left
// alone.
EsStatus es_device_create_tensor(EsDevice *device, EsDtype dtype, int rank, const int64_t *dims,
                                 EsTensor *tensor);
void es_device_destroy_tensor(EsTensor *tensor);

// Host memory that the device copies from and to without staging (pinned on CUDA).
EsStatus es_device_allocate_host(EsDevice *device, size_t bytes, void **memory);
void es_device_release_host(EsDevice *device, void *memory);

// Allocations, synchronisations and copies since the device was opened, for "esper bench sync",
// "esper profile" and tests. Counts are of requests: a replay is one launch. Bytes are those that
// moved: a replay moves what was captured.
typedef struct EsDeviceCounters {
    int64_t n_allocations;
    int64_t n_synchronizations;
    int64_t n_copies;
    int64_t n_launches;                       // kernels or captures
    int64_t copied_bytes[ES_COPY_DIRECTIONS]; // by EsCopy
} EsDeviceCounters;
EsDeviceCounters es_device_counters(const EsDevice *device);
EsDeviceCounters es_device_counters_since(const EsDevice *device, EsDeviceCounters before);

// --- streams ---

EsStatus es_stream_create(EsDevice *device, EsStream **stream);
void es_stream_destroy(EsStream *stream);
EsDevice *es_stream_device(const EsStream *stream);

// Queue a copy, or a fill with one byte. Host memory must stay until the stream has passed it.
EsStatus es_stream_copy(EsStream *stream, void *to, const void *from, size_t bytes,
                        EsCopy direction);
EsStatus es_stream_fill(EsStream *stream, void *memory, int byte, size_t bytes);
EsStatus es_stream_synchronize(EsStream *stream);

// CPU streams alone: run numbered pieces on the device's pool (see thread_pool.h).
void es_stream_parallel(EsStream *stream, int64_t n_pieces, EsPieceFunction function,
                        void *context);
EsThreadPool *es_stream_pool(const EsStream *stream);

// --- events ---

EsStatus es_event_create(EsDevice *device, EsEvent **event);
void es_event_destroy(EsEvent *event);
EsStatus es_event_record(EsEvent *event, EsStream *stream);
EsStatus es_event_wait(EsEvent *event,
                       EsStream *stream);      // later work of the stream waits for the event
EsStatus es_event_synchronize(EsEvent *event); // the CPU waits
EsStatus es_event_elapsed_ms(EsEvent *from, EsEvent *to, float *ms); // both recorded and passed

// --- captures ---

// Between begin and end, work queued on the stream is captured, not run. UNSUPPORTED on the CPU:
// callers run directly.
EsStatus es_capture_begin(EsStream *stream);
EsStatus es_capture_end(EsStream *stream, EsCapture **capture);
EsStatus es_capture_replay(EsCapture *capture, EsStream *stream);
void es_capture_destroy(EsCapture *capture);

ES_EXTERN_C_END

#endif
