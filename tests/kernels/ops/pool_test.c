// Letters: E environments, N images, C channels, H W height and width.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    EsPool kind;
    int64_t E, N, C, H, W;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {ES_POOL_MAX2, 1, 1, 1, 2, 2, "case0"},     {ES_POOL_MAX2, 2, 3, 5, 7, 4, "case1"},
    {ES_POOL_MAX2, 1, 1, 1, 3, 1, NULL}, // no window at all: y is empty, d_x is 0
    {ES_POOL_MAX2, 3, 2, 8, 8, 8, NULL},        {ES_POOL_MAX2, 1, 2, 3, 33, 31, NULL},
    {ES_POOL_AVERAGE2, 1, 1, 1, 2, 2, "case2"}, {ES_POOL_AVERAGE2, 2, 3, 5, 7, 4, "case3"},
    {ES_POOL_AVERAGE2, 1, 2, 3, 31, 33, NULL},  {ES_POOL_AVERAGE2, 2, 4, 8, 8, 8, NULL},
    {ES_POOL_GLOBAL, 1, 1, 1, 2, 2, "case4"},   {ES_POOL_GLOBAL, 2, 3, 5, 7, 4, "case5"},
    {ES_POOL_GLOBAL, 1, 1, 1, 1, 1, NULL},      {ES_POOL_GLOBAL, 3, 2, 33, 3, 43, NULL},
};

static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    const EsTensor *x = es_case_at(r, "x");
    r->kernels->pool_forward(r->stream, s->kind, x, es_case_at(r, "y"));
    r->kernels->pool_backward(r->stream, s->kind, x, es_case_at(r, "d_y"), es_case_at(r, "d_x"));
}

// One window of `rows` x `columns` elements from `corner`; adds to y[at_y] and to d_x.
static void expect_window(const Shape *s, const double *x, int64_t corner, int64_t rows,
                          int64_t columns, double d_y, double *y, double *d_x) {
    double best = -INFINITY, sum = 0.0;
    int64_t at_best = corner;
    for (int64_t k = 0; k < rows * columns; k++) {
        int64_t at = corner + k / columns * s->W + k % columns;
        sum += x[at];
        if (x[at] > best) {
            best = x[at];
            at_best = at;
        }
    }
    double n = (double)(rows * columns);
    if (y != NULL) {
        *y = s->kind == ES_POOL_MAX2 ? best : sum / n;
        return;
    }
    for (int64_t k = 0; k < rows * columns; k++) {
        int64_t at = corner + k / columns * s->W + k % columns;
        d_x[at] = s->kind == ES_POOL_MAX2 ? (at == at_best ? d_y : 0.0) : d_y / n;
    }
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *d_y = es_case_initial(c, "d_y");
    int is_y = strcmp(output, "y") == 0, is_global = s->kind == ES_POOL_GLOBAL;
    int64_t rows = is_global ? s->H : 2, columns = is_global ? s->W : 2;
    int64_t down = s->H / rows, across = s->W / columns, area = s->H * s->W;
    for (int64_t plane = 0; plane < s->E * s->N * s->C; plane++) {
        for (int64_t k = 0; k < down * across; k++) {
            int64_t corner = k / across * rows * s->W + k % across * columns;
            int64_t at_y = plane * down * across + k;
            expect_window(s, x + plane * area, corner, rows, columns, d_y[at_y],
                          is_y ? expected + at_y : NULL, expected + plane * area);
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "pool", s->golden, run, s);
    c->expect = expect;
    c->reference = (EsCaseBound){2e-7, 2e-7};
    c->parity = (EsCaseBound){1e-6, 1e-6};
    // a maximum is exact: a short step keeps it in place; an average is linear: any step does
    c->step = s->kind == ES_POOL_MAX2 ? 1e-4 : 1e-2;
    int is_global = s->kind == ES_POOL_GLOBAL;
    int rank = is_global ? 3 : 5;
    const int64_t small[5] = {s->E, s->N, s->C, s->H / 2, s->W / 2};
    es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    es_case_activation(c, ES_CASE_INPUT, "d_y", rank, small);
    es_case_activation(c, ES_CASE_OUTPUT, "y", rank, small);
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
}

ES_KERNEL_TESTS(shapes, build)

// All elements equal: the gradient belongs to the first of each window.
static void build_ties(EsCase *c, const Shape *s) {
    build(c, s);
    c->golden = NULL;
    c->tensor[0].low = c->tensor[0].high = 0.5;
}

TEST(first_maximum) {
    ES_KERNEL_MODE(reference, shapes, build_ties)
    if (es_device_cuda_count() > 0) {
        ES_KERNEL_MODE(parity, shapes, build_ties)
    }
}
