// Letters: E environments, N images, C channels in G groups, H W height and width.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, C, H, W, G;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, 2, 1, 1, "case0"}, {2, 3, 6, 5, 3, 3, "case1"}, {3, 2, 5, 3, 3, 1, "case2"},
    {1, 2, 8, 4, 7, 8, "case3"}, {1, 1, 1, 1, 1, 1, NULL}, // one value: variance 0
    {2, 4, 8, 8, 8, 1, NULL},    {1, 2, 33, 3, 11, 3, NULL},  {1, 3, 32, 1, 1, 8, NULL},
    {3, 5, 3, 31, 33, 1, NULL},  {2, 129, 4, 2, 2, 2, NULL},
};

static EsNormOptions options_of(const Shape *s) {
    return (EsNormOptions){.epsilon = 1e-5f, .n_groups = (int)s->G};
}

static void run(const EsCaseRun *r) {
    const EsTensor *x = es_case_at(r, "x"), *gamma = es_case_at(r, "gamma");
    const EsTensor *mean = es_case_at(r, "mean"), *inv_std = es_case_at(r, "inv_std");
    EsNormOptions options = options_of(r->settings);
    r->kernels->groupnorm_forward(r->stream, options, x, gamma, es_case_at(r, "beta"), mean,
                                  inv_std, es_case_at(r, "y"));
    r->kernels->groupnorm_backward(r->stream, options, x, mean, inv_std, gamma,
                                   es_case_at(r, "d_y"), es_case_at(r, "d_x"),
                                   es_case_at(r, "d_gamma"), es_case_at(r, "d_beta"));
}

// One group (e, n, g); `width` channels of `area` elements, contiguous from `first`.
static void expect_group(const EsCase *c, const char *output, int64_t group, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *d_y = es_case_initial(c, "d_y");
    const double *gamma = es_case_initial(c, "gamma"), *beta = es_case_initial(c, "beta");
    int64_t area = s->H * s->W, width = s->C / s->G, count = width * area, first = group * count;
    int64_t channel0 = group / s->G / s->N * s->C + group % s->G * width;
    double n = (double)count, mean = 0.0, variance = 0.0, offset = 0.0, tilt = 0.0;
    for (int64_t k = 0; k < count; k++) {
        mean += x[first + k] / n;
    }
    for (int64_t k = 0; k < count; k++) {
        variance += (x[first + k] - mean) * (x[first + k] - mean) / n;
    }
    double inv_std = 1.0 / sqrt(variance + 1e-5);
    for (int64_t k = 0; k < count; k++) {
        double g = d_y[first + k] * gamma[channel0 + k / area];
        offset += g / n;
        tilt += g * (x[first + k] - mean) * inv_std / n;
    }
    if (strcmp(output, "mean") == 0 || strcmp(output, "inv_std") == 0) {
        expected[group] = strcmp(output, "mean") == 0 ? mean : inv_std;
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t channel = channel0 + k / area, at = first + k;
        double xhat = (x[at] - mean) * inv_std;
        if (strcmp(output, "y") == 0) {
            expected[at] = xhat * gamma[channel] + beta[channel];
        } else if (strcmp(output, "d_x") == 0) {
            expected[at] = inv_std * (d_y[at] * gamma[channel] - offset - xhat * tilt);
        } else {
            expected[channel] += d_y[at] * (strcmp(output, "d_gamma") == 0 ? xhat : 1.0);
        }
    }
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    for (int64_t group = 0; group < s->E * s->N * s->G; group++) {
        expect_group(c, output, group, expected);
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "groupnorm", s->golden, run, s);
    c->expect = expect;
    // xhat is up to 3 and carries the rounding of x - mean and of inv_std; d_x is inv_std times a
    // difference
    c->reference = (EsCaseBound){2e-6, 2e-6};
    c->parity = (EsCaseBound){4e-6, 4e-6};
    double over_map = sqrt((double)(s->N * s->H * s->W));
    EsCaseTensor *x =
        es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    x->low = -2.0;
    x->high = 3.0;
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    es_case_parameter(c, ES_CASE_INPUT, "gamma", ES_DIMS(s->E, s->C));
    es_case_parameter(c, ES_CASE_INPUT, "beta", ES_DIMS(s->E, s->C));
    es_case_parameter(c, ES_CASE_OUTPUT, "mean", ES_DIMS(s->E, s->N, s->G));
    es_case_parameter(c, ES_CASE_OUTPUT, "inv_std", ES_DIMS(s->E, s->N, s->G));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    es_case_parameter(c, ES_CASE_OUTPUT, "d_gamma", ES_DIMS(s->E, s->C))->scale = over_map;
    es_case_parameter(c, ES_CASE_OUTPUT, "d_beta", ES_DIMS(s->E, s->C))->scale = over_map;
}

ES_KERNEL_TESTS(shapes, build)
