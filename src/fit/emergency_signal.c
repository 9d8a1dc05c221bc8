// Emergency signals in POSIX shared memory, and messages to a file. Of the emergency signal a
// counter in the last bytes is odd while the others are written; a reader that sees it odd, or
// changed behind its back, looks again. Of the deadline signal the time is written at once, before
// its flag. The writer holds a lock on the emergency signal, which ends with its process: a signal
// that is still there without it was left by a fit that was killed.
#include "fit/emergency_signal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"

enum { DEADLINE_FLAG = 0, DEADLINE_MS = 8 };
enum { FLAG = 0, LEVEL = 1, RAISED_MS = 2, REASON_BYTES = 10, REASON = 11, N_WRITES = 60 };

// at a write that goes on: at once, then a millisecond apart, for as long as its thread may have to
// wait for a processor
#define QUICK_LOOKS 1000
#define MAX_LOOKS   (QUICK_LOOKS + 2000)

struct EsEmergencySignal {
    char name[ES_SIGNAL_NAME_BYTES], deadline_name[ES_SIGNAL_NAME_BYTES];
    unsigned char *bytes, *deadline; // the mappings
    int descriptor;                  // of the emergency signal, whose lock it holds; -1: none
};

struct EsSignalView {
    char folder[512];                      // for messages
    const unsigned char *bytes, *deadline; // mappings
    int descriptor;                        // of the emergency signal; -1: none
};

static void name_deadline(const char *name, char deadline_name[ES_SIGNAL_NAME_BYTES]) {
    snprintf(deadline_name, ES_SIGNAL_NAME_BYTES, "%.110s-deadline", name);
}

// Two folders of one name, in different places, have two names.
EsStatus es_signal_name(const char *run_folder, char name[ES_SIGNAL_NAME_BYTES]) {
    char *path = realpath(run_folder, NULL);
    if (path == NULL) {
        return ES_FAIL(INPUT, "%s: %s", run_folder, strerror(errno));
    }
    char hash[ES_SHA256_TEXT_BYTES];
    EsSha256 sha256;
    es_sha256_begin(&sha256);
    es_sha256_append(&sha256, path, strlen(path));
    es_sha256_end(&sha256, hash);
    const char *last = strrchr(path, '/') + 1;
    int length = snprintf(name, ES_SIGNAL_NAME_BYTES, "/esper-%.80s-%.16s", last, hash);
    for (int i = 1; i < length; i++) {
        int is_plain = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
                       (name[i] >= '0' && name[i] <= '9') || name[i] == '-' || name[i] == '.';
        name[i] = is_plain ? name[i] : '_';
    }
    free(path);
    return ES_STATUS_OK;
}

// --- reading ---

// Copies the bytes as one write left them. Returns 0 when a write never ends: its process was
// killed.
static int copy_bytes(const unsigned char *shared, unsigned char copy[ES_SIGNAL_BYTES]) {
    const uint32_t *n_writes = (const uint32_t *)(const void *)(shared + N_WRITES);
    for (int look = 0; look < MAX_LOOKS; look++) {
        uint32_t before = __atomic_load_n(n_writes, __ATOMIC_ACQUIRE);
        for (int i = 0; i < N_WRITES; i++) {
            copy[i] = __atomic_load_n(&shared[i], __ATOMIC_ACQUIRE);
        }
        if (before % 2 == 0 && __atomic_load_n(n_writes, __ATOMIC_RELAXED) == before) {
            return 1;
        }
        if (look >= QUICK_LOOKS) {
            usleep(1000);
        }
    }
    return 0;
}

// The caller closes the descriptor, also after a failure.
static EsStatus map_shared(const char *run_folder, const char *name, size_t bytes,
                           const unsigned char **mapping, int *descriptor_out) {
    struct stat info;
    int descriptor = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    *descriptor_out = descriptor;
    if (descriptor < 0) {
        return ES_FAIL(INPUT, "%s: no fit with rails is going on there (no shared memory %s)",
                       run_folder, name);
    }
    void *shared = MAP_FAILED;
    if (fstat(descriptor, &info) == 0 && info.st_size >= (off_t)bytes) {
        shared = mmap(NULL, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    }
    if (shared == MAP_FAILED) {
        return ES_FAIL(INPUT, "the shared memory %s is not that of a signal", name);
    }
    *mapping = shared;
    return ES_STATUS_OK;
}

static void close_shared(int descriptor) {
    if (descriptor >= 0) {
        close(descriptor);
    }
}

static void unmap(const unsigned char *mapping, size_t bytes) {
    if (mapping != NULL) {
        munmap((void *)(uintptr_t)mapping, bytes);
    }
}

void es_signal_close(EsSignalView *view) {
    if (view != NULL) {
        unmap(view->bytes, ES_SIGNAL_BYTES);
        unmap(view->deadline, ES_SIGNAL_DEADLINE_BYTES);
        close_shared(view->descriptor);
        es_release(view);
    }
}

EsStatus es_signal_open(const char *run_folder, EsSignalView **view_out) {
    char name[ES_SIGNAL_NAME_BYTES], deadline_name[ES_SIGNAL_NAME_BYTES];
    EsSignalView *view = NULL;
    *view_out = NULL;
    ES_TRY(es_signal_name(run_folder, name));
    name_deadline(name, deadline_name);
    ES_TRY(es_allocate(sizeof *view, (void **)&view));
    view->descriptor = -1;
    snprintf(view->folder, sizeof view->folder, "%.500s", run_folder);
    EsStatus status =
        map_shared(run_folder, name, ES_SIGNAL_BYTES, &view->bytes, &view->descriptor);
    if (status == ES_STATUS_OK) {
        int descriptor;
        status = map_shared(run_folder, deadline_name, ES_SIGNAL_DEADLINE_BYTES, &view->deadline,
                            &descriptor);
        close_shared(descriptor);
    }
    if (status != ES_STATUS_OK) {
        es_signal_close(view);
        return status;
    }
    *view_out = view;
    return ES_STATUS_OK;
}

static uint64_t *time_of(const unsigned char *deadline) {
    return (uint64_t *)(uintptr_t)(deadline + DEADLINE_MS);
}

// Returns whether the signal is still there and nobody holds its lock.
static int is_abandoned(int descriptor) {
    struct flock asked = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    struct stat info;
    return fcntl(descriptor, F_OFD_GETLK, &asked) == 0 && asked.l_type == F_UNLCK &&
           fstat(descriptor, &info) == 0 && info.st_nlink > 0;
}

EsStatus es_signal_look(const EsSignalView *view, EsSignal *signal) {
    unsigned char bytes[ES_SIGNAL_BYTES];
    memset(signal, 0, sizeof *signal);
    if (!copy_bytes(view->bytes, bytes)) {
        return ES_FAIL(INPUT, "%s: its fit was killed while it wrote its signal", view->folder);
    }
    signal->is_abandoned = is_abandoned(view->descriptor);
    signal->is_raised = bytes[FLAG] == 1;
    signal->level = signal->is_raised ? bytes[LEVEL] : 1;
    for (int i = 7; signal->is_raised && i >= 0; i--) {
        signal->raised_ms = signal->raised_ms << 8 | bytes[RAISED_MS + i];
    }
    if (signal->is_raised) {
        memcpy(signal->reason, bytes + REASON,
               ES_MIN((size_t)bytes[REASON_BYTES], ES_SIGNAL_REASON_BYTES - 1));
    }
    if (__atomic_load_n(&view->deadline[DEADLINE_FLAG], __ATOMIC_ACQUIRE) == 1) {
        signal->has_missed_deadline = 1;
        signal->deadline_ms = le64toh(__atomic_load_n(time_of(view->deadline), __ATOMIC_RELAXED));
    }
    return ES_STATUS_OK;
}

EsStatus es_signal_read(const char *run_folder, EsSignal *signal) {
    EsSignalView *view = NULL;
    memset(signal, 0, sizeof *signal);
    ES_TRY(es_signal_open(run_folder, &view));
    EsStatus status = es_signal_look(view, signal);
    es_signal_close(view);
    return status;
}

// --- writing ---

static void set_byte(EsEmergencySignal *signal, int i, unsigned char value) {
    __atomic_store_n(&signal->bytes[i], value, __ATOMIC_RELEASE);
}

// Shared memory of its own, in place of one that a killed run left behind, and its lock, which is
// held before the memory has a size that a reader accepts.
static EsStatus make_shared(const char *name, size_t size, unsigned char **bytes_out,
                            int *descriptor_out) {
    struct flock wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    shm_unlink(name);
    int descriptor = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    void *bytes = MAP_FAILED;
    if (descriptor >= 0 && fcntl(descriptor, F_OFD_SETLK, &wanted) == 0 &&
        ftruncate(descriptor, (off_t)size) == 0) {
        bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    int error = errno;
    if (bytes != MAP_FAILED) {
        *bytes_out = bytes;
        *descriptor_out = descriptor;
        return ES_STATUS_OK;
    }
    if (descriptor >= 0) {
        close(descriptor);
        shm_unlink(name);
    }
    return ES_FAIL(IO, "the shared memory %s cannot be made: %s", name, strerror(error));
}

static void remove_shared(const char *name, unsigned char *bytes, size_t size) {
    if (bytes != NULL) {
        munmap(bytes, size);
        shm_unlink(name);
    }
}

void es_emergency_signal_destroy(EsEmergencySignal *signal) {
    if (signal != NULL) {
        remove_shared(signal->name, signal->bytes, ES_SIGNAL_BYTES);
        remove_shared(signal->deadline_name, signal->deadline, ES_SIGNAL_DEADLINE_BYTES);
        close_shared(signal->descriptor); // last: a signal that is there has its lock
        es_release(signal);
    }
}

EsStatus es_emergency_signal_create(const char *run_folder, EsEmergencySignal **signal_out) {
    EsEmergencySignal *signal = NULL;
    EsStatus status = ES_STATUS_OK;
    *signal_out = NULL;
    int descriptor = -1;
    ES_TRY(es_allocate(sizeof *signal, (void **)&signal));
    signal->descriptor = -1;
    ES_TRY_GOTO(es_signal_name(run_folder, signal->name));
    name_deadline(signal->name, signal->deadline_name);
    // a reader opens the other one first, and finds both
    ES_TRY_GOTO(make_shared(signal->deadline_name, ES_SIGNAL_DEADLINE_BYTES, &signal->deadline,
                            &descriptor));
    close_shared(descriptor);
    ES_TRY_GOTO(make_shared(signal->name, ES_SIGNAL_BYTES, &signal->bytes, &signal->descriptor));
done:
    if (status != ES_STATUS_OK) {
        es_emergency_signal_destroy(signal);
        return status;
    }
    *signal_out = signal;
    return ES_STATUS_OK;
}

static void count_write(EsEmergencySignal *signal) {
    __atomic_add_fetch((uint32_t *)(void *)(signal->bytes + N_WRITES), 1, __ATOMIC_RELEASE);
}

void es_emergency_signal_raise(EsEmergencySignal *signal, int level, const char *reason) {
    size_t n = strnlen(reason, ES_SIGNAL_REASON_BYTES - 1);
    uint64_t now_ms = (uint64_t)es_clock_ns() / 1000000;
    count_write(signal);
    set_byte(signal, LEVEL, (unsigned char)level);
    for (int i = 0; i < 8; i++) {
        set_byte(signal, RAISED_MS + i, (unsigned char)(now_ms >> 8 * i));
    }
    set_byte(signal, REASON_BYTES, (unsigned char)n);
    for (size_t i = 0; i < n; i++) {
        set_byte(signal, REASON + (int)i, (unsigned char)reason[i]);
    }
    set_byte(signal, FLAG, 1);
    count_write(signal);
}

void es_emergency_signal_miss_deadline(EsEmergencySignal *signal) {
    uint64_t now_ms = (uint64_t)es_clock_ns() / 1000000;
    __atomic_store_n(time_of(signal->deadline), htole64(now_ms), __ATOMIC_RELAXED);
    __atomic_store_n(&signal->deadline[DEADLINE_FLAG], 1, __ATOMIC_RELEASE);
}

void es_emergency_signal_clear(EsEmergencySignal *signal) {
    count_write(signal);
    set_byte(signal, FLAG, 0);
    count_write(signal);
    __atomic_store_n(&signal->deadline[DEADLINE_FLAG], 0, __ATOMIC_RELEASE);
}

// --- messages ---

#define MESSAGE_BYTES 1024
#define MAX_WAITING   16
#define MINUTE_NS     ((int64_t)60 * 1000000000)

// A message on its way, shared with its thread: a late one ends it there.
typedef struct Message {
    char path[1024], text[MESSAGE_BYTES];
} Message;

struct EsEmergencyDispatch {
    char path[1024], run[512];
    double timeout_ms;
    int per_minute;
    EsDeadline *deadline;                     // owned
    char waiting[MAX_WAITING][MESSAGE_BYTES]; // oldest first
    int n_waiting;
    int64_t minute_ns; // begin of the minute at hand
    int n_in_minute;   // messages that were tried in it
    int has_begun;
    EsDispatchCounts counts;
};

void es_emergency_dispatch_destroy(EsEmergencyDispatch *dispatch) {
    if (dispatch != NULL) {
        es_deadline_destroy(dispatch->deadline);
        es_release(dispatch);
    }
}

EsStatus es_emergency_dispatch_create(const EsEmergencyDispatchOptions *options,
                                      EsEmergencyDispatch **dispatch_out) {
    EsEmergencyDispatch *dispatch = NULL;
    *dispatch_out = NULL;
    ES_TRY(es_allocate(sizeof *dispatch, (void **)&dispatch));
    snprintf(dispatch->path, sizeof dispatch->path, "%s", options->path);
    snprintf(dispatch->run, sizeof dispatch->run, "%s", options->run);
    dispatch->timeout_ms = options->timeout_ms;
    dispatch->per_minute = options->per_minute;
    EsStatus status = es_deadline_create(&dispatch->deadline);
    if (status != ES_STATUS_OK) {
        es_emergency_dispatch_destroy(dispatch);
        return status;
    }
    *dispatch_out = dispatch;
    return ES_STATUS_OK;
}

// Appends one line. A pipe that nobody reads makes it wait, one that was closed makes it fail: its
// thread takes no signals.
static EsStatus write_message(void *context) {
    const Message *message = context;
    size_t bytes = strlen(message->text);
    int descriptor = open(message->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    ssize_t written = descriptor >= 0 ? write(descriptor, message->text, bytes) : -1;
    int error = errno;
    if (descriptor >= 0) {
        close(descriptor);
    }
    return written == (ssize_t)bytes
               ? ES_STATUS_OK
               : ES_FAIL(IO, "cannot write %s: %s", message->path,
                         written < 0 ? strerror(error) : "not all of it was taken");
}

static void release_message(void *context) { es_release(context); }

// Opens a new minute when the last is over, or the clock has gone back. Returns whether one more
// message may be tried, and counts it.
static int may_send(EsEmergencyDispatch *dispatch, int64_t now_ns) {
    int64_t age_ns = now_ns - dispatch->minute_ns;
    if (!dispatch->has_begun || age_ns < 0 || age_ns >= MINUTE_NS) {
        dispatch->has_begun = 1;
        dispatch->minute_ns = now_ns;
        dispatch->n_in_minute = 0;
    }
    return dispatch->n_in_minute < dispatch->per_minute ? ++dispatch->n_in_minute : 0;
}

static EsDispatchResult try_message(EsEmergencyDispatch *dispatch, const char *text) {
    Message *message = NULL;
    int64_t start_ns = es_clock_ns();
    EsStatus status = es_allocate(sizeof *message, (void **)&message);
    if (status == ES_STATUS_OK) {
        snprintf(message->path, sizeof message->path, "%s", dispatch->path);
        snprintf(message->text, sizeof message->text, "%s", text);
        const EsDeadlineJob job = {write_message, release_message, message};
        switch (es_deadline_run(dispatch->deadline, &job, dispatch->timeout_ms, &status)) {
        case ES_DEADLINE_MISSED: // its thread has the message
            dispatch->counts.failed++;
            return ES_DISPATCH_LATE;
        case ES_DEADLINE_SPENT:
            status = ES_FAIL(IO, "%d threads hang in writing %s", ES_DEADLINE_ABANDONED_MAX,
                             dispatch->path);
            break;
        case ES_DEADLINE_MET:
            break;
        }
        es_release(message);
    }
    if (status != ES_STATUS_OK) {
        dispatch->counts.failed++;
        return ES_DISPATCH_FAILED;
    }
    dispatch->counts.sent++;
    dispatch->counts.last_ms = 1e3 * es_clock_seconds_since(start_ns);
    return ES_DISPATCH_SENT;
}

static void drop_oldest(EsEmergencyDispatch *dispatch) {
    dispatch->n_waiting--;
    memmove(dispatch->waiting[0], dispatch->waiting[1],
            sizeof dispatch->waiting[0] * (size_t)dispatch->n_waiting);
}

static EsStatus write_text(const EsEmergencyDispatch *dispatch, const EsEmergency *emergency,
                           char text[MESSAGE_BYTES]) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    json_t *object =
        json_pack("{s:i, s:s, s:s, s:I, s:I, s:s, s:I, s:s}", "level", emergency->level, "reason",
                  emergency->reason, "origin", "tolaria", "unix_ms",
                  (json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, "monotonic_ms",
                  (json_int_t)(es_clock_ns() / 1000000), "run", dispatch->run, "epoch",
                  (json_int_t)emergency->epoch, "mode", "automatic");
    char *line = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    int is_whole = line != NULL && snprintf(text, MESSAGE_BYTES, "%s\n", line) < MESSAGE_BYTES;
    free(line);
    return is_whole ? ES_STATUS_OK : ES_FAIL(MEMORY, "no message of an emergency can be made");
}

EsDispatchResult es_emergency_dispatch_send(EsEmergencyDispatch *dispatch,
                                            const EsEmergency *emergency, int64_t now_ns) {
    char text[MESSAGE_BYTES];
    if (!may_send(dispatch, now_ns)) {
        dispatch->counts.dropped++;
        return ES_DISPATCH_DROPPED;
    }
    if (write_text(dispatch, emergency, text) != ES_STATUS_OK) {
        dispatch->counts.failed++;
        return ES_DISPATCH_FAILED;
    }
    EsDispatchResult result = try_message(dispatch, text);
    if (result == ES_DISPATCH_FAILED) {
        if (dispatch->n_waiting == MAX_WAITING) {
            drop_oldest(dispatch);
            dispatch->counts.dropped++;
        }
        snprintf(dispatch->waiting[dispatch->n_waiting++], MESSAGE_BYTES, "%s", text);
    }
    return result;
}

EsDispatchResult es_emergency_dispatch_retry(EsEmergencyDispatch *dispatch, int64_t now_ns) {
    while (dispatch->n_waiting > 0 && may_send(dispatch, now_ns)) {
        EsDispatchResult result = try_message(dispatch, dispatch->waiting[0]);
        if (result == ES_DISPATCH_FAILED) {
            return result;
        }
        drop_oldest(dispatch); // it has arrived, or its thread has it
        if (result == ES_DISPATCH_LATE) {
            return result;
        }
        dispatch->counts.applied++;
    }
    return ES_DISPATCH_SENT;
}

int es_emergency_dispatch_waiting(const EsEmergencyDispatch *dispatch) {
    return dispatch->n_waiting;
}

EsDispatchCounts es_emergency_dispatch_counts(const EsEmergencyDispatch *dispatch) {
    return dispatch->counts;
}
