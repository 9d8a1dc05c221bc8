// An epoch is a permutation of 2 n_facts questions, cut into batches; the permutation and the
// sampled candidates are functions of (seed, epoch, step), so that nothing is stored and nothing
// depends on threads. The model that ranked VALID best is a copy beside the one that learns.
//
// C constants, W floats per row.
#include "proof/ranking/embedding_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random_rules.h"
#include "network/graph/initial_rules.h"
#include "proof/ranking/embedding_train_batch.h"
#include "proof/ranking/ranking.h"

// --- how well a model ranks VALID ---

// Each query of the split is ranked on both sides against all constants but those that make a fact
// or another query of VALID; the split TEST is not looked at. Evaluation of a finished model, with
// chosen corruptions and all known atoms, is another matter (ranking.h).
typedef struct Validation {
    const EsKnowledgeGraph *graph; // borrowed
    const EsEmbeddingModel *model; // borrowed during rank_validation
    EsAtom *sorted;                // the whole split, for membership                 (n_sorted)
    int32_t n_sorted, n_queries;
    double *reciprocals; // of each query and side                               (n_queries x 2)
    float *scores;       // of each thread                                       (n_threads x C)
} Validation;

static void destroy_validation(Validation *valid) {
    if (valid != NULL) {
        es_release(valid->sorted);
        es_release(valid->reciprocals);
        es_release(valid->scores);
        es_release(valid);
    }
}

// `count` queries, evenly spaced; 0: all. The graph is borrowed.
static EsStatus create_validation(const EsKnowledgeGraph *graph, int32_t count, int n_threads,
                                  Validation **valid) {
    *valid = NULL;
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_VALID];
    size_t n_all = (size_t)split->count, C = (size_t)graph->n_constants;
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(Validation), &memory));
    Validation *made = memory;
    made->graph = graph;
    made->n_sorted = split->count;
    made->n_queries = count == 0 ? split->count : ES_MIN(count, split->count);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(ES_MAX(n_all, 1) * sizeof(EsAtom), &memory));
    made->sorted = memory;
    ES_TRY_GOTO(es_allocate(ES_MAX(n_all, 1) * 2 * sizeof(double), &memory));
    made->reciprocals = memory;
    ES_TRY_GOTO(es_allocate((size_t)n_threads * ES_MAX(C, 1) * sizeof(float), &memory));
    made->scores = memory;
    if (n_all > 0) {
        memcpy(made->sorted, split->atoms, n_all * sizeof(EsAtom));
        qsort(made->sorted, n_all, sizeof(EsAtom), es_atom_compare);
    }
    *valid = made;
    made = NULL;
done:
    destroy_validation(made);
    return status;
}

static int is_known(const Validation *valid, EsAtom atom) {
    return es_kg_has_fact(valid->graph, atom) ||
           bsearch(&atom, valid->sorted, (size_t)valid->n_sorted, sizeof atom, es_atom_compare) !=
               NULL;
}

// piece = (query, side)
static void rank_query(void *context, int64_t piece, int worker) {
    Validation *valid = context;
    const EsQuerySplit *split = &valid->graph->splits[ES_KG_SPLIT_VALID];
    EsCorruptSide side = piece % 2 == 0 ? ES_CORRUPT_HEAD : ES_CORRUPT_TAIL;
    EsAtom query = split->atoms[piece / 2 * split->count / valid->n_queries];
    int32_t C = valid->graph->n_constants;
    float *score = valid->scores + (size_t)worker * (size_t)C;
    es_embedding_model_score_all(valid->model, side, query, score);
    int32_t answer = side == ES_CORRUPT_HEAD ? query.a : query.b;
    int32_t n_better = 0, n_equal = 0;
    for (int32_t c = 1; c <= C; c++) {
        EsAtom atom = query;
        *(side == ES_CORRUPT_HEAD ? &atom.a : &atom.b) = c;
        if (c != answer && score[c - 1] >= score[answer - 1] && !is_known(valid, atom)) {
            n_better += score[c - 1] > score[answer - 1];
            n_equal += !(score[c - 1] > score[answer - 1]);
        }
    }
    valid->reciprocals[piece] = es_expected_reciprocal(n_better, n_equal);
}

// The mean reciprocal rank, both sides, ties by expectation; NaN without queries. The pool has
// n_threads; the result does not depend on how many.
static double rank_validation(Validation *valid, const EsEmbeddingModel *model,
                              EsThreadPool *pool) {
    if (valid->n_queries == 0) {
        return NAN;
    }
    valid->model = model;
    int64_t n = 2 * (int64_t)valid->n_queries;
    es_thread_pool_run(pool, n, rank_query, valid);
    valid->model = NULL;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += valid->reciprocals[i];
    }
    return sum / (double)n;
}

// more constants than this and a batch is compared with a sample of them
#define ALL_CONSTANTS 8192
#define SAMPLE        2048
#define MAX_BATCH     65536
#define MAX_EPOCHS    1000000

typedef struct Training {
    const EsKnowledgeGraph *graph; // borrowed
    EsEmbeddingSettings settings;
    EsDevice *device; // borrowed
    EsStream *stream;
    EsEmbeddingModel *model, *best;
    EsEmbeddingBatch *batch;
    Validation *valid;
    EsEmbeddingQuestion *questions; // (batch)
    int32_t *candidates;            // NULL: all                                  (n_candidates)
    EsEmbeddingReport report;
    int64_t start_ns;
} Training;

EsEmbeddingSettings es_embedding_defaults(const EsKnowledgeGraph *graph) {
    int is_large = graph->n_constants > ALL_CONSTANTS;
    return (EsEmbeddingSettings){
        .n_dimensions = 64,
        .n_epochs = 40,
        .batch = 500,
        .n_candidates = is_large ? SAMPLE : 0,
        .learning_rate = 0.1f,
        .regularisation = 0.03f,
        .initial_scale = 1e-3f,
        .valid_every = 5,
        .patience = 4,
        .n_valid = 500,
        .seed = 1,
    };
}

static EsStatus check_settings(const EsKnowledgeGraph *graph, const EsEmbeddingSettings *s) {
    if (graph->n_facts < 1) {
        return ES_FAIL(INPUT, "the graph has no facts to learn from");
    }
    const struct {
        const char *name;
        int64_t value, least, most;
    } whole[] = {
        {"epochs", s->n_epochs, 1, MAX_EPOCHS},
        {"batch", s->batch, 1, MAX_BATCH},
        {"candidates", s->n_candidates, 0, graph->n_constants},
        {"valid_every", s->valid_every, 1, MAX_EPOCHS},
        {"patience", s->patience, 1, MAX_EPOCHS},
        {"n_valid", s->n_valid, 0, INT32_MAX},
    };
    for (size_t i = 0; i < ES_COUNT_OF(whole); i++) {
        if (whole[i].value < whole[i].least || whole[i].value > whole[i].most) {
            return ES_FAIL(ARGUMENT, "embedding: %s is %lld, expected %lld to %lld", whole[i].name,
                           (long long)whole[i].value, (long long)whole[i].least,
                           (long long)whole[i].most);
        }
    }
    if (!(s->learning_rate > 0) || !isfinite(s->learning_rate) || !(s->regularisation >= 0) ||
        !isfinite(s->regularisation) || !(s->initial_scale > 0) || !isfinite(s->initial_scale)) {
        return ES_FAIL(ARGUMENT,
                       "embedding: learning rate %g, regularisation %g, initial scale %g: the "
                       "learning rate and "
                       "the scale must be above 0, the regularisation 0 or more",
                       (double)s->learning_rate, (double)s->regularisation,
                       (double)s->initial_scale);
    }
    return ES_STATUS_OK;
}

// --- one epoch ---

static void fill_normal(uint64_t seed, uint32_t table, float scale, float *values, size_t count) {
    EsInitialKey key = {seed, table, ES_PURPOSE_INITIALISATION, 0};
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)((double)scale * es_initial_gaussian(&key, (int64_t)i));
    }
}

// Question q of 2 n_facts: for b of fact q, or for a of fact q - n_facts.
static EsEmbeddingQuestion question_at(const EsKnowledgeGraph *graph, uint32_t q) {
    uint32_t n_facts = (uint32_t)graph->n_facts;
    EsAtom fact = graph->facts[q % n_facts];
    EsEmbeddingQuestion question = {fact.predicate - 1, fact.a, fact.b};
    if (q >= n_facts) {
        question = (EsEmbeddingQuestion){graph->n_predicates + fact.predicate - 1, fact.b, fact.a};
    }
    return question;
}

static void draw_batch(Training *training, uint32_t epoch, uint32_t step, uint32_t first,
                       uint32_t count) {
    const EsEmbeddingSettings *settings = &training->settings;
    uint32_t n_questions = 2 * (uint32_t)training->graph->n_facts;
    EsRandom4 order = es_random_draw(settings->seed, epoch, ES_PURPOSE_DATA_ORDER, 0, 0);
    for (uint32_t i = 0; i < count; i++) {
        training->questions[i] =
            question_at(training->graph, es_random_permute(first + i, n_questions, order));
    }
    // the beginning of a permutation: distinct constants
    EsRandom4 draw = es_random_draw(settings->seed, epoch, ES_PURPOSE_DATA_GENERATION, step, 0);
    for (int32_t k = 0; k < settings->n_candidates; k++) {
        training->candidates[k] =
            1 +
            (int32_t)es_random_permute((uint32_t)k, (uint32_t)training->graph->n_constants, draw);
    }
}

static EsStatus train_epoch(Training *training) {
    const EsEmbeddingSettings *settings = &training->settings;
    uint32_t n_questions = 2 * (uint32_t)training->graph->n_facts;
    uint32_t epoch = (uint32_t)training->report.epoch;
    double sum = 0;
    uint32_t step = 0;
    for (uint32_t first = 0; first < n_questions; first += (uint32_t)settings->batch, step++) {
        uint32_t count = ES_MIN((uint32_t)settings->batch, n_questions - first);
        draw_batch(training, epoch, step, first, count);
        double loss = es_embedding_batch_loss(training->batch, training->questions, (int32_t)count,
                                              training->candidates, settings->regularisation);
        if (!isfinite(loss)) {
            return ES_FAIL(NUMERIC,
                           "the loss of the embedding is no longer finite in epoch %u, step %u; a "
                           "lower learning rate or a higher regularisation may help",
                           epoch + 1, step + 1);
        }
        es_embedding_batch_update(training->batch, settings->learning_rate);
        sum += loss * count;
    }
    training->report.epoch++;
    training->report.loss = sum / n_questions;
    return ES_STATUS_OK;
}

// --- all of it ---

static void copy_numbers(const EsEmbeddingModel *from, EsEmbeddingModel *to) {
    size_t row_bytes = (size_t)from->width * sizeof(float);
    memcpy(to->constants, from->constants, (size_t)from->n_constants * row_bytes);
    memcpy(to->relations, from->relations, 2 * (size_t)from->n_predicates * row_bytes);
}

static EsStatus prepare(Training *training) {
    const EsKnowledgeGraph *graph = training->graph;
    const EsEmbeddingSettings *settings = &training->settings;
    EsEmbeddingBatchSizes sizes = {settings->batch, settings->n_candidates};
    void *memory = NULL;
    ES_TRY(check_settings(graph, settings));
    ES_TRY(es_stream_create(training->device, &training->stream));
    ES_TRY(es_embedding_model_create(graph, settings->n_dimensions, &training->model));
    ES_TRY(es_embedding_model_create(graph, settings->n_dimensions, &training->best));
    ES_TRY(es_embedding_batch_create(training->model, training->stream, sizes, &training->batch));
    ES_TRY(create_validation(graph, settings->n_valid,
                             es_thread_pool_size(es_stream_pool(training->stream)),
                             &training->valid));
    ES_TRY(es_allocate((size_t)settings->batch * sizeof(EsEmbeddingQuestion), &memory));
    training->questions = memory;
    if (settings->n_candidates > 0) {
        ES_TRY(es_allocate((size_t)settings->n_candidates * sizeof(int32_t), &memory));
        training->candidates = memory;
    }
    EsEmbeddingModel *model = training->model;
    size_t W = (size_t)model->width;
    fill_normal(settings->seed, 0, settings->initial_scale, model->constants,
                (size_t)model->n_constants * W);
    fill_normal(settings->seed, 1, settings->initial_scale, model->relations,
                2 * (size_t)model->n_predicates * W);
    training->report.valid_mrr = training->report.best_mrr = NAN;
    training->start_ns = es_clock_ns();
    return ES_STATUS_OK;
}

// Rank when it is time; returns whether patience is at its end.
static int rank_model(Training *training) {
    EsEmbeddingReport *report = &training->report;
    const EsEmbeddingSettings *settings = &training->settings;
    report->is_ranked =
        report->epoch % settings->valid_every == 0 || report->epoch == settings->n_epochs;
    if (!report->is_ranked || training->graph->splits[ES_KG_SPLIT_VALID].count == 0) {
        report->is_ranked = 0;
        return 0;
    }
    report->valid_mrr =
        rank_validation(training->valid, training->model, es_stream_pool(training->stream));
    if (report->best_epoch == 0 || report->valid_mrr > report->best_mrr) {
        report->best_mrr = report->valid_mrr;
        report->best_epoch = report->epoch;
        copy_numbers(training->model, training->best);
    }
    return report->epoch - report->best_epoch >= settings->patience * settings->valid_every;
}

static EsStatus run_epochs(Training *training, EsEmbeddingProgress progress, void *context) {
    EsEmbeddingReport *report = &training->report;
    int is_over = 0;
    while (!is_over && report->epoch < training->settings.n_epochs) {
        ES_TRY(train_epoch(training));
        is_over = rank_model(training);
        report->seconds = es_clock_seconds_since(training->start_ns);
        if (progress != NULL && progress(context, report) != 0) {
            report->is_stopped = 1;
            is_over = 1;
        }
    }
    return es_device_status(training->device);
}

EsStatus es_embedding_model_train(EsDevice *device, const EsKnowledgeGraph *graph,
                                  const EsEmbeddingSettings *settings, EsEmbeddingProgress progress,
                                  void *context, EsEmbeddingReport *report,
                                  EsEmbeddingModel **model) {
    Training training = {.graph = graph, .settings = *settings, .device = device};
    EsEmbeddingModel **chosen = NULL;
    EsStatus status = ES_STATUS_OK;
    *model = NULL;
    ES_TRY_GOTO(prepare(&training));
    ES_TRY_GOTO(run_epochs(&training, progress, context));
    *report = training.report;
    chosen = training.report.best_epoch > 0 ? &training.best : &training.model;
    *model = *chosen;
    *chosen = NULL;
done:
    es_embedding_batch_destroy(training.batch);
    destroy_validation(training.valid);
    es_embedding_model_destroy(training.model);
    es_embedding_model_destroy(training.best);
    es_release(training.questions);
    es_release(training.candidates);
    es_stream_destroy(training.stream);
    return status;
}
