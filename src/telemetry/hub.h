// The telemetry hub: takes events from training threads and never makes them wait.
//
// Emitting copies the rows into a bounded lock-free queue per sink; a thread per sink takes them
// out. A full queue drops lossy events, which are counted and reported; kept events go to a spill
// file, up to a cap, and are delivered from there when the sink catches up. A sink that blocks or
// fails harms neither training nor the other sinks.
//
// Results of training never depend on the hub: it only reads its arguments. Emitting is safe
// from any thread; create, add_sink, tick, escalate and close belong to one, flush to one, which
// may be another.
//
//     EsHub *hub; ES_TRY(es_hub_create(&options, &hub));
//     EsSink sink; ES_TRY(es_jsonl_sink_open("events.jsonl", -1, &sink));
//     ES_TRY(es_hub_add_sink(hub, &sink));
//     es_emit_metric(hub, time, rows, n_rows);
//     EsHubHealth health; es_hub_close(hub, &health);
#ifndef ES_TELEMETRY_HUB_H
#define ES_TELEMETRY_HUB_H

#include "telemetry/sink.h"

#define ES_HUB_MAX_SINKS 8

typedef struct EsHubOptions {
    EsTelemetryLevel level;
    int64_t stride;           // strided events on steps that are a multiple of it; at least 1
    int64_t queue_packets;    // per sink
    size_t queue_bytes;       // per sink; a power of two
    const char *spill_folder; // spill-<sink>.bin go here; NULL: kept events are lost when full
    size_t spill_bytes;       // cap per sink
    double close_seconds;     // longest wait for all sinks at close
} EsHubOptions;

// level NORMAL, stride 10, 1000 packets, 16 MiB, no spill folder, 64 MiB, 10 s.
EsHubOptions es_hub_defaults(void);

typedef struct EsHub EsHub;

EsStatus es_hub_create(const EsHubOptions *options, EsHub **hub);

// Start a thread for the sink. The hub owns it from here on, also when this fails. No two sinks of
// a hub have the same name, which is also that of the spill file.
EsStatus es_hub_add_sink(EsHub *hub, const EsSink *sink);

// Returns whether an event of this type would be emitted now: ask before assembling rows that cost
// something. A NULL hub wants nothing, and emitting to it does nothing.
int es_hub_wants(const EsHub *hub, EsEventType type, int64_t step);

// Queue rows for all sinks, if wanted. Never blocks on a sink; allocates nothing, logs nothing
// (refused events are reported by the next tick, flush or close), and makes no system call but to
// wake a sleeping sink or to write a spill file. The rows are copied; without rows there is no
// event. es_hub_close frees the hub, so no thread may be emitting then or later.
void es_hub_emit(EsHub *hub, EsEventType type, EsEventTime time, const void *rows, int64_t n_rows);

// es_emit_<name>(hub, time, rows, n_rows), typed
#define X(NAME, Name, name, delivery, level, pace, help)                                           \
    static inline void es_emit_##name(EsHub *hub, EsEventTime time, const Es##Name##Event *rows,   \
                                      int64_t n_rows) {                                            \
        es_hub_emit(hub, ES_EVENT_##NAME, time, rows, n_rows);                                     \
    }
ES_EVENT_LIST(X)
#undef X

// After an anomaly: level DEBUG and stride 1 until the fifth tick from here. OFF stays off.
void es_hub_escalate(EsHub *hub);

// Once per step, after its events.
void es_hub_tick(EsHub *hub);

// Wait until everything emitted before the call is written and flushed; 0 when a sink took longer
// than `seconds` in all. A sink that has timed out here is not waited for again until it has caught
// up, so that a blocked one costs the time once.
int es_hub_flush(EsHub *hub, double seconds);

typedef struct EsSinkHealth {
    const char *name;
    int64_t n_written;   // packets
    int64_t n_dropped;   // lossy packets: queue full
    int64_t n_lost;      // kept packets: spill full or failed; all packets a failing sink was given
    int64_t n_spilled;   // kept packets that went through the spill file
    int64_t n_failures;  // of write and flush
    double busy_seconds; // inside write and flush
    int is_blocked;      // did not end within the time given at close, or to flush
    char first_failure[256]; // "" when none
} EsSinkHealth;

typedef struct EsHubHealth {
    EsSinkHealth sinks[ES_HUB_MAX_SINKS];
    int n_sinks;
    int64_t n_dropped_by_type[ES_EVENT_COUNT]; // dropped or lost, all sinks
} EsHubHealth;

// The counts so far, from any thread. A packet counts as written once the sink has flushed it.
void es_hub_health(const EsHub *hub, EsHubHealth *health);

// Nonzero when a sink has lost anything but lossy events that found its queue full: the run then
// ends with exit code 3.
int es_hub_health_has_losses(const EsHubHealth *health);

// Take no more events, give the sinks their time, close them. A blocked sink's thread is left
// behind, and its memory with it; undelivered packets count as lost, and stay in the spill
// file if it was there. Should the sink ever return, the thread closes it (which may write the
// packets the sink still holds), frees the memory, and logs nothing more. `health` (nullable)
// receives the final counts. Accepts NULL.
void es_hub_close(EsHub *hub, EsHubHealth *health);

#endif
