// E environments, V rows of the table, D features, N ids.
#include <string.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"

// ids of one piece of the forward pass, columns of one piece of the backward pass
#define IDS_PER_PIECE     256
#define COLUMNS_PER_PIECE 64

typedef struct Embedding {
    EsIn table, ids, d_y;
    EsOut y, d_table, n_invalid;
    int64_t V, D, N, n_blocks;
} Embedding;

static void copy_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Embedding *job = context;
    int64_t e = piece / job->n_blocks;
    int64_t begin = piece % job->n_blocks * IDS_PER_PIECE;
    int64_t end = ES_MIN(begin + IDS_PER_PIECE, job->N);
    size_t row_bytes = (size_t)job->D * sizeof(float);
    const float *table = es_env_f32(job->table, e);
    const int32_t *ids = es_env_i32(job->ids, e);
    for (int64_t n = begin; n < end; n++) {
        int32_t id = ids[n];
        float *y = es_env_f32(job->y, e) + n * job->D;
        if (id >= 0 && id < job->V) {
            memcpy(y, table + id * job->D, row_bytes);
        } else {
            memset(y, 0, row_bytes);
        }
    }
}

static void count_invalid(void *context, int64_t e, int worker) {
    (void)worker;
    const Embedding *job = context;
    const int32_t *ids = es_env_i32(job->ids, e);
    int32_t n_invalid = 0;
    for (int64_t n = 0; n < job->N; n++) {
        n_invalid += ids[n] < 0 || ids[n] >= job->V;
    }
    *es_env_i32(job->n_invalid, e) = n_invalid;
}

void es_embedding_forward_cpu(EsStream *s, EsIn table, EsIn ids, EsOut y, EsOut n_invalid) {
    Embedding job = {.table = table,
                     .ids = ids,
                     .y = y,
                     .n_invalid = n_invalid,
                     .V = table->dim[1],
                     .D = table->dim[2],
                     .N = ids->dim[1]};
    job.n_blocks = (job.N + IDS_PER_PIECE - 1) / IDS_PER_PIECE;
    es_stream_parallel(s, table->dim[0] * job.n_blocks, copy_rows, &job);
    es_stream_parallel(s, table->dim[0], count_invalid, &job);
}

// A piece owns some columns of the whole table: rows are added in their order without two pieces
// meeting.
static void add_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Embedding *job = context;
    int64_t e = piece / job->n_blocks;
    int64_t begin = piece % job->n_blocks * COLUMNS_PER_PIECE;
    int64_t n_columns = ES_MIN(COLUMNS_PER_PIECE, job->D - begin);
    const int32_t *ids = es_env_i32(job->ids, e);
    float *d_table = es_env_f32(job->d_table, e) + begin;
    for (int64_t v = 0; v < job->V; v++) {
        memset(d_table + v * job->D, 0, (size_t)n_columns * sizeof(float));
    }
    for (int64_t n = 0; n < job->N; n++) {
        int32_t id = ids[n];
        if (id < 0 || id >= job->V) {
            continue;
        }
        const float *ES_RESTRICT d_y = es_env_f32(job->d_y, e) + n * job->D + begin;
        float *ES_RESTRICT d_row = d_table + id * job->D;
        for (int64_t d = 0; d < n_columns; d++) {
            d_row[d] += d_y[d];
        }
    }
}

void es_embedding_backward_cpu(EsStream *s, EsIn ids, EsIn d_y, EsOut d_table) {
    Embedding job = {.ids = ids,
                     .d_y = d_y,
                     .d_table = d_table,
                     .V = d_table->dim[1],
                     .D = d_table->dim[2],
                     .N = ids->dim[1]};
    job.n_blocks = (job.D + COLUMNS_PER_PIECE - 1) / COLUMNS_PER_PIECE;
    es_stream_parallel(s, d_table->dim[0] * job.n_blocks, add_rows, &job);
}
