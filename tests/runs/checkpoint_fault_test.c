// Checkpoints under failing system calls and killed processes: afterwards there is the old one or
// the new one, each with exactly its bytes, and the next attempt succeeds.
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/file_fault.h"
#include "base/memory.h"
#include "checkpoint_case.h"
#include "runs/round_folder.h"

// --- the scenario: rounds 1 and 2 are saved, 3 was interrupted before; save 3 and prune ---

static EsRunFolder *begin_scenario(void) {
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    REQUIRE_OK(save_case(folder, 1, 0));
    REQUIRE_OK(save_case(folder, 2, 0));
    REQUIRE_OK(es_round_folder_begin_writing(temp_path("x"), 3));
    REQUIRE_OK(es_file_write_all(temp_path("x/checkpoints/3/rank0.json.1-0.tmp"), "{", 1));
    return folder;
}

static EsStatus save_and_prune(const EsRunFolder *folder) {
    ES_TRY(save_case(folder, 3, 0));
    return es_checkpoint_prune(folder, 2);
}

// After any end of the work a checkpoint with DONE is whole: failures leave checkpoints unfinished,
// not wrong.
static void expect_whole_or_unfinished(void) {
    int64_t *rounds = NULL;
    int n_rounds = 0;
    REQUIRE_OK(es_round_folder_rounds(temp_path("x"), &rounds, &n_rounds));
    for (int i = 0; i < n_rounds; i++) {
        EsRoundFolder found;
        REQUIRE_OK(es_round_folder_check(temp_path("x"), rounds[i], 1, &found));
        if (found.condition == ES_ROUND_FOLDER_DAMAGED ||
            found.condition == ES_ROUND_FOLDER_REFUSED) {
            ES_TEST_FAIL("round %lld has DONE, but %s", (long long)rounds[i], found.problem);
        }
    }
    es_release(rounds);
}

// Checks the invariants after any fault, with the faults gone.
static void end_scenario(EsRunFolder *folder, EsStatus status, const char *what) {
    int failures = es_test_failures;
    expect_whole_or_unfinished();
    int64_t round = expect_latest(folder);
    EXPECT(round == 2 || round == 3);
    EXPECT(status != ES_STATUS_OK || round == 3);
    // the next attempt; when the prune alone had failed, the round is there already
    if (round == 2) {
        EXPECT_STATUS(save_case(folder, 3, 0), OK);
    }
    EXPECT_STATUS(es_checkpoint_prune(folder, 2), OK);
    EXPECT_EQ(expect_latest(folder), 3);
    EXPECT_STATUS(save_case(folder, 4, 0), OK);
    EXPECT_STATUS(es_checkpoint_prune(folder, 2), OK);
    EXPECT_EQ(expect_latest(folder), 4);
    EXPECT(!case_exists("x/checkpoints/1") && !case_exists("x/checkpoints/2"));
    EXPECT(case_exists("x/checkpoints/3/DONE"));
    EXPECT_EQ(count_names(temp_path("x/checkpoints")), 2); // nothing was set aside
    EsFolderEntry *entries = NULL;
    int n_entries = 0;
    REQUIRE_OK(es_folder_list(temp_path("x/checkpoints/4"), &entries, &n_entries));
    EXPECT_EQ(n_entries, 5); // two files, mark, manifest, DONE; no temporary
    es_release(entries);
    es_run_folder_close(folder);
    if (es_test_failures > failures) {
        printf("    ... after %s\n", what);
    }
}

// Run the scenario under a fault; 0 when it did not strike any more.
static int run_with_fault(const char *text, int must_fail) {
    EsRunFolder *folder = begin_scenario();
    EsFileFault fault;
    REQUIRE_OK(es_file_fault_parse(text, &fault));
    es_file_fault_arm(&fault);
    EsStatus status = save_and_prune(folder);
    int64_t n_struck = es_file_fault_clear();
    if (n_struck > 0 && must_fail && status == ES_STATUS_OK) {
        ES_TEST_FAIL("%s struck and nobody noticed", text);
    }
    if (n_struck == 0 || !must_fail) {
        EXPECT_STATUS(status, OK);
    }
    end_scenario(folder, status, text);
    return n_struck > 0;
}

// Each call of the scenario fails once, one after the other; returns how many there are.
static int fail_each(const char *call, const char *effect, int must_fail) {
    int n = 1;
    char text[64];
    do {
        snprintf(text, sizeof text, "%s:%d:%s", call, n, effect);
    } while (run_with_fault(text, must_fail) && ++n < 200);
    return n - 1;
}

// the numbers on the right are what the scenario needs at least: fewer would mean that calls have
// slipped past the layer
static void fail_all(const char *effect) {
    static const struct {
        const char *call;
        int least;
    } calls[] = {{"open", 20},  {"read", 8},         {"write", 8},  {"fsync", 7},
                 {"rename", 5}, {"fsync-folder", 8}, {"unlink", 8}, {"mkdir", 1}};
    for (size_t i = 0; i < ES_COUNT_OF(calls); i++) {
        int n = fail_each(calls[i].call, effect, 1);
        printf("%s: %d of %s\n", effect, n, calls[i].call);
        EXPECT(n >= calls[i].least);
    }
}

TEST(no_space_at_any_call) { fail_all("ENOSPC"); }

TEST(io_error_at_any_call) { fail_all("EIO"); }

TEST(interruptions_and_short_transfers_do_no_harm) {
    EXPECT(fail_each("write", "short", 0) >= 8);
    EXPECT(fail_each("read", "short", 0) >= 8);
    EXPECT(fail_each("write", "EINTR", 0) >= 8);
    EXPECT(fail_each("open", "EINTR", 0) >= 20);
    EXPECT(fail_each("fsync", "EINTR", 0) >= 7);
    EXPECT(fail_each("fsync-folder", "EINTR", 0) >= 8);
}

// from the n-th write on nothing fits, and cleaning up has to work without writing
TEST(lasting_failures) {
    static const char *const calls[] = {"write", "fsync", "fsync-folder", "rename", "unlink"};
    for (size_t i = 0; i < ES_COUNT_OF(calls); i++) {
        int n = 1;
        char text[64];
        do {
            snprintf(text, sizeof text, "%s:%d+:EIO", calls[i], n);
        } while (run_with_fault(text, 1) && ++n < 200);
        EXPECT(n > 5);
    }
}

TEST(disk_full_after_any_number_of_bytes) {
    int n = 0;
    char text[64];
    for (int64_t bytes = 0;; bytes += bytes < 200 ? 13 : 97, n++) {
        snprintf(text, sizeof text, "disk:%lld", (long long)bytes);
        if (!run_with_fault(text, 1)) {
            break;
        }
    }
    printf("%d sizes\n", n);
    EXPECT(n > 40);
}

// --- killed at every single call ---

TEST(killed_at_any_call) {
    static const char *const calls[] = {"open",         "read",   "write",  "fsync",
                                        "fsync-folder", "rename", "unlink", "mkdir"};
    int n_killed = 0;
    for (size_t i = 0; i < ES_COUNT_OF(calls); i++) {
        for (int n = 1;; n++) {
            EsRunFolder *folder = begin_scenario();
            es_run_folder_close(folder);
            char text[64];
            snprintf(text, sizeof text, "%s:%d:kill", calls[i], n);
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                EsFileFault fault;
                EsStatus status = es_run_folder_open(temp_path("x"), &folder);
                if (status == ES_STATUS_OK) {
                    status = es_file_fault_parse(text, &fault);
                }
                if (status == ES_STATUS_OK) {
                    es_file_fault_arm(&fault);
                    status = save_and_prune(folder);
                }
                _exit(status == ES_STATUS_OK ? 0 : 3);
            }
            int result = 0;
            EXPECT_EQ(waitpid(child, &result, 0), child);
            int is_killed = WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL;
            EXPECT(is_killed || (WIFEXITED(result) && WEXITSTATUS(result) == 0));
            REQUIRE_OK(es_run_folder_open(temp_path("x"), &folder));
            end_scenario(folder, is_killed ? ES_STATUS_IO : ES_STATUS_OK, text);
            n_killed += is_killed;
            if (!is_killed) {
                break;
            }
        }
    }
    printf("%d places\n", n_killed);
    EXPECT(n_killed > 60);
}

// --- killed at random moments ---

// splitmix64: the same moments in every run of the test
static uint64_t draw(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

typedef struct Progress {
    atomic_int is_saving;      // the child has found its checkpoint and begins
    _Atomic int64_t completed; // the last round it saw complete
} Progress;

// Save round after round until the end.
static void save_forever(Progress *progress) {
    EsRunFolder *folder = NULL;
    EsCheckpoint *latest = NULL;
    if (es_run_folder_open(temp_path("x"), &folder) != ES_STATUS_OK ||
        es_checkpoint_open_latest(folder, 0, 1, &latest) != ES_STATUS_OK) {
        _exit(3);
    }
    int64_t round = latest != NULL ? es_checkpoint_round(latest) : 0;
    es_checkpoint_end(latest);
    atomic_store(&progress->is_saving, 1);
    for (;;) {
        round++;
        if (save_case(folder, round, (double)(round % 5)) != ES_STATUS_OK) {
            _exit(4);
        }
        atomic_store(&progress->completed, round);
        if (es_checkpoint_prune(folder, 2) != ES_STATUS_OK) {
            _exit(5);
        }
    }
}

// Start a child and kill it after `pause_ns` of saving.
static void kill_while_saving(Progress *progress, int64_t pause_ns) {
    fflush(stdout);
    atomic_store(&progress->is_saving, 0);
    pid_t child = fork();
    if (child == 0) {
        save_forever(progress);
    }
    int result = 0;
    pid_t ended = 0;
    while (!atomic_load(&progress->is_saving) && ended == 0) {
        struct timespec moment = {0, 50000};
        nanosleep(&moment, NULL);
        ended = waitpid(child, &result, WNOHANG);
    }
    if (ended == 0) {
        struct timespec pause = {pause_ns / 1000000000, pause_ns % 1000000000};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        ended = waitpid(child, &result, 0);
    }
    EXPECT_EQ(ended, child);
    if (!WIFSIGNALED(result)) {
        ES_TEST_FAIL("the child ended by itself with code %d: a save failed", WEXITSTATUS(result));
    }
}

TEST(killed_at_random_moments) {
    enum { N_KILLS = 80 };
    make_case_folder();
    EsRunFolder *folder = create_case_run("x");
    Progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(progress != MAP_FAILED);
    // pauses in units of what a round takes here, so that a slow machine is killed as often in the
    // middle as a fast one
    int64_t start_ns = es_clock_ns();
    for (int64_t round = 1; round <= 4; round++) {
        REQUIRE_OK(save_case(folder, round, 0));
        REQUIRE_OK(es_checkpoint_prune(folder, 2));
    }
    int64_t round_ns = (es_clock_ns() - start_ns) / 4;
    es_run_folder_close(folder);
    atomic_store(&progress->completed, 4);
    uint64_t state = 20240607;
    int n_unreported = 0;
    for (int i = 0; i < N_KILLS; i++) {
        kill_while_saving(progress, (int64_t)(draw(&state) % (uint64_t)(4 * round_ns)));
        REQUIRE_OK(es_run_folder_open(temp_path("x"), &folder));
        expect_whole_or_unfinished();
        int64_t round = expect_latest(folder), completed = atomic_load(&progress->completed);
        // what was reported complete is there; one more may have been completed unreported
        EXPECT(round == completed || round == completed + 1);
        n_unreported += round == completed + 1;
        atomic_store(&progress->completed, round);
        es_run_folder_close(folder);
    }
    int64_t n_rounds = atomic_load(&progress->completed);
    printf("%lld rounds of %.2f ms through %d kills, %d of them complete and not reported\n",
           (long long)n_rounds, (double)round_ns * 1e-6, N_KILLS, n_unreported);
    EXPECT(n_rounds > N_KILLS / 4);
    munmap(progress, sizeof *progress);
}
