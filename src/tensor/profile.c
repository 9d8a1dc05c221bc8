// A profile belongs to a device (EsDevice.profile). Spans are taken from a fixed array by an atomic
// counter, so threads may note side by side; everything else happens on the thread that reports.
#include "tensor/profile.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "tensor/device_internal.h"

#define MAX_DEPTH 16
#define NO_SPAN   (-1)

typedef struct Span {
    const char *name; // borrowed
    EsProfileKind kind;
    int thread;
    int has_events; // timed by the device, not by the clock
    int is_closed;
    int64_t begin_ns, end_ns; // on the CPU's clock
    EsProfileShape shape;
} Span;

struct EsProfile {
    EsProfileOptions options;
    Span *spans;       // owned [capacity]
    EsEvent **events;  // owned [2 * capacity]: begin and end; NULL on the CPU
    EsEvent *anchor;   // owned: ties the device's clock to the CPU's; NULL on the CPU
    EsStream *own;     // owned: the anchor's; NULL on the CPU
    atomic_int n_open; // spans asked for, beyond the capacity too
    int range[MAX_DEPTH], n_ranges;
    EsDeviceCounters before;
};

const char *es_profile_kind_name(EsProfileKind kind) {
    static const char *const names[] = {"range", "launch", "replay", "copy"};
    return names[kind];
}

// Appends to a text of ES_PROFILE_SHAPE_BYTES; what does not fit is cut.
static void append(char *text, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, ES_PROFILE_SHAPE_BYTES - used, format, arguments);
    va_end(arguments);
}

static void append_sizes(char *text, const uint32_t size[3]) {
    int rank = size[2] > 1 ? 3 : size[1] > 1 ? 2 : 1;
    for (int i = 0; i < rank; i++) {
        append(text, i > 0 ? "x%u" : "%u", size[i]);
    }
}

char *es_profile_shape_text(const EsProfileShape *shape, char text[ES_PROFILE_SHAPE_BYTES]) {
    text[0] = '\0';
    if (shape->rank > 0) {
        EsTensor result = es_tensor_view(NULL, ES_DTYPE_F32, NULL, shape->rank, shape->dim);
        char described[96];
        append(text, "%s", strchr(es_tensor_describe(&result, described, sizeof described), '['));
    }
    if (shape->n_kernels > 0) {
        append(text, "%sgrid ", text[0] != '\0' ? ", " : "");
        append_sizes(text, shape->grid);
        append(text, ", block ");
        append_sizes(text, shape->block);
    }
    if (shape->shared_bytes > 0) {
        append(text, ", shared %lld B", (long long)shape->shared_bytes);
    }
    if (shape->n_kernels > 1) {
        append(text, ", largest of %d kernels", shape->n_kernels);
    }
    if (shape->bytes > 0) {
        append(text, "%s%lld B", text[0] != '\0' ? ", " : "", (long long)shape->bytes);
    }
    return text;
}

// --- life ---

static void destroy_profile(EsProfile *profile) {
    for (int i = 0; profile->events != NULL && i < 2 * profile->options.capacity; i++) {
        es_event_destroy(profile->events[i]);
    }
    es_event_destroy(profile->anchor);
    es_stream_destroy(profile->own);
    es_release(profile->events);
    es_release(profile->spans);
    es_release(profile);
}

static EsStatus create_events(EsDevice *device, EsProfile *profile) {
    size_t n_events = 2 * (size_t)profile->options.capacity;
    ES_TRY(es_allocate(n_events * sizeof(void *), (void **)&profile->events));
    for (size_t i = 0; i < n_events; i++) {
        ES_TRY(es_event_create(device, &profile->events[i]));
    }
    ES_TRY(es_stream_create(device, &profile->own));
    return es_event_create(device, &profile->anchor);
}

EsStatus es_profile_start(EsDevice *device, const EsProfileOptions *options) {
    EsProfile *profile = NULL;
    if (device->profile != NULL || options->capacity < 1) {
        return ES_FAIL(ARGUMENT, device->profile != NULL
                                     ? "the device is being profiled already"
                                     : "a profile needs room for at least one span");
    }
    ES_TRY(es_allocate(sizeof *profile, (void **)&profile));
    profile->options = *options;
    EsStatus status =
        es_allocate(sizeof *profile->spans * (size_t)options->capacity, (void **)&profile->spans);
    if (status == ES_STATUS_OK && device->info.kind == ES_DEVICE_CUDA) {
        status = create_events(device, profile);
    }
    if (status != ES_STATUS_OK) {
        destroy_profile(profile);
        return status;
    }
    device->profile = profile;
    es_profile_reset(device);
    return ES_STATUS_OK;
}

void es_profile_reset(EsDevice *device) {
    EsProfile *profile = device->profile;
    if (profile != NULL) {
        atomic_store(&profile->n_open, 0);
        profile->n_ranges = 0;
        profile->before = device->counters;
    }
}

void es_profile_stop(EsDevice *device) {
    if (device->profile != NULL) {
        destroy_profile(device->profile);
        device->profile = NULL;
    }
}

int es_profile_forbids_capture(const EsDevice *device) {
    return device->profile != NULL && device->profile->options.forbids_capture;
}

// --- noting ---

int es_profile_span_begin(EsDevice *device, EsStream *stream, EsProfileKind kind,
                          const char *name) {
    EsProfile *profile = device->profile;
    // a stream under capture runs nothing; events would become a part of the capture
    if (profile == NULL || (stream != NULL && stream->is_capturing)) {
        return NO_SPAN;
    }
    int i = atomic_fetch_add(&profile->n_open, 1);
    if (i < 0 || i >= profile->options.capacity) {
        return NO_SPAN;
    }
    Span *span = &profile->spans[i];
    *span = (Span){.name = name, .kind = kind, .thread = (int)gettid(), .begin_ns = es_clock_ns()};
    span->has_events =
        profile->events != NULL && stream != NULL &&
        device->interface->event_record(profile->events[2 * i], stream) == ES_STATUS_OK;
    return i;
}

void es_profile_span_end(EsDevice *device, EsStream *stream, int i) {
    EsProfile *profile = device->profile;
    if (profile == NULL || i == NO_SPAN) {
        return;
    }
    Span *span = &profile->spans[i];
    if (span->has_events &&
        device->interface->event_record(profile->events[2 * i + 1], stream) != ES_STATUS_OK) {
        span->has_events = 0;
    }
    span->end_ns = es_clock_ns();
    span->is_closed = 1;
}

// The span of a handle; NULL where nothing is noted.
static Span *open_span(const EsDevice *device, int i) {
    const EsProfile *profile = device->profile;
    return profile != NULL && i >= 0 && i < profile->options.capacity ? &profile->spans[i] : NULL;
}

static uint64_t count_threads(const uint32_t grid[3], const uint32_t block[3]) {
    return (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];
}

void es_profile_span_kernel(EsDevice *device, int i, const uint32_t grid[3],
                            const uint32_t block[3], size_t shared_bytes) {
    Span *span = open_span(device, i);
    if (span == NULL) {
        return;
    }
    EsProfileShape *shape = &span->shape;
    if (shape->n_kernels++ == 0 ||
        count_threads(grid, block) > count_threads(shape->grid, shape->block)) {
        memcpy(shape->grid, grid, sizeof shape->grid);
        memcpy(shape->block, block, sizeof shape->block);
        shape->shared_bytes = (int64_t)shared_bytes;
    }
}

void es_profile_span_bytes(EsDevice *device, int i, size_t bytes) {
    Span *span = open_span(device, i);
    if (span != NULL) {
        span->shape.bytes = (int64_t)bytes;
    }
}

void es_profile_span_result(EsDevice *device, int i, const EsTensor *result) {
    Span *span = open_span(device, i);
    if (span != NULL) {
        span->shape.rank = result->rank;
        memcpy(span->shape.dim, result->dim, sizeof span->shape.dim);
    }
}

int es_profile_next_span(const EsDevice *device) {
    EsProfile *profile = device->profile;
    return profile != NULL ? ES_MIN(atomic_load(&profile->n_open), profile->options.capacity) : 0;
}

void es_profile_range_begin(EsDevice *device, EsStream *stream, const char *name) {
    EsProfile *profile = device->profile;
    if (device->interface->range_push != NULL) {
        device->interface->range_push(name);
    }
    if (profile != NULL) {
        int span = es_profile_span_begin(device, stream, ES_PROFILE_RANGE, name);
        if (profile->n_ranges < MAX_DEPTH) {
            profile->range[profile->n_ranges] = span;
        }
        profile->n_ranges++;
    }
}

void es_profile_range_end(EsDevice *device, EsStream *stream) {
    EsProfile *profile = device->profile;
    if (device->interface->range_pop != NULL) {
        device->interface->range_pop();
    }
    // a range that was open at a reset has gone with it
    if (profile != NULL && profile->n_ranges > 0) {
        profile->n_ranges--;
        if (profile->n_ranges < MAX_DEPTH) {
            es_profile_span_end(device, stream, profile->range[profile->n_ranges]);
        }
    }
}

// --- summing up ---

// When the device was at an event: so long before the anchor, which it passed at anchor_ns.
static EsStatus event_ms(const EsDevice *device, EsEvent *event, int64_t anchor_ns, double *ms) {
    const EsProfile *profile = device->profile;
    float before = 0;
    ES_TRY(device->interface->event_synchronize(event));
    ES_TRY(device->interface->event_elapsed_ms(event, profile->anchor, &before));
    *ms = (double)anchor_ns * 1e-6 - (double)before;
    return ES_STATUS_OK;
}

static EsStatus drop_anchor(const EsDevice *device, int n_spans, int64_t *anchor_ns) {
    const EsProfile *profile = device->profile;
    for (int i = 0; i < n_spans; i++) {
        if (profile->spans[i].has_events && profile->spans[i].is_closed) {
            ES_TRY(device->interface->event_synchronize(profile->events[2 * i + 1]));
        }
    }
    ES_TRY(device->interface->event_record(profile->anchor, profile->own));
    ES_TRY(device->interface->event_synchronize(profile->anchor));
    *anchor_ns = es_clock_ns();
    return ES_STATUS_OK;
}

static EsStatus measure_spans(const EsDevice *device, int n_spans, EsProfileReport *report) {
    const EsProfile *profile = device->profile;
    int64_t anchor_ns = 0;
    if (profile->events != NULL) {
        ES_TRY(drop_anchor(device, n_spans, &anchor_ns));
    }
    int64_t now_ns = es_clock_ns();
    for (int i = 0; i < n_spans; i++) {
        const Span *span = &profile->spans[i];
        EsProfileSpan *out = &report->spans[i];
        int64_t end_ns = span->is_closed ? span->end_ns : now_ns;
        out->name = span->name;
        out->kind = span->kind;
        out->thread = span->thread;
        out->shape = span->shape;
        out->queued_ms = out->begin_ms = (double)span->begin_ns * 1e-6;
        out->end_ms = (double)end_ns * 1e-6;
        if (span->has_events && span->is_closed) {
            ES_TRY(event_ms(device, profile->events[2 * i], anchor_ns, &out->begin_ms));
            ES_TRY(event_ms(device, profile->events[2 * i + 1], anchor_ns, &out->end_ms));
            // two differences of floats may cross by a rounding error
            out->end_ms = ES_MAX(out->end_ms, out->begin_ms);
        }
    }
    report->n_spans = n_spans;
    return ES_STATUS_OK;
}

static void add_to_rows(EsProfileReport *report, const EsProfileSpan *span) {
    double ms = span->end_ms - span->begin_ms;
    EsProfileRow *row = report->rows, *end = report->rows + report->n_rows;
    while (row < end && (row->kind != span->kind || strcmp(row->name, span->name) != 0)) {
        row++;
    }
    if (row == end) {
        *row = (EsProfileRow){.name = span->name, .kind = span->kind, .min_ms = ms, .max_ms = ms};
        report->n_rows++;
    }
    if (row->count == 0 || ms > row->max_ms) {
        row->shape = span->shape;
    }
    row->count++;
    row->total_ms += ms;
    row->min_ms = ES_MIN(row->min_ms, ms);
    row->max_ms = ES_MAX(row->max_ms, ms);
}

static int compare_rows(const void *left, const void *right) {
    const EsProfileRow *a = left, *b = right;
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    return a->total_ms > b->total_ms ? -1 : a->total_ms < b->total_ms;
}

static int compare_begins(const void *left, const void *right) {
    const EsProfileSpan *a = left, *b = right;
    return a->begin_ms < b->begin_ms ? -1 : a->begin_ms > b->begin_ms;
}

// Measures the union of all spans; `sorted` is scratch space for all of them.
static void measure_window(EsProfileReport *report, EsProfileSpan *sorted) {
    size_t n = (size_t)report->n_spans;
    memcpy(sorted, report->spans, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_begins);
    double last_ms = n > 0 ? sorted[0].begin_ms : 0, done_ms = last_ms;
    for (size_t i = 0; i < n; i++) {
        last_ms = ES_MAX(last_ms, sorted[i].end_ms);
        if (sorted[i].kind != ES_PROFILE_RANGE && sorted[i].end_ms > done_ms) {
            report->busy_ms += sorted[i].end_ms - ES_MAX(sorted[i].begin_ms, done_ms);
            done_ms = sorted[i].end_ms;
        }
    }
    report->window_ms = n > 0 ? last_ms - sorted[0].begin_ms : 0;
}

// Rows, window and busy time from the spans.
static EsStatus sum_up(EsProfileReport *report) {
    EsProfileSpan *sorted = NULL;
    size_t room = (size_t)ES_MAX(report->n_spans, 1);
    ES_TRY(es_allocate(room * sizeof *report->rows, (void **)&report->rows));
    ES_TRY(es_allocate(room * sizeof *sorted, (void **)&sorted));
    for (int i = 0; i < report->n_spans; i++) {
        add_to_rows(report, &report->spans[i]);
    }
    qsort(report->rows, (size_t)report->n_rows, sizeof *report->rows, compare_rows);
    measure_window(report, sorted);
    es_release(sorted);
    return ES_STATUS_OK;
}

EsStatus es_profile_report(EsDevice *device, EsProfileReport *report) {
    EsProfile *profile = device->profile;
    EsStatus status = ES_STATUS_OK;
    memset(report, 0, sizeof *report);
    if (profile == NULL) {
        return ES_FAIL(ARGUMENT, "the device is not being profiled");
    }
    report->counters = es_device_counters_since(device, profile->before);
    int n_open = atomic_load(&profile->n_open), n_spans = ES_MIN(n_open, profile->options.capacity);
    report->n_dropped = n_open - n_spans;
    ES_TRY_GOTO(
        es_allocate((size_t)ES_MAX(n_spans, 1) * sizeof *report->spans, (void **)&report->spans));
    ES_TRY_GOTO(measure_spans(device, n_spans, report));
    ES_TRY_GOTO(sum_up(report));
    es_profile_reset(device);
done:
    if (status != ES_STATUS_OK) {
        es_profile_report_destroy(report);
    }
    return status;
}

void es_profile_report_destroy(EsProfileReport *report) {
    es_release(report->rows);
    es_release(report->spans);
    memset(report, 0, sizeof *report);
}
