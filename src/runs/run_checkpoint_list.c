// Finding the checkpoint to go on from, and removing those nobody needs.
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/folder.h"
#include "base/log.h"
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

static void drop_damaged(const char *root, int rank, const EsStoredCheckpoint *found) {
    es_log(ES_LOG_WARNING, "the checkpoint of round %lld is damaged and not used: %s",
           (long long)found->info.round, found->problem);
    if (rank == 0 && es_checkpoint_store_remove(root, found->info.round) != ES_STATUS_OK) {
        es_log(ES_LOG_WARNING, "the damaged checkpoint stays: %s", es_status_detail());
    }
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
        if (found.is_complete) {
            ES_TRY_GOTO(open_checked(folder, &found, rank, n_ranks, checkpoint));
        } else if (found.has_done) {
            drop_damaged(root, rank, &found);
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

static int is_complete(const EsCheckpointInfo *infos, int n_infos, int64_t round) {
    for (int i = 0; i < n_infos; i++) {
        if (infos[i].round == round) {
            return 1;
        }
    }
    return 0;
}

// Remove what must go, or with a report only count it.
static EsStatus prune_rounds(const EsRunFolder *folder, int keep, EsPruneReport *report) {
    ES_ASSERT(keep >= 0);
    const char *root = es_run_folder_root(folder);
    EsCheckpointInfo *infos = NULL;
    int64_t *rounds = NULL;
    int n_infos = 0, n_rounds = 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_checkpoint_store_list(root, &infos, &n_infos));
    ES_TRY_GOTO(es_checkpoint_store_rounds(root, &rounds, &n_rounds));
    for (int i = 0; i < n_rounds; i++) {
        char path[ES_RUN_PATH_BYTES];
        EsStatus result = ES_STATUS_OK;
        EsFolderSize size;
        int stays = is_kept(infos, n_infos, keep, rounds[i]);
        es_checkpoint_store_path(root, rounds[i], "", path);
        if (report != NULL && !stays) {
            result = es_folder_measure(path, &size);
            report->bytes += size.bytes;
            report->n_checkpoints += is_complete(infos, n_infos, rounds[i]);
        } else if (report == NULL) {
            result = stays ? es_checkpoint_store_remove_strays(path)
                           : es_checkpoint_store_remove(root, rounds[i]);
        }
        status = status == ES_STATUS_OK ? result : status;
    }
    if (report == NULL && n_rounds > 0) {
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
    return prune_rounds(folder, keep, NULL);
}

EsStatus es_run_checkpoint_preview_prune(const EsRunFolder *folder, int keep,
                                         EsPruneReport *report) {
    memset(report, 0, sizeof *report);
    return prune_rounds(folder, keep, report);
}
