#include "es_test.h"
#include "kernels/kernel_case.h"

#define MAX_SPANS 6

typedef struct Shape {
    int64_t E, P, S, G;
    int64_t spans[MAX_SPANS][2]; // offset, length
    int32_t groups[MAX_SPANS];
    int has_nonfinite;
    double max_norm; // of every group; 0 = drawn from [-0.2, 2]
    const char *golden;
} Shape;

// Lengths 1, odd, around the eight partial sums; a hole between spans; an empty span; a group
// without spans; spans of thousands; limits that bite and limits that do not.
static const Shape shapes[] = {
    {1, 1, 1, 1, {{0, 1}}, {0}, 0, 0, "case0"},
    {2, 40, 5, 3, {{0, 7}, {8, 1}, {9, 17}, {26, 9}, {35, 5}}, {0, 1, 0, 1, 2}, 0, 0, "case1"},
    {3, 5000, 4, 4, {{0, 4096}, {4096, 0}, {4100, 899}, {4999, 1}}, {0, 1, 3, 0}, 0, 0, NULL},
    {2, 20000, 2, 1, {{1, 10001}, {10002, 9998}}, {0, 0}, 0, 1.0, NULL},
    {2, 20000, 2, 1, {{1, 10001}, {10002, 9998}}, {0, 0}, 0, 1e6, NULL},
    {2, 40, 5, 3, {{0, 7}, {8, 1}, {9, 17}, {26, 9}, {35, 5}}, {0, 1, 0, 1, 2}, 1, 0, NULL},
    {2, 70000, 2, 1, {{0, 65539}, {65540, 4460}}, {0, 0}, 0, 0, NULL},
    {2, 40000, 1, 1, {{0, 40000}}, {0}, 1, 0, NULL},
};

// where the non-finite cases put NaN and the infinities in every environment; 7 is in no span
static const int64_t bad_elements[] = {0, 3, 7, 8, 12, 25, 39};

static void place_nonfinite(const EsCaseRun *r, const Shape *s, const EsTensor *slab) {
    static const float bad[3] = {NAN, INFINITY, -INFINITY};
    for (int64_t e = 0; e < s->E; e++) {
        for (size_t i = 0; i < ES_COUNT_OF(bad_elements); i++) {
            float *element = (float *)slab->data + e * slab->stride[0] + bad_elements[i];
            REQUIRE_OK(
                es_stream_copy(r->stream, element, &bad[i % 3], sizeof bad[0], ES_COPY_TO_DEVICE));
        }
    }
}

static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    EsTensor slab = *es_case_at(r, "slab");
    EsTensor spans = *es_case_at(r, "spans"), groups = *es_case_at(r, "groups");
    // the harness knows no f64: the sums live in a tensor of equal size and show in group_norm
    EsTensor sums = *es_case_at(r, "sums");
    sums.dtype = ES_DTYPE_F64;
    REQUIRE_OK(es_stream_copy(r->stream, spans.data, s->spans, es_tensor_bytes(&spans),
                              ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_copy(r->stream, groups.data, s->groups, es_tensor_bytes(&groups),
                              ES_COPY_TO_DEVICE));
    if (s->has_nonfinite) {
        place_nonfinite(r, s, &slab);
    }
    r->kernels->slab_norms(r->stream, &slab, &spans, &sums, es_case_at(r, "n_nonfinite"));
    r->kernels->slab_clip(r->stream, &spans, &groups, &sums, es_case_at(r, "max_norm"), &slab,
                          es_case_at(r, "group_norm"));
    if (s->has_nonfinite) {
        // the comparison takes no NaN: put numbers back where there were none
        for (int64_t e = 0; e < s->E; e++) {
            for (size_t i = 0; i < ES_COUNT_OF(bad_elements); i++) {
                float *element = (float *)slab.data + e * slab.stride[0] + bad_elements[i];
                REQUIRE_OK(es_stream_fill(r->stream, element, 0, sizeof(float)));
            }
        }
    }
}

static int is_bad(const Shape *s, int64_t element) {
    for (size_t i = 0; s->has_nonfinite && i < ES_COUNT_OF(bad_elements); i++) {
        if (bad_elements[i] == element) {
            return 1;
        }
    }
    return 0;
}

static double norm_of(const EsCase *c, int64_t e, int64_t group) {
    const Shape *s = c->settings;
    double sum = 0.0;
    for (int64_t span = 0; span < s->S; span++) {
        for (int64_t i = 0; s->groups[span] == group && i < s->spans[span][1]; i++) {
            int64_t element = s->spans[span][0] + i;
            double value = es_case_initial(c, "slab")[e * s->P + element];
            sum += is_bad(s, element) ? 0.0 : value * value;
        }
    }
    return sqrt(sum);
}

static void expect_slab(const EsCase *c, int64_t e, double *expected) {
    const Shape *s = c->settings;
    for (int64_t i = 0; i < s->P; i++) {
        expected[i] = is_bad(s, i) ? 0.0 : es_case_initial(c, "slab")[e * s->P + i];
    }
    for (int64_t span = 0; span < s->S; span++) {
        double limit = es_case_initial(c, "max_norm")[e * s->G + s->groups[span]];
        double scale = limit / (norm_of(c, e, s->groups[span]) + 1e-6);
        for (int64_t i = 0; limit > 0.0 && scale < 1.0 && i < s->spans[span][1]; i++) {
            expected[s->spans[span][0] + i] *= scale;
        }
    }
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    for (int64_t e = 0; e < s->E; e++) {
        if (strcmp(output, "slab") == 0) {
            expect_slab(c, e, expected + e * s->P);
        }
        for (int64_t g = 0; strcmp(output, "group_norm") == 0 && g < s->G; g++) {
            expected[e * s->G + g] = norm_of(c, e, g);
        }
        for (int64_t span = 0; strcmp(output, "n_nonfinite") == 0 && span < s->S; span++) {
            expected[e * s->S + span] = 0.0;
            for (int64_t i = 0; i < s->spans[span][1]; i++) {
                expected[e * s->S + span] += is_bad(s, s->spans[span][0] + i);
            }
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "slab_norms", s->golden, run, s);
    c->expect = expect;
    es_case_parameter(c, ES_CASE_STATE, "slab", ES_DIMS(s->E, s->P));
    EsCaseTensor *max_norm = es_case_parameter(c, ES_CASE_INPUT, "max_norm", ES_DIMS(s->E, s->G));
    max_norm->low = s->max_norm > 0.0 ? s->max_norm : -0.2;
    max_norm->high = s->max_norm > 0.0 ? s->max_norm : 2.0;
    EsCaseTensor *group_norm =
        es_case_parameter(c, ES_CASE_OUTPUT, "group_norm", ES_DIMS(s->E, s->G));
    max_norm->is_parameter = group_norm->is_parameter = 0; // of the step, not of the slab
    es_case_integers(c, ES_CASE_OUTPUT, "n_nonfinite", ES_DTYPE_I32, 0, 0, ES_DIMS(s->E, s->S))
        ->scale = 0.0;
    es_case_integers(c, ES_CASE_SCRATCH, "spans", ES_DTYPE_I64, 0, 0, ES_DIMS(s->S, 2));
    es_case_integers(c, ES_CASE_SCRATCH, "groups", ES_DTYPE_I32, 0, 0, ES_DIMS(s->S));
    es_case_integers(c, ES_CASE_SCRATCH, "sums", ES_DTYPE_I64, 0, 0, ES_DIMS(s->E, s->S));
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)

// Sums are kept in double: squares of f32 neither overflow nor lose the small among the large.
TEST(sums_are_double) {
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    float values[4] = {3e30f, 3e30f, 1e4f, 1e-2f};
    int64_t span[2][2] = {{0, 2}, {2, 2}};
    double sums[2] = {0};
    int32_t n_nonfinite[2] = {9, 9};
    EsTensor slab = es_tensor_view(values, ES_DTYPE_F32, device, 2, (int64_t[]){1, 4});
    EsTensor spans = es_tensor_view(span, ES_DTYPE_I64, device, 2, (int64_t[]){2, 2});
    EsTensor sum_squares = es_tensor_view(sums, ES_DTYPE_F64, device, 2, (int64_t[]){1, 2});
    EsTensor counts = es_tensor_view(n_nonfinite, ES_DTYPE_I32, device, 2, (int64_t[]){1, 2});
    es_kernels_of(device)->slab_norms(stream, &slab, &spans, &sum_squares, &counts);
    EXPECT_NEAR(sums[0], 2.0 * (double)3e30f * (double)3e30f, 1e46);
    EXPECT_NEAR(sums[1], 1e8 + (double)1e-2f * (double)1e-2f, 1e-7);
    EXPECT_EQ(n_nonfinite[0], 0);
    EXPECT_EQ(n_nonfinite[1], 0);
    es_stream_destroy(stream);
    es_device_close(device);
}

// A group below its limit keeps its bits.
TEST(no_clipping_changes_nothing) {
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    float values[3] = {0.1f, 0.2f, 0.3f}, limit[1] = {0.38f}, norm[1];
    const float before[3] = {0.1f, 0.2f, 0.3f};
    int64_t span[2] = {0, 3};
    int32_t group[1] = {0};
    double sums[1] = {0.14};
    EsTensor slab = es_tensor_view(values, ES_DTYPE_F32, device, 2, (int64_t[]){1, 3});
    EsTensor spans = es_tensor_view(span, ES_DTYPE_I64, device, 2, (int64_t[]){1, 2});
    EsTensor groups = es_tensor_view(group, ES_DTYPE_I32, device, 1, (int64_t[]){1});
    EsTensor sum_squares = es_tensor_view(sums, ES_DTYPE_F64, device, 2, (int64_t[]){1, 1});
    EsTensor max_norm = es_tensor_view(limit, ES_DTYPE_F32, device, 2, (int64_t[]){1, 1});
    EsTensor group_norm = es_tensor_view(norm, ES_DTYPE_F32, device, 2, (int64_t[]){1, 1});
    const EsKernels *kernels = es_kernels_of(device);
    kernels->slab_clip(stream, &spans, &groups, &sum_squares, &max_norm, &slab, &group_norm);
    EXPECT_EQ(memcmp(values, before, sizeof values), 0);
    EXPECT_NEAR(norm[0], sqrt(0.14), 1e-7);
    limit[0] = 0.0f;
    sums[0] = 1e10;
    kernels->slab_clip(stream, &spans, &groups, &sum_squares, &max_norm, &slab, &group_norm);
    EXPECT_EQ(memcmp(values, before, sizeof values), 0);
    es_stream_destroy(stream);
    es_device_close(device);
}
