// The trace of `esper profile`: the format of chrome://tracing, which Perfetto opens. A process per
// source: steps as they run, and where operations were timed apart, those steps; in it a track per
// thread on the CPU, on a GPU one of phases and one of operations.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "inspect/profile_tables.h"

typedef struct Trace {
    FILE *file;
    int is_cuda;
    int n_events;
    int failed;
} Trace;

// Takes the reference; NULL is a failure.
static void add_event(Trace *trace, json_t *event) {
    if (event == NULL || fputs(trace->n_events++ > 0 ? ",\n" : "\n", trace->file) == EOF ||
        json_dumpf(event, trace->file, JSON_COMPACT | JSON_REAL_PRECISION(15)) != 0) {
        trace->failed = 1;
    }
    json_decref(event);
}

static void add_name(Trace *trace, const char *what, int process, int thread, const char *name) {
    add_event(trace, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid",
                               process, "tid", thread, "args", "name", name));
}

static void add_span(Trace *trace, const EsProfileSpan *span, int process, double start_ms) {
    int track = trace->is_cuda ? 1 + (span->kind != ES_PROFILE_RANGE) : span->thread;
    add_event(trace, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:f}}", "ph", "X", "name",
                               span->name, "cat", es_profile_kind_name(span->kind), "pid", process,
                               "tid", track, "ts", (span->begin_ms - start_ms) * 1e3, "dur",
                               (span->end_ms - span->begin_ms) * 1e3, "args", "queued_us",
                               (span->queued_ms - start_ms) * 1e3));
}

static void add_report(Trace *trace, const EsProfileReport *report, int first_process,
                       const char *label) {
    double start_ms = report->n_spans > 0 ? report->spans[0].queued_ms : 0;
    int n_sources = 0;
    for (int i = 0; i < report->n_spans; i++) {
        start_ms = ES_MIN(start_ms, report->spans[i].queued_ms);
        n_sources = ES_MAX(n_sources, report->spans[i].source + 1);
    }
    for (int s = 0; s < n_sources; s++) {
        char name[96];
        snprintf(name, sizeof name, "%s%s", s == 0 ? "growth" : "policy", label);
        add_name(trace, "process_name", first_process + s, 0, name);
        if (trace->is_cuda) {
            add_name(trace, "thread_name", first_process + s, 1, "phases");
            add_name(trace, "thread_name", first_process + s, 2, "operations");
        }
    }
    for (int i = 0; i < report->n_spans; i++) {
        add_span(trace, &report->spans[i], first_process + report->spans[i].source, start_ms);
    }
}

EsStatus es_profile_write_trace(const EsProfileResult *result, const char *path) {
    Trace trace = {.file = fopen(path, "w"), .is_cuda = result->device.kind == ES_DEVICE_CUDA};
    if (trace.file == NULL) {
        return ES_FAIL(INPUT, "--trace: cannot write %s: %s", path, strerror(errno));
    }
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", trace.file);
    add_report(&trace, &result->report, 1, "");
    if (result->is_split) {
        add_report(&trace, &result->direct, 11, ", launch by launch");
    }
    fputs("\n]}\n", trace.file);
    int failed = trace.failed | ferror(trace.file);
    failed |= fclose(trace.file) != 0;
    if (es_json_lacked_memory()) {
        return ES_FAIL(MEMORY, "not enough memory to write %s", path);
    }
    return failed ? ES_FAIL(IO, "cannot write %s", path) : ES_STATUS_OK;
}
