// Shares, and the collective calls over real processes: those tests run under mpirun with three
// ranks, each in a process group of its own (tests/distributed/CMakeLists.txt).
#include "distributed/ranks.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "es_test.h"

TEST(shares) {
    const int64_t counts[] = {0, 1, 2, 5, 8, 16, 17};
    for (int n_ranks = 1; n_ranks <= 9; n_ranks++) {
        EsRanks ranks = {.count = n_ranks};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            int64_t next = 0, least = counts[i], most = 0;
            for (int r = 0; r < n_ranks; r++) {
                EsShare share = es_ranks_share(&ranks, r, counts[i]);
                EXPECT_EQ(share.first, next);
                EXPECT(share.end >= share.first);
                least = share.end - share.first < least ? share.end - share.first : least;
                most = share.end - share.first > most ? share.end - share.first : most;
                for (int64_t index = share.first; index < share.end; index++) {
                    EXPECT_EQ(es_ranks_owner(&ranks, counts[i], index), r);
                }
                next = share.end;
            }
            EXPECT_EQ(next, counts[i]);
            EXPECT(most - least <= 1);
        }
    }
    EsRanks three = {.count = 3};
    const int64_t sizes[] = {3, 3, 2}; // of eight shards
    for (int r = 0; r < 3; r++) {
        EsShare share = es_ranks_share(&three, r, 8);
        EXPECT_EQ(share.end - share.first, sizes[r]);
    }
}

// NULL is one process: it owns everything and nothing is sent.
TEST(one_process) {
    int number = 5;
    EsRankColumn column = {&number, sizeof number};
    EsRankFact fact = {"build", "this one"};
    EXPECT_EQ(es_ranks_count(NULL), 1);
    EXPECT_EQ(es_ranks_number(NULL), 0);
    EXPECT_EQ(es_ranks_own(NULL, 7).end, 7);
    EXPECT_STATUS(es_ranks_gather(NULL, "test", 1, &column, 1), OK);
    EXPECT_STATUS(es_ranks_broadcast(NULL, "test", 0, &number, sizeof number), OK);
    EXPECT_STATUS(es_ranks_barrier(NULL, "test"), OK);
    EXPECT_STATUS(es_ranks_agree(NULL, &fact, 1), OK);
    EXPECT_STATUS(es_ranks_status(NULL), OK);
    EXPECT_EQ(number, 5);
}

static const char *const launcher_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK",
                                             "PMIX_RANK", "SLURM_STEP_NUM_TASKS"};

// In place of the environment that the test itself has; pairs of name and value.
static void pretend(const char *const *pairs) {
    for (size_t i = 0; i < sizeof launcher_names / sizeof *launcher_names; i++) {
        unsetenv(launcher_names[i]);
    }
    for (; *pairs != NULL; pairs += 2) {
        setenv(pairs[0], pairs[1], 1);
    }
}

TEST(launchers) {
    pretend((const char *[]){NULL});
    EXPECT_EQ(es_ranks_launched(), 1);
    pretend((const char *[]){"OMPI_COMM_WORLD_SIZE", "3", "SLURM_STEP_NUM_TASKS", "8", "PMIX_RANK",
                             "1", NULL}); // mpirun in a job of Slurm
    EXPECT_EQ(es_ranks_launched(), 3);
    pretend((const char *[]){"PMI_SIZE", "4", "PMI_RANK", "0", NULL});
    EXPECT_EQ(es_ranks_launched(), 4);
    pretend((const char *[]){"SLURM_STEP_NUM_TASKS", "8", NULL}); // a shell there
    EXPECT_EQ(es_ranks_launched(), 1);
    pretend((const char *[]){"SLURM_STEP_NUM_TASKS", "8", "PMIX_RANK", "2", NULL});
    EXPECT_EQ(es_ranks_launched(), 8);
}

// Started by a launcher that this MPI does not speak to, or without MPI: refused.
TEST(foreign_launcher) {
    EsRanks *ranks = NULL;
    pretend((const char *[]){"PMI_SIZE", "4", "PMI_RANK", "0", NULL});
    EXPECT_STATUS(es_ranks_open(&ranks), UNSUPPORTED);
    EXPECT(strstr(es_status_detail(), "4 processes were started together") != NULL);
    EXPECT(ranks == NULL);
}

// The ranks that mpirun has started; NULL, and the test is skipped, without it.
static EsRanks *join(void) {
    EsRanks *ranks = NULL;
    EXPECT_STATUS(es_ranks_open(&ranks), OK);
    if (ranks == NULL) {
        es_test_skipped = 1;
    }
    return ranks;
}

// Rows of two widths, more of them than ranks and fewer.
TEST(gathers) {
    EsRanks *ranks = join();
    const int64_t counts[] = {1, 2, 8, 17};
    for (size_t i = 0; ranks != NULL && i < sizeof counts / sizeof *counts; i++) {
        int64_t n = counts[i];
        double wide[17][3] = {{0}};
        uint16_t narrow[17] = {0};
        EsShare own = es_ranks_own(ranks, n);
        for (int64_t row = own.first; row < own.end; row++) {
            wide[row][0] = 0.1 * (double)row;
            wide[row][2] = -(double)row;
            narrow[row] = (uint16_t)(1000 + row);
        }
        const EsRankColumn columns[] = {{wide, sizeof *wide}, {narrow, sizeof *narrow}};
        EXPECT_STATUS(es_ranks_gather(ranks, "rows", n, columns, 2), OK);
        for (int64_t row = 0; row < n; row++) {
            EXPECT(wide[row][0] == 0.1 * (double)row && wide[row][2] == -(double)row);
            EXPECT_EQ(narrow[row], 1000 + row);
        }
        for (int root = 0; root < es_ranks_count(ranks); root++) {
            int64_t said = es_ranks_number(ranks) == root ? 77 + root : 0;
            EXPECT_STATUS(es_ranks_broadcast(ranks, "number", root, &said, sizeof said), OK);
            EXPECT_EQ(said, 77 + root);
        }
        EXPECT_STATUS(es_ranks_barrier(ranks, "end"), OK);
    }
    es_ranks_close(ranks);
}

// Rows whose owners follow no order, and rows that move to other owners.
TEST(rows) {
    EsRanks *ranks = join();
    if (ranks == NULL) {
        return;
    }
    enum { N = 11 };
    int count = es_ranks_count(ranks), number = es_ranks_number(ranks);
    int32_t owner[N], next[N];
    double wide[N][3] = {{0}};
    uint16_t narrow[N] = {0};
    for (int i = 0; i < N; i++) {
        owner[i] = i < 8 ? (7 * i + 1) % count : count - 1;
        next[i] = i % 2 == 0 ? owner[i] : (owner[i] + 1) % count;
        wide[i][1] = owner[i] == number ? 10.0 + i : -1;
        narrow[i] = owner[i] == number ? (uint16_t)(100 + i) : 0;
    }
    const EsRankColumn columns[] = {{wide, sizeof *wide}, {narrow, sizeof *narrow}};
    EXPECT_STATUS(es_ranks_move(ranks, "moved rows", N, owner, next, columns, 2), OK);
    for (int i = 0; i < N; i++) {
        int has_row = owner[i] == number || next[i] == number;
        EXPECT(wide[i][1] == (has_row ? 10.0 + i : -1));
        EXPECT_EQ(narrow[i], has_row ? 100 + i : 0);
    }
    EXPECT_STATUS(es_ranks_gather_rows(ranks, "rows", N, next, columns, 2), OK);
    for (int i = 0; i < N; i++) {
        EXPECT(wide[i][0] == 0 && wide[i][1] == 10.0 + i);
        EXPECT_EQ(narrow[i], 100 + i);
    }
    // one row has an owner and a next one: the ranks without a part stay in step
    for (int i = 0; i < N; i++) {
        next[i] = owner[i] = 0;
    }
    next[3] = 1;
    EXPECT_STATUS(es_ranks_move(ranks, "one row", N, owner, next, columns, 2), OK);
    EXPECT_STATUS(es_ranks_barrier(ranks, "after it"), OK);
    es_ranks_close(ranks);
}

// Groups of 2 and 1 of three ranks have exchanges of their own, and all of them together again.
TEST(groups) {
    EsRanks *ranks = join(), *part = NULL;
    if (ranks == NULL) {
        return;
    }
    int count = es_ranks_count(ranks), number = es_ranks_number(ranks);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(es_ranks_group(ranks, 2), number == 2);
    EXPECT_STATUS(es_ranks_divide(ranks, 2, &part), OK);
    EXPECT_EQ(es_ranks_count(part), number < 2 ? 2 : 1);
    EXPECT_EQ(es_ranks_number(part), number < 2 ? number : 0);
    for (int i = 0; i < 3; i++) {
        int said[2] = {-1, -1};
        said[es_ranks_number(part)] = number;
        EsRankColumn column = {said, sizeof *said};
        EXPECT_STATUS(es_ranks_gather(part, "numbers", es_ranks_count(part), &column, 1), OK);
        EXPECT(number == 2 ? said[0] == 2 : said[0] == 0 && said[1] == 1);
    }
    es_ranks_close(part);
    EXPECT_STATUS(es_ranks_barrier(ranks, "all of them"), OK);
    EXPECT_STATUS(es_ranks_divide(ranks, 3, &part), OK);
    EXPECT(part == NULL);
    es_ranks_close(ranks);
}

// One rank differs in one line; everybody learns which, and can go on.
TEST(agrees) {
    EsRanks *ranks = join();
    if (ranks == NULL) {
        return;
    }
    int is_odd = es_ranks_number(ranks) == 2;
    const EsRankFact same[] = {{"build", "1.2"}, {"data", "abc"}};
    const EsRankFact other[] = {{"build", "1.2"},
                                {"settings", is_odd ? "a=1\nb=3\nc=0" : "a=1\nb=2\nc=0"}};
    EXPECT_STATUS(es_ranks_agree(ranks, same, 2), OK);
    EXPECT_EQ(es_ranks_differ(ranks), 0);
    EXPECT_STATUS(es_ranks_agree(ranks, other, 2), CONFIG);
    EXPECT_EQ(es_ranks_differ(ranks), 1);
    EXPECT(strstr(es_status_detail(), "differ in their settings") != NULL);
    EXPECT(strstr(es_status_detail(), "rank 2 on ") != NULL);
    EXPECT(strstr(es_status_detail(), "has \"b=3\" where rank 0 on") != NULL);
    EXPECT(strstr(es_status_detail(), "has \"b=2\"") != NULL);
    EXPECT(strstr(es_status_detail(), "rank 1 ") == NULL);
    EXPECT_STATUS(es_ranks_agree(ranks, same, 2), OK);
    es_ranks_close(ranks);
}

// The job is stopped for longer than the deadline, as by a batch system: nobody is late for it.
TEST(paused) {
    EsRanks *ranks = join();
    if (ranks == NULL) {
        return;
    }
    EXPECT_STATUS(es_ranks_barrier(ranks, "the begin"), OK);
    ranks->deadline_seconds = 5;
    int is_last = es_ranks_number(ranks) == 1;
    pid_t waker = is_last ? 0 : fork();
    if (!is_last && waker == 0) {
        usleep(300000);
        kill(getppid(), SIGSTOP);
        sleep(7);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    if (is_last) {
        usleep(7500000);
    }
    EXPECT_STATUS(es_ranks_barrier(ranks, "a meeting"), OK);
    if (!is_last) {
        EXPECT_EQ(waitpid(waker, NULL, 0), waker);
    }
    es_ranks_close(ranks);
}

// Rank 1 does not come: the others fail by the deadline (5 s), name it, and stay failed. The end is
// by abort, as of a program; the test's process group expects its exit code.
TEST(late) {
    EsRanks *ranks = join();
    if (ranks == NULL) {
        return;
    }
    EXPECT_STATUS(es_ranks_barrier(ranks, "the begin"), OK); // starting may take long
    ranks->deadline_seconds = 5;
    if (es_ranks_number(ranks) == 1) {
        sleep(60);
    }
    int64_t start_ns = es_clock_ns();
    EXPECT_STATUS(es_ranks_barrier(ranks, "a meeting"), IO);
    double seconds = es_clock_seconds_since(start_ns);
    EXPECT(seconds >= 5 && seconds < 40);
    EXPECT(strstr(es_status_detail(), "at \"a meeting\" for rank 1 of 3") != NULL);
    start_ns = es_clock_ns();
    EXPECT_STATUS(es_ranks_barrier(ranks, "another"), IO);
    EXPECT_STATUS(es_ranks_status(ranks), IO);
    EXPECT(strstr(es_status_detail(), "a meeting") != NULL);
    EXPECT(es_clock_seconds_since(start_ns) < 4);
    if (es_test_failures > 0) {
        fflush(stdout);
        es_ranks_abort(ranks, 1);
    }
    if (es_ranks_number(ranks) == 0) {
        printf("noticed\n");
        fflush(stdout);
        sleep(5); // the other one notices, too
        es_ranks_abort(ranks, 42);
    }
    sleep(60);
}
