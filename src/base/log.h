// Log lines through a replaceable handler. The library never prints by itself: without a handler,
// lines are dropped.
#ifndef ES_BASE_LOG_H
#define ES_BASE_LOG_H

#include "base/macros.h"

ES_EXTERN_C_BEGIN

typedef enum EsLogLevel { ES_LOG_DEBUG, ES_LOG_INFO, ES_LOG_WARNING, ES_LOG_ERROR } EsLogLevel;

// Called under a lock, one line at a time, without a newline; must not log.
typedef void (*EsLogHandler)(void *context, EsLogLevel level, const char *line);

// Install the process's handler (NULL: drop) and the lowest level it wants. Thread-safe; programs
// call it once at start.
void es_log_set_handler(EsLogHandler handler, void *context, EsLogLevel lowest);

// Parse "debug", "info", "warning" or "error"; returns 0 and leaves *level alone when it is none of
// them.
int es_log_level_parse(const char *text, EsLogLevel *level);

void es_log(EsLogLevel level, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

ES_EXTERN_C_END

#endif
