// Checkpoints: what is written comes back bit for bit, what is incomplete or damaged is not used.
#include "runs/checkpoint.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "checkpoint_case.h"
#include "esper/log.h"
#include "runs/round_folder.h"

static char last_warning[1024];
static int n_warnings;

static void note_warning(void *context, EsLogLevel level, const char *line) {
    (void)context;
    if (level == ES_LOG_WARNING) {
        snprintf(last_warning, sizeof last_warning, "%s", line);
        n_warnings++;
    }
}

static void change_byte(const char *name, long offset) {
    FILE *stream = fopen(temp_path(name), "r+b");
    EXPECT(stream != NULL);
    fseek(stream, offset, SEEK_SET);
    int byte = fgetc(stream);
    fseek(stream, offset, SEEK_SET);
    fputc(byte ^ 1, stream);
    EXPECT_EQ(fclose(stream), 0);
}

static int list_rounds(const EsRunFolder *folder, int64_t rounds[8], int64_t *best) {
    EsCheckpointInfo *infos = NULL;
    int n = 0;
    REQUIRE_OK(es_checkpoint_list(folder, &infos, &n));
    *best = -1;
    for (int i = 0; i < n && i < 8; i++) {
        rounds[i] = infos[i].round;
        *best = infos[i].is_best ? infos[i].round : *best;
    }
    es_release(infos);
    return n;
}

TEST(values_keep_their_bits) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    EsCheckpoint *checkpoint = NULL;
    uint64_t nan_bits = 0x7ff8000000abcdef;
    double nan_value,
        reals[] = {0.1, -0.0, 1e-310, 1.7976931348623157e308, 1e22, INFINITY, 0, -INFINITY};
    memcpy(&nan_value, &nan_bits, sizeof nan_value);
    reals[6] = nan_value;
    REQUIRE_OK(es_checkpoint_begin(folder, 5, 0, 1, &checkpoint));
    for (int i = 0; i < 8; i++) {
        char key[16];
        snprintf(key, sizeof key, "real%d", i);
        REQUIRE_OK(es_checkpoint_put_real(checkpoint, key, reals[i]));
    }
    REQUIRE_OK(es_checkpoint_put_int(checkpoint, "low", INT64_MIN));
    REQUIRE_OK(es_checkpoint_put_int(checkpoint, "high", 1));
    REQUIRE_OK(es_checkpoint_put_int(checkpoint, "high", INT64_MAX));
    REQUIRE_OK(es_checkpoint_put_text(checkpoint, "text", "\"quoted\"\n\xc3\xa9"));
    EXPECT_STATUS(es_checkpoint_put_text(checkpoint, "bad", "\xff"), ARGUMENT);
    REQUIRE_OK(es_checkpoint_commit(checkpoint));
    REQUIRE_OK(es_checkpoint_complete(checkpoint, NAN));
    EXPECT_EQ(es_checkpoint_bytes(checkpoint), 0);
    es_checkpoint_end(checkpoint);

    REQUIRE_OK(es_checkpoint_open_latest(folder, 0, 1, &checkpoint));
    for (int i = 0; i < 8; i++) {
        char key[16];
        double value = 0;
        snprintf(key, sizeof key, "real%d", i);
        REQUIRE_OK(es_checkpoint_real(checkpoint, key, &value));
        EXPECT_EQ(memcmp(&value, &reals[i], sizeof value), 0);
    }
    int64_t whole = 0;
    double real = 0;
    const char *text = "";
    REQUIRE_OK(es_checkpoint_int(checkpoint, "low", &whole));
    EXPECT(whole == INT64_MIN);
    REQUIRE_OK(es_checkpoint_int(checkpoint, "high", &whole));
    EXPECT(whole == INT64_MAX);
    REQUIRE_OK(es_checkpoint_text(checkpoint, "text", &text));
    EXPECT_TEXT(text, "\"quoted\"\n\xc3\xa9");
    EXPECT_STATUS(es_checkpoint_int(checkpoint, "none", &whole), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "checkpoints/5/rank0.json has no whole number \"none\"");
    EXPECT_STATUS(es_checkpoint_real(checkpoint, "low", &real), INPUT);
    EXPECT_STATUS(es_checkpoint_text(checkpoint, "low", &text), INPUT);
    es_checkpoint_end(checkpoint);
    es_run_folder_close(folder);
}

TEST(files_come_back_and_the_newest_counts) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    EXPECT_EQ(expect_latest(folder), -1);
    REQUIRE_OK(save_case(folder, 2, 0));
    EXPECT_EQ(expect_latest(folder), 2);
    REQUIRE_OK(save_case(folder, 10, 0)); // by number, not by text
    REQUIRE_OK(save_case(folder, 9, 0));
    EXPECT_EQ(expect_latest(folder), 10);
    EXPECT_STATUS(save_case(folder, 10, 0), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "has a complete checkpoint of round 10 already");
    EXPECT_EQ(expect_latest(folder), 10);
    es_run_folder_close(folder);
}

TEST(unfinished_ones_are_removed_or_passed_over) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    REQUIRE_OK(save_case(folder, 1, 0));
    EsCheckpoint *checkpoint = NULL;
    REQUIRE_OK(es_checkpoint_begin(folder, 2, 0, 1, &checkpoint));
    REQUIRE_OK(save_case_files(checkpoint, 2, 0));
    REQUIRE_OK(es_checkpoint_commit(checkpoint));
    EXPECT(es_checkpoint_bytes(checkpoint) > 2 * CASE_WEIGHTS * 4);
    EXPECT_EQ(expect_latest(folder), 1);
    es_checkpoint_end(checkpoint);
    EXPECT(!case_exists("x/checkpoints/2"));

    // a file that was promised and not written
    char path[ES_RUN_PATH_BYTES];
    REQUIRE_OK(es_checkpoint_begin(folder, 2, 0, 1, &checkpoint));
    REQUIRE_OK(es_checkpoint_add_file(checkpoint, "promised", path));
    EXPECT_STATUS(es_checkpoint_commit(checkpoint), IO);
    EXPECT_CONTAINS(es_status_detail(), "checkpoints/2/promised: No such file");
    es_checkpoint_end(checkpoint);
    EXPECT(!case_exists("x/checkpoints/2"));

    // what a killed process leaves goes, and what it cannot have left is kept under another name
    REQUIRE_OK(es_round_folder_begin_writing(temp_path("x"), 2));
    REQUIRE_OK(es_round_folder_add_name(temp_path("x"), 2, "state"));
    REQUIRE_OK(es_folder_make(temp_path("x/checkpoints/2/odd")));
    write_temp_text("x/checkpoints/2/state", "1");
    write_temp_text("x/checkpoints/2/state.12-0.tmp", "1");
    write_temp_text("x/checkpoints/2/notes", "mine");
    EXPECT_EQ(expect_latest(folder), 1);
    EXPECT(case_exists("x/checkpoints/2"));
    REQUIRE_OK(save_case(folder, 2, 0));
    EXPECT_EQ(expect_latest(folder), 2);
    EXPECT(!case_exists("x/checkpoints/2/odd"));
    EXPECT(case_exists("x/checkpoints/unfinished-2/odd"));
    EXPECT_EQ(count_names(temp_path("x/checkpoints/unfinished-2")), 2); // odd, notes
    es_run_folder_close(folder);
}

// a folder of the user's that bears the number of a round
TEST(folders_of_others_are_never_removed) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    REQUIRE_OK(save_case(folder, 1, 0));
    REQUIRE_OK(es_folder_make(temp_path("x/checkpoints/2024/photos")));
    write_temp_text("x/checkpoints/2024/notes.txt", "mine");
    // names that we give, too, but not what we write
    write_temp_text("x/checkpoints/2024/manifest.json", "{\"name\": \"mine\"}");
    write_temp_text("x/checkpoints/2024/WRITING", "a novel");
    write_temp_text("x/checkpoints/2024/DONE", "not yet");
    write_temp_text("x/checkpoints/1/notes.txt", "mine");
    REQUIRE_OK(es_checkpoint_prune(folder, 1));
    EXPECT(case_exists("x/checkpoints/2024/photos") && case_exists("x/checkpoints/2024/notes.txt"));
    REQUIRE_OK(save_case(folder, 2, 1));
    REQUIRE_OK(es_checkpoint_prune(folder, 1));
    EXPECT(!case_exists("x/checkpoints/1/DONE") && !case_exists("x/checkpoints/1/rank0.json"));
    EXPECT_EQ(count_names(temp_path("x/checkpoints/1")), 1); // the notes
    REQUIRE_OK(save_case(folder, 2024, 0));
    EXPECT(case_exists("x/checkpoints/unfinished-2024/notes.txt"));
    EXPECT_EQ(count_names(temp_path("x/checkpoints/unfinished-2024")), 5);
    EXPECT_EQ(expect_latest(folder), 2024);
    // a run whose checkpoints lie elsewhere keeps house there
    EXPECT_EQ(rename(temp_path("x/checkpoints"), temp_path("elsewhere")), 0);
    EXPECT_EQ(symlink("../elsewhere", temp_path("x/checkpoints")), 0);
    REQUIRE_OK(save_case(folder, 2025, 2));
    REQUIRE_OK(es_checkpoint_prune(folder, 1));
    EXPECT_EQ(expect_latest(folder), 2025);
    EXPECT(!case_exists("elsewhere/2024"));
    es_run_folder_close(folder);
}

// every byte of every file is under some hash
TEST(damage_is_found_and_an_older_one_taken) {
    static const char *const files[] = {"DONE", "manifest.json", "rank0.json",
                                        "network0.safetensors", "moments0.safetensors"};
    for (size_t i = 0; i < ES_COUNT_OF(files); i++) {
        for (int damage = 0; damage < 4; damage++) {
            make_case_folder();
            EsRunFolder *folder = create_case_run("x");
            REQUIRE_OK(save_case(folder, 1, 0));
            REQUIRE_OK(save_case(folder, 2, 0));
            char name[128];
            struct stat facts;
            snprintf(name, sizeof name, "x/checkpoints/2/%s", files[i]);
            EXPECT_EQ(stat(temp_path(name), &facts), 0);
            if (damage == 0) {
                change_byte(name, 0);
            } else if (damage == 1) {
                // the last byte of DONE is the newline, which says nothing
                change_byte(name, (long)facts.st_size - 2);
            } else if (damage == 2) {
                EXPECT_EQ(truncate(temp_path(name), facts.st_size - 1), 0);
            } else {
                EXPECT_EQ(unlink(temp_path(name)), 0);
            }
            // another rank leaves it where it is
            EsCheckpoint *checkpoint = NULL;
            EXPECT_STATUS(es_checkpoint_open(temp_path("x"), 2, &checkpoint), INPUT);
            EXPECT(checkpoint == NULL && case_exists("x/checkpoints/2"));
            n_warnings = 0;
            es_log_set_handler(note_warning, NULL, ES_LOG_DEBUG);
            EXPECT_EQ(expect_latest(folder), 1);
            es_log_set_handler(NULL, NULL, ES_LOG_INFO);
            EXPECT_EQ(n_warnings, 1);
            EXPECT_CONTAINS(last_warning, "the checkpoint of round 2 is not used, it is kept ");
            EXPECT_CONTAINS(last_warning, "x/checkpoints/damaged-2: ");
            // a changed digit of DONE may still be one: then it is the manifest that does not fit
            EXPECT(strstr(last_warning, files[i]) != NULL ||
                   (i == 0 && strstr(last_warning, "manifest.json") != NULL));
            EXPECT(!case_exists("x/checkpoints/2"));
            EXPECT_EQ(count_names(temp_path("x/checkpoints/damaged-2")), damage == 3 ? 4 : 5);
            REQUIRE_OK(es_checkpoint_prune(folder, 1));
            EXPECT_EQ(count_names(temp_path("x/checkpoints/damaged-2")), damage == 3 ? 4 : 5);
            REQUIRE_OK(save_case(folder, 2, 0));
            EXPECT_EQ(expect_latest(folder), 2);
            es_run_folder_close(folder);
        }
    }
}

TEST(ranks_write_side_by_side) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x"), *joined = NULL;
    EsCheckpoint *first = NULL, *second = NULL;
    REQUIRE_OK(es_run_folder_join(temp_path("x"), &joined));
    EXPECT_STATUS(es_checkpoint_begin(joined, 4, 1, 2, &second), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "before rank 0 has");
    REQUIRE_OK(es_checkpoint_begin(folder, 4, 0, 2, &first));
    REQUIRE_OK(es_checkpoint_begin(joined, 4, 1, 2, &second));
    REQUIRE_OK(save_case_files(first, 4, 0));
    REQUIRE_OK(save_case_files(second, 4, 1));
    REQUIRE_OK(es_checkpoint_commit(first));
    EXPECT_STATUS(es_checkpoint_complete(first, 1), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "rank1.json is missing");
    REQUIRE_OK(es_checkpoint_commit(second));
    es_checkpoint_end(second);
    REQUIRE_OK(es_checkpoint_complete(first, 1));
    es_checkpoint_end(first);
    for (int rank = 0; rank < 2; rank++) {
        REQUIRE_OK(es_checkpoint_open_latest(rank == 0 ? folder : joined, rank, 2, &first));
        expect_case(first, 4, rank);
        es_checkpoint_end(first);
    }
    EXPECT_STATUS(es_checkpoint_open_latest(folder, 0, 4, &first), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "checkpoints/4 was written by 2 ranks, this run has 4");
    EXPECT(case_exists("x/checkpoints/4/DONE"));
    es_run_folder_close(joined);
    es_run_folder_close(folder);
}

TEST(ranks_may_not_share_a_file) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    EsCheckpoint *first = NULL, *second = NULL;
    char path[ES_RUN_PATH_BYTES];
    REQUIRE_OK(es_checkpoint_begin(folder, 1, 0, 2, &first));
    REQUIRE_OK(es_checkpoint_begin(folder, 1, 1, 2, &second));
    REQUIRE_OK(es_checkpoint_add_file(first, "same", path));
    REQUIRE_OK(es_file_write_all(path, "a", 1));
    REQUIRE_OK(es_checkpoint_add_file(second, "same", path));
    REQUIRE_OK(es_file_write_all(path, "b", 1));
    REQUIRE_OK(es_checkpoint_commit(first));
    REQUIRE_OK(es_checkpoint_commit(second));
    EXPECT_STATUS(es_checkpoint_complete(first, 0), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "rank1.json lists same, which is listed before");
    es_checkpoint_end(second);
    es_checkpoint_end(first);
    EXPECT(!case_exists("x/checkpoints/1"));
    es_run_folder_close(folder);
}

TEST(the_best_has_the_highest_score_and_the_later_wins) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    int64_t rounds[8], best;
    REQUIRE_OK(save_case(folder, 1, NAN));
    EXPECT_EQ(list_rounds(folder, rounds, &best), 1);
    EXPECT_EQ(best, -1);
    REQUIRE_OK(save_case(folder, 2, -INFINITY));
    list_rounds(folder, rounds, &best);
    EXPECT_EQ(best, 2);
    REQUIRE_OK(save_case(folder, 3, 0.5));
    REQUIRE_OK(save_case(folder, 4, 0.5));
    REQUIRE_OK(save_case(folder, 5, NAN));
    EXPECT_EQ(list_rounds(folder, rounds, &best), 5);
    EXPECT_EQ(best, 4);
    EXPECT_EQ(rounds[4], 5);
    es_run_folder_close(folder);
}

TEST(prune_keeps_the_last_and_the_best) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    REQUIRE_OK(es_checkpoint_prune(folder, 1)); // nothing is there yet
    for (int round = 1; round <= 6; round++) {
        REQUIRE_OK(save_case(folder, round, round == 2 ? 9 : 1));
    }
    REQUIRE_OK(es_round_folder_begin_writing(temp_path("x"), 7));
    REQUIRE_OK(es_round_folder_add_name(temp_path("x"), 7, "part"));
    REQUIRE_OK(es_file_write_all(temp_path("x/checkpoints/7/part"), "123", 3));
    REQUIRE_OK(es_folder_make(temp_path("x/checkpoints/9.12-0.tmp")));
    static const char *const strays[] = {"x/checkpoints/9.12-0.tmp/WRITING.12-0.tmp",
                                         "x/checkpoints/6/network0.safetensors.345-7.tmp"};
    static const char *const others[] = {"x/checkpoints/notes.tmp", "x/checkpoints/6/DONE.1-.tmp",
                                         "x/checkpoints/6/notes.12-0.tmp",
                                         "x/checkpoints/stray.12-0.tmp", "x/checkpoints/08"};
    for (size_t i = 0; i < ES_COUNT_OF(strays); i++) {
        REQUIRE_OK(es_file_write_all(temp_path(strays[i]), "x", 1));
    }
    for (size_t i = 0; i < ES_COUNT_OF(others); i++) {
        REQUIRE_OK(es_file_write_all(temp_path(others[i]), "x", 1));
    }
    EsRunRemoval preview = {.is_preview = 1}, nothing = {.is_preview = 1};
    EsFolderSize before, after;
    int n_checkpoints = 0;
    REQUIRE_OK(es_checkpoint_prune_with(folder, 2, &preview, &n_checkpoints));
    EXPECT_EQ(n_checkpoints, 3);
    REQUIRE_OK(es_folder_measure(temp_path("x"), &before));
    REQUIRE_OK(es_checkpoint_prune(folder, 2));
    REQUIRE_OK(es_folder_measure(temp_path("x"), &after));
    EXPECT_EQ(before.bytes - after.bytes, preview.bytes + (int64_t)ES_COUNT_OF(strays));
    int64_t rounds[8], best;
    EXPECT_EQ(list_rounds(folder, rounds, &best), 3);
    EXPECT_EQ(rounds[0], 2);
    EXPECT_EQ(rounds[1], 5);
    EXPECT_EQ(rounds[2], 6);
    EXPECT(!case_exists("x/checkpoints/7"));
    EXPECT(!case_exists(strays[0]) && !case_exists(strays[1]));
    for (size_t i = 0; i < ES_COUNT_OF(others); i++) {
        EXPECT(case_exists(others[i])); // not ours
    }
    EXPECT_EQ(expect_latest(folder), 6);
    REQUIRE_OK(es_checkpoint_prune_with(folder, 2, &nothing, &n_checkpoints));
    EXPECT_EQ(n_checkpoints, 0);
    EXPECT_EQ(nothing.bytes, 0);
    es_run_folder_close(folder);
}

// a process that was killed between the last two steps, and one in the middle of a removal
TEST(a_sign_left_behind_takes_nothing_with_it) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    REQUIRE_OK(save_case(folder, 1, 0));
    write_temp_text("x/checkpoints/1/WRITING", "esper checkpoint 1\nnetwork0.safetensors\n");
    write_temp_text("x/checkpoints/1/notes", "mine");
    EXPECT_EQ(expect_latest(folder), 1);
    REQUIRE_OK(es_checkpoint_prune(folder, 1));
    EXPECT(!case_exists("x/checkpoints/1/WRITING"));
    REQUIRE_OK(save_case(folder, 2, 1));
    write_temp_text("x/checkpoints/1/WRITING", "esper checkpoint 1\nnetwork0.safetensors\n");
    REQUIRE_OK(es_checkpoint_prune(folder, 1));
    EXPECT_EQ(count_names(temp_path("x/checkpoints/1")), 1);
    EXPECT(case_exists("x/checkpoints/1/notes"));
    es_run_folder_close(folder);
}

// --- checkpoints that this program does not understand ---

// Replace `from` by `to`, of the same length, in a file of checkpoint 2.
static void edit_text(const char *name, const char *from, const char *to) {
    char path[64];
    void *data = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "x/checkpoints/2/%s", name);
    REQUIRE_OK(es_file_read_all(temp_path(path), 1 << 16, &data, &bytes));
    char *at = strstr(data, from);
    EXPECT(at != NULL && strlen(from) == strlen(to));
    // NOLINTNEXTLINE(bugprone-not-null-terminated-result): in the middle of a text
    memcpy(at, to, strlen(to));
    write_temp_file(path, data, bytes);
    es_release(data);
}

// Make the hashes fit again: rank0.json's in manifest.json, and that one's in DONE.
static void refit_hashes(void) {
    char sha256[ES_SHA256_TEXT_BYTES + 1], path[64];
    void *data = NULL;
    size_t bytes = 0;
    strcpy(path, "x/checkpoints/2/manifest.json");
    REQUIRE_OK(es_file_read_all(temp_path(path), 1 << 16, &data, &bytes));
    char *mark = strstr(data, "\"marks\": [");
    EXPECT(mark != NULL);
    mark = strchr(mark + 9, '"') + 1;
    REQUIRE_OK(es_sha256_file(temp_path("x/checkpoints/2/rank0.json"), sha256, NULL));
    memcpy(mark, sha256, 64);
    write_temp_file(path, data, bytes);
    es_release(data);
    REQUIRE_OK(es_sha256_file(temp_path(path), sha256, NULL));
    strcat(sha256, "\n");
    write_temp_text("x/checkpoints/2/DONE", sha256);
}

// The SHA-256 of every file of checkpoint 2, one after the other.
static void hash_files(char text[8 * ES_SHA256_TEXT_BYTES]) {
    EsFolderEntry *entries = NULL;
    int n = 0;
    REQUIRE_OK(es_folder_list(temp_path("x/checkpoints/2"), &entries, &n));
    EXPECT_EQ(n, 5);
    text[0] = '\0';
    for (int i = 0; i < n && i < 5; i++) {
        char sha256[ES_SHA256_TEXT_BYTES], path[ES_FILE_NAME_BYTES + 32];
        snprintf(path, sizeof path, "x/checkpoints/2/%s", entries[i].name);
        REQUIRE_OK(es_sha256_file(temp_path(path), sha256, NULL));
        strcat(text, sha256);
    }
    es_release(entries);
}

// whole, but of a schema to come or with members that make no sense: refused and left as it is,
// also when there is an older one
TEST(what_is_not_understood_is_refused_untouched) {
    static const struct {
        const char *file, *from, *to, *message;
    } edits[] = {
        {"manifest.json", "\"schema\": 1", "\"schema\": 2",
         "manifest.json has schema 2; this program reads schemas 1 to 1"},
        {"rank0.json", "\"schema\": 1", "\"schema\": 2",
         "rank0.json has schema 2; this program reads schemas 1 to 1"},
        {"manifest.json", "\"schema\": 1", "\"schema\": 0", "has no schema"},
        {"manifest.json", "\"round\": 2", "\"round\": 3", "is not the manifest of round 2"},
        {"manifest.json", "\"bits\"", "\"bats\"", "is not the manifest of round 2"},
        {"rank0.json", "\"n_ranks\": 1", "\"n_ranks\": 7", "is not the mark of rank 0 of 1"},
        {"rank0.json", "\"values\"", "\"valves\"", "is not the mark of rank 0 of 1"},
        {"rank0.json", "network0.safe", "../work0.safe", "without a proper name, size or hash"},
        {"rank0.json", "{", "[", "rank0.json is not a JSON object"},
    };
    for (size_t i = 0; i < ES_COUNT_OF(edits); i++) {
        make_case_folder();
        EsRunFolder *folder = create_case_run("x");
        EsCheckpoint *checkpoint = NULL;
        EsCheckpointInfo *infos = NULL;
        char before[8 * ES_SHA256_TEXT_BYTES], after[8 * ES_SHA256_TEXT_BYTES];
        int n = 0;
        REQUIRE_OK(save_case(folder, 1, 0));
        REQUIRE_OK(save_case(folder, 2, 0));
        edit_text(edits[i].file, edits[i].from, edits[i].to);
        refit_hashes();
        hash_files(before);
        EXPECT_STATUS(es_checkpoint_open_latest(folder, 0, 1, &checkpoint), INPUT);
        EXPECT_CONTAINS(es_status_detail(), edits[i].message);
        EXPECT(checkpoint == NULL);
        REQUIRE_OK(es_checkpoint_list(folder, &infos, &n));
        EXPECT_EQ(n, 1);
        es_release(infos);
        REQUIRE_OK(es_checkpoint_prune(folder, 1));
        EXPECT_STATUS(save_case(folder, 2, 0), INPUT);
        hash_files(after);
        EXPECT_TEXT(after, before);
        es_run_folder_close(folder);
    }
}

// a mark that names a file elsewhere is refused, even with the hashes in order
TEST(names_do_not_lead_out) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    EsCheckpoint *first = NULL, *second = NULL;
    REQUIRE_OK(es_checkpoint_begin(folder, 1, 0, 2, &first));
    REQUIRE_OK(es_checkpoint_begin(folder, 1, 1, 2, &second));
    REQUIRE_OK(es_checkpoint_commit(first));
    static const char mark[] =
        "{\"schema\": 1, \"round\": 1, \"rank\": 1, \"n_ranks\": 2, \"values\": {}, \"files\": "
        "[{\"name\": \"../../config.ini\", \"bytes\": 18, \"sha256\": \"\"}]}";
    REQUIRE_OK(es_file_write_all(temp_path("x/checkpoints/1/rank1.json"), mark, sizeof mark - 1));
    EXPECT_STATUS(es_checkpoint_complete(first, 0), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "without a proper name");
    es_checkpoint_end(second);
    es_checkpoint_end(first);
    es_run_folder_close(folder);
}

// --- held ---

static EsStatus save_directly(const EsRunFolder *folder, int64_t round, double score) {
    EsCheckpoint *checkpoint = NULL;
    ES_TRY(es_checkpoint_begin(folder, round, 0, 1, &checkpoint));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(save_case_files(checkpoint, round, 0));
    ES_TRY_GOTO(es_checkpoint_commit(checkpoint));
    ES_TRY_GOTO(es_checkpoint_complete(checkpoint, score));
done:
    es_checkpoint_end(checkpoint);
    return status;
}

TEST(held_checkpoint_has_the_bytes_of_a_direct_one) {
    static const char *const names[] = {"DONE", "manifest.json", "rank0.json",
                                        "network0.safetensors", "moments0.safetensors"};
    make_case_folder();
    EsRunFolder *direct = create_case_run("direct"), *held = create_case_run("held");
    REQUIRE_OK(save_directly(direct, 1, 0.5));
    REQUIRE_OK(save_case(held, 1, 0.5));
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        char path[128], expected[ES_SHA256_TEXT_BYTES], found[ES_SHA256_TEXT_BYTES];
        snprintf(path, sizeof path, "direct/checkpoints/1/%s", names[i]);
        REQUIRE_OK(es_sha256_file(temp_path(path), expected, NULL));
        snprintf(path, sizeof path, "held/checkpoints/1/%s", names[i]);
        REQUIRE_OK(es_sha256_file(temp_path(path), found, NULL));
        EXPECT_TEXT(found, expected);
    }
    EXPECT(!case_exists("held/checkpoints/1/WRITING"));
    EXPECT_EQ(expect_latest(held), 1);
    es_run_folder_close(direct);
    es_run_folder_close(held);
}

TEST(held_checkpoint_that_is_given_up_leaves_nothing) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("held");
    EsCheckpoint *checkpoint = NULL;
    REQUIRE_OK(es_checkpoint_hold(folder, 1, &checkpoint));
    REQUIRE_OK(save_case_files(checkpoint, 1, 0));
    es_checkpoint_end(checkpoint); // also ends the holding
    EXPECT(!case_exists("held/checkpoints"));
    REQUIRE_OK(save_case(folder, 1, 0));
    EXPECT_EQ(expect_latest(folder), 1);
    es_run_folder_close(folder);
}
