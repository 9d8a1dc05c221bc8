// Graph capture of work that is queued again and again: it runs directly at first, is captured when
// it runs for the second time, and is replayed as one launch from then on. On devices without
// capture, and where capture fails, it runs directly, with the same bits.
//
//     EsGraphCapture graph_capture = {0};
//     ES_TRY(es_graph_capture_run(&graph_capture, stream, 1, queue_step, trainer));
//     es_graph_capture_destroy(&graph_capture);
#ifndef ES_NETWORK_GRAPH_CAPTURE_H
#define ES_NETWORK_GRAPH_CAPTURE_H

#include "tensor/device.h"

ES_EXTERN_C_BEGIN

typedef struct EsGraphCapture {
    EsCapture *capture; // owned, nullable
    int n_runs;         // counted up to 2
    int64_t n_replays;
    double capture_ms;
    char fallback[256]; // why it is not replayed; "" when it is, or was not tried
} EsGraphCapture;

// Queues the work on the stream. It must queue the same each time: varying arguments are read from
// device memory.
typedef EsStatus (*EsQueueFunction)(void *context, EsStream *stream);

// Queue the work. With may_capture 0 always directly. A capture that fails is logged once, as a
// warning unless a profile forbids it.
EsStatus es_graph_capture_run(EsGraphCapture *graph_capture, EsStream *stream, int may_capture,
                              EsQueueFunction queue, void *context);

// Discards the capture after a change of the work: the next run captures again.
void es_graph_capture_forget(EsGraphCapture *graph_capture);
// The work changes for good: its next run is a plain one again, as the first was.
void es_graph_capture_renew(EsGraphCapture *graph_capture);

void es_graph_capture_destroy(EsGraphCapture *graph_capture);

ES_EXTERN_C_END

#endif
