// Optimiser steps that leave out environments whose gradient is not finite. The step itself is
// checked in optimiser_test.c. Letters: E environments, P parameters of one, S spans.
#include "es_test.h"
#include "kernels/kernel_case.h"

#define N_SPANS 2

typedef struct Shape {
    int is_adam;
    int64_t E, P;
} Shape;

static const Shape shapes[] = {
    {0, 1, 1}, {0, 9, 17}, {0, 8, 4097}, {1, 1, 1}, {1, 9, 17}, {1, 8, 4097},
};

static const EsAdamOptions adam_options = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};

static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    const EsTensor *gradient = es_case_at(r, "gradient"), *parameter = es_case_at(r, "parameter");
    const EsTensor *counts = es_case_at(r, "n_nonfinite");
    if (s->is_adam) {
        r->kernels->adam_step_finite(r->stream, adam_options, es_case_at(r, "rate"), counts,
                                     gradient, es_case_at(r, "moment1"), es_case_at(r, "moment2"),
                                     es_case_at(r, "n_steps"), parameter);
    } else {
        EsSgdRates rates = {.learning_rate = *es_case_at(r, "rate"),
                            .momentum = *es_case_at(r, "momentum_rate"),
                            .weight_decay = *es_case_at(r, "weight_decay")};
        r->kernels->sgd_step_finite(r->stream, &rates, counts, gradient, es_case_at(r, "momentum"),
                                    parameter);
    }
}

static int is_skipped(const EsCase *c, int64_t e) {
    const double *counts = es_case_initial(c, "n_nonfinite") + e * N_SPANS;
    return counts[0] > 0.0 || counts[1] > 0.0;
}

static double step_sgd(const EsCase *c, const char *output, int64_t e, int64_t i) {
    double p = es_case_initial(c, "parameter")[i];
    double momentum = es_case_initial(c, "momentum_rate")[e] * es_case_initial(c, "momentum")[i] +
                      es_case_initial(c, "gradient")[i] + es_case_initial(c, "weight_decay")[e] * p;
    return strcmp(output, "parameter") == 0 ? p - es_case_initial(c, "rate")[e] * momentum
                                            : momentum;
}

static double step_adam(const EsCase *c, const char *output, int64_t e, int64_t i) {
    double beta1 = (double)adam_options.beta1, beta2 = (double)adam_options.beta2;
    double g = es_case_initial(c, "gradient")[i], n = es_case_initial(c, "n_steps")[e] + 1.0;
    double first = beta1 * es_case_initial(c, "moment1")[i] + (1.0 - beta1) * g;
    double second = beta2 * es_case_initial(c, "moment2")[i] + (1.0 - beta2) * g * g;
    double p = es_case_initial(c, "parameter")[i] -
               es_case_initial(c, "rate")[e] * first / (1.0 - pow(beta1, n)) /
                   (sqrt(second / (1.0 - pow(beta2, n))) + (double)adam_options.epsilon);
    return strcmp(output, "parameter") == 0 ? p : strcmp(output, "moment1") == 0 ? first : second;
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *before = es_case_initial(c, output);
    int is_count = strcmp(output, "n_steps") == 0;
    for (int64_t i = 0; i < (is_count ? s->E : s->E * s->P); i++) {
        int64_t e = is_count ? i : i / s->P;
        double after = is_count     ? before[i] + 1.0
                       : s->is_adam ? step_adam(c, output, e, i)
                                    : step_sgd(c, output, e, i);
        expected[i] = is_skipped(c, e) ? before[i] : after;
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "finite_step", NULL, run, s);
    c->expect = expect;
    es_case_parameter(c, ES_CASE_INPUT, "gradient", ES_DIMS(s->E, s->P));
    es_case_parameter(c, ES_CASE_STATE, "parameter", ES_DIMS(s->E, s->P));
    es_case_parameter(c, ES_CASE_INPUT, "rate", ES_DIMS(s->E))->low = 0.001;
    // one environment alone takes its step; of several, about half of them
    es_case_integers(c, ES_CASE_INPUT, "n_nonfinite", ES_DTYPE_I32, s->E > 1 ? -2 : 0,
                     s->E > 1 ? 1 : 0, ES_DIMS(s->E, N_SPANS));
    if (s->is_adam) {
        es_case_parameter(c, ES_CASE_STATE, "moment1", ES_DIMS(s->E, s->P));
        es_case_parameter(c, ES_CASE_STATE, "moment2", ES_DIMS(s->E, s->P))->low = 0.1;
        es_case_integers(c, ES_CASE_STATE, "n_steps", ES_DTYPE_I32, 0, 2000, ES_DIMS(s->E))->scale =
            0.0;
    } else {
        es_case_parameter(c, ES_CASE_STATE, "momentum", ES_DIMS(s->E, s->P));
        es_case_parameter(c, ES_CASE_INPUT, "momentum_rate", ES_DIMS(s->E));
        es_case_parameter(c, ES_CASE_INPUT, "weight_decay", ES_DIMS(s->E));
    }
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)

// Both kinds of environment are among the cases.
TEST(some_are_skipped_and_some_are_not) {
    for (size_t i = 0; i < ES_COUNT_OF(shapes); i++) {
        EsCase c;
        build(&c, &shapes[i]);
        EXPECT_EQ(es_case_check_reference(&c), 0);
        int64_t n_skipped = 0;
        for (int64_t e = 0; e < shapes[i].E; e++) {
            n_skipped += is_skipped(&c, e);
        }
        EXPECT(shapes[i].E == 1 ? n_skipped == 0 : n_skipped > 0 && n_skipped < shapes[i].E);
        es_case_end(&c);
    }
}
