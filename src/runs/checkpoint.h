// Checkpoints of a run: one folder per round, complete or ignored.
//
//     checkpoints/<round>/   files of the ranks, any names but these:
//         WRITING            while it is written
//         rank<r>.json       of each rank: its files with sizes and SHA-256, its values
//         manifest.json      by rank 0: round, score, ranks, SHA-256 of the marks above
//         DONE               last, by rank 0: SHA-256 of manifest.json
//
// A rank writes its files into the folder, then commits: hashes, fsync, rank<r>.json atomically.
// When all ranks have committed, rank 0 completes it. A checkpoint counts when DONE is there, every
// rank's mark is there, and every file has its size; loading checks the hashes too, and an older
// one is taken when the newest is damaged. One that was complete once and cannot be used is never
// deleted. `round` is the number of rounds done.
//
//     EsCheckpoint *checkpoint; char path[ES_RUN_PATH_BYTES];
//     ES_TRY(es_checkpoint_begin(folder, round, rank, n_ranks, &checkpoint));
//     ES_TRY_GOTO(es_checkpoint_add_file(checkpoint, "hosts.safetensors", path));
//     ES_TRY_GOTO(es_network_file_save(path, graph, store, optimiser, stream, NULL, 0));
//     ES_TRY_GOTO(es_checkpoint_put_int(checkpoint, "n_episodes", n));
//     ES_TRY_GOTO(es_checkpoint_commit(checkpoint));
//     ES_TRY_GOTO(es_checkpoint_complete(checkpoint, score));   // rank 0, after all ranks
//     done: es_checkpoint_end(checkpoint);
#ifndef ES_RUNS_CHECKPOINT_H
#define ES_RUNS_CHECKPOINT_H

#include "runs/run_folder.h"
#include "runs/run_removal.h"

typedef struct EsCheckpoint EsCheckpoint;

// --- writing ---

// Rank 0 begins first; the others after it, and find its folder. An unfinished checkpoint of the
// same round is removed first, a damaged one or a folder of others is renamed (damaged-<round>,
// unfinished-<round>); ARGUMENT when the round has a complete one. On failure nothing is left
// behind.
EsStatus es_checkpoint_begin(const EsRunFolder *folder, int64_t round, int rank, int n_ranks,
                             EsCheckpoint **checkpoint);

// Begins a checkpoint of one rank in memory: files that this thread saves are held
// (es_held_files_begin) until es_checkpoint_hold_end, and nothing is on disk before
// es_checkpoint_write, which any thread may call. Put, add_file and end work as ever.
//
//     ES_TRY(es_checkpoint_hold(folder, round, &checkpoint));
//     ... add_file, save, put ...
//     es_checkpoint_hold_end(checkpoint);
//     ... on another thread: es_checkpoint_write, es_checkpoint_complete, es_checkpoint_end ...
EsStatus es_checkpoint_hold(const EsRunFolder *folder, int64_t round, EsCheckpoint **checkpoint);
void es_checkpoint_hold_end(EsCheckpoint *checkpoint);

// Makes the folder of a held checkpoint, writes its files and commits.
EsStatus es_checkpoint_write(EsCheckpoint *checkpoint);

// Reads a complete checkpoint of one rank of the run in `root` into memory, as one that is held;
// nothing on disk is changed. INPUT when there is none of that round, or its hashes do not fit.
EsStatus es_checkpoint_hold_saved(const char *root, int64_t round, EsCheckpoint **checkpoint);

// Between these two this thread reads the files of a held checkpoint from memory, by their paths.
void es_checkpoint_read_begin(const EsCheckpoint *checkpoint);
void es_checkpoint_read_end(void);

// Of the files of a held checkpoint.
size_t es_checkpoint_held_bytes(const EsCheckpoint *checkpoint);

// Makes a file of this name part of the checkpoint: it must be there when the rank commits. `path`
// receives its path. Two ranks may not use one name.
EsStatus es_checkpoint_add_file(EsCheckpoint *checkpoint, const char *name,
                                char path[ES_RUN_PATH_BYTES]);

// Counters and other small values, kept in rank<r>.json; the last value of a key counts. Reals keep
// their bits. ARGUMENT when a text is not UTF-8.
EsStatus es_checkpoint_put_int(EsCheckpoint *checkpoint, const char *key, int64_t value);
EsStatus es_checkpoint_put_real(EsCheckpoint *checkpoint, const char *key, double value);
EsStatus es_checkpoint_put_text(EsCheckpoint *checkpoint, const char *key, const char *value);

EsStatus es_checkpoint_commit(EsCheckpoint *checkpoint);

// INPUT when a rank's mark is missing. `score` decides which checkpoint is the best (higher is
// better; NaN never is).
EsStatus es_checkpoint_complete(EsCheckpoint *checkpoint, double score);

// Bytes of all files of this rank, valid after commit.
int64_t es_checkpoint_bytes(const EsCheckpoint *checkpoint);

// End writing or reading. One that was begun and not completed is removed from disk by rank 0; the
// other ranks remove their files when they have not committed. Keeps the detail of a failure that
// led here. Accepts NULL.
void es_checkpoint_end(EsCheckpoint *checkpoint);

// --- finding, loading ---

typedef struct EsCheckpointInfo {
    int64_t round;
    double score;
    int is_best;   // highest score, the later of equal ones
    int64_t bytes; // of the files of all ranks
} EsCheckpointInfo;

// All complete checkpoints, by round; *infos is released with es_release.
EsStatus es_checkpoint_list(const EsRunFolder *folder, EsCheckpointInfo **infos, int *n_infos);

// Open the newest complete checkpoint whose hashes hold, for reading by this rank. *checkpoint is
// NULL when the run has none. Damaged ones, whose hashes do not fit, are passed over: rank 0
// renames them to damaged-<round> and logs a warning. One that cannot be read (IO, MEMORY) is no
// proof of damage, and nothing is touched; nor by INPUT, for one of a later schema, or written by
// another number of ranks.
EsStatus es_checkpoint_open_latest(const EsRunFolder *folder, int rank, int n_ranks,
                                   EsCheckpoint **checkpoint);

// Opens the complete checkpoint of this round, of one rank, for reading. INPUT when there is none
// whose hashes hold; nothing is touched.
EsStatus es_checkpoint_open(const char *root, int64_t round, EsCheckpoint **checkpoint);

int64_t es_checkpoint_round(const EsCheckpoint *checkpoint);

// The path of a file of the checkpoint; returns `path`.
const char *es_checkpoint_path(const EsCheckpoint *checkpoint, const char *name,
                               char path[ES_RUN_PATH_BYTES]);

// Returns whether there is an entry of that name.
int es_checkpoint_has(const EsCheckpoint *checkpoint, const char *key);

// INPUT names the key and file when there is no such entry of this type. A text is borrowed until
// the end.
EsStatus es_checkpoint_int(const EsCheckpoint *checkpoint, const char *key, int64_t *value);
EsStatus es_checkpoint_real(const EsCheckpoint *checkpoint, const char *key, double *value);
EsStatus es_checkpoint_text(const EsCheckpoint *checkpoint, const char *key, const char **value);

// Checks an input of a resumed run: INPUT when the text under `key`, the SHA-256 of a file or data
// set that the run reads, is not `hash`: a run that went on with another input would be neither of
// two runs. `what` names the input in the message. The first checkpoints of schema 1 have no such
// text: that is a warning.
EsStatus es_checkpoint_check_input(const EsCheckpoint *checkpoint, const char *key,
                                   const char *hash, const char *what);

// --- removal of old checkpoints ---

// Remove unfinished checkpoints, temporaries of killed processes, and all complete checkpoints but
// the last `keep` and the best; damaged ones, those of later schemas and folders of others stay,
// and everything when checkpoints/ is a link. Not while one is being written. The first failure is
// reported after the rest was tried.
EsStatus es_checkpoint_prune(const EsRunFolder *folder, int keep);

// The same with a preview and a report; counts the complete checkpoints that go.
EsStatus es_checkpoint_prune_with(const EsRunFolder *folder, int keep, EsRunRemoval *removal,
                                  int *n_checkpoints);

#endif
