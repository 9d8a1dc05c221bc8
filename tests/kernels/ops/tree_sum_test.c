// Sums of rows in a fixed tree. Expected values are summed here level by level, in f32, so that
// every bit counts. Letters: G rows, P columns.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t G, P;
} Shape;

// all shapes of small trees, and around the 256 columns of a piece
static const Shape shapes[] = {
    {1, 1},   {2, 3},    {3, 255}, {4, 256}, {5, 257},   {6, 1},
    {7, 100}, {8, 1000}, {9, 31},  {64, 33}, {100, 513},
};

static void run(const EsCaseRun *r) {
    r->kernels->tree_sum(r->stream, es_case_at(r, "slab"), es_case_at(r, "y"));
}

// neighbours, then neighbours of neighbours, in place
static float sum_column(const double *slab, int64_t G, int64_t P, int64_t column) {
    float part[128];
    for (int64_t g = 0; g < G; g++) {
        part[g] = (float)slab[g * P + column];
    }
    for (int64_t step = 1; step < G; step *= 2) {
        for (int64_t g = 0; g + step < G; g += 2 * step) {
            part[g] += part[g + step];
        }
    }
    return part[0];
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    (void)output;
    for (int64_t i = 0; i < s->P; i++) {
        expected[i] = (double)sum_column(es_case_initial(c, "slab"), s->G, s->P, i);
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "tree_sum", NULL, run, s);
    c->expect = expect;
    c->reference = c->parity = (EsCaseBound){0, 0};
    es_case_parameter(c, ES_CASE_INPUT, "slab", ES_DIMS(s->G, s->P));
    es_case_parameter(c, ES_CASE_OUTPUT, "y", ES_DIMS(1, s->P));
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)

// Into row 0 itself; the other rows stay.
static void check_in_place(const char *name) {
    enum { G = 6, P = 300 };
    static float values[G * P], after[G * P];
    static double initial[G * P];
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    EsTensor slab = {0};
    REQUIRE_OK(es_device_open(name, &(EsDeviceOptions){.n_threads = 2}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_device_create_tensor(device, ES_DTYPE_F32, 2, (int64_t[]){G, P}, &slab));
    for (int i = 0; i < G * P; i++) {
        values[i] = (float)es_case_uniform(1, i, -1.0, 1.0);
        initial[i] = (double)values[i];
    }
    REQUIRE_OK(es_stream_copy(stream, slab.data, values, sizeof values, ES_COPY_TO_DEVICE));
    EsTensor row = es_tensor_slice(&slab, 0, 0, 1);
    es_kernels_of(device)->tree_sum(stream, &slab, &row);
    REQUIRE_OK(es_stream_copy(stream, after, slab.data, sizeof after, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    for (int i = 0; i < P; i++) {
        values[i] = sum_column(initial, G, P, i);
    }
    EXPECT(memcmp(values, after, sizeof values) == 0);
    es_device_destroy_tensor(&slab);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(in_place) {
    check_in_place("cpu");
    if (es_device_cuda_count() > 0) {
        check_in_place("cuda");
    }
}
