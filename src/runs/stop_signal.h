// Ctrl-C (SIGINT), SIGTERM and a terminal that goes away (SIGHUP, unless nohup) as a request to
// stop.
//
// The first signal prints `message` and is remembered; the second prints `second_message` and ends
// the process at once, as without this handler. Signals belong to the process, so this is the one
// place in the library with state of its own; begin and end must pair, one pair at a time.
#ifndef ES_RUNS_STOP_SIGNAL_H
#define ES_RUNS_STOP_SIGNAL_H

#include <stdint.h>

#include "esper/status.h"

// Messages (nullable) go to stderr if there is room for them without waiting; they are borrowed
// until end.
EsStatus es_stop_signal_begin(const char *message, const char *second_message);

// Replaces the message of the first signal; nullable, borrowed until end.
void es_stop_signal_set_message(const char *message);

// Put the old handlers back. A pending request is forgotten.
void es_stop_signal_end(void);

// When the first signal came, as es_clock_ns; 0 when none has.
int64_t es_stop_signal_time_ns(void);

#endif
