// Direct run, capture, replay: CUDA graphs behind one call. A capture that fails is no error of the
// work, which then goes on directly.
#include "network/plan/graph_capture.h"

#include <stdio.h>

#include "base/clock.h"
#include "esper/log.h"
#include "tensor/profile.h"

// Captures the work, or notes why not: the work can still run directly, and a launch that fails
// during capture is no failure of the device.
static void capture_work(EsGraphCapture *graph_capture, EsStream *stream, EsQueueFunction queue,
                         void *context) {
    int64_t start_ns = es_clock_ns();
    EsStatus status = es_capture_begin(stream);
    if (status == ES_STATUS_OK) {
        EsStatus queued = queue(context, stream);
        status = es_capture_end(stream, &graph_capture->capture);
        if (status == ES_STATUS_OK && queued != ES_STATUS_OK) {
            es_capture_destroy(graph_capture->capture);
            graph_capture->capture = NULL;
            status = queued;
        }
    }
    graph_capture->capture_ms = es_clock_seconds_since(start_ns) * 1e3;
    graph_capture->fallback[0] = '\0';
    if (status != ES_STATUS_OK) {
        snprintf(graph_capture->fallback, sizeof graph_capture->fallback, "capture failed: %s",
                 es_status_detail());
        // a profile that times launches one by one asked for it
        int is_wanted = es_profile_forbids_capture(es_stream_device(stream));
        es_log(is_wanted ? ES_LOG_DEBUG : ES_LOG_WARNING, "%s; running without capture",
               graph_capture->fallback);
    }
    es_device_forgive(es_stream_device(stream));
}

EsStatus es_graph_capture_run(EsGraphCapture *graph_capture, EsStream *stream, int may_capture,
                              EsQueueFunction queue, void *context) {
    EsDevice *device = es_stream_device(stream);
    ES_TRY(es_device_status(device));
    int can_capture = may_capture && es_device_info(device)->kind == ES_DEVICE_CUDA;
    // the first run is a plain one: it loads modules, which a capture may not
    if (can_capture && graph_capture->n_runs == 1 && graph_capture->capture == NULL) {
        capture_work(graph_capture, stream, queue, context);
    }
    graph_capture->n_runs += graph_capture->n_runs < 2;
    if (graph_capture->capture != NULL) {
        graph_capture->n_replays++;
        ES_TRY(es_capture_replay(graph_capture->capture, stream));
    } else {
        ES_TRY(queue(context, stream));
    }
    return es_device_status(device);
}

void es_graph_capture_forget(EsGraphCapture *graph_capture) {
    if (graph_capture->capture != NULL) {
        es_capture_destroy(graph_capture->capture);
        graph_capture->capture = NULL;
        graph_capture->n_runs = 1;
    }
}

void es_graph_capture_renew(EsGraphCapture *graph_capture) {
    es_graph_capture_destroy(graph_capture);
    graph_capture->n_runs = 0;
}

void es_graph_capture_destroy(EsGraphCapture *graph_capture) {
    if (graph_capture->capture != NULL) {
        es_capture_destroy(graph_capture->capture);
        graph_capture->capture = NULL;
    }
}
