// Whole files: read with a limit, written so that a crash leaves the old file or the new one, never
// a part.
//
// A writer fills a temporary beside the target; commit makes it durable and puts it in the target's
// place. Until then the old file is untouched. Errors are IO and name the path and the system's
// reason. One thread per reader or writer. All calls of the system go through base/file_fault.h.
//
//     EsFileWriter *writer; ES_TRY(es_file_writer_open("model.bin", &writer));
//     EsStatus status = es_file_writer_append(writer, data, bytes);
//     if (status != ES_STATUS_OK) { es_file_writer_abandon(writer); return status; }
//     return es_file_writer_commit(writer);
#ifndef ES_BASE_FILE_H
#define ES_BASE_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "base/folder.h"
#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// --- writing ---

typedef struct EsFileWriter EsFileWriter;

// The temporary is called `path`.<process>-<n>.tmp, so it lies on the same file system. Links at
// `path` are followed and kept: the file they lead to is replaced, or made. Only regular files are
// replaced. Pipes and devices, and the file that our own stdout or stderr goes to (/dev/stdout),
// are written through: bytes leave at once, and nothing is taken back on failure.
EsStatus es_file_writer_open(const char *path, EsFileWriter **writer);

// Add bytes at the end. After a failure only es_file_writer_abandon makes sense; commit would
// repeat the failure.
EsStatus es_file_writer_append(EsFileWriter *writer, const void *data, size_t bytes);

// fsync, rename, fsync of the folder. Ends the writer, also on failure; the temporary is then gone
// and the old file is whole (only a failing fsync of the folder comes after the new file is in
// place). A writer that writes through only closes.
EsStatus es_file_writer_commit(EsFileWriter *writer);

// Discards the bytes written so far and ends the writer. Accepts NULL.
void es_file_writer_abandon(EsFileWriter *writer);

// Fail as a writer of this path would, before the work whose result it is for. Nothing is changed,
// and nothing tried where it would write through.
EsStatus es_file_writer_try(const char *path);

// Returns whether writing to `path` would write to our own stdout, so that nothing else may be
// printed there.
int es_file_is_stdout(const char *path);

// Returns whether `name` is that of a writer's temporary. One outlives a process that was killed.
int es_file_is_temporary(const char *name);

// The name that a file bears in the end: of a writer's temporary that of its target, written into
// `target`, of any other its own. Whose a file is depends on this name alone: policy.old.1-0.tmp
// was to become policy.old, not policy.
const char *es_file_final_name(const char *name, char target[ES_FILE_NAME_BYTES]);

// Open, append and commit in one call.
EsStatus es_file_write_all(const char *path, const void *data, size_t bytes);

// Makes a file written by other code durable; its name needs es_folder_sync besides.
EsStatus es_file_sync(const char *path);

// --- writing later, on another thread ---

// Files that are whole in memory and not on disk yet. Between begin and end, writers that this
// thread opens fill memory instead of temporaries, whatever lies at their paths;
// es_held_files_write then makes the files as their writers would have, in the order of commits.
//
//     EsHeldFiles *files; ES_TRY(es_held_files_begin(&files));
//     EsStatus status = es_policy_save(policy, path);     // copies; the disk is not touched
//     es_held_files_end();
//     ... on any thread: es_held_files_write(files); es_held_files_destroy(files); ...
typedef struct EsHeldFiles EsHeldFiles;

// Creates an empty one, without holding what this thread writes.
EsStatus es_held_files_create(EsHeldFiles **files);

// Creates one and holds what this thread writes; one at a time per thread.
EsStatus es_held_files_begin(EsHeldFiles **files);
void es_held_files_end(void);

// Stops at the first failure. Once.
EsStatus es_held_files_write(const EsHeldFiles *files);

// Between these two, readers that this thread opens find the files in memory by their paths; others
// are read from disk. `files` is borrowed and must not change meanwhile.
void es_held_files_read_begin(const EsHeldFiles *files);
void es_held_files_read_end(void);

// Adds a file that is on disk, under the same path.
EsStatus es_held_files_add(EsHeldFiles *files, const char *path);

// Of the committed files.
size_t es_held_files_bytes(const EsHeldFiles *files);

// Accepts NULL.
void es_held_files_destroy(EsHeldFiles *files);

// --- reading ---

typedef struct EsFileReader EsFileReader;

// Regular files alone: INPUT for a folder, pipe or device.
EsStatus es_file_reader_open(const char *path, EsFileReader **reader);
void es_file_reader_close(EsFileReader *reader);

// Size when it was opened.
uint64_t es_file_reader_bytes(const EsFileReader *reader);

// Exactly `bytes` from `offset`; IO when the file has become shorter.
EsStatus es_file_reader_read(EsFileReader *reader, uint64_t offset, void *into, size_t bytes);

// The whole file into fresh memory (es_release it), 64-byte aligned, with a zero byte after the end
// that *bytes does not count. INPUT when it is larger than max_bytes.
EsStatus es_file_read_all(const char *path, size_t max_bytes, void **data, size_t *bytes);

// Close a stream of open_memstream whose text is at *text. MEMORY when any of it is missing, which
// fclose alone does not report.
EsStatus es_memory_stream_close(FILE *stream, char *const *text);

ES_EXTERN_C_END

#endif
