// The thread pool: every piece once, many short rounds, the same results for any number of threads.
#include "base/thread_pool.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "base/machine.h"
#include "base/macros.h"
#include "es_test.h"

#define MAX_PIECES 1000

typedef struct Work {
    _Atomic int n_runs[MAX_PIECES];
    _Atomic int n_bad_workers;
    _Atomic int in_use[8]; // pieces that hold this worker's scratch now
    int n_threads;
    double result[MAX_PIECES];
} Work;

static void run_piece(void *context, int64_t piece, int worker) {
    Work *work = context;
    atomic_fetch_add(&work->n_runs[piece], 1);
    if (worker < 0 || worker >= work->n_threads ||
        atomic_fetch_add(&work->in_use[worker], 1) != 0) {
        atomic_fetch_add(&work->n_bad_workers, 1);
    }
    double sum = 0;
    for (int i = 1; i <= 50; i++) {
        sum += 1.0 / (double)(piece + i);
    }
    work->result[piece] = sum;
    atomic_fetch_sub(&work->in_use[worker], 1);
}

static Work work, reference;

TEST(runs_every_piece_once_with_any_number_of_threads) {
    static const int64_t counts[] = {0, 1, 2, 3, 7, 64, MAX_PIECES};
    for (int n_threads = 1; n_threads <= 8; n_threads++) {
        EsThreadPool *pool = NULL;
        REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
        EXPECT_EQ(es_thread_pool_size(pool), n_threads);
        for (size_t c = 0; c < ES_COUNT_OF(counts); c++) {
            memset(&work, 0, sizeof work);
            work.n_threads = n_threads;
            es_thread_pool_run(pool, counts[c], run_piece, &work);
            int n_wrong = 0;
            for (int64_t piece = 0; piece < MAX_PIECES; piece++) {
                n_wrong += work.n_runs[piece] != (piece < counts[c]);
            }
            EXPECT_EQ(n_wrong, 0);
            EXPECT_EQ(work.n_bad_workers, 0);
        }
        if (n_threads == 1) {
            memcpy(&reference, &work, sizeof work);
        }
        EXPECT(memcmp(reference.result, work.result, sizeof work.result) == 0);
        es_thread_pool_destroy(pool);
    }
}

static void count_piece(void *context, int64_t piece, int worker) {
    (void)worker;
    // written by a different thread each round: plain memory, so a missing barrier is a data race
    ((int *)context)[piece]++;
}

TEST(many_short_rounds) {
    for (int n_threads = 2; n_threads <= 8; n_threads += 3) {
        EsThreadPool *pool = NULL;
        int count[16] = {0};
        REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
        for (int round = 0; round < 2000; round++) {
            int n_pieces = 2 + round % 15;
            es_thread_pool_run(pool, n_pieces, count_piece, count);
        }
        es_thread_pool_destroy(pool);
        for (int piece = 0; piece < 16; piece++) {
            int expected = 0;
            for (int round = 0; round < 2000; round++) {
                expected += piece < 2 + round % 15;
            }
            EXPECT_EQ(count[piece], expected);
        }
    }
}

static void finish_late(void *context, int64_t piece, int worker) {
    (void)worker;
    // the caller's own piece is likely the first and ends at once; each further one ends later
    struct timespec pause = {0, (long)piece * 4000000};
    nanosleep(&pause, NULL);
    atomic_store(&((_Atomic int *)context)[piece], 1);
}

TEST(returns_after_the_slowest_piece) {
    for (int n_threads = 2; n_threads <= 8; n_threads += 2) {
        EsThreadPool *pool = NULL;
        REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
        for (int round = 0; round < 3; round++) {
            _Atomic int is_done[8] = {0};
            es_thread_pool_run(pool, n_threads, finish_late, is_done);
            int n_done = 0;
            for (int piece = 0; piece < n_threads; piece++) {
                n_done += atomic_load(&is_done[piece]);
            }
            EXPECT_EQ(n_done, n_threads);
        }
        es_thread_pool_destroy(pool);
    }
}

TEST(rounds_after_the_workers_sleep) {
    EsThreadPool *pool = NULL;
    int count[4] = {0};
    REQUIRE_OK(es_thread_pool_create(&pool, 4));
    for (int round = 0; round < 20; round++) {
        struct timespec pause = {0, 3000000};
        nanosleep(&pause, NULL);
        es_thread_pool_run(pool, 4, count_piece, count);
    }
    es_thread_pool_destroy(pool);
    for (int piece = 0; piece < 4; piece++) {
        EXPECT_EQ(count[piece], 20);
    }
}

TEST(creates_and_destroys_quickly) {
    for (int i = 0; i < 200; i++) {
        EsThreadPool *pool = NULL;
        REQUIRE_OK(es_thread_pool_create(&pool, 1 + i % 8));
        if (i % 2 == 0) {
            int count[8] = {0};
            es_thread_pool_run(pool, 8, count_piece, count);
            EXPECT_EQ(count[0] + count[7], 2);
        }
        es_thread_pool_destroy(pool);
    }
    es_thread_pool_destroy(NULL);
}

static void *use_own_pool(void *context) {
    int *count = context;
    EsThreadPool *pool = NULL;
    REQUIRE_OK(es_thread_pool_create(&pool, 3));
    for (int round = 0; round < 300; round++) {
        es_thread_pool_run(pool, 6, count_piece, count);
    }
    es_thread_pool_destroy(pool);
    return NULL;
}

TEST(pools_are_independent) {
    pthread_t threads[3];
    int count[3][6] = {{0}};
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, use_own_pool, count[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        for (int piece = 0; piece < 6; piece++) {
            EXPECT_EQ(count[i][piece], 300);
        }
    }
}

TEST(checks_the_thread_count) {
    EsThreadPool *pool = NULL;
    EXPECT_STATUS(es_thread_pool_create(&pool, -1), ARGUMENT);
    EXPECT_STATUS(es_thread_pool_create(&pool, 1025), ARGUMENT);
    EXPECT(pool == NULL);
    EXPECT_TEXT(es_status_detail(), "thread count 1025 is outside 0..1024");
    REQUIRE_OK(es_thread_pool_create(&pool, 0));
    EXPECT_EQ(es_thread_pool_size(pool), es_processor_count());
    EXPECT(es_processor_count() >= 1);
    es_thread_pool_destroy(pool);
}

// --- a worker that does not look in ---

static sem_t is_held, may_go;

static void hold_thread(int signal) {
    (void)signal;
    sem_post(&is_held);
    while (sem_wait(&may_go) != 0) {
    }
}

typedef struct Identified {
    _Atomic int n_started;
    pthread_t thread[2];
} Identified;

// Two pieces at the same time, so that both threads of the pool have one.
static void identify(void *context, int64_t piece, int worker) {
    Identified *identified = context;
    (void)piece;
    identified->thread[worker] = pthread_self();
    atomic_fetch_add(&identified->n_started, 1);
    while (atomic_load(&identified->n_started) < 2) {
    }
}

TEST(a_call_does_not_wait_for_a_worker_that_another_process_keeps_off) {
    EsThreadPool *pool = NULL;
    Identified identified = {0};
    int count[8] = {0};
    struct sigaction action = {.sa_handler = hold_thread}, before;
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    EXPECT_EQ(sem_init(&is_held, 0, 0), 0);
    EXPECT_EQ(sem_init(&may_go, 0, 0), 0);
    EXPECT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    es_thread_pool_run(pool, 2, identify, &identified);
    EXPECT_EQ(pthread_kill(identified.thread[1], SIGUSR1), 0);
    while (sem_wait(&is_held) != 0) {
    }
    for (int round = 0; round < 100; round++) {
        es_thread_pool_run(pool, 8, count_piece, count);
    }
    sem_post(&may_go);
    es_thread_pool_run(pool, 8, count_piece, count);
    for (int piece = 0; piece < 8; piece++) {
        EXPECT_EQ(count[piece], 101);
    }
    es_thread_pool_destroy(pool);
    EXPECT_EQ(sigaction(SIGUSR1, &before, NULL), 0);
}

// --- workers that are kept off their core ---

typedef struct Stall {
    _Atomic int n_by_worker[2]; // pieces run by the caller, and by the worker
} Stall;

// The caller's pieces end at once; the worker's takes as if another process had its core.
static void stall_worker(void *context, int64_t piece, int worker) {
    Stall *stall = context;
    (void)piece;
    atomic_fetch_add(&stall->n_by_worker[worker], 1);
    if (worker == 1) {
        nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
    } else if (piece == 0) {
        // the others are left to the worker until it has begun
        for (int i = 0; i < 1000 && atomic_load(&stall->n_by_worker[1]) == 0; i++) {
            nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        }
    }
}

static void count_worker(void *context, int64_t piece, int worker) {
    Stall *stall = context;
    (void)piece;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    atomic_fetch_add(&stall->n_by_worker[worker], 1);
}

// Computes for 2 ms on a worker, and for a moment on the caller.
static void compute_unevenly(void *context, int64_t piece, int worker) {
    Stall *stall = context;
    (void)piece;
    atomic_fetch_add(&stall->n_by_worker[worker], 1);
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (worker == 1 && now.tv_sec == start.tv_sec && now.tv_nsec - start.tv_nsec < 2000000);
    if (worker == 0) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

// Of twenty calls with a long piece on the worker, those that it got one of, and whose next call it
// shared.
static int count_shared(void) {
    EsThreadPool *pool = NULL;
    int n_shared = 0;
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    for (int round = 0; round < 20; round++) {
        Stall first = {0}, second = {0};
        es_thread_pool_run(pool, 4, compute_unevenly, &first);
        es_thread_pool_run(pool, 16, count_worker, &second);
        n_shared += first.n_by_worker[1] > 0 && second.n_by_worker[1] > 0;
    }
    es_thread_pool_destroy(pool);
    return n_shared;
}

// A worker that computes for long is no stall: later calls are shared. On two free cores 19 or 20
// of 20 are, and at most 3 where every long piece counts as a stall; other processes on the cores
// make real stalls (beside two that spin 0 to 4 are shared): the best of some trials counts.
TEST(a_long_piece_is_no_stall) {
    int best = 0;
    for (int trial = 0; trial < 60 && best < 10; trial++) {
        best = ES_MAX(best, count_shared());
    }
    EXPECT(best >= 10);
}

// A call of many pieces that begins alone is shared when that time is over.
TEST(a_long_call_is_not_alone_to_its_end) {
    EsThreadPool *pool = NULL;
    int n_shared = 0;
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    for (int round = 0; round < 4; round++) {
        Stall first = {0}, second = {0};
        es_thread_pool_run(pool, 8, stall_worker, &first);
        es_thread_pool_run(pool, 4000, count_worker, &second); // 0.4 s alone
        EXPECT_EQ(second.n_by_worker[0] + second.n_by_worker[1], 4000);
        n_shared += second.n_by_worker[1] > 0;
    }
    es_thread_pool_destroy(pool);
    EXPECT(n_shared > 0);
}

// Behind a stall calls are the caller's alone, and later ones are shared again.
TEST(a_stalled_call_is_followed_by_calls_alone) {
    EsThreadPool *pool = NULL;
    int n_alone = 0, n_shared = 0;
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    for (int round = 0; round < 8; round++) {
        Stall first = {0}, second = {0}, third = {0};
        es_thread_pool_run(pool, 8, stall_worker, &first);
        es_thread_pool_run(pool, 4, count_worker, &second); // less than 2 ms
        EXPECT_EQ(second.n_by_worker[0] + second.n_by_worker[1], 4);
        n_alone += first.n_by_worker[1] > 0 && second.n_by_worker[1] == 0;
        // the longest time alone is 256 ms
        nanosleep(&(struct timespec){.tv_nsec = 260000000}, NULL);
        es_thread_pool_run(pool, 16, count_worker, &third);
        n_shared += third.n_by_worker[1] > 0;
    }
    es_thread_pool_destroy(pool);
    // a machine that is busy itself may hide one or the other, not always
    EXPECT(n_alone > 0);
    EXPECT(n_shared > 0);
}
