// Ranks over MPI: messages between pairs, waited for with a deadline, so that a rank that hangs is
// noticed and named. Collective operations of MPI would neither end nor say who is missing.
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "distributed/ranks.h"

#define DEADLINE_SECONDS 120.0
// A rank that waits lets others run, and after a while sleeps between looks, a share of the time it
// has waited: ranks may share cores, and a job may stand ready for long.
#define YIELD_NS    INT64_C(2000000)
#define SLEEP_SHARE 64
#define SLEEP_NS    INT64_C(2000000)
// Between two looks at most this much is counted: a longer time was one in which this process was
// stopped, and maybe the whole job.
#define LOOK_NS INT64_C(1000000000)
// tags of MPI go up to 32767 at least
#define N_TAGS 32768

#define TEXT_OF(number)                     #number
#define VERSION_TEXT(major, minor, release) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(release)

const char *es_ranks_mpi_version(void) {
    return VERSION_TEXT(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
}

static EsStatus fail_mpi(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return ES_FAIL(IO, "MPI, %s: %s", what, text);
}

#define MPI_TRY(call, what)                                                                        \
    do {                                                                                           \
        int mpi_code = (call);                                                                     \
        if (mpi_code != MPI_SUCCESS) {                                                             \
            return fail_mpi(mpi_code, what);                                                       \
        }                                                                                          \
    } while (0)

// --- life ---

// Launchers that speak PMIx or PMI leave these; without one MPI is not even started.
static int is_launched(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        if (getenv(names[i]) != NULL) {
            return 1;
        }
    }
    return es_ranks_launched() > 1;
}

static EsStatus read_deadline(double *seconds) {
    const char *text = getenv("ES_RANK_DEADLINE");
    char *end = NULL;
    *seconds = text != NULL && text[0] != '\0' ? strtod(text, &end) : DEADLINE_SECONDS;
    return (end == NULL || *end == '\0') && *seconds > 0 && *seconds <= 1e6
               ? ES_STATUS_OK
               : ES_FAIL(ARGUMENT,
                         "ES_RANK_DEADLINE is \"%.100s\", not seconds from above 0 to 1e6", text);
}

static EsStatus join(EsRanks *ranks) {
    int provided = 0, n_launched = es_ranks_launched(); // before MPI changes the environment
    ES_TRY(read_deadline(&ranks->deadline_seconds));
    MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "start");
    MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "start");
    MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &ranks->number), "start");
    MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &ranks->count), "start");
    if (ranks->count < n_launched) {
        MPI_Finalize();
        return ES_FAIL(UNSUPPORTED,
                       "%d processes were started together, but Open MPI sees %d of them: each "
                       "group would do the whole run. Start them with Open MPI's mpirun, or srun "
                       "--mpi=pmix",
                       n_launched, ranks->count);
    }
    if (gethostname(ranks->host, sizeof ranks->host - 1) != 0) {
        snprintf(ranks->host, sizeof ranks->host, "an unnamed host");
    }
    return ES_STATUS_OK;
}

EsStatus es_ranks_open(EsRanks **ranks_out) {
    EsRanks *ranks = NULL;
    *ranks_out = NULL;
    if (!is_launched()) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof *ranks, (void **)&ranks));
    EsStatus status = join(ranks);
    if (status != ES_STATUS_OK) {
        es_release(ranks);
        return status;
    }
    *ranks_out = ranks;
    return ES_STATUS_OK;
}

void es_ranks_close(EsRanks *ranks) {
    if (ranks != NULL && ranks->status == ES_STATUS_OK && !ranks->is_part) {
        MPI_Finalize();
    }
    es_release(ranks);
}

void es_ranks_abort(EsRanks *ranks, int exit_code) {
    (void)ranks;
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    abort(); // not reached: MPI ends this process, too
}

// --- transfers ---

static EsStatus post(const EsRanks *ranks, const char *what, const EsTransfer *transfers, int n,
                     MPI_Request *requests) {
    int tag = (int)(ranks->n_transfers % N_TAGS);
    for (int i = 0; i < n; i++) {
        const EsTransfer *t = &transfers[i];
        if (t->bytes > INT_MAX) {
            return ES_FAIL(UNSUPPORTED, "%s: a message of %zu bytes; MPI takes at most %d", what,
                           t->bytes, INT_MAX);
        }
        int peer = ranks->first + t->peer;
        MPI_TRY(t->is_sent ? MPI_Isend(t->data, (int)t->bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                                       &requests[i])
                           : MPI_Irecv(t->data, (int)t->bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                                       &requests[i]),
                what);
    }
    return ES_STATUS_OK;
}

// Says whose messages have not come; a send that is stuck is named where all have. OK when all is
// done after all.
static EsStatus fail_late(const EsRanks *ranks, const char *what, const EsTransfer *transfers,
                          int n, MPI_Request *requests) {
    char late[256] = "";
    size_t used = 0;
    for (int is_sent = 0; is_sent <= 1 && used == 0; is_sent++) {
        int last = -1;
        for (int i = 0; i < n && used < sizeof late; i++) {
            int is_done = 0;
            MPI_TRY(MPI_Test(&requests[i], &is_done, MPI_STATUS_IGNORE), what);
            if (!is_done && transfers[i].is_sent == is_sent && transfers[i].peer != last) {
                last = transfers[i].peer;
                used += (size_t)snprintf(late + used, sizeof late - used, "%s%d",
                                         used > 0 ? ", " : "", ranks->first + last);
            }
        }
    }
    if (used == 0) {
        return ES_STATUS_OK;
    }
    return ES_FAIL(
        IO,
        "rank %d on %s waited %g s (ES_RANK_DEADLINE) at \"%s\" for rank %s of %d, which "
        "did not answer: it hangs, is stopped, or has far more work than the others",
        ranks->first + ranks->number, ranks->host, ranks->deadline_seconds, what, late,
        ranks->count);
}

static EsStatus wait(const EsRanks *ranks, const char *what, const EsTransfer *transfers, int n,
                     MPI_Request *requests) {
    int64_t look_ns = es_clock_ns(), waited_ns = 0;
    int is_done = 0;
    MPI_TRY(MPI_Testall(n, requests, &is_done, MPI_STATUSES_IGNORE), what);
    while (!is_done) {
        if (waited_ns < YIELD_NS) {
            sched_yield();
        } else {
            int64_t sleep_ns = ES_MIN(waited_ns / SLEEP_SHARE, SLEEP_NS);
            nanosleep(&(struct timespec){.tv_nsec = (long)sleep_ns}, NULL);
        }
        MPI_TRY(MPI_Testall(n, requests, &is_done, MPI_STATUSES_IGNORE), what);
        int64_t now_ns = es_clock_ns();
        waited_ns += ES_MIN(now_ns - look_ns, LOOK_NS);
        look_ns = now_ns;
        if (!is_done && (double)waited_ns * 1e-9 > ranks->deadline_seconds) {
            return fail_late(ranks, what, transfers, n, requests);
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_ranks_transfer(EsRanks *ranks, const char *what, const EsTransfer *transfers, int n) {
    MPI_Request *requests = NULL;
    ES_TRY(es_allocate(sizeof(MPI_Request) * (size_t)n, (void **)&requests));
    EsStatus status = post(ranks, what, transfers, n, requests);
    if (status == ES_STATUS_OK) {
        status = wait(ranks, what, transfers, n, requests);
    }
    // after a failure MPI may still write through them until the process ends
    if (status == ES_STATUS_OK) {
        es_release(requests);
    }
    return status;
}
