// Letters: E environments, N rows, D features.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N;
    int n;
    int64_t D[ES_CONCAT_MAX];
} Shape;

// one input, one column, around the 64 rows of a piece and the 1024 elements of a block, and as
// many inputs as there can be
static const Shape shapes[] = {
    {1, 1, 1, {1}},
    {2, 3, 2, {5, 1}},
    {3, 7, 3, {1, 12, 3}},
    {1, 63, 2, {8, 8}},
    {2, 64, 2, {7, 9}},
    {1, 65, 4, {1, 1, 1, 13}},
    {2, 5, 2, {116, 12}},
    {1, 3, 2, {1023, 2}},
    {3, 2, ES_CONCAT_MAX, {3, 13, 4, 3, 3, 4, 5, 6, 1, 1, 3, 2}},
};

static const char *const x_names[] = {"x0", "x1", "x2", "x3", "x4",  "x5",
                                      "x6", "x7", "x8", "x9", "x10", "x11"};
static const char *const d_names[] = {"d_x0", "d_x1", "d_x2", "d_x3", "d_x4",  "d_x5",
                                      "d_x6", "d_x7", "d_x8", "d_x9", "d_x10", "d_x11"};

static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    const EsTensor *x[ES_CONCAT_MAX];
    int64_t first = 0;
    for (int i = 0; i < s->n; i++) {
        x[i] = es_case_at(r, x_names[i]);
    }
    r->kernels->concat_forward(r->stream, s->n, x, es_case_at(r, "y"));
    for (int i = 0; i < s->n; i++) {
        r->kernels->concat_backward(r->stream, first, es_case_at(r, "d_y"),
                                    es_case_at(r, d_names[i]));
        first += s->D[i];
    }
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *d_y = es_case_initial(c, "d_y");
    int64_t width = 0, first = 0;
    for (int i = 0; i < s->n; i++) {
        width += s->D[i];
    }
    for (int i = 0; i < s->n; i++) {
        for (int64_t row = 0; row < s->E * s->N; row++) {
            for (int64_t d = 0; d < s->D[i]; d++) {
                if (strcmp(output, "y") == 0) {
                    expected[row * width + first + d] =
                        es_case_initial(c, x_names[i])[row * s->D[i] + d];
                } else if (strcmp(output, d_names[i]) == 0) {
                    expected[row * s->D[i] + d] = d_y[row * width + first + d];
                }
            }
        }
        first += s->D[i];
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    int64_t width = 0;
    es_case_begin(c, "concat", NULL, run, s);
    c->expect = expect;
    // copies: no bit changes, in bf16 neither
    c->reference = c->parity = c->parity_bf16 = (EsCaseBound){0, 0};
    for (int i = 0; i < s->n; i++) {
        es_case_activation(c, ES_CASE_INPUT, x_names[i], ES_DIMS(s->E, s->N, s->D[i]));
        es_case_activation(c, ES_CASE_OUTPUT, d_names[i], ES_DIMS(s->E, s->N, s->D[i]));
        width += s->D[i];
    }
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->N, width));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, width));
}

ES_KERNEL_TESTS(shapes, build)
