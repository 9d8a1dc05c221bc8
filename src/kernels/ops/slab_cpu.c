// E environments (of tree_sum: rows), P parameters of one, S spans, G clip groups.
#include <math.h>
#include <string.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/hash_rules.h"

// interleaved partial sums of a span: element i adds to sum i % 8, and the eight are added in order
#define N_PARTIAL 8

typedef struct SlabNorms {
    EsOut slab, sum_squares, n_nonfinite, group_norm;
    EsIn max_norm;
    const int64_t *spans;  // [S, 2], contiguous
    const int32_t *groups; // [S]
    int64_t S, G;
} SlabNorms;

static int is_finite(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7F800000u) != 0x7F800000u;
}

static void measure_span(void *context, int64_t piece, int worker) {
    (void)worker;
    const SlabNorms *job = context;
    int64_t e = piece / job->S, span = piece % job->S;
    const float *x = es_env_f32(job->slab, e) + job->spans[2 * span];
    int64_t length = job->spans[2 * span + 1];
    double partial[N_PARTIAL] = {0.0};
    int32_t n_nonfinite[N_PARTIAL] = {0};
    int64_t i = 0;
    for (; i + N_PARTIAL <= length; i += N_PARTIAL) {
        for (int64_t lane = 0; lane < N_PARTIAL; lane++) {
            int finite = is_finite(x[i + lane]);
            double value = finite ? (double)x[i + lane] : 0.0;
            partial[lane] += value * value;
            n_nonfinite[lane] += !finite;
        }
    }
    for (int64_t lane = 0; i + lane < length; lane++) {
        int finite = is_finite(x[i + lane]);
        double value = finite ? (double)x[i + lane] : 0.0;
        partial[lane] += value * value;
        n_nonfinite[lane] += !finite;
    }
    double sum = 0.0;
    int32_t n_all = 0;
    for (int64_t lane = 0; lane < N_PARTIAL; lane++) {
        sum += partial[lane];
        n_all += n_nonfinite[lane];
    }
    es_env_f64(job->sum_squares, e)[span] = sum;
    es_env_i32(job->n_nonfinite, e)[span] = n_all;
}

void es_slab_norms_cpu(EsStream *s, EsIn slab, EsIn spans, EsOut sum_squares, EsOut n_nonfinite) {
    SlabNorms job = {.slab = slab,
                     .spans = spans->data,
                     .sum_squares = sum_squares,
                     .n_nonfinite = n_nonfinite,
                     .S = spans->dim[0]};
    es_stream_parallel(s, slab->dim[0] * job.S, measure_span, &job);
}

static void measure_groups(void *context, int64_t e, int worker) {
    (void)worker;
    const SlabNorms *job = context;
    for (int64_t g = 0; g < job->G; g++) {
        double sum = 0.0;
        for (int64_t span = 0; span < job->S; span++) {
            if (job->groups[span] == g) {
                sum += es_env_f64(job->sum_squares, e)[span];
            }
        }
        es_env_f32(job->group_norm, e)[g] = (float)sqrt(sum);
    }
}

static void clip_span(void *context, int64_t piece, int worker) {
    (void)worker;
    const SlabNorms *job = context;
    int64_t e = piece / job->S, span = piece % job->S;
    int64_t group = job->groups[span];
    float max_norm = es_env_f32(job->max_norm, e)[group];
    float scale = max_norm / (es_env_f32(job->group_norm, e)[group] + 1e-6f);
    // a factor of 1 is left out: elements below the limit keep their bits
    if (max_norm > 0.0f && scale < 1.0f) {
        float *x = es_env_f32(job->slab, e) + job->spans[2 * span];
        for (int64_t i = 0; i < job->spans[2 * span + 1]; i++) {
            x[i] *= scale;
        }
    }
}

void es_slab_clip_cpu(EsStream *s, EsIn spans, EsIn groups, EsIn sum_squares, EsIn max_norm,
                      EsOut slab, EsOut group_norm) {
    SlabNorms job = {.slab = slab,
                     .spans = spans->data,
                     .groups = groups->data,
                     .sum_squares = sum_squares,
                     .max_norm = max_norm,
                     .group_norm = group_norm,
                     .S = spans->dim[0],
                     .G = group_norm->dim[1]};
    es_stream_parallel(s, slab->dim[0], measure_groups, &job);
    es_stream_parallel(s, slab->dim[0] * job.S, clip_span, &job);
}

// columns that a piece sums
#define COLUMNS 256

typedef struct TreeSum {
    EsIn slab;
    EsOut y;
} TreeSum;

// The rows [first, first + span) that there are, of `n` columns from `begin`; span is a power of 2.
static void sum_rows(const TreeSum *job, int64_t first, int64_t span, int64_t begin, int64_t n,
                     float *sum) {
    if (span == 1) {
        memcpy(sum, es_env_f32(job->slab, first) + begin, (size_t)n * sizeof(float));
        return;
    }
    float right[COLUMNS];
    int64_t half = span / 2;
    sum_rows(job, first, half, begin, n, sum);
    if (first + half < job->slab->dim[0]) {
        sum_rows(job, first + half, half, begin, n, right);
        for (int64_t i = 0; i < n; i++) {
            sum[i] += right[i];
        }
    }
}

static void sum_columns(void *context, int64_t piece, int worker) {
    (void)worker;
    const TreeSum *job = context;
    int64_t begin = piece * COLUMNS, n = ES_MIN(COLUMNS, job->slab->dim[1] - begin), span = 1;
    float sum[COLUMNS];
    while (span < job->slab->dim[0]) {
        span *= 2;
    }
    sum_rows(job, 0, span, begin, n, sum);
    memcpy((float *)job->y->data + begin, sum, (size_t)n * sizeof(float));
}

void es_tree_sum_cpu(EsStream *s, EsIn slab, EsOut y) {
    TreeSum job = {.slab = slab, .y = y};
    es_stream_parallel(s, (slab->dim[1] + COLUMNS - 1) / COLUMNS, sum_columns, &job);
}

// --- hash ---

typedef struct Hashing {
    EsIn slab;
    EsOut hash;
} Hashing;

static void hash_row(void *context, int64_t e, int worker) {
    (void)worker;
    const Hashing *job = context;
    const float *row = es_env_f32(job->slab, e);
    uint64_t sum = 0;
    for (int64_t j = 0; j < job->slab->dim[1]; j++) {
        uint32_t word;
        memcpy(&word, &row[j], sizeof word);
        sum += es_hash_word((uint64_t)j, word);
    }
    memcpy((int64_t *)job->hash->data + e, &sum, sizeof sum);
}

void es_slab_hash_cpu(EsStream *s, EsIn slab, EsOut hash) {
    Hashing job = {slab, hash};
    es_stream_parallel(s, slab->dim[0], hash_row, &job);
}

// --- masked copy ---

typedef struct Copy {
    const EsTensor *mask, *from, *to;
} Copy;

static void copy_env(void *context, int64_t env, int worker) {
    (void)worker;
    const Copy *copy = context;
    if (((const uint8_t *)copy->mask->data)[env] != 0) {
        memcpy(es_env_f32(copy->to, env), es_env_f32(copy->from, env),
               (size_t)copy->from->dim[1] * sizeof(float));
    }
}

void es_masked_copy_cpu(EsStream *s, EsIn mask, EsIn from, EsOut to) {
    Copy copy = {mask, from, to};
    es_stream_parallel(s, from->dim[0], copy_env, &copy);
}
