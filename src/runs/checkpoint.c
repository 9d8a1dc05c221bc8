// Writing a checkpoint, reading its values, finding the one to go on from, and pruning the rest.
// The layout on disk and its checks are in round_folder.c.
#include "runs/checkpoint.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/memory.h"
#include "esper/log.h"
#include "runs/round_folder.h"

struct EsCheckpoint {
    char root[ES_RUN_PATH_BYTES]; // of the run
    int64_t round;
    int rank, n_ranks;
    int is_writing, is_committed, is_complete;
    int is_on_disk;    // there is a folder, which end removes unless it is complete
    int is_holding;    // this thread's files
    EsHeldFiles *held; // owned; NULL where files go to disk at once
    json_t *names;     // owned: an object whose keys are the files of this rank; NULL in reading
    json_t *values;    // owned, by key
    int64_t bytes;
};

// --- writing ---

static EsStatus create_object(const char *root, int64_t round, int rank, int n_ranks,
                              EsCheckpoint **checkpoint) {
    ES_ASSERT(round >= 0 && n_ranks >= 1 && rank >= 0 && rank < n_ranks);
    ES_TRY(es_allocate(sizeof **checkpoint, (void **)checkpoint));
    snprintf((*checkpoint)->root, sizeof(*checkpoint)->root, "%s", root);
    (*checkpoint)->round = round;
    (*checkpoint)->rank = rank;
    (*checkpoint)->n_ranks = n_ranks;
    return ES_STATUS_OK;
}

static void destroy_object(EsCheckpoint *checkpoint) {
    if (checkpoint != NULL) {
        json_decref(checkpoint->names);
        json_decref(checkpoint->values);
        es_held_files_destroy(checkpoint->held);
        es_release(checkpoint);
    }
}

// Make room for a new folder: an interrupted attempt of ours is removed, anything else that bears
// the round's number is kept under another name.
static EsStatus clear_place(const EsCheckpoint *checkpoint) {
    const char *root = checkpoint->root;
    EsRoundFolder found;
    struct stat info;
    char path[ES_RUN_PATH_BYTES];
    ES_TRY(es_round_folder_check(root, checkpoint->round, 0, &found));
    switch (found.condition) {
    case ES_ROUND_FOLDER_COMPLETE:
        return ES_FAIL(ARGUMENT, "%s has a complete checkpoint of round %lld already", root,
                       (long long)checkpoint->round);
    case ES_ROUND_FOLDER_REFUSED:
        return ES_FAIL(INPUT, "%s", found.problem);
    case ES_ROUND_FOLDER_DAMAGED:
        return es_round_folder_back_up(root, &found, "damaged");
    case ES_ROUND_FOLDER_UNFINISHED:
    case ES_ROUND_FOLDER_ABSENT:
        ES_TRY(es_round_folder_remove(root, checkpoint->round));
        break;
    }
    es_round_folder_path(root, checkpoint->round, "", path);
    return lstat(path, &info) == 0 ? es_round_folder_back_up(root, &found, "unfinished")
                                   : ES_STATUS_OK;
}

// Rank 0: a fresh folder with the sign of writing.
static EsStatus make_checkpoint_folder(const EsCheckpoint *checkpoint, int *is_made) {
    char path[ES_RUN_PATH_BYTES];
    const char *root = checkpoint->root;
    ES_TRY(clear_place(checkpoint));
    int length = snprintf(path, sizeof path, "%s/checkpoints", root), is_new = 0;
    ES_ASSERT(length > 0 && length < (int)sizeof path);
    // one level alone: a run folder that has vanished must not come back
    ES_TRY(es_folder_make_new(path, &is_new));
    ES_TRY(es_round_folder_begin_writing(root, checkpoint->round));
    *is_made = 1;
    return ES_STATUS_OK;
}

static EsStatus find_checkpoint_folder(const EsCheckpoint *checkpoint) {
    char path[ES_RUN_PATH_BYTES];
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    es_round_folder_path(checkpoint->root, checkpoint->round, "", path);
    EsStatus status = es_folder_list(path, &entries, &n_entries);
    if (status == ES_STATUS_MEMORY) {
        return status;
    }
    if (status != ES_STATUS_OK) {
        return ES_FAIL(INPUT, "rank %d cannot begin the checkpoint %s before rank 0 has",
                       checkpoint->rank, path);
    }
    es_release(entries);
    return ES_STATUS_OK;
}

static EsStatus create_writing(const EsRunFolder *folder, int64_t round, int rank, int n_ranks,
                               EsCheckpoint **checkpoint) {
    ES_TRY(create_object(es_run_folder_root(folder), round, rank, n_ranks, checkpoint));
    (*checkpoint)->is_writing = 1;
    (void)es_json_lacked_memory(); // an earlier attempt is no concern of this one
    (*checkpoint)->names = json_object();
    (*checkpoint)->values = json_object();
    return (*checkpoint)->names != NULL && (*checkpoint)->values != NULL
               ? ES_STATUS_OK
               : ES_FAIL(MEMORY, "not enough memory to begin a checkpoint");
}

EsStatus es_checkpoint_begin(const EsRunFolder *folder, int64_t round, int rank, int n_ranks,
                             EsCheckpoint **checkpoint_out) {
    *checkpoint_out = NULL;
    EsCheckpoint *checkpoint = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(create_writing(folder, round, rank, n_ranks, &checkpoint));
    if (rank == 0) {
        ES_TRY_GOTO(make_checkpoint_folder(checkpoint, &checkpoint->is_on_disk));
    } else {
        ES_TRY_GOTO(find_checkpoint_folder(checkpoint));
        checkpoint->is_on_disk = 1;
    }
    *checkpoint_out = checkpoint;
    return ES_STATUS_OK;
done:
    es_checkpoint_end(checkpoint);
    return status;
}

EsStatus es_checkpoint_hold(const EsRunFolder *folder, int64_t round,
                            EsCheckpoint **checkpoint_out) {
    *checkpoint_out = NULL;
    EsCheckpoint *checkpoint = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(create_writing(folder, round, 0, 1, &checkpoint));
    ES_TRY_GOTO(es_held_files_begin(&checkpoint->held));
    checkpoint->is_holding = 1;
    *checkpoint_out = checkpoint;
    return ES_STATUS_OK;
done:
    es_checkpoint_end(checkpoint);
    return status;
}

void es_checkpoint_hold_end(EsCheckpoint *checkpoint) {
    ES_ASSERT(checkpoint->is_holding);
    es_held_files_end();
    checkpoint->is_holding = 0;
}

EsStatus es_checkpoint_write(EsCheckpoint *checkpoint) {
    ES_ASSERT(checkpoint->held != NULL && !checkpoint->is_holding && !checkpoint->is_on_disk);
    const char *name;
    json_t *unused;
    ES_TRY(make_checkpoint_folder(checkpoint, &checkpoint->is_on_disk));
    json_object_foreach(checkpoint->names, name, unused) {
        ES_TRY(es_round_folder_add_name(checkpoint->root, checkpoint->round, name));
    }
    ES_TRY(es_held_files_write(checkpoint->held));
    es_held_files_destroy(checkpoint->held); // as soon as the disk has them
    checkpoint->held = NULL;
    return es_checkpoint_commit(checkpoint);
}

const char *es_checkpoint_path(const EsCheckpoint *checkpoint, const char *name,
                               char path[ES_RUN_PATH_BYTES]) {
    es_round_folder_path(checkpoint->root, checkpoint->round, name, path);
    return path;
}

EsStatus es_checkpoint_add_file(EsCheckpoint *checkpoint, const char *name,
                                char path[ES_RUN_PATH_BYTES]) {
    ES_ASSERT(checkpoint->is_writing && !checkpoint->is_committed);
    // the rest of the 255 bytes a name may have is for the ends of temporaries
    ES_ASSERT(name[0] != '\0' && name[0] != '.' && strlen(name) < 200);
    ES_ASSERT(strchr(name, '/') == NULL);
    ES_ASSERT(strcmp(name, "DONE") != 0 && strcmp(name, "manifest.json") != 0);
    es_checkpoint_path(checkpoint, name, path);
    if (json_object_get(checkpoint->names, name) != NULL) {
        return ES_STATUS_OK;
    }
    if (json_object_set_new(checkpoint->names, name, json_null()) != 0) {
        return ES_FAIL(MEMORY, "not enough memory to list the files of a checkpoint");
    }
    return checkpoint->is_on_disk
               ? es_round_folder_add_name(checkpoint->root, checkpoint->round, name)
               : ES_STATUS_OK;
}

static EsStatus put_value(EsCheckpoint *checkpoint, const char *key, json_t *value) {
    ES_ASSERT(checkpoint->is_writing && !checkpoint->is_committed);
    if (value == NULL || json_object_set_new(checkpoint->values, key, value) != 0) {
        return ES_FAIL(MEMORY, "not enough memory for \"%s\" of a checkpoint", key);
    }
    return ES_STATUS_OK;
}

EsStatus es_checkpoint_put_int(EsCheckpoint *checkpoint, const char *key, int64_t value) {
    return put_value(checkpoint, key, json_integer(value));
}

EsStatus es_checkpoint_put_real(EsCheckpoint *checkpoint, const char *key, double value) {
    return put_value(checkpoint, key, es_round_folder_pack_real(value));
}

EsStatus es_checkpoint_put_text(EsCheckpoint *checkpoint, const char *key, const char *value) {
    json_t *text = json_string(value);
    if (text == NULL) {
        return es_json_lacked_memory()
                   ? ES_FAIL(MEMORY, "not enough memory for \"%s\" of a checkpoint", key)
                   : ES_FAIL(ARGUMENT, "the text of \"%s\" of a checkpoint is not UTF-8", key);
    }
    return put_value(checkpoint, key, text);
}

// Make the files of this rank durable and describe them.
static EsStatus seal_files(EsCheckpoint *checkpoint, json_t *files) {
    const char *name;
    json_t *unused;
    json_object_foreach(checkpoint->names, name, unused) {
        char path[ES_RUN_PATH_BYTES], sha256[ES_SHA256_TEXT_BYTES];
        int64_t bytes = 0;
        es_round_folder_path(checkpoint->root, checkpoint->round, name, path);
        ES_TRY(es_file_sync(path));
        ES_TRY(es_sha256_file(path, sha256, &bytes));
        json_t *entry = json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (json_int_t)bytes,
                                  "sha256", sha256);
        if (json_array_append_new(files, entry) != 0) {
            return ES_FAIL(MEMORY, "not enough memory to list %s", path);
        }
        checkpoint->bytes += bytes;
    }
    return ES_STATUS_OK;
}

EsStatus es_checkpoint_commit(EsCheckpoint *checkpoint) {
    ES_ASSERT(checkpoint->is_writing && !checkpoint->is_committed);
    char path[ES_RUN_PATH_BYTES], name[32];
    json_t *files = json_array();
    checkpoint->bytes = 0;
    EsStatus status = seal_files(checkpoint, files);
    if (status == ES_STATUS_OK) {
        es_round_folder_path(checkpoint->root, checkpoint->round, "", path);
        status = es_folder_sync(path);
    }
    if (status != ES_STATUS_OK) {
        json_decref(files);
        return status;
    }
    snprintf(name, sizeof name, "rank%d.json", checkpoint->rank);
    es_round_folder_path(checkpoint->root, checkpoint->round, name, path);
    json_t *mark =
        json_pack("{s:i, s:I, s:i, s:i, s:o, s:O}", "schema", ES_CHECKPOINT_SCHEMA, "round",
                  (json_int_t)checkpoint->round, "rank", checkpoint->rank, "n_ranks",
                  checkpoint->n_ranks, "files", files, "values", checkpoint->values);
    ES_TRY(es_round_folder_save(path, mark));
    checkpoint->is_committed = 1;
    return ES_STATUS_OK;
}

// The hashes of all ranks' marks, after a check of the files they list.
static EsStatus collect_marks(const EsCheckpoint *checkpoint, json_t *marks) {
    EsStatus status = ES_STATUS_OK;
    json_t *names = json_object();
    int64_t bytes = 0;
    int is_damaged = 0;
    for (int rank = 0; rank < checkpoint->n_ranks; rank++) {
        char path[ES_RUN_PATH_BYTES], name[32], sha256[ES_SHA256_TEXT_BYTES];
        ES_TRY_GOTO(es_round_folder_check_mark(checkpoint->root, checkpoint->round, rank,
                                               checkpoint->n_ranks, 0, names, &bytes, &is_damaged));
        snprintf(name, sizeof name, "rank%d.json", rank);
        es_round_folder_path(checkpoint->root, checkpoint->round, name, path);
        ES_TRY_GOTO(es_sha256_file(path, sha256, NULL));
        if (json_array_append_new(marks, json_string(sha256)) != 0) {
            status = ES_FAIL(MEMORY, "not enough memory to list %s", path);
            goto done;
        }
    }
done:
    json_decref(names);
    return status;
}

EsStatus es_checkpoint_complete(EsCheckpoint *checkpoint, double score) {
    ES_ASSERT(checkpoint->is_writing && checkpoint->is_committed && checkpoint->rank == 0);
    char path[ES_RUN_PATH_BYTES], done[ES_SHA256_TEXT_BYTES + 1];
    json_t *marks = json_array();
    EsStatus status = collect_marks(checkpoint, marks);
    if (status != ES_STATUS_OK) {
        json_decref(marks);
        return status;
    }
    es_round_folder_path(checkpoint->root, checkpoint->round, "manifest.json", path);
    json_t *manifest =
        json_pack("{s:i, s:I, s:i, s:o, s:o}", "schema", ES_CHECKPOINT_SCHEMA, "round",
                  (json_int_t)checkpoint->round, "n_ranks", checkpoint->n_ranks, "score",
                  es_round_folder_pack_real(score), "marks", marks);
    ES_TRY(es_round_folder_save(path, manifest));
    ES_TRY(es_sha256_file(path, done, NULL));
    strcat(done, "\n");
    es_round_folder_path(checkpoint->root, checkpoint->round, "DONE", path);
    ES_TRY(es_file_write_all(path, done, strlen(done)));
    checkpoint->is_complete = 1;
    return es_round_folder_end_writing(checkpoint->root, checkpoint->round);
}

int64_t es_checkpoint_bytes(const EsCheckpoint *checkpoint) { return checkpoint->bytes; }

// By the names at hand first: one that could not be noted in the sign is known here alone.
static EsStatus remove_unfinished(const EsCheckpoint *checkpoint) {
    const char *name;
    json_t *unused;
    json_object_foreach(checkpoint->names, name, unused) {
        char path[ES_RUN_PATH_BYTES];
        es_round_folder_path(checkpoint->root, checkpoint->round, name, path);
        ES_TRY(es_folder_remove(path));
    }
    return checkpoint->rank == 0 ? es_round_folder_remove(checkpoint->root, checkpoint->round)
                                 : ES_STATUS_OK;
}

void es_checkpoint_end(EsCheckpoint *checkpoint) {
    if (checkpoint == NULL) {
        return;
    }
    if (checkpoint->is_holding) {
        es_checkpoint_hold_end(checkpoint);
    }
    int is_unfinished =
        checkpoint->rank == 0 ? !checkpoint->is_complete : !checkpoint->is_committed;
    if (checkpoint->is_on_disk && is_unfinished) {
        char detail[1024];
        snprintf(detail, sizeof detail, "%s", es_status_detail());
        EsStatus status = remove_unfinished(checkpoint);
        if (status != ES_STATUS_OK) {
            es_log(ES_LOG_WARNING, "the unfinished checkpoint of round %lld stays: %s",
                   (long long)checkpoint->round, es_status_detail());
            es_status_set(status, __FILE__, __LINE__, "%s", detail);
        }
    }
    destroy_object(checkpoint);
}

// --- reading ---

int64_t es_checkpoint_round(const EsCheckpoint *checkpoint) { return checkpoint->round; }

int es_checkpoint_has(const EsCheckpoint *checkpoint, const char *key) {
    return json_object_get(checkpoint->values, key) != NULL;
}

static EsStatus fail_value(const EsCheckpoint *checkpoint, const char *key, const char *type) {
    char path[ES_RUN_PATH_BYTES], name[32];
    snprintf(name, sizeof name, "rank%d.json", checkpoint->rank);
    es_round_folder_path(checkpoint->root, checkpoint->round, name, path);
    return ES_FAIL(INPUT, "%s has no %s \"%s\"", path, type, key);
}

EsStatus es_checkpoint_int(const EsCheckpoint *checkpoint, const char *key, int64_t *value) {
    const json_t *found = json_object_get(checkpoint->values, key);
    if (!json_is_integer(found)) {
        return fail_value(checkpoint, key, "whole number");
    }
    *value = json_integer_value(found);
    return ES_STATUS_OK;
}

EsStatus es_checkpoint_real(const EsCheckpoint *checkpoint, const char *key, double *value) {
    return es_round_folder_unpack_real(json_object_get(checkpoint->values, key), value)
               ? ES_STATUS_OK
               : fail_value(checkpoint, key, "real number");
}

EsStatus es_checkpoint_text(const EsCheckpoint *checkpoint, const char *key, const char **value) {
    const json_t *found = json_object_get(checkpoint->values, key);
    if (!json_is_string(found)) {
        return fail_value(checkpoint, key, "text");
    }
    *value = json_string_value(found);
    return ES_STATUS_OK;
}

EsStatus es_checkpoint_check_input(const EsCheckpoint *checkpoint, const char *key,
                                   const char *hash, const char *what) {
    const char *saved = NULL;
    if (!es_checkpoint_has(checkpoint, key)) {
        es_log(ES_LOG_WARNING,
               "the run does not know the SHA-256 of %s: it goes on with what is "
               "there now",
               what);
        return ES_STATUS_OK;
    }
    ES_TRY(es_checkpoint_text(checkpoint, key, &saved));
    if (strcmp(saved, hash) == 0) {
        return ES_STATUS_OK;
    }
    return ES_FAIL(INPUT,
                   "%s is not the one this run began with: its SHA-256 was %.12s... and is "
                   "%.12s...; bring the old one back or start a new run",
                   what, saved, hash);
}

// --- finding ---

EsStatus es_checkpoint_list(const EsRunFolder *folder, EsCheckpointInfo **infos, int *n_infos) {
    return es_round_folder_list(es_run_folder_root(folder), infos, n_infos);
}

static EsStatus open_checked(const char *root, const EsRoundFolder *found, int rank, int n_ranks,
                             EsCheckpoint **checkpoint) {
    char path[ES_RUN_PATH_BYTES], name[32];
    if (found->n_ranks != n_ranks) {
        es_round_folder_path(root, found->info.round, "", path);
        return ES_FAIL(INPUT, "%s was written by %d rank%s, this run has %d", path, found->n_ranks,
                       found->n_ranks == 1 ? "" : "s", n_ranks);
    }
    json_t *mark = NULL;
    snprintf(name, sizeof name, "rank%d.json", rank);
    es_round_folder_path(root, found->info.round, name, path);
    ES_TRY(es_round_folder_load(path, &mark));
    EsStatus status = create_object(root, found->info.round, rank, n_ranks, checkpoint);
    if (status == ES_STATUS_OK) {
        (*checkpoint)->values = json_incref(json_object_get(mark, "values"));
        (*checkpoint)->bytes = found->info.bytes;
    }
    json_decref(mark);
    return status;
}

static EsStatus hold_files(EsCheckpoint *checkpoint) {
    char path[ES_RUN_PATH_BYTES];
    json_t *mark = NULL;
    size_t i;
    json_t *entry;
    es_round_folder_path(checkpoint->root, checkpoint->round, "rank0.json", path);
    ES_TRY(es_round_folder_load(path, &mark));
    EsStatus status = es_held_files_create(&checkpoint->held);
    json_array_foreach(json_object_get(mark, "files"), i, entry) {
        if (status == ES_STATUS_OK) {
            const char *name = json_string_value(json_object_get(entry, "name"));
            es_round_folder_path(checkpoint->root, checkpoint->round, name, path);
            status = es_held_files_add(checkpoint->held, path);
        }
    }
    json_decref(mark);
    return status;
}

EsStatus es_checkpoint_open(const char *root, int64_t round, EsCheckpoint **checkpoint) {
    EsRoundFolder found;
    *checkpoint = NULL;
    ES_TRY(es_round_folder_check(root, round, 1, &found));
    if (found.condition != ES_ROUND_FOLDER_COMPLETE) {
        return ES_FAIL(INPUT, "there is no whole checkpoint of round %lld%s%s", (long long)round,
                       found.problem[0] != '\0' ? ": " : "", found.problem);
    }
    return open_checked(root, &found, 0, 1, checkpoint);
}

EsStatus es_checkpoint_hold_saved(const char *root, int64_t round, EsCheckpoint **checkpoint) {
    ES_TRY(es_checkpoint_open(root, round, checkpoint));
    EsStatus status = hold_files(*checkpoint);
    if (status != ES_STATUS_OK) {
        es_checkpoint_end(*checkpoint);
        *checkpoint = NULL;
    }
    return status;
}

void es_checkpoint_read_begin(const EsCheckpoint *checkpoint) {
    ES_ASSERT(checkpoint->held != NULL && !checkpoint->is_holding);
    es_held_files_read_begin(checkpoint->held);
}

void es_checkpoint_read_end(void) { es_held_files_read_end(); }

size_t es_checkpoint_held_bytes(const EsCheckpoint *checkpoint) {
    return es_held_files_bytes(checkpoint->held);
}

EsStatus es_checkpoint_open_latest(const EsRunFolder *folder, int rank, int n_ranks,
                                   EsCheckpoint **checkpoint) {
    *checkpoint = NULL;
    const char *root = es_run_folder_root(folder);
    int64_t *rounds = NULL;
    int n_rounds = 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_round_folder_rounds(root, &rounds, &n_rounds));
    for (int i = n_rounds - 1; i >= 0 && *checkpoint == NULL; i--) {
        EsRoundFolder found;
        ES_TRY_GOTO(es_round_folder_check(root, rounds[i], 1, &found));
        if (found.condition == ES_ROUND_FOLDER_COMPLETE) {
            ES_TRY_GOTO(open_checked(root, &found, rank, n_ranks, checkpoint));
        } else if (found.condition == ES_ROUND_FOLDER_REFUSED) {
            status = ES_FAIL(INPUT, "%s", found.problem);
            goto done;
        } else if (found.condition == ES_ROUND_FOLDER_DAMAGED && rank == 0) {
            ES_TRY_GOTO(es_round_folder_back_up(root, &found, "damaged"));
        }
    }
done:
    es_release(rounds);
    return status;
}

// --- removal of old checkpoints ---

// Returns whether a complete checkpoint stays: the best, or one of the last `keep`.
static int is_kept(const EsCheckpointInfo *infos, int n_infos, int keep, int64_t round) {
    for (int i = 0; i < n_infos; i++) {
        if (infos[i].round == round) {
            return infos[i].is_best || i >= n_infos - keep;
        }
    }
    return 0;
}

// Remove one round's checkpoint when it must go, or count it in a preview.
static EsStatus prune_round(const char *root, int64_t round, int is_kept, EsRunRemoval *removal,
                            int *n_checkpoints) {
    char path[ES_RUN_PATH_BYTES];
    EsRoundFolder found;
    es_round_folder_path(root, round, "", path);
    if (is_kept) {
        ES_TRY(removal->is_preview ? ES_STATUS_OK : es_round_folder_remove_strays(path));
        return removal->is_preview ? ES_STATUS_OK : es_round_folder_end_writing(root, round);
    }
    ES_TRY(es_round_folder_check(root, round, 0, &found));
    if (found.condition == ES_ROUND_FOLDER_ABSENT) {
        return es_removal_end_folder(removal, path); // if it is empty
    }
    if (found.condition != ES_ROUND_FOLDER_COMPLETE &&
        found.condition != ES_ROUND_FOLDER_UNFINISHED) {
        return ES_STATUS_OK;
    }
    *n_checkpoints += found.condition == ES_ROUND_FOLDER_COMPLETE;
    return es_round_folder_clear(path, removal);
}

EsStatus es_checkpoint_prune_with(const EsRunFolder *folder, int keep, EsRunRemoval *removal,
                                  int *n_checkpoints) {
    ES_ASSERT(keep >= 0);
    const char *root = es_run_folder_root(folder);
    EsCheckpointInfo *infos = NULL;
    int64_t *rounds = NULL;
    int n_infos = 0, n_rounds = 0;
    EsStatus status = ES_STATUS_OK;
    *n_checkpoints = 0;
    ES_TRY_GOTO(es_round_folder_list(root, &infos, &n_infos));
    ES_TRY_GOTO(es_round_folder_rounds(root, &rounds, &n_rounds));
    for (int i = 0; i < n_rounds; i++) {
        EsStatus result = prune_round(root, rounds[i], is_kept(infos, n_infos, keep, rounds[i]),
                                      removal, n_checkpoints);
        status = status == ES_STATUS_OK ? result : status;
    }
    if (!removal->is_preview && n_rounds > 0) {
        char path[ES_RUN_PATH_BYTES];
        es_run_folder_path(folder, "checkpoints", path);
        EsStatus result = es_round_folder_remove_strays(path);
        status = status == ES_STATUS_OK ? result : status;
    }
done:
    es_release(rounds);
    es_release(infos);
    return status;
}

EsStatus es_checkpoint_prune(const EsRunFolder *folder, int keep) {
    EsRunRemoval removal = {.is_preview = 0};
    int n_checkpoints;
    return es_checkpoint_prune_with(folder, keep, &removal, &n_checkpoints);
}
