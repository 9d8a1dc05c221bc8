// The loss and its gradient, and what training makes of small graphs.
#include "proof/ranking/embedding_train.h"

#include <math.h>

#include "es_test.h"
#include "proof/graph/kinship_graph.h"
#include "proof/graph/knowledge_builder.h"
#include "proof/graph/knowledge_file.h"
#include "proof/ranking/embedding_train_batch.h"
#include "proof/small_graph.h"

static EsKnowledgeGraph *make_village(int32_t n_people) {
    EsKnowledgeGraph *graph = NULL;
    REQUIRE_OK(es_kinship_graph_create(n_people, 1, &graph));
    return graph;
}

static EsEmbeddingSettings quick_settings(const EsKnowledgeGraph *graph) {
    EsEmbeddingSettings settings = es_embedding_defaults(graph);
    settings.n_dimensions = 16;
    settings.n_epochs = 6;
    settings.batch = 64;
    settings.valid_every = 2;
    return settings;
}

static EsDevice *open_cpu(int n_threads) {
    EsDevice *device = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = n_threads}, &device));
    return device;
}

static EsEmbeddingModel *train_with(int n_threads, const EsKnowledgeGraph *graph,
                                    const EsEmbeddingSettings *settings,
                                    EsEmbeddingReport *report) {
    EsEmbeddingModel *model = NULL;
    EsDevice *device = open_cpu(n_threads);
    REQUIRE_OK(es_embedding_model_train(device, graph, settings, NULL, NULL, report, &model));
    es_device_close(device);
    return model;
}

static EsEmbeddingModel *train(const EsKnowledgeGraph *graph, const EsEmbeddingSettings *settings,
                               EsEmbeddingReport *report) {
    return train_with(1, graph, settings, report);
}

static int same_bits(const EsEmbeddingModel *x, const EsEmbeddingModel *y) {
    size_t row_bytes = (size_t)x->width * sizeof(float);
    return memcmp(x->constants, y->constants, (size_t)x->n_constants * row_bytes) == 0 &&
           memcmp(x->relations, y->relations, 2 * (size_t)x->n_predicates * row_bytes) == 0;
}

// --- gradients ---

typedef struct GradientCase {
    EsKnowledgeGraph *graph;
    EsEmbeddingModel *model;
    EsDevice *device;
    EsStream *stream;
    EsEmbeddingBatch *batch;
    const int32_t *candidates;
} GradientCase;

// term and answer alike, repeated constants, both directions, a row that is used twice
static const EsEmbeddingQuestion questions[] = {
    {0, 1, 2}, {0, 1, 3}, {1, 4, 4}, {2, 2, 1}, {3, 4, 5}};
#define N_QUESTIONS 5

static void fill_model(EsEmbeddingModel *model) {
    for (int i = 0; i < model->n_constants * model->width; i++) {
        model->constants[i] = 0.6f * sinf(1.0f + 0.7f * (float)i);
    }
    for (int i = 0; i < 2 * model->n_predicates * model->width; i++) {
        model->relations[i] = 0.6f * cosf(2.0f + 0.9f * (float)i);
    }
}

static GradientCase begin_gradient(int32_t n_candidates, const int32_t *candidates) {
    GradientCase c = {.candidates = candidates};
    EsEmbeddingBatchSizes sizes = {N_QUESTIONS, n_candidates};
    c.graph = make_small_graph("p(a,b) p(b,c) q(c,d) q(d,e) p(e,f) q(f,a)", "", "");
    REQUIRE_OK(es_embedding_model_create(c.graph, 8, &c.model));
    fill_model(c.model);
    c.device = open_cpu(1);
    REQUIRE_OK(es_stream_create(c.device, &c.stream));
    REQUIRE_OK(es_embedding_batch_create(c.model, c.stream, sizes, &c.batch));
    return c;
}

static void end_gradient(GradientCase *c) {
    es_embedding_batch_destroy(c->batch);
    es_stream_destroy(c->stream);
    es_device_close(c->device);
    es_embedding_model_destroy(c->model);
    es_kg_destroy(c->graph);
}

static double plain_score(const EsEmbeddingModel *m, EsEmbeddingQuestion question, int constant) {
    int D = m->n_dimensions, W = m->width;
    const float *x = m->constants + (question.term - 1) * W;
    const float *r = m->relations + question.row * W, *t = m->constants + (constant - 1) * W;
    double score = 0;
    for (int d = 0; d < D; d++) {
        double re = (double)x[d] * (double)r[d] - (double)x[D + d] * (double)r[D + d];
        double im = (double)x[d] * (double)r[D + d] + (double)x[D + d] * (double)r[d];
        score += re * (double)t[d] + im * (double)t[D + d];
    }
    return score;
}

static double cubes(const EsEmbeddingModel *m, const float *vector) {
    double sum = 0;
    for (int d = 0; d < m->n_dimensions; d++) {
        sum += pow(hypot((double)vector[d], (double)vector[m->n_dimensions + d]), 3);
    }
    return sum;
}

// The loss by its definition, in double; candidates NULL: all constants.
static double plain_loss(const GradientCase *c, int32_t n_candidates, double regularisation) {
    const EsEmbeddingModel *m = c->model;
    double total = 0;
    for (int i = 0; i < N_QUESTIONS; i++) {
        EsEmbeddingQuestion question = questions[i];
        double own = plain_score(m, question, question.answer), sum = exp(own);
        double factor = n_candidates > 0 ? (m->n_constants - 1.0) / n_candidates : 1.0;
        for (int k = 0; k < (n_candidates > 0 ? n_candidates : m->n_constants); k++) {
            int constant = n_candidates > 0 ? c->candidates[k] : k + 1;
            if (constant != question.answer) {
                sum += factor * exp(plain_score(m, question, constant));
            }
        }
        total += log(sum) - own;
        total += regularisation * (cubes(m, m->constants + (question.term - 1) * m->width) +
                                   cubes(m, m->relations + question.row * m->width) +
                                   cubes(m, m->constants + (question.answer - 1) * m->width));
    }
    return total / N_QUESTIONS;
}

static void check_differences(GradientCase *c, int32_t n_candidates, double regularisation,
                              float *values, const float *gradient, int count) {
    for (int i = 0; i < count; i++) {
        const float kept = values[i], step = 1e-3f;
        values[i] = kept + step;
        double upper = (double)values[i], above = plain_loss(c, n_candidates, regularisation);
        values[i] = kept - step;
        double lower = (double)values[i], below = plain_loss(c, n_candidates, regularisation);
        values[i] = kept;
        EXPECT_NEAR(gradient[i], (above - below) / (upper - lower), 2e-5);
    }
}

static void check_gradient(int32_t n_candidates, const int32_t *candidates) {
    GradientCase c = begin_gradient(n_candidates, candidates);
    float d_constants[6 * 16], d_relations[4 * 16];
    const float regularisation = 0.2f;
    double loss =
        es_embedding_batch_loss(c.batch, questions, N_QUESTIONS, candidates, regularisation);
    EXPECT_NEAR(loss, plain_loss(&c, n_candidates, (double)regularisation), 1e-5);
    es_embedding_batch_gradient(c.batch, d_constants, d_relations);
    check_differences(&c, n_candidates, (double)regularisation, c.model->constants, d_constants,
                      6 * 16);
    check_differences(&c, n_candidates, (double)regularisation, c.model->relations, d_relations,
                      4 * 16);
    end_gradient(&c);
}

TEST(gradients_against_all_constants) { check_gradient(0, NULL); }

// constant 4 is an answer and a candidate, 6 occurs nowhere else
TEST(gradients_against_a_sample) { check_gradient(3, (const int32_t[]){4, 6, 1}); }

TEST(an_update_is_adagrad) {
    GradientCase c = begin_gradient(0, NULL);
    float d_constants[6 * 16], d_relations[4 * 16], before[4 * 16];
    double squares[4 * 16] = {0};
    for (int step = 0; step < 2; step++) {
        memcpy(before, c.model->relations, sizeof before);
        es_embedding_batch_loss(c.batch, questions, N_QUESTIONS, NULL, 0.1f);
        es_embedding_batch_gradient(c.batch, d_constants, d_relations);
        es_embedding_batch_update(c.batch, 0.05f);
        for (int i = 0; i < 4 * 16; i++) {
            double g = (double)d_relations[i];
            squares[i] += g * g;
            EXPECT_NEAR(c.model->relations[i],
                        (double)before[i] - 0.05 * g / (sqrt(squares[i]) + 1e-10), 1e-6);
        }
    }
    end_gradient(&c);
}

// --- training ---

TEST(threads_do_not_change_the_bits) {
    EsKnowledgeGraph *graph = make_village(80);
    EsEmbeddingSettings settings = quick_settings(graph);
    for (int32_t n_candidates = 0; n_candidates <= 20; n_candidates += 20) {
        EsEmbeddingReport one, two, again;
        settings.n_candidates = n_candidates;
        EsEmbeddingModel *first = train_with(1, graph, &settings, &one);
        EsEmbeddingModel *second = train_with(2, graph, &settings, &two);
        EXPECT(same_bits(first, second));
        EXPECT(one.loss == two.loss && one.best_mrr == two.best_mrr);
        settings.seed = 2;
        EsEmbeddingModel *other = train_with(2, graph, &settings, &again);
        EXPECT(!same_bits(first, other));
        settings.seed = 1;
        es_embedding_model_destroy(first);
        es_embedding_model_destroy(second);
        es_embedding_model_destroy(other);
    }
    es_kg_destroy(graph);
}

// 200 people, every answer among all of them: chance is 0.03
TEST(a_village_is_learnt) {
    EsKnowledgeGraph *graph = make_village(200);
    EsEmbeddingSettings settings = es_embedding_defaults(graph);
    EsEmbeddingReport report;
    settings.n_dimensions = 32;
    settings.n_epochs = 20;
    settings.batch = 100;
    EsEmbeddingModel *model = train(graph, &settings, &report);
    EXPECT(report.best_epoch > 0 && report.best_mrr > 0.5);
    es_embedding_model_destroy(model);
    settings.n_candidates = 50;
    model = train(graph, &settings, &report);
    EXPECT(report.best_mrr > 0.5);
    es_embedding_model_destroy(model);
    es_kg_destroy(graph);
}

// A graph over a fixed set of names with one query in each split.
static EsKnowledgeGraph *make_with_queries(const char *valid, const char *test) {
    const char *const known = "p(a,b) p(b,c) p(c,d) q(d,a) q(b,a)";
    EsKgBuilder *builder = NULL;
    EsKnowledgeGraph *graph = NULL;
    SmallAtom atom;
    REQUIRE_OK(es_kg_builder_create(&builder));
    for (const char *at = scan_small_atom(known, &atom); at != NULL;
         at = scan_small_atom(at, &atom)) {
        REQUIRE_OK(es_kg_builder_add_fact(builder, (EsAtom[]){intern_small_atom(builder, &atom)}));
    }
    if (scan_small_atom(valid, &atom) != NULL) {
        REQUIRE_OK(es_kg_builder_add_query(builder, ES_KG_SPLIT_VALID,
                                           (EsAtom[]){intern_small_atom(builder, &atom)}));
    }
    if (scan_small_atom(test, &atom) != NULL) {
        REQUIRE_OK(es_kg_builder_add_query(builder, ES_KG_SPLIT_TEST,
                                           (EsAtom[]){intern_small_atom(builder, &atom)}));
    }
    REQUIRE_OK(es_kg_builder_finish(builder, &graph));
    es_kg_builder_destroy(builder);
    return graph;
}

TEST(queries_are_not_trained_on) {
    EsKnowledgeGraph *one = make_with_queries("p(d,a)", "q(a,c)");
    EsKnowledgeGraph *two = make_with_queries("q(c,b)", "p(a,a)");
    EsKnowledgeGraph *none = make_with_queries("", "");
    EsEmbeddingSettings settings = quick_settings(one);
    EsEmbeddingReport report;
    settings.valid_every = settings.n_epochs; // ranked once, so that the last model is the best
    EsEmbeddingModel *first = train(one, &settings, &report);
    EXPECT_EQ(report.best_epoch, settings.n_epochs);
    EsEmbeddingModel *second = train(two, &settings, &report);
    EsEmbeddingModel *third = train(none, &settings, &report);
    EXPECT_EQ(report.best_epoch, 0);
    EXPECT(isnan(report.best_mrr));
    EXPECT(same_bits(first, second));
    EXPECT(same_bits(first, third));
    es_embedding_model_destroy(first);
    es_embedding_model_destroy(second);
    es_embedding_model_destroy(third);
    es_kg_destroy(one);
    es_kg_destroy(two);
    es_kg_destroy(none);
}

static int stop_at(void *context, const EsEmbeddingReport *report) {
    return report->epoch >= *(const int *)context;
}

// Stopped after epoch 3 of 6, ranked at 2: the model is that of epoch 2.
TEST(a_stop_keeps_the_best_so_far) {
    EsKnowledgeGraph *graph = make_village(80);
    EsEmbeddingSettings settings = quick_settings(graph);
    EsEmbeddingReport report;
    EsEmbeddingModel *stopped = NULL;
    EsDevice *device = open_cpu(1);
    int last = 3;
    REQUIRE_OK(
        es_embedding_model_train(device, graph, &settings, stop_at, &last, &report, &stopped));
    es_device_close(device);
    EXPECT(report.is_stopped);
    EXPECT_EQ(report.epoch, 3);
    EXPECT_EQ(report.best_epoch, 2);
    settings.n_epochs = 2;
    EsEmbeddingModel *shorter = train(graph, &settings, &report);
    EXPECT(same_bits(stopped, shorter));
    es_embedding_model_destroy(stopped);
    es_embedding_model_destroy(shorter);
    es_kg_destroy(graph);
}

TEST(settings_out_of_range_are_named) {
    EsKnowledgeGraph *graph = make_village(20);
    EsEmbeddingModel *model = NULL;
    EsEmbeddingReport report;
    EsDevice *device = open_cpu(1);
    EsEmbeddingSettings settings[8];
    const char *why[] = {"epochs", "batch",          "candidates",    "patience",
                         "rate",   "regularisation", "initial scale", "dimensions"};
    for (int i = 0; i < 8; i++) {
        settings[i] = quick_settings(graph);
    }
    settings[0].n_epochs = 0;
    settings[1].batch = 0;
    settings[2].n_candidates = graph->n_constants + 1;
    settings[3].patience = 0;
    settings[4].learning_rate = 0;
    settings[5].regularisation = -1;
    settings[6].initial_scale = NAN;
    settings[7].n_dimensions = 9;
    for (int i = 0; i < 8; i++) {
        EXPECT_STATUS(
            es_embedding_model_train(device, graph, &settings[i], NULL, NULL, &report, &model),
            ARGUMENT);
        EXPECT_CONTAINS(es_status_detail(), why[i]);
        EXPECT(model == NULL);
    }
    es_device_close(device);
    es_kg_destroy(graph);
}

TEST(a_training_that_explodes_says_so) {
    EsKnowledgeGraph *graph = make_village(20);
    EsEmbeddingSettings settings = quick_settings(graph);
    EsEmbeddingModel *model = NULL;
    EsEmbeddingReport report;
    EsDevice *device = open_cpu(1);
    settings.learning_rate = 1e20f;
    EXPECT_STATUS(es_embedding_model_train(device, graph, &settings, NULL, NULL, &report, &model),
                  NUMERIC);
    es_device_close(device);
    EXPECT_CONTAINS(es_status_detail(), "epoch");
    EXPECT(model == NULL);
    es_kg_destroy(graph);
}
