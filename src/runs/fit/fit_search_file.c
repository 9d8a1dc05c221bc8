// A search in a checkpoint: the candidates that are left, their policies, and the best network. A
// search of the same options that loads it goes on with the same bits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "fit/network_report.h"
#include "runs/fit/fit_search.h"

// --- saving ---

static EsStatus save_group(EsCheckpoint *checkpoint, EsFitGroup *group, int g) {
    char name[64], growth_path[ES_RUN_PATH_BYTES], policy_path[ES_RUN_PATH_BYTES];
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (stream == NULL) {
        return ES_FAIL(MEMORY, "no memory for the candidates' numbers");
    }
    for (int i = 0; i < group->n; i++) {
        fprintf(stream, "%s%d", i > 0 ? "," : "", group->candidates[i]);
    }
    EsStatus status = es_memory_stream_close(stream, &text);
    snprintf(name, sizeof name, "candidates%d", g);
    status = status == ES_STATUS_OK ? es_checkpoint_put_text(checkpoint, name, text) : status;
    free(text);
    ES_TRY(status);
    if (group->n == 0) {
        return ES_STATUS_OK;
    }
    snprintf(name, sizeof name, "policy%d", g);
    ES_TRY(es_checkpoint_put_text(checkpoint, name, group->policy_name));
    snprintf(name, sizeof name, "policy%d_sha256", g);
    ES_TRY(es_checkpoint_put_text(checkpoint, name, es_policy_hash(group->policy)));
    snprintf(name, sizeof name, "growth%d.safetensors", g);
    ES_TRY(es_checkpoint_add_file(checkpoint, name, growth_path));
    snprintf(name, sizeof name, "policy%d.safetensors", g);
    ES_TRY(es_checkpoint_add_file(checkpoint, name, policy_path));
    return es_fit_group_save(group, growth_path, policy_path);
}

static EsStatus save_best(const EsFitSearch *search, EsCheckpoint *checkpoint) {
    char tensors_path[ES_RUN_PATH_BYTES], json_path[ES_RUN_PATH_BYTES];
    ES_TRY(es_checkpoint_put_int(checkpoint, "best_epoch", search->best_epoch));
    if (search->best == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_checkpoint_put_int(checkpoint, "best_candidate", search->best_candidate));
    ES_TRY(es_checkpoint_put_real(checkpoint, "best_accuracy", search->best_accuracy));
    ES_TRY(es_checkpoint_put_real(checkpoint, "best_loss", search->best_loss));
    if (search->top_accuracy > search->best_accuracy) { // of rows
        ES_TRY(es_checkpoint_put_real(checkpoint, "top_accuracy", search->top_accuracy));
    }
    ES_TRY(es_checkpoint_add_file(checkpoint, ES_NETWORK_TENSORS_FILE, tensors_path));
    ES_TRY(es_checkpoint_add_file(checkpoint, ES_NETWORK_JSON_FILE, json_path));
    *strrchr(json_path, '/') = '\0';
    return es_grown_network_write(search->best, json_path);
}

EsStatus es_fit_search_save(const EsFitSearch *search, EsCheckpoint *checkpoint) {
    for (int g = 0; g < search->n_groups; g++) {
        ES_TRY(save_group(checkpoint, search->groups[g], g));
    }
    return save_best(search, checkpoint);
}

// --- loading ---

// Numbers between commas, rising, of candidates that the group had at first.
static EsStatus read_candidates(const EsCheckpoint *checkpoint, const char *name, int first, int n,
                                int *numbers, int *n_numbers) {
    const char *text = NULL;
    char path[ES_RUN_PATH_BYTES];
    int least = first;
    ES_TRY(es_checkpoint_text(checkpoint, name, &text));
    EsFileField field = {es_checkpoint_path(checkpoint, "rank0.json", path), name, ES_NO_INDEX};
    *n_numbers = 0;
    while (*text != '\0') {
        char *end = NULL;
        long number = strtol(text, &end, 10);
        ES_TRY(es_check_integer(field, end == text ? -1 : number, least, first + n - 1));
        numbers[(*n_numbers)++] = (int)number;
        least = (int)number + 1;
        text = *end == ',' ? end + 1 : end;
    }
    return ES_STATUS_OK;
}

static EsStatus load_group(const EsCheckpoint *checkpoint, EsFitSearch *search, int g) {
    char name[64], growth_path[ES_RUN_PATH_BYTES], policy_path[ES_RUN_PATH_BYTES];
    EsFitGroup *group = search->groups[g];
    EsFitShare share = es_fit_share(search->options.n_candidates, search->n_groups, g);
    const char *policy = NULL;
    int numbers[ES_FIT_CANDIDATES_MAX], n = 0;
    snprintf(name, sizeof name, "candidates%d", g);
    ES_TRY(read_candidates(checkpoint, name, search->options.first_candidate + share.first, share.n,
                           numbers, &n));
    if (n == 0) {
        return es_fit_group_keep(group, NULL, 0);
    }
    snprintf(name, sizeof name, "policy%d", g);
    ES_TRY(es_checkpoint_text(checkpoint, name, &policy)); // where it was chosen, the same again
    snprintf(group->policy_name, sizeof group->policy_name, "%s", policy);
    snprintf(name, sizeof name, "growth%d.safetensors", g);
    es_checkpoint_path(checkpoint, name, growth_path);
    snprintf(name, sizeof name, "policy%d.safetensors", g);
    es_checkpoint_path(checkpoint, name, policy_path);
    ES_TRY(es_fit_group_load(group, numbers, n, growth_path, policy_path));
    snprintf(name, sizeof name, "policy%d_sha256", g);
    return es_checkpoint_check_input(checkpoint, name, es_policy_hash(group->policy), "the policy");
}

static EsStatus load_best(EsFitSearch *search, const EsCheckpoint *checkpoint) {
    char path[ES_RUN_PATH_BYTES];
    EsFileField field = {es_checkpoint_path(checkpoint, "rank0.json", path), "best_epoch",
                         ES_NO_INDEX};
    ES_TRY(es_checkpoint_int(checkpoint, field.name, &search->best_epoch));
    ES_TRY(es_check_integer(field, search->best_epoch, 0, es_checkpoint_round(checkpoint)));
    if (search->best_epoch == 0) {
        return ES_STATUS_OK;
    }
    field.name = "best_candidate";
    ES_TRY(es_checkpoint_int(checkpoint, field.name, &search->best_candidate));
    ES_TRY(es_check_integer(field, search->best_candidate, 0, search->options.n_candidates - 1));
    field.name = "best_accuracy";
    ES_TRY(es_checkpoint_real(checkpoint, field.name, &search->best_accuracy));
    ES_TRY(es_check_real(field, search->best_accuracy, 0, 100));
    field.name = "best_loss";
    ES_TRY(es_checkpoint_real(checkpoint, field.name, &search->best_loss));
    ES_TRY(es_check_real(field, search->best_loss, 0, 1e30));
    search->top_accuracy = search->best_accuracy;
    field.name = "top_accuracy";
    if (es_checkpoint_has(checkpoint, field.name)) {
        ES_TRY(es_checkpoint_real(checkpoint, field.name, &search->top_accuracy));
        ES_TRY(es_check_real(field, search->top_accuracy, search->best_accuracy, 100));
    }
    es_grown_network_destroy(search->best);
    search->best = NULL;
    ES_TRY(es_grown_network_load(es_checkpoint_path(checkpoint, ES_NETWORK_JSON_FILE, path),
                                 search->options.cpu, &search->best));
    return es_network_check_data(search->best, search->options.dataset,
                                 search->options.dataset->name);
}

EsStatus es_fit_search_load(EsFitSearch *search, const EsCheckpoint *checkpoint) {
    for (int g = 0; g < search->n_groups; g++) {
        ES_TRY(load_group(checkpoint, search, g));
    }
    es_fit_search_assign(search);
    return load_best(search, checkpoint);
}
