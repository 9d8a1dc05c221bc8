// A linear policy with Adam, for tests of PPO: logits, value, action value and auxiliary outputs
// are weights times features. Ragged: one weight vector scores every candidate by its own features.
#ifndef ES_TESTS_LINEAR_MODEL_H
#define ES_TESTS_LINEAR_MODEL_H

#include "es_test.h"
#include "learning/ppo.h"

enum { LINEAR_WEIGHTS_MAX = 256 };

typedef struct LinearModel {
    const EsRollout *rollout;
    int n_features; // of a row
    int n_outputs;  // logits (not ragged), value, action value, auxiliary: one row each
    const float
        *candidates; // ragged: features of every candidate [n logits, n_candidate], borrowed
    int n_candidate;
    double weights[LINEAR_WEIGHTS_MAX]; // [n_outputs, n_features]; ragged: then n_candidate more
    double first[LINEAR_WEIGHTS_MAX], second[LINEAR_WEIGHTS_MAX]; // Adam's moments
    double gradient[LINEAR_WEIGHTS_MAX];
    int n_begun, n_forward, n_steps;
    int spoils_outputs, spoils_gradients; // answer with NaN
} LinearModel;

static int linear_count(const LinearModel *t) {
    return t->n_outputs * t->n_features + t->n_candidate;
}

static LinearModel linear_model(const EsRolloutShape *shape, int n_candidate) {
    int n_logits = n_candidate > 0 ? 0 : shape->policy.n_logits;
    LinearModel t = {.n_features = shape->n_features,
                     .n_outputs = n_logits + 2 + shape->n_targets,
                     .n_candidate = n_candidate};
    if (linear_count(&t) > LINEAR_WEIGHTS_MAX) {
        exit(1);
    }
    return t;
}

static EsStatus linear_begin(void *context, const EsRollout *rollout) {
    LinearModel *t = context;
    t->rollout = rollout;
    t->n_begun++;
    return ES_STATUS_OK;
}

static double linear_dot(const double *weights, const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += weights[i] * (double)x[i];
    }
    return sum;
}

// Address of output `o` of a row.
static float *linear_place(const LinearModel *t, const EsOutputs *outputs, int64_t row, int o) {
    int n_logits = t->n_candidate > 0 ? 0 : t->rollout->shape.policy.n_logits;
    if (o < n_logits) {
        return &outputs->logits[row * n_logits + o];
    }
    if (o < n_logits + 2) {
        return o == n_logits ? &outputs->value[row] : &outputs->action_value[row];
    }
    return &outputs->auxiliary[row * t->rollout->shape.n_targets + (o - n_logits - 2)];
}

static EsStatus linear_forward(void *context, uint32_t pass, EsOutputs *outputs) {
    LinearModel *t = context;
    (void)pass;
    t->n_forward++;
    const EsRollout *r = t->rollout;
    for (int64_t row = 0; row < r->n_rows; row++) {
        const float *x = r->features + row * t->n_features;
        for (int o = 0; o < t->n_outputs; o++) {
            *linear_place(t, outputs, row, o) =
                (float)linear_dot(t->weights + o * t->n_features, x, t->n_features);
        }
    }
    for (int64_t i = 0; t->n_candidate > 0 && i < r->first_logit[r->n_rows]; i++) {
        outputs->logits[i] = (float)linear_dot(t->weights + t->n_outputs * t->n_features,
                                               t->candidates + i * t->n_candidate, t->n_candidate);
    }
    if (t->spoils_outputs) {
        for (int64_t row = 0; row < r->n_rows; row++) {
            outputs->value[row] = (float)NAN;
        }
    }
    return ES_STATUS_OK;
}

static void linear_adam(LinearModel *t, double learning_rate) {
    t->n_steps++;
    double a = 1 - pow(0.9, t->n_steps), b = 1 - pow(0.999, t->n_steps);
    for (int i = 0; i < linear_count(t); i++) {
        double g = t->gradient[i];
        t->first[i] = 0.9 * t->first[i] + 0.1 * g;
        t->second[i] = 0.999 * t->second[i] + 0.001 * g * g;
        t->weights[i] -= learning_rate * (t->first[i] / a) / (sqrt(t->second[i] / b) + 1e-5);
    }
}

static EsStatus linear_step(void *context, const EsOutputs *gradients, float learning_rate,
                            float max_norm, EsStepReport *report) {
    LinearModel *t = context;
    const EsRollout *r = t->rollout;
    memset(t->gradient, 0, sizeof t->gradient);
    for (int64_t row = 0; row < r->n_rows; row++) {
        const float *x = r->features + row * t->n_features;
        for (int o = 0; o < t->n_outputs; o++) {
            double d = (double)*linear_place(t, gradients, row, o);
            for (int i = 0; i < t->n_features; i++) {
                t->gradient[o * t->n_features + i] += d * (double)x[i];
            }
        }
    }
    for (int64_t i = 0; t->n_candidate > 0 && i < r->first_logit[r->n_rows]; i++) {
        for (int k = 0; k < t->n_candidate; k++) {
            t->gradient[t->n_outputs * t->n_features + k] +=
                (double)gradients->logits[i] * (double)t->candidates[i * t->n_candidate + k];
        }
    }
    *report = (EsStepReport){.n_nonfinite = t->spoils_gradients};
    double squares = 0;
    for (int i = 0; i < linear_count(t); i++) {
        squares += t->gradient[i] * t->gradient[i];
    }
    report->gradient_norm = sqrt(squares);
    if (report->n_nonfinite > 0) {
        return ES_STATUS_OK;
    }
    double scale = max_norm > 0 ? fmin(1, (double)max_norm / (report->gradient_norm + 1e-6)) : 1;
    for (int i = 0; i < linear_count(t); i++) {
        t->gradient[i] *= scale;
    }
    linear_adam(t, (double)learning_rate);
    return ES_STATUS_OK;
}

static EsPpoModel linear_interface(LinearModel *t) {
    return (EsPpoModel){
        .context = t, .begin = linear_begin, .forward = linear_forward, .step = linear_step};
}

#endif
