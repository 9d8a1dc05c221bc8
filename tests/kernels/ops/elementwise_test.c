// add and convert. Letters: E environments, the rest is one row of D values.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, D;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, "case0"}, {2, 3, 5, "case1"},  {3, 7, 31, "case2"}, {1, 1, 127, NULL},
    {2, 1, 129, NULL},  {1, 3, 16385, NULL}, // one above a piece of the CPU's work
    {3, 33, 1023, NULL}};

static void run(const EsCaseRun *r) {
    r->kernels->add(r->stream, es_case_at(r, "a"), es_case_at(r, "b"), es_case_at(r, "y"));
    r->kernels->convert(r->stream, es_case_at(r, "x"), es_case_at(r, "x_bf16"));
    r->kernels->convert(r->stream, es_case_at(r, "x_bf16"), es_case_at(r, "x_rounded"));
}

static int64_t count_of(const EsCase *c) {
    const Shape *s = c->settings;
    return s->E * s->N * s->D;
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const double *a = es_case_initial(c, "a"), *b = es_case_initial(c, "b");
    const double *x = es_case_initial(c, "x");
    for (int64_t i = 0; i < count_of(c); i++) {
        expected[i] = strcmp(output, "y") == 0 ? a[i] + b[i] : es_case_round_bf16(x[i]);
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "elementwise", s->golden, run, s);
    c->is_flat = 1;
    c->expect = expect;
    // one f32 rounding for the sum, none more for the conversion
    c->reference = c->parity = (EsCaseBound){0.0, 6e-8};
    c->parity_bf16 = (EsCaseBound){0.0, 0x1p-8};
    es_case_activation(c, ES_CASE_INPUT, "a", ES_DIMS(s->E, s->N, s->D));
    es_case_activation(c, ES_CASE_INPUT, "b", ES_DIMS(s->E, s->N, s->D));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->D));
    es_case_parameter(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->D));
    es_case_parameter(c, ES_CASE_OUTPUT, "x_bf16", ES_DIMS(s->E, s->N, s->D))->dtype =
        ES_DTYPE_BF16;
    es_case_parameter(c, ES_CASE_OUTPUT, "x_rounded", ES_DIMS(s->E, s->N, s->D));
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)

// a = a + b, then b = a + b with the new a
static void run_in_place(const EsCaseRun *r) {
    const EsTensor *a = es_case_at(r, "a"), *b = es_case_at(r, "b");
    r->kernels->add(r->stream, a, b, a);
    r->kernels->add(r->stream, a, b, b);
}

static int expect_in_place(const EsCase *c, const char *output, double *expected) {
    const double *a = es_case_initial(c, "a"), *b = es_case_initial(c, "b");
    for (int64_t i = 0; i < count_of(c); i++) {
        expected[i] = strcmp(output, "a") == 0 ? a[i] + b[i] : a[i] + 2.0 * b[i];
    }
    return 1;
}

static void build_in_place(EsCase *c, const Shape *s) {
    es_case_begin(c, "elementwise", NULL, run_in_place, s);
    c->is_flat = 1;
    c->expect = expect_in_place;
    c->reference = c->parity = (EsCaseBound){2e-7, 2e-7};
    es_case_parameter(c, ES_CASE_STATE, "a", ES_DIMS(s->E, s->N, s->D));
    es_case_parameter(c, ES_CASE_STATE, "b", ES_DIMS(s->E, s->N, s->D));
}

TEST(in_place) {
    ES_KERNEL_MODE(reference, shapes, build_in_place)
    if (es_device_cuda_count() > 0) {
        ES_KERNEL_MODE(parity, shapes, build_in_place)
    }
}

// Values that rounding gets wrong easily: ties, overflow into infinity, NaN whose payload sits in
// the lower half.
TEST(bf16_rounding) {
    static const struct {
        uint32_t single;
        uint16_t half;
    } pairs[] = {
        {0x3F808000u, 0x3F80u}, // tie, down to even
        {0x3F818000u, 0x3F82u}, // tie, up to even
        {0x3F808001u, 0x3F81u}, {0x80000000u, 0x8000u}, {0x7F7FFFFFu, 0x7F80u},
        {0x7F800000u, 0x7F80u}, {0xFF800000u, 0xFF80u}, {0x00000001u, 0x0000u},
    };
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", NULL, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    for (size_t i = 0; i < ES_COUNT_OF(pairs); i++) {
        uint32_t single = pairs[i].single;
        uint16_t half = 0;
        EsTensor x = es_tensor_view(&single, ES_DTYPE_F32, device, ES_DIMS(1));
        EsTensor y = es_tensor_view(&half, ES_DTYPE_BF16, device, ES_DIMS(1));
        es_kernels_of(device)->convert(stream, &x, &y);
        EXPECT_EQ(half, pairs[i].half);
    }
    uint32_t nan_bits = 0x7F800001u;
    uint16_t half = 0;
    float back = 0.0f;
    EsTensor x = es_tensor_view(&nan_bits, ES_DTYPE_F32, device, ES_DIMS(1));
    EsTensor y = es_tensor_view(&half, ES_DTYPE_BF16, device, ES_DIMS(1));
    EsTensor z = es_tensor_view(&back, ES_DTYPE_F32, device, ES_DIMS(1));
    es_kernels_of(device)->convert(stream, &x, &y);
    es_kernels_of(device)->convert(stream, &y, &z);
    EXPECT(isnan(back));
    es_stream_destroy(stream);
    es_device_close(device);
}
