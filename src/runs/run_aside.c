// Files go into before-next/ first, which gets its number when all are there: a database must not
// be parted from its log when the program is killed in between.
#include "runs/run_aside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/file_fault.h"
#include "base/folder.h"
#include "base/memory.h"
#include "runs/run_removal.h"

#define MAX_ASIDES 10000

// the database with its companions first
static const char *const names[] = {ES_RUN_DATABASE_FILES, ES_RUN_EVENTS_FILE, "tensorboard"};
#define N_DATABASE_NAMES ((int)ES_COUNT_OF(names) - 2)

static int exists(const char *path) {
    struct stat facts;
    return lstat(path, &facts) == 0;
}

static EsStatus move(const char *from, const char *to) {
    return es_system_rename(from, to) == 0
               ? ES_STATUS_OK
               : ES_FAIL(IO, "cannot move %s to %s: %s", from, to, strerror(errno));
}

// Give the folder `next` the first number that is free.
static EsStatus number_folder(const EsRunFolder *folder, const char *next,
                              char aside[ES_RUN_PATH_BYTES]) {
    for (int n = 1; n <= MAX_ASIDES; n++) {
        char name[32];
        snprintf(name, sizeof name, "before-%d", n);
        es_run_folder_path(folder, name, aside);
        if (!exists(aside)) {
            ES_TRY(move(next, aside));
            return es_folder_sync(es_run_folder_root(folder));
        }
    }
    return ES_FAIL(IO, "%s has %d folders before-<n>; remove some", es_run_folder_root(folder),
                   MAX_ASIDES);
}

static EsStatus set_aside(const EsRunFolder *folder, int n_names, char aside[ES_RUN_PATH_BYTES]) {
    char next[ES_RUN_PATH_BYTES];
    es_run_folder_path(folder, "before-next", next);
    for (int i = 0; i < n_names; i++) {
        char from[ES_RUN_PATH_BYTES], inside[64], to[ES_RUN_PATH_BYTES];
        es_run_folder_path(folder, names[i], from);
        snprintf(inside, sizeof inside, "before-next/%s", names[i]);
        es_run_folder_path(folder, inside, to);
        if (exists(from)) {
            ES_TRY(es_folder_make(next));
            ES_TRY(move(from, to));
        }
    }
    aside[0] = '\0';
    return exists(next) ? number_folder(folder, next, aside) : ES_STATUS_OK;
}

EsStatus es_run_set_database_aside(const EsRunFolder *folder, char aside[ES_RUN_PATH_BYTES]) {
    return set_aside(folder, N_DATABASE_NAMES, aside);
}

EsStatus es_run_set_telemetry_aside(const EsRunFolder *folder, char aside[ES_RUN_PATH_BYTES]) {
    return set_aside(folder, (int)ES_COUNT_OF(names), aside);
}

EsStatus es_run_remove_strays(const EsRunFolder *folder) {
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    ES_TRY(es_folder_list(es_run_folder_root(folder), &entries, &n_entries));
    EsRunRemoval removal = {.is_preview = 0};
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_entries && status == ES_STATUS_OK; i++) {
        char path[ES_RUN_PATH_BYTES];
        if (entries[i].kind == ES_FOLDER_ENTRY_FILE && es_file_is_temporary(entries[i].name) &&
            es_run_owns_file(entries[i].name)) {
            es_run_folder_path(folder, entries[i].name, path);
            status = es_removal_take_file(&removal, path, entries[i].bytes);
        }
    }
    es_release(entries);
    return status;
}
