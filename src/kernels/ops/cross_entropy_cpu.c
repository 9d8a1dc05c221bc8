// E environments, N rows, K classes.
#include <math.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"

// rows of one piece of the backward pass
#define ROWS_PER_PIECE 64

typedef struct CrossEntropy {
    EsIn logits, labels;
    EsIn d_loss; // nullable
    EsOut loss, d_logits, n_correct, n_invalid;
    float smoothing;
    int64_t N, K, n_blocks;
} CrossEntropy;

static int64_t find_first_largest(const float *logits, int64_t K) {
    int64_t best = 0;
    for (int64_t k = 1; k < K; k++) {
        if (logits[k] > logits[best]) {
            best = k;
        }
    }
    return best;
}

// sum of exp(logit - largest): at least 1, so its logarithm is safe for logits of any size
static double sum_exponentials(const float *logits, int64_t K, float largest) {
    double sum = 0.0;
    for (int64_t k = 0; k < K; k++) {
        sum += (double)expf(logits[k] - largest);
    }
    return sum;
}

// smoothing times (logit of the label - mean of all): the difference that it makes to a row's loss
static double smooth(const CrossEntropy *job, const float *logits, int32_t label) {
    double sum = 0.0;
    for (int64_t k = 0; k < job->K; k++) {
        sum += (double)logits[k];
    }
    return (double)job->smoothing * ((double)logits[label] - sum / (double)job->K);
}

static void forward_environment(void *context, int64_t e, int worker) {
    (void)worker;
    const CrossEntropy *job = context;
    const int32_t *labels = es_env_i32(job->labels, e);
    double loss_sum = 0.0;
    int32_t n_correct = 0, n_invalid = 0;
    for (int64_t n = 0; n < job->N; n++) {
        const float *logits = es_env_f32(job->logits, e) + n * job->K;
        int32_t label = labels[n];
        if (label < 0 || label >= job->K) {
            n_invalid++;
            continue;
        }
        int64_t best = find_first_largest(logits, job->K);
        double log_sum = log(sum_exponentials(logits, job->K, logits[best]));
        loss_sum += log_sum + ((double)logits[best] - (double)logits[label]);
        loss_sum += job->smoothing > 0.0f ? smooth(job, logits, label) : 0.0;
        n_correct += best == label;
    }
    *es_env_f32(job->loss, e) = (float)(loss_sum / (double)job->N);
    *es_env_i32(job->n_correct, e) = n_correct;
    *es_env_i32(job->n_invalid, e) = n_invalid;
}

void es_cross_entropy_forward_cpu(EsStream *s, float smoothing, EsIn logits, EsIn labels,
                                  EsOut loss, EsOut n_correct, EsOut n_invalid) {
    CrossEntropy job = {.smoothing = smoothing,
                        .logits = logits,
                        .labels = labels,
                        .loss = loss,
                        .n_correct = n_correct,
                        .n_invalid = n_invalid,
                        .N = logits->dim[1],
                        .K = logits->dim[2]};
    es_stream_parallel(s, logits->dim[0], forward_environment, &job);
}

static void backward_row(const CrossEntropy *job, int64_t e, int64_t n) {
    const float *logits = es_env_f32(job->logits, e) + n * job->K;
    float *d_logits = es_env_f32(job->d_logits, e) + n * job->K;
    int32_t label = es_env_i32(job->labels, e)[n];
    if (label < 0 || label >= job->K) {
        for (int64_t k = 0; k < job->K; k++) {
            d_logits[k] = 0.0f;
        }
        return;
    }
    float largest = logits[find_first_largest(logits, job->K)];
    float inv_sum = (float)(1.0 / sum_exponentials(logits, job->K, largest));
    float scale = (job->d_loss != NULL ? *es_env_f32(job->d_loss, e) : 1.0f) / (float)job->N;
    float others = job->smoothing / (float)job->K, of_label = 1.0f - job->smoothing + others;
    for (int64_t k = 0; k < job->K; k++) {
        float probability = expf(logits[k] - largest) * inv_sum;
        d_logits[k] = (probability - (k == label ? of_label : others)) * scale;
    }
}

static void backward_rows(void *context, int64_t piece, int worker) {
    (void)worker;
    const CrossEntropy *job = context;
    int64_t e = piece / job->n_blocks;
    int64_t begin = piece % job->n_blocks * ROWS_PER_PIECE;
    int64_t end = ES_MIN(begin + ROWS_PER_PIECE, job->N);
    for (int64_t n = begin; n < end; n++) {
        backward_row(job, e, n);
    }
}

void es_cross_entropy_backward_cpu(EsStream *s, float smoothing, EsIn logits, EsIn labels,
                                   EsIn d_loss, EsOut d_logits) {
    CrossEntropy job = {.smoothing = smoothing,
                        .logits = logits,
                        .labels = labels,
                        .d_loss = d_loss,
                        .d_logits = d_logits,
                        .N = logits->dim[1],
                        .K = logits->dim[2]};
    job.n_blocks = (job.N + ROWS_PER_PIECE - 1) / ROWS_PER_PIECE;
    es_stream_parallel(s, logits->dim[0] * job.n_blocks, backward_rows, &job);
}
