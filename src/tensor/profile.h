// A profile of a device's time: every launch, replay and copy timed by name, and ranges around
// them.
//
// Off until es_profile_start; the hooks then cost a call and a branch. On CUDA a span is a pair of
// events from a pool made at the start, so that nothing waits; on the CPU it is two readings of the
// clock. Work that is being captured is not timed: its replay is one span.
//
//     ES_TRY(es_profile_start(device, &(EsProfileOptions){.capacity = 16384}));
//     es_profile_range_begin(device, stream, "train");
//     ...
//     es_profile_range_end(device, stream);
//     EsProfileReport report; ES_TRY(es_profile_report(device, &report));
//     es_profile_stop(device);
#ifndef ES_TENSOR_PROFILE_H
#define ES_TENSOR_PROFILE_H

#include "tensor/device.h"

ES_EXTERN_C_BEGIN

typedef enum EsProfileKind {
    ES_PROFILE_RANGE,  // a phase; contains others
    ES_PROFILE_LAUNCH, // an operation: one launcher's kernels
    ES_PROFILE_REPLAY, // captured work, as a whole
    ES_PROFILE_COPY,   // a copy or a fill
    ES_PROFILE_KINDS
} EsProfileKind;

const char *es_profile_kind_name(EsProfileKind kind); // "range", "launch", "replay", "copy"

typedef struct EsProfileOptions {
    int capacity;        // spans between two resets; later ones are counted, not timed
    int forbids_capture; // es_capture_begin fails with UNSUPPORTED: work runs launch by launch
} EsProfileOptions;

// Shape of a span's work; 0 where it has none.
typedef struct EsProfileShape {
    int n_kernels;              // CUDA: kernels that the launcher started,
    uint32_t grid[3], block[3]; // and of the one with most threads: grid, block,
    int64_t shared_bytes;       // dynamic shared memory of a block
    int64_t bytes;              // copied or filled
    int rank;                   // of the result, where a plan runs the operation
    int64_t dim[ES_MAX_RANK];   //
} EsProfileShape;

#define ES_PROFILE_SHAPE_BYTES 160

// Writes "grid 8x2x1, block 256, shared 4096 B", "[4, 16, 32]", "512 B" or several of them.
// Returns text.
char *es_profile_shape_text(const EsProfileShape *shape, char text[ES_PROFILE_SHAPE_BYTES]);

// All spans of one kind and name.
typedef struct EsProfileRow {
    const char *name; // borrowed from the code that opened them
    EsProfileKind kind;
    int64_t count;
    double total_ms, min_ms, max_ms;
    EsProfileShape shape; // of the longest
} EsProfileRow;

// One span. Times are of es_clock_ns, in milliseconds: `begin` and `end` enclose the device's work,
// `queued` is the time at which the CPU began to queue it, which on the CPU is `begin`.
typedef struct EsProfileSpan {
    const char *name; // borrowed
    EsProfileKind kind;
    int thread; // of the CPU, numbered by the system
    double queued_ms, begin_ms, end_ms;
    EsProfileShape shape;
} EsProfileSpan;

typedef struct EsProfileReport {
    EsProfileRow *rows; // owned, longest total first within a kind
    int n_rows;
    EsProfileSpan *spans; // owned, in the order in which they were opened
    int n_spans;
    int64_t n_dropped;         // spans beyond the capacity
    double window_ms;          // first beginning to last end
    double busy_ms;            // of it, some launch, replay or copy was running
    EsDeviceCounters counters; // since the last reset
} EsProfileReport;

// --- by who wants to know ---

// Make the pool and begin. ARGUMENT when the device is being profiled already.
EsStatus es_profile_start(EsDevice *device, const EsProfileOptions *options);

// Forgets all spans so far, open ranges included: the warm-up is over.
void es_profile_reset(EsDevice *device);

// Waits for the spans and sums them up; ranges still open end now. This wait is not counted as
// synchronisation. Noting goes on, from a reset.
EsStatus es_profile_report(EsDevice *device, EsProfileReport *report);

void es_profile_report_destroy(EsProfileReport *report);

// Let go of the pool. A device that is not profiled is left alone.
void es_profile_stop(EsDevice *device);

// --- by who does the work; all return at once when the device is not profiled ---

// Returns whether captures are refused because launches are timed one by one.
int es_profile_forbids_capture(const EsDevice *device);

// A phase, on the thread that runs the step. Ranges nest; an end closes the innermost. `stream` is
// nullable: then the clock is read. On CUDA also an NVTX range, profiled or not.
void es_profile_range_begin(EsDevice *device, EsStream *stream, const char *name);
void es_profile_range_end(EsDevice *device, EsStream *stream);

// One launch, replay or copy, from any thread: begin returns the handle that end takes. `name` is a
// literal.
int es_profile_span_begin(EsDevice *device, EsStream *stream, EsProfileKind kind, const char *name);
void es_profile_span_end(EsDevice *device, EsStream *stream, int span);

// Shape of an open span: a kernel of it was started; it copies bytes; an operation's result.
void es_profile_span_kernel(EsDevice *device, int span, const uint32_t grid[3],
                            const uint32_t block[3], size_t shared_bytes);
void es_profile_span_bytes(EsDevice *device, int span, size_t bytes);
void es_profile_span_result(EsDevice *device, int span, const EsTensor *result);

// Number of the next span, for es_profile_span_result of those that launchers open until then; 0
// without a profile. For work that one thread queues.
int es_profile_next_span(const EsDevice *device);

ES_EXTERN_C_END

#endif
