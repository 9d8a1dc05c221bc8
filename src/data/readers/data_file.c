// Data files read from front to back; every failure names the path.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/dataset_internal.h"

EsStatus es_data_path_join(char path[ES_DATA_PATH_BYTES], const char *folder, const char *name) {
    int length = snprintf(path, ES_DATA_PATH_BYTES, "%s/%s", folder, name);
    if (length < 0 || length >= ES_DATA_PATH_BYTES) {
        return ES_FAIL(ARGUMENT, "the path of %s is longer than %d bytes", name,
                       ES_DATA_PATH_BYTES - 1);
    }
    return ES_STATUS_OK;
}

static EsStatus fail_to_open(const char *path, int error) {
    char packed[ES_DATA_PATH_BYTES + 4];
    snprintf(packed, sizeof packed, "%s.gz", path);
    if (error == ENOENT && access(packed, F_OK) == 0) {
        return ES_FAIL(INPUT, "%s: not found, but %s is there: unpack it first (gunzip -k %s)",
                       path, packed, packed);
    }
    // a missing file is wrong input, an unreadable one a failure of I/O
    int is_absent = error == ENOENT || error == ENOTDIR || error == EISDIR;
    return is_absent ? ES_FAIL(INPUT, "%s: cannot open: %s", path, strerror(error))
                     : ES_FAIL(IO, "%s: cannot open: %s", path, strerror(error));
}

EsStatus es_data_file_open(EsDataFile *file, const char *path) {
    memset(file, 0, sizeof *file);
    snprintf(file->path, sizeof file->path, "%s", path);
    file->stream = fopen(path, "rb");
    if (file->stream == NULL) {
        return fail_to_open(path, errno);
    }
    struct stat info;
    if (fstat(fileno(file->stream), &info) != 0 || !S_ISREG(info.st_mode)) {
        es_data_file_close(file);
        return ES_FAIL(IO, "%s: not a regular file", path);
    }
    file->size_bytes = (int64_t)info.st_size;
    return ES_STATUS_OK;
}

void es_data_file_close(EsDataFile *file) {
    if (file->stream != NULL) {
        fclose(file->stream);
        file->stream = NULL;
    }
}

EsStatus es_data_file_read(EsDataFile *file, void *bytes, size_t n_bytes) {
    int64_t offset = (int64_t)ftello(file->stream);
    size_t n_read = fread(bytes, 1, n_bytes, file->stream);
    if (n_read == n_bytes) {
        return ES_STATUS_OK;
    }
    if (ferror(file->stream)) {
        return ES_FAIL(IO, "%s: reading %zu bytes at offset %lld failed: %s", file->path, n_bytes,
                       (long long)offset, strerror(errno));
    }
    return ES_FAIL(INPUT, "%s: ends at byte %lld, expected %zu bytes from offset %lld on",
                   file->path, (long long)offset + (long long)n_read, n_bytes, (long long)offset);
}

EsStatus es_data_file_skip(EsDataFile *file, int64_t n_bytes) {
    if (fseeko(file->stream, (off_t)n_bytes, SEEK_CUR) != 0) {
        return ES_FAIL(IO, "%s: cannot move on by %lld bytes: %s", file->path, (long long)n_bytes,
                       strerror(errno));
    }
    return ES_STATUS_OK;
}
