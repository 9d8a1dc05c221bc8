// Run folders: made, locked, listed, removed; what the messages say.
#include "runs/run_folder.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>

#include "base/arena.h"
#include "checkpoint_case.h"

TEST(default_name_has_kind_date_and_digits) {
    make_case_folder();
    char before[512];
    EXPECT(getcwd(before, sizeof before) != NULL);
    EXPECT_EQ(chdir(temp_folder()), 0);
    EsRunFolder *first = NULL, *second = NULL;
    REQUIRE_OK(es_run_folder_create(NULL, "hosts", &first));
    REQUIRE_OK(es_run_folder_create(NULL, "hosts", &second));
    const char *root = es_run_folder_root(first), *name = es_run_folder_name(first);
    EXPECT(strcmp(root, es_run_folder_root(second)) != 0);
    EXPECT_EQ(strncmp(root, "runs/hosts-20", 13), 0);
    EXPECT_TEXT(name, root + 5);
    // hosts-20260102-030405-0a1b
    EXPECT_EQ(strlen(name), 26);
    EXPECT_EQ(strspn(name + 6, "0123456789"), 8);
    EXPECT_EQ(strspn(name + 15, "0123456789"), 6);
    EXPECT_EQ(strspn(name + 22, "0123456789abcdef"), 4);
    char path[ES_RUN_PATH_BYTES];
    es_run_folder_path(first, "run.db", path);
    EXPECT_EQ(strncmp(path, root, strlen(root)), 0);
    EXPECT_TEXT(path + strlen(root), "/run.db");
    es_run_folder_close(first);
    es_run_folder_close(second);
    es_run_folder_close(NULL);
    EXPECT_EQ(chdir(before), 0);
}

TEST(paths_too_long_for_the_database_are_refused) {
    make_case_folder();
    EsRunFolder *folder = NULL;
    char path[482];
    struct stat facts;
    int n_root = snprintf(path, sizeof path, "%s", temp_path("x"));
    memset(path + n_root, 'a', sizeof path - (size_t)n_root);
    path[200] = path[400] = '/'; // a name may have 255 bytes
    path[480] = '\0';
    EXPECT_STATUS(es_run_folder_create(path, "hosts", &folder), OK);
    es_run_folder_close(folder);
    path[480] = 'a';
    path[481] = '\0';
    EXPECT_STATUS(es_run_folder_create(path, "hosts", &folder), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "has 481 bytes; its database allows 480");
    EXPECT(stat(path, &facts) != 0); // nothing was made
}

TEST(existing_folders_must_be_empty) {
    make_case_folder();
    EsRunFolder *folder = NULL;
    REQUIRE_OK(es_folder_make(temp_path("empty")));
    EXPECT_STATUS(es_run_folder_create(temp_path("empty///"), "hosts", &folder), OK);
    EXPECT_TEXT(es_run_folder_name(folder), "empty");
    es_run_folder_close(folder);
    // the lock alone, left by a run that died before it had a configuration, does not count
    EXPECT_STATUS(es_run_folder_create(temp_path("empty"), "hosts", &folder), OK);
    es_run_folder_close(folder);
    // nor does a configuration that was being written; it goes
    write_temp_text("empty/config.ini.4332-0.tmp", "[run]");
    EXPECT_STATUS(es_run_folder_create(temp_path("empty"), "hosts", &folder), OK);
    EXPECT(!case_exists("empty/config.ini.4332-0.tmp"));
    es_run_folder_close(folder);
    // somebody's own temporary does, and stays
    write_temp_text("empty/notes.1-0.tmp", "x");
    EXPECT_STATUS(es_run_folder_create(temp_path("empty"), "hosts", &folder), ARGUMENT);
    EXPECT(case_exists("empty/notes.1-0.tmp"));

    REQUIRE_OK(es_folder_make(temp_path("full")));
    write_temp_text("full/notes.txt", "x");
    EXPECT_STATUS(es_run_folder_create(temp_path("full"), "hosts", &folder), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "full is not empty: it holds notes.txt");
    EXPECT(folder == NULL);
    write_temp_text("full/a", "x");
    EXPECT_STATUS(es_run_folder_create(temp_path("full"), "hosts", &folder), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "full is not empty: it holds a and 1 more");
    EXPECT(!case_exists("full/lock"));
    EXPECT_STATUS(es_run_folder_create(temp_path("full/notes.txt"), "hosts", &folder), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "notes.txt is not a folder");
    EXPECT_STATUS(es_run_folder_create("", "hosts", &folder), ARGUMENT);
    EXPECT_STATUS(es_run_folder_create(temp_path("new/below/here"), "hosts", &folder), OK);
    es_run_folder_close(folder);
}

TEST(a_run_is_not_overwritten_but_resumed) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x"), *second = NULL;
    EXPECT_STATUS(es_run_folder_create(temp_path("x"), "hosts", &second), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "/x is a run already, in use by process ");
    es_run_folder_close(folder);
    EXPECT_STATUS(es_run_folder_create(temp_path("x"), "hosts", &second), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "/x is a run already (nothing saved); --resume /");
    REQUIRE_OK(es_run_folder_open(temp_path("x"), &folder));
    REQUIRE_OK(save_case(folder, 12, 0.5));
    es_run_folder_close(folder);
    EXPECT_STATUS(es_run_folder_create(temp_path("x"), "hosts", &second), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "/x is a run already (12 rounds saved); --resume ");
    EXPECT_CONTAINS(es_status_detail(), "/x goes on with it");
}

TEST(only_runs_are_opened) {
    make_case_folder();
    EsRunFolder *folder = NULL;
    EXPECT_STATUS(es_run_folder_open(temp_path("none"), &folder), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "there is no run ");
    EXPECT_CONTAINS(es_status_detail(), "/none: No such file");
    REQUIRE_OK(es_folder_make(temp_path("other")));
    EXPECT_STATUS(es_run_folder_open(temp_path("other"), &folder), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "other is no run: it has no config.ini");
    EXPECT(!case_exists("other/lock"));
    EXPECT_STATUS(es_run_folder_join(temp_path("other"), &folder), OK);
    es_run_folder_close(folder);
    EXPECT(!case_exists("other/lock"));
    EXPECT_STATUS(es_run_folder_join(temp_path("none"), &folder), INPUT);
}

// two opens, in one process and in two; the lock goes with a killed process
TEST(one_process_at_a_time) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x"), *second = NULL;
    char expected[96];
    snprintf(expected, sizeof expected, "/x is in use by process %ld on ", (long)getpid());
    EXPECT_STATUS(es_run_folder_open(temp_path("x"), &second), INPUT);
    EXPECT_CONTAINS(es_status_detail(), expected);
    es_run_folder_close(folder);

    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        EsStatus status = es_run_folder_open(temp_path("x"), &folder);
        char code = (char)status;
        if (write(ready[1], &code, 1) == 1) {
            pause();
        }
        _exit(1);
    }
    char code = 1;
    EXPECT_EQ(read(ready[0], &code, 1), 1);
    EXPECT_EQ(code, 0);
    EXPECT_STATUS(es_run_folder_open(temp_path("x"), &second), INPUT);
    snprintf(expected, sizeof expected, "/x is in use by process %ld on ", (long)child);
    EXPECT_CONTAINS(es_status_detail(), expected);
    EsRunSummary *summary = malloc(sizeof *summary);
    REQUIRE_OK(es_run_summarise(temp_path("x"), summary));
    EXPECT_EQ(summary->is_active, 1);
    EXPECT_STATUS(es_run_remove(temp_path("x")), INPUT);
    EXPECT(case_exists("x/config.ini"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    REQUIRE_OK(es_run_summarise(temp_path("x"), summary));
    EXPECT_EQ(summary->is_active, 0);
    EXPECT_STATUS(es_run_folder_open(temp_path("x"), &second), OK);
    es_run_folder_close(second);
    free(summary);
    close(ready[0]);
    close(ready[1]);
}

TEST(summaries_count_what_is_there) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    write_temp_text("x/events.jsonl", "0123456789");
    EXPECT_EQ(symlink("/etc/passwd", temp_path("x/link")), 0);
    EsRunSummary *summary = malloc(sizeof *summary);
    REQUIRE_OK(es_run_summarise(temp_path("x/"), summary));
    EXPECT_TEXT(summary->path, temp_path("x"));
    EXPECT_TEXT(summary->kind, "case");
    EXPECT_EQ(summary->last_round, -1);
    EXPECT_EQ(summary->n_checkpoints, 0);
    EXPECT_EQ(summary->is_active, 1); // by ourselves
    int64_t bare_bytes = summary->bytes;
    REQUIRE_OK(save_case(folder, 3, 0));
    REQUIRE_OK(save_case(folder, 10, 0));
    es_run_folder_close(folder);
    struct utimbuf long_ago = {1000000000, 1000000000};
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    EXPECT_EQ(utime(temp_path("x/events.jsonl"), &long_ago), 0);
    REQUIRE_OK(es_run_summarise(temp_path("x"), summary));
    EXPECT_EQ(summary->last_round, 10);
    EXPECT_EQ(summary->n_checkpoints, 2);
    EXPECT_EQ(summary->is_active, 0);
    EXPECT(summary->checkpoint_bytes > 4 * CASE_WEIGHTS * 4);
    // the lock has lost its text
    EXPECT(summary->bytes > summary->checkpoint_bytes + 20);
    EXPECT(summary->bytes < bare_bytes + summary->checkpoint_bytes);
    EXPECT(llabs(summary->changed_unix_s - (long long)time(NULL)) < 60);
    REQUIRE_OK(es_folder_list(temp_path("x/checkpoints"), &entries, &n_entries));
    EXPECT_EQ(n_entries, 2);
    es_release(entries);
    write_temp_text("x/config.ini", "[run]\nkind = \x1b[31mred\n");
    REQUIRE_OK(es_run_summarise(temp_path("x"), summary));
    EXPECT_TEXT(summary->kind, "?"); // nothing of it reaches a terminal
    free(summary);
}

TEST(the_lock_does_not_make_a_run_young) {
    make_case_folder();
    es_run_folder_close(create_case_run("x"));
    struct utimbuf long_ago = {1000000000, 1000000000};
    EXPECT_EQ(utime(temp_path("x/config.ini"), &long_ago), 0);
    EsRunSummary *summary = malloc(sizeof *summary);
    REQUIRE_OK(es_run_summarise(temp_path("x"), summary));
    EXPECT_EQ(summary->changed_unix_s, 1000000000);
    free(summary);
}

TEST(lists_hold_runs_alone_oldest_first) {
    make_case_folder();
    EsRunSummary *summaries = NULL;
    int n = -1;
    REQUIRE_OK(es_run_list(temp_path("nowhere"), &summaries, &n));
    EXPECT_EQ(n, 0);
    es_run_folder_close(create_case_run("b"));
    es_run_folder_close(create_case_run("a"));
    es_run_folder_close(create_case_run("c"));
    REQUIRE_OK(es_folder_make(temp_path("no_run/x")));
    write_temp_text("file", "x");
    struct utimbuf times = {1000, 1000};
    EXPECT_EQ(utime(temp_path("c/config.ini"), &times), 0);
    times.modtime = 2000;
    EXPECT_EQ(utime(temp_path("b/config.ini"), &times), 0);
    REQUIRE_OK(es_run_list(temp_path(""), &summaries, &n));
    EXPECT_EQ(n, 3);
    EXPECT_TEXT(summaries[0].path, temp_path("c"));
    EXPECT_TEXT(summaries[1].path, temp_path("b"));
    EXPECT_TEXT(summaries[2].path, temp_path("a"));
    es_release(summaries);
    EXPECT_STATUS(es_run_list(temp_path("file"), &summaries, &n), IO);
}

TEST(removal_stays_inside_and_takes_runs_alone) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    REQUIRE_OK(save_case(folder, 1, 0));
    es_run_folder_close(folder);
    REQUIRE_OK(es_folder_make(temp_path("outside")));
    write_temp_text("outside/precious", "x");
    EXPECT_EQ(symlink("../outside", temp_path("x/link")), 0);
    EXPECT_EQ(symlink("x", temp_path("link_to_run")), 0);
    EXPECT_STATUS(es_run_remove(temp_path("outside")), INPUT);
    EXPECT_STATUS(es_run_remove(temp_path("link_to_run")), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "is a link; name the run itself");
    EXPECT(case_exists("x/checkpoints/1/DONE"));
    EXPECT_STATUS(es_run_remove(temp_path("x")), OK);
    EXPECT(!case_exists("x"));
    EXPECT(case_exists("outside/precious"));
    EXPECT_STATUS(es_run_remove(temp_path("x")), INPUT);
}
