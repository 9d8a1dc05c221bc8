// Finding the checkpoint to go on from, and removing those nobody needs.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "runs/run_checkpoint_internal.h"
#include "runs/run_checkpoint_store.h"

EsStatus es_run_checkpoint_list(const EsRunFolder *folder, EsCheckpointInfo **infos, int *n_infos) {
    return es_checkpoint_store_list(es_run_folder_root(folder), infos, n_infos);
}

// --- loading ---

static EsStatus open_checked(const EsRunFolder *folder, const EsStoredCheckpoint *found, int rank,
                             int n_ranks, EsRunCheckpoint **checkpoint) {
    char path[ES_RUN_PATH_BYTES], name[32];
    const char *root = es_run_folder_root(folder);
    if (found->n_ranks != n_ranks) {
        es_checkpoint_store_path(root, found->info.round, "", path);
        return ES_FAIL(INPUT, "%s was written by %d rank%s, this run has %d", path, found->n_ranks,
                       found->n_ranks == 1 ? "" : "s", n_ranks);
    }
    json_t *mark = NULL;
    snprintf(name, sizeof name, "rank%d.json", rank);
    es_checkpoint_store_path(root, found->info.round, name, path);
    ES_TRY(es_checkpoint_store_load(path, &mark));
    EsStatus status =
        es_checkpoint_object_create(folder, found->info.round, rank, n_ranks, checkpoint);
    if (status == ES_STATUS_OK) {
        (*checkpoint)->values = json_incref(json_object_get(mark, "values"));
        (*checkpoint)->bytes = found->info.bytes;
    }
    json_decref(mark);
    return status;
}

EsStatus es_run_checkpoint_open_latest(const EsRunFolder *folder, int rank, int n_ranks,
                                       EsRunCheckpoint **checkpoint) {
    *checkpoint = NULL;
    const char *root = es_run_folder_root(folder);
    int64_t *rounds = NULL;
    int n_rounds = 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_checkpoint_store_rounds(root, &rounds, &n_rounds));
    for (int i = n_rounds - 1; i >= 0 && *checkpoint == NULL; i--) {
        EsStoredCheckpoint found;
        ES_TRY_GOTO(es_checkpoint_store_check(root, rounds[i], 1, &found));
        if (found.state == ES_CHECKPOINT_COMPLETE) {
            ES_TRY_GOTO(open_checked(folder, &found, rank, n_ranks, checkpoint));
        } else if (found.state == ES_CHECKPOINT_REFUSED) {
            status = ES_FAIL(INPUT, "%s", found.problem);
            goto done;
        } else if (found.state == ES_CHECKPOINT_DAMAGED && rank == 0) {
            ES_TRY_GOTO(es_checkpoint_store_set_aside(root, &found, "damaged"));
        }
    }
done:
    es_release(rounds);
    return status;
}

// --- keeping house ---

// Whether a complete checkpoint stays: the best, or one of the last `keep`.
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
    EsStoredCheckpoint found;
    es_checkpoint_store_path(root, round, "", path);
    if (is_kept) {
        ES_TRY(removal->is_preview ? ES_STATUS_OK : es_checkpoint_store_remove_strays(path));
        return removal->is_preview ? ES_STATUS_OK : es_checkpoint_store_end_writing(root, round);
    }
    ES_TRY(es_checkpoint_store_check(root, round, 0, &found));
    if (found.state == ES_CHECKPOINT_ABSENT) {
        return es_removal_end_folder(removal, path); // if it is empty
    }
    if (found.state != ES_CHECKPOINT_COMPLETE && found.state != ES_CHECKPOINT_UNFINISHED) {
        return ES_STATUS_OK;
    }
    *n_checkpoints += found.state == ES_CHECKPOINT_COMPLETE;
    return es_checkpoint_store_clear(path, removal);
}

EsStatus es_run_checkpoint_prune_with(const EsRunFolder *folder, int keep, EsRunRemoval *removal,
                                      int *n_checkpoints) {
    ES_ASSERT(keep >= 0);
    const char *root = es_run_folder_root(folder);
    EsCheckpointInfo *infos = NULL;
    int64_t *rounds = NULL;
    int n_infos = 0, n_rounds = 0;
    EsStatus status = ES_STATUS_OK;
    *n_checkpoints = 0;
    ES_TRY_GOTO(es_checkpoint_store_list(root, &infos, &n_infos));
    ES_TRY_GOTO(es_checkpoint_store_rounds(root, &rounds, &n_rounds));
    for (int i = 0; i < n_rounds; i++) {
        EsStatus result = prune_round(root, rounds[i], is_kept(infos, n_infos, keep, rounds[i]),
                                      removal, n_checkpoints);
        status = status == ES_STATUS_OK ? result : status;
    }
    if (!removal->is_preview && n_rounds > 0) {
        char path[ES_RUN_PATH_BYTES];
        es_run_folder_path(folder, "checkpoints", path);
        EsStatus result = es_checkpoint_store_remove_strays(path);
        status = status == ES_STATUS_OK ? result : status;
    }
done:
    es_release(rounds);
    es_release(infos);
    return status;
}

EsStatus es_run_checkpoint_prune(const EsRunFolder *folder, int keep) {
    EsRunRemoval removal = {.is_preview = 0};
    int n_checkpoints;
    return es_run_checkpoint_prune_with(folder, keep, &removal, &n_checkpoints);
}
