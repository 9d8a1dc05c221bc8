// A run folder: everything one run leaves behind, in fixed places (docs/file-formats.md).
//
//     esper-run.json  config.ini  run.db  events.jsonl  tensorboard/  checkpoints/<round>/  lock
//     networks/<rank>/
//
// Create marks the folder as a run; it can be resumed once config.ini is in it,
// which the caller writes next. Runs made before there were markers have config.ini alone. A run
// belongs to one process at a time: it is locked while open, and the lock goes with the process,
// however that ends. On a run of several ranks rank 0 creates or opens the folder, the others join
// it.
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
#define ES_RUN_KIND_BYTES 32 // of a kind with its end

// Folder of the networks that a run keeps, the best one in networks/1.
#define ES_RUN_NETWORKS "networks"

typedef struct EsRunFolder EsRunFolder;

// Make a new run. `path` NULL: runs/<kind>-<date>-<time>-<short id> under the current folder, in
// UTC. A folder that exists must be empty; ARGUMENT names its contents, and how to resume when it
// is a run; also when the full path has more than 480 bytes. Missing parents are made.
EsStatus es_run_folder_create(const char *path, const char *kind, EsRunFolder **folder);

// Fails as es_run_folder_create would now, and makes nothing.
EsStatus es_run_folder_check_new(const char *path);

// Take an existing run to go on with it, marked or from before there were markers. INPUT when the
// folder is no run, when its marker is not ours or of a later schema, when another process holds
// it, or when a file that the run would write is a link: a run's own files lie in its folder.
EsStatus es_run_folder_open(const char *path, EsRunFolder **folder);

// Takes a run to remove something of it, or for a preview only to look at it, without writing the
// lock. INPUT unless it is verified to be ours (es_run_marker_verify) and not locked; ARGUMENT when
// `path` is a link.
EsStatus es_run_folder_hold(const char *path, int is_preview, EsRunFolder **folder);

// The same folder for a rank other than 0: takes no lock, and needs no config.ini yet.
EsStatus es_run_folder_join(const char *path, EsRunFolder **folder);

// Gives the lock back. Accepts NULL.
void es_run_folder_close(EsRunFolder *folder);

// Checks whether the root still names the folder that was created or opened: IO when it was
// removed, renamed or replaced meanwhile. *moved_to receives its name now, "" when it is gone or
// unknown.
EsStatus es_run_folder_check(const EsRunFolder *folder, char moved_to[ES_RUN_PATH_BYTES]);

// As it was given, without slashes at the end.
const char *es_run_folder_root(const EsRunFolder *folder);

// Last component of the root, the name of the run.
const char *es_run_folder_name(const EsRunFolder *folder);

// The path of something inside, names of up to 400 bytes.
void es_run_folder_path(const EsRunFolder *folder, const char *name, char path[ES_RUN_PATH_BYTES]);

// --- backups ---

// The files of a run's database with all that SQLite may leave beside it, and the other file that a
// sink writes; tensorboard/ is a folder.
#define ES_RUN_DATABASE_FILES                                                                      \
    "run.db", "run.db-wal", "run.db-shm", "run.db-journal", "run.db.new", "run.db.new-journal"
#define ES_RUN_EVENTS_FILE "events.jsonl"

// Moves a database that cannot be continued to before-<n>/, with the files that SQLite left beside
// it. `backup` receives that folder's path, "" when there was nothing to move.
EsStatus es_run_back_up_database(const EsRunFolder *folder, char backup[ES_RUN_PATH_BYTES]);

// The same with everything else that sinks write.
EsStatus es_run_back_up_telemetry(const EsRunFolder *folder, char backup[ES_RUN_PATH_BYTES]);

// --- looking at runs without opening them ---

// Returns whether the folder has a config.ini, a regular file.
int es_run_has_config(const char *root);

typedef struct EsRunSummary {
    char path[ES_RUN_PATH_BYTES];
    char kind[ES_RUN_KIND_BYTES]; // from the marker, or else from config.ini's [run] kind
    int is_marked;                // otherwise nothing of it is ever removed
    int64_t bytes;                // of all files
    int64_t checkpoint_bytes;
    int64_t last_round;     // of the newest complete checkpoint, -1 when there is none
    int64_t n_rounds;       // asked for, from config.ini's [run] rounds; -1 when it cannot be read
    int n_checkpoints;      // complete ones
    int is_active;          // a process holds the lock
    int64_t changed_unix_s; // newest file; the lock and SQLite's shared memory do not count
} EsRunSummary;

// All folders directly under `root` that are runs (marked, or with a config.ini that names a kind
// of run), oldest first; *summaries is released with es_release. A root that does not exist has
// none.
EsStatus es_run_list(const char *root, EsRunSummary **summaries, int *n_summaries);

// INPUT when the folder is no run.
EsStatus es_run_summarise(const char *path, EsRunSummary *summary);

// End of its last session: "running", "done", "interrupted", "failed", "killed" (it began and never
// ended), or "" where the run has no database to say so. Fails with MEMORY alone.
typedef char EsRunOutcomeName[16];
EsStatus es_run_outcome_name(const EsRunSummary *summary, EsRunOutcomeName name);

// The outcome, and what came of the run; NaN where it does not say, or not yet.
typedef struct EsRunResults {
    EsRunOutcomeName outcome;
    double test_accuracy; // percent: policy of grow, network of a fit, mean of hosts
    double test_mrr;      // mean reciprocal rank of the policy of prove, 0 to 1
    double parameters;    // of a fit's network, of a host of hosts, mean of grow's at their end
    double seconds;       // of sessions that ended, and of the last one up to its last round
} EsRunResults;

// Reads a few rows of the database, however long the run is; of any schema. Fails with MEMORY
// alone.
EsStatus es_run_results(const EsRunSummary *summary, EsRunResults *results);

// --- the marker ---

// The marker of a run folder, esper-run.json: written by us when a folder becomes a run, so that
// nothing else is ever taken for one by a command that removes.
//
//     {"format": "esper-run", "schema": 1, "kind": "grow", "version": "0.1.0"}
//
// Runs made before there were markers have none. They are listed, opened and resumed all the same,
// and a resume marks them.

#define ES_RUN_MARKER_NAME   "esper-run.json"
#define ES_RUN_MARKER_SCHEMA 1

// Returns whether a text may be the kind of a run: letters, digits, '_' and '-', so that it can be
// shown on a terminal as it is.
int es_run_kind_is_valid(const char *kind);

// Write the marker, in place of any other.
EsStatus es_run_marker_write(const char *root, const char *kind);

// Read the kind; "" when there is no marker. INPUT when a file of that name is not a marker, or one
// of a later schema.
EsStatus es_run_marker_read(const char *root, char kind[ES_RUN_KIND_BYTES]);

// INPUT, with the reason, unless the folder is certainly a run of ours: it has a marker, and its
// run.db, where there is one, has our application id (not looked at in a build without SQLite).
EsStatus es_run_marker_verify(const char *root);

// --- the lock ---

// The lock of a run folder: a file that one process holds, and that others can ask about without
// taking it.
//
// It is a lock on the open file (F_OFD_SETLK), so it ends with the process, is not shared between
// two opens of one process, and can be queried; flock cannot be queried without being taken, which
// would turn away a run that starts in that moment. The file's text names the holder.

#define ES_RUN_LOCK_NAME "lock"

// Take the lock of the folder `root`; INPUT when another holds it, naming that process.
EsStatus es_run_lock_open(const char *root, int *descriptor);

// Give it back; -1 is accepted.
void es_run_lock_close(int descriptor);

// Returns whether a process, this one included, holds the lock.
int es_run_lock_is_held(const char *root);

// Returns whether the lock of the folder is a file that we wrote: empty, or a process and its host.
int es_run_lock_is_ours(const char *root);

// "process 1234 on host", or "another process" when the file does not say.
void es_run_lock_holder(const char *root, char text[160]);

#endif
