#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, V, D, N;
    const char *golden;
} Shape;

// around the 256 ids and the 64 columns of a piece
static const Shape shapes[] = {
    {1, 1, 1, 1, "case0"}, {2, 5, 3, 7, "case1"},  {3, 4, 65, 9, "case2"},  {1, 3, 8, 257, "case3"},
    {2, 7, 63, 255, NULL}, {1, 40, 64, 256, NULL}, {4, 300, 129, 31, NULL}, {1, 2, 1, 1000, NULL},
};

static void run(const EsCaseRun *r) {
    const EsTensor *ids = es_case_at(r, "ids");
    r->kernels->embedding_forward(r->stream, es_case_at(r, "table"), ids, es_case_at(r, "y"),
                                  es_case_at(r, "n_invalid"));
    r->kernels->embedding_backward(r->stream, ids, es_case_at(r, "d_y"), es_case_at(r, "d_table"));
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *table = es_case_initial(c, "table"), *d_y = es_case_initial(c, "d_y");
    memset(expected, 0,
           sizeof(double) * (size_t)(s->E * (strcmp(output, "y") == 0         ? s->N * s->D
                                             : strcmp(output, "d_table") == 0 ? s->V * s->D
                                                                              : 1)));
    for (int64_t row = 0; row < s->E * s->N; row++) {
        int64_t e = row / s->N, id = (int64_t)es_case_initial(c, "ids")[row];
        int is_valid = id >= 0 && id < s->V;
        if (strcmp(output, "n_invalid") == 0) {
            expected[e] += !is_valid;
            continue;
        }
        for (int64_t d = 0; is_valid && d < s->D; d++) {
            int64_t cell = (e * s->V + id) * s->D + d;
            if (strcmp(output, "y") == 0) {
                expected[row * s->D + d] = table[cell];
            } else {
                expected[cell] += d_y[row * s->D + d];
            }
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "embedding", s->golden, run, s);
    c->expect = expect;
    es_case_parameter(c, ES_CASE_INPUT, "table", ES_DIMS(s->E, s->V, s->D));
    es_case_integers(c, ES_CASE_INPUT, "ids", ES_DTYPE_I32, -1, (int)s->V, ES_DIMS(s->E, s->N));
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->N, s->D));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->D));
    // up to 500 rows of magnitude 1 meet in one row of the table
    es_case_parameter(c, ES_CASE_OUTPUT, "d_table", ES_DIMS(s->E, s->V, s->D))->scale = 5.0;
    es_case_integers(c, ES_CASE_OUTPUT, "n_invalid", ES_DTYPE_I32, 0, 0, ES_DIMS(s->E))->scale =
        0.0;
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)

static const Shape small[] = {{1, 1, 1, 1, NULL}, {2, 5, 3, 7, NULL}, {1, 3, 65, 9, NULL}};
ES_KERNEL_GRADIENT(small, build)
