// A fixed set of worker threads that run numbered pieces of work.
//
// Pieces are not bound to threads, so a piece must not depend on its thread: all results are a
// function of the piece number. Reductions go into per-piece slots that the caller sums in order.
#ifndef ES_BASE_THREAD_POOL_H
#define ES_BASE_THREAD_POOL_H

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

typedef struct EsThreadPool EsThreadPool;

// `piece` in [0, n_pieces); `worker` in [0, n_threads) names the scratch memory the piece may use.
typedef void (*EsPieceFunction)(void *context, int64_t piece, int worker);

// n_threads counts the calling thread; 0 means one per available processor.
EsStatus es_thread_pool_create(EsThreadPool **pool, int n_threads);
void es_thread_pool_destroy(EsThreadPool *pool);

// 1 for NULL.
int es_thread_pool_size(const EsThreadPool *pool);

// Run all pieces and return when the last has ended. The caller works too; without a pool (NULL) it
// runs them alone, in order. Not reentrant: a piece must not call it, and one thread at a time may
// use a pool.
void es_thread_pool_run(EsThreadPool *pool, int64_t n_pieces, EsPieceFunction function,
                        void *context);

// Starts a thread by itself, outside any pool, that nobody waits for: it ends when `work` returns.
// Signals are for the program's other threads. MEMORY when there is none to be had.
EsStatus es_thread_start_detached(void *(*work)(void *context), void *context);

ES_EXTERN_C_END

#endif
