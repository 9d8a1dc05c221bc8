// Data files read from front to back, plain or packed by gzip; every failure names the path.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if ES_HAVE_ZLIB
#include <zlib.h>
#endif

#include "data/dataset_internal.h"

// deflate unpacks a byte to at most this many
#define MAX_EXPANSION 1040

EsStatus es_data_path_join(char path[ES_DATA_PATH_BYTES], const char *folder, const char *name) {
    size_t n_folder = strlen(folder);
    int has_slash = n_folder > 0 && folder[n_folder - 1] == '/';
    int length = snprintf(path, ES_DATA_PATH_BYTES, "%s%s%s", folder, has_slash ? "" : "/", name);
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
    // a missing file is wrong input, one that cannot be read is a failure
    int is_absent = error == ENOENT || error == ENOTDIR || error == EISDIR;
    return is_absent ? ES_FAIL(INPUT, "%s: cannot open: %s", path, strerror(error))
                     : ES_FAIL(IO, "%s: cannot open: %s", path, strerror(error));
}

// Begins as a gzip file does? Moves back to the front.
static int is_packed(FILE *stream) {
    int first = fgetc(stream), second = fgetc(stream);
    rewind(stream);
    return first == 0x1f && second == 0x8b;
}

static EsStatus open_packed(EsDataFile *file) {
#if ES_HAVE_ZLIB
    file->packed = gzopen(file->path, "rb");
    return file->packed != NULL ? ES_STATUS_OK
                                : ES_FAIL(MEMORY, "%s: no memory to unpack it", file->path);
#else
    return ES_FAIL(UNSUPPORTED,
                   "%s: this build reads no .gz files: gunzip it, or install zlib1g-dev and build "
                   "again",
                   file->path);
#endif
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
    file->is_packed = is_packed(file->stream);
    EsStatus status = file->is_packed ? open_packed(file) : ES_STATUS_OK;
    if (status != ES_STATUS_OK) {
        es_data_file_close(file);
    }
    return status;
}

void es_data_file_close(EsDataFile *file) {
#if ES_HAVE_ZLIB
    if (file->packed != NULL) {
        gzclose(file->packed);
        file->packed = NULL;
    }
#endif
    if (file->stream != NULL) {
        fclose(file->stream);
        file->stream = NULL;
    }
}

// Up to n_bytes of a packed file; fewer at its end. A file that is cut or damaged is INPUT.
static EsStatus unpack(EsDataFile *file, void *bytes, size_t n_bytes, size_t *n_read) {
    *n_read = 0;
#if ES_HAVE_ZLIB
    while (*n_read < n_bytes) {
        unsigned n = (unsigned)ES_MIN(n_bytes - *n_read, (size_t)1 << 30);
        int found = gzread(file->packed, (char *)bytes + *n_read, n);
        int code = Z_OK;
        const char *reason = gzerror(file->packed, &code);
        if (found < 0 || (code != Z_OK && code != Z_STREAM_END)) {
            return ES_FAIL(INPUT, "%s: damaged or truncated gzip data: %s", file->path, reason);
        }
        if (found == 0) {
            break;
        }
        *n_read += (size_t)found;
    }
#else
    (void)file, (void)bytes, (void)n_bytes;
#endif
    return ES_STATUS_OK;
}

EsStatus es_data_file_read(EsDataFile *file, void *bytes, size_t n_bytes) {
    int64_t offset = file->offset;
    size_t n_read = 0;
    if (file->is_packed) {
        ES_TRY(unpack(file, bytes, n_bytes, &n_read));
    } else {
        n_read = fread(bytes, 1, n_bytes, file->stream);
    }
    file->offset += (int64_t)n_read;
    if (n_read == n_bytes) {
        return ES_STATUS_OK;
    }
    if (!file->is_packed && ferror(file->stream)) {
        return ES_FAIL(IO, "%s: reading %zu bytes at offset %lld failed: %s", file->path, n_bytes,
                       (long long)offset, strerror(errno));
    }
    return ES_FAIL(INPUT, "%s: ends at byte %lld, expected %zu bytes from offset %lld on",
                   file->path, (long long)offset + (long long)n_read, n_bytes, (long long)offset);
}

EsStatus es_data_file_skip(EsDataFile *file, int64_t n_bytes) {
    char dropped[16384];
    while (file->is_packed && n_bytes > 0) {
        size_t n = (size_t)ES_MIN(n_bytes, (int64_t)sizeof dropped);
        ES_TRY(es_data_file_read(file, dropped, n));
        n_bytes -= (int64_t)n;
    }
    if (n_bytes != 0 && fseeko(file->stream, (off_t)n_bytes, SEEK_CUR) != 0) {
        return ES_FAIL(IO, "%s: cannot move on by %lld bytes: %s", file->path, (long long)n_bytes,
                       strerror(errno));
    }
    file->offset += n_bytes;
    return ES_STATUS_OK;
}

EsStatus es_data_file_expect(const EsDataFile *file, const char *items, int64_t n_items,
                             int64_t n_bytes) {
    if (!file->is_packed && file->size_bytes != n_bytes) {
        return ES_FAIL(
            INPUT,
            "%s: the header announces %lld %s, which is a file of %lld bytes, but it has "
            "%lld: %s",
            file->path, (long long)n_items, items, (long long)n_bytes, (long long)file->size_bytes,
            file->size_bytes < n_bytes ? "truncated" : "too long");
    }
    if (file->is_packed && n_bytes / MAX_EXPANSION > file->size_bytes) {
        return ES_FAIL(INPUT,
                       "%s: the header announces %lld %s, %lld bytes; a packed file of %lld bytes "
                       "cannot hold so much",
                       file->path, (long long)n_items, items, (long long)n_bytes,
                       (long long)file->size_bytes);
    }
    return ES_STATUS_OK;
}

EsStatus es_data_file_end(EsDataFile *file) {
    uint8_t more;
    size_t n_read = 0;
    if (!file->is_packed) {
        return ES_STATUS_OK; // the size was right
    }
    ES_TRY(unpack(file, &more, 1, &n_read));
    return n_read == 0
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "%s: goes on behind the %lld bytes that its header announces",
                         file->path, (long long)file->offset);
}
