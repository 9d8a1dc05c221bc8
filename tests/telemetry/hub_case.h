// Helpers of the tests of spill file and hub: the sizes of files and the log lines.
#ifndef ES_TESTS_HUB_CASE_H
#define ES_TESTS_HUB_CASE_H

#include <stdatomic.h>

#include "esper/log.h"
#include "temp_folder.h"

// Bytes of a file in the folder, -1 when there is none.
static inline long long case_file_bytes(const char *name) {
    struct stat facts;
    return stat(temp_path(name), &facts) == 0 ? (long long)facts.st_size : -1;
}

// Log lines since begin_log: how many, and the first.
typedef struct CaseLog {
    int n_lines;
    char first[1024];
} CaseLog;

static inline void keep_log_line(void *context, EsLogLevel level, const char *line) {
    CaseLog *log = context;
    if (level >= ES_LOG_WARNING && log->n_lines++ == 0) {
        snprintf(log->first, sizeof log->first, "%s", line);
    }
}

static inline void begin_log(CaseLog *log) {
    *log = (CaseLog){0};
    es_log_set_handler(keep_log_line, log, ES_LOG_WARNING);
}

static inline void end_log(void) { es_log_set_handler(NULL, NULL, ES_LOG_WARNING); }

#endif
