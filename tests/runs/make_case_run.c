// A run with small checkpoints, for tests of the command line.
//
// usage: make_case_run FOLDER N_CHECKPOINTS [hold]
// With "hold" it prints a line when it is ready and keeps the run open until its input ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "runs/checkpoint.h"

static EsStatus save_round(const EsRunFolder *folder, int round) {
    EsCheckpoint *checkpoint = NULL;
    char path[ES_RUN_PATH_BYTES], data[10000];
    memset(data, 'a' + round, sizeof data);
    ES_TRY(es_checkpoint_begin(folder, round, 0, 1, &checkpoint));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_checkpoint_add_file(checkpoint, "state", path));
    ES_TRY_GOTO(es_file_write_all(path, data, sizeof data));
    ES_TRY_GOTO(es_checkpoint_commit(checkpoint));
    // the second is the best
    ES_TRY_GOTO(es_checkpoint_complete(checkpoint, round == 2 ? 1 : 0));
done:
    es_checkpoint_end(checkpoint);
    return status;
}

static EsStatus make_run(const char *root, int n_checkpoints, EsRunFolder **folder) {
    static const char config[] = "[run]\nkind = hosts\nrounds = 40\n";
    char path[ES_RUN_PATH_BYTES];
    ES_TRY(es_run_folder_create(root, "hosts", folder));
    es_run_folder_path(*folder, "config.ini", path);
    ES_TRY(es_file_write_all(path, config, sizeof config - 1));
    for (int round = 1; round <= n_checkpoints; round++) {
        ES_TRY(save_round(*folder, round));
    }
    return ES_STATUS_OK;
}

int main(int argc, char **argv) {
    EsRunFolder *folder = NULL;
    if (argc < 3) {
        fprintf(stderr, "usage: make_case_run FOLDER N_CHECKPOINTS [hold]\n");
        return 2;
    }
    if (make_run(argv[1], (int)strtol(argv[2], NULL, 10), &folder) != ES_STATUS_OK) {
        fprintf(stderr, "%s\n", es_status_detail());
        es_run_folder_close(folder);
        return 1;
    }
    if (argc > 3) {
        printf("ready\n");
        fflush(stdout);
        while (getchar() != EOF) {
        }
    }
    es_run_folder_close(folder);
    return 0;
}
