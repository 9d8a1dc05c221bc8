// A run folder: everything one run leaves behind, in fixed places (docs/file-formats.md).
//
//     config.ini  run.db  events.jsonl  tensorboard/  checkpoints/<round>/  lock
//
// A folder is a run once config.ini is in it, which the caller writes after create. It belongs to
// one process at a time: it is locked while open, and the lock goes with the process, however that
// ends. On a run of several ranks rank 0 creates or opens the folder, the others join it.
//
//     EsRunFolder *folder; ES_TRY(es_run_folder_create(NULL, "hosts", &folder));
//     char path[ES_RUN_PATH_BYTES]; es_run_folder_path(folder, "run.db", path);
//     es_run_folder_close(folder);
#ifndef ES_RUNS_RUN_FOLDER_H
#define ES_RUNS_RUN_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "esper/status.h"

#define ES_RUN_PATH_BYTES 4096

typedef struct EsRunFolder EsRunFolder;

// Make a new run. `path` NULL: runs/<kind>-<date>-<time>-<short id> under the current folder, in
// UTC. A folder that exists must be empty; ARGUMENT says what is in it, and how to resume when it
// is a run; also when the full path has more than 480 bytes. Missing parents are made.
EsStatus es_run_folder_create(const char *path, const char *kind, EsRunFolder **folder);

// Take an existing run to go on with it. INPUT when the folder is no run (no config.ini), or
// another process holds it.
EsStatus es_run_folder_open(const char *path, EsRunFolder **folder);

// The same folder for a rank other than 0: takes no lock, and needs no config.ini yet.
EsStatus es_run_folder_join(const char *path, EsRunFolder **folder);

// Gives the lock back. Accepts NULL.
void es_run_folder_close(EsRunFolder *folder);

// As it was given, without slashes at the end.
const char *es_run_folder_root(const EsRunFolder *folder);

// Last component of the root, the name of the run.
const char *es_run_folder_name(const EsRunFolder *folder);

// The path of something inside, names of up to 400 bytes.
void es_run_folder_path(const EsRunFolder *folder, const char *name, char path[ES_RUN_PATH_BYTES]);

// --- looking at runs without opening them ---

typedef struct EsRunSummary {
    char path[ES_RUN_PATH_BYTES];
    char kind[32]; // from config.ini's [run] kind, "?" when it cannot be read
    int64_t bytes; // of all files
    int64_t checkpoint_bytes;
    int64_t last_round;     // of the newest complete checkpoint, -1 when there is none
    int64_t n_rounds;       // asked for, from config.ini's [run] rounds; -1 when it cannot be read
    int n_checkpoints;      // complete ones
    int is_active;          // a process holds the lock
    int64_t changed_unix_s; // newest file; the lock and SQLite's shared memory do not count
} EsRunSummary;

// All folders directly under `root` that are runs, oldest first; *summaries is released with
// es_release. A root that does not exist has none.
EsStatus es_run_list(const char *root, EsRunSummary **summaries, int *n_summaries);

// INPUT when the folder is no run.
EsStatus es_run_summarise(const char *path, EsRunSummary *summary);

// How its last sitting ended: "running", "done", "interrupted", "failed", "killed" (it began and
// never ended), or "" where the run has no database that tells.
typedef char EsRunOutcomeName[16];
void es_run_outcome_name(const EsRunSummary *summary, EsRunOutcomeName name);

// Delete a run that nobody holds, with everything in it. Never follows links out of it; refuses
// what is no run. config.ini goes last, so that one which was interrupted can be repeated.
EsStatus es_run_remove(const char *path);

#endif
