// Streams, events and captures. What is queued runs at once; between cudaStreamBeginCapture and
// cudaStreamEndCapture it is recorded instead.
#include <chrono>
#include <memory>

#include "emulated_internal.h"

// Operations recorded by a capture.
struct CUgraph_st {
    std::vector<EsWork> work;
    std::vector<CUstream_st *> streams; // that record into it: the first began, others joined
    std::vector<CUevent_st *> events;   // recorded into it
    bool is_invalid = false;
};

struct CUstream_st {
    CUgraph_st *capture = NULL;
};

struct CUgraphExec_st {
    std::shared_ptr<const std::vector<EsWork>> work;
};

struct CUevent_st {
    double recorded_ms = -1.0;  // < 0: never
    CUgraph_st *capture = NULL; // recorded into it, not run
    bool is_timed = true;
};

namespace {

// captures this thread has begun and not ended
thread_local std::vector<CUgraph_st *> captures;

CUstream_st *stream_of(cudaStream_t stream) {
    static CUstream_st legacy;
    return stream == NULL || stream == cudaStreamLegacy ? &legacy : stream;
}

double now_ms() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(now).count();
}

void leave_capture(CUevent_st *event) {
    if (event->capture != NULL) {
        std::vector<CUevent_st *> &events = event->capture->events;
        events.erase(std::remove(events.begin(), events.end(), event), events.end());
        event->capture = NULL;
    }
}

// A call that waits: not for a stream that is being captured.
cudaError_t wait(CUgraph_st *capture) {
    if (capture != NULL) {
        capture->is_invalid = true;
        return es_emulated_result(cudaErrorStreamCaptureUnsupported);
    }
    return es_emulated_result(cudaSuccess);
}

void end(CUgraph_st *capture) {
    for (CUstream_st *stream : capture->streams) {
        stream->capture = NULL;
    }
    for (CUevent_st *event : capture->events) {
        event->capture = NULL;
    }
    captures.erase(std::remove(captures.begin(), captures.end(), capture), captures.end());
}

} // namespace

cudaError_t es_emulated_queue(cudaStream_t stream, EsWork work) {
    CUgraph_st *capture = stream_of(stream)->capture;
    if (capture == NULL) {
        cudaError_t error = es_emulated_result(cudaSuccess);
        return error != cudaSuccess ? error : es_emulated_result(work());
    }
    capture->work.push_back(std::move(work));
    return es_emulated_result(cudaSuccess);
}

bool es_emulated_breaks_capture() {
    for (CUgraph_st *capture : captures) {
        capture->is_invalid = true;
    }
    return !captures.empty();
}

// --- streams ---

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = new CUstream_st;
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (stream == NULL || stream == cudaStreamLegacy) {
        return es_emulated_result(cudaErrorInvalidResourceHandle);
    }
    delete stream;
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return wait(stream_of(stream)->capture); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return wait(stream_of(stream)->capture); }

// A stream that waits for captured work joins the capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    CUstream_st *waiting = stream_of(stream);
    if (event->capture != NULL && waiting->capture != event->capture) {
        if (waiting->capture != NULL) {
            waiting->capture->is_invalid = true;
            return es_emulated_result(cudaErrorStreamCaptureInvalidated);
        }
        waiting->capture = event->capture;
        event->capture->streams.push_back(waiting);
    }
    return es_emulated_result(cudaSuccess);
}

// --- events ---

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    *event = new CUevent_st;
    (*event)->is_timed = (flags & cudaEventDisableTiming) == 0;
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    leave_capture(event);
    delete event;
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    leave_capture(event);
    event->capture = stream_of(stream)->capture;
    if (event->capture == NULL) {
        event->recorded_ms = now_ms();
    } else {
        event->capture->events.push_back(event);
    }
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) { return wait(event->capture); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return wait(event->capture); }

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    if (from->recorded_ms < 0.0 || to->recorded_ms < 0.0 || !from->is_timed || !to->is_timed) {
        return es_emulated_result(cudaErrorInvalidResourceHandle);
    }
    *ms = (float)(to->recorded_ms - from->recorded_ms);
    return es_emulated_result(cudaSuccess);
}

// --- captures ---

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    CUstream_st *origin = stream_of(stream);
    if (origin->capture != NULL || origin == stream_of(NULL)) {
        return es_emulated_result(cudaErrorStreamCaptureUnsupported);
    }
    origin->capture = new CUgraph_st;
    origin->capture->streams.push_back(origin);
    captures.push_back(origin->capture);
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    std::unique_ptr<CUgraph_st> capture(stream_of(stream)->capture);
    *graph = NULL;
    if (capture == nullptr || capture->streams[0] != stream) {
        capture.release();
        return es_emulated_result(cudaErrorInvalidValue);
    }
    end(capture.get());
    if (capture->is_invalid) {
        return es_emulated_result(cudaErrorStreamCaptureInvalidated);
    }
    *graph = capture.release();
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    const CUgraph_st *capture = stream_of(stream)->capture;
    *status = capture == NULL       ? cudaStreamCaptureStatusNone
              : capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long) {
    *executable = new CUgraphExec_st{std::make_shared<std::vector<EsWork>>(graph->work)};
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    return es_emulated_queue(stream, [work = executable->work] {
        for (const EsWork &piece : *work) {
            cudaError_t error = piece();
            if (error != cudaSuccess) {
                return error;
            }
        }
        return cudaSuccess;
    });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return es_emulated_result(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    delete executable;
    return es_emulated_result(cudaSuccess);
}
