// Letters: E environments, N images, C channels, H W height and width.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, C, H, W;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, 1, 1, "case0"}, {2, 3, 5, 4, 3, "case1"}, {3, 2, 8, 7, 5, "case2"},
    {1, 1, 1, 31, 33, NULL},  {2, 1, 3, 5, 41, NULL},   {3, 129, 1, 1, 1, NULL},
    {1, 2, 33, 3, 11, NULL},
};

static void run(const EsCaseRun *r) {
    const EsTensor *x = es_case_at(r, "x"), *w = es_case_at(r, "w");
    r->kernels->channel_scale_forward(r->stream, x, w, es_case_at(r, "y"));
    r->kernels->channel_scale_backward(r->stream, x, w, es_case_at(r, "d_y"), es_case_at(r, "d_x"),
                                       es_case_at(r, "d_w"));
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *w = es_case_initial(c, "w");
    const double *d_y = es_case_initial(c, "d_y");
    int64_t area = s->H * s->W;
    for (int64_t i = 0; i < s->E * s->N * s->C * area; i++) {
        if (strcmp(output, "d_w") == 0) {
            expected[i / area] += d_y[i] * x[i];
        } else {
            expected[i] = (strcmp(output, "y") == 0 ? x[i] : d_y[i]) * w[i / area];
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    const int64_t dims[] = {s->E, s->N, s->C, s->H, s->W};
    es_case_begin(c, "channel_scale", s->golden, run, s);
    c->expect = expect;
    // one rounding each, the sum too
    c->reference = (EsCaseBound){1e-8, 6e-8};
    c->parity = (EsCaseBound){1e-7, 2e-7};
    es_case_activation(c, ES_CASE_INPUT, "x", 5, dims)->high = 2.0;
    es_case_activation(c, ES_CASE_INPUT, "w", 3, dims);
    es_case_activation(c, ES_CASE_INPUT, "d_y", 5, dims);
    es_case_activation(c, ES_CASE_OUTPUT, "y", 5, dims);
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", 5, dims);
    es_case_activation(c, ES_CASE_OUTPUT, "d_w", 3, dims)->scale = sqrt((double)(s->H * s->W));
}

ES_KERNEL_TESTS(shapes, build)
