// What the tests of spill file and hub share: a folder of their own and the log lines.
#ifndef ES_TESTS_HUB_CASE_H
#define ES_TESTS_HUB_CASE_H

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

typedef struct CaseFolder {
    char path[256];
} CaseFolder;

static inline CaseFolder create_case_folder(void) {
    CaseFolder folder;
    const char *base = getenv("TMPDIR");
    snprintf(folder.path, sizeof folder.path, "%s/esper-hub-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder.path) == NULL) {
        perror(folder.path);
        exit(1);
    }
    return folder;
}

// Files in the folder.
static inline int count_case_files(const CaseFolder *folder) {
    int n = 0;
    DIR *directory = opendir(folder->path);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    closedir(directory);
    return n;
}

static inline void remove_case_folder(const CaseFolder *folder) {
    DIR *directory = opendir(folder->path);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] != '.') {
            unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
    closedir(directory);
    rmdir(folder->path);
}

// Bytes of a file in the folder, -1 when there is none.
static inline long long case_file_bytes(const CaseFolder *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    struct stat facts;
    return stat(path, &facts) == 0 ? (long long)facts.st_size : -1;
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
