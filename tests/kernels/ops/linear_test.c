// Letters: E environments, N rows, I inputs, O outputs.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, I, O;
    int has_bias;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, 1, 1, "case0"},   {2, 5, 3, 7, 1, "case1"},  {3, 4, 31, 5, 0, "case2"},
    {1, 17, 9, 33, 1, "case3"}, {2, 33, 129, 31, 1, NULL}, {1, 127, 33, 10, 1, NULL},
    {4, 8, 64, 10, 0, NULL},    {1, 129, 16, 65, 1, NULL},
};

static void run(const EsCaseRun *r) {
    const EsTensor *x = es_case_at(r, "x"), *weight = es_case_at(r, "weight");
    const EsTensor *d_y = es_case_at(r, "d_y");
    r->kernels->linear_forward(r->stream, x, weight, es_case_at(r, "bias"), es_case_at(r, "y"));
    r->kernels->linear_backward_input(r->stream, weight, d_y, es_case_at(r, "d_x"));
    r->kernels->linear_backward_weight(r->stream, x, d_y, es_case_at(r, "d_weight"),
                                       es_case_at(r, "d_bias"));
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *weight = es_case_initial(c, "weight");
    const double *bias = es_case_initial(c, "bias"), *d_y = es_case_initial(c, "d_y");
    for (int64_t e = 0; e < s->E; e++) {
        for (int64_t n = 0; n < s->N; n++) {
            for (int64_t o = 0; o < s->O; o++) {
                int64_t at_y = (e * s->N + n) * s->O + o, at_bias = e * s->O + o;
                if (strcmp(output, "y") == 0) {
                    expected[at_y] = bias == NULL ? 0.0 : bias[at_bias];
                } else if (strcmp(output, "d_bias") == 0) {
                    expected[at_bias] += d_y[at_y];
                    continue;
                }
                for (int64_t i = 0; i < s->I; i++) {
                    int64_t at_x = (e * s->N + n) * s->I + i, at_w = (e * s->O + o) * s->I + i;
                    if (strcmp(output, "y") == 0) {
                        expected[at_y] += x[at_x] * weight[at_w];
                    } else if (strcmp(output, "d_x") == 0) {
                        expected[at_x] += d_y[at_y] * weight[at_w];
                    } else {
                        expected[at_w] += d_y[at_y] * x[at_x];
                    }
                }
            }
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "linear", s->golden, run, s);
    c->expect = expect;
    // as matmul: sums of n products of values up to 1
    c->reference = (EsCaseBound){8e-6, 1e-7};
    c->parity = (EsCaseBound){1.6e-5, 1e-6};
    double over_n = sqrt((double)s->N);
    es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->I));
    es_case_parameter(c, ES_CASE_INPUT, "weight", ES_DIMS(s->E, s->O, s->I));
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->N, s->O));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->O))->scale =
        sqrt((double)s->I);
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", ES_DIMS(s->E, s->N, s->I))->scale =
        sqrt((double)s->O);
    es_case_parameter(c, ES_CASE_OUTPUT, "d_weight", ES_DIMS(s->E, s->O, s->I))->scale = over_n;
    if (s->has_bias) {
        es_case_parameter(c, ES_CASE_INPUT, "bias", ES_DIMS(s->E, s->O));
        es_case_parameter(c, ES_CASE_OUTPUT, "d_bias", ES_DIMS(s->E, s->O))->scale = over_n;
    }
}

ES_KERNEL_TESTS(shapes, build)
