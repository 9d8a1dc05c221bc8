// Folders: made with their parents, listed in order, removed with their contents, synced to disk.
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_fault.h"
#include "base/memory.h"

// one descriptor is open per level of a tree
#define MAX_DEPTH 64

// --- making ---

int es_path_names(const char *path, int descriptor) {
    struct stat held, named;
    return fstat(descriptor, &held) == 0 && stat(path, &named) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

EsStatus es_folder_sync(const char *path) {
    int descriptor = es_system_open_retrying(path, O_RDONLY | O_DIRECTORY);
    int failed = descriptor < 0;
    while (!failed && es_system_sync_folder(descriptor) != 0) {
        // EINVAL: a file system whose folders cannot be synced
        if (errno == EINVAL) {
            break;
        }
        failed = errno != EINTR;
    }
    int error = errno;
    if (descriptor >= 0) {
        close(descriptor);
    }
    return failed ? ES_FAIL(IO, "the folder %s cannot be made durable: %s", path, strerror(error))
                  : ES_STATUS_OK;
}

EsStatus es_folder_sync_parent(const char *path) {
    char *parent = NULL;
    size_t length = strlen(path);
    ES_TRY(es_allocate(length + 2, (void **)&parent));
    memcpy(parent, path, length + 1);
    while (length > 1 && parent[length - 1] == '/') {
        parent[--length] = '\0';
    }
    char *slash = strrchr(parent, '/');
    if (slash == NULL) {
        strcpy(parent, ".");
    } else {
        slash[slash == parent ? 1 : 0] = '\0';
    }
    EsStatus status = es_folder_sync(parent);
    es_release(parent);
    return status;
}

EsStatus es_folder_make_new(const char *path, int *is_made) {
    int result;
    do {
        result = es_system_make_folder(path, 0777);
    } while (result != 0 && errno == EINTR);
    *is_made = result == 0;
    if (result != 0) {
        return errno == EEXIST
                   ? ES_STATUS_OK
                   : ES_FAIL(IO, "cannot make the folder %s: %s", path, strerror(errno));
    }
    return es_folder_sync_parent(path);
}

static int is_folder(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

// Makes one level. An existing folder is not touched: its own parent may not be ours to write in.
static EsStatus make_level(const char *path) {
    if (is_folder(path)) {
        return ES_STATUS_OK;
    }
    int is_made = 0;
    ES_TRY(es_folder_make_new(path, &is_made));
    return is_made || is_folder(path)
               ? ES_STATUS_OK
               : ES_FAIL(IO, "cannot make the folder %s: there is something else of that name",
                         path);
}

EsStatus es_folder_make(const char *path) {
    char *level = NULL;
    size_t bytes = strlen(path) + 1;
    ES_TRY(es_allocate(bytes, (void **)&level));
    memcpy(level, path, bytes);
    EsStatus status = ES_STATUS_OK;
    for (size_t i = 1; i + 1 < bytes && status == ES_STATUS_OK; i++) {
        if (level[i] == '/' && level[i - 1] != '/') {
            level[i] = '\0';
            status = make_level(level);
            level[i] = '/';
        }
    }
    if (status == ES_STATUS_OK) {
        status = make_level(level);
    }
    es_release(level);
    return status;
}

// --- listing ---

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const EsFolderEntry *)a)->name, ((const EsFolderEntry *)b)->name);
}

// Describe the entry `name`; 0 when it has gone.
static int describe_entry(int folder, const char *name, EsFolderEntry *entry) {
    struct stat facts;
    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        return 0;
    }
    memset(entry, 0, sizeof *entry);
    memcpy(entry->name, name, strnlen(name, sizeof entry->name - 1));
    entry->kind = S_ISREG(facts.st_mode)   ? ES_FOLDER_ENTRY_FILE
                  : S_ISDIR(facts.st_mode) ? ES_FOLDER_ENTRY_FOLDER
                                           : ES_FOLDER_ENTRY_OTHER;
    entry->bytes = S_ISREG(facts.st_mode) ? (int64_t)facts.st_size : 0;
    entry->changed_unix_s = (int64_t)facts.st_mtime;
    return 1;
}

static EsStatus grow_entries(EsFolderEntry **entries, int n_entries, int *capacity) {
    if (n_entries < *capacity) {
        return ES_STATUS_OK;
    }
    EsFolderEntry *larger = NULL;
    int wanted = *capacity == 0 ? 16 : 2 * *capacity;
    ES_TRY(es_allocate(sizeof *larger * (size_t)wanted, (void **)&larger));
    if (n_entries > 0) {
        memcpy(larger, *entries, sizeof *larger * (size_t)n_entries);
    }
    es_release(*entries);
    *entries = larger;
    *capacity = wanted;
    return ES_STATUS_OK;
}

// All entries of an open folder; the descriptor stays open. `path` is for messages.
static EsStatus list_open(int descriptor, const char *path, EsFolderEntry **entries,
                          int *n_entries) {
    *entries = NULL;
    *n_entries = 0;
    int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    DIR *handle = own >= 0 ? fdopendir(own) : NULL;
    if (handle == NULL) {
        EsStatus failed = errno == ENOMEM
                              ? ES_FAIL(MEMORY, "not enough memory to list the folder %s", path)
                              : ES_FAIL(IO, "cannot list the folder %s: %s", path, strerror(errno));
        if (own >= 0) {
            close(own);
        }
        return failed;
    }
    int capacity = 0;
    EsStatus status = grow_entries(entries, 0, &capacity);
    while (status == ES_STATUS_OK) {
        errno = 0;
        struct dirent *found = readdir(handle);
        if (found == NULL) {
            status = errno == 0
                         ? ES_STATUS_OK
                         : ES_FAIL(IO, "cannot list the folder %s: %s", path, strerror(errno));
            break;
        }
        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0) {
            continue;
        }
        status = grow_entries(entries, *n_entries, &capacity);
        if (status == ES_STATUS_OK) {
            *n_entries += describe_entry(descriptor, found->d_name, &(*entries)[*n_entries]);
        }
    }
    closedir(handle);
    if (status != ES_STATUS_OK) {
        es_release(*entries);
        *entries = NULL;
        *n_entries = 0;
        return status;
    }
    qsort(*entries, (size_t)*n_entries, sizeof **entries, compare_entries);
    return ES_STATUS_OK;
}

static EsStatus open_folder(const char *path, int extra_flags, int *descriptor) {
    *descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | extra_flags);
    return *descriptor >= 0 ? ES_STATUS_OK
                            : ES_FAIL(IO, "cannot open the folder %s: %s", path, strerror(errno));
}

EsStatus es_folder_list(const char *path, EsFolderEntry **entries, int *n_entries) {
    *entries = NULL;
    *n_entries = 0;
    int descriptor = -1;
    ES_TRY(open_folder(path, 0, &descriptor));
    EsStatus status = list_open(descriptor, path, entries, n_entries);
    close(descriptor);
    return status;
}

// --- whole trees ---

static EsStatus measure_open(int descriptor, const char *path, int depth, EsFolderSize *size) {
    if (depth == MAX_DEPTH) {
        return ES_FAIL(IO, "%s holds folders more than %d deep", path, MAX_DEPTH);
    }
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    ES_TRY(list_open(descriptor, path, &entries, &n_entries));
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_entries && status == ES_STATUS_OK; i++) {
        if (entries[i].kind == ES_FOLDER_ENTRY_FILE) {
            size->n_files++;
            size->bytes += entries[i].bytes;
            size->changed_unix_s = ES_MAX(size->changed_unix_s, entries[i].changed_unix_s);
        } else if (entries[i].kind == ES_FOLDER_ENTRY_FOLDER) {
            int inner = openat(descriptor, entries[i].name,
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (inner >= 0) {
                status = measure_open(inner, path, depth + 1, size);
                close(inner);
            } else if (errno != ENOENT) {
                status = ES_FAIL(IO, "cannot open the folder %s inside %s: %s", entries[i].name,
                                 path, strerror(errno));
            }
        }
    }
    es_release(entries);
    return status;
}

EsStatus es_folder_measure(const char *path, EsFolderSize *size) {
    memset(size, 0, sizeof *size);
    int descriptor = -1;
    ES_TRY(open_folder(path, 0, &descriptor));
    EsStatus status = measure_open(descriptor, path, 0, size);
    close(descriptor);
    return status;
}

static EsStatus remove_open(int descriptor, const char *path, int depth);

static EsStatus remove_entry(int folder, const EsFolderEntry *entry, const char *path, int depth) {
    int is_inner = entry->kind == ES_FOLDER_ENTRY_FOLDER;
    if (is_inner) {
        int inner = openat(folder, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0) {
            return errno == ENOENT ? ES_STATUS_OK
                                   : ES_FAIL(IO, "cannot open the folder %s inside %s: %s",
                                             entry->name, path, strerror(errno));
        }
        EsStatus status = remove_open(inner, path, depth + 1);
        close(inner);
        ES_TRY(status);
    }
    if (es_system_remove(folder, entry->name, is_inner ? AT_REMOVEDIR : 0) != 0 &&
        errno != ENOENT) {
        return ES_FAIL(IO, "cannot remove %s inside %s: %s", entry->name, path, strerror(errno));
    }
    return ES_STATUS_OK;
}

static EsStatus remove_open(int descriptor, const char *path, int depth) {
    if (depth == MAX_DEPTH) {
        return ES_FAIL(IO, "%s holds folders more than %d deep", path, MAX_DEPTH);
    }
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    ES_TRY(list_open(descriptor, path, &entries, &n_entries));
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_entries; i++) {
        EsStatus result = remove_entry(descriptor, &entries[i], path, depth);
        status = status == ES_STATUS_OK ? result : status;
    }
    es_release(entries);
    return status;
}

EsStatus es_folder_remove(const char *path) {
    struct stat facts;
    if (lstat(path, &facts) != 0) {
        return errno == ENOENT ? ES_STATUS_OK
                               : ES_FAIL(IO, "cannot remove %s: %s", path, strerror(errno));
    }
    int is_tree = S_ISDIR(facts.st_mode);
    if (is_tree) {
        int descriptor = -1;
        ES_TRY(open_folder(path, O_NOFOLLOW, &descriptor));
        EsStatus status = remove_open(descriptor, path, 0);
        close(descriptor);
        ES_TRY(status);
    }
    if (es_system_remove(AT_FDCWD, path, is_tree ? AT_REMOVEDIR : 0) != 0 && errno != ENOENT) {
        return ES_FAIL(IO, "cannot remove %s: %s", path, strerror(errno));
    }
    return ES_STATUS_OK;
}
