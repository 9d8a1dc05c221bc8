#include "proof/ranking/embedding_train_table.h"

#include <math.h>
#include <string.h>

#include "proof/ranking/embedding_model.h"

#define ADAGRAD_EPSILON 1e-10f
#define NONE            (-1)
#define ROWS_PER_PIECE  8

void es_gradient_table_clear(EsGradientTable *table) {
    for (int32_t row = 0; row < table->n_rows; row++) {
        table->first[row] = NONE;
    }
    table->n_touched = 0;
    table->n_parts = 0;
}

void es_gradient_table_append(EsGradientTable *table, int32_t row, const float *part) {
    int32_t number = table->n_parts++;
    table->parts[number] = part;
    table->next[number] = NONE;
    if (table->first[row] == NONE) {
        table->first[row] = number;
        table->touched[table->n_touched++] = row;
    } else {
        table->next[table->last[row]] = number;
    }
    table->last[row] = number;
}

void es_gradient_table_sum(const EsGradientTable *table, int32_t row, float *ES_RESTRICT gradient) {
    memset(gradient, 0, (size_t)table->width * sizeof(float));
    for (int32_t part = table->first[row]; part != NONE; part = table->next[part]) {
        const float *ES_RESTRICT from = table->parts[part];
        for (int32_t k = 0; k < table->width; k++) {
            gradient[k] += from[k];
        }
    }
}

typedef struct Update {
    const EsGradientTable *table;
    float rate;
} Update;

static void update_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Update *update = context;
    const EsGradientTable *table = update->table;
    int32_t end = ES_MIN((int32_t)(piece + 1) * ROWS_PER_PIECE, table->n_touched);
    float gradient[2 * ES_EMBEDDING_MAX_DIMENSIONS];
    for (int32_t i = (int32_t)piece * ROWS_PER_PIECE; i < end; i++) {
        size_t at = (size_t)table->touched[i] * (size_t)table->width;
        float *ES_RESTRICT value = table->values + at;
        float *ES_RESTRICT square = table->squares + at;
        es_gradient_table_sum(table, table->touched[i], gradient);
        for (int32_t k = 0; k < table->width; k++) {
            square[k] += gradient[k] * gradient[k];
            value[k] -= update->rate * gradient[k] / (sqrtf(square[k]) + ADAGRAD_EPSILON);
        }
    }
}

void es_gradient_table_update(EsGradientTable *table, EsStream *stream, float rate) {
    ES_ASSERT(table->width <= 2 * ES_EMBEDDING_MAX_DIMENSIONS);
    Update update = {table, rate};
    int64_t n_pieces = (table->n_touched + ROWS_PER_PIECE - 1) / ROWS_PER_PIECE;
    es_stream_parallel(stream, n_pieces, update_rows, &update);
}
