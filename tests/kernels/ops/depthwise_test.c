// Letters: E environments, N images, C channels, H W height and width, K kernel size.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, C, H, W, K;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, 1, 1, 1, "case0"}, {2, 2, 5, 8, 8, 3, "case1"}, {3, 1, 3, 3, 7, 5, "case2"},
    {1, 2, 8, 5, 4, 3, "case3"}, {2, 4, 8, 8, 8, 3, NULL},    {1, 1, 33, 5, 5, 3, NULL},
    {1, 1, 1, 1, 33, 5, NULL},   {2, 3, 3, 31, 2, 7, NULL}, // a map narrower than the kernel
    {1, 2, 5, 33, 31, 3, NULL},  {3, 5, 1, 9, 9, 1, NULL},
};

static void run(const EsCaseRun *r) {
    const EsTensor *x = es_case_at(r, "x"), *weight = es_case_at(r, "weight");
    const EsTensor *d_y = es_case_at(r, "d_y");
    r->kernels->depthwise_forward(r->stream, x, weight, es_case_at(r, "y"));
    r->kernels->depthwise_backward_input(r->stream, weight, d_y, es_case_at(r, "d_x"));
    r->kernels->depthwise_backward_weight(r->stream, x, d_y, es_case_at(r, "d_weight"));
}

// One tap (u, v) of one plane.
static void expect_tap(const Shape *s, const char *output, int64_t u, int64_t v, const double *x,
                       double weight, const double *d_y, double *plane, double *weight_side) {
    for (int64_t r = 0; r < s->H; r++) {
        for (int64_t c = 0; c < s->W; c++) {
            int64_t row = r + u - s->K / 2, column = c + v - s->K / 2;
            if (row < 0 || row >= s->H || column < 0 || column >= s->W) {
                continue;
            }
            int64_t at_x = row * s->W + column, at_y = r * s->W + c;
            if (strcmp(output, "y") == 0) {
                plane[at_y] += weight * x[at_x];
            } else if (strcmp(output, "d_x") == 0) {
                plane[at_x] += weight * d_y[at_y];
            } else {
                *weight_side += x[at_x] * d_y[at_y];
            }
        }
    }
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *weight = es_case_initial(c, "weight");
    const double *d_y = es_case_initial(c, "d_y");
    int64_t area = s->H * s->W;
    for (int64_t plane = 0; plane < s->E * s->N * s->C; plane++) {
        int64_t channel = plane / s->C / s->N * s->C + plane % s->C;
        for (int64_t u = 0; u < s->K; u++) {
            for (int64_t v = 0; v < s->K; v++) {
                int64_t at_w = (channel * s->K + u) * s->K + v;
                expect_tap(s, output, u, v, x + plane * area, weight[at_w], d_y + plane * area,
                           expected + plane * area, expected + at_w);
            }
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "depthwise", s->golden, run, s);
    c->expect = expect;
    // as matmul: sums of n products of values up to 1
    c->reference = (EsCaseBound){8e-6, 1e-7};
    c->parity = (EsCaseBound){1.6e-5, 1e-6};
    double taps = (double)s->K;
    es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    es_case_parameter(c, ES_CASE_INPUT, "weight", ES_DIMS(s->E, s->C, s->K, s->K));
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->C, s->H, s->W))->scale = taps;
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", ES_DIMS(s->E, s->N, s->C, s->H, s->W))->scale =
        taps;
    es_case_parameter(c, ES_CASE_OUTPUT, "d_weight", ES_DIMS(s->E, s->C, s->K, s->K))->scale =
        sqrt((double)(s->N * s->H * s->W));
}

ES_KERNEL_TESTS(shapes, build)
