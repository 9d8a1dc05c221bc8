// Work that is queued again and again: run directly at first, recorded when it runs for the second
// time, replayed as one launch from then on. On devices that cannot record, and where recording
// fails, it runs directly, with the same bits.
//
//     EsRecording recording = {0};
//     ES_TRY(es_recording_run(&recording, stream, 1, queue_step, trainer));
//     es_recording_destroy(&recording);
#ifndef ES_NETWORK_RECORDING_H
#define ES_NETWORK_RECORDING_H

#include "tensor/device.h"

ES_EXTERN_C_BEGIN

typedef struct EsRecording {
    EsCapture *capture; // owned, nullable
    int n_runs;         // counted up to 2
    int64_t n_replays;
    double capture_ms;
    char fallback[256]; // why it is not replayed; "" when it is, or was not tried
} EsRecording;

// Queues the work on the stream. It must queue the same each time: what varies is read from device
// memory.
typedef EsStatus (*EsQueueFunction)(void *context, EsStream *stream);

// Queue the work. With may_record 0 always directly. A recording that fails is logged once, as a
// warning unless a profile forbids it.
EsStatus es_recording_run(EsRecording *recording, EsStream *stream, int may_record,
                          EsQueueFunction queue, void *context);

// The work has changed: the next run records anew.
void es_recording_forget(EsRecording *recording);
void es_recording_destroy(EsRecording *recording);

ES_EXTERN_C_END

#endif
