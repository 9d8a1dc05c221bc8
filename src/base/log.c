// Log lines to the one handler of the process.
#include "esper/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

// The one process-wide state of the library: where diagnostics go. Results never depend on it.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static EsLogHandler current_handler;
static void *current_context;
static EsLogLevel current_lowest = ES_LOG_INFO;

void es_log_set_handler(EsLogHandler handler, void *context, EsLogLevel lowest) {
    pthread_mutex_lock(&lock);
    current_handler = handler;
    current_context = context;
    current_lowest = lowest;
    pthread_mutex_unlock(&lock);
}

int es_log_level_parse(const char *text, EsLogLevel *level) {
    static const char *const names[] = {"debug", "info", "warning", "error"};
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *level = (EsLogLevel)i;
            return 1;
        }
    }
    return 0;
}

void es_log(EsLogLevel level, const char *format, ...) {
    pthread_mutex_lock(&lock);
    if (current_handler != NULL && level >= current_lowest) {
        char line[1024];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(line, sizeof line, format, arguments);
        va_end(arguments);
        current_handler(current_context, level, line);
    }
    pthread_mutex_unlock(&lock);
}
