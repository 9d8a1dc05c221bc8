// Letters: E environments, R sets, S members of a set, D features.
#include <math.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"

#define SETS_PER_PIECE 16

typedef struct SetJob {
    EsIn members; // [E, R, S, D]
    EsIn w;       // [E, R, S], nullable
    EsIn y, d_y;  // [E, R, D]
    EsIn d_x;     // [E, R, S, D]
    float scale;
    int64_t R, S, D, n_blocks;
} SetJob;

// One set of one environment.
typedef void (*SetFunction)(const SetJob *job, int64_t e, int64_t r);

typedef struct SetWork {
    const SetJob *job;
    SetFunction function;
} SetWork;

static void run_sets(void *context, int64_t piece, int worker) {
    (void)worker;
    const SetWork *work = context;
    int64_t e = piece / work->job->n_blocks;
    int64_t first = piece % work->job->n_blocks * SETS_PER_PIECE;
    for (int64_t r = first; r < ES_MIN(first + SETS_PER_PIECE, work->job->R); r++) {
        work->function(work->job, e, r);
    }
}

static void for_all_sets(EsStream *s, SetJob job, SetFunction function) {
    job.R = job.members->dim[1];
    job.S = job.members->dim[2];
    job.D = job.members->dim[3];
    job.n_blocks = (job.R + SETS_PER_PIECE - 1) / SETS_PER_PIECE;
    SetWork work = {&job, function};
    es_stream_parallel(s, job.members->dim[0] * job.n_blocks, run_sets, &work);
}

static float weight_of(const SetJob *job, int64_t e, int64_t r, int64_t s) {
    return job->w != NULL ? job->scale * es_env_f32(job->w, e)[r * job->S + s] : job->scale;
}

static void sum_set(const SetJob *job, int64_t e, int64_t r) {
    float *y = es_env_f32(job->y, e) + r * job->D;
    const float *x = es_env_f32(job->members, e) + r * job->S * job->D;
    for (int64_t d = 0; d < job->D; d++) {
        y[d] = 0.0f;
    }
    for (int64_t s = 0; s < job->S; s++, x += job->D) {
        float weight = weight_of(job, e, r, s);
        for (int64_t d = 0; d < job->D; d++) {
            y[d] += weight * x[d];
        }
    }
}

static void broadcast_set(const SetJob *job, int64_t e, int64_t r) {
    const float *y = es_env_f32(job->y, e) + r * job->D;
    float *x = es_env_f32(job->members, e) + r * job->S * job->D;
    for (int64_t s = 0; s < job->S; s++, x += job->D) {
        float weight = weight_of(job, e, r, s);
        for (int64_t d = 0; d < job->D; d++) {
            x[d] = weight * y[d];
        }
    }
}

static void take_max(const SetJob *job, int64_t e, int64_t r) {
    float *y = es_env_f32(job->y, e) + r * job->D;
    const float *x = es_env_f32(job->members, e) + r * job->S * job->D;
    for (int64_t d = 0; d < job->D; d++) {
        y[d] = x[d];
    }
    for (int64_t s = 1; s < job->S; s++) {
        x += job->D;
        for (int64_t d = 0; d < job->D; d++) {
            y[d] = x[d] > y[d] || isnan(x[d]) ? x[d] : y[d];
        }
    }
}

static void return_max(const SetJob *job, int64_t e, int64_t r) {
    const float *y = es_env_f32(job->y, e) + r * job->D;
    const float *d_y = es_env_f32(job->d_y, e) + r * job->D;
    const float *x = es_env_f32(job->members, e) + r * job->S * job->D;
    float *d_x = es_env_f32(job->d_x, e) + r * job->S * job->D;
    for (int64_t d = 0; d < job->D; d++) {
        int is_given = 0;
        for (int64_t s = 0; s < job->S; s++) {
            int is_first = !is_given && x[s * job->D + d] == y[d];
            d_x[s * job->D + d] = is_first ? d_y[d] : 0.0f;
            is_given |= is_first;
        }
    }
}

void es_set_sum_cpu(EsStream *s, float scale, EsIn x, EsIn w, EsOut y) {
    for_all_sets(s, (SetJob){.members = x, .w = w, .y = y, .scale = scale}, sum_set);
}

void es_set_broadcast_cpu(EsStream *s, float scale, EsIn y, EsIn w, EsOut x) {
    for_all_sets(s, (SetJob){.members = x, .w = w, .y = y, .scale = scale}, broadcast_set);
}

void es_set_max_forward_cpu(EsStream *s, EsIn x, EsOut y) {
    for_all_sets(s, (SetJob){.members = x, .y = y}, take_max);
}

void es_set_max_backward_cpu(EsStream *s, EsIn x, EsIn y, EsIn d_y, EsOut d_x) {
    for_all_sets(s, (SetJob){.members = x, .y = y, .d_y = d_y, .d_x = d_x}, return_max);
}
