// The wrappers of file calls, with one armed fault per process: the n-th call of its kind fails.
#include "base/file_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "esper/log.h"

// Process-wide on purpose: a fault must reach the threads that write files. Unarmed, which is
// always the case outside tests and drills, only is_armed is read.
static atomic_int is_armed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static EsFileFault armed_fault;
static int64_t n_calls;         // of armed_fault.call since it was armed
static int64_t n_bytes_written; // for DISK
static int64_t n_struck;

static const char *const call_names[] = {
#define X(name, text) text,
    ES_FILE_CALL_LIST(X)
#undef X
};

static const struct {
    const char *name;
    int error;
} error_names[] = {
    {"ENOSPC", ENOSPC}, {"EIO", EIO},     {"EINTR", EINTR},   {"EACCES", EACCES},
    {"EMFILE", EMFILE}, {"EROFS", EROFS}, {"EDQUOT", EDQUOT},
};

// --- faults ---

static EsStatus parse_effect(const char *text, const char *effect, EsFileFault *fault) {
    for (size_t i = 0; i < ES_COUNT_OF(error_names); i++) {
        if (strcmp(effect, error_names[i].name) == 0) {
            fault->kind = ES_FILE_FAULT_ERROR;
            fault->error = error_names[i].error;
            return ES_STATUS_OK;
        }
    }
    if (strcmp(effect, "kill") == 0) {
        fault->kind = ES_FILE_FAULT_KILL;
        return ES_STATUS_OK;
    }
    int moves_bytes = fault->call == ES_FILE_CALL_READ || fault->call == ES_FILE_CALL_WRITE;
    if (strcmp(effect, "short") == 0 && moves_bytes) {
        fault->kind = ES_FILE_FAULT_SHORT;
        return ES_STATUS_OK;
    }
    return ES_FAIL(ARGUMENT,
                   "file fault \"%.100s\": the effect \"%.40s\" is none of ENOSPC, EIO, EINTR, "
                   "EACCES, EMFILE, EROFS, EDQUOT, kill and, for read and write, short",
                   text, effect);
}

// The number at `*next`, at least `min`; moves on behind it.
static EsStatus parse_count(const char *text, const char **next, int64_t min, int64_t *count) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(*next, &end, 10);
    if (end == *next || errno != 0 || value < min || **next < '0' || **next > '9') {
        return ES_FAIL(ARGUMENT, "file fault \"%.100s\": \"%.40s\" is not a number from %lld on",
                       text, *next, (long long)min);
    }
    *count = value;
    *next = end;
    return ES_STATUS_OK;
}

EsStatus es_file_fault_parse(const char *text, EsFileFault *fault) {
    memset(fault, 0, sizeof *fault);
    size_t length = strcspn(text, ":");
    const char *next = text + length + (text[length] == ':');
    if (length == 4 && strncmp(text, "disk", length) == 0) {
        fault->call = ES_FILE_CALL_WRITE;
        fault->kind = ES_FILE_FAULT_DISK;
        ES_TRY(parse_count(text, &next, 0, &fault->n));
        return *next == '\0'
                   ? ES_STATUS_OK
                   : ES_FAIL(ARGUMENT, "file fault \"%.100s\": nothing may follow \"%.*s\"", text,
                             (int)(next - text), text);
    }
    int call = 0;
    while (call < ES_FILE_CALL_COUNT &&
           (strlen(call_names[call]) != length || strncmp(text, call_names[call], length) != 0)) {
        call++;
    }
    if (call == ES_FILE_CALL_COUNT) {
        return ES_FAIL(ARGUMENT,
                       "file fault \"%.100s\" does not begin with open, read, write, fsync, "
                       "fsync-folder, rename, unlink, mkdir or disk",
                       text);
    }
    fault->call = (EsFileCall)call;
    ES_TRY(parse_count(text, &next, 1, &fault->n));
    fault->is_lasting = *next == '+';
    next += fault->is_lasting;
    if (*next != ':') {
        return ES_FAIL(ARGUMENT, "file fault \"%.100s\" is not CALL:N:EFFECT", text);
    }
    return parse_effect(text, next + 1, fault);
}

void es_file_fault_arm(const EsFileFault *fault) {
    pthread_mutex_lock(&lock);
    armed_fault = *fault;
    n_calls = n_bytes_written = n_struck = 0;
    atomic_store(&is_armed, 1);
    pthread_mutex_unlock(&lock);
}

int64_t es_file_fault_clear(void) {
    pthread_mutex_lock(&lock);
    int64_t n = atomic_exchange(&is_armed, 0) ? n_struck : 0;
    pthread_mutex_unlock(&lock);
    return n;
}

EsStatus es_file_fault_start(const char *text) {
    if (text == NULL || text[0] == '\0') {
        return ES_STATUS_OK;
    }
    EsFileFault fault;
    ES_TRY(es_file_fault_parse(text, &fault));
    es_log(ES_LOG_WARNING, "file calls fail on purpose: ES_FILE_FAULT is \"%s\"", text);
    es_file_fault_arm(&fault);
    return ES_STATUS_OK;
}

// --- striking ---

// Charges the simulated disk: lets the write through, cut to the free space, or makes it fail.
static int strike_disk(size_t *bytes) {
    int64_t room = armed_fault.n - n_bytes_written;
    if (room <= 0 && *bytes > 0) {
        n_struck++;
        errno = ENOSPC;
        return 1;
    }
    *bytes = (size_t)ES_MIN((uint64_t)*bytes, (uint64_t)room);
    n_bytes_written += (int64_t)*bytes;
    return 0;
}

// Decides whether this call fails, and sets errno if so; a short one gets fewer bytes instead.
// `bytes` is NULL for calls that move none.
static int strike(EsFileCall call, size_t *bytes) {
    int fails = 0;
    pthread_mutex_lock(&lock);
    if (atomic_load(&is_armed) && armed_fault.call == call) {
        n_calls++;
        int is_due =
            n_calls == armed_fault.n || (armed_fault.is_lasting && n_calls > armed_fault.n);
        if (armed_fault.kind == ES_FILE_FAULT_DISK) {
            fails = strike_disk(bytes);
        } else if (is_due) {
            n_struck++;
            switch (armed_fault.kind) {
            case ES_FILE_FAULT_KILL:
                kill(getpid(), SIGKILL);
                break;
            case ES_FILE_FAULT_SHORT:
                *bytes = *bytes > 1 ? *bytes / 2 : *bytes;
                break;
            default:
                errno = armed_fault.error;
                fails = 1;
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return fails;
}

// relaxed: a fault armed before a thread starts is seen by it; others need not see it at once
static int fails_on_purpose(EsFileCall call, size_t *bytes) {
    return __builtin_expect(atomic_load_explicit(&is_armed, memory_order_relaxed), 0) &&
           strike(call, bytes);
}

int es_system_open(const char *path, int flags, mode_t mode) {
    return fails_on_purpose(ES_FILE_CALL_OPEN, NULL) ? -1 : open(path, flags | O_CLOEXEC, mode);
}

int es_system_open_retrying(const char *path, int flags) {
    int descriptor;
    do {
        descriptor = es_system_open(path, flags, 0666);
    } while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

ssize_t es_system_read(int descriptor, void *into, size_t bytes, off_t offset) {
    return fails_on_purpose(ES_FILE_CALL_READ, &bytes) ? -1
                                                       : pread(descriptor, into, bytes, offset);
}

ssize_t es_system_write(int descriptor, const void *data, size_t bytes) {
    return fails_on_purpose(ES_FILE_CALL_WRITE, &bytes) ? -1 : write(descriptor, data, bytes);
}

ssize_t es_system_write_at(int descriptor, const void *data, size_t bytes, off_t offset) {
    return fails_on_purpose(ES_FILE_CALL_WRITE, &bytes) ? -1
                                                        : pwrite(descriptor, data, bytes, offset);
}

int es_system_sync(int descriptor) {
    return fails_on_purpose(ES_FILE_CALL_SYNC, NULL) ? -1 : fsync(descriptor);
}

int es_system_sync_folder(int descriptor) {
    return fails_on_purpose(ES_FILE_CALL_SYNC_FOLDER, NULL) ? -1 : fsync(descriptor);
}

int es_system_rename(const char *from, const char *to) {
    return fails_on_purpose(ES_FILE_CALL_RENAME, NULL) ? -1 : rename(from, to);
}

int es_system_remove(int folder, const char *name, int flags) {
    return fails_on_purpose(ES_FILE_CALL_REMOVE, NULL) ? -1 : unlinkat(folder, name, flags);
}

int es_system_make_folder(const char *path, mode_t mode) {
    return fails_on_purpose(ES_FILE_CALL_MAKE_FOLDER, NULL) ? -1 : mkdir(path, mode);
}
