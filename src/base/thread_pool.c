// Workers take pieces from a shared counter. They spin for a moment before they sleep, since the
// next call usually follows within microseconds.
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/memory.h"

// Spins before a worker sleeps: steps follow one another within microseconds, a futex wake-up costs
// tens of them.
#define SPINS_BEFORE_SLEEP 4000

struct EsThreadPool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int n_threads;      // callers included
    int n_spins;        // before a waiting thread gives way; 0 with more threads than processors
    int n_started;      // workers to join
    pthread_t *workers; // owned, n_threads - 1

    // one piece of work at a time; written by es_thread_pool_run before `generation` moves
    EsPieceFunction function;
    void *context;
    int64_t n_pieces;

    // a cache line each: waiting workers read `generation` while working ones count in the others
    _Alignas(ES_ALIGNMENT) _Atomic uint32_t generation; // a new value means new work
    _Alignas(ES_ALIGNMENT) _Atomic int64_t next_piece;
    _Alignas(ES_ALIGNMENT) _Atomic int n_busy; // workers that have not finished this generation
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

static void run_pieces(EsThreadPool *pool, int worker) {
    for (;;) {
        int64_t piece = atomic_fetch_add(&pool->next_piece, 1);
        if (piece >= pool->n_pieces) {
            return;
        }
        pool->function(pool->context, piece, worker);
    }
}

static void wait_for_generation(EsThreadPool *pool, uint32_t seen) {
    for (int i = 0; i < pool->n_spins; i++) {
        if (atomic_load_explicit(&pool->generation, memory_order_acquire) != seen) {
            return;
        }
        pause_briefly();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->generation) == seen) {
        pthread_cond_wait(&pool->wake, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *argument) {
    WorkerStart start = *(WorkerStart *)argument;
    es_release(argument);
    uint32_t seen = 0;
    for (;;) {
        wait_for_generation(start.pool, seen);
        seen = atomic_load(&start.pool->generation);
        if (atomic_load(&start.pool->is_stopping)) {
            return NULL;
        }
        run_pieces(start.pool, start.worker);
        atomic_fetch_sub(&start.pool->n_busy, 1);
    }
}

static void announce(EsThreadPool *pool) {
    // under the lock, so that a worker between its last look and its wait does not miss it
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->generation, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
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
    announce(pool);
    for (int i = 0; i < pool->n_started; i++) {
        pthread_join(pool->workers[i], NULL);
    }
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    es_release(pool->workers);
    es_release(pool);
}

int es_thread_pool_size(const EsThreadPool *pool) { return pool->n_threads; }

void es_thread_pool_run(EsThreadPool *pool, int64_t n_pieces, EsPieceFunction function,
                        void *context) {
    if (pool->n_threads == 1 || n_pieces <= 1) {
        for (int64_t piece = 0; piece < n_pieces; piece++) {
            function(context, piece, 0);
        }
        return;
    }
    pool->function = function;
    pool->context = context;
    pool->n_pieces = n_pieces;
    atomic_store(&pool->next_piece, 0);
    atomic_store(&pool->n_busy, pool->n_started);
    announce(pool);
    run_pieces(pool, 0);
    // a worker still on its last piece: short, unless another process holds its core, so yield
    // after a while
    int n_spins = 0;
    while (atomic_load_explicit(&pool->n_busy, memory_order_acquire) > 0) {
        if (n_spins < pool->n_spins) {
            n_spins++;
            pause_briefly();
        } else {
            sched_yield();
        }
    }
}

int es_processor_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return CPU_COUNT(&set);
    }
    // more processors than the set has bits: all of them, then
    long n_online = sysconf(_SC_NPROCESSORS_ONLN);
    return n_online > 0 ? (int)ES_MIN(n_online, 1024) : 1;
}
