// Copies of masked environments.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, P;
} Shape;

static const Shape shapes[] = {{1, 1}, {2, 31}, {3, 33}, {5, 1025}, {7, 4097}};

static void run(const EsCaseRun *r) {
    r->kernels->masked_copy(r->stream, es_case_at(r, "mask"), es_case_at(r, "from"),
                            es_case_at(r, "to"));
}

static int expect(const EsCase *c, const char *output, double *expected) {
    (void)output;
    const Shape *s = c->settings;
    const double *mask = es_case_initial(c, "mask"), *from = es_case_initial(c, "from"),
                 *to = es_case_initial(c, "to");
    for (int64_t i = 0; i < s->E * s->P; i++) {
        expected[i] = mask[i / s->P] != 0.0 ? from[i] : to[i];
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "masked_copy", NULL, run, s);
    c->expect = expect;
    c->reference = c->parity = c->parity_bf16 = (EsCaseBound){0.0, 0.0};
    es_case_integers(c, ES_CASE_INPUT, "mask", ES_DTYPE_U8, 0, 1, ES_DIMS(s->E));
    es_case_parameter(c, ES_CASE_INPUT, "from", ES_DIMS(s->E, s->P));
    es_case_parameter(c, ES_CASE_STATE, "to", ES_DIMS(s->E, s->P));
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)
