// Threads claim pieces from a shared counter. A call ends with its last piece, even if a worker has
// not looked in: one that another process keeps off its core delays no call. Workers spin for a
// moment before they sleep, since the next call usually follows within microseconds.
//
// A worker may lose its core to another process in the middle of a piece, and the caller waits for
// as long as the scheduler gives to others: milliseconds, for a call of microseconds. A caller that
// meets this goes on alone for a while, and longer each time that it meets it again, so that two
// threads on a busy machine are hardly slower than one.
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"

// Spins before a worker sleeps: steps follow one another within microseconds, a futex wake-up costs
// tens of them.
#define SPINS_BEFORE_SLEEP 4000

// A wait for the last pieces is a stall from this on, if the workers computed for less than half of
// it: a piece that takes long is none.
#define STALL_NS 200000
// Time alone after a stall, with two threads; a share of it with more, which lose more by it. Twice
// that after the stall before, unless calls have been shared for so many times as long without one.
#define ALONE_MIN_NS  2000000
#define ALONE_MAX_NS  256000000
#define FORGET_FACTOR 8

struct EsThreadPool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int n_threads;      // callers included
    int n_spins;        // before a waiting thread gives way; 0 with more threads than processors
    int n_started;      // workers to join
    pthread_t *workers; // owned, n_threads - 1

    // one call at a time; written before `n_unclaimed`, read by threads that hold a piece
    EsPieceFunction function;
    void *context;
    int64_t n_pieces;

    // of the caller alone
    int64_t alone_ns;    // time without workers after the last stall
    int64_t alone_until; // by es_clock_ns

    // a cache line each: waiting workers read the first while working ones count in the second
    _Alignas(ES_ALIGNMENT) _Atomic int64_t n_unclaimed; // above 0: there is work
    _Alignas(ES_ALIGNMENT) _Atomic int64_t n_done;      // pieces of this call that have ended
    _Alignas(ES_ALIGNMENT) _Atomic int n_sleeping;      // changed under the lock
    _Atomic int is_stopping;
};

typedef struct WorkerStart {
    EsThreadPool *pool;
    int worker;
} WorkerStart;

// marks a waiting loop for the core, which leaves more of it to the sibling thread
static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Claim pieces and run them until none is left. A call ends only when its claimed pieces have, so
// function and context are those of the piece, even where the thread came late, from another call.
static void run_pieces(EsThreadPool *pool, int worker) {
    int64_t n = atomic_load_explicit(&pool->n_unclaimed, memory_order_acquire);
    while (n > 0) {
        if (atomic_compare_exchange_weak(&pool->n_unclaimed, &n, n - 1)) {
            pool->function(pool->context, pool->n_pieces - n, worker);
            atomic_fetch_add_explicit(&pool->n_done, 1, memory_order_release);
            n = atomic_load_explicit(&pool->n_unclaimed, memory_order_acquire);
        }
    }
}

static int has_work(EsThreadPool *pool) {
    return atomic_load(&pool->n_unclaimed) > 0 || atomic_load(&pool->is_stopping);
}

static void wait_for_work(EsThreadPool *pool) {
    for (int i = 0; i < pool->n_spins; i++) {
        if (has_work(pool)) {
            return;
        }
        pause_briefly();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_sleeping, 1);
    while (!has_work(pool)) {
        pthread_cond_wait(&pool->wake, &pool->lock);
    }
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *argument) {
    WorkerStart start = *(WorkerStart *)argument;
    es_release(argument);
    while (!atomic_load(&start.pool->is_stopping)) {
        wait_for_work(start.pool);
        run_pieces(start.pool, start.worker);
    }
    return NULL;
}

// Wakes sleeping workers after work was published. One that has counted itself looks again before
// it waits, under the lock, so either it sees the work or it is seen here.
static void wake_workers(EsThreadPool *pool) {
    if (atomic_load(&pool->n_sleeping) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
}

EsStatus es_thread_pool_create(EsThreadPool **pool_out, int n_threads) {
    *pool_out = NULL;
    if (n_threads < 0 || n_threads > 1024) {
        return ES_FAIL(ARGUMENT, "thread count %d is outside 0..1024", n_threads);
    }
    EsThreadPool *pool = NULL;
    ES_TRY(es_allocate(sizeof *pool, (void **)&pool));
    pool->n_threads = n_threads > 0 ? n_threads : es_processor_count();
    pool->n_spins = pool->n_threads <= es_processor_count() ? SPINS_BEFORE_SLEEP : 0;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);

    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(sizeof(pthread_t) * (size_t)pool->n_threads, (void **)&pool->workers));
    for (int i = 1; i < pool->n_threads; i++) {
        WorkerStart *start = NULL;
        ES_TRY_GOTO(es_allocate(sizeof *start, (void **)&start));
        *start = (WorkerStart){pool, i};
        if (pthread_create(&pool->workers[i - 1], NULL, worker_main, start) != 0) {
            es_release(start);
            status = ES_FAIL(MEMORY,
                             "cannot start worker thread %d of %d: not enough memory, or too many "
                             "threads",
                             i + 1, pool->n_threads);
            goto done;
        }
        pool->n_started++;
    }
done:
    if (status != ES_STATUS_OK) {
        es_thread_pool_destroy(pool);
        return status;
    }
    *pool_out = pool;
    return ES_STATUS_OK;
}

void es_thread_pool_destroy(EsThreadPool *pool) {
    if (pool == NULL) {
        return;
    }
    atomic_store(&pool->is_stopping, 1);
    wake_workers(pool);
    for (int i = 0; i < pool->n_started; i++) {
        pthread_join(pool->workers[i], NULL);
    }
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    es_release(pool->workers);
    es_release(pool);
}

int es_thread_pool_size(const EsThreadPool *pool) { return pool != NULL ? pool->n_threads : 1; }

// Processor time of all workers so far.
static int64_t measure_workers_ns(const EsThreadPool *pool) {
    int64_t total_ns = 0;
    for (int i = 0; i < pool->n_started; i++) {
        clockid_t clock;
        struct timespec time = {0};
        if (pthread_getcpuclockid(pool->workers[i], &clock) == 0 &&
            clock_gettime(clock, &time) == 0) {
            total_ns += (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
        }
    }
    return total_ns;
}

// Plans the time alone after a stall in a call that was shared from start_ns on.
static void go_alone(EsThreadPool *pool, int64_t start_ns) {
    int64_t least_ns = ALONE_MIN_NS / (pool->n_threads - 1);
    int64_t most_ns = ALONE_MAX_NS / (pool->n_threads - 1);
    int is_frequent = start_ns - pool->alone_until < FORGET_FACTOR * pool->alone_ns;
    pool->alone_ns = is_frequent ? ES_MIN(2 * pool->alone_ns, most_ns) : least_ns;
    pool->alone_until = es_clock_ns() + pool->alone_ns;
}

static int is_done(const EsThreadPool *pool) {
    return atomic_load_explicit(&pool->n_done, memory_order_acquire) >= pool->n_pieces;
}

// Waits for workers that are still on their last pieces: short, unless another process holds their
// core, so yield after a while.
static void wait_for_pieces(EsThreadPool *pool, int64_t start_ns) {
    for (int i = 0; i < pool->n_spins && !is_done(pool); i++) {
        pause_briefly();
    }
    if (is_done(pool)) {
        return;
    }
    int64_t wait_ns = es_clock_ns(), before_ns = measure_workers_ns(pool);
    while (!is_done(pool)) {
        sched_yield();
    }
    int64_t waited_ns = es_clock_ns() - wait_ns;
    if (waited_ns >= STALL_NS && measure_workers_ns(pool) - before_ns < waited_ns / 2) {
        go_alone(pool, start_ns);
    }
}

void es_thread_pool_run(EsThreadPool *pool, int64_t n_pieces, EsPieceFunction function,
                        void *context) {
    int is_single = es_thread_pool_size(pool) == 1 || n_pieces <= 1;
    int64_t first = 0, now_ns = 0;
    while (first < n_pieces && (is_single || (now_ns = es_clock_ns()) < pool->alone_until)) {
        function(context, first++, 0);
    }
    if (first == n_pieces) {
        return;
    }
    pool->function = function;
    pool->context = context;
    pool->n_pieces = n_pieces;
    atomic_store_explicit(&pool->n_done, first, memory_order_relaxed);
    atomic_store(&pool->n_unclaimed, n_pieces - first);
    wake_workers(pool);
    run_pieces(pool, 0);
    wait_for_pieces(pool, now_ns);
}

EsStatus es_thread_start_detached(void *(*work)(void *context), void *context) {
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, before;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); // Ctrl-C belongs to the program's own threads
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = pthread_create(&thread, &detached, work, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return problem == 0 ? ES_STATUS_OK : ES_FAIL(MEMORY, "no further thread can be started");
}
