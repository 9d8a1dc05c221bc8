// A table of rows to train, and the gradient of each row as a list of parts.
//
// Whoever updates a row adds its parts in the order in which they were appended, so that the sums
// have the same bits whatever thread does it. Used by embedding_train_batch.c, which places the
// arrays.
#ifndef ES_PROOF_EMBEDDING_TRAIN_TABLE_H
#define ES_PROOF_EMBEDDING_TRAIN_TABLE_H

#include "tensor/device.h"

ES_EXTERN_C_BEGIN

// The parts of row r: parts[first[r]], then along next[]; a negative number ends the list.
typedef struct EsGradientTable {
    int32_t n_rows, width;
    float *values;         // borrowed from the model                            (n_rows x width)
    float *squares;        // sums of squared gradients, 0 at first              (n_rows x width)
    int32_t *first, *last; // negative: no part                                          (n_rows)
    int32_t *touched;      // rows that have any, by first part                          (n_rows)
    int32_t n_touched;
    int32_t *next;       // room for as many parts as a batch makes
    const float **parts; // width floats each, borrowed
    int32_t n_parts;
} EsGradientTable;

// Forget all parts.
void es_gradient_table_clear(EsGradientTable *table);

void es_gradient_table_append(EsGradientTable *table, int32_t row, const float *part);

// The gradient of one row (width).
void es_gradient_table_sum(const EsGradientTable *table, int32_t row, float *ES_RESTRICT gradient);

// Adagrad (Duchi, Hazan, Singer, 2011) on the rows that have parts: s += g^2, x -= rate g /
// (sqrt(s)
// + 1e-10). At most 2 ES_EMBEDDING_MAX_DIMENSIONS wide.
void es_gradient_table_update(EsGradientTable *table, EsStream *stream, float rate);

ES_EXTERN_C_END

#endif
