// Folders: made with their parents, listed, measured, removed. Symbolic links inside are handled as
// links and never followed.
//
//     ES_TRY(es_folder_make("runs/a/checkpoints"));
//     EsFolderEntry *entries; int n; ES_TRY(es_folder_list("runs/a", &entries, &n));
//     es_release(entries);
#ifndef ES_BASE_FOLDER_H
#define ES_BASE_FOLDER_H

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// bytes of a name with its end, on every file system of Linux
#define ES_FILE_NAME_BYTES 256

typedef enum EsFolderEntryKind {
    ES_FOLDER_ENTRY_FILE,
    ES_FOLDER_ENTRY_FOLDER,
    ES_FOLDER_ENTRY_OTHER // link, pipe, socket, device
} EsFolderEntryKind;

typedef struct EsFolderEntry {
    char name[ES_FILE_NAME_BYTES];
    EsFolderEntryKind kind;
    int64_t bytes;          // of a file, 0 for everything else
    int64_t changed_unix_s; // last change of the content
} EsFolderEntry;

typedef struct EsFolderSize {
    int64_t n_files; // regular ones, at any depth
    int64_t bytes;
    int64_t changed_unix_s; // of the newest file, 0 when there is none
} EsFolderSize;

// Make a folder and the parents it lacks, each one durable in the one above. OK when it is there
// already; IO when something else stands in the way.
EsStatus es_folder_make(const char *path);

// Make a folder whose parent exists. *is_made says whether it is new; a folder or anything else of
// that name is left alone.
EsStatus es_folder_make_new(const char *path, int *is_made);

// Returns whether `path` names the file or folder that is open as `descriptor`, rather than another
// one or nothing.
int es_path_names(const char *path, int descriptor);

// Make the names in a folder durable.
EsStatus es_folder_sync(const char *path);

// The same for the folder that holds `path`.
EsStatus es_folder_sync_parent(const char *path);

// Lists a folder's entries by name; *entries is released with es_release, also when there are none.
// An entry that goes away meanwhile is left out.
EsStatus es_folder_list(const char *path, EsFolderEntry **entries, int *n_entries);

EsStatus es_folder_measure(const char *path, EsFolderSize *size);

// Removes a folder and everything in it, or a single file; a link goes, its target stays. OK when
// there is nothing. Entries that cannot be removed stay, and the first failure is reported.
EsStatus es_folder_remove(const char *path);

ES_EXTERN_C_END

#endif
