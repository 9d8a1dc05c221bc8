// A run with small checkpoints whose every byte follows from their round, for the tests of runs/.
#ifndef ES_TESTS_RUNS_CHECKPOINT_CASE_H
#define ES_TESTS_RUNS_CHECKPOINT_CASE_H

#include <stdint.h>

#include "base/file.h"
#include "runs/checkpoint.h"
#include "temp_folder.h"
#include "tensor/safetensors.h"

#define CASE_WEIGHTS 300

// Begin with nothing; in memory where that is possible: hundreds of checkpoints with their fsyncs
// would take minutes on a slow disk, and no test here depends on one.
static inline void make_case_folder(void) {
    if (temp_root[0] == '\0' && access("/dev/shm", W_OK) == 0) {
        make_temp_folder("/dev/shm");
    }
    clear_temp_folder();
}

static inline int case_exists(const char *name) {
    struct stat facts;
    return lstat(temp_path(name), &facts) == 0;
}

// A new run of that name under the root, configured and open.
static inline EsRunFolder *create_case_run(const char *name) {
    EsRunFolder *folder = NULL;
    char path[ES_RUN_PATH_BYTES];
    static const char config[] = "[run]\nkind = case\n";
    REQUIRE_OK(es_run_folder_create(temp_path(name), "case", &folder));
    es_run_folder_path(folder, "config.ini", path);
    REQUIRE_OK(es_file_write_all(path, config, sizeof config - 1));
    return folder;
}

static inline float case_weight(int64_t round, int rank, int i) {
    return (float)(round * 1000 + rank * 500 + i) * 0.125f;
}

// Two small files and three values; what they hold depends on the round alone.
static inline EsStatus save_case_files(EsCheckpoint *checkpoint, int64_t round, int rank) {
    float weights[CASE_WEIGHTS], bias[7];
    for (int i = 0; i < CASE_WEIGHTS; i++) {
        weights[i] = case_weight(round, rank, i);
    }
    for (int i = 0; i < 7; i++) {
        bias[i] = case_weight(round, rank, -i);
    }
    int64_t weight_shape[2] = {CASE_WEIGHTS / 3, 3}, bias_shape[1] = {7};
    EsNamedTensor network[2] = {
        {"layer.weight", es_tensor_view(weights, ES_DTYPE_F32, NULL, 2, weight_shape)},
        {"layer.bias", es_tensor_view(bias, ES_DTYPE_F32, NULL, 1, bias_shape)}};
    char name[48], path[ES_RUN_PATH_BYTES];
    snprintf(name, sizeof name, "network%d.safetensors", rank);
    ES_TRY(es_checkpoint_add_file(checkpoint, name, path));
    ES_TRY(es_safetensors_save(path, network, 2, NULL, 0));
    snprintf(name, sizeof name, "moments%d.safetensors", rank);
    ES_TRY(es_checkpoint_add_file(checkpoint, name, path));
    ES_TRY(es_safetensors_save(path, network, 1, NULL, 0));
    ES_TRY(es_checkpoint_put_int(checkpoint, "round", round));
    ES_TRY(es_checkpoint_put_real(checkpoint, "third", (double)round / 3.0));
    return es_checkpoint_put_text(checkpoint, "name", rank == 0 ? "first" : "other");
}

// A whole checkpoint of a run of one rank, as the run's loop saves it.
static inline EsStatus save_case(const EsRunFolder *folder, int64_t round, double score) {
    EsCheckpoint *checkpoint = NULL;
    ES_TRY(es_checkpoint_hold(folder, round, &checkpoint));
    EsStatus status = save_case_files(checkpoint, round, 0);
    es_checkpoint_hold_end(checkpoint);
    ES_TRY_GOTO(status);
    ES_TRY_GOTO(es_checkpoint_write(checkpoint));
    ES_TRY_GOTO(es_checkpoint_complete(checkpoint, score));
done:
    es_checkpoint_end(checkpoint);
    return status;
}

// Every value and every weight of an opened checkpoint.
static inline void expect_case(const EsCheckpoint *checkpoint, int64_t round, int rank) {
    int64_t value = -1;
    double third = 0;
    const char *text = "";
    char name[48], path[ES_RUN_PATH_BYTES];
    EXPECT_EQ(es_checkpoint_round(checkpoint), round);
    REQUIRE_OK(es_checkpoint_int(checkpoint, "round", &value));
    EXPECT_EQ(value, round);
    REQUIRE_OK(es_checkpoint_real(checkpoint, "third", &third));
    EXPECT(third == (double)round / 3.0);
    REQUIRE_OK(es_checkpoint_text(checkpoint, "name", &text));
    EXPECT_TEXT(text, rank == 0 ? "first" : "other");
    for (int file = 0; file < 2; file++) {
        snprintf(name, sizeof name, "%s%d.safetensors", file == 0 ? "network" : "moments", rank);
        EsSafetensors *opened = NULL;
        REQUIRE_OK(es_safetensors_open(es_checkpoint_path(checkpoint, name, path), &opened));
        EXPECT_EQ(es_safetensors_count(opened), 2 - file);
        EsTensor view;
        REQUIRE_OK(es_safetensors_find(opened, "layer.weight", &view));
        const float *weights = view.data;
        int n_wrong = es_tensor_count(&view) == CASE_WEIGHTS ? 0 : CASE_WEIGHTS;
        for (int i = 0; i < CASE_WEIGHTS && n_wrong < CASE_WEIGHTS; i++) {
            n_wrong += weights[i] != case_weight(round, rank, i);
        }
        EXPECT_EQ(n_wrong, 0);
        es_safetensors_close(opened);
    }
}

// The newest checkpoint, checked; returns its round, -1 when there is none.
static inline int64_t expect_latest(const EsRunFolder *folder) {
    EsCheckpoint *checkpoint = NULL;
    REQUIRE_OK(es_checkpoint_open_latest(folder, 0, 1, &checkpoint));
    int64_t round = -1;
    if (checkpoint != NULL) {
        round = es_checkpoint_round(checkpoint);
        expect_case(checkpoint, round, 0);
    }
    es_checkpoint_end(checkpoint);
    return round;
}

#endif
