// Letters: E environments, N rows, D values of a row.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    EsActivation kind;
    int64_t E, N, D;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {ES_ACTIVATION_RELU, 1, 1, 1, "case0"},     {ES_ACTIVATION_RELU, 2, 3, 31, "case1"},
    {ES_ACTIVATION_RELU, 1, 3, 16385, NULL}, // one above a piece of the CPU's work
    {ES_ACTIVATION_TANH, 1, 1, 1, "case2"},     {ES_ACTIVATION_TANH, 2, 3, 31, "case3"},
    {ES_ACTIVATION_TANH, 3, 5, 129, NULL},      {ES_ACTIVATION_SIGMOID, 1, 1, 1, "case4"},
    {ES_ACTIVATION_SIGMOID, 2, 3, 31, "case5"}, {ES_ACTIVATION_SIGMOID, 3, 5, 127, NULL},
};

static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    r->kernels->activation_forward(r->stream, s->kind, es_case_at(r, "x"), es_case_at(r, "y"));
    r->kernels->activation_backward(r->stream, s->kind, es_case_at(r, "y"), es_case_at(r, "d_y"),
                                    es_case_at(r, "d_x"));
}

static double value_of(EsActivation kind, double x) {
    return kind == ES_ACTIVATION_RELU   ? fmax(x, 0.0)
           : kind == ES_ACTIVATION_TANH ? tanh(x)
                                        : 1.0 / (1.0 + exp(-x));
}

static double slope_of(EsActivation kind, double x) {
    double y = value_of(kind, x);
    return kind == ES_ACTIVATION_RELU   ? x > 0.0
           : kind == ES_ACTIVATION_TANH ? 1 - y * y
                                        : y - y * y;
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *d_y = es_case_initial(c, "d_y");
    int is_forward = strcmp(output, "y") == 0 || strcmp(output, "x") == 0;
    for (int64_t i = 0; i < s->E * s->N * s->D; i++) {
        expected[i] = is_forward ? value_of(s->kind, x[i]) : d_y[i] * slope_of(s->kind, x[i]);
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "activation", s->golden, run, s);
    c->is_flat = 1;
    c->expect = expect;
    c->reference = (EsCaseBound){5e-7, 5e-7};
    c->parity = (EsCaseBound){1e-6, 2e-6};
    // backward reads y rounded to bf16: the slope of tanh moves by 2 |y| 2^-9
    c->parity_bf16 = (EsCaseBound){4e-3, 8e-3};
    // relu is exact on both sides of its kink; a short step keeps the probes on one side
    c->step = s->kind == ES_ACTIVATION_RELU ? 1e-4 : 5e-3;
    es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->D))->low = -3.0;
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->N, s->D));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->D));
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", ES_DIMS(s->E, s->N, s->D));
}

ES_KERNEL_TESTS(shapes, build)

static void run_in_place(const EsCaseRun *r) {
    const Shape *s = r->settings;
    const EsTensor *x = es_case_at(r, "x"), *d_y = es_case_at(r, "d_y");
    r->kernels->activation_forward(r->stream, s->kind, x, x);
    r->kernels->activation_backward(r->stream, s->kind, x, d_y, d_y);
}

static void build_in_place(EsCase *c, const Shape *s) {
    es_case_begin(c, "activation", NULL, run_in_place, s);
    c->is_flat = 1;
    c->expect = expect;
    c->reference = (EsCaseBound){5e-7, 5e-7};
    c->parity = (EsCaseBound){1e-6, 2e-6};
    c->parity_bf16 = (EsCaseBound){4e-3, 8e-3};
    es_case_activation(c, ES_CASE_STATE, "x", ES_DIMS(s->E, s->N, s->D));
    es_case_activation(c, ES_CASE_STATE, "d_y", ES_DIMS(s->E, s->N, s->D));
}

TEST(in_place) {
    ES_KERNEL_MODE(reference, shapes, build_in_place)
    if (es_device_cuda_count() > 0) {
        ES_KERNEL_MODE(parity, shapes, build_in_place)
    }
}

static void expect_nan_stays(const char *name) {
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    void *memory = NULL;
    float values[3] = {NAN, -1.0f, 2.0f};
    REQUIRE_OK(es_device_open(name, NULL, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_device_allocate(device, sizeof values, &memory));
    REQUIRE_OK(es_stream_copy(stream, memory, values, sizeof values, ES_COPY_TO_DEVICE));
    EsTensor x = es_tensor_view(memory, ES_DTYPE_F32, device, ES_DIMS(1, 3));
    es_kernels_of(device)->activation_forward(stream, ES_ACTIVATION_RELU, &x, &x);
    REQUIRE_OK(es_stream_copy(stream, values, memory, sizeof values, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    EXPECT(isnan(values[0]));
    EXPECT(values[1] == 0.0f);
    EXPECT(values[2] == 2.0f);
    es_device_release(device, memory);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(nan_stays_visible) {
    expect_nan_stays("cpu");
    if (es_device_cuda_count() > 0) {
        expect_nan_stays("cuda");
    }
}
