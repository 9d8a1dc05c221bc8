// Emergencies on their way out of a fit: the writing side of esper/signal.h, made at the run's
// start and removed at its end, and messages to a file or pipe, each within a time, and not more
// than so many in a minute.
//
//     EsEmergencySignal *signal; ES_TRY(es_emergency_signal_create(run_folder, &signal));
//     es_emergency_signal_raise(signal, 3, "breaker_open");
//     es_emergency_signal_clear(signal);
//     es_emergency_signal_destroy(signal);
//
//     EsEmergencyDispatch *dispatch; ES_TRY(es_emergency_dispatch_create(&options, &dispatch));
//     result = es_emergency_dispatch_send(dispatch, &emergency, es_clock_ns());
#ifndef ES_FIT_EMERGENCY_SIGNAL_H
#define ES_FIT_EMERGENCY_SIGNAL_H

#include "esper/signal.h"
#include "fit/deadline.h"

// --- shared memory ---

typedef struct EsEmergencySignal EsEmergencySignal;

// Takes the place of one that a killed run left behind.
EsStatus es_emergency_signal_create(const char *run_folder, EsEmergencySignal **signal);
void es_emergency_signal_destroy(EsEmergencySignal *signal);

// A longer reason is cut. A reader sees the old signal or the new one, never a mixture.
void es_emergency_signal_raise(EsEmergencySignal *signal, int level, const char *reason);
// A rollback was late; until it is cleared.
void es_emergency_signal_miss_deadline(EsEmergencySignal *signal);
// Takes both signals down.
void es_emergency_signal_clear(EsEmergencySignal *signal);

// --- messages ---

typedef struct EsEmergencyDispatchOptions {
    const char *path;  // file or named pipe; a line of JSON is appended for each emergency
    const char *run;   // its folder, for the message; both are copied
    double timeout_ms; // for one message
    int per_minute;    // the most that are sent in a minute
} EsEmergencyDispatchOptions;

typedef struct EsEmergency {
    int level;
    const char *reason;
    int64_t epoch;
} EsEmergency;

// Since it was created.
typedef struct EsDispatchCounts {
    int64_t sent, failed; // messages that arrived; tries that failed or were late
    int64_t applied;      // of those sent, such as had failed before
    int64_t dropped;      // over the limit of a minute, or of those that wait
    double last_ms;       // of the last that arrived
} EsDispatchCounts;

typedef enum EsDispatchResult {
    ES_DISPATCH_SENT,
    ES_DISPATCH_LATE,   // its thread goes on with it, while the process lives
    ES_DISPATCH_FAILED, // it waits for the next call; es_status_detail says why
    ES_DISPATCH_DROPPED
} EsDispatchResult;

typedef struct EsEmergencyDispatch EsEmergencyDispatch;

EsStatus es_emergency_dispatch_create(const EsEmergencyDispatchOptions *options,
                                      EsEmergencyDispatch **dispatch);
void es_emergency_dispatch_destroy(EsEmergencyDispatch *dispatch);

// Sends a message within the time. One that fails waits, and es_emergency_dispatch_retry tries it
// again: as many as the minute allows, up to the first that fails once more or is late. A late one
// is not tried again, since its thread may still write it. After ES_DEADLINE_ABANDONED_MAX threads
// that hang all fail at once.
EsDispatchResult es_emergency_dispatch_send(EsEmergencyDispatch *dispatch,
                                            const EsEmergency *emergency, int64_t now_ns);
EsDispatchResult es_emergency_dispatch_retry(EsEmergencyDispatch *dispatch, int64_t now_ns);

int es_emergency_dispatch_waiting(const EsEmergencyDispatch *dispatch); // messages that failed
EsDispatchCounts es_emergency_dispatch_counts(const EsEmergencyDispatch *dispatch);

#endif
