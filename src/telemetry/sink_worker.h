// One sink at work: its queue, its spill file and the thread that feeds it. Internal to the hub.
//
// The worker is shared by the hub and the thread, and freed by the one that lets go last; so a
// thread stuck in its sink can be left behind. Should it return while the process lives, it ends
// the packet it is at, closes the sink, which may write packets it still holds, and cleans up.
#ifndef ES_TELEMETRY_SINK_WORKER_H
#define ES_TELEMETRY_SINK_WORKER_H

#include "telemetry/hub.h"

typedef struct EsSinkWorker EsSinkWorker;

// Take over the sink, also on failure, which closes it. `options` have been checked.
EsStatus es_sink_worker_start(const EsSink *sink, const EsHubOptions *options,
                              EsSinkWorker **worker);

const char *es_sink_worker_name(const EsSinkWorker *worker);

// Queue, spill or drop an event; from any thread. `packet_bytes` is es_packet_bytes(), 0 for one
// that is too large. Waits for nothing that happens inside the sink.
void es_sink_worker_offer(EsSinkWorker *worker, EsEventType type, const void *rows, int64_t n_rows,
                          const EsPacketHeader *header, size_t packet_bytes);

// Logs the events refused since the last call: at once, then each thousand. The owner's thread
// alone.
void es_sink_worker_log_refusals(EsSinkWorker *worker);

// Ask for everything offered so far to be written and flushed, then wait for it until deadline_ns
// (es_clock_ns). Asking does nothing while an earlier request stands unanswered; waiting then gives
// 0 at once. The owner's thread alone.
void es_sink_worker_ask_flush(EsSinkWorker *worker);
int es_sink_worker_wait_flush(EsSinkWorker *worker, int64_t deadline_ns);

// The counts so far; adds dropped and lost events to n_missed_by_type.
void es_sink_worker_health(const EsSinkWorker *worker, EsSinkHealth *health,
                           int64_t n_missed_by_type[ES_EVENT_COUNT]);

// Asks the thread to deliver all that is pending and end; nothing may be offered from here on. Stop
// waits for it until deadline_ns and lets go of the worker; a thread that has not ended by then is
// left behind and gives its sink nothing more than the packet it is at. `health` as above, final:
// undelivered packets count as lost.
void es_sink_worker_ask_stop(EsSinkWorker *worker);
void es_sink_worker_stop(EsSinkWorker *worker, int64_t deadline_ns, EsSinkHealth *health,
                         int64_t n_missed_by_type[ES_EVENT_COUNT]);

#endif
