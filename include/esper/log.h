// Log lines through a handler of yours. The library never prints by itself: without a handler,
// lines are dropped.
//
//     static void print_line(void *context, EsLogLevel level, const char *line) {
//         fprintf(stderr, "%s\n", line);
//     }
//     es_log_set_handler(print_line, NULL, ES_LOG_WARNING);
#ifndef ESPER_LOG_H
#define ESPER_LOG_H

#include "esper/api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum EsLogLevel { ES_LOG_DEBUG, ES_LOG_INFO, ES_LOG_WARNING, ES_LOG_ERROR } EsLogLevel;

// Called under a lock, one line at a time, without a newline; must not log.
typedef void (*EsLogHandler)(void *context, EsLogLevel level, const char *line);

// Installs the process's handler (NULL: drop) and the lowest level it wants. Thread-safe; programs
// call it once at start.
ES_API void es_log_set_handler(EsLogHandler handler, void *context, EsLogLevel lowest);

// Parses "debug", "info", "warning" or "error"; returns 0 and leaves *level alone when it is none
// of them.
ES_API int es_log_level_parse(const char *text, EsLogLevel *level);

// Sends a line to the handler.
ES_API void es_log(EsLogLevel level, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#ifdef __cplusplus
}
#endif

#endif
