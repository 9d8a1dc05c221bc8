// Taking, asking about and describing the lock of a run folder.
#include "runs/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/macros.h"
#include "runs/run_folder.h"

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
