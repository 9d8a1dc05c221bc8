// Scores are plain dot products of a question's vector with constants, summed in 16 lanes so that
// their order depends on the width alone. The file holds two tensors, and metadata that names the
// graph by the hash of its names.
//
// C constants, P predicates, D complex numbers per vector, W = 2 D floats.
#include "proof/ranking/embedding_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/range_check.h"
#include "tensor/safetensors.h"

#define LANES 16

EsStatus es_embedding_model_create(const EsKnowledgeGraph *graph, int32_t n_dimensions,
                                   EsEmbeddingModel **model) {
    *model = NULL;
    if (n_dimensions < ES_EMBEDDING_DIMENSION_STEP || n_dimensions > ES_EMBEDDING_MAX_DIMENSIONS ||
        n_dimensions % ES_EMBEDDING_DIMENSION_STEP != 0) {
        return ES_FAIL(ARGUMENT, "embedding: dimensions is %d, expected a multiple of %d up to %d",
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

// --- files ---

#define KIND      "esper-embedding"
#define CONSTANTS "constants"
#define RELATIONS "relations"

static EsTensor view_of(float *data, int64_t n_rows, int64_t width) {
    return es_tensor_view(data, ES_DTYPE_F32, NULL, 2, (int64_t[]){n_rows, width});
}

EsStatus es_embedding_model_save(const EsEmbeddingModel *model, const char *path) {
    char dimensions[16];
    snprintf(dimensions, sizeof dimensions, "%d", model->n_dimensions);
    const EsNamedTensor tensors[] = {
        {CONSTANTS, view_of(model->constants, model->n_constants, model->width)},
        {RELATIONS, view_of(model->relations, 2 * (int64_t)model->n_predicates, model->width)},
    };
    const EsMetadata metadata[] = {
        {"kind", KIND},
        {"version", "1"},
        {"model", "complex"},
        {"dimensions", dimensions},
        {"names_sha256", model->names_hash},
        ES_TENSORS_HASH_ENTRY,
    };
    return es_safetensors_save(path, tensors, ES_COUNT_OF(tensors), metadata,
                               ES_COUNT_OF(metadata));
}

// --- loading ---

static EsStatus check_entry(const EsSafetensors *file, const char *path, const char *key,
                            const char *wanted) {
    const char *value = es_safetensors_metadata(file, key);
    if (value == NULL) {
        return ES_FAIL(INPUT, "%s is not an embedding model: its metadata has no \"%s\"", path,
                       key);
    }
    if (strcmp(value, wanted) != 0) {
        return ES_FAIL(INPUT, "%s: \"%s\" is \"%.100s\"; this program reads \"%s\"", path, key,
                       value, wanted);
    }
    return ES_STATUS_OK;
}

static EsStatus find_rows(const EsSafetensors *file, const char *path, const char *name,
                          EsTensor *view) {
    ES_TRY(es_safetensors_find(file, name, view));
    if (view->dtype != ES_DTYPE_F32 || view->rank != 2) {
        char found[96];
        return ES_FAIL(INPUT, "%s: \"%s\" is %s, not a table of F32", path, name,
                       es_tensor_describe(view, found, sizeof found));
    }
    return ES_STATUS_OK;
}

// Compares sizes first: they say more to a person than a hash.
static EsStatus check_graph(const char *path, const EsTensor *constants, const EsTensor *relations,
                            const char *names_hash, const EsKnowledgeGraph *graph) {
    if (constants->dim[0] != graph->n_constants ||
        relations->dim[0] != 2 * (int64_t)graph->n_predicates) {
        return ES_FAIL(INPUT,
                       "%s is a model of another graph: %lld constants and %lld rows of relations; "
                       "this one has %d constants and %d predicates, two rows each",
                       path, (long long)constants->dim[0], (long long)relations->dim[0],
                       graph->n_constants, graph->n_predicates);
    }
    char wanted[ES_SHA256_TEXT_BYTES];
    es_kg_names_hash(graph, wanted);
    if (names_hash == NULL || strcmp(names_hash, wanted) != 0) {
        return ES_FAIL(INPUT,
                       "%s is a model of another graph of the same sizes: the hash of its names is "
                       "%.12s, of this one's %.12s",
                       path, names_hash != NULL ? names_hash : "missing", wanted);
    }
    return ES_STATUS_OK;
}

static EsStatus copy_finite(const char *path, const char *name, const EsTensor *from, float *to) {
    ES_TRY(es_check_finite(path, name, from->data, es_tensor_count(from)));
    memcpy(to, from->data, es_tensor_bytes(from));
    return ES_STATUS_OK;
}

static EsStatus read_model(const EsSafetensors *file, const char *path,
                           const EsKnowledgeGraph *graph, EsEmbeddingModel **model) {
    EsTensor constants, relations;
    ES_TRY(check_entry(file, path, "kind", KIND));
    ES_TRY(check_entry(file, path, "version", "1"));
    ES_TRY(check_entry(file, path, "model", "complex"));
    ES_TRY(find_rows(file, path, CONSTANTS, &constants));
    ES_TRY(find_rows(file, path, RELATIONS, &relations));
    ES_TRY(check_graph(path, &constants, &relations, es_safetensors_metadata(file, "names_sha256"),
                       graph));
    int64_t width = constants.dim[1];
    if (relations.dim[1] != width || width < 2 || width > 2 * ES_EMBEDDING_MAX_DIMENSIONS ||
        width % (2 * ES_EMBEDDING_DIMENSION_STEP) != 0) {
        return ES_FAIL(INPUT,
                       "%s: rows of %lld and %lld numbers; both take the same multiple of %d up to "
                       "%d",
                       path, (long long)width, (long long)relations.dim[1],
                       2 * ES_EMBEDDING_DIMENSION_STEP, 2 * ES_EMBEDDING_MAX_DIMENSIONS);
    }
    if (es_safetensors_metadata(file, "dimensions") != NULL) {
        char dimensions[24];
        snprintf(dimensions, sizeof dimensions, "%lld", (long long)width / 2);
        ES_TRY(check_entry(file, path, "dimensions", dimensions));
    }
    ES_TRY(es_embedding_model_create(graph, (int32_t)(width / 2), model));
    ES_TRY(copy_finite(path, CONSTANTS, &constants, (*model)->constants));
    ES_TRY(copy_finite(path, RELATIONS, &relations, (*model)->relations));
    es_safetensors_note_hash(file);
    return ES_STATUS_OK;
}

EsStatus es_embedding_model_load(const char *path, const EsKnowledgeGraph *graph,
                                 EsEmbeddingModel **model) {
    EsSafetensors *file = NULL;
    *model = NULL;
    EsStatus status = es_safetensors_open(path, &file);
    if (status != ES_STATUS_OK) {
        // a file that cannot be read is wrong input as well: the user has named it
        return status == ES_STATUS_IO ? ES_FAIL(INPUT, "%s", es_status_detail()) : status;
    }
    status = read_model(file, path, graph, model);
    if (status != ES_STATUS_OK) {
        es_embedding_model_destroy(*model);
        *model = NULL;
    }
    es_safetensors_close(file);
    return status;
}
