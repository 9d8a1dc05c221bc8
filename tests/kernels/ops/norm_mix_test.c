// Letters: E environments, N images, C channels, H W height and width.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, C, H, W;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, 1, 1, "case0"}, {2, 3, 5, 4, 3, "case1"}, {3, 2, 8, 7, 5, "case2"},
    {1, 1, 1, 31, 33, NULL},  {2, 1, 5, 5, 41, NULL},   {3, 129, 1, 1, 1, NULL},
    {2, 5, 3, 33, 34, NULL}, // one piece of the CPU's work and a little
};

static void run(const EsCaseRun *r) {
    const EsTensor *x = es_case_at(r, "x"), *n = es_case_at(r, "n"), *g = es_case_at(r, "g");
    r->kernels->norm_mix_forward(r->stream, x, n, g, es_case_at(r, "y"));
    r->kernels->norm_mix_backward(r->stream, x, n, g, es_case_at(r, "d_y"), es_case_at(r, "d_x"),
                                  es_case_at(r, "d_n"), es_case_at(r, "d_g"));
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *n = es_case_initial(c, "n");
    const double *g = es_case_initial(c, "g"), *d_y = es_case_initial(c, "d_y");
    int64_t count = s->N * s->C * s->H * s->W;
    for (int64_t i = 0; i < s->E * count; i++) {
        double t = tanh(g[i / count]), slope = 1.0 - t * t;
        if (strcmp(output, "d_g") == 0) {
            expected[i / count] += slope * d_y[i] * (n[i] - x[i]);
        } else if (strcmp(output, "y") == 0) {
            expected[i] = (1.0 - t) * x[i] + t * n[i];
        } else {
            expected[i] = d_y[i] * (strcmp(output, "d_x") == 0 ? 1.0 - t : t);
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    const int64_t dims[] = {s->E, s->N, s->C, s->H, s->W};
    es_case_begin(c, "norm_mix", s->golden, run, s);
    c->expect = expect;
    // a few roundings of values up to 3
    c->reference = (EsCaseBound){5e-7, 5e-7};
    c->parity = (EsCaseBound){1e-6, 1e-6};
    es_case_activation(c, ES_CASE_INPUT, "x", 5, dims);
    es_case_activation(c, ES_CASE_INPUT, "n", 5, dims)->high = 2.0;
    es_case_activation(c, ES_CASE_INPUT, "d_y", 5, dims);
    es_case_parameter(c, ES_CASE_INPUT, "g", ES_DIMS(s->E, 1));
    es_case_activation(c, ES_CASE_OUTPUT, "y", 5, dims);
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", 5, dims);
    es_case_activation(c, ES_CASE_OUTPUT, "d_n", 5, dims);
    es_case_parameter(c, ES_CASE_OUTPUT, "d_g", ES_DIMS(s->E, 1))->scale =
        sqrt((double)(s->N * s->C * s->H * s->W));
}

ES_KERNEL_TESTS(shapes, build)
