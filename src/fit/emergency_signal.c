// Emergency signals in POSIX shared memory. A counter in the last bytes is odd while the others are
// written; a reader that sees it odd, or changed behind its back, looks again.
#include "fit/emergency_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"

enum { FLAG = 0, LEVEL = 1, RAISED_MS = 2, REASON_BYTES = 10, REASON = 11, N_WRITES = 60 };

// at a write that goes on: at once, then a millisecond apart, for as long as its thread may have to
// wait for a processor
#define QUICK_LOOKS 1000
#define MAX_LOOKS   (QUICK_LOOKS + 2000)

struct EsEmergencySignal {
    char name[ES_SIGNAL_NAME_BYTES];
    unsigned char *bytes; // the mapping
};

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

EsStatus es_signal_read(const char *run_folder, EsSignal *signal) {
    char name[ES_SIGNAL_NAME_BYTES];
    unsigned char bytes[ES_SIGNAL_BYTES];
    struct stat info;
    memset(signal, 0, sizeof *signal);
    ES_TRY(es_signal_name(run_folder, name));
    int descriptor = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    if (descriptor < 0) {
        return ES_FAIL(INPUT, "%s: no fit with rails is going on there (no shared memory %s)",
                       run_folder, name);
    }
    void *shared = MAP_FAILED;
    if (fstat(descriptor, &info) == 0 && info.st_size >= ES_SIGNAL_BYTES) {
        shared = mmap(NULL, ES_SIGNAL_BYTES, PROT_READ, MAP_SHARED, descriptor, 0);
    }
    close(descriptor);
    if (shared == MAP_FAILED) {
        return ES_FAIL(INPUT, "the shared memory %s is not that of a signal", name);
    }
    int is_whole = copy_bytes(shared, bytes);
    munmap(shared, ES_SIGNAL_BYTES);
    if (!is_whole) {
        return ES_FAIL(INPUT, "%s: its fit was killed while it wrote its signal", run_folder);
    }
    signal->is_raised = bytes[FLAG] == 1;
    signal->level = signal->is_raised ? bytes[LEVEL] : 1;
    for (int i = 7; signal->is_raised && i >= 0; i--) {
        signal->raised_ms = signal->raised_ms << 8 | bytes[RAISED_MS + i];
    }
    if (signal->is_raised) {
        memcpy(signal->reason, bytes + REASON,
               ES_MIN((size_t)bytes[REASON_BYTES], ES_SIGNAL_REASON_BYTES - 1));
    }
    return ES_STATUS_OK;
}

// --- writing ---

static void set_byte(EsEmergencySignal *signal, int i, unsigned char value) {
    __atomic_store_n(&signal->bytes[i], value, __ATOMIC_RELEASE);
}

EsStatus es_emergency_signal_create(const char *run_folder, EsEmergencySignal **signal_out) {
    EsEmergencySignal *signal = NULL;
    *signal_out = NULL;
    ES_TRY(es_allocate(sizeof *signal, (void **)&signal));
    EsStatus status = es_signal_name(run_folder, signal->name);
    if (status != ES_STATUS_OK) {
        es_release(signal);
        return status;
    }
    shm_unlink(signal->name); // of a run that was killed
    int descriptor = shm_open(signal->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    void *bytes = MAP_FAILED;
    if (descriptor >= 0 && ftruncate(descriptor, ES_SIGNAL_BYTES) == 0) {
        bytes = mmap(NULL, ES_SIGNAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    int error = errno;
    if (descriptor >= 0) {
        close(descriptor);
    }
    if (bytes == MAP_FAILED) {
        status =
            ES_FAIL(IO, "the shared memory %s cannot be made: %s", signal->name, strerror(error));
        if (descriptor >= 0) {
            shm_unlink(signal->name);
        }
        es_release(signal);
        return status;
    }
    signal->bytes = bytes;
    *signal_out = signal;
    return ES_STATUS_OK;
}

void es_emergency_signal_destroy(EsEmergencySignal *signal) {
    if (signal != NULL) {
        munmap(signal->bytes, ES_SIGNAL_BYTES);
        shm_unlink(signal->name);
        es_release(signal);
    }
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

void es_emergency_signal_clear(EsEmergencySignal *signal) {
    count_write(signal);
    set_byte(signal, FLAG, 0);
    count_write(signal);
}
