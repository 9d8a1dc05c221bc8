// Slab operations on slabs longer than their parameters: every [E, P] tensor has a stride of its
// own, the gradient too. Values are checked in optimiser_test.c and slab_norms_test.c; here the
// same case with environments apart must give the same bits, and the same on CUDA.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef enum Kind { SGD, ADAM, NORMS } Kind;

typedef struct Shape {
    Kind kind;
    int64_t E, P;
} Shape;

// around the 4096 parameters of a piece
static const Shape shapes[] = {
    {SGD, 1, 1},   {SGD, 3, 17},    {SGD, 2, 4097}, {ADAM, 1, 1},
    {ADAM, 3, 17}, {ADAM, 2, 4097}, {NORMS, 3, 40}, {NORMS, 2, 4097},
};

#define N_SPANS 2

// norms of two halves, then clipping by the whole
static void run_norms(const EsCaseRun *r, const Shape *s) {
    const int64_t spans[N_SPANS][2] = {{0, s->P / 2}, {s->P / 2, s->P - s->P / 2}};
    const int32_t groups[N_SPANS] = {0, 0};
    const EsTensor *slab = es_case_at(r, "slab"), *sums = es_case_at(r, "sum_squares");
    const EsTensor *spans_at = es_case_at(r, "spans"), *groups_at = es_case_at(r, "groups");
    REQUIRE_OK(es_stream_copy(r->stream, spans_at->data, spans, sizeof spans, ES_COPY_TO_DEVICE));
    REQUIRE_OK(
        es_stream_copy(r->stream, groups_at->data, groups, sizeof groups, ES_COPY_TO_DEVICE));
    r->kernels->slab_norms(r->stream, slab, spans_at, sums, es_case_at(r, "n_nonfinite"));
    r->kernels->slab_clip(r->stream, spans_at, groups_at, sums, es_case_at(r, "max_norm"), slab,
                          es_case_at(r, "group_norm"));
}

static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    const EsTensor *gradient = es_case_at(r, "gradient"), *parameter = es_case_at(r, "parameter");
    if (s->kind == SGD) {
        EsSgdRates rates = {.learning_rate = *es_case_at(r, "rate"),
                            .momentum = *es_case_at(r, "momentum_rate"),
                            .weight_decay = *es_case_at(r, "weight_decay")};
        r->kernels->sgd_step(r->stream, &rates, gradient, es_case_at(r, "momentum"), parameter);
    } else if (s->kind == ADAM) {
        EsAdamOptions options = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
        r->kernels->adam_step(r->stream, options, es_case_at(r, "rate"), gradient,
                              es_case_at(r, "moment1"), es_case_at(r, "moment2"),
                              es_case_at(r, "n_steps"), parameter);
    } else {
        run_norms(r, s);
    }
}

static void add_norms(EsCase *c, const Shape *s) {
    es_case_parameter(c, ES_CASE_STATE, "slab", ES_DIMS(s->E, s->P));
    EsCaseTensor *sums =
        es_case_parameter(c, ES_CASE_OUTPUT, "sum_squares", ES_DIMS(s->E, N_SPANS));
    sums->dtype = ES_DTYPE_F64;
    EsCaseTensor *max_norm = es_case_parameter(c, ES_CASE_INPUT, "max_norm", ES_DIMS(s->E, 1));
    max_norm->low = 0.5;
    EsCaseTensor *norm = es_case_parameter(c, ES_CASE_OUTPUT, "group_norm", ES_DIMS(s->E, 1));
    sums->is_parameter = max_norm->is_parameter = norm->is_parameter = 0; // not of the slab
    es_case_integers(c, ES_CASE_OUTPUT, "n_nonfinite", ES_DTYPE_I32, 0, 0, ES_DIMS(s->E, N_SPANS));
    es_case_integers(c, ES_CASE_SCRATCH, "spans", ES_DTYPE_I64, 0, 0, ES_DIMS(N_SPANS, 2));
    es_case_integers(c, ES_CASE_SCRATCH, "groups", ES_DTYPE_I32, 0, 0, ES_DIMS(N_SPANS));
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "slab_strides", NULL, run, s);
    if (s->kind == NORMS) {
        add_norms(c, s);
        return;
    }
    es_case_parameter(c, ES_CASE_INPUT, "gradient", ES_DIMS(s->E, s->P));
    es_case_parameter(c, ES_CASE_STATE, "parameter", ES_DIMS(s->E, s->P));
    es_case_parameter(c, ES_CASE_INPUT, "rate", ES_DIMS(s->E))->low = 0.001;
    if (s->kind == SGD) {
        es_case_parameter(c, ES_CASE_STATE, "momentum", ES_DIMS(s->E, s->P));
        es_case_parameter(c, ES_CASE_INPUT, "momentum_rate", ES_DIMS(s->E));
        es_case_parameter(c, ES_CASE_INPUT, "weight_decay", ES_DIMS(s->E));
    } else {
        es_case_parameter(c, ES_CASE_STATE, "moment1", ES_DIMS(s->E, s->P));
        es_case_parameter(c, ES_CASE_STATE, "moment2", ES_DIMS(s->E, s->P))->low = 0.1;
        es_case_integers(c, ES_CASE_STATE, "n_steps", ES_DTYPE_I32, 0, 2000, ES_DIMS(s->E));
    }
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)
