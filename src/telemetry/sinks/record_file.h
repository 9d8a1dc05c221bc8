// A file that only ever ends after a whole record, so that readers of JSONL and TensorBoard files
// can go on after a full disk.
//
// Records are buffered. When the system refuses bytes, the file is cut back to its last whole
// record and the buffer is kept for the next attempt; a record that finds the buffer full is
// refused, so every record is either written or reported.
#ifndef ES_TELEMETRY_RECORD_FILE_H
#define ES_TELEMETRY_RECORD_FILE_H

#include "telemetry/text.h"

typedef struct EsRecordFile {
    char *path; // owned
    int descriptor;
    uint64_t n_bytes; // whole records in the file; the buffer goes here
    EsText buffer;    // whole records
} EsRecordFile;

// Append to `path`, which is created when missing; with `is_new` it must be. IO names the path and
// the system's reason, INPUT when it is no regular file.
EsStatus es_record_file_open(const char *path, int is_new, EsRecordFile *file);

// Add one record, or several at once that belong together.
EsStatus es_record_file_add(EsRecordFile *file, const void *records, size_t bytes);

// Hand everything to the system; a crash of the machine, not of the program, may still lose it. IO
// also when the path no longer names the file.
EsStatus es_record_file_flush(EsRecordFile *file);

// Flushes first; a failure of that is not reported.
void es_record_file_close(EsRecordFile *file);

#endif
