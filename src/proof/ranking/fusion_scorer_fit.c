// Evidence of many queries at once, for the fit of a fusion's weights.
#include "base/first_error.h"
#include "base/memory.h"
#include "proof/ranking/fusion_scorer.h"

// Scratch of one thread, and why it stopped.
typedef struct Worker {
    EsAtom *atoms;            // the query and its corruptions                    (max_candidates)
    EsCandidateScore *scores; //                                                  (max_candidates)
    EsFirstError first_error;
} Worker;

// Question ES_N_CORRUPT_SIDES i + side is query i on that side: its candidates have `room` places
// from question * room on and take n_used of them, 0 where the query has no corruption.
typedef struct Collection {
    EsFusionScorer *scorer;
    const EsKnownAtoms *known;
    const EsRankingSettings *settings;
    const EsAtom *queries;
    int32_t n_questions, room;
    int32_t *n_used, *predicate;            // (n_questions)
    int32_t *first;                         // (n_questions + 1)
    float *log_embedding, *log_probability; // (n_questions x room)
    int32_t *depth;                         // (n_questions x room)
    Worker *workers;
    int n_workers;
} Collection;

static EsStatus make_worker(Worker *worker, int32_t max_candidates) {
    ES_TRY(es_allocate((size_t)max_candidates * sizeof(EsAtom), (void **)&worker->atoms));
    return es_allocate((size_t)max_candidates * sizeof(EsCandidateScore), (void **)&worker->scores);
}

static EsStatus make_collection(Collection *c, int32_t max_candidates) {
    size_t n = (size_t)c->n_questions, n_all = n * (size_t)c->room;
    if (n_all > INT32_MAX) {
        return ES_FAIL(ARGUMENT, "fusion: %d questions of up to %d candidates are too many to fit",
                       c->n_questions, c->room);
    }
    ES_TRY(es_allocate(ES_MAX(n, 1) * sizeof(int32_t), (void **)&c->n_used));
    ES_TRY(es_allocate(ES_MAX(n, 1) * sizeof(int32_t), (void **)&c->predicate));
    ES_TRY(es_allocate((n + 1) * sizeof(int32_t), (void **)&c->first));
    ES_TRY(es_allocate(ES_MAX(n_all, 1) * sizeof(float), (void **)&c->log_embedding));
    ES_TRY(es_allocate(ES_MAX(n_all, 1) * sizeof(float), (void **)&c->log_probability));
    ES_TRY(es_allocate(ES_MAX(n_all, 1) * sizeof(int32_t), (void **)&c->depth));
    ES_TRY(es_allocate((size_t)c->n_workers * sizeof(Worker), (void **)&c->workers));
    for (int w = 0; w < c->n_workers; w++) {
        ES_TRY(make_worker(&c->workers[w], max_candidates));
    }
    return ES_STATUS_OK;
}

static void release_collection(Collection *c) {
    for (int w = 0; w < c->n_workers && c->workers != NULL; w++) {
        es_release(c->workers[w].atoms);
        es_release(c->workers[w].scores);
    }
    es_release(c->workers);
    es_release(c->n_used);
    es_release(c->predicate);
    es_release(c->first);
    es_release(c->log_embedding);
    es_release(c->log_probability);
    es_release(c->depth);
}

static void keep(Collection *c, const EsFusionEvidence *evidence, int32_t from, int64_t to) {
    c->log_embedding[to] = evidence->log_embedding[from];
    c->depth[to] = evidence->depth[from];
    if (evidence->log_probability != NULL) {
        c->log_probability[to] = evidence->log_probability[from];
    }
}

static EsStatus collect_query(Collection *c, int worker_index, int64_t number) {
    Worker *worker = &c->workers[worker_index];
    const EsRankingSettings *settings = c->settings;
    int32_t n_side[ES_N_CORRUPT_SIDES] = {0}, count = 1;
    worker->atoms[0] = c->queries[number];
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        if (settings->uses_side[side]) {
            n_side[side] = es_corruptions_list(c->known, &settings->corruptions, worker->atoms[0],
                                               (EsCorruptSide)side, settings->n_corruptions,
                                               worker->atoms + count);
            count += n_side[side];
        }
    }
    EsFusionEvidence evidence;
    ES_TRY(es_fusion_scorer_gather(c->scorer, worker_index, worker->atoms, count, worker->scores,
                                   &evidence));
    int32_t from = 1;
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        int64_t question = ES_N_CORRUPT_SIDES * number + side, to = question * c->room;
        c->predicate[question] = worker->atoms[0].predicate;
        c->n_used[question] = n_side[side] > 0 ? 1 + n_side[side] : 0;
        keep(c, &evidence, 0, to);
        for (int32_t i = 0; i < n_side[side]; i++) {
            keep(c, &evidence, from++, to + 1 + i);
        }
    }
    return ES_STATUS_OK;
}

static void collect_piece(void *context, int64_t piece, int worker_index) {
    Collection *c = context;
    Worker *worker = &c->workers[worker_index];
    if (worker->first_error.status == ES_STATUS_OK) {
        es_first_error_capture(&worker->first_error, collect_query(c, worker_index, piece));
    }
}

// Close the gaps between questions and leave out those without corruptions.
static EsFusionQuestions close_gaps(Collection *c, int gives_probability) {
    int32_t n_kept = 0, end = 0;
    for (int32_t q = 0; q < c->n_questions; q++) {
        int64_t from = (int64_t)q * c->room;
        if (c->n_used[q] > 0) {
            c->predicate[n_kept] = c->predicate[q];
            c->first[n_kept++] = end;
        }
        // ascending, and never ahead of what is read
        for (int32_t i = 0; i < c->n_used[q]; i++, end++) {
            c->log_embedding[end] = c->log_embedding[from + i];
            c->log_probability[end] = c->log_probability[from + i];
            c->depth[end] = c->depth[from + i];
        }
    }
    c->first[n_kept] = end;
    EsFusionEvidence evidence = {c->log_embedding, c->depth,
                                 gives_probability ? c->log_probability : NULL};
    return (EsFusionQuestions){n_kept, c->predicate, c->first, evidence};
}

EsStatus es_fusion_scorer_fit(EsFusionScorer *scorer, const EsKnownAtoms *known,
                              const EsRankingSettings *settings, EsThreadPool *pool,
                              const EsAtom *queries, int32_t count, EsFusionReport *report) {
    ES_ASSERT(count >= 0 && count <= INT32_MAX / ES_N_CORRUPT_SIDES);
    int32_t max_candidates = es_fusion_scorer_candidates_of(known, settings);
    Collection c = {.scorer = scorer, .known = known, .settings = settings, .queries = queries};
    c.n_questions = ES_N_CORRUPT_SIDES * count;
    c.room = 1 + (max_candidates - 1) / ES_N_CORRUPT_SIDES;
    c.n_workers = es_thread_pool_size(pool);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(make_collection(&c, max_candidates));
    es_thread_pool_run(pool, count, collect_piece, &c);
    for (int w = 0; w < c.n_workers; w++) {
        ES_TRY_GOTO(es_first_error_rethrow(&c.workers[w].first_error));
    }
    EsFusionQuestions questions = close_gaps(&c, es_fusion_scorer_gives_probability(scorer));
    status = es_fusion_fit(es_fusion_scorer_weights(scorer), &questions, report);
done:
    release_collection(&c);
    return status;
}
