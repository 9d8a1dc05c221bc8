// Letters: E environments, c is M x N, K is summed.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, M, N, K;
    int trans_a, trans_b;
    float beta;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, 1, 0, 0, 0.0f, "case0"},
    {2, 3, 5, 7, 0, 1, 0.0f, "case1"},
    {1, 33, 31, 17, 1, 0, 0.0f, "case2"},
    {3, 5, 8, 31, 1, 1, 0.5f, "case3"},
    {1, 31, 33, 129, 0, 0, 1.0f, NULL},
    {2, 33, 63, 127, 0, 1, -0.5f, NULL},
    {1, 65, 64, 128, 1, 0, 0.0f, NULL},
    {1, 127, 129, 33, 1, 1, 0.0f, NULL},
    {2, 1, 65, 257, 0, 0, 0.0f, NULL},
    {3, 129, 1, 5, 0, 1, 2.0f, NULL},
    {4, 8, 8, 3, 0, 0, 0.0f, NULL},
    // around the tiles, blocks and panels of the vector variants
    {1, 97, 67, 300, 0, 0, 0.5f, NULL},
    {1, 97, 67, 300, 0, 1, 0.5f, NULL},
    {1, 97, 67, 300, 1, 0, 0.5f, NULL},
    {1, 97, 67, 300, 1, 1, 0.5f, NULL},
    {2, 6, 64, 15, 0, 0, 0.0f, NULL},
    {2, 7, 64, 16, 0, 1, 0.0f, NULL},
    {1, 12, 48, 257, 0, 0, 1.0f, NULL},
    {1, 13, 80, 128, 0, 0, 0.0f, NULL},
    {1, 95, 13, 129, 1, 0, 0.0f, NULL},
    {1, 14, 3, 512, 0, 1, 0.0f, NULL},
};

// The gradients of a and b are products too, one for each way of storing them; y is the product
// without the old c.
static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    const EsTensor *a = es_case_at(r, "a"), *b = es_case_at(r, "b"), *d_y = es_case_at(r, "d_y");
    const EsTensor *d_a = es_case_at(r, "d_a"), *d_b = es_case_at(r, "d_b");
    const EsKernels *k = r->kernels;
    k->matmul(r->stream, s->trans_a, s->trans_b, s->beta, a, b, es_case_at(r, "c"));
    k->matmul(r->stream, s->trans_a, s->trans_b, 0.0f, a, b, es_case_at(r, "y"));
    if (s->trans_a) {
        k->matmul(r->stream, s->trans_b, 1, 0.0f, b, d_y, d_a);
    } else {
        k->matmul(r->stream, 0, !s->trans_b, 0.0f, d_y, b, d_a);
    }
    if (s->trans_b) {
        k->matmul(r->stream, 1, s->trans_a, 0.0f, d_y, a, d_b);
    } else {
        k->matmul(r->stream, !s->trans_a, 0, 0.0f, a, d_y, d_b);
    }
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *a = es_case_initial(c, "a"), *b = es_case_initial(c, "b");
    const double *old = es_case_initial(c, "c"), *d_y = es_case_initial(c, "d_y");
    int is_c = strcmp(output, "c") == 0, is_y = strcmp(output, "y") == 0;
    int is_d_a = strcmp(output, "d_a") == 0;
    int64_t n_out = s->E * (is_c || is_y ? s->M * s->N : is_d_a ? s->M * s->K : s->K * s->N);
    for (int64_t i = 0; i < n_out; i++) {
        expected[i] = is_c ? (double)s->beta * old[i] : 0.0;
    }
    for (int64_t e = 0; e < s->E; e++) {
        for (int64_t m = 0; m < s->M; m++) {
            for (int64_t n = 0; n < s->N; n++) {
                for (int64_t k = 0; k < s->K; k++) {
                    int64_t at_a = e * s->M * s->K + (s->trans_a ? k * s->M + m : m * s->K + k);
                    int64_t at_b = e * s->K * s->N + (s->trans_b ? n * s->K + k : k * s->N + n);
                    int64_t at_c = (e * s->M + m) * s->N + n;
                    if (is_c || is_y) {
                        expected[at_c] += a[at_a] * b[at_b];
                    } else if (is_d_a) {
                        expected[at_a] += d_y[at_c] * b[at_b];
                    } else {
                        expected[at_b] += d_y[at_c] * a[at_a];
                    }
                }
            }
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "matmul", s->golden, run, s);
    c->expect = expect;
    // the bound of the contract, for values up to 1; two such results may differ by twice that
    c->reference = (EsCaseBound){8e-6, 1e-7};
    c->parity = (EsCaseBound){1.6e-5, 1e-6};
    double over_k = sqrt((double)s->K);
    es_case_activation(c, ES_CASE_INPUT, "a",
                       ES_DIMS(s->E, s->trans_a ? s->K : s->M, s->trans_a ? s->M : s->K));
    es_case_activation(c, ES_CASE_INPUT, "b",
                       ES_DIMS(s->E, s->trans_b ? s->N : s->K, s->trans_b ? s->K : s->N));
    es_case_activation(c, ES_CASE_STATE, "c", ES_DIMS(s->E, s->M, s->N))->scale = over_k;
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->M, s->N))->scale = over_k;
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->M, s->N));
    EsCaseTensor *d_a =
        es_case_activation(c, ES_CASE_OUTPUT, "d_a",
                           ES_DIMS(s->E, s->trans_a ? s->K : s->M, s->trans_a ? s->M : s->K));
    EsCaseTensor *d_b =
        es_case_activation(c, ES_CASE_OUTPUT, "d_b",
                           ES_DIMS(s->E, s->trans_b ? s->N : s->K, s->trans_b ? s->K : s->N));
    d_a->scale = sqrt((double)s->N);
    d_b->scale = sqrt((double)s->M);
    for (int i = 0; i < c->n_tensors; i++) {
        c->tensor[i].is_parameter = 1; // any operand may be one
    }
}

ES_KERNEL_TESTS(shapes, build)
