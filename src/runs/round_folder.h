// The folder of a saved round, checkpoints/<round>/: its path, the checks of its state, its backup
// and its removal. checkpoint.h writes and reads through it. Internal to runs/; nothing here needs
// the run's lock.
//
// Everything hangs on DONE: it holds the SHA-256 of manifest.json, which holds those of the ranks'
// marks, which hold those of their files. While a checkpoint is written or removed its folder holds
// WRITING, a sign with the round and the names of its files. A folder with neither sign nor marks
// is not ours under any name, and all of them are recognised by their content. These names, and the
// members "schema" and "round" of manifest.json and of marks, hold for all schemas.
#ifndef ES_RUNS_ROUND_FOLDER_H
#define ES_RUNS_ROUND_FOLDER_H

#include <jansson.h>

#include "runs/checkpoint.h"
#include "runs/run_removal.h"

// All from 1 on are read; this one is written. Apart from the schema of run.db.
#define ES_CHECKPOINT_SCHEMA 1

typedef enum EsRoundFolderCondition {
    ES_ROUND_FOLDER_ABSENT,     // no folder, or one that is not ours
    ES_ROUND_FOLDER_UNFINISHED, // ours: being written or removed when that was interrupted
    ES_ROUND_FOLDER_COMPLETE,
    ES_ROUND_FOLDER_DAMAGED, // it was complete once; hashes or sizes do not fit, or DONE is gone
    ES_ROUND_FOLDER_REFUSED  // its hashes fit, but this program does not know its schema or members
} EsRoundFolderCondition;

typedef struct EsRoundFolder {
    EsRoundFolderCondition condition;
    int n_ranks;
    EsCheckpointInfo info; // is_best is left 0
    char problem[320];     // why it is not complete, "" when it is
} EsRoundFolder;

// <root>/checkpoints/<round>/<name>; `name` "" is the folder itself.
void es_round_folder_path(const char *root, int64_t round, const char *name,
                          char path[ES_RUN_PATH_BYTES]);

// Rounds that have a folder in any state, ascending; released with es_release.
EsStatus es_round_folder_rounds(const char *root, int64_t **rounds, int *n_rounds);

// Checks one checkpoint: the marks and the sizes of the files, and with `with_hashes` their
// content. Fails when reading or memory does; a defect of the checkpoint is no failure but stands
// in found->condition and found->problem.
EsStatus es_round_folder_check(const char *root, int64_t round, int with_hashes,
                               EsRoundFolder *found);

// Check the mark of one rank and the files it names, and add their bytes to *bytes. INPUT names
// the defect, and *is_damaged says whether a file is missing or has another size or hash.
// `names` (an object, used as a set) takes the files' names: two ranks may not share one.
EsStatus es_round_folder_check_mark(const char *root, int64_t round, int rank, int n_ranks,
                                    int with_hashes, json_t *names, int64_t *bytes,
                                    int *is_damaged);

// All complete checkpoints with the best marked, as es_checkpoint_list.
EsStatus es_round_folder_list(const char *root, EsCheckpointInfo **infos, int *n_infos);

// Make the folder of a round with the sign of writing in it; IO when there is something of that
// name.
EsStatus es_round_folder_begin_writing(const char *root, int64_t round);

// Note in the sign that a file of this name belongs to the checkpoint, before it is made.
EsStatus es_round_folder_add_name(const char *root, int64_t round, const char *name);

// Remove the sign, when DONE is there.
EsStatus es_round_folder_end_writing(const char *root, int64_t round);

// Removes our part of a checkpoint's folder: the files that its sign and marks name, these
// themselves, and temporaries of all of them. DONE goes first, made durable, so that a crash in
// between leaves the checkpoint unfinished, not wrong; the sign goes last, so that it can be gone
// on with. Anything else stays and is reported; a folder that does not bear the name of a
// checkpoint, or has nothing of ours in it, as a whole.
EsStatus es_round_folder_clear(const char *folder, EsRunRemoval *removal);

// The same for one round.
EsStatus es_round_folder_remove(const char *root, int64_t round);

// Backs the folder of a round up: renames it to <reason>-<round>, or <reason>-<round>-<n> where
// that is taken, and logs a warning with found->problem. Nothing is lost.
EsStatus es_round_folder_back_up(const char *root, const EsRoundFolder *found, const char *reason);

// Removes the half-made files of killed processes: temporaries of our files in a checkpoint's
// folder, folders that were to become one in checkpoints/.
EsStatus es_round_folder_remove_strays(const char *folder);

// JSON of a file: IO when it cannot be read, MEMORY when that is short, INPUT when it is no object.
EsStatus es_round_folder_load(const char *path, json_t **object);

// Write an object atomically; takes the reference also on failure. NULL is out of memory.
EsStatus es_round_folder_save(const char *path, json_t *object);

// A real as {"real": 0.5, "bits": "3fe0000000000000"}: the first is for readers (null when JSON
// has no such number), the second counts.
json_t *es_round_folder_pack_real(double value);
int es_round_folder_unpack_real(const json_t *packed, double *value);

#endif
