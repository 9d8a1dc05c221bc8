// Two matrix products carry a batch: questions by candidates, and back. Between them one thread per
// question takes the softmax; behind them the gradients of all vectors are listed per row of the
// model, so that whichever thread updates a row adds them in the order of the batch.
//
// B questions, K candidates (C constants, or N of them), W floats per row, D = W / 2.
#include "proof/ranking/embedding_train_batch.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/kernels.h"

#define ADAGRAD_EPSILON 1e-10f
#define NONE            (-1)
#define ROWS_PER_PIECE  8

// --- tables of rows to train ---

// The terms of row r: terms[first[r]], then along next[]; a negative number ends the list.
typedef struct GradientTable {
    int32_t n_rows, width;
    float *values;         // borrowed from the model                            (n_rows x width)
    float *squares;        // sums of squared gradients, 0 at first              (n_rows x width)
    int32_t *first, *last; // negative: no term                                          (n_rows)
    int32_t *touched;      // rows that have any, by first term                          (n_rows)
    int32_t n_touched;
    int32_t *next;       // room for as many terms as a batch makes
    const float **terms; // width floats each, borrowed
    int32_t n_terms;
} GradientTable;

// Forgets all terms.
static void clear_terms(GradientTable *table) {
    for (int32_t row = 0; row < table->n_rows; row++) {
        table->first[row] = NONE;
    }
    table->n_touched = 0;
    table->n_terms = 0;
}

static void append_term(GradientTable *table, int32_t row, const float *term) {
    int32_t number = table->n_terms++;
    table->terms[number] = term;
    table->next[number] = NONE;
    if (table->first[row] == NONE) {
        table->first[row] = number;
        table->touched[table->n_touched++] = row;
    } else {
        table->next[table->last[row]] = number;
    }
    table->last[row] = number;
}

// The gradient of one row (width).
static void sum_terms(const GradientTable *table, int32_t row, float *ES_RESTRICT gradient) {
    memset(gradient, 0, (size_t)table->width * sizeof(float));
    for (int32_t i = table->first[row]; i != NONE; i = table->next[i]) {
        const float *ES_RESTRICT from = table->terms[i];
        for (int32_t k = 0; k < table->width; k++) {
            gradient[k] += from[k];
        }
    }
}

typedef struct Update {
    const GradientTable *table;
    float learning_rate;
} Update;

static void update_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Update *update = context;
    const GradientTable *table = update->table;
    int32_t end = ES_MIN((int32_t)(piece + 1) * ROWS_PER_PIECE, table->n_touched);
    float gradient[2 * ES_EMBEDDING_MAX_DIMENSIONS];
    for (int32_t i = (int32_t)piece * ROWS_PER_PIECE; i < end; i++) {
        size_t at = (size_t)table->touched[i] * (size_t)table->width;
        float *ES_RESTRICT value = table->values + at;
        float *ES_RESTRICT square = table->squares + at;
        sum_terms(table, table->touched[i], gradient);
        for (int32_t k = 0; k < table->width; k++) {
            square[k] += gradient[k] * gradient[k];
            value[k] -= update->learning_rate * gradient[k] / (sqrtf(square[k]) + ADAGRAD_EPSILON);
        }
    }
}

// Adagrad (Duchi, Hazan, Singer, 2011) on the rows that have terms: s += g^2,
// x -= learning_rate g / (sqrt(s) + 1e-10). At most 2 ES_EMBEDDING_MAX_DIMENSIONS wide.
static void update_table(GradientTable *table, EsStream *stream, float learning_rate) {
    ES_ASSERT(table->width <= 2 * ES_EMBEDDING_MAX_DIMENSIONS);
    Update update = {table, learning_rate};
    int64_t n_pieces = (table->n_touched + ROWS_PER_PIECE - 1) / ROWS_PER_PIECE;
    es_stream_parallel(stream, n_pieces, update_rows, &update);
}

struct EsEmbeddingBatch {
    EsEmbeddingModel *model;  // borrowed
    EsStream *stream;         // borrowed
    const EsKernels *kernels; // borrowed
    EsEmbeddingBatchSizes sizes;
    int32_t K;      // candidates
    int is_sampled; // candidates are a sample
    unsigned char *slab;
    // filled by es_embedding_batch_loss
    const EsEmbeddingQuestion *questions; // borrowed during the call
    const int32_t *candidates;            // borrowed during the call; NULL: all
    int32_t B;
    float regularisation;
    float *query;             // the questions' vectors                              (B x W)
    float *sample;            // rows of the candidates, when sampled                (N x W)
    float *logits;            // scores, then the loss's gradient in them            (B x K)
    float *d_query;           //                                                     (B x W)
    float *d_candidates;      //                                                     (K x W)
    float *d_term, *d_answer; //                                                     (B x W)
    float *d_relation;        //                                                     (B x W)
    float *d_answer_logit;    // gradient in the answer's own score, when sampled         (B)
    double *losses;           // of each question, regularisation included                (B)
    GradientTable constants, relations;
};

// --- memory ---

typedef struct Plan {
    unsigned char *slab; // NULL while sizes are added up
    size_t bytes;
} Plan;

static void *take(Plan *plan, size_t count, size_t bytes) {
    size_t offset = es_slab_add(&plan->bytes, ES_MAX(count, 1) * bytes);
    return plan->slab != NULL ? plan->slab + offset : NULL;
}

static void place_table(Plan *plan, GradientTable *table, size_t n_rows, size_t n_terms, size_t W) {
    table->n_rows = (int32_t)n_rows;
    table->width = (int32_t)W;
    table->squares = take(plan, n_rows * W, sizeof(float));
    table->first = take(plan, n_rows, sizeof(int32_t));
    table->last = take(plan, n_rows, sizeof(int32_t));
    table->touched = take(plan, n_rows, sizeof(int32_t));
    table->next = take(plan, n_terms, sizeof(int32_t));
    table->terms = take(plan, n_terms, sizeof(float *));
}

static void place_all(EsEmbeddingBatch *batch, Plan *plan) {
    size_t B = (size_t)batch->sizes.n_questions, K = (size_t)batch->K;
    size_t W = (size_t)batch->model->width;
    batch->query = take(plan, B * W, sizeof(float));
    batch->sample = take(plan, batch->is_sampled ? K * W : 0, sizeof(float));
    batch->logits = take(plan, B * K, sizeof(float));
    batch->d_query = take(plan, B * W, sizeof(float));
    batch->d_candidates = take(plan, K * W, sizeof(float));
    batch->d_term = take(plan, B * W, sizeof(float));
    batch->d_answer = take(plan, B * W, sizeof(float));
    batch->d_relation = take(plan, B * W, sizeof(float));
    batch->d_answer_logit = take(plan, B, sizeof(float));
    batch->losses = take(plan, B, sizeof(double));
    place_table(plan, &batch->constants, (size_t)batch->model->n_constants, K + 2 * B, W);
    place_table(plan, &batch->relations, 2 * (size_t)batch->model->n_predicates, B, W);
}

EsStatus es_embedding_batch_create(EsEmbeddingModel *model, EsStream *stream,
                                   EsEmbeddingBatchSizes sizes, EsEmbeddingBatch **batch) {
    *batch = NULL;
    if (sizes.n_questions < 1 || sizes.n_candidates < 0 ||
        sizes.n_candidates > model->n_constants) {
        return ES_FAIL(ARGUMENT, "a batch of %d questions with %d candidates of %d constants",
                       sizes.n_questions, sizes.n_candidates, model->n_constants);
    }
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsEmbeddingBatch), &memory));
    EsEmbeddingBatch *made = memory;
    made->model = model;
    made->stream = stream;
    made->kernels = es_kernels_of(es_stream_device(stream));
    made->sizes = sizes;
    made->is_sampled = sizes.n_candidates > 0;
    made->K = made->is_sampled ? sizes.n_candidates : model->n_constants;
    Plan plan = {NULL, 0};
    place_all(made, &plan);
    EsStatus status = es_allocate(plan.bytes, &memory);
    if (status != ES_STATUS_OK) {
        es_release(made);
        return status;
    }
    made->slab = memory;
    plan = (Plan){made->slab, 0};
    place_all(made, &plan);
    made->constants.values = model->constants;
    made->relations.values = model->relations;
    *batch = made;
    return ES_STATUS_OK;
}

void es_embedding_batch_destroy(EsEmbeddingBatch *batch) {
    if (batch != NULL) {
        es_release(batch->slab);
        es_release(batch);
    }
}

// --- the loss ---

static const float *constant_row(const EsEmbeddingBatch *batch, int32_t constant) {
    return batch->model->constants + (size_t)(constant - 1) * (size_t)batch->model->width;
}

static void multiply(const EsEmbeddingBatch *batch, int trans_a, int trans_b, const float *a,
                     const int64_t a_dims[2], const float *b, const int64_t b_dims[2], float *c,
                     const int64_t c_dims[2]) {
    EsDevice *device = es_stream_device(batch->stream);
    EsTensor left =
        es_tensor_view((float *)a, ES_DTYPE_F32, device, 3, (int64_t[]){1, a_dims[0], a_dims[1]});
    EsTensor right =
        es_tensor_view((float *)b, ES_DTYPE_F32, device, 3, (int64_t[]){1, b_dims[0], b_dims[1]});
    EsTensor product =
        es_tensor_view(c, ES_DTYPE_F32, device, 3, (int64_t[]){1, c_dims[0], c_dims[1]});
    batch->kernels->matmul(batch->stream, trans_a, trans_b, 0.0f, &left, &right, &product);
}

static void fill_query(void *context, int64_t piece, int worker) {
    (void)worker;
    EsEmbeddingBatch *batch = context;
    const EsEmbeddingQuestion *question = &batch->questions[piece];
    es_embedding_question(batch->model, question->row, question->term,
                          batch->query + (size_t)piece * (size_t)batch->model->width);
}

// exp of x <= 0 to about 1e-7, the way of kernels/lanes/lanes_vector.h in a form that vectorises: x
// = n ln 2 + r, a polynomial in r, and n added to the exponent.
static inline float negative_exp(float x) {
    float bounded = x > -87.0f ? x : -87.0f;
    // adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits
    float shifted = bounded * 1.44269504f + 12582912.0f;
    float n = shifted - 12582912.0f;
    float r = bounded - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4B400000u + 127u) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return x > -87.0f ? p * power : 0.0f;
}

// Replace scores by exp(score - largest) and return their sum, in 16 lanes.
static double exponentiate(float *ES_RESTRICT score, int32_t count, float largest) {
    float lane[16] = {0};
    int32_t k = 0;
    for (; k + 16 <= count; k += 16) {
        for (int l = 0; l < 16; l++) {
            score[k + l] = negative_exp(score[k + l] - largest);
            lane[l] += score[k + l];
        }
    }
    double sum = 0;
    for (int l = 0; l < 16; l++) {
        sum += (double)lane[l];
    }
    for (; k < count; k++) {
        score[k] = negative_exp(score[k] - largest);
        sum += (double)score[k];
    }
    return sum;
}

// Softmax of one row of scores: its loss, and the scores replaced by the gradient of the mean loss.
static void softmax_row(void *context, int64_t piece, int worker) {
    (void)worker;
    EsEmbeddingBatch *batch = context;
    int32_t K = batch->K, W = batch->model->width;
    int32_t answer = batch->questions[piece].answer;
    float *ES_RESTRICT score = batch->logits + (size_t)piece * (size_t)K;
    float own = batch->is_sampled ? es_embedding_dot(batch->query + (size_t)piece * (size_t)W,
                                                     constant_row(batch, answer), W)
                                  : score[answer - 1];
    float largest = own;
    if (batch->is_sampled) {
        float raise = logf((float)(batch->model->n_constants - 1) / (float)K);
        for (int32_t k = 0; k < K; k++) {
            // far below any other, so that its exponential is 0
            score[k] = batch->candidates[k] == answer ? -INFINITY : score[k] + raise;
        }
    }
    for (int32_t k = 0; k < K; k++) {
        largest = score[k] > largest ? score[k] : largest;
    }
    double sum = exponentiate(score, K, largest);
    double own_share = exp((double)own - (double)largest);
    sum += batch->is_sampled ? own_share : 0.0;
    batch->losses[piece] = log(sum) - ((double)own - (double)largest);
    float scale = (float)(1.0 / (sum * (double)batch->B));
    for (int32_t k = 0; k < K; k++) {
        score[k] *= scale;
    }
    if (batch->is_sampled) {
        batch->d_answer_logit[piece] = (float)((own_share / sum - 1.0) / (double)batch->B);
    } else {
        score[answer - 1] -= 1.0f / (float)batch->B;
    }
}

// Add N3 of one vector to its gradient; returns the sum of |z|^3.
static double add_cubes(const float *ES_RESTRICT x, int32_t D, float weight,
                        float *ES_RESTRICT d_x) {
    double sum = 0;
    for (int32_t d = 0; d < D; d++) {
        float square = x[d] * x[d] + x[D + d] * x[D + d];
        float size = sqrtf(square);
        d_x[d] += 3.0f * weight * size * x[d];
        d_x[D + d] += 3.0f * weight * size * x[D + d];
        sum += (double)(square * size);
    }
    return sum;
}

// Takes the gradient of a question's vector on to its term, relation and answer.
static void question_backward(void *context, int64_t piece, int worker) {
    (void)worker;
    EsEmbeddingBatch *batch = context;
    const EsEmbeddingQuestion *question = &batch->questions[piece];
    int32_t W = batch->model->width, D = W / 2;
    size_t at = (size_t)piece * (size_t)W;
    const float *ES_RESTRICT x = constant_row(batch, question->term);
    const float *ES_RESTRICT r = batch->model->relations + (size_t)question->row * (size_t)W;
    const float *ES_RESTRICT y = constant_row(batch, question->answer);
    const float *ES_RESTRICT query = batch->query + at;
    float *ES_RESTRICT d_query = batch->d_query + at;
    float *ES_RESTRICT d_term = batch->d_term + at;
    float *ES_RESTRICT d_relation = batch->d_relation + at;
    float *ES_RESTRICT d_answer = batch->d_answer + at;
    float own = batch->is_sampled ? batch->d_answer_logit[piece] : 0.0f;
    for (int32_t k = 0; k < W; k++) {
        d_query[k] += own * y[k];
        d_answer[k] = own * query[k];
    }
    for (int32_t d = 0; d < D; d++) {
        d_term[d] = d_query[d] * r[d] + d_query[D + d] * r[D + d];
        d_term[D + d] = d_query[D + d] * r[d] - d_query[d] * r[D + d];
        d_relation[d] = d_query[d] * x[d] + d_query[D + d] * x[D + d];
        d_relation[D + d] = d_query[D + d] * x[d] - d_query[d] * x[D + d];
    }
    float weight = batch->regularisation / (float)batch->B;
    double cubes = add_cubes(x, D, weight, d_term) + add_cubes(r, D, weight, d_relation) +
                   add_cubes(y, D, weight, d_answer);
    batch->losses[piece] += (double)batch->regularisation * cubes;
}

// --- terms of gradients ---

static void list_terms(EsEmbeddingBatch *batch) {
    size_t W = (size_t)batch->model->width;
    clear_terms(&batch->constants);
    clear_terms(&batch->relations);
    for (int32_t k = 0; k < batch->K; k++) {
        int32_t row = batch->is_sampled ? batch->candidates[k] - 1 : k;
        append_term(&batch->constants, row, batch->d_candidates + (size_t)k * W);
    }
    for (int32_t i = 0; i < batch->B; i++) {
        const EsEmbeddingQuestion *question = &batch->questions[i];
        append_term(&batch->constants, question->term - 1, batch->d_term + (size_t)i * W);
        append_term(&batch->constants, question->answer - 1, batch->d_answer + (size_t)i * W);
        append_term(&batch->relations, question->row, batch->d_relation + (size_t)i * W);
    }
}

double es_embedding_batch_loss(EsEmbeddingBatch *batch, const EsEmbeddingQuestion *questions,
                               int32_t n, const int32_t *candidates, float regularisation) {
    ES_ASSERT(n >= 1 && n <= batch->sizes.n_questions);
    ES_ASSERT((candidates != NULL) == batch->is_sampled);
    int64_t W = batch->model->width, K = batch->K, B = n;
    const int64_t questions_by_width[] = {B, W}, candidates_by_width[] = {K, W}, scores[] = {B, K};
    const float *rows = batch->model->constants;
    batch->questions = questions;
    batch->candidates = candidates;
    batch->B = n;
    batch->regularisation = regularisation;
    es_stream_parallel(batch->stream, n, fill_query, batch);
    if (batch->is_sampled) {
        for (int64_t k = 0; k < K; k++) {
            memcpy(batch->sample + k * W, constant_row(batch, candidates[k]),
                   (size_t)W * sizeof(float));
        }
        rows = batch->sample;
    }
    multiply(batch, 0, 1, batch->query, questions_by_width, rows, candidates_by_width,
             batch->logits, scores);
    es_stream_parallel(batch->stream, n, softmax_row, batch);
    multiply(batch, 0, 0, batch->logits, scores, rows, candidates_by_width, batch->d_query,
             questions_by_width);
    multiply(batch, 1, 0, batch->logits, scores, batch->query, questions_by_width,
             batch->d_candidates, candidates_by_width);
    es_stream_parallel(batch->stream, n, question_backward, batch);
    list_terms(batch);
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += batch->losses[i];
    }
    batch->questions = NULL;
    batch->candidates = NULL;
    return sum / n;
}

// --- gradient and update ---

void es_embedding_batch_update(EsEmbeddingBatch *batch, float learning_rate) {
    update_table(&batch->constants, batch->stream, learning_rate);
    update_table(&batch->relations, batch->stream, learning_rate);
}

void es_embedding_batch_gradient(EsEmbeddingBatch *batch, float *d_constants, float *d_relations) {
    const GradientTable *tables[] = {&batch->constants, &batch->relations};
    float *into[] = {d_constants, d_relations};
    for (size_t t = 0; t < ES_COUNT_OF(tables); t++) {
        for (int32_t row = 0; row < tables[t]->n_rows; row++) {
            sum_terms(tables[t], row, into[t] + (size_t)row * (size_t)tables[t]->width);
        }
    }
}
