// Writing a checkpoint, and reading the values of one; finding and pruning are in
// run_checkpoint_list.c, the checks in run_checkpoint_store.c.
#include "runs/run_checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "runs/run_checkpoint_internal.h"
#include "runs/run_checkpoint_store.h"

// --- writing ---

EsStatus es_checkpoint_object_create(const EsRunFolder *folder, int64_t round, int rank,
                                     int n_ranks, EsRunCheckpoint **checkpoint) {
    ES_ASSERT(round >= 0 && n_ranks >= 1 && rank >= 0 && rank < n_ranks);
    ES_TRY(es_allocate(sizeof **checkpoint, (void **)checkpoint));
    snprintf((*checkpoint)->root, sizeof(*checkpoint)->root, "%s", es_run_folder_root(folder));
    (*checkpoint)->round = round;
    (*checkpoint)->rank = rank;
    (*checkpoint)->n_ranks = n_ranks;
    return ES_STATUS_OK;
}

void es_checkpoint_object_destroy(EsRunCheckpoint *checkpoint) {
    if (checkpoint != NULL) {
        if (checkpoint->names != NULL) {
            json_decref(checkpoint->names->set);
            es_release(checkpoint->names);
        }
        json_decref(checkpoint->values);
        es_release(checkpoint);
    }
}

// Make room for a new folder: an interrupted attempt of ours is removed, anything else that bears
// the round's number is kept under another name.
static EsStatus clear_place(const EsRunCheckpoint *checkpoint) {
    const char *root = checkpoint->root;
    EsStoredCheckpoint found;
    struct stat facts;
    char path[ES_RUN_PATH_BYTES];
    ES_TRY(es_checkpoint_store_check(root, checkpoint->round, 0, &found));
    switch (found.state) {
    case ES_CHECKPOINT_COMPLETE:
        return ES_FAIL(ARGUMENT, "%s has a complete checkpoint of round %lld already", root,
                       (long long)checkpoint->round);
    case ES_CHECKPOINT_REFUSED:
        return ES_FAIL(INPUT, "%s", found.problem);
    case ES_CHECKPOINT_DAMAGED:
        return es_checkpoint_store_set_aside(root, &found, "damaged");
    case ES_CHECKPOINT_UNFINISHED:
    case ES_CHECKPOINT_ABSENT:
        ES_TRY(es_checkpoint_store_remove(root, checkpoint->round));
        break;
    }
    es_checkpoint_store_path(root, checkpoint->round, "", path);
    return lstat(path, &facts) == 0 ? es_checkpoint_store_set_aside(root, &found, "unfinished")
                                    : ES_STATUS_OK;
}

// Rank 0: a fresh folder with the sign of writing.
static EsStatus make_checkpoint_folder(const EsRunCheckpoint *checkpoint, int *is_made) {
    char path[ES_RUN_PATH_BYTES];
    const char *root = checkpoint->root;
    ES_TRY(clear_place(checkpoint));
    int length = snprintf(path, sizeof path, "%s/checkpoints", root), is_new = 0;
    ES_ASSERT(length > 0 && length < (int)sizeof path);
    // one level alone: a run folder that has vanished must not come back
    ES_TRY(es_folder_make_new(path, &is_new));
    ES_TRY(es_checkpoint_store_begin_writing(root, checkpoint->round));
    *is_made = 1;
    return ES_STATUS_OK;
}

static EsStatus find_checkpoint_folder(const EsRunCheckpoint *checkpoint) {
    char path[ES_RUN_PATH_BYTES];
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    es_checkpoint_store_path(checkpoint->root, checkpoint->round, "", path);
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

EsStatus es_run_checkpoint_begin(const EsRunFolder *folder, int64_t round, int rank, int n_ranks,
                                 EsRunCheckpoint **checkpoint_out) {
    *checkpoint_out = NULL;
    EsRunCheckpoint *checkpoint = NULL;
    ES_TRY(es_checkpoint_object_create(folder, round, rank, n_ranks, &checkpoint));
    checkpoint->is_writing = 1;
    EsStatus status = ES_STATUS_OK;
    int is_made = 0;
    (void)es_json_lacked_memory(); // an earlier attempt is no concern of this one
    ES_TRY_GOTO(es_allocate(sizeof *checkpoint->names, (void **)&checkpoint->names));
    checkpoint->names->set = json_object();
    checkpoint->values = json_object();
    if (checkpoint->names->set == NULL || checkpoint->values == NULL) {
        status = ES_FAIL(MEMORY, "not enough memory to begin a checkpoint");
        goto done;
    }
    ES_TRY_GOTO(rank == 0 ? make_checkpoint_folder(checkpoint, &is_made)
                          : find_checkpoint_folder(checkpoint));
    *checkpoint_out = checkpoint;
    return ES_STATUS_OK;
done:
    checkpoint->is_writing = is_made; // end removes a folder that was made
    es_run_checkpoint_end(checkpoint);
    return status;
}

const char *es_run_checkpoint_path(const EsRunCheckpoint *checkpoint, const char *name,
                                   char path[ES_RUN_PATH_BYTES]) {
    // the rest of the 255 bytes a name may have is for the ends of temporaries
    ES_ASSERT(name[0] != '\0' && name[0] != '.' && strlen(name) < 200);
    ES_ASSERT(strchr(name, '/') == NULL);
    ES_ASSERT(strcmp(name, "DONE") != 0 && strcmp(name, "manifest.json") != 0);
    es_checkpoint_store_path(checkpoint->root, checkpoint->round, name, path);
    if (checkpoint->is_writing && !checkpoint->is_committed &&
        json_object_get(checkpoint->names->set, name) == NULL) {
        EsStatus status =
            json_object_set_new(checkpoint->names->set, name, json_null()) == 0
                ? es_checkpoint_store_add_name(checkpoint->root, checkpoint->round, name)
                : ES_FAIL(MEMORY, "not enough memory to list the files of a checkpoint");
        es_first_error_capture(&checkpoint->names->first_error, status);
    }
    return path;
}

static EsStatus put_value(EsRunCheckpoint *checkpoint, const char *key, json_t *value) {
    ES_ASSERT(checkpoint->is_writing && !checkpoint->is_committed);
    if (value == NULL || json_object_set_new(checkpoint->values, key, value) != 0) {
        return ES_FAIL(MEMORY, "not enough memory for \"%s\" of a checkpoint", key);
    }
    return ES_STATUS_OK;
}

EsStatus es_run_checkpoint_put_int(EsRunCheckpoint *checkpoint, const char *key, int64_t value) {
    return put_value(checkpoint, key, json_integer(value));
}

EsStatus es_run_checkpoint_put_real(EsRunCheckpoint *checkpoint, const char *key, double value) {
    return put_value(checkpoint, key, es_checkpoint_store_pack_real(value));
}

EsStatus es_run_checkpoint_put_text(EsRunCheckpoint *checkpoint, const char *key,
                                    const char *value) {
    json_t *text = json_string(value);
    if (text == NULL) {
        return es_json_lacked_memory()
                   ? ES_FAIL(MEMORY, "not enough memory for \"%s\" of a checkpoint", key)
                   : ES_FAIL(ARGUMENT, "the text of \"%s\" of a checkpoint is not UTF-8", key);
    }
    return put_value(checkpoint, key, text);
}

// Make the files of this rank durable and describe them.
static EsStatus seal_files(EsRunCheckpoint *checkpoint, json_t *files) {
    ES_TRY(es_first_error_rethrow(&checkpoint->names->first_error));
    const char *name;
    json_t *unused;
    json_object_foreach(checkpoint->names->set, name, unused) {
        char path[ES_RUN_PATH_BYTES], sha256[ES_SHA256_TEXT_BYTES];
        int64_t bytes = 0;
        es_checkpoint_store_path(checkpoint->root, checkpoint->round, name, path);
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

EsStatus es_run_checkpoint_commit(EsRunCheckpoint *checkpoint) {
    ES_ASSERT(checkpoint->is_writing && !checkpoint->is_committed);
    char path[ES_RUN_PATH_BYTES], name[32];
    json_t *files = json_array();
    checkpoint->bytes = 0;
    EsStatus status = seal_files(checkpoint, files);
    if (status == ES_STATUS_OK) {
        es_checkpoint_store_path(checkpoint->root, checkpoint->round, "", path);
        status = es_folder_sync(path);
    }
    if (status != ES_STATUS_OK) {
        json_decref(files);
        return status;
    }
    snprintf(name, sizeof name, "rank%d.json", checkpoint->rank);
    es_checkpoint_store_path(checkpoint->root, checkpoint->round, name, path);
    json_t *mark =
        json_pack("{s:i, s:I, s:i, s:i, s:o, s:O}", "schema", ES_CHECKPOINT_SCHEMA, "round",
                  (json_int_t)checkpoint->round, "rank", checkpoint->rank, "n_ranks",
                  checkpoint->n_ranks, "files", files, "values", checkpoint->values);
    ES_TRY(es_checkpoint_store_save(path, mark));
    checkpoint->is_committed = 1;
    return ES_STATUS_OK;
}

// The hashes of all ranks' marks, after a look at what they list.
static EsStatus collect_marks(const EsRunCheckpoint *checkpoint, json_t *marks) {
    EsStatus status = ES_STATUS_OK;
    json_t *names = json_object();
    int64_t bytes = 0;
    int is_damaged = 0;
    for (int rank = 0; rank < checkpoint->n_ranks; rank++) {
        char path[ES_RUN_PATH_BYTES], name[32], sha256[ES_SHA256_TEXT_BYTES];
        ES_TRY_GOTO(es_checkpoint_store_check_mark(checkpoint->root, checkpoint->round, rank,
                                                   checkpoint->n_ranks, 0, names, &bytes,
                                                   &is_damaged));
        snprintf(name, sizeof name, "rank%d.json", rank);
        es_checkpoint_store_path(checkpoint->root, checkpoint->round, name, path);
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

EsStatus es_run_checkpoint_complete(EsRunCheckpoint *checkpoint, double score) {
    ES_ASSERT(checkpoint->is_writing && checkpoint->is_committed && checkpoint->rank == 0);
    char path[ES_RUN_PATH_BYTES], done[ES_SHA256_TEXT_BYTES + 1];
    json_t *marks = json_array();
    EsStatus status = collect_marks(checkpoint, marks);
    if (status != ES_STATUS_OK) {
        json_decref(marks);
        return status;
    }
    es_checkpoint_store_path(checkpoint->root, checkpoint->round, "manifest.json", path);
    json_t *manifest =
        json_pack("{s:i, s:I, s:i, s:o, s:o}", "schema", ES_CHECKPOINT_SCHEMA, "round",
                  (json_int_t)checkpoint->round, "n_ranks", checkpoint->n_ranks, "score",
                  es_checkpoint_store_pack_real(score), "marks", marks);
    ES_TRY(es_checkpoint_store_save(path, manifest));
    ES_TRY(es_sha256_file(path, done, NULL));
    strcat(done, "\n");
    es_checkpoint_store_path(checkpoint->root, checkpoint->round, "DONE", path);
    ES_TRY(es_file_write_all(path, done, strlen(done)));
    checkpoint->is_complete = 1;
    return es_checkpoint_store_end_writing(checkpoint->root, checkpoint->round);
}

int64_t es_run_checkpoint_bytes(const EsRunCheckpoint *checkpoint) { return checkpoint->bytes; }

// By the names at hand first: one that could not be noted in the sign is known here alone.
static EsStatus remove_unfinished(const EsRunCheckpoint *checkpoint) {
    const char *name;
    json_t *unused;
    json_object_foreach(checkpoint->names->set, name, unused) {
        char path[ES_RUN_PATH_BYTES];
        es_checkpoint_store_path(checkpoint->root, checkpoint->round, name, path);
        ES_TRY(es_folder_remove(path));
    }
    return checkpoint->rank == 0 ? es_checkpoint_store_remove(checkpoint->root, checkpoint->round)
                                 : ES_STATUS_OK;
}

void es_run_checkpoint_end(EsRunCheckpoint *checkpoint) {
    if (checkpoint == NULL) {
        return;
    }
    int is_unfinished =
        checkpoint->rank == 0 ? !checkpoint->is_complete : !checkpoint->is_committed;
    if (checkpoint->is_writing && is_unfinished) {
        char detail[1024];
        snprintf(detail, sizeof detail, "%s", es_status_detail());
        EsStatus status = remove_unfinished(checkpoint);
        if (status != ES_STATUS_OK) {
            es_log(ES_LOG_WARNING, "the unfinished checkpoint of round %lld stays: %s",
                   (long long)checkpoint->round, es_status_detail());
            es_status_set(status, __FILE__, __LINE__, "%s", detail);
        }
    }
    es_checkpoint_object_destroy(checkpoint);
}

// --- reading ---

int64_t es_run_checkpoint_round(const EsRunCheckpoint *checkpoint) { return checkpoint->round; }

int es_run_checkpoint_has(const EsRunCheckpoint *checkpoint, const char *key) {
    return json_object_get(checkpoint->values, key) != NULL;
}

static EsStatus fail_value(const EsRunCheckpoint *checkpoint, const char *key, const char *type) {
    char path[ES_RUN_PATH_BYTES], name[32];
    snprintf(name, sizeof name, "rank%d.json", checkpoint->rank);
    es_checkpoint_store_path(checkpoint->root, checkpoint->round, name, path);
    return ES_FAIL(INPUT, "%s has no %s \"%s\"", path, type, key);
}

EsStatus es_run_checkpoint_int(const EsRunCheckpoint *checkpoint, const char *key, int64_t *value) {
    const json_t *found = json_object_get(checkpoint->values, key);
    if (!json_is_integer(found)) {
        return fail_value(checkpoint, key, "whole number");
    }
    *value = json_integer_value(found);
    return ES_STATUS_OK;
}

EsStatus es_run_checkpoint_real(const EsRunCheckpoint *checkpoint, const char *key, double *value) {
    return es_checkpoint_store_unpack_real(json_object_get(checkpoint->values, key), value)
               ? ES_STATUS_OK
               : fail_value(checkpoint, key, "real number");
}

EsStatus es_run_checkpoint_text(const EsRunCheckpoint *checkpoint, const char *key,
                                const char **value) {
    const json_t *found = json_object_get(checkpoint->values, key);
    if (!json_is_string(found)) {
        return fail_value(checkpoint, key, "text");
    }
    *value = json_string_value(found);
    return ES_STATUS_OK;
}
