// C constants, P predicates, D complex numbers per vector, W = 2 D floats.
#include "proof/ranking/embedding_model.h"

#include <math.h>

#include "base/memory.h"

#define LANES 16

EsStatus es_embedding_model_create(const EsKnowledgeGraph *graph, int32_t n_dimensions,
                                   EsEmbeddingModel **model) {
    *model = NULL;
    if (n_dimensions < ES_EMBEDDING_DIMENSION_STEP || n_dimensions > ES_EMBEDDING_MAX_DIMENSIONS ||
        n_dimensions % ES_EMBEDDING_DIMENSION_STEP != 0) {
        return ES_FAIL(ARGUMENT,
                       "an embedding of %d dimensions: it takes a multiple of %d up to %d",
                       n_dimensions, ES_EMBEDDING_DIMENSION_STEP, ES_EMBEDDING_MAX_DIMENSIONS);
    }
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsEmbeddingModel), &memory));
    EsEmbeddingModel *made = memory;
    made->n_constants = graph->n_constants;
    made->n_predicates = graph->n_predicates;
    made->n_dimensions = n_dimensions;
    made->width = 2 * n_dimensions;
    size_t row_bytes = (size_t)made->width * sizeof(float);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate((size_t)ES_MAX(made->n_constants, 1) * row_bytes, &memory));
    made->constants = memory;
    ES_TRY_GOTO(es_allocate(2 * (size_t)ES_MAX(made->n_predicates, 1) * row_bytes, &memory));
    made->relations = memory;
    es_kg_names_hash(graph, made->names_hash);
    *model = made;
    made = NULL;
done:
    es_embedding_model_destroy(made);
    return status;
}

void es_embedding_model_destroy(EsEmbeddingModel *model) {
    if (model != NULL) {
        es_release(model->constants);
        es_release(model->relations);
        es_release(model);
    }
}

// --- scores ---

void es_embedding_question(const EsEmbeddingModel *model, int32_t row, int32_t term,
                           float *ES_RESTRICT query) {
    int32_t D = model->n_dimensions;
    const float *ES_RESTRICT x = model->constants + (size_t)(term - 1) * (size_t)model->width;
    const float *ES_RESTRICT r = model->relations + (size_t)row * (size_t)model->width;
    for (int32_t d = 0; d < D; d++) {
        query[d] = x[d] * r[d] - x[D + d] * r[D + d];
        query[D + d] = x[d] * r[D + d] + x[D + d] * r[d];
    }
}

float es_embedding_dot(const float *ES_RESTRICT x, const float *ES_RESTRICT y, int32_t width) {
    float lane[LANES] = {0};
    for (int32_t k = 0; k < width; k += LANES) {
        for (int l = 0; l < LANES; l++) {
            lane[l] += x[k + l] * y[k + l];
        }
    }
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            lane[l] += lane[l + half];
        }
    }
    return lane[0];
}

typedef struct Question {
    int32_t row;  // of the relations
    int32_t term; // the argument that is given
} Question;

static Question question_of(const EsEmbeddingModel *model, EsCorruptSide side, EsAtom atom) {
    ES_ASSERT(atom.predicate >= 1 && atom.predicate <= model->n_predicates);
    Question question = {atom.predicate - 1, atom.a};
    if (side == ES_CORRUPT_HEAD) {
        question.row += model->n_predicates;
        question.term = atom.b;
    }
    ES_ASSERT(question.term >= 1 && question.term <= model->n_constants);
    return question;
}

static float score_candidate(const EsEmbeddingModel *model, const float *query, int32_t constant) {
    ES_ASSERT(constant >= 1 && constant <= model->n_constants);
    return es_embedding_dot(query, model->constants + (size_t)(constant - 1) * (size_t)model->width,
                            model->width);
}

// log of the sum of exp over all constants, one pass: the sum is rescaled when a larger score comes
static double log_normaliser(const EsEmbeddingModel *model, const float *query) {
    double largest = -INFINITY, sum = 0;
    for (int32_t c = 1; c <= model->n_constants; c++) {
        double score = (double)score_candidate(model, query, c);
        if (score > largest) {
            sum = sum * exp(largest - score) + 1;
            largest = score;
        } else {
            sum += exp(score - largest);
        }
    }
    return largest + log(sum);
}

void es_embedding_model_scores(const EsEmbeddingModel *model, EsCorruptSide side,
                               const EsAtom *atoms, int32_t count, float *log_probability) {
    float query[2 * ES_EMBEDDING_MAX_DIMENSIONS];
    Question asked = {-1, 0};
    double normaliser = 0;
    for (int32_t i = 0; i < count; i++) {
        Question question = question_of(model, side, atoms[i]);
        if (question.row != asked.row || question.term != asked.term) {
            asked = question;
            es_embedding_question(model, asked.row, asked.term, query);
            normaliser = log_normaliser(model, query);
        }
        int32_t candidate = side == ES_CORRUPT_HEAD ? atoms[i].a : atoms[i].b;
        log_probability[i] = (float)((double)score_candidate(model, query, candidate) - normaliser);
    }
}

void es_embedding_model_ratios(const EsEmbeddingModel *model, EsCorruptSide side, EsAtom query,
                               const EsAtom *atoms, int32_t count, float *log_ratio) {
    float vector[2 * ES_EMBEDDING_MAX_DIMENSIONS];
    Question asked = question_of(model, side, query);
    es_embedding_question(model, asked.row, asked.term, vector);
    float own = score_candidate(model, vector, side == ES_CORRUPT_HEAD ? query.a : query.b);
    for (int32_t i = 0; i < count; i++) {
        Question question = question_of(model, side, atoms[i]);
        ES_ASSERT(question.row == asked.row && question.term == asked.term);
        log_ratio[i] =
            score_candidate(model, vector, side == ES_CORRUPT_HEAD ? atoms[i].a : atoms[i].b) - own;
    }
}

void es_embedding_model_score_all(const EsEmbeddingModel *model, EsCorruptSide side, EsAtom query,
                                  float *log_probability) {
    float vector[2 * ES_EMBEDDING_MAX_DIMENSIONS];
    Question question = question_of(model, side, query);
    es_embedding_question(model, question.row, question.term, vector);
    double normaliser = log_normaliser(model, vector);
    for (int32_t c = 1; c <= model->n_constants; c++) {
        log_probability[c - 1] = (float)((double)score_candidate(model, vector, c) - normaliser);
    }
}
