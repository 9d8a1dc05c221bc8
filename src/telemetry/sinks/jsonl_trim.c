#include "telemetry/sinks/jsonl_trim.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "telemetry/text.h"

#define CHUNK_BYTES ((size_t)1 << 20)

// the round stands in the first 160 bytes of a line of ours
#define HEAD_BYTES 256

typedef struct Trim {
    int64_t last_round;
    EsFileWriter *writer;  // owned; NULL while lines are only counted
    EsText kept;           // on its way to the writer
    char head[HEAD_BYTES]; // start of the line at hand, until its fate is known
    size_t head_bytes;
    int is_decided, is_kept; // the line at hand
    int64_t n_removed;
} Trim;

// The round of a line, or INT64_MIN when it is not one of ours.
static int64_t read_round(const char *head, size_t bytes) {
    static const char start[] = "{\"event\":\"", key[] = ",\"round\":";
    size_t start_bytes = sizeof start - 1, key_bytes = sizeof key - 1;
    if (bytes < start_bytes || memcmp(head, start, start_bytes) != 0) {
        return INT64_MIN;
    }
    const char *found = memmem(head, bytes, key, key_bytes);
    if (found == NULL) {
        return INT64_MIN;
    }
    const char *end = head + bytes, *digit = found + key_bytes;
    int is_negative = digit < end && *digit == '-';
    int64_t value = 0;
    for (digit += is_negative; digit < end && *digit >= '0' && *digit <= '9'; digit++) {
        if (value > (INT64_MAX - 9) / 10) {
            return INT64_MIN;
        }
        value = 10 * value + (*digit - '0');
    }
    return is_negative ? -value : value;
}

static EsStatus keep_bytes(Trim *trim, const char *bytes, size_t n_bytes) {
    if (!trim->is_kept || trim->writer == NULL) {
        return ES_STATUS_OK;
    }
    es_text_add(&trim->kept, bytes, n_bytes);
    ES_TRY(trim->kept.status);
    if (trim->kept.length >= CHUNK_BYTES) {
        ES_TRY(es_file_writer_append(trim->writer, trim->kept.bytes, trim->kept.length));
        es_text_reset(&trim->kept);
    }
    return ES_STATUS_OK;
}

// A piece of the line at hand, its end when `is_end`.
static EsStatus take_piece(Trim *trim, const char *bytes, size_t n_bytes, int is_end) {
    if (!trim->is_decided) {
        size_t n_head = ES_MIN(n_bytes, HEAD_BYTES - trim->head_bytes);
        memcpy(trim->head + trim->head_bytes, bytes, n_head);
        trim->head_bytes += n_head;
        bytes += n_head;
        n_bytes -= n_head;
        if (trim->head_bytes == HEAD_BYTES || is_end) {
            trim->is_decided = 1;
            trim->is_kept = trim->last_round < 0 ||
                            read_round(trim->head, trim->head_bytes) <= trim->last_round;
            trim->n_removed += !trim->is_kept;
            ES_TRY(keep_bytes(trim, trim->head, trim->head_bytes));
        }
    }
    if (trim->is_decided) {
        ES_TRY(keep_bytes(trim, bytes, n_bytes));
    }
    if (is_end) {
        trim->is_decided = 0;
        trim->head_bytes = 0;
    }
    return ES_STATUS_OK;
}

static EsStatus take_lines(Trim *trim, EsFileReader *reader, char *chunk, uint64_t whole_bytes) {
    for (uint64_t offset = 0; offset < whole_bytes;) {
        size_t n_left = (size_t)ES_MIN(whole_bytes - offset, CHUNK_BYTES);
        ES_TRY(es_file_reader_read(reader, offset, chunk, n_left));
        offset += n_left;
        for (const char *next = chunk; n_left > 0;) {
            const char *newline = memchr(next, '\n', n_left);
            size_t n_bytes = newline != NULL ? (size_t)(newline - next) + 1 : n_left;
            ES_TRY(take_piece(trim, next, n_bytes, newline != NULL));
            next += n_bytes;
            n_left -= n_bytes;
        }
    }
    return ES_STATUS_OK;
}

// Bytes up to and with the last newline.
static EsStatus find_whole_bytes(EsFileReader *reader, char *chunk, uint64_t *whole_bytes) {
    uint64_t end = es_file_reader_bytes(reader);
    while (end > 0) {
        size_t n_bytes = (size_t)ES_MIN(end, CHUNK_BYTES);
        ES_TRY(es_file_reader_read(reader, end - n_bytes, chunk, n_bytes));
        const char *newline = memrchr(chunk, '\n', n_bytes);
        if (newline != NULL) {
            end = end - n_bytes + (uint64_t)(newline - chunk) + 1;
            break;
        }
        end -= n_bytes;
    }
    *whole_bytes = end;
    return ES_STATUS_OK;
}

static EsStatus rewrite_file(Trim *trim, const char *path, EsFileReader *reader, char *chunk,
                             uint64_t whole_bytes) {
    ES_TRY(es_file_writer_open(path, &trim->writer));
    ES_TRY(take_lines(trim, reader, chunk, whole_bytes));
    ES_TRY(es_file_writer_append(trim->writer, trim->kept.bytes, trim->kept.length));
    EsFileWriter *writer = trim->writer;
    trim->writer = NULL; // commit ends it in any case
    return es_file_writer_commit(writer);
}

EsStatus es_jsonl_trim(const char *path, int64_t last_round) {
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return ES_STATUS_OK;
    }
    Trim trim = {.last_round = last_round};
    EsFileReader *reader = NULL;
    void *chunk = NULL;
    uint64_t whole_bytes = 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_file_reader_open(path, &reader));
    ES_TRY_GOTO(es_allocate(CHUNK_BYTES, &chunk));
    ES_TRY_GOTO(find_whole_bytes(reader, chunk, &whole_bytes));
    // counted first: a file with nothing to remove, however large, is not copied
    if (last_round >= 0) {
        ES_TRY_GOTO(take_lines(&trim, reader, chunk, whole_bytes));
    }
    if (trim.n_removed > 0 || whole_bytes < es_file_reader_bytes(reader)) {
        ES_TRY_GOTO(rewrite_file(&trim, path, reader, chunk, whole_bytes));
    }
done:
    es_file_writer_abandon(trim.writer);
    es_text_destroy(&trim.kept);
    es_release(chunk);
    es_file_reader_close(reader);
    return status;
}
