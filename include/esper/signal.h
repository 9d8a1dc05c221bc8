// Emergency signals: how bad a fit with rails stands, for other processes, in shared memory.
//
// A supervisor that watches them need not read the run's records, and hears of a halt at once. The
// memory has 64 bytes, as in the source documents: [0] 1 while it is raised, [1] the level, [2..9]
// when it was raised (monotonic milliseconds, little-endian), [10] bytes of the reason, [11..] the
// reason, at most 49 bytes; the last four count writes, odd while one goes on, so that a reader
// sees it. `esper signal RUN --watch` prints them.
//
//     EsSignal signal;
//     if (es_signal_read("runs/demo", &signal) == ES_STATUS_OK && signal.level == 4) { page(); }
#ifndef ESPER_SIGNAL_H
#define ESPER_SIGNAL_H

#include <stdint.h>

#include "esper/api.h"
#include "esper/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ES_SIGNAL_BYTES        64
#define ES_SIGNAL_REASON_BYTES 50 // with its end

// Levels: 1 notice, 2 elevated (an epoch failed), 3 conservative (the breaker is open), 4 halt.
typedef struct EsSignal {
    int is_raised; // 0: nothing has failed since the last good epoch
    int level;
    uint64_t raised_ms; // CLOCK_MONOTONIC
    char reason[ES_SIGNAL_REASON_BYTES];
} EsSignal;

// The name of the shared memory of the run in this folder, for shm_open: "/esper-", the folder's
// name, and a hash of its path.
#define ES_SIGNAL_NAME_BYTES 128
ES_API EsStatus es_signal_name(const char *run_folder, char name[ES_SIGNAL_NAME_BYTES]);

// Reads the signal of a run that is going on. INPUT when there is none: the run has ended, or has
// no rails.
ES_API EsStatus es_signal_read(const char *run_folder, EsSignal *signal);

#ifdef __cplusplus
}
#endif

#endif
