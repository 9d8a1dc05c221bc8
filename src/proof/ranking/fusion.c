// The fit is a search over a grid: first one set of weights for all predicates, then, for each
// predicate with enough questions, a set of its own, chosen on one half of its questions and tried
// on the other, both ways.
//
// A call gathers evidence for its candidates, depths and log-probabilities from the proofs, ratios
// from the embedding, and weighs it. The fit gathers the same evidence for many queries at once,
// each in a fixed stretch of the arrays, closes the gaps, and leaves the rest to the grid.
#include "proof/ranking/fusion.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/first_error.h"
#include "base/memory.h"

// fewer questions than this say nothing of a predicate
#define MIN_QUESTIONS 20

// the grid: gain of a proof of one step over none, cost of each further step, weight of
// log-probabilities, all in units of w
static const float gains[] = {0, 0.125f, 0.25f, 0.5f, 0.75f, 1, 1.5f, 2, 3, 4, 6, 8, 12, 16, 32};
static const float step_costs[] = {0, 0.125f, 0.25f, 0.5f, 1, 2, 4};
static const float log_weights[] = {0, 0.125f, 0.25f, 0.5f, 1, 2, 4};

EsFusionWeights es_fusion_defaults(void) {
    return (EsFusionWeights){.embedding = 2.0f, .bonus = 1.0f, .penalty = 0.5f};
}

EsStatus es_fusion_create(const EsKnowledgeGraph *graph, EsFusionWeights weights,
                          EsFusion **fusion) {
    *fusion = NULL;
    if (!(weights.embedding > 0) || !isfinite(weights.embedding) || !isfinite(weights.bonus) ||
        !isfinite(weights.penalty) || !isfinite(weights.per_step) ||
        !isfinite(weights.log_probability)) {
        return ES_FAIL(ARGUMENT,
                       "fusion: embedding %g, bonus %g, penalty %g, per step %g, log-probability "
                       "%g: all must be finite, the first above 0",
                       (double)weights.embedding, (double)weights.bonus, (double)weights.penalty,
                       (double)weights.per_step, (double)weights.log_probability);
    }
    size_t n_rows = (size_t)graph->n_predicates + 1;
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsFusion), &memory));
    EsFusion *made = memory;
    EsStatus status = ES_STATUS_OK;
    made->overall = weights;
    made->n_predicates = graph->n_predicates;
    ES_TRY_GOTO(es_allocate(n_rows * sizeof(EsFusionWeights), &memory));
    made->of_predicate = memory;
    ES_TRY_GOTO(es_allocate(n_rows, &memory));
    made->has_own = memory;
    for (size_t p = 0; p < n_rows; p++) {
        made->of_predicate[p] = weights;
    }
    *fusion = made;
    made = NULL;
done:
    es_fusion_destroy(made);
    return status;
}

void es_fusion_destroy(EsFusion *fusion) {
    if (fusion != NULL) {
        es_release(fusion->of_predicate);
        es_release(fusion->has_own);
        es_release(fusion);
    }
}

// --- scores ---

static double score_one(const EsFusionWeights *weights, const EsFusionEvidence *evidence,
                        int64_t i) {
    double score = (double)weights->embedding * (double)evidence->log_embedding[i];
    if (evidence->depth[i] < 0) {
        return score - (double)weights->penalty;
    }
    score += (double)weights->bonus;
    score -= (double)weights->per_step * ES_MAX(evidence->depth[i] - 1, 0);
    if (evidence->log_probability != NULL) {
        score += (double)weights->log_probability * (double)evidence->log_probability[i];
    }
    return score;
}

void es_fusion_score(const EsFusion *fusion, int32_t predicate, const EsFusionEvidence *evidence,
                     int32_t count, double *score) {
    ES_ASSERT(predicate >= 1 && predicate <= fusion->n_predicates);
    for (int32_t i = 0; i < count; i++) {
        score[i] = score_one(&fusion->of_predicate[predicate], evidence, i);
    }
}

// --- the fit ---

// The expected reciprocal rank of a question's first candidate, ties in random order.
static double reciprocal_rank(const EsFusionWeights *weights, const EsFusionQuestions *questions,
                              int32_t question) {
    int64_t begin = questions->first[question], end = questions->first[question + 1];
    double own = score_one(weights, &questions->evidence, begin);
    int32_t n_better = 0, n_equal = 0;
    for (int64_t i = begin + 1; i < end; i++) {
        double other = score_one(weights, &questions->evidence, i);
        n_better += other > own;
        n_equal += other == own;
    }
    return es_expected_reciprocal(n_better, n_equal);
}

// Some of the questions: `count` of a list, from `begin` in steps of `step`.
typedef struct Subset {
    const EsFusionQuestions *questions;
    const int32_t *list;
    int32_t count, begin, step;
} Subset;

static double sum_ranks(const EsFusionWeights *weights, const Subset *subset) {
    double sum = 0;
    for (int32_t i = subset->begin; i < subset->count; i += subset->step) {
        sum += reciprocal_rank(weights, subset->questions, subset->list[i]);
    }
    return sum;
}

// The best weights of the grid; of equals the first, whose proofs weigh least.
static EsFusionWeights choose_weights(EsFusionWeights start, const Subset *subset) {
    size_t n_logs =
        subset->questions->evidence.log_probability != NULL ? ES_COUNT_OF(log_weights) : 1;
    EsFusionWeights best = start;
    double best_sum = -1;
    for (size_t g = 0; g < ES_COUNT_OF(gains); g++) {
        for (size_t s = 0; s < ES_COUNT_OF(step_costs); s++) {
            for (size_t l = 0; l < n_logs; l++) {
                EsFusionWeights weights = start;
                weights.bonus = start.embedding * gains[g] - start.penalty;
                weights.per_step = start.embedding * step_costs[s];
                weights.log_probability = start.embedding * log_weights[l];
                double sum = sum_ranks(&weights, subset);
                if (sum > best_sum) {
                    best_sum = sum;
                    best = weights;
                }
            }
        }
    }
    return best;
}

// Returns whether weights chosen on one half of a predicate's questions serve the other half.
static int holds_up(EsFusionWeights overall, Subset subset) {
    double gained = 0;
    subset.step = 2;
    for (int32_t half = 0; half < 2; half++) {
        Subset chosen_on = subset, tried_on = subset;
        chosen_on.begin = half;
        tried_on.begin = 1 - half;
        EsFusionWeights own = choose_weights(overall, &chosen_on);
        double gain = sum_ranks(&own, &tried_on) - sum_ranks(&overall, &tried_on);
        if (gain < 0) {
            return 0;
        }
        gained += gain;
    }
    return gained > 0;
}

static double mean_after(const EsFusion *fusion, const EsFusionQuestions *questions) {
    double sum = 0;
    for (int32_t i = 0; i < questions->count; i++) {
        sum += reciprocal_rank(&fusion->of_predicate[questions->predicate[i]], questions, i);
    }
    return sum / questions->count;
}

EsStatus es_fusion_fit(EsFusion *fusion, const EsFusionQuestions *questions,
                       EsFusionReport *report) {
    memset(report, 0, sizeof *report);
    if (questions->count < 1) {
        return ES_FAIL(ARGUMENT, "fusion: no questions to fit the weights on");
    }
    void *memory = NULL;
    ES_TRY(es_allocate((size_t)questions->count * sizeof(int32_t), &memory));
    int32_t *list = memory;
    for (int32_t i = 0; i < questions->count; i++) {
        list[i] = i;
    }
    Subset all = {questions, list, questions->count, 0, 1};
    const EsFusionWeights embedding = {.embedding = 1};
    report->mrr_embedding = sum_ranks(&embedding, &all) / questions->count;
    report->mrr_before = mean_after(fusion, questions);
    fusion->overall = choose_weights(fusion->overall, &all);
    report->mrr_overall = sum_ranks(&fusion->overall, &all) / questions->count;
    for (int32_t p = 1; p <= fusion->n_predicates; p++) {
        Subset own = {questions, list, 0, 0, 1};
        for (int32_t i = 0; i < questions->count; i++) {
            if (questions->predicate[i] == p) {
                list[own.count++] = i;
            }
        }
        fusion->has_own[p] = own.count >= MIN_QUESTIONS && holds_up(fusion->overall, own);
        fusion->of_predicate[p] =
            fusion->has_own[p] ? choose_weights(fusion->overall, &own) : fusion->overall;
        report->n_own += fusion->has_own[p];
    }
    report->mrr_after = mean_after(fusion, questions);
    es_release(memory);
    return ES_STATUS_OK;
}

// --- candidates of a ranking ---

// Scratch of one thread: the evidence about the candidates of one call.
typedef struct Worker {
    float *log_embedding;   // (max_candidates)
    float *log_probability; // (max_candidates)
    int32_t *depth;         // (max_candidates)
    double *fused;          // (max_candidates)
} Worker;

struct EsFusionScorer {
    const EsEmbeddingModel *model; // borrowed
    EsFusion *fusion;              // borrowed
    EsFusionProofs proofs;
    int32_t max_candidates;
    int n_workers;
    Worker *workers; // owned
};

static EsStatus make_worker(Worker *worker, size_t max_candidates) {
    const struct {
        void **at;
        size_t bytes;
    } members[] = {
        {(void **)&worker->log_embedding, sizeof *worker->log_embedding},
        {(void **)&worker->depth, sizeof *worker->depth},
        {(void **)&worker->log_probability, sizeof *worker->log_probability},
        {(void **)&worker->fused, sizeof *worker->fused},
    };
    for (size_t i = 0; i < ES_COUNT_OF(members); i++) {
        ES_TRY(es_allocate(max_candidates * members[i].bytes, members[i].at));
    }
    return ES_STATUS_OK;
}

int32_t es_fusion_scorer_candidates_of(const EsKnownAtoms *known,
                                       const EsRankingSettings *settings) {
    int32_t most = es_corruptions_capacity(known);
    if (settings->n_corruptions > 0) {
        most = ES_MIN(most, settings->n_corruptions);
    }
    return 1 + ES_N_CORRUPT_SIDES * most;
}

EsStatus es_fusion_scorer_create(const EsEmbeddingModel *model, EsFusion *fusion,
                                 const EsFusionProofs *proofs, int n_workers,
                                 int32_t max_candidates, EsFusionScorer **scorer) {
    *scorer = NULL;
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsFusionScorer), &memory));
    EsFusionScorer *made = memory;
    *made = (EsFusionScorer){.model = model, .fusion = fusion, .proofs = *proofs};
    made->max_candidates = max_candidates;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate((size_t)n_workers * sizeof(Worker), &memory));
    made->workers = memory;
    made->n_workers = n_workers;
    for (int w = 0; w < n_workers; w++) {
        ES_TRY_GOTO(make_worker(&made->workers[w], (size_t)max_candidates));
    }
    *scorer = made;
    made = NULL;
done:
    es_fusion_scorer_destroy(made);
    return status;
}

void es_fusion_scorer_destroy(EsFusionScorer *scorer) {
    if (scorer == NULL) {
        return;
    }
    for (int w = 0; w < scorer->n_workers; w++) {
        Worker *worker = &scorer->workers[w];
        es_release(worker->log_embedding);
        es_release(worker->depth);
        es_release(worker->log_probability);
        es_release(worker->fused);
    }
    es_release(scorer->workers);
    es_release(scorer);
}

// --- evidence ---

EsStatus es_fusion_scorer_gather(EsFusionScorer *scorer, int worker_index, const EsAtom *candidates,
                                 int32_t count, EsCandidateScore *scores,
                                 EsFusionEvidence *evidence) {
    Worker *worker = &scorer->workers[worker_index];
    const EsCandidateScorer *proofs = &scorer->proofs.scorer;
    ES_ASSERT(count >= 1 && count <= scorer->max_candidates);
    if (proofs->score != NULL) {
        ES_TRY(proofs->score(proofs->context, worker_index, candidates, count, scores));
    }
    for (int32_t i = 0; i < count; i++) {
        if (proofs->score == NULL) {
            scores[i] = (EsCandidateScore){.depth = ES_KG_DEPTH_NONE};
        }
        worker->depth[i] = scores[i].depth;
        worker->log_probability[i] = (float)scores[i].score;
    }
    worker->log_embedding[0] = 0;
    for (int32_t i = 1, end; i < count; i = end) {
        int is_head = candidates[i].a != candidates[0].a;
        for (end = i + 1; end < count && (candidates[end].a != candidates[0].a) == is_head; end++) {
        }
        es_embedding_model_ratios(scorer->model, is_head ? ES_CORRUPT_HEAD : ES_CORRUPT_TAIL,
                                  candidates[0], candidates + i, end - i,
                                  worker->log_embedding + i);
    }
    *evidence =
        (EsFusionEvidence){worker->log_embedding, worker->depth,
                           scorer->proofs.gives_probability ? worker->log_probability : NULL};
    return ES_STATUS_OK;
}

static EsStatus score_candidates(void *context, int worker_index, const EsAtom *candidates,
                                 int32_t count, EsCandidateScore *scores) {
    EsFusionScorer *scorer = context;
    Worker *worker = &scorer->workers[worker_index];
    EsFusionEvidence evidence;
    ES_TRY(es_fusion_scorer_gather(scorer, worker_index, candidates, count, scores, &evidence));
    es_fusion_score(scorer->fusion, candidates[0].predicate, &evidence, count, worker->fused);
    for (int32_t i = 0; i < count; i++) {
        scores[i].score = worker->fused[i];
    }
    return ES_STATUS_OK;
}

EsCandidateScorer es_fusion_scorer_candidates(EsFusionScorer *scorer) {
    EsCandidateScorer candidates = {.context = scorer, .score = score_candidates};
    return candidates;
}

// --- the fit: evidence of many queries at once ---

// Scratch of one thread, and why it stopped.
typedef struct Collector {
    EsAtom *atoms;            // the query and its corruptions                    (max_candidates)
    EsCandidateScore *scores; //                                                  (max_candidates)
    EsFirstError first_error;
} Collector;

// Question ES_N_CORRUPT_SIDES i + side is query i on that side: its candidates have `stride` places
// from question * stride on and take n_used of them, 0 where the query has no corruption.
typedef struct Collection {
    EsFusionScorer *scorer;
    const EsKnownAtoms *known;
    const EsRankingSettings *settings;
    const EsAtom *queries;
    int32_t n_questions, stride;
    int32_t *n_used, *predicate;            // (n_questions)
    int32_t *first;                         // (n_questions + 1)
    float *log_embedding, *log_probability; // (n_questions x stride)
    int32_t *depth;                         // (n_questions x stride)
    Collector *workers;
    int n_workers;
    atomic_int n_done; // queries
} Collection;

static EsStatus make_collector(Collector *worker, int32_t max_candidates) {
    ES_TRY(es_allocate((size_t)max_candidates * sizeof(EsAtom), (void **)&worker->atoms));
    return es_allocate((size_t)max_candidates * sizeof(EsCandidateScore), (void **)&worker->scores);
}

static EsStatus make_collection(Collection *c, int32_t max_candidates) {
    size_t n = (size_t)c->n_questions, n_all = n * (size_t)c->stride;
    if (n_all > INT32_MAX) {
        return ES_FAIL(ARGUMENT, "fusion: %d questions of up to %d candidates are too many to fit",
                       c->n_questions, c->stride);
    }
    ES_TRY(es_allocate(ES_MAX(n, 1) * sizeof(int32_t), (void **)&c->n_used));
    ES_TRY(es_allocate(ES_MAX(n, 1) * sizeof(int32_t), (void **)&c->predicate));
    ES_TRY(es_allocate((n + 1) * sizeof(int32_t), (void **)&c->first));
    ES_TRY(es_allocate(ES_MAX(n_all, 1) * sizeof(float), (void **)&c->log_embedding));
    ES_TRY(es_allocate(ES_MAX(n_all, 1) * sizeof(float), (void **)&c->log_probability));
    ES_TRY(es_allocate(ES_MAX(n_all, 1) * sizeof(int32_t), (void **)&c->depth));
    ES_TRY(es_allocate((size_t)c->n_workers * sizeof(Collector), (void **)&c->workers));
    for (int w = 0; w < c->n_workers; w++) {
        ES_TRY(make_collector(&c->workers[w], max_candidates));
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
    Collector *worker = &c->workers[worker_index];
    const EsRankingSettings *settings = c->settings;
    int32_t n_side[ES_N_CORRUPT_SIDES] = {0}, count = 1;
    worker->atoms[0] = c->queries[number * es_known_atoms_graph(c->known)->query_cells];
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        if (settings->uses_side[side]) {
            n_side[side] =
                es_corruptions_list(c->known, &settings->corruptions, worker->atoms, side,
                                    settings->n_corruptions, worker->atoms + count);
            count += n_side[side];
        }
    }
    EsFusionEvidence evidence;
    ES_TRY(es_fusion_scorer_gather(c->scorer, worker_index, worker->atoms, count, worker->scores,
                                   &evidence));
    int32_t from = 1;
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        int64_t question = ES_N_CORRUPT_SIDES * number + side, to = question * c->stride;
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
    Collector *worker = &c->workers[worker_index];
    if (worker->first_error.status == ES_STATUS_OK) {
        es_first_error_capture(&worker->first_error, collect_query(c, worker_index, piece));
    }
    int32_t n_done = atomic_fetch_add(&c->n_done, 1) + 1;
    // worker 0 is the calling thread
    if (worker_index == 0 && c->settings->progress != NULL) {
        c->settings->progress(c->settings->progress_context, n_done,
                              c->n_questions / ES_N_CORRUPT_SIDES);
    }
}

// Close the gaps between questions and leave out those without corruptions.
static EsFusionQuestions close_gaps(Collection *c, int gives_probability) {
    int32_t n_kept = 0, end = 0;
    for (int32_t q = 0; q < c->n_questions; q++) {
        int64_t from = (int64_t)q * c->stride;
        if (c->n_used[q] > 0) {
            c->predicate[n_kept] = c->predicate[q];
            c->first[n_kept++] = end;
        }
        // ascending, and never ahead of the place that is read
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
    c.stride = 1 + (max_candidates - 1) / ES_N_CORRUPT_SIDES;
    c.n_workers = es_thread_pool_size(pool);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(make_collection(&c, max_candidates));
    es_thread_pool_run(pool, count, collect_piece, &c);
    for (int w = 0; w < c.n_workers; w++) {
        ES_TRY_GOTO(es_first_error_rethrow(&c.workers[w].first_error));
    }
    EsFusionQuestions questions = close_gaps(&c, scorer->proofs.gives_probability);
    status = es_fusion_fit(scorer->fusion, &questions, report);
done:
    release_collection(&c);
    return status;
}
