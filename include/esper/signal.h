// Signals of a fit with rails to other processes, in shared memory: how bad it stands, and whether
// it missed the deadline of a rollback.
//
// A supervisor that watches them need not read the run's records, and hears of a halt at once. The
// emergency signal has 64 bytes, as in the source documents: [0] 1 while it is raised, [1] the
// level, [2..9] when it was raised (monotonic milliseconds, little-endian), [10] bytes of the
// reason, [11..] the reason, at most 49 bytes; the last four count writes, odd while one goes on,
// so that a reader sees it. The deadline signal has 16: [0] 1 after a rollback whose checkpoint was
// not read in time, [8..15] when that was, as above. Both go with the run; a reader that holds them
// open sees their last state. A fit that is killed leaves them behind without the lock that it held
// on the first (F_OFD_SETLK). `esper signal RUN --watch` prints them.
//
//     EsSignal signal;
//     if (es_signal_read("runs/demo", &signal) == ES_STATUS_OK &&
//         (signal.level == 4 || signal.is_abandoned)) { page(); }
#ifndef ESPER_SIGNAL_H
#define ESPER_SIGNAL_H

#include <stdint.h>

#include "esper/api.h"
#include "esper/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ES_SIGNAL_BYTES          64
#define ES_SIGNAL_DEADLINE_BYTES 16
#define ES_SIGNAL_REASON_BYTES   50 // with its end

// Levels: 1 notice, 2 elevated (an epoch failed), 3 conservative (the breaker is open), 4 halt.
typedef struct EsSignal {
    int is_raised; // 0: nothing has failed since the last good epoch
    int level;
    uint64_t raised_ms; // CLOCK_MONOTONIC
    char reason[ES_SIGNAL_REASON_BYTES];
    int has_missed_deadline; // of a rollback
    uint64_t deadline_ms;    // when, CLOCK_MONOTONIC
    int is_abandoned;        // the fit was killed: its process is gone, and its signals are not
} EsSignal;

// The name of the emergency signal of the run in this folder, for shm_open: "/esper-", the folder's
// name, and a hash of its path. With "-deadline" behind it, that of the deadline signal.
#define ES_SIGNAL_NAME_BYTES 128
ES_API EsStatus es_signal_name(const char *run_folder, char name[ES_SIGNAL_NAME_BYTES]);

// Reads the signals of a run that is going on. INPUT when there are none: the run has ended, or has
// no rails.
ES_API EsStatus es_signal_read(const char *run_folder, EsSignal *signal);

// The same for readers that look again and again: an open signal also says how the run ended, after
// there is none any more.
typedef struct EsSignalView EsSignalView;
ES_API EsStatus es_signal_open(const char *run_folder, EsSignalView **view);
ES_API EsStatus es_signal_look(const EsSignalView *view, EsSignal *signal);
ES_API void es_signal_close(EsSignalView *view);

#ifdef __cplusplus
}
#endif

#endif
