// Specification of dropout: an element is kept or dropped by its own draw, so that the gradient
// finds the same mask again.
#include "base/random_rules.h"
#include "kernels/env_data.h"
#include "kernels/kernels.h"

// elements of one piece; a multiple of 4, so that a draw's four words stay together
#define ELEMENTS_PER_PIECE 4096

typedef struct Dropout {
    EsDropoutOptions options;
    EsIn episode, step, x;
    EsOut y;
    int64_t n_elements; // of one environment
    int64_t n_blocks;
} Dropout;

static void drop_elements(void *context, int64_t piece, int worker) {
    (void)worker;
    const Dropout *job = context;
    const EsDropoutOptions *options = &job->options;
    int64_t e = piece / job->n_blocks;
    int64_t begin = piece % job->n_blocks * ELEMENTS_PER_PIECE;
    int64_t end = ES_MIN(begin + ELEMENTS_PER_PIECE, job->n_elements);
    uint32_t episode = (uint32_t)*es_env_i32(job->episode, e);
    uint32_t step = (uint32_t)*es_env_i32(job->step, 0);
    const float *x = es_env_f32(job->x, e);
    float *y = es_env_f32(job->y, e);
    float keep = 1.0f - options->probability;
    for (int64_t j = begin; j < end; j += 4) {
        uint32_t draw = (options->layer << 24) ^ (uint32_t)(j / 4);
        EsRandom4 r = es_random_draw(options->seed, episode, ES_PURPOSE_DROPOUT, step, draw);
        for (int64_t i = j; i < ES_MIN(j + 4, end); i++) {
            y[i] = es_random_uniform(r.word[i - j]) >= options->probability ? x[i] / keep : 0.0f;
        }
    }
}

void es_dropout_cpu(EsStream *s, EsDropoutOptions options, EsIn episode, EsIn step, EsIn x,
                    EsOut y) {
    Dropout job = {.options = options,
                   .episode = episode,
                   .step = step,
                   .x = x,
                   .y = y,
                   .n_elements = x->dim[0] > 0 ? es_tensor_count(x) / x->dim[0] : 0};
    job.n_blocks = (job.n_elements + ELEMENTS_PER_PIECE - 1) / ELEMENTS_PER_PIECE;
    es_stream_parallel(s, x->dim[0] * job.n_blocks, drop_elements, &job);
}
