// E environments, P parameters of one.
#include <math.h>

#include "kernels/env_data.h"
#include "kernels/kernel_variant.h"
#include "kernels/kernels.h"
#include "kernels/ops/schedule_rules.h"

#define PARAMETERS_PER_PIECE 4096

// Has a gradient of this environment to be kept out? `n_nonfinite` is nullable.
static int is_skipped(EsIn n_nonfinite, int64_t e) {
    for (int64_t span = 0; n_nonfinite != NULL && span < n_nonfinite->dim[1]; span++) {
        if (es_env_i32(n_nonfinite, e)[span] > 0) {
            return 1;
        }
    }
    return 0;
}

typedef struct Sgd {
    const EsSgdRates *rates;
    EsIn n_nonfinite; // nullable
    EsIn gradient;
    EsOut momentum, parameter;
    int64_t P, n_blocks;
} Sgd;

static void step_sgd(void *context, int64_t piece, int worker) {
    (void)worker;
    const Sgd *job = context;
    int64_t e = piece / job->n_blocks;
    if (is_skipped(job->n_nonfinite, e)) {
        return;
    }
    int64_t begin = piece % job->n_blocks * PARAMETERS_PER_PIECE;
    int64_t n = ES_MIN(PARAMETERS_PER_PIECE, job->P - begin);
    const float *ES_RESTRICT gradient = es_env_f32(job->gradient, e) + begin;
    float *ES_RESTRICT momentum = es_env_f32(job->momentum, e) + begin;
    float *ES_RESTRICT parameter = es_env_f32(job->parameter, e) + begin;
    float learning_rate = *es_env_f32(&job->rates->learning_rate, e);
    float keep = *es_env_f32(&job->rates->momentum, e);
    if (job->rates->update.data != NULL) {
        learning_rate *=
            es_schedule_share(&job->rates->schedule, *es_env_i32(&job->rates->update, 0));
    }
    float decay = *es_env_f32(&job->rates->weight_decay, e);
    if (job->rates->is_nesterov) {
        for (int64_t i = 0; i < n; i++) {
            float d = gradient[i] + decay * parameter[i];
            momentum[i] = keep * momentum[i] + d;
            parameter[i] -= learning_rate * (d + keep * momentum[i]);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float d = gradient[i] + decay * parameter[i];
        momentum[i] = keep * momentum[i] + d;
        parameter[i] -= learning_rate * momentum[i];
    }
}

void ES_CPU_KERNEL(sgd_step_finite)(EsStream *s, const EsSgdRates *rates, EsIn n_nonfinite,
                                    EsIn gradient, EsOut momentum, EsOut parameter) {
    Sgd job = {.rates = rates,
               .n_nonfinite = n_nonfinite,
               .gradient = gradient,
               .momentum = momentum,
               .parameter = parameter,
               .P = parameter->dim[1]};
    job.n_blocks = (job.P + PARAMETERS_PER_PIECE - 1) / PARAMETERS_PER_PIECE;
    es_stream_parallel(s, parameter->dim[0] * job.n_blocks, step_sgd, &job);
}

void ES_CPU_KERNEL(sgd_step)(EsStream *s, const EsSgdRates *rates, EsIn gradient, EsOut momentum,
                             EsOut parameter) {
    ES_CPU_KERNEL(sgd_step_finite)(s, rates, NULL, gradient, momentum, parameter);
}

typedef struct Adam {
    EsAdamOptions options;
    EsIn learning_rate, n_nonfinite, gradient;
    EsOut moment1, moment2, parameter;
    EsIn n_steps; // already advanced
    int64_t P, n_blocks;
} Adam;

static void step_adam(void *context, int64_t piece, int worker) {
    (void)worker;
    const Adam *job = context;
    int64_t e = piece / job->n_blocks;
    if (is_skipped(job->n_nonfinite, e)) {
        return;
    }
    int64_t begin = piece % job->n_blocks * PARAMETERS_PER_PIECE;
    int64_t n = ES_MIN(PARAMETERS_PER_PIECE, job->P - begin);
    const float *ES_RESTRICT gradient = es_env_f32(job->gradient, e) + begin;
    float *ES_RESTRICT moment1 = es_env_f32(job->moment1, e) + begin;
    float *ES_RESTRICT moment2 = es_env_f32(job->moment2, e) + begin;
    float *ES_RESTRICT parameter = es_env_f32(job->parameter, e) + begin;
    float beta1 = job->options.beta1, beta2 = job->options.beta2;
    double n_steps = (double)*es_env_i32(job->n_steps, e);
    // in double: 1 - b^n loses half its digits in float while n is small
    float correction1 = (float)(1.0 - pow((double)beta1, n_steps));
    float correction2 = (float)(1.0 - pow((double)beta2, n_steps));
    float learning_rate = *es_env_f32(job->learning_rate, e), epsilon = job->options.epsilon;
    for (int64_t i = 0; i < n; i++) {
        moment1[i] = beta1 * moment1[i] + (1.0f - beta1) * gradient[i];
        moment2[i] = beta2 * moment2[i] + (1.0f - beta2) * (gradient[i] * gradient[i]);
        float denominator = sqrtf(moment2[i] / correction2) + epsilon;
        parameter[i] -= learning_rate * (moment1[i] / correction1) / denominator;
    }
}

void ES_CPU_KERNEL(adam_step_finite)(EsStream *s, EsAdamOptions options, EsIn learning_rate,
                                     EsIn n_nonfinite, EsIn gradient, EsOut moment1, EsOut moment2,
                                     EsOut n_steps, EsOut parameter) {
    for (int64_t e = 0; e < parameter->dim[0]; e++) {
        *es_env_i32(n_steps, e) += !is_skipped(n_nonfinite, e);
    }
    Adam job = {.options = options,
                .learning_rate = learning_rate,
                .n_nonfinite = n_nonfinite,
                .gradient = gradient,
                .moment1 = moment1,
                .moment2 = moment2,
                .parameter = parameter,
                .n_steps = n_steps,
                .P = parameter->dim[1]};
    job.n_blocks = (job.P + PARAMETERS_PER_PIECE - 1) / PARAMETERS_PER_PIECE;
    es_stream_parallel(s, parameter->dim[0] * job.n_blocks, step_adam, &job);
}

void ES_CPU_KERNEL(adam_step)(EsStream *s, EsAdamOptions options, EsIn learning_rate, EsIn gradient,
                              EsOut moment1, EsOut moment2, EsOut n_steps, EsOut parameter) {
    ES_CPU_KERNEL(adam_step_finite)
    (s, options, learning_rate, NULL, gradient, moment1, moment2, n_steps, parameter);
}
