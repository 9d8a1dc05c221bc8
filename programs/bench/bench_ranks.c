// The suite `ranks`: rounds of growth and of proof training over several processes, against one,
// with one thread each. A case starts two jobs under mpirun, which stay ready and run a round when
// asked to: starting them is not timed.
//
// The processes of a job are this program again, as `esper bench` with ES_BENCH_RANKS set to the
// workload: es_bench_ranks_serve. Rank 0 reads a byte from its standard input for every round and
// writes one when it is done.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "bench/bench_suite.h"
#include "control/policy/policy_training.h"
#include "proof/agent/proof_training.h"
#include "prove/prove_action.h"
#include "runs/grow/grow_episode.h"

#define WORK_VARIABLE "ES_BENCH_RANKS"
#define N_PEOPLE      100 // of the generated graph

// --- the processes of a job ---

// One of the two workloads; what it does not need is NULL.
typedef struct RankWork {
    EsRanks *ranks; // owned, as is all below
    EsDevice *device;
    EsGrowSettings grow;
    EsEpisodeRunner runner;
    EsPolicy *policy;
    int64_t n_rounds;
    EsKnowledgeGraph *graph;
    EsProofTraining *training;
} RankWork;

static EsStatus begin_growth(RankWork *work) {
    EsConfig config = es_grow_run_config(&work->grow);
    es_config_reset(&config);
    work->grow.run.n_threads = 1;
    work->grow.run.ranks = work->ranks;
    ES_TRY(es_grow_episode_open_device(&work->grow, &work->device));
    ES_TRY(es_grow_episode_create(&work->grow, work->device, &work->runner));
    return es_grow_episode_create_policy(&work->runner, work->grow.n_envs, &work->policy);
}

static EsStatus watch_nothing(void *context, int64_t step) {
    (void)context;
    (void)step;
    return ES_STATUS_OK;
}

static EsStatus record_decision(void *context, int64_t step) {
    RankWork *work = context;
    (void)step;
    return es_policy_training_record(work->policy, &es_growth_snapshot(work->runner.growth)->state,
                                     work->runner.rewards, work->grow.reward.rollback_penalty);
}

static EsStatus run_growth(RankWork *work) {
    EsGrowWatch watch = {work, watch_nothing, record_decision};
    EsPpoReport report;
    ES_TRY(es_grow_episode_run(&work->runner, work->policy, work->n_rounds++ * work->grow.n_envs,
                               &watch));
    return es_policy_training_update(work->policy, &es_growth_snapshot(work->runner.growth)->state,
                                     &report);
}

static EsStatus begin_proofs(RankWork *work) {
    EsProveSource source = {.n_people = N_PEOPLE, .seed = 1};
    EsProofTrainingSettings settings = es_proof_training_defaults();
    settings.ranks = work->ranks;
    ES_TRY(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &work->device));
    ES_TRY(es_prove_source_load(&source, &work->graph));
    return es_proof_training_create(work->device, work->graph, &settings, &work->training);
}

static EsStatus run_proofs(RankWork *work) {
    EsProofRound round;
    return es_proof_training_round(work->training, NULL, &round);
}

static void end_work(RankWork *work) {
    es_proof_training_destroy(work->training);
    es_kg_destroy(work->graph);
    if (work->policy != NULL) {
        es_grow_episode_destroy_policy(&work->runner, work->policy);
    }
    if (work->runner.growth != NULL) {
        es_grow_episode_destroy(&work->runner);
    }
    es_device_close(work->device);
    es_ranks_close(work->ranks);
}

// Rounds as long as rank 0 is asked for them, each of them answered.
static EsStatus serve(RankWork *work, EsStatus (*run)(RankWork *work)) {
    int is_first = es_ranks_number(work->ranks) == 0;
    for (;;) {
        char asked = 'g';
        if (is_first && (write(STDOUT_FILENO, "r", 1) != 1 || read(STDIN_FILENO, &asked, 1) != 1)) {
            asked = '\0';
        }
        ES_TRY(es_ranks_broadcast(work->ranks, "a round", 0, &asked, 1));
        if (asked == '\0') {
            return ES_STATUS_OK;
        }
        ES_TRY(run(work));
    }
}

EsStatus es_bench_ranks_serve(const char *name) {
    RankWork work = {.ranks = NULL};
    int is_growth = strcmp(name, "growth") == 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_ranks_open(&work.ranks));
    ES_TRY_GOTO(is_growth ? begin_growth(&work) : begin_proofs(&work));
    ES_TRY_GOTO(serve(&work, is_growth ? run_growth : run_proofs));
done:
    if (status != ES_STATUS_OK && es_ranks_count(work.ranks) > 1) { // the others wait for this one
        fprintf(stderr, "esper bench: rank %d: %s\n", es_ranks_number(work.ranks),
                es_status_detail());
        es_ranks_abort(work.ranks, 1);
    }
    end_work(&work);
    return status;
}

const char *es_bench_ranks_asked(void) { return getenv(WORK_VARIABLE); }

// --- jobs ---

typedef struct Job {
    pid_t pid;
    int to, from; // pipes to rank 0; -1: closed
} Job;

typedef struct RanksBench {
    const char *work;
    int n_ranks;
} RanksBench;

typedef struct RanksFixture {
    Job jobs[2]; // n_ranks, and one
} RanksFixture;

static int has_ssh(void) {
    char path[4096], list[4096], *rest = NULL;
    const char *folders = getenv("PATH");
    snprintf(list, sizeof list, "%s", folders != NULL ? folders : "");
    for (char *folder = strtok_r(list, ":", &rest); folder != NULL;
         folder = strtok_r(NULL, ":", &rest)) {
        int length = snprintf(path, sizeof path, "%s/ssh", folder);
        if (length < (int)sizeof path && access(path, X_OK) == 0) {
            return 1;
        }
    }
    return 0;
}

// In the child: the pipes become standard input and output, mpirun takes its place.
static void start_mpirun(const int to[2], const int from[2], const char *work, int n_ranks) {
    char program[4096] = "", count[16];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    snprintf(count, sizeof count, "%d", n_ranks);
    char *arguments[16] = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", count};
    int n = 6;
    if (!has_ssh()) { // Open MPI looks for a way to other machines, and fails without one
        arguments[n++] = "--mca";
        arguments[n++] = "plm";
        arguments[n++] = "isolated";
    }
    if (geteuid() == 0) {
        arguments[n++] = "--allow-run-as-root";
    }
    arguments[n++] = program;
    arguments[n] = "bench";
    if (length > 0 && dup2(to[0], STDIN_FILENO) >= 0 && dup2(from[1], STDOUT_FILENO) >= 0 &&
        setenv(WORK_VARIABLE, work, 1) == 0) {
        execvp("mpirun", arguments);
    }
    _Exit(127);
}

// Waits until rank 0 is ready for a round.
static EsStatus wait_for(const Job *job) {
    char byte = '\0';
    return read(job->from, &byte, 1) == 1 && byte == 'r'
               ? ES_STATUS_OK
               : ES_FAIL(UNSUPPORTED, "ranks: mpirun has not started, or its processes have ended; "
                                      "the suite needs a build with MPI and mpirun");
}

static EsStatus start_job(Job *job, const char *work, int n_ranks) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0) {
        return ES_FAIL(IO, "ranks: no pipe to a job");
    }
    if (pipe2(from, O_CLOEXEC) != 0) {
        close(to[0]);
        close(to[1]);
        return ES_FAIL(IO, "ranks: no pipe from a job");
    }
    job->pid = fork();
    if (job->pid == 0) {
        start_mpirun(to, from, work, n_ranks);
    }
    close(to[0]);
    close(from[1]);
    job->to = to[1];
    job->from = from[0];
    return job->pid > 0 ? wait_for(job) : ES_FAIL(IO, "ranks: no process for a job");
}

// Closing its input ends a job.
static void end_job(const Job *job) {
    if (job->to >= 0) {
        close(job->to);
        close(job->from);
    }
    if (job->pid > 0) {
        waitpid(job->pid, NULL, 0);
    }
}

static void end_ranks(void *context) {
    RanksFixture *fixture = context;
    for (size_t i = 0; fixture != NULL && i < ES_COUNT_OF(fixture->jobs); i++) {
        end_job(&fixture->jobs[i]);
    }
    es_release(fixture);
}

static EsStatus begin_ranks(const EsBenchCase *bench_case, const EsBench *bench,
                            void **fixture_out) {
    const RanksBench *wanted = bench_case->settings;
    RanksFixture *fixture = NULL;
    (void)bench;
    *fixture_out = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->jobs[0].to = fixture->jobs[1].to = -1;
    signal(SIGPIPE, SIG_IGN); // a job that has ended is a failure of its next round
    EsStatus status = start_job(&fixture->jobs[0], wanted->work, wanted->n_ranks);
    if (status == ES_STATUS_OK) {
        status = start_job(&fixture->jobs[1], wanted->work, 1);
    }
    if (status != ES_STATUS_OK) {
        end_ranks(fixture);
        return status;
    }
    *fixture_out = fixture;
    return ES_STATUS_OK;
}

static EsStatus run_ranks(void *context, int variant) {
    const Job *job = &((RanksFixture *)context)->jobs[variant];
    return write(job->to, "g", 1) == 1 ? wait_for(job) : ES_FAIL(IO, "ranks: a job has ended");
}

static double count_round(const EsBenchCase *bench_case) {
    (void)bench_case;
    return 1;
}

#define RANKS_CASE(what, n, label)                                                                 \
    {                                                                                              \
        .name = what, .parameters = "R=" #n " " label, .settings = &(const RanksBench){what, n},   \
        .begin = begin_ranks, .run = run_ranks, .end = end_ranks, .work = count_round,             \
        .rate_unit = "rounds/s", .peer = "1 rank"                                                  \
    }

static const EsBenchCase cases[] = {
    RANKS_CASE("growth", 2, "task=tiny E=16 threads=1"),
    RANKS_CASE("growth", 4, "task=tiny E=16 threads=1"),
    RANKS_CASE("proofs", 2, "people=100 E=128 T=32 threads=1"),
    RANKS_CASE("proofs", 4, "people=100 E=128 T=32 threads=1"),
};

const EsBenchSuite es_bench_ranks = {
    .name = "ranks",
    .summary = "rounds of growth and proofs over 2 and 4 processes, against one; needs mpirun, "
               "runs only when it is named",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
    .is_apart = 1,
};
