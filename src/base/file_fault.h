// The system calls that file code makes, in one place, so that tests and drills can make them fail.
//
// Without a fault armed each call costs one more branch. A fault is process-wide, because files are
// also written by background threads; arming and clearing are thread-safe, but a fault is meant to
// be armed while no file code runs.
//
//     EsFileFault fault; ES_TRY(es_file_fault_parse("write:3:ENOSPC", &fault));
//     es_file_fault_arm(&fault);                        // the third write from now on fails
//     EsStatus status = es_file_write_all("x", data, bytes);
//     int64_t n_fired = es_file_fault_clear();
//
// `esper` arms the fault named by the variable ES_FILE_FAULT before it runs a command, so that a
// whole program can be watched under a full disk or a crash at a chosen call.
#ifndef ES_BASE_FILE_FAULT_H
#define ES_BASE_FILE_FAULT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// --- faults ---

// name in ES_FILE_FAULT
#define ES_FILE_CALL_LIST(X)                                                                       \
    X(OPEN, "open")                                                                                \
    X(READ, "read")                                                                                \
    X(WRITE, "write")                                                                              \
    X(SYNC, "fsync")                                                                               \
    X(SYNC_FOLDER, "fsync-folder")                                                                 \
    X(RENAME, "rename")                                                                            \
    X(REMOVE, "unlink")                                                                            \
    X(MAKE_FOLDER, "mkdir")

typedef enum EsFileCall {
#define X(name, text) ES_FILE_CALL_##name,
    ES_FILE_CALL_LIST(X)
#undef X
        ES_FILE_CALL_COUNT
} EsFileCall;

typedef enum EsFileFaultKind {
    ES_FILE_FAULT_ERROR, // the call fails with `error`
    ES_FILE_FAULT_SHORT, // READ, WRITE: half of the bytes are moved, which is no error
    ES_FILE_FAULT_KILL,  // the process dies by SIGKILL instead of making the call
    ES_FILE_FAULT_DISK   // WRITE: room for `n` bytes, then ENOSPC until the fault is cleared
} EsFileFaultKind;

typedef struct EsFileFault {
    EsFileCall call;
    EsFileFaultKind kind;
    int64_t n;      // the call it strikes, 1 = the next one of its kind; DISK: bytes
    int is_lasting; // every call from the n-th on, not that one alone
    int error;      // ERROR: an errno value
} EsFileFault;

// Read a fault from its text: CALL:N:EFFECT, CALL:N+:EFFECT (the n-th and all after it) or
// disk:BYTES. CALL is one of the names above; EFFECT is ENOSPC, EIO, EINTR, EACCES, EMFILE, EROFS,
// EDQUOT, short or kill. ARGUMENT says which part is wrong.
EsStatus es_file_fault_parse(const char *text, EsFileFault *fault);

// Arm a fault in place of any other, and count calls from zero.
void es_file_fault_arm(const EsFileFault *fault);

// Disarm; returns how often the fault has struck. Without an armed fault 0.
int64_t es_file_fault_clear(void);

// Arms the fault that `text` describes and warns in the log; NULL or "" arms nothing.
EsStatus es_file_fault_start(const char *text);

// --- system calls, as in POSIX: -1 and errno on failure ---

// O_CLOEXEC is added.
int es_system_open(const char *path, int flags, mode_t mode);

// Again after EINTR, with mode 0666.
int es_system_open_retrying(const char *path, int flags);

ssize_t es_system_read(int descriptor, void *into, size_t bytes, off_t offset);
ssize_t es_system_write(int descriptor, const void *data, size_t bytes);
ssize_t es_system_write_at(int descriptor, const void *data, size_t bytes, off_t offset);
int es_system_sync(int descriptor);
int es_system_sync_folder(int descriptor);
int es_system_rename(const char *from, const char *to);

// unlinkat: `folder` a descriptor or AT_FDCWD, `flags` 0 or AT_REMOVEDIR.
int es_system_remove(int folder, const char *name, int flags);
int es_system_make_folder(const char *path, mode_t mode);

ES_EXTERN_C_END

#endif
