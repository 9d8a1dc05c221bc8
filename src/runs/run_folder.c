// Making, taking and locking run folders, and moving telemetry out of the way into before-<n>/.
#include "runs/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_fault.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/memory.h"
#include "esper/version.h"
#include "runs/run_removal.h"
#include "telemetry/sinks/run_database.h"

// for paths below a run folder: checkpoints/<round>/<name> and the ends of temporaries
#define INSIDE_BYTES 512

// runs of one kind started in one second that may meet the same four digits
#define MAX_NAME_ATTEMPTS 32

#define DEFAULT_PARENT "runs"
#define DEFAULT_NAME   DEFAULT_PARENT "/<kind>-<date>-<time>-<short id>"

// SQLite takes names of up to 512 bytes for a file, with its full path and endings of its own
#define MAX_ABSOLUTE_BYTES 480

struct EsRunFolder {
    char root[ES_RUN_PATH_BYTES - INSIDE_BYTES];
    int lock; // descriptor, -1 for one that joined
    int held; // descriptor of the root itself, which keeps its number from being used again; or -1
};

// --- names ---

static EsStatus create_object(const char *path, EsRunFolder **folder) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    if (length == 0) {
        return ES_FAIL(ARGUMENT, "the path of a run is empty");
    }
    if (length >= sizeof(*folder)->root) {
        return ES_FAIL(ARGUMENT, "the path %.100s... has %zu bytes, a run's may have %zu", path,
                       length, sizeof(*folder)->root - 1);
    }
    ES_TRY(es_allocate(sizeof **folder, (void **)folder));
    memcpy((*folder)->root, path, length);
    (*folder)->lock = (*folder)->held = -1;
    return ES_STATUS_OK;
}

static EsStatus make_name(const char *kind, char *path, size_t path_bytes) {
    uint16_t digits = 0;
    time_t now = time(NULL);
    struct tm utc;
    char date[32];
    if (getrandom(&digits, sizeof digits, 0) != (ssize_t)sizeof digits ||
        gmtime_r(&now, &utc) == NULL || strftime(date, sizeof date, "%Y%m%d-%H%M%S", &utc) == 0) {
        return ES_FAIL(IO, "cannot make a name for the run: %s", strerror(errno));
    }
    snprintf(path, path_bytes, "%s/%s-%s-%04x", DEFAULT_PARENT, kind, date, (unsigned)digits);
    return ES_STATUS_OK;
}

// --- creating ---

int es_run_has_config(const char *root) {
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    int length = snprintf(path, sizeof path, "%s/config.ini", root);
    return length < (int)sizeof path && lstat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static EsStatus fail_existing_run(const char *root) {
    EsRunSummary *summary = NULL;
    ES_TRY(es_allocate(sizeof *summary, (void **)&summary));
    EsStatus status = es_run_summarise(root, summary);
    if (status == ES_STATUS_OK && summary->is_active) {
        char holder[160];
        es_run_lock_holder(root, holder);
        status = ES_FAIL(ARGUMENT, "%s is a run already, in use by %s", root, holder);
    } else if (status == ES_STATUS_OK) {
        char saved[48] = "nothing saved";
        if (summary->last_round >= 0) {
            snprintf(saved, sizeof saved, "%lld round%s saved", (long long)summary->last_round,
                     summary->last_round == 1 ? "" : "s");
        }
        status = ES_FAIL(ARGUMENT, "%s is a run already (%s); --resume %s goes on with it", root,
                         saved, root);
    }
    es_release(summary);
    return status;
}

// The remains of a run that was killed before it had a configuration: its lock and marker, and
// perhaps a file that was to become the marker or the configuration.
static int is_remains(const char *root, const char *name) {
    char target[ES_FILE_NAME_BYTES], kind[ES_RUN_KIND_BYTES];
    const char *final_name = es_file_final_name(name, target);
    if (final_name != name) {
        return strcmp(final_name, "config.ini") == 0 || strcmp(final_name, ES_RUN_MARKER_NAME) == 0;
    }
    return (strcmp(name, ES_RUN_LOCK_NAME) == 0 && es_run_lock_is_ours(root)) ||
           (strcmp(name, ES_RUN_MARKER_NAME) == 0 &&
            es_run_marker_read(root, kind) == ES_STATUS_OK && kind[0] != '\0');
}

// A folder that was there before: OK when it is empty but for such remains.
static EsStatus check_existing(const char *root) {
    struct stat info;
    if (stat(root, &info) == 0 && !S_ISDIR(info.st_mode)) {
        return ES_FAIL(ARGUMENT, "%s is not a folder", root);
    }
    if (es_run_has_config(root)) {
        return fail_existing_run(root);
    }
    EsFolderEntry *entries = NULL;
    int n_entries = 0, n_foreign = 0;
    const char *first = NULL;
    ES_TRY(es_folder_list(root, &entries, &n_entries));
    for (int i = 0; i < n_entries; i++) {
        if (!is_remains(root, entries[i].name)) {
            first = first != NULL ? first : entries[i].name;
            n_foreign++;
        }
    }
    EsStatus status = ES_STATUS_OK;
    if (n_foreign == 1) {
        status = ES_FAIL(ARGUMENT, "%s is not empty: it holds %s", root, first);
    } else if (n_foreign > 1) {
        status = ES_FAIL(ARGUMENT, "%s is not empty: it holds %s and %d more", root, first,
                         n_foreign - 1);
    }
    es_release(entries);
    return status;
}

// Checked before anything is made: SQLite would say no more than that it cannot open the file.
static EsStatus check_length(const char *root) {
    char parent[PATH_MAX] = "";
    if (root[0] != '/' && getcwd(parent, sizeof parent) == NULL) {
        return ES_FAIL(IO, "cannot find the current folder: %s", strerror(errno));
    }
    size_t length = strlen(root) + (root[0] != '/' ? strlen(parent) + 1 : 0);
    if (length > MAX_ABSOLUTE_BYTES) {
        return ES_FAIL(ARGUMENT,
                       "the full path of the run, %.60s..., has %zu bytes; its database allows %d",
                       root, length, MAX_ABSOLUTE_BYTES);
    }
    return ES_STATUS_OK;
}

static EsStatus create_named(const char *kind, EsRunFolder **folder) {
    ES_TRY(check_length(DEFAULT_NAME));
    ES_TRY(es_folder_make(DEFAULT_PARENT));
    for (int attempt = 0; attempt < MAX_NAME_ATTEMPTS; attempt++) {
        char path[128];
        int is_made = 0;
        ES_TRY(make_name(kind, path, sizeof path));
        ES_TRY(es_folder_make_new(path, &is_made));
        if (is_made) {
            return create_object(path, folder);
        }
    }
    return ES_FAIL(IO, "no free name for a run under %s after %d attempts", DEFAULT_PARENT,
                   MAX_NAME_ATTEMPTS);
}

static EsStatus take(EsRunFolder *folder) {
    ES_TRY(es_run_lock_open(folder->root, &folder->lock));
    folder->held = open(folder->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return folder->held >= 0 ? ES_STATUS_OK
                             : ES_FAIL(IO, "cannot open %s: %s", folder->root, strerror(errno));
}

// Checks whether a run may begin under this name.
static EsStatus check_place(const char *root) {
    struct stat info;
    ES_TRY(check_length(root));
    return lstat(root, &info) == 0 ? check_existing(root) : ES_STATUS_OK;
}

EsStatus es_run_folder_check_new(const char *path) {
    EsRunFolder *folder = NULL;
    if (path == NULL) {
        return check_length(DEFAULT_NAME);
    }
    ES_TRY(create_object(path, &folder));
    EsStatus status = check_place(folder->root);
    es_run_folder_close(folder);
    return status;
}

EsStatus es_run_folder_create(const char *path, const char *kind, EsRunFolder **folder) {
    *folder = NULL;
    ES_ASSERT(es_run_kind_is_valid(kind));
    EsStatus status = ES_STATUS_OK;
    if (path == NULL) {
        ES_TRY_GOTO(create_named(kind, folder));
    } else {
        ES_TRY_GOTO(create_object(path, folder));
        ES_TRY_GOTO(check_place((*folder)->root));
        ES_TRY_GOTO(es_folder_make((*folder)->root));
    }
    ES_TRY_GOTO(take(*folder));
    // another process may have begun here between the first look and the lock
    ES_TRY_GOTO(check_existing((*folder)->root));
    ES_TRY_GOTO(es_run_remove_strays(*folder));
    ES_TRY_GOTO(es_run_marker_write((*folder)->root, kind));
    return ES_STATUS_OK;
done:
    es_run_folder_close(*folder);
    *folder = NULL;
    return status;
}

// --- opening ---

static EsStatus check_folder(const char *root) {
    struct stat info;
    if (stat(root, &info) != 0) {
        return ES_FAIL(INPUT, "there is no run %s: %s", root, strerror(errno));
    }
    return S_ISDIR(info.st_mode) ? ES_STATUS_OK : ES_FAIL(INPUT, "%s is not a folder", root);
}

EsStatus es_run_folder_join(const char *path, EsRunFolder **folder) {
    *folder = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(create_object(path, folder));
    ES_TRY_GOTO(check_folder((*folder)->root));
    return ES_STATUS_OK;
done:
    es_run_folder_close(*folder);
    *folder = NULL;
    return status;
}

// Writing through a link would change a file outside the run.
static EsStatus check_links(const char *root) {
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    ES_TRY(es_folder_list(root, &entries, &n_entries));
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < n_entries && status == ES_STATUS_OK; i++) {
        if (entries[i].kind == ES_FOLDER_ENTRY_OTHER &&
            (es_run_owns_file(entries[i].name) || strcmp(entries[i].name, ES_RUN_NETWORKS) == 0)) {
            status = ES_FAIL(INPUT,
                             "%s/%s is not a regular file; a run writes only into files of its "
                             "own: put the file itself there",
                             root, entries[i].name);
        }
    }
    es_release(entries);
    return status;
}

EsStatus es_run_folder_open(const char *path, EsRunFolder **folder) {
    EsStatus status = ES_STATUS_OK;
    char kind[ES_RUN_KIND_BYTES];
    ES_TRY(es_run_folder_join(path, folder));
    ES_TRY_GOTO(check_links((*folder)->root));
    if (!es_run_has_config((*folder)->root)) {
        status = ES_FAIL(INPUT, "%s is not a run folder (config.ini is missing)", (*folder)->root);
        goto done;
    }
    // one that is not ours, or of a later program, is not overwritten
    ES_TRY_GOTO(es_run_marker_read((*folder)->root, kind));
    ES_TRY_GOTO(take(*folder));
    return ES_STATUS_OK;
done:
    es_run_folder_close(*folder);
    *folder = NULL;
    return status;
}

EsStatus es_run_folder_hold(const char *path, int is_preview, EsRunFolder **folder) {
    EsStatus status = ES_STATUS_OK;
    struct stat info;
    ES_TRY(es_run_folder_join(path, folder));
    const char *root = (*folder)->root;
    // without slashes at the end, which would lead through a link
    if (lstat(root, &info) != 0) {
        status = ES_FAIL(IO, "cannot look at %s: %s", root, strerror(errno));
        goto done;
    }
    if (!S_ISDIR(info.st_mode)) {
        status = ES_FAIL(ARGUMENT, "%s is a link; name the run itself", root);
        goto done;
    }
    ES_TRY_GOTO(es_run_marker_verify(root));
    if (!is_preview) {
        ES_TRY_GOTO(es_run_lock_open(root, &(*folder)->lock));
    } else if (es_run_lock_is_held(root)) {
        char holder[160];
        es_run_lock_holder(root, holder);
        status = ES_FAIL(INPUT, "%s is in use by %s", root, holder);
        goto done;
    }
    return ES_STATUS_OK;
done:
    es_run_folder_close(*folder);
    *folder = NULL;
    return status;
}

void es_run_folder_close(EsRunFolder *folder) {
    if (folder != NULL) {
        es_run_lock_close(folder->lock);
        if (folder->held >= 0) {
            close(folder->held);
        }
        es_release(folder);
    }
}

EsStatus es_run_folder_check(const EsRunFolder *folder, char moved_to[ES_RUN_PATH_BYTES]) {
    struct stat info;
    char link[64];
    moved_to[0] = '\0';
    if (folder->held < 0 || es_path_names(folder->root, folder->held)) {
        return ES_STATUS_OK;
    }
    if (fstat(folder->held, &info) == 0 && info.st_nlink == 0) {
        return ES_FAIL(IO, "the run folder %s was removed while the run went on", folder->root);
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder->held);
    ssize_t length = readlink(link, moved_to, ES_RUN_PATH_BYTES - 1);
    moved_to[ES_MAX(length, 0)] = '\0';
    return ES_FAIL(IO, "the run folder %s was renamed%s%s while the run went on", folder->root,
                   length > 0 ? " to " : "", moved_to);
}

const char *es_run_folder_root(const EsRunFolder *folder) { return folder->root; }

const char *es_run_folder_name(const EsRunFolder *folder) {
    const char *slash = strrchr(folder->root, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : folder->root;
}

void es_run_folder_path(const EsRunFolder *folder, const char *name, char path[ES_RUN_PATH_BYTES]) {
    int length = snprintf(path, ES_RUN_PATH_BYTES, "%s/%s", folder->root, name);
    ES_ASSERT(length > 0 && length < ES_RUN_PATH_BYTES);
}

// --- backups ---

// Files go into before-next/ first, which gets its number when all are there: a database must not
// be parted from its log when the program is killed in between.

#define MAX_BACKUPS 10000

// the database with its companions first
static const char *const telemetry_names[] = {ES_RUN_DATABASE_FILES, ES_RUN_EVENTS_FILE,
                                              "tensorboard"};
#define N_DATABASE_NAMES ((int)ES_COUNT_OF(telemetry_names) - 2)

static int exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

static EsStatus move(const char *from, const char *to) {
    return es_system_rename(from, to) == 0
               ? ES_STATUS_OK
               : ES_FAIL(IO, "cannot move %s to %s: %s", from, to, strerror(errno));
}

// Give the folder `next` the first number that is free.
static EsStatus number_folder(const EsRunFolder *folder, const char *next,
                              char backup[ES_RUN_PATH_BYTES]) {
    for (int n = 1; n <= MAX_BACKUPS; n++) {
        char name[32];
        snprintf(name, sizeof name, "before-%d", n);
        es_run_folder_path(folder, name, backup);
        if (!exists(backup)) {
            ES_TRY(move(next, backup));
            return es_folder_sync(es_run_folder_root(folder));
        }
    }
    return ES_FAIL(IO, "%s has %d folders before-<n>; remove some", es_run_folder_root(folder),
                   MAX_BACKUPS);
}

static EsStatus back_up(const EsRunFolder *folder, int n_names, char backup[ES_RUN_PATH_BYTES]) {
    char next[ES_RUN_PATH_BYTES];
    es_run_folder_path(folder, "before-next", next);
    for (int i = 0; i < n_names; i++) {
        char from[ES_RUN_PATH_BYTES], inside[64], to[ES_RUN_PATH_BYTES];
        es_run_folder_path(folder, telemetry_names[i], from);
        snprintf(inside, sizeof inside, "before-next/%s", telemetry_names[i]);
        es_run_folder_path(folder, inside, to);
        if (exists(from)) {
            ES_TRY(es_folder_make(next));
            ES_TRY(move(from, to));
        }
    }
    backup[0] = '\0';
    return exists(next) ? number_folder(folder, next, backup) : ES_STATUS_OK;
}

EsStatus es_run_back_up_database(const EsRunFolder *folder, char backup[ES_RUN_PATH_BYTES]) {
    return back_up(folder, N_DATABASE_NAMES, backup);
}

EsStatus es_run_back_up_telemetry(const EsRunFolder *folder, char backup[ES_RUN_PATH_BYTES]) {
    return back_up(folder, (int)ES_COUNT_OF(telemetry_names), backup);
}

// --- the marker ---

// Writing, reading and verifying the marker of a run folder.

#define FORMAT "esper-run"

// far more than a marker has
#define MAX_MARKER_BYTES 4096

int es_run_kind_is_valid(const char *kind) {
    size_t length = strlen(kind);
    return length >= 1 && length < ES_RUN_KIND_BYTES &&
           strspn(kind, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               length;
}

static EsStatus name_file(const char *root, const char *name, char path[ES_RUN_PATH_BYTES]) {
    int length = snprintf(path, ES_RUN_PATH_BYTES, "%s/%s", root, name);
    return length > 0 && length < ES_RUN_PATH_BYTES
               ? ES_STATUS_OK
               : ES_FAIL(ARGUMENT, "the path %.100s... is too long", root);
}

EsStatus es_run_marker_write(const char *root, const char *kind) {
    ES_ASSERT(es_run_kind_is_valid(kind));
    char path[ES_RUN_PATH_BYTES], text[256];
    ES_TRY(name_file(root, ES_RUN_MARKER_NAME, path));
    int length = snprintf(text, sizeof text,
                          "{\"format\": \"%s\", \"schema\": %d, \"kind\": \"%s\", "
                          "\"version\": \"%s\"}\n",
                          FORMAT, ES_RUN_MARKER_SCHEMA, kind, ES_VERSION);
    return es_file_write_all(path, text, (size_t)length);
}

static EsStatus read_fields(const char *path, const json_t *marker, char kind[ES_RUN_KIND_BYTES]) {
    const char *format = json_string_value(json_object_get(marker, "format"));
    const char *named = json_string_value(json_object_get(marker, "kind"));
    const json_t *schema = json_object_get(marker, "schema");
    if (format == NULL || strcmp(format, FORMAT) != 0 || !json_is_integer(schema) ||
        json_integer_value(schema) < 1) {
        return ES_FAIL(INPUT, "%s is not the marker of a run", path);
    }
    if (json_integer_value(schema) > ES_RUN_MARKER_SCHEMA) {
        return ES_FAIL(INPUT, "%s has schema %lld; this program knows schema %d", path,
                       (long long)json_integer_value(schema), ES_RUN_MARKER_SCHEMA);
    }
    if (named == NULL || !es_run_kind_is_valid(named)) {
        return ES_FAIL(INPUT, "%s does not name the kind of a run", path);
    }
    strcpy(kind, named);
    return ES_STATUS_OK;
}

EsStatus es_run_marker_read(const char *root, char kind[ES_RUN_KIND_BYTES]) {
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    void *text = NULL;
    size_t bytes = 0;
    kind[0] = '\0';
    ES_TRY(name_file(root, ES_RUN_MARKER_NAME, path));
    if (lstat(path, &info) != 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? ES_STATUS_OK
                   : ES_FAIL(IO, "cannot look at %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return ES_FAIL(INPUT, "%s is not a regular file", path);
    }
    ES_TRY(es_file_read_all(path, MAX_MARKER_BYTES, &text, &bytes));
    json_error_t error;
    json_t *marker = NULL;
    EsStatus status = es_json_parse(path, text, bytes, &marker, &error);
    es_release(text);
    // one that is not JSON has no fields
    status = status == ES_STATUS_MEMORY ? status : read_fields(path, marker, kind);
    json_decref(marker);
    return status;
}

// A database that cannot be read is no proof that it is ours.
static EsStatus verify_database(const char *root) {
    char path[ES_RUN_PATH_BYTES];
    struct stat info;
    ES_TRY(name_file(root, "run.db", path));
    if (lstat(path, &info) != 0) {
        return ES_STATUS_OK;
    }
    if (!S_ISREG(info.st_mode)) {
        return ES_FAIL(INPUT, "%s is not a regular file", path);
    }
    EsRunDatabase *database = NULL;
    EsStatus status = es_run_database_open(path, &database);
    if (status == ES_STATUS_UNSUPPORTED) {
        return ES_STATUS_OK;
    }
    ES_TRY(status);
    if (!es_run_database_is_marked(database)) {
        status = ES_FAIL(INPUT, "%s does not have the application id of a run", path);
    }
    es_run_database_close(database);
    return status;
}

EsStatus es_run_marker_verify(const char *root) {
    char kind[ES_RUN_KIND_BYTES];
    ES_TRY(es_run_marker_read(root, kind));
    if (kind[0] == '\0') {
        return ES_FAIL(INPUT, "%s has no %s", root, ES_RUN_MARKER_NAME);
    }
    return verify_database(root);
}

// --- the lock ---

// Taking, asking about and describing the lock of a run folder.

// a lock file that another process removes between our open and our lock
#define MAX_ATTEMPTS 8

static int name_lock(const char *root, char path[ES_RUN_PATH_BYTES]) {
    int length = snprintf(path, ES_RUN_PATH_BYTES, "%s/%s", root, ES_RUN_LOCK_NAME);
    return length > 0 && length < ES_RUN_PATH_BYTES;
}

// Read the process and host of a lock; 0 when it does not hold them. *bytes is the size of the
// file, -1 without one.
static int read_holder(const char *root, long *process, char host[65], int64_t *bytes) {
    char path[ES_RUN_PATH_BYTES], found[97] = "", end = '\0';
    struct stat info;
    *bytes = -1;
    int descriptor =
        name_lock(root, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW) : -1;
    if (descriptor < 0) {
        return 0;
    }
    ssize_t n_read = read(descriptor, found, sizeof found - 1);
    if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) {
        *bytes = (int64_t)info.st_size;
    }
    close(descriptor);
    // written by us, but a person may have edited it
    return n_read > 0 && sscanf(found, "%ld %64[A-Za-z0-9._-]%c", process, host, &end) == 3 &&
           end == '\n';
}

void es_run_lock_holder(const char *root, char text[160]) {
    long process = 0;
    int64_t bytes;
    char host[65] = "";
    if (read_holder(root, &process, host, &bytes)) {
        snprintf(text, 160, "process %ld on %s", process, host);
    } else {
        strcpy(text, "another process");
    }
}

int es_run_lock_is_ours(const char *root) {
    long process = 0;
    int64_t bytes;
    char host[65] = "", expected[128];
    if (!read_holder(root, &process, host, &bytes)) {
        return bytes == 0;
    }
    return bytes == snprintf(expected, sizeof expected, "%ld %s\n", process, host);
}

static int set_lock(int descriptor) {
    struct flock wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int result;
    do {
        result = fcntl(descriptor, F_OFD_SETLK, &wanted);
    } while (result != 0 && errno == EINTR);
    return result;
}

static EsStatus write_holder(int descriptor, const char *path) {
    char host[64] = "", text[96];
    gethostname(host, sizeof host - 1);
    int length = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), host);
    if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, text, (size_t)length, 0) != length) {
        return ES_FAIL(IO, "cannot write %s: %s", path, strerror(errno));
    }
    return ES_STATUS_OK;
}

EsStatus es_run_lock_open(const char *root, int *descriptor) {
    *descriptor = -1;
    char path[ES_RUN_PATH_BYTES], holder[160];
    if (!name_lock(root, path)) {
        return ES_FAIL(ARGUMENT, "the path %.100s... is too long", root);
    }
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        int opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (opened < 0) {
            return ES_FAIL(IO, "cannot open %s: %s", path, strerror(errno));
        }
        if (set_lock(opened) != 0) {
            int error = errno;
            close(opened);
            if (error != EAGAIN && error != EACCES) {
                return ES_FAIL(IO, "cannot lock %s: %s", path, strerror(error));
            }
            es_run_lock_holder(root, holder);
            return ES_FAIL(INPUT, "%s is in use by %s", root, holder);
        }
        if (es_path_names(path, opened)) {
            EsStatus status = write_holder(opened, path);
            if (status != ES_STATUS_OK) {
                close(opened);
                return status;
            }
            *descriptor = opened;
            return ES_STATUS_OK;
        }
        close(opened);
    }
    return ES_FAIL(IO, "cannot lock %s: it is removed again and again", path);
}

void es_run_lock_close(int descriptor) {
    if (descriptor >= 0) {
        // the text would name a process that is no holder any more; a failure only leaves it there
        if (ftruncate(descriptor, 0) != 0) {
            errno = 0;
        }
        close(descriptor);
    }
}

int es_run_lock_is_held(const char *root) {
    char path[ES_RUN_PATH_BYTES];
    int descriptor = name_lock(root, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (descriptor < 0) {
        return 0;
    }
    struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int is_held = fcntl(descriptor, F_OFD_GETLK, &asked) == 0 && asked.l_type != F_UNLCK;
    close(descriptor);
    return is_held;
}
