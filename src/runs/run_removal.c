// The names a run gives to its files, and the walk that removes them.
#include "runs/run_removal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/file_fault.h"
#include "base/memory.h"
#include "fit/grown_network.h"
#include "runs/round_folder.h"
#include "runs/run_folder.h"

// --- names ---

// besides telemetry
static const char *const file_names[] = {
    "config.ini",       ES_RUN_MARKER_NAME, ES_RUN_LOCK_NAME,
    "evaluation.json",  "comparison.json",  "policy.safetensors",
    "last.safetensors", "wal.json",         "report.html"};
static const char *const telemetry_names[] = {ES_RUN_DATABASE_FILES, ES_RUN_EVENTS_FILE};
static const char *const sink_names[] = {"sqlite", "jsonl", "tensorboard", "prometheus", "console"};

static int starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

// One of the names, or a temporary that was to become one.
static int is_or_becomes(const char *name, const char *const *known, size_t n_known) {
    char target[ES_FILE_NAME_BYTES];
    const char *final_name = es_file_final_name(name, target);
    for (size_t i = 0; i < n_known; i++) {
        if (strcmp(final_name, known[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

// spill-<sink>.bin, or spill-<sink>-<n>.bin
static int is_spill_name(const char *name) {
    for (size_t i = 0; i < ES_COUNT_OF(sink_names); i++) {
        char start[32];
        snprintf(start, sizeof start, "spill-%s", sink_names[i]);
        if (starts_with(name, start)) {
            const char *rest = name + strlen(start);
            rest += rest[0] == '-' ? 1 + strspn(rest + 1, "0123456789") : 0;
            return strcmp(rest, ".bin") == 0;
        }
    }
    return 0;
}

static int is_telemetry_name(const char *name) {
    return is_or_becomes(name, telemetry_names, ES_COUNT_OF(telemetry_names));
}

int es_run_owns_file(const char *name) {
    return is_or_becomes(name, file_names, ES_COUNT_OF(file_names)) || is_telemetry_name(name) ||
           is_spill_name(name);
}

// before-<n>, or before-next that was to become one
static int is_backup_name(const char *name) {
    static const char start[] = "before-";
    const char *end = name + sizeof start - 1;
    return starts_with(name, start) &&
           (strcmp(end, "next") == 0 ||
            (end[0] != '\0' && strspn(end, "0123456789") == strlen(end)));
}

// --- the walk ---

EsStatus es_removal_take_file(EsRunRemoval *removal, const char *path, int64_t bytes) {
    if (!removal->is_preview && es_system_remove(AT_FDCWD, path, 0) != 0 && errno != ENOENT) {
        return ES_FAIL(IO, "cannot remove %s: %s", path, strerror(errno));
    }
    removal->bytes += bytes;
    return ES_STATUS_OK;
}

void es_removal_keep(EsRunRemoval *removal, const char *path) {
    removal->n_kept++;
    if (removal->report_kept != NULL) {
        removal->report_kept(removal->context, path);
    }
}

EsStatus es_removal_end_folder(EsRunRemoval *removal, const char *path) {
    if (!removal->is_preview && es_system_remove(AT_FDCWD, path, AT_REMOVEDIR) != 0 &&
        errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST) {
        return ES_FAIL(IO, "cannot remove the folder %s: %s", path, strerror(errno));
    }
    return ES_STATUS_OK;
}

// Remove one entry of `folder`, by the rules of that folder.
typedef EsStatus (*TakeEntry)(EsRunRemoval *removal, const char *path, const EsFolderEntry *entry);

// Go through a folder. The first failure is returned after the rest was tried.
static EsStatus walk(EsRunRemoval *removal, const char *folder, TakeEntry take) {
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    ES_TRY(es_folder_list(folder, &entries, &n_entries));
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_entries; i++) {
        char path[ES_RUN_PATH_BYTES];
        int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i].name);
        EsStatus result = length < (int)sizeof path
                              ? take(removal, path, &entries[i])
                              : ES_FAIL(IO, "the path %.100s... is too long", path);
        status = status == ES_STATUS_OK ? result : status;
    }
    es_release(entries);
    return status;
}

static EsStatus walk_and_end(EsRunRemoval *removal, const char *folder, TakeEntry take) {
    ES_TRY(walk(removal, folder, take));
    return es_removal_end_folder(removal, folder);
}

static EsStatus take_curve(EsRunRemoval *removal, const char *path, const EsFolderEntry *entry) {
    if (entry->kind == ES_FOLDER_ENTRY_FILE && starts_with(entry->name, "events.out.tfevents.")) {
        return es_removal_take_file(removal, path, entry->bytes);
    }
    es_removal_keep(removal, path);
    return ES_STATUS_OK;
}

// Curves by round, and the folder of those by environment steps.
static EsStatus take_curves(EsRunRemoval *removal, const char *path, const EsFolderEntry *entry) {
    if (entry->kind == ES_FOLDER_ENTRY_FOLDER && strcmp(entry->name, "env_steps") == 0) {
        return walk_and_end(removal, path, take_curve);
    }
    return take_curve(removal, path, entry);
}

static EsStatus take_backup(EsRunRemoval *removal, const char *path, const EsFolderEntry *entry) {
    if (entry->kind == ES_FOLDER_ENTRY_FILE && is_telemetry_name(entry->name)) {
        return es_removal_take_file(removal, path, entry->bytes);
    }
    if (entry->kind == ES_FOLDER_ENTRY_FOLDER && strcmp(entry->name, "tensorboard") == 0) {
        return walk_and_end(removal, path, take_curves);
    }
    es_removal_keep(removal, path);
    return ES_STATUS_OK;
}

static EsStatus take_checkpoint(EsRunRemoval *removal, const char *path,
                                const EsFolderEntry *entry) {
    if (entry->kind == ES_FOLDER_ENTRY_FOLDER) {
        return es_round_folder_clear(path, removal);
    }
    es_removal_keep(removal, path);
    return ES_STATUS_OK;
}

static int is_number(const char *name) {
    return name[0] != '\0' && strspn(name, "0123456789") == strlen(name);
}

static int is_network_file(const EsFolderEntry *entry) {
    static const char *const names[] = {ES_NETWORK_TENSORS_FILE, ES_NETWORK_JSON_FILE,
                                        ES_NETWORK_BEFORE_FILE, ES_NETWORK_CONFUSION_FILE};
    return entry->kind == ES_FOLDER_ENTRY_FILE &&
           is_or_becomes(entry->name, names, ES_COUNT_OF(names));
}

static EsStatus take_network_file(EsRunRemoval *removal, const char *path,
                                  const EsFolderEntry *entry) {
    if (is_network_file(entry)) {
        return es_removal_take_file(removal, path, entry->bytes);
    }
    es_removal_keep(removal, path);
    return ES_STATUS_OK;
}

// networks/<rank>/
static EsStatus take_network(EsRunRemoval *removal, const char *path, const EsFolderEntry *entry) {
    if (entry->kind == ES_FOLDER_ENTRY_FOLDER && is_number(entry->name)) {
        return walk_and_end(removal, path, take_network_file);
    }
    es_removal_keep(removal, path);
    return ES_STATUS_OK;
}

// in this order: the folder is a run until its configuration is gone
static const char *const last_names[] = {"config.ini", ES_RUN_MARKER_NAME, ES_RUN_LOCK_NAME};

static int goes_last(const char *name) {
    for (size_t i = 0; i < ES_COUNT_OF(last_names); i++) {
        if (strcmp(name, last_names[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

static EsStatus take_content(EsRunRemoval *removal, const char *path, const EsFolderEntry *entry) {
    if (goes_last(entry->name) && entry->kind == ES_FOLDER_ENTRY_FILE) {
        return ES_STATUS_OK;
    }
    if (entry->kind == ES_FOLDER_ENTRY_FILE && es_run_owns_file(entry->name)) {
        return es_removal_take_file(removal, path, entry->bytes);
    }
    if (entry->kind == ES_FOLDER_ENTRY_FOLDER && strcmp(entry->name, "checkpoints") == 0) {
        return walk_and_end(removal, path, take_checkpoint);
    }
    if (entry->kind == ES_FOLDER_ENTRY_FOLDER && strcmp(entry->name, "tensorboard") == 0) {
        return walk_and_end(removal, path, take_curves);
    }
    if (entry->kind == ES_FOLDER_ENTRY_FOLDER && strcmp(entry->name, ES_RUN_NETWORKS) == 0) {
        return walk_and_end(removal, path, take_network);
    }
    if (entry->kind == ES_FOLDER_ENTRY_FOLDER && is_backup_name(entry->name)) {
        return walk_and_end(removal, path, take_backup);
    }
    es_removal_keep(removal, path);
    return ES_STATUS_OK;
}

static EsStatus remove_last(EsRunRemoval *removal, const char *root) {
    for (size_t i = 0; i < ES_COUNT_OF(last_names); i++) {
        char path[ES_RUN_PATH_BYTES];
        struct stat info;
        snprintf(path, sizeof path, "%.*s/%s", ES_RUN_PATH_BYTES - 64, root, last_names[i]);
        if (lstat(path, &info) == 0 && S_ISREG(info.st_mode)) {
            // the few bytes of the lock are of this moment, and do not count
            int is_lock = strcmp(last_names[i], ES_RUN_LOCK_NAME) == 0;
            ES_TRY(es_removal_take_file(removal, path, is_lock ? 0 : (int64_t)info.st_size));
        }
    }
    return es_removal_end_folder(removal, root);
}

EsStatus es_run_remove(const char *path, EsRunRemoval *removal) {
    EsRunFolder *folder = NULL;
    EsStatus status = ES_STATUS_OK;
    char root[ES_RUN_PATH_BYTES];
    ES_TRY(es_run_folder_hold(path, removal->is_preview, &folder));
    snprintf(root, sizeof root, "%s", es_run_folder_root(folder));
    ES_TRY_GOTO(walk(removal, root, take_content));
    status = remove_last(removal, root);
done:
    es_run_folder_close(folder);
    return status;
}

static EsStatus take_network_stray(EsRunRemoval *removal, const char *path,
                                   const EsFolderEntry *entry) {
    return is_network_file(entry) && es_file_is_temporary(entry->name)
               ? es_removal_take_file(removal, path, entry->bytes)
               : ES_STATUS_OK;
}

static EsStatus take_network_strays(EsRunRemoval *removal, const char *path,
                                    const EsFolderEntry *entry) {
    return entry->kind == ES_FOLDER_ENTRY_FOLDER && is_number(entry->name)
               ? walk(removal, path, take_network_stray)
               : ES_STATUS_OK;
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
        } else if (entries[i].kind == ES_FOLDER_ENTRY_FOLDER &&
                   strcmp(entries[i].name, ES_RUN_NETWORKS) == 0) {
            es_run_folder_path(folder, entries[i].name, path);
            status = walk(&removal, path, take_network_strays);
        }
    }
    es_release(entries);
    return status;
}
