// Letters: E environments, N images, I and O channels in and out, H W height and width, K kernel
// size.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, I, O, H, W, K;
    int has_bias;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, "case0"}, {2, 2, 3, 8, 8, 8, 3, 1, "case1"},
    {3, 1, 5, 3, 5, 7, 5, 0, "case2"}, {2, 3, 3, 5, 4, 3, 1, 1, "case3"},
    {1, 2, 2, 3, 2, 5, 7, 1, "case4"}, // a map smaller than the kernel
    {2, 4, 3, 8, 8, 8, 3, 0, NULL},    {2, 4, 8, 16, 8, 8, 5, 1, NULL},
    {1, 1, 1, 1, 1, 33, 3, 1, NULL},   {1, 1, 1, 5, 31, 1, 3, 1, NULL},
    {3, 1, 8, 8, 9, 9, 3, 1, NULL},    {1, 2, 33, 31, 5, 5, 3, 0, NULL},
    {1, 1, 3, 5, 33, 31, 3, 1, NULL},  {1, 3, 16, 17, 4, 4, 1, 1, NULL},
    {2, 5, 1, 8, 16, 16, 3, 1, NULL},
};

static void run(const EsCaseRun *r) {
    const EsTensor *x = es_case_at(r, "x"), *weight = es_case_at(r, "weight");
    const EsTensor *d_y = es_case_at(r, "d_y");
    r->kernels->conv2d_forward(r->stream, x, weight, es_case_at(r, "bias"), es_case_at(r, "y"));
    r->kernels->conv2d_backward_input(r->stream, weight, d_y, es_case_at(r, "d_x"));
    r->kernels->conv2d_backward_weight(r->stream, x, d_y, es_case_at(r, "d_weight"),
                                       es_case_at(r, "d_bias"));
}

// One (e, n, o, i): every tap of every position, by the formula of the contract.
static void expect_planes(const Shape *s, const char *output, const double *x, const double *weight,
                          const double *d_y, double *x_side, double *weight_side, double *y_side) {
    int64_t pad = s->K / 2;
    for (int64_t r = 0; r < s->H; r++) {
        for (int64_t c = 0; c < s->W; c++) {
            for (int64_t u = 0; u < s->K; u++) {
                for (int64_t v = 0; v < s->K; v++) {
                    int64_t row = r + u - pad, column = c + v - pad;
                    if (row < 0 || row >= s->H || column < 0 || column >= s->W) {
                        continue;
                    }
                    int64_t at_x = row * s->W + column, at_w = u * s->K + v, at_y = r * s->W + c;
                    if (strcmp(output, "y") == 0) {
                        y_side[at_y] += weight[at_w] * x[at_x];
                    } else if (strcmp(output, "d_x") == 0) {
                        x_side[at_x] += weight[at_w] * d_y[at_y];
                    } else {
                        weight_side[at_w] += x[at_x] * d_y[at_y];
                    }
                }
            }
        }
    }
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *weight = es_case_initial(c, "weight");
    const double *bias = es_case_initial(c, "bias"), *d_y = es_case_initial(c, "d_y");
    int64_t area = s->H * s->W, taps = s->K * s->K;
    for (int64_t image = 0; image < s->E * s->N; image++) {
        int64_t e = image / s->N;
        for (int64_t o = 0; o < s->O; o++) {
            int64_t at_y = (image * s->O + o) * area;
            for (int64_t k = 0; k < area; k++) {
                if (strcmp(output, "d_bias") == 0) {
                    expected[e * s->O + o] += d_y[at_y + k];
                } else if (strcmp(output, "y") == 0) {
                    expected[at_y + k] = bias == NULL ? 0.0 : bias[e * s->O + o];
                }
            }
            for (int64_t i = 0; i < s->I && strcmp(output, "d_bias") != 0; i++) {
                int64_t at_x = (image * s->I + i) * area;
                int64_t at_w = ((e * s->O + o) * s->I + i) * taps;
                expect_planes(s, output, x + at_x, weight + at_w, d_y + at_y, expected + at_x,
                              expected + at_w, expected + at_y);
            }
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "conv2d", s->golden, run, s);
    c->expect = expect;
    // as matmul: sums of n products of values up to 1
    c->reference = (EsCaseBound){8e-6, 1e-7};
    c->parity = (EsCaseBound){1.6e-5, 1e-6};
    double over_map = sqrt((double)(s->N * s->H * s->W));
    double taps = (double)(s->K * s->K);
    es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->I, s->H, s->W));
    es_case_parameter(c, ES_CASE_INPUT, "weight", ES_DIMS(s->E, s->O, s->I, s->K, s->K));
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->N, s->O, s->H, s->W));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->O, s->H, s->W))->scale =
        sqrt((double)s->I * taps);
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", ES_DIMS(s->E, s->N, s->I, s->H, s->W))->scale =
        sqrt((double)s->O * taps);
    es_case_parameter(c, ES_CASE_OUTPUT, "d_weight", ES_DIMS(s->E, s->O, s->I, s->K, s->K))->scale =
        over_map;
    if (s->has_bias) {
        es_case_parameter(c, ES_CASE_INPUT, "bias", ES_DIMS(s->E, s->O));
        es_case_parameter(c, ES_CASE_OUTPUT, "d_bias", ES_DIMS(s->E, s->O))->scale = over_map;
    }
}

ES_KERNEL_TESTS(shapes, build)
