// Reading and replacing whole files. A writer decides once, when it opens, between two ways: a
// temporary that takes the target's place, or writing through into something that must not be
// replaced.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_fault.h"
#include "base/folder.h"
#include "base/memory.h"

// names a stale temporary of a killed process with the same number may hold
#define MAX_NAME_ATTEMPTS 100

// the most one read or write call is asked for; Linux moves at most 2 GiB - 4 KiB at once
#define MAX_TRANSFER_BYTES ((size_t)1 << 30)

// as many links as the kernel follows
#define MAX_LINKS 40

// Bytes of one append.
typedef struct HeldBlock {
    struct HeldBlock *next;
    size_t n_bytes;
    unsigned char bytes[];
} HeldBlock;

typedef struct HeldFile {
    struct HeldFile *next;
    char *path;        // owned
    HeldBlock *blocks; // owned, in order
    HeldBlock **end;   // where the next one goes
    size_t n_bytes;
} HeldFile;

struct EsHeldFiles {
    HeldFile *first; // owned; committed files, in order
    HeldFile **end;  // where the next one goes
};

// the files that writers of this thread belong to; NULL: they go to disk
static _Thread_local EsHeldFiles *holder;

// the files that readers of this thread look into first; NULL: they read from disk
static _Thread_local const EsHeldFiles *source;

struct EsFileWriter {
    EsHeldFiles *files; // borrowed; NULL: on disk
    HeldFile *held;     // owned until commit; NULL on disk
    char *path;         // owned; without links at its end, unless written through
    char *temporary;    // owned; "" once it no longer exists, or when written through
    int descriptor;     // -1 once closed
    int is_through;     // no temporary: `descriptor` is the target itself
    mode_t mode;        // of the file that is replaced, 0 when there is none
    EsStatus status;    // first failure, repeated by commit
};

struct EsFileReader {
    const HeldFile *held; // borrowed; NULL: on disk
    char *path;           // owned
    int descriptor;
    uint64_t n_bytes;
};

static EsStatus copy_text(const char *text, size_t extra_bytes, char **copy) {
    size_t bytes = strlen(text) + 1;
    ES_TRY(es_allocate(bytes + extra_bytes, (void **)copy));
    memcpy(*copy, text, bytes);
    return ES_STATUS_OK;
}

static int sync_retrying(int (*sync)(int), int descriptor) {
    int result;
    do {
        result = sync(descriptor);
    } while (result != 0 && errno == EINTR);
    return result;
}

static void destroy_held_file(HeldFile *file) {
    if (file == NULL) {
        return;
    }
    while (file->blocks != NULL) {
        HeldBlock *block = file->blocks;
        file->blocks = block->next;
        es_release(block);
    }
    es_release(file->path);
    es_release(file);
}

static void destroy_writer(EsFileWriter *writer) {
    destroy_held_file(writer->held);
    if (writer->descriptor >= 0) {
        close(writer->descriptor);
    }
    if (writer->temporary != NULL && writer->temporary[0] != '\0') {
        es_system_remove(AT_FDCWD, writer->temporary, 0);
    }
    es_release(writer->temporary);
    es_release(writer->path);
    es_release(writer);
}

static EsStatus create_temporary(EsFileWriter *writer) {
    size_t name_bytes = strlen(writer->path) + 64;
    char *name = writer->temporary;
    for (int attempt = 0; attempt < MAX_NAME_ATTEMPTS; attempt++) {
        snprintf(name, name_bytes, "%s.%ld-%d.tmp", writer->path, (long)getpid(), attempt);
        writer->descriptor = es_system_open_retrying(name, O_WRONLY | O_CREAT | O_EXCL);
        if (writer->descriptor >= 0) {
            // a file that others may not read stays so; where that cannot be set, the writer's
            // own mode holds
            if (writer->mode != 0 && fchmod(writer->descriptor, writer->mode) != 0) {
                errno = 0;
            }
            return ES_STATUS_OK;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    EsStatus status = ES_FAIL(IO, "cannot create %s: %s", name, strerror(errno));
    name[0] = '\0';
    return status;
}

// The descriptor of our own stdout or stderr when it goes to the file `target`, else -1. Replacing
// that file would leave the stream on one without a name.
static int find_stream(const struct stat *target) {
    for (int descriptor = STDOUT_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        struct stat stream;
        if (fstat(descriptor, &stream) == 0 && stream.st_dev == target->st_dev &&
            stream.st_ino == target->st_ino) {
            return descriptor;
        }
    }
    return -1;
}

static int is_through(const char *path) {
    struct stat target;
    // a folder is left to rename, which names the fault
    return stat(path, &target) == 0 && !S_ISDIR(target.st_mode) &&
           (!S_ISREG(target.st_mode) || find_stream(&target) >= 0);
}

int es_file_is_stdout(const char *path) {
    struct stat target;
    return stat(path, &target) == 0 && find_stream(&target) == STDOUT_FILENO;
}

static EsStatus open_through(EsFileWriter *writer) {
    struct stat target;
    int stream = stat(writer->path, &target) == 0 ? find_stream(&target) : -1;
    if (stream >= 0) {
        fflush(stdout); // earlier output comes first
        writer->descriptor = fcntl(stream, F_DUPFD_CLOEXEC, 0);
    } else {
        // a pipe waits for its reader, and a signal ends that
        writer->descriptor = es_system_open(writer->path, O_WRONLY | O_NOCTTY, 0);
    }
    if (writer->descriptor < 0 && errno == EINTR) {
        return ES_FAIL(INTERRUPTED, "interrupted while %s had no reader", writer->path);
    }
    return writer->descriptor >= 0
               ? ES_STATUS_OK
               : ES_FAIL(IO, "cannot open %s: %s", writer->path, strerror(errno));
}

// Replaces a path that ends in a link by the link's target; *is_link is 0 when it does not.
static EsStatus follow_link(char **path, int *is_link) {
    char target[4096];
    ssize_t length = readlink(*path, target, sizeof target - 1);
    *is_link = length >= 0;
    if (length < 0) {
        return ES_STATUS_OK; // not a link, or nothing at all
    }
    target[length] = '\0';
    const char *slash = target[0] == '/' ? NULL : strrchr(*path, '/');
    size_t folder_bytes = slash != NULL ? (size_t)(slash + 1 - *path) : 0;
    char *joined = NULL;
    ES_TRY(es_allocate(folder_bytes + (size_t)length + 1, (void **)&joined));
    memcpy(joined, *path, folder_bytes);
    memcpy(joined + folder_bytes, target, (size_t)length + 1);
    es_release(*path);
    *path = joined;
    return ES_STATUS_OK;
}

// Find the file to replace behind the links at `path`, and give its mode to the temporary later.
// Some links of the system lead elsewhere than they say (/proc/self/fd of a file without a name):
// such a target is written through.
static EsStatus follow_links(EsFileWriter *writer, const char *path) {
    struct stat target, resolved;
    int is_link = 1;
    for (int i = 0; i <= MAX_LINKS && is_link; i++) {
        ES_TRY(follow_link(&writer->path, &is_link));
    }
    if (is_link) {
        return ES_FAIL(IO, "cannot write %s: %s", path, strerror(ELOOP));
    }
    if (stat(path, &target) == 0) {
        writer->mode = target.st_mode & 07777;
        writer->is_through = stat(writer->path, &resolved) != 0 ||
                             resolved.st_dev != target.st_dev || resolved.st_ino != target.st_ino;
    }
    return ES_STATUS_OK;
}

static EsStatus open_on_disk(EsFileWriter *writer, const char *path) {
    ES_TRY(copy_text(path, 0, &writer->path));
    writer->is_through = is_through(path);
    if (!writer->is_through) {
        ES_TRY(follow_links(writer, path));
    }
    if (writer->is_through) {
        es_release(writer->path);
        writer->path = NULL;
        ES_TRY(copy_text(path, 0, &writer->path));
        return open_through(writer);
    }
    ES_TRY(copy_text("", strlen(writer->path) + 64, &writer->temporary));
    return create_temporary(writer);
}

static EsStatus open_in_memory(EsFileWriter *writer, const char *path) {
    ES_TRY(es_allocate(sizeof *writer->held, (void **)&writer->held));
    writer->files = holder;
    writer->held->end = &writer->held->blocks;
    return copy_text(path, 0, &writer->held->path);
}

EsStatus es_file_writer_open(const char *path, EsFileWriter **writer_out) {
    *writer_out = NULL;
    EsFileWriter *writer = NULL;
    ES_TRY(es_allocate(sizeof *writer, (void **)&writer));
    writer->descriptor = -1;
    EsStatus status = holder != NULL ? open_in_memory(writer, path) : open_on_disk(writer, path);
    if (status != ES_STATUS_OK) {
        destroy_writer(writer);
        return status;
    }
    *writer_out = writer;
    return ES_STATUS_OK;
}

static EsStatus append_in_memory(EsFileWriter *writer, const void *data, size_t bytes) {
    HeldBlock *block = NULL;
    if (writer->status == ES_STATUS_OK && bytes > 0) {
        writer->status = es_allocate_unset(sizeof *block + bytes, (void **)&block);
    }
    if (block != NULL) {
        block->next = NULL;
        block->n_bytes = bytes;
        memcpy(block->bytes, data, bytes);
        *writer->held->end = block;
        writer->held->end = &block->next;
        writer->held->n_bytes += bytes;
    }
    return writer->status;
}

EsStatus es_file_writer_append(EsFileWriter *writer, const void *data, size_t bytes) {
    if (writer->held != NULL) {
        return append_in_memory(writer, data, bytes);
    }
    const unsigned char *next = data;
    while (writer->status == ES_STATUS_OK && bytes > 0) {
        ssize_t written =
            es_system_write(writer->descriptor, next, ES_MIN(bytes, MAX_TRANSFER_BYTES));
        if (written > 0) {
            next += written;
            bytes -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            // a regular file never takes 0 bytes without an error; treat it as full rather than
            // spin
            writer->status = ES_FAIL(IO, "cannot write %s: %s", writer->path,
                                     strerror(written == 0 ? ENOSPC : errno));
        }
    }
    return writer->status;
}

static EsStatus commit_in_memory(EsFileWriter *writer) {
    EsStatus status = writer->status;
    if (status == ES_STATUS_OK) {
        *writer->files->end = writer->held;
        writer->files->end = &writer->held->next;
        writer->held = NULL;
    }
    destroy_writer(writer);
    return status;
}

EsStatus es_file_writer_commit(EsFileWriter *writer) {
    if (writer->held != NULL) {
        return commit_in_memory(writer);
    }
    EsStatus status = writer->status;
    if (status == ES_STATUS_OK && !writer->is_through &&
        sync_retrying(es_system_sync, writer->descriptor) != 0) {
        status = ES_FAIL(IO, "cannot make %s durable: %s", writer->path, strerror(errno));
    }
    if (status == ES_STATUS_OK) {
        // not retried after EINTR: Linux has closed it already
        int failed = close(writer->descriptor) != 0 && errno != EINTR;
        writer->descriptor = -1;
        if (failed) {
            status = ES_FAIL(IO, "cannot close %s: %s", writer->path, strerror(errno));
        }
    }
    if (status == ES_STATUS_OK && !writer->is_through) {
        if (es_system_rename(writer->temporary, writer->path) == 0) {
            writer->temporary[0] = '\0';
            status = es_folder_sync_parent(writer->path);
            if (status != ES_STATUS_OK) {
                char reason[512];
                snprintf(reason, sizeof reason, "%s", es_status_detail());
                status = status == ES_STATUS_MEMORY
                             ? ES_FAIL(MEMORY, "%s is written, but %s", writer->path, reason)
                             : ES_FAIL(IO, "%s is written, but %s", writer->path, reason);
            }
        } else {
            status = ES_FAIL(IO, "cannot replace %s: %s", writer->path, strerror(errno));
        }
    }
    destroy_writer(writer);
    return status;
}

void es_file_writer_abandon(EsFileWriter *writer) {
    if (writer != NULL) {
        destroy_writer(writer);
    }
}

EsStatus es_file_writer_try(const char *path) {
    struct stat target;
    EsFileWriter *writer = NULL;
    if (stat(path, &target) == 0 && S_ISDIR(target.st_mode)) {
        return ES_FAIL(IO, "cannot replace %s: %s", path, strerror(EISDIR));
    }
    if (is_through(path)) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_file_writer_open(path, &writer));
    es_file_writer_abandon(writer);
    return ES_STATUS_OK;
}

EsStatus es_file_write_all(const char *path, const void *data, size_t bytes) {
    EsFileWriter *writer = NULL;
    ES_TRY(es_file_writer_open(path, &writer));
    EsStatus status = es_file_writer_append(writer, data, bytes);
    if (status != ES_STATUS_OK) {
        es_file_writer_abandon(writer);
        return status;
    }
    return es_file_writer_commit(writer);
}

// --- files that are written later ---

EsStatus es_held_files_create(EsHeldFiles **files) {
    ES_TRY(es_allocate(sizeof **files, (void **)files));
    (*files)->end = &(*files)->first;
    return ES_STATUS_OK;
}

EsStatus es_held_files_begin(EsHeldFiles **files) {
    ES_ASSERT(holder == NULL);
    ES_TRY(es_held_files_create(files));
    holder = *files;
    return ES_STATUS_OK;
}

void es_held_files_read_begin(const EsHeldFiles *files) {
    ES_ASSERT(source == NULL);
    source = files;
}

void es_held_files_read_end(void) { source = NULL; }

EsStatus es_held_files_add(EsHeldFiles *files, const char *path) {
    ES_ASSERT(holder == NULL);
    void *data = NULL;
    size_t bytes = 0;
    ES_TRY(es_file_read_all(path, SIZE_MAX / 2, &data, &bytes));
    holder = files;
    EsStatus status = es_file_write_all(path, data, bytes);
    holder = NULL;
    es_release(data);
    return status;
}

// The last file of that path, which is the one that would stay on disk; NULL when there is none.
static const HeldFile *find_held(const EsHeldFiles *files, const char *path) {
    const HeldFile *found = NULL;
    for (const HeldFile *file = files != NULL ? files->first : NULL; file != NULL;
         file = file->next) {
        found = strcmp(file->path, path) == 0 ? file : found;
    }
    return found;
}

// Bytes from `offset`, which lie in one block or more.
static EsStatus read_held(const HeldFile *file, uint64_t offset, unsigned char *into,
                          size_t bytes) {
    for (const HeldBlock *block = file->blocks; block != NULL && bytes > 0; block = block->next) {
        if (offset < block->n_bytes) {
            size_t n = ES_MIN(bytes, block->n_bytes - (size_t)offset);
            memcpy(into, block->bytes + offset, n);
            into += n;
            bytes -= n;
            offset += n;
        }
        offset -= ES_MIN(offset, block->n_bytes);
    }
    return bytes == 0 ? ES_STATUS_OK
                      : ES_FAIL(IO, "cannot read %s: it ends %zu bytes early", file->path, bytes);
}

void es_held_files_end(void) { holder = NULL; }

static EsStatus write_held_file(const HeldFile *file) {
    EsFileWriter *writer = NULL;
    ES_TRY(es_file_writer_open(file->path, &writer));
    for (const HeldBlock *block = file->blocks; block != NULL; block = block->next) {
        EsStatus status = es_file_writer_append(writer, block->bytes, block->n_bytes);
        if (status != ES_STATUS_OK) {
            es_file_writer_abandon(writer);
            return status;
        }
    }
    return es_file_writer_commit(writer);
}

EsStatus es_held_files_write(const EsHeldFiles *files) {
    ES_ASSERT(holder == NULL);
    for (const HeldFile *file = files->first; file != NULL; file = file->next) {
        ES_TRY(write_held_file(file));
    }
    return ES_STATUS_OK;
}

size_t es_held_files_bytes(const EsHeldFiles *files) {
    size_t n_bytes = 0;
    for (const HeldFile *file = files->first; file != NULL; file = file->next) {
        n_bytes += file->n_bytes;
    }
    return n_bytes;
}

void es_held_files_destroy(EsHeldFiles *files) {
    if (files == NULL) {
        return;
    }
    ES_ASSERT(holder != files);
    while (files->first != NULL) {
        HeldFile *file = files->first;
        files->first = file->next;
        destroy_held_file(file);
    }
    es_release(files);
}

EsStatus es_file_sync(const char *path) {
    int descriptor = es_system_open_retrying(path, O_RDONLY | O_NONBLOCK);
    if (descriptor < 0) {
        return ES_FAIL(IO, "cannot open %s: %s", path, strerror(errno));
    }
    EsStatus status = ES_STATUS_OK;
    if (sync_retrying(es_system_sync, descriptor) != 0) {
        status = ES_FAIL(IO, "cannot make %s durable: %s", path, strerror(errno));
    }
    close(descriptor);
    return status;
}

EsStatus es_file_reader_open(const char *path, EsFileReader **reader_out) {
    *reader_out = NULL;
    EsFileReader *reader = NULL;
    ES_TRY(es_allocate(sizeof *reader, (void **)&reader));
    EsStatus status = ES_STATUS_OK;
    reader->descriptor = -1;
    ES_TRY_GOTO(copy_text(path, 0, &reader->path));
    reader->held = find_held(source, path);
    if (reader->held != NULL) {
        reader->n_bytes = reader->held->n_bytes;
        *reader_out = reader;
        return ES_STATUS_OK;
    }
    // O_NONBLOCK: opening a pipe without a writer must fail below, not hang here
    reader->descriptor = es_system_open_retrying(path, O_RDONLY | O_NONBLOCK);
    struct stat facts;
    if (reader->descriptor < 0 || fstat(reader->descriptor, &facts) != 0) {
        status = ES_FAIL(IO, "cannot open %s: %s", path, strerror(errno));
        goto done;
    }
    if (!S_ISREG(facts.st_mode)) {
        status = ES_FAIL(INPUT, "%s is not a regular file", path);
        goto done;
    }
    reader->n_bytes = (uint64_t)facts.st_size;
    *reader_out = reader;
    return ES_STATUS_OK;
done:
    es_file_reader_close(reader);
    return status;
}

void es_file_reader_close(EsFileReader *reader) {
    if (reader != NULL) {
        if (reader->descriptor >= 0) {
            close(reader->descriptor);
        }
        es_release(reader->path);
        es_release(reader);
    }
}

uint64_t es_file_reader_bytes(const EsFileReader *reader) { return reader->n_bytes; }

EsStatus es_file_reader_read(EsFileReader *reader, uint64_t offset, void *into, size_t bytes) {
    unsigned char *next = into;
    if (reader->held != NULL) {
        return read_held(reader->held, offset, next, bytes);
    }
    while (bytes > 0) {
        ssize_t n_read = es_system_read(reader->descriptor, next, ES_MIN(bytes, MAX_TRANSFER_BYTES),
                                        (off_t)offset);
        if (n_read > 0) {
            next += n_read;
            offset += (uint64_t)n_read;
            bytes -= (size_t)n_read;
        } else if (n_read == 0) {
            return ES_FAIL(IO, "cannot read %s: it ends at byte %llu, %zu more were expected",
                           reader->path, (unsigned long long)offset, bytes);
        } else if (errno != EINTR) {
            return ES_FAIL(IO, "cannot read %s: %s", reader->path, strerror(errno));
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_file_read_all(const char *path, size_t max_bytes, void **data, size_t *bytes) {
    *data = NULL;
    *bytes = 0;
    EsFileReader *reader = NULL;
    ES_TRY(es_file_reader_open(path, &reader));
    EsStatus status = ES_STATUS_OK;
    if (reader->n_bytes > max_bytes) {
        status = ES_FAIL(INPUT, "%s has %llu bytes, the limit is %zu", path,
                         (unsigned long long)reader->n_bytes, max_bytes);
        goto done;
    }
    size_t n_bytes = (size_t)reader->n_bytes;
    ES_TRY_GOTO(es_allocate_unset(n_bytes + 1, data));
    ES_TRY_GOTO(es_file_reader_read(reader, 0, *data, n_bytes));
    ((char *)*data)[n_bytes] = '\0';
    *bytes = n_bytes;
done:
    if (status != ES_STATUS_OK) {
        es_release(*data);
        *data = NULL;
    }
    es_file_reader_close(reader);
    return status;
}

// Length of the name before .<process>-<n>.tmp; 0 when it does not end so.
static size_t target_length(const char *name) {
    size_t length = strlen(name);
    if (length < 8 || strcmp(name + length - 4, ".tmp") != 0) {
        return 0;
    }
    size_t at = length - 4;
    size_t end = at;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
        at--;
    }
    if (at == end || at == 0 || name[at - 1] != '-') {
        return 0;
    }
    end = --at;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
        at--;
    }
    return at < end && at > 0 && name[at - 1] == '.' ? at - 1 : 0;
}

int es_file_is_temporary(const char *name) { return target_length(name) > 0; }

const char *es_file_final_name(const char *name, char target[ES_FILE_NAME_BYTES]) {
    size_t length = target_length(name);
    if (length == 0 || length >= ES_FILE_NAME_BYTES) {
        return name;
    }
    memcpy(target, name, length);
    target[length] = '\0';
    return target;
}

EsStatus es_memory_stream_close(FILE *stream, char *const *text) {
    int is_whole = fflush(stream) == 0 && !ferror(stream);
    // the last cut to size may fail, too, and leaves NULL
    is_whole = fclose(stream) == 0 && is_whole && *text != NULL;
    return is_whole ? ES_STATUS_OK : ES_FAIL(MEMORY, "not enough memory for a text");
}
