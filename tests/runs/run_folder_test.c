// Run folders: made, locked, listed, removed; what the messages say.
#include "runs/run_folder.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>

#include "base/memory.h"
#include "checkpoint_case.h"
#include "runs/round_folder.h"
#include "runs/run_removal.h"
#include "telemetry/sink.h"

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
    EXPECT_CONTAINS(es_status_detail(), "other is not a run folder (config.ini is missing)");
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
    EsRunRemoval removal = {.is_preview = 0};
    EXPECT_STATUS(es_run_remove(temp_path("x"), &removal), INPUT);
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

TEST(a_folder_that_is_no_longer_there_is_noticed) {
    make_case_folder();
    EsRunFolder *folder = NULL;
    char moved_to[ES_RUN_PATH_BYTES];
    REQUIRE_OK(es_run_folder_create(temp_path("a"), "hosts", &folder));
    REQUIRE_OK(es_run_folder_check(folder, moved_to));
    EXPECT_EQ(rename(temp_path("a"), temp_path("b")), 0);
    EXPECT_STATUS(es_run_folder_check(folder, moved_to), IO);
    EXPECT_CONTAINS(es_status_detail(), "/a was renamed to ");
    EXPECT_TEXT(moved_to, temp_path("b"));
    // one of the same name is another
    REQUIRE_OK(es_folder_make(temp_path("a")));
    EXPECT_STATUS(es_run_folder_check(folder, moved_to), IO);
    EXPECT_EQ(rmdir(temp_path("a")), 0);
    EXPECT_EQ(rename(temp_path("b"), temp_path("a")), 0);
    REQUIRE_OK(es_run_folder_check(folder, moved_to));
    REQUIRE_OK(es_folder_remove(temp_path("a")));
    REQUIRE_OK(es_folder_make(temp_path("a")));
    EXPECT_STATUS(es_run_folder_check(folder, moved_to), IO);
    EXPECT_CONTAINS(es_status_detail(), "/a was removed while the run went on");
    EXPECT_TEXT(moved_to, "");
    es_run_folder_close(folder);
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
    EXPECT_EQ(summary->is_marked, 1);
    write_temp_text("x/config.ini", "[run]\nkind = \x1b[31mred\n");
    REQUIRE_OK(es_run_summarise(temp_path("x"), summary));
    EXPECT_TEXT(summary->kind, "case"); // from the marker
    // without one the configuration has to name a kind, and nothing else of it reaches a terminal
    EXPECT_EQ(unlink(temp_path("x/" ES_RUN_MARKER_NAME)), 0);
    EXPECT_STATUS(es_run_summarise(temp_path("x"), summary), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "its config.ini does not name a kind of run");
    write_temp_text("x/config.ini", "[run]\nkind = old\n");
    REQUIRE_OK(es_run_summarise(temp_path("x"), summary));
    EXPECT_TEXT(summary->kind, "old");
    EXPECT_EQ(summary->is_marked, 0);
    free(summary);
}

TEST(the_lock_does_not_make_a_run_young) {
    make_case_folder();
    es_run_folder_close(create_case_run("x"));
    struct utimbuf long_ago = {1000000000, 1000000000};
    EXPECT_EQ(utime(temp_path("x/config.ini"), &long_ago), 0);
    EXPECT_EQ(utime(temp_path("x/" ES_RUN_MARKER_NAME), &long_ago), 0);
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
    REQUIRE_OK(es_folder_make(temp_path("project")));
    write_temp_text("project/config.ini", "[core]\nbare = false\n");
    write_temp_text("file", "x");
    struct utimbuf times = {1000, 1000};
    EXPECT_EQ(utime(temp_path("c/config.ini"), &times), 0);
    EXPECT_EQ(utime(temp_path("c/" ES_RUN_MARKER_NAME), &times), 0);
    times.modtime = 2000;
    EXPECT_EQ(utime(temp_path("b/config.ini"), &times), 0);
    EXPECT_EQ(utime(temp_path("b/" ES_RUN_MARKER_NAME), &times), 0);
    REQUIRE_OK(es_run_list(temp_path(""), &summaries, &n));
    EXPECT_EQ(n, 3);
    EXPECT_TEXT(summaries[0].path, temp_path("c"));
    EXPECT_TEXT(summaries[1].path, temp_path("b"));
    EXPECT_TEXT(summaries[2].path, temp_path("a"));
    es_release(summaries);
    EXPECT_STATUS(es_run_list(temp_path("file"), &summaries, &n), IO);
}

// --- removal ---

static char kept[16][512];

static void note_kept(void *context, const char *path) {
    int *n = context;
    snprintf(kept[*n % 16], sizeof kept[0], "%s", path + strlen(temp_folder()) + 1);
    ++*n;
}

// Everything that a run may write.
static void fill_run(const char *name) {
    static const char *const files[] = {
        "run.db-journal",
        "run.db.new",
        "events.jsonl",
        "spill-sqlite.bin",
        "spill-sqlite-2.bin",
        "policy.safetensors",
        "last.safetensors",
        "evaluation.json",
        "evaluation.json.77-0.tmp",
        "comparison.json",
        "networks/1/network.json",
        "networks/1/confusion.json",
        "networks/1/confusion.json.77-0.tmp",
        "networks/1/network.safetensors.77-0.tmp",
        "tensorboard/events.out.tfevents.1.host.2.0",
        "tensorboard/env_steps/events.out.tfevents.1.host.2.0",
        "before-1/events.jsonl",
        "before-1/tensorboard/events.out.tfevents.1.host.2.0",
        "before-1/tensorboard/env_steps/events.out.tfevents.1.host.2.0",
        "before-next/run.db",
        "checkpoints/9/hosts.safetensors",
        "checkpoints/9/hosts.safetensors.3-0.tmp",
        "checkpoints/10.77-0.tmp/WRITING.77-0.tmp",
    };
    EsRunFolder *folder = create_case_run(name);
    REQUIRE_OK(save_case(folder, 1, 0));
    REQUIRE_OK(save_case(folder, 2, 0));
    REQUIRE_OK(es_round_folder_begin_writing(temp_path(name), 9));
    REQUIRE_OK(es_round_folder_add_name(temp_path(name), 9, "hosts.safetensors"));
    static const char *const folders[] = {"networks/1", "tensorboard/env_steps",
                                          "before-1/tensorboard/env_steps", "before-next",
                                          "checkpoints/10.77-0.tmp"};
    for (size_t i = 0; i < ES_COUNT_OF(folders); i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", name, folders[i]);
        REQUIRE_OK(es_folder_make(temp_path(path)));
    }
    for (size_t i = 0; i < ES_COUNT_OF(files); i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", name, files[i]);
        write_temp_text(path, "x");
    }
    // one that was set aside
    char from[64], to[64];
    snprintf(from, sizeof from, "%s/checkpoints/1", name);
    snprintf(to, sizeof to, "%s/checkpoints/damaged-1", name);
    EXPECT_EQ(rename(temp_path(from), temp_path(to)), 0);
    es_run_folder_close(folder);
}

TEST(strays_of_networks_go_when_a_run_is_opened) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    REQUIRE_OK(es_folder_make(temp_path("x/networks/1")));
    write_temp_text("x/networks/1/network.json", "x");
    write_temp_text("x/networks/1/network.json.77-0.tmp", "x");
    write_temp_text("x/networks/1/network.safetensors.77-1.tmp", "x");
    write_temp_text("x/networks/1/notes.77-1.tmp", "mine");
    REQUIRE_OK(es_run_remove_strays(folder));
    EXPECT(case_exists("x/networks/1/network.json"));
    EXPECT(case_exists("x/networks/1/notes.77-1.tmp"));
    EXPECT(!case_exists("x/networks/1/network.json.77-0.tmp"));
    EXPECT(!case_exists("x/networks/1/network.safetensors.77-1.tmp"));
    es_run_folder_close(folder);
}

TEST(removal_takes_all_that_a_run_writes) {
    make_case_folder();
    fill_run("x");
    EsFolderSize size;
    REQUIRE_OK(es_folder_measure(temp_path("x"), &size));
    EsRunRemoval preview = {.is_preview = 1}, removal = {.is_preview = 0};
    REQUIRE_OK(es_run_remove(temp_path("x"), &preview));
    EXPECT_EQ(preview.n_kept, 0);
    EXPECT_EQ(preview.bytes, size.bytes);
    EsFolderSize after;
    REQUIRE_OK(es_folder_measure(temp_path("x"), &after));
    EXPECT_EQ(after.bytes, size.bytes);
    REQUIRE_OK(es_run_remove(temp_path("x"), &removal));
    EXPECT_EQ(removal.bytes, size.bytes);
    EXPECT(!case_exists("x"));
    EXPECT_STATUS(es_run_remove(temp_path("x"), &removal), INPUT);
}

TEST(removal_leaves_what_is_not_the_runs) {
    make_case_folder();
    fill_run("x");
    REQUIRE_OK(es_folder_make(temp_path("outside")));
    write_temp_text("outside/precious", "x");
    REQUIRE_OK(es_folder_make(temp_path("x/checkpoints/2024")));
    REQUIRE_OK(es_folder_make(temp_path("x/.git")));
    write_temp_text("x/.git/HEAD", "x");
    static const char *const mine[] = {"before-1/config.ini",
                                       "checkpoints/2/notes",
                                       "checkpoints/2024/photo",
                                       "checkpoints/link",
                                       "checkpoints/thesis",
                                       "link",
                                       "notes.txt",
                                       "spill-notes.bin",
                                       "policy.safetensors.bak",
                                       "tensorboard/mine",
                                       ".git"};
    REQUIRE_OK(es_folder_make(temp_path("x/checkpoints/thesis")));
    write_temp_text("x/before-1/config.ini", "x");
    write_temp_text("x/spill-notes.bin", "x");
    write_temp_text("x/checkpoints/thesis/WRITING", "esper checkpoint 7\n");
    write_temp_text("x/checkpoints/thesis/thesis.tex", "x");
    write_temp_text("x/checkpoints/2024/manifest.json", "{}");
    write_temp_text("x/checkpoints/2/notes", "x");
    write_temp_text("x/checkpoints/2024/photo", "x");
    write_temp_text("x/notes.txt", "x");
    write_temp_text("x/policy.safetensors.bak", "x");
    write_temp_text("x/tensorboard/mine", "x");
    EXPECT_EQ(symlink("../outside", temp_path("x/link")), 0);
    EXPECT_EQ(symlink("../../outside", temp_path("x/checkpoints/link")), 0);
    int n_kept = 0;
    EsRunRemoval removal = {.report_kept = note_kept, .context = &n_kept};
    REQUIRE_OK(es_run_remove(temp_path("x"), &removal));
    EXPECT_EQ(n_kept, (int)ES_COUNT_OF(mine));
    EXPECT_EQ(removal.n_kept, n_kept);
    for (size_t i = 0; i < ES_COUNT_OF(mine); i++) {
        char path[128];
        snprintf(path, sizeof path, "x/%s", mine[i]);
        EXPECT(case_exists(path));
    }
    EXPECT(case_exists("x/.git/HEAD") && case_exists("outside/precious"));
    EXPECT(!case_exists("x/config.ini") && !case_exists("x/checkpoints/2/DONE"));
    EXPECT_EQ(count_names(temp_path("x/checkpoints")), 4); // 2, 2024, link, thesis
    EXPECT(case_exists("x/checkpoints/2024/manifest.json"));
    EXPECT(case_exists("x/checkpoints/thesis/thesis.tex"));
    EXPECT_TEXT(kept[0], "x/.git");
    EXPECT_TEXT(kept[3], "x/checkpoints/2024"); // as a whole
}

TEST(removal_needs_a_marker_of_ours) {
    make_case_folder();
    EsRunRemoval removal = {.is_preview = 0};
    // somebody's project that happens to have a config.ini
    REQUIRE_OK(es_folder_make(temp_path("project/checkpoints/1")));
    write_temp_text("project/config.ini", "[run]\nkind = hosts\n");
    write_temp_text("project/checkpoints/1/DONE", "x");
    EXPECT_STATUS(es_run_remove(temp_path("project"), &removal), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "project has no esper-run.json");
    static const char *const markers[] = {
        "",
        "{}",
        "not JSON",
        "[1]",
        "{\"format\": \"other\", \"schema\": 1, \"kind\": \"hosts\"}",
        "{\"format\": \"esper-run\", \"schema\": 0, \"kind\": \"hosts\"}",
        "{\"format\": \"esper-run\", \"schema\": 2, \"kind\": \"hosts\"}",
        "{\"format\": \"esper-run\", \"schema\": 1}",
        "{\"format\": \"esper-run\", \"schema\": 1, \"kind\": \"a b\"}",
        "{\"format\": \"esper-run\", \"schema\": 1, \"kind\": \"\"}",
    };
    for (size_t i = 0; i < ES_COUNT_OF(markers); i++) {
        write_temp_text("project/" ES_RUN_MARKER_NAME, markers[i]);
        EXPECT_STATUS(es_run_remove(temp_path("project"), &removal), INPUT);
    }
    EXPECT_EQ(unlink(temp_path("project/" ES_RUN_MARKER_NAME)), 0);
    es_run_folder_close(create_case_run("x"));
    EXPECT_EQ(symlink("../x/" ES_RUN_MARKER_NAME, temp_path("project/" ES_RUN_MARKER_NAME)), 0);
    EXPECT_STATUS(es_run_remove(temp_path("project"), &removal), INPUT);
    EXPECT_EQ(count_names(temp_path("project")), 3);
    EXPECT(case_exists("project/checkpoints/1/DONE") && !case_exists("project/lock"));
    EXPECT_EQ(removal.bytes, 0);
    // and a run is named by its own path
    EXPECT_EQ(symlink("x", temp_path("link")), 0);
    EXPECT_STATUS(es_run_remove(temp_path("link"), &removal), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "is a link; name the run itself");
    EXPECT_STATUS(es_run_remove(temp_path("link/"), &removal), ARGUMENT);
    EXPECT(case_exists("x/config.ini"));
    // a database that is not a run's
    write_temp_text("x/run.db", "SQLite format 3");
    EsStatus status = es_run_remove(temp_path("x"), &removal);
    EXPECT(status == (es_sqlite_sink_version() != NULL ? ES_STATUS_INPUT : ES_STATUS_OK));
    EXPECT_EQ(case_exists("x/config.ini"), es_sqlite_sink_version() != NULL);
}

// a marker of a later program, or a file of that name that is not one, is not written over
TEST(markers_of_others_are_refused) {
    make_case_folder();
    EsRunFolder *folder = NULL;
    es_run_folder_close(create_case_run("x"));
    write_temp_text("x/" ES_RUN_MARKER_NAME,
                    "{\"format\": \"esper-run\", \"schema\": 2, \"kind\": \"case\"}");
    EXPECT_STATUS(es_run_folder_open(temp_path("x"), &folder), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "has schema 2; this program knows schema 1");
    write_temp_text("x/" ES_RUN_MARKER_NAME, "notes");
    EXPECT_STATUS(es_run_folder_open(temp_path("x"), &folder), INPUT);
    // nor by a new run
    REQUIRE_OK(es_folder_make(temp_path("y")));
    write_temp_text("y/" ES_RUN_MARKER_NAME, "notes");
    EXPECT_STATUS(es_run_folder_create(temp_path("y"), "case", &folder), ARGUMENT);
    EXPECT_EQ(unlink(temp_path("y/" ES_RUN_MARKER_NAME)), 0);
    write_temp_text("y/lock", "the combination is 12-34-56");
    EXPECT_STATUS(es_run_folder_create(temp_path("y"), "case", &folder), ARGUMENT);
    write_temp_text("y/lock", "123 host\n");
    EXPECT_STATUS(es_run_folder_create(temp_path("y"), "case", &folder), OK);
    es_run_folder_close(folder);
}

// a run that writes through a link would change a file that is not its own
TEST(links_in_a_run_folder_are_refused) {
    static const char *const names[] = {"config.ini",         "run.db",
                                        "evaluation.json",    "lock",
                                        "policy.safetensors", ES_RUN_MARKER_NAME};
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        make_case_folder();
        char path[64];
        EsRunFolder *folder = create_case_run("x");
        es_run_folder_close(folder);
        write_temp_text("precious", "x");
        snprintf(path, sizeof path, "x/%s", names[i]);
        unlink(temp_path(path));
        EXPECT_EQ(symlink("../precious", temp_path(path)), 0);
        EXPECT_STATUS(es_run_folder_open(temp_path("x"), &folder), INPUT);
        EXPECT_CONTAINS(es_status_detail(), names[i]);
        EXPECT(folder == NULL);
    }
}
