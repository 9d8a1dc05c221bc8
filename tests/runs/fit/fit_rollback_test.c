// States in memory, the record of the newest checkpoint, and reading it under a deadline.
#include "runs/fit/fit_rollback.h"

#include "../checkpoint_case.h"
#include "base/memory.h"

static EsCheckpoint *hold_state(const EsRunFolder *folder, int64_t epoch) {
    EsCheckpoint *state = NULL;
    REQUIRE_OK(es_checkpoint_hold(folder, epoch, &state));
    REQUIRE_OK(save_case_files(state, epoch, 0));
    es_checkpoint_hold_end(state);
    return state;
}

static int64_t nearest(const EsFitRollback *rollback, int64_t epoch) {
    const EsCheckpoint *state = es_fit_rollback_nearest(rollback, epoch);
    return state != NULL ? es_checkpoint_round(state) : -1;
}

TEST(states_are_found_replaced_and_evicted) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    EsFitRollback *rollback = NULL;
    EsCheckpoint *first = hold_state(folder, 1);
    size_t bytes = es_checkpoint_held_bytes(first);
    REQUIRE_OK(es_fit_rollback_create(3 * bytes + bytes / 2, &rollback));
    EXPECT_EQ(nearest(rollback, 100), -1);
    EXPECT_EQ(es_fit_rollback_push(rollback, first), 1);
    EXPECT_EQ(es_fit_rollback_push(rollback, hold_state(folder, 3)), 1);
    EXPECT_EQ(nearest(rollback, 0), -1);
    EXPECT_EQ(nearest(rollback, 2), 1);
    EXPECT_EQ(nearest(rollback, 3), 3);
    EXPECT_EQ(es_fit_rollback_push(rollback, hold_state(folder, 3)), 1); // in place of the other
    EXPECT_EQ(es_fit_rollback_count(rollback), 2);
    EXPECT_EQ(es_fit_rollback_bytes(rollback), 2 * bytes);
    EXPECT_EQ(es_fit_rollback_push(rollback, hold_state(folder, 4)), 1);
    EXPECT_EQ(es_fit_rollback_push(rollback, hold_state(folder, 5)), 1); // the oldest goes
    EXPECT_EQ(es_fit_rollback_count(rollback), 3);
    EXPECT_EQ(nearest(rollback, 2), -1);
    const EsCheckpoint *state = es_fit_rollback_nearest(rollback, 4);
    es_checkpoint_read_begin(state);
    expect_case(state, 4, 0); // every value and weight
    es_checkpoint_read_end();
    EXPECT_EQ(es_fit_rollback_push(rollback, hold_state(folder, 2)), 1); // later ones were undone
    EXPECT_EQ(es_fit_rollback_count(rollback), 1);
    es_fit_rollback_destroy(rollback);
    REQUIRE_OK(es_fit_rollback_create(bytes - 1, &rollback));
    EXPECT_EQ(es_fit_rollback_push(rollback, hold_state(folder, 1)), 0);
    EXPECT_EQ(es_fit_rollback_count(rollback), 0);
    es_fit_rollback_destroy(rollback);
    es_fit_rollback_destroy(NULL);
    EXPECT(!case_exists("x/checkpoints"));
    es_run_folder_close(folder);
}

static void expect_failure(const char *root, const char *stage) {
    EsRestore restore;
    EXPECT_EQ((int)es_fit_restore(NULL, root, 0, NULL, &restore), (int)ES_RESTORE_FAILED);
    EXPECT_TEXT(restore.stage, stage);
    EXPECT(restore.detail[0] != '\0' && restore.checkpoint == NULL);
}

TEST(stages_of_a_restore) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    char root[ES_RUN_PATH_BYTES];
    EsRestore restore;
    snprintf(root, sizeof root, "%s", es_run_folder_root(folder));
    EXPECT_EQ((int)es_fit_restore(NULL, root, 0, NULL, &restore), (int)ES_RESTORE_ABSENT);
    REQUIRE_OK(save_case(folder, 3, 0));
    REQUIRE_OK(es_fit_wal_write(root, 3));
    EXPECT_EQ((int)es_fit_restore(NULL, root, 0, NULL, &restore), (int)ES_RESTORE_DONE);
    es_checkpoint_read_begin(restore.checkpoint);
    expect_case(restore.checkpoint, 3, 0);
    es_checkpoint_read_end();
    es_checkpoint_end(restore.checkpoint);
    EXPECT(case_exists("x/checkpoints/3/DONE")); // ending a state leaves the disk alone
    // the record
    void *text = NULL;
    size_t bytes = 0;
    REQUIRE_OK(es_file_read_all(temp_path("x/wal.json"), 1000, &text, &bytes));
    char *epoch = strstr(text, "\"epoch\": 3");
    EXPECT(epoch != NULL);
    epoch[9] = '2';
    REQUIRE_OK(es_file_write_all(temp_path("x/wal.json"), text, bytes));
    expect_failure(root, "wal_crc_mismatch");
    // one that says nothing is no record, which is not the same as none
    REQUIRE_OK(es_file_write_all(temp_path("x/wal.json"), "{", 1));
    expect_failure(root, "wal_crc_error");
    REQUIRE_OK(es_file_write_all(temp_path("x/wal.json"), "{\"epoch\": 3}", 12));
    expect_failure(root, "wal_crc_error");
    EXPECT_EQ(unlink(temp_path("x/wal.json")), 0);
    EXPECT_EQ((int)es_fit_restore(NULL, root, 0, NULL, &restore), (int)ES_RESTORE_ABSENT);
    es_release(text);
    // the checkpoint: another DONE, a changed file, none at all
    REQUIRE_OK(es_fit_wal_write(root, 3));
    REQUIRE_OK(es_file_read_all(temp_path("x/checkpoints/3/DONE"), 1000, &text, &bytes));
    REQUIRE_OK(es_file_write_all(temp_path("x/checkpoints/3/DONE"), "x", 1));
    expect_failure(root, "ckpt_crc_mismatch");
    REQUIRE_OK(es_file_write_all(temp_path("x/checkpoints/3/DONE"), text, bytes));
    es_release(text);
    REQUIRE_OK(es_file_write_all(temp_path("x/checkpoints/3/network0.safetensors"), "x", 1));
    expect_failure(root, "ckpt_crc_mismatch");
    EXPECT(case_exists("x/checkpoints/3/DONE")); // nothing is renamed
    EXPECT_EQ(unlink(temp_path("x/checkpoints/3/DONE")), 0);
    expect_failure(root, "read_error");
    es_run_folder_close(folder);
}

// A save that ends between the record and its checkpoint: the record names a newer one, and the old
// one is removed.
typedef struct Overtaking {
    const EsRunFolder *folder;
    int64_t next;
    int n_left;
} Overtaking;

static void overtake(void *context) {
    Overtaking *save = context;
    if (save->n_left-- > 0) {
        REQUIRE_OK(save_case(save->folder, save->next, 0));
        REQUIRE_OK(es_fit_wal_write(es_run_folder_root(save->folder), save->next));
        REQUIRE_OK(es_checkpoint_prune(save->folder, 1));
        save->next++;
    }
}

TEST(a_save_may_overtake_a_restore) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    Overtaking save = {folder, 2, 2};
    const EsRestoreDrill drill = {.found = overtake, .context = &save};
    EsRestore restore;
    REQUIRE_OK(save_case(folder, 1, 0));
    REQUIRE_OK(es_fit_wal_write(es_run_folder_root(folder), 1));
    EXPECT_EQ((int)es_fit_restore(NULL, es_run_folder_root(folder), 0, &drill, &restore),
              (int)ES_RESTORE_DONE);
    EXPECT(save.n_left <= 0 && !case_exists("x/checkpoints/1"));
    EXPECT_EQ(es_checkpoint_round(restore.checkpoint), 3);
    es_checkpoint_end(restore.checkpoint);
    es_run_folder_close(folder);
}

static void wait_a_while(void *context) {
    (void)context;
    usleep(300000);
}

TEST(a_late_restore_is_given_up) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    EsDeadline *deadline = NULL;
    EsRestore restore;
    const EsRestoreDrill slow = {.before = wait_a_while};
    char root[ES_RUN_PATH_BYTES];
    snprintf(root, sizeof root, "%s", es_run_folder_root(folder));
    REQUIRE_OK(save_case(folder, 1, 0));
    REQUIRE_OK(es_fit_wal_write(root, 1));
    REQUIRE_OK(es_deadline_create(&deadline));
    EXPECT_EQ((int)es_fit_restore(deadline, root, 20, &slow, &restore), (int)ES_RESTORE_LATE);
    EXPECT(restore.checkpoint == NULL);
    EXPECT_EQ((int)es_fit_restore(deadline, root, 60e3, NULL, &restore), (int)ES_RESTORE_DONE);
    es_checkpoint_end(restore.checkpoint);
    es_deadline_destroy(deadline);
    usleep(600000); // the late thread ends what it has read
    es_run_folder_close(folder);
}
