// Letters: E environments, D features of a row; rows are all axes between the first and the last.
#include <string.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"

#define ROWS_PER_PIECE 64

typedef struct Columns {
    EsIn narrow;   // [E, ..., width]
    EsIn wide;     // [E, ..., D]
    int64_t first; // column of `wide` where `narrow` begins
    int is_taken;  // out of `wide` into `narrow`, else the other way
    int64_t n_rows, n_blocks;
} Columns;

static int64_t last_dim(EsIn x) { return x->dim[x->rank - 1]; }

static int64_t rows_of(EsIn x) {
    int64_t n_rows = 1;
    for (int axis = 1; axis < x->rank - 1; axis++) {
        n_rows *= x->dim[axis];
    }
    return n_rows;
}

static void copy_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const Columns *job = context;
    int64_t e = piece / job->n_blocks, row0 = piece % job->n_blocks * ROWS_PER_PIECE;
    int64_t width = last_dim(job->narrow), D = last_dim(job->wide);
    for (int64_t n = row0; n < ES_MIN(row0 + ROWS_PER_PIECE, job->n_rows); n++) {
        float *narrow = es_env_f32(job->narrow, e) + n * width;
        float *wide = es_env_f32(job->wide, e) + n * D + job->first;
        memcpy(job->is_taken ? narrow : wide, job->is_taken ? wide : narrow,
               (size_t)width * sizeof(float));
    }
}

static void copy_columns(EsStream *s, EsIn narrow, EsIn wide, int64_t first, int is_taken) {
    Columns job = {.narrow = narrow,
                   .wide = wide,
                   .first = first,
                   .is_taken = is_taken,
                   .n_rows = rows_of(wide)};
    job.n_blocks = (job.n_rows + ROWS_PER_PIECE - 1) / ROWS_PER_PIECE;
    es_stream_parallel(s, wide->dim[0] * job.n_blocks, copy_rows, &job);
}

void es_concat_forward_cpu(EsStream *s, int n, const EsIn *x, EsOut y) {
    int64_t first = 0;
    for (int i = 0; i < n; i++) {
        copy_columns(s, x[i], y, first, 0);
        first += last_dim(x[i]);
    }
}

void es_concat_backward_cpu(EsStream *s, int64_t first, EsIn d_y, EsOut d_x) {
    copy_columns(s, d_x, d_y, first, 1);
}
