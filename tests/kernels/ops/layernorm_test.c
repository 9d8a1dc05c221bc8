// Letters: E environments, N rows, D features.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, D;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 1, 2, "case0"},   {2, 5, 7, "case1"}, {3, 3, 33, "case2"},
    {1, 9, 129, "case3"}, {2, 3, 1, NULL}, // one value: variance 0
    {1, 127, 31, NULL},   {2, 33, 64, NULL},  {1, 4, 1023, NULL},
    {1, 1, 1025, NULL},   {3, 129, 5, NULL},
};

static void run(const EsCaseRun *r) {
    const EsTensor *x = es_case_at(r, "x"), *gamma = es_case_at(r, "gamma");
    const EsTensor *mean = es_case_at(r, "mean"), *inv_std = es_case_at(r, "inv_std");
    EsNormOptions options = {.epsilon = 1e-5f};
    r->kernels->layernorm_forward(r->stream, options, x, gamma, es_case_at(r, "beta"), mean,
                                  inv_std, es_case_at(r, "y"));
    r->kernels->layernorm_backward(r->stream, x, mean, inv_std, gamma, es_case_at(r, "d_y"),
                                   es_case_at(r, "d_x"), es_case_at(r, "d_gamma"),
                                   es_case_at(r, "d_beta"));
}

static void expect_row(const EsCase *c, const char *output, int64_t row, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x") + row * s->D;
    const double *d_y = es_case_initial(c, "d_y") + row * s->D;
    const double *gamma = es_case_initial(c, "gamma") + row / s->N * s->D;
    const double *beta = es_case_initial(c, "beta") + row / s->N * s->D;
    double n = (double)s->D, mean = 0.0, variance = 0.0, offset = 0.0, tilt = 0.0;
    for (int64_t d = 0; d < s->D; d++) {
        mean += x[d] / n;
    }
    for (int64_t d = 0; d < s->D; d++) {
        variance += (x[d] - mean) * (x[d] - mean) / n;
    }
    double inv_std = 1.0 / sqrt(variance + 1e-5);
    for (int64_t d = 0; d < s->D; d++) {
        offset += d_y[d] * gamma[d] / n;
        tilt += d_y[d] * gamma[d] * (x[d] - mean) * inv_std / n;
    }
    if (strcmp(output, "mean") == 0 || strcmp(output, "inv_std") == 0) {
        expected[row] = strcmp(output, "mean") == 0 ? mean : inv_std;
        return;
    }
    for (int64_t d = 0; d < s->D; d++) {
        double xhat = (x[d] - mean) * inv_std;
        if (strcmp(output, "y") == 0) {
            expected[row * s->D + d] = xhat * gamma[d] + beta[d];
        } else if (strcmp(output, "d_x") == 0) {
            expected[row * s->D + d] = inv_std * (d_y[d] * gamma[d] - offset - xhat * tilt);
        } else {
            expected[row / s->N * s->D + d] +=
                d_y[d] * (strcmp(output, "d_gamma") == 0 ? xhat : 1.0);
        }
    }
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    for (int64_t row = 0; row < s->E * s->N; row++) {
        expect_row(c, output, row, expected);
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "layernorm", s->golden, run, s);
    c->expect = expect;
    // xhat is up to 3 and carries the rounding of x - mean and of inv_std; d_x is inv_std times a
    // difference
    c->reference = (EsCaseBound){2e-6, 2e-6};
    c->parity = (EsCaseBound){4e-6, 4e-6};
    double over_n = sqrt((double)s->N);
    EsCaseTensor *x = es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->D));
    x->low = -2.0;
    x->high = 3.0;
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->N, s->D));
    es_case_parameter(c, ES_CASE_INPUT, "gamma", ES_DIMS(s->E, s->D));
    es_case_parameter(c, ES_CASE_INPUT, "beta", ES_DIMS(s->E, s->D));
    es_case_parameter(c, ES_CASE_OUTPUT, "mean", ES_DIMS(s->E, s->N));
    es_case_parameter(c, ES_CASE_OUTPUT, "inv_std", ES_DIMS(s->E, s->N));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->D));
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", ES_DIMS(s->E, s->N, s->D));
    es_case_parameter(c, ES_CASE_OUTPUT, "d_gamma", ES_DIMS(s->E, s->D))->scale = over_n;
    es_case_parameter(c, ES_CASE_OUTPUT, "d_beta", ES_DIMS(s->E, s->D))->scale = over_n;
}

ES_KERNEL_TESTS(shapes, build)
