// Buffered records, cut back to whole ones when the system refuses bytes.
#include "telemetry/sinks/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_fault.h"
#include "base/folder.h"
#include "base/memory.h"

// enough to make system calls rare; the most that a failing disk holds up in memory
#define BUFFER_BYTES ((size_t)256 << 10)

EsStatus es_record_file_open(const char *path, int is_new, EsRecordFile *file) {
    memset(file, 0, sizeof *file);
    // O_NONBLOCK: opening a pipe without a reader must fail below, not hang here
    file->descriptor =
        es_system_open_retrying(path, O_WRONLY | O_CREAT | O_NONBLOCK | (is_new ? O_EXCL : 0));
    struct stat facts;
    if (file->descriptor < 0 || fstat(file->descriptor, &facts) != 0) {
        EsStatus status = ES_FAIL(IO, "cannot open %s: %s", path, strerror(errno));
        es_record_file_close(file);
        return status;
    }
    EsStatus status = ES_STATUS_OK;
    if (!S_ISREG(facts.st_mode)) {
        status = ES_FAIL(INPUT, "%s is not a regular file", path);
        goto done;
    }
    file->n_bytes = (uint64_t)facts.st_size;
    size_t path_bytes = strlen(path) + 1;
    ES_TRY_GOTO(es_allocate(path_bytes, (void **)&file->path));
    memcpy(file->path, path, path_bytes);
done:
    if (status != ES_STATUS_OK) {
        es_record_file_close(file);
    }
    return status;
}

EsStatus es_record_file_flush(EsRecordFile *file) {
    size_t done = 0;
    // every attempt starts at the same place, wherever the last one got to
    if (lseek(file->descriptor, (off_t)file->n_bytes, SEEK_SET) < 0) {
        return ES_FAIL(IO, "cannot write %s: %s", file->path, strerror(errno));
    }
    while (done < file->buffer.length) {
        ssize_t written = es_system_write(file->descriptor, file->buffer.bytes + done,
                                          file->buffer.length - done);
        if (written > 0) {
            done += (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            EsStatus status = ES_FAIL(IO, "cannot write %s: %s", file->path,
                                      strerror(written == 0 ? ENOSPC : errno));
            // when even this fails, a torn record stays until the next attempt writes over it
            int is_cut = ftruncate(file->descriptor, (off_t)file->n_bytes) == 0;
            (void)is_cut;
            return status;
        }
    }
    file->n_bytes += done;
    es_text_reset(&file->buffer);
    // no reader would look where the bytes went
    return es_path_names(file->path, file->descriptor)
               ? ES_STATUS_OK
               : ES_FAIL(IO, "%s was removed or renamed while it was written", file->path);
}

EsStatus es_record_file_add(EsRecordFile *file, const void *records, size_t bytes) {
    if (file->buffer.length > 0 && file->buffer.length + bytes > BUFFER_BYTES) {
        ES_TRY(es_record_file_flush(file));
    }
    es_text_add(&file->buffer, records, bytes);
    EsStatus status = file->buffer.status;
    file->buffer.status = ES_STATUS_OK; // the records before are whole and stay
    return status;
}

void es_record_file_close(EsRecordFile *file) {
    if (file->descriptor >= 0) {
        // without records nothing can fail: an opening that did keeps its reason
        EsStatus status = file->buffer.length > 0 ? es_record_file_flush(file) : ES_STATUS_OK;
        (void)status;
        close(file->descriptor);
    }
    es_text_destroy(&file->buffer);
    es_release(file->path);
    file->path = NULL;
    file->descriptor = -1;
}
