#include "network/plan/recording.h"

#include <stdio.h>

#include "base/clock.h"
#include "esper/log.h"
#include "tensor/profile.h"

// Whatever goes wrong, the work can still run: a launch that fails while it is only recorded is no
// failure of the device.
static void record(EsRecording *recording, EsStream *stream, EsQueueFunction queue, void *context) {
    int64_t start_ns = es_clock_ns();
    EsStatus status = es_capture_begin(stream);
    if (status == ES_STATUS_OK) {
        EsStatus queued = queue(context, stream);
        status = es_capture_end(stream, &recording->capture);
        if (status == ES_STATUS_OK && queued != ES_STATUS_OK) {
            es_capture_destroy(recording->capture);
            recording->capture = NULL;
            status = queued;
        }
    }
    recording->capture_ms = es_clock_seconds_since(start_ns) * 1e3;
    recording->fallback[0] = '\0';
    if (status != ES_STATUS_OK) {
        snprintf(recording->fallback, sizeof recording->fallback, "capture failed: %s",
                 es_status_detail());
        // a profile that times launches one by one asked for it
        int is_wanted = es_profile_forbids_capture(es_stream_device(stream));
        es_log(is_wanted ? ES_LOG_DEBUG : ES_LOG_WARNING, "%s; running without capture",
               recording->fallback);
    }
    es_device_forgive(es_stream_device(stream));
}

EsStatus es_recording_run(EsRecording *recording, EsStream *stream, int may_record,
                          EsQueueFunction queue, void *context) {
    EsDevice *device = es_stream_device(stream);
    ES_TRY(es_device_status(device));
    int can_record = may_record && es_device_info(device)->kind == ES_DEVICE_CUDA;
    // the first run is a plain one: it loads modules, which a capture may not
    if (can_record && recording->n_runs == 1 && recording->capture == NULL) {
        record(recording, stream, queue, context);
    }
    recording->n_runs += recording->n_runs < 2;
    if (recording->capture != NULL) {
        recording->n_replays++;
        ES_TRY(es_capture_replay(recording->capture, stream));
    } else {
        ES_TRY(queue(context, stream));
    }
    return es_device_status(device);
}

void es_recording_forget(EsRecording *recording) {
    if (recording->capture != NULL) {
        es_capture_destroy(recording->capture);
        recording->capture = NULL;
        recording->n_runs = 1;
    }
}

void es_recording_destroy(EsRecording *recording) {
    if (recording->capture != NULL) {
        es_capture_destroy(recording->capture);
        recording->capture = NULL;
    }
}
