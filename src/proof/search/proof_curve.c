// Every query is one piece of work for the pool and writes into its own place; the sorted list of
// expansions needed then answers every budget.
#include "proof/search/proof_curve.h"

#include <math.h>
#include <stdlib.h>

#include "base/first_error.h"
#include "base/memory.h"
#include "base/statistics.h"

typedef struct Worker {
    EsProofSearch *search;    // owned
    EsFirstError first_error; // of a search; none follows it
} Worker;

typedef struct Work {
    const EsAtom *queries;
    int query_cells; // of the graph
    Worker *workers; // one per thread; owned
    int n_workers;
    EsProofCurve *curve;
} Work;

static void search_one(void *context, int64_t piece, int worker_index) {
    Work *work = context;
    Worker *worker = &work->workers[worker_index];
    EsProofAnswer answer;
    if (worker->first_error.status != ES_STATUS_OK) {
        return;
    }
    const EsAtom *query = work->queries + piece * work->query_cells;
    es_first_error_capture(&worker->first_error,
                           es_proof_search_find(worker->search, query, &answer));
    work->curve->expanded[piece] = answer.n_expanded;
    work->curve->depth[piece] = answer.depth;
}

static int compare_counts(const void *left, const void *right) {
    int64_t x = *(const int64_t *)left, y = *(const int64_t *)right;
    return (x > y) - (x < y);
}

static void sort_needed(EsProofCurve *curve) {
    for (int32_t i = 0; i < curve->n_queries; i++) {
        if (curve->depth[i] > 0) {
            curve->needed[curve->n_proved++] = curve->expanded[i];
        }
    }
    qsort(curve->needed, (size_t)curve->n_proved, sizeof *curve->needed, compare_counts);
}

static EsStatus create_curve(int32_t count, EsProofCurve **curve_out) {
    EsProofCurve *curve = NULL;
    EsStatus status = ES_STATUS_OK;
    size_t n = (size_t)ES_MAX(count, 1);
    ES_TRY(es_allocate(sizeof *curve, (void **)&curve));
    curve->n_queries = count;
    ES_TRY_GOTO(es_allocate(n * sizeof *curve->expanded, (void **)&curve->expanded));
    ES_TRY_GOTO(es_allocate(n * sizeof *curve->depth, (void **)&curve->depth));
    ES_TRY_GOTO(es_allocate(n * sizeof *curve->needed, (void **)&curve->needed));
done:
    if (status != ES_STATUS_OK) {
        es_proof_curve_destroy(curve);
        curve = NULL;
    }
    *curve_out = curve;
    return status;
}

static EsStatus run_searches(Work *work, EsThreadPool *pool) {
    es_thread_pool_run(pool, work->curve->n_queries, search_one, work);
    for (int w = 0; w < work->n_workers; w++) {
        ES_TRY(es_first_error_rethrow(&work->workers[w].first_error));
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_curve_create(const EsKnowledgeGraph *graph, const EsProofSearchSettings *settings,
                               const EsProofGuide *guides, EsThreadPool *pool,
                               const EsAtom *queries, int32_t count, EsProofCurve **curve_out) {
    Work work = {.queries = queries,
                 .query_cells = graph->query_cells,
                 .n_workers = es_thread_pool_size(pool)};
    EsStatus status = ES_STATUS_OK;
    size_t n_workers = (size_t)work.n_workers;
    *curve_out = NULL;
    ES_TRY_GOTO(create_curve(count, &work.curve));
    ES_TRY_GOTO(es_allocate(n_workers * sizeof *work.workers, (void **)&work.workers));
    for (int w = 0; w < work.n_workers; w++) {
        ES_TRY_GOTO(es_proof_search_create(graph, settings, guides != NULL ? &guides[w] : NULL,
                                           &work.workers[w].search));
    }
    ES_TRY_GOTO(run_searches(&work, pool));
    sort_needed(work.curve);
    *curve_out = work.curve;
done:
    for (int w = 0; work.workers != NULL && w < work.n_workers; w++) {
        es_proof_search_destroy(work.workers[w].search);
    }
    es_release(work.workers);
    if (status != ES_STATUS_OK) {
        es_proof_curve_destroy(work.curve);
    }
    return status;
}

void es_proof_curve_destroy(EsProofCurve *curve) {
    if (curve != NULL) {
        es_release(curve->expanded);
        es_release(curve->depth);
        es_release(curve->needed);
        es_release(curve);
    }
}

int32_t es_proof_curve_proofs(const EsProofCurve *curve, int64_t budget) {
    int32_t n_proofs = 0;
    while (n_proofs < curve->n_proved && curve->needed[n_proofs] <= budget) {
        n_proofs++;
    }
    return n_proofs;
}

int64_t es_proof_curve_budget(const EsProofCurve *curve, int32_t n_proofs) {
    ES_ASSERT(n_proofs >= 1);
    return n_proofs <= curve->n_proved ? curve->needed[n_proofs - 1] : -1;
}

int64_t es_proof_curve_spent(const EsProofCurve *curve, int64_t budget) {
    int64_t n_spent = 0;
    for (int32_t i = 0; i < curve->n_queries; i++) {
        n_spent += ES_MIN(curve->expanded[i], budget);
    }
    return n_spent;
}

EsProofTally es_proof_curve_tally(const EsProofCurve *curve, const int32_t *depths, int32_t lowest,
                                  int32_t highest, int64_t budget) {
    EsProofTally tally = {.low = NAN, .high = NAN};
    for (int32_t i = 0; i < curve->n_queries; i++) {
        if (depths[i] >= lowest && depths[i] <= highest) {
            tally.n_queries++;
            tally.n_proved += curve->depth[i] > 0 && curve->expanded[i] <= budget;
            tally.n_expanded += ES_MIN(curve->expanded[i], budget);
        }
    }
    if (tally.n_queries > 0) {
        es_wilson_interval(tally.n_proved, tally.n_queries, &tally.low, &tally.high);
    }
    return tally;
}
