// Removing the files of a run, by name, and nothing else.
//
// Every file and folder is compared with the names that a run writes (docs/file-formats.md). Others
// stay and are reported, with the folders that hold them; links are never followed. The same walk
// previews: it counts without removing.
//
//     EsRunRemoval removal = {.is_preview = 1};
//     ES_TRY(es_run_remove("runs/old", &removal));
//     printf("%lld bytes\n", (long long)removal.bytes);
#ifndef ES_RUNS_RUN_REMOVAL_H
#define ES_RUNS_RUN_REMOVAL_H

#include <stdint.h>

#include "base/folder.h"
#include "esper/status.h"

struct EsRunFolder;

typedef struct EsRunRemoval {
    int is_preview; // count, and remove nothing
    int64_t bytes;  // of the files removed
    int n_kept;     // entries that are not the run's: a folder of others counts once
    void (*report_kept)(void *context, const char *path); // nullable; called for each of them
    void *context;
} EsRunRemoval;

// Deletes a run that is not locked. INPUT, and nothing is touched, unless the folder is verified to
// be a run of ours (es_run_marker_verify). config.ini and the marker go last, so that a removal
// that was interrupted can be repeated. The folder itself goes when nothing is left in it.
EsStatus es_run_remove(const char *path, EsRunRemoval *removal);

// Removes the temporaries that a killed process has left of the run's own files; everything else in
// the folder stays. The caller holds the run's lock.
EsStatus es_run_remove_strays(const struct EsRunFolder *folder);

// Returns whether a run gives this name to a file directly in its folder, or to a temporary beside
// it.
int es_run_owns_file(const char *name);

// --- for walks over other folders ---

// Remove one file, or count it.
EsStatus es_removal_take_file(EsRunRemoval *removal, const char *path, int64_t bytes);

// Count and report an entry that stays.
void es_removal_keep(EsRunRemoval *removal, const char *path);

// Remove a folder if it is empty by now.
EsStatus es_removal_end_folder(EsRunRemoval *removal, const char *path);

#endif
