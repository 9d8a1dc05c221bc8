// What the program says to a person, on stderr, without ever being held up by whoever reads it.
//
// A pipe that nobody empties or a stopped terminal blocks a plain write for ever, and with it the
// run. Here a line that finds no room is dropped and counted, and the next one that does says so.
//
// Names, paths and values come from outside: whatever in a message could command a terminal, and
// what is not UTF-8, is shown as U+FFFD. This is the one place where that is done on stderr.
#ifndef ES_PROGRAMS_MESSAGE_H
#define ES_PROGRAMS_MESSAGE_H

#include "base/log.h"

// Once, before anything else; until then lines go to stderr all the same.
void es_message_start(void);

// Whether a line was lost for good: stderr is closed or has no reader any more. One that found no
// room is counted and told instead.
int es_message_is_lost(void);

// Handler for es_log: waits for nothing.
void es_message_log(void *context, EsLogLevel level, const char *line);

// Print one line of at most 4000 bytes; the format ends with its newline. Meant for what stands
// before and after the work: it gives a slow reader a second to make room.
void es_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
