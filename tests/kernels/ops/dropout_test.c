#include "base/random_rules.h"
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, n_elements;
    uint32_t layer;
    float probability;
    const char *golden; // computed with a Philox of its own, in Python
} Shape;

// around the 4096 elements of a piece and the 4 of a draw
static const Shape shapes[] = {
    {1, 1, 0, 0.5f, "case0"},   {2, 35, 3, 0.3f, "case1"}, {3, 9, 255, 0.0f, "case2"},
    {2, 4095, 1, 0.1f, NULL},   {1, 4096, 2, 0.5f, NULL},  {3, 4097, 7, 0.9f, NULL},
    {1, 10007, 0, 0.25f, NULL},
};

static EsDropoutOptions options_of(const Shape *s) {
    return (EsDropoutOptions){
        .seed = 0x123456789ABCDEF0u + s->layer, .layer = s->layer, .probability = s->probability};
}

static void run(const EsCaseRun *r) {
    EsDropoutOptions options = options_of(r->settings);
    const EsTensor *episode = es_case_at(r, "episode"), *step = es_case_at(r, "step");
    r->kernels->dropout(r->stream, options, episode, step, es_case_at(r, "x"), es_case_at(r, "y"));
    r->kernels->dropout(r->stream, options, episode, step, es_case_at(r, "d_y"),
                        es_case_at(r, "d_x"));
}

// Each element by itself, straight from the contract.
static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    EsDropoutOptions options = options_of(s);
    const double *from = es_case_initial(c, strcmp(output, "y") == 0 ? "x" : "d_y");
    for (int64_t i = 0; i < s->E * s->n_elements; i++) {
        int64_t e = i / s->n_elements, j = i % s->n_elements;
        EsRandom4 r = es_random_draw(options.seed, (uint32_t)es_case_initial(c, "episode")[e],
                                     ES_PURPOSE_DROPOUT, (uint32_t)es_case_initial(c, "step")[0],
                                     (s->layer << 24) ^ (uint32_t)(j / 4));
        int is_kept = es_random_uniform(r.word[j % 4]) >= s->probability;
        expected[i] = is_kept ? from[i] / (1.0 - (double)s->probability) : 0.0;
    }
    return 1;
}

// x lies in [0.5, 1.5], so an element dropped on one side alone is an error of at least 0.5
static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "dropout", s->golden, run, s);
    c->expect = expect;
    c->parity = (EsCaseBound){0.0, 2e-7};
    es_case_integers(c, ES_CASE_INPUT, "episode", ES_DTYPE_I32, 0, 1000, ES_DIMS(s->E));
    es_case_integers(c, ES_CASE_INPUT, "step", ES_DTYPE_I32, 0, 1000, ES_DIMS(1));
    const char *names[4] = {"x", "y", "d_y", "d_x"};
    for (int i = 0; i < (s->golden == NULL ? 4 : 2); i++) {
        EsCaseTensor *t = es_case_activation(c, i % 2 == 0 ? ES_CASE_INPUT : ES_CASE_OUTPUT,
                                             names[i], ES_DIMS(s->E, s->n_elements));
        t->low = 0.5;
        t->high = 1.5;
    }
}

static void run_forward(const EsCaseRun *r) {
    r->kernels->dropout(r->stream, options_of(r->settings), es_case_at(r, "episode"),
                        es_case_at(r, "step"), es_case_at(r, "x"), es_case_at(r, "y"));
}

static void build_reference(EsCase *c, const Shape *s) {
    build(c, s);
    if (s->golden != NULL) {
        c->run = run_forward;
    }
}

ES_KERNEL_REFERENCE(shapes, build_reference)
ES_KERNEL_PARITY(shapes, build_reference)

static const Shape free_cases[] = {{1, 1, 0, 0.5f, NULL}, {2, 35, 3, 0.3f, NULL}};
ES_KERNEL_GRADIENT(free_cases, build)

// The share of kept elements, what they become, in place, and that nothing but the five inputs
// matters.
TEST(shares_and_independence) {
    enum { E = 3, n_elements = 20000 };
    static float x[E][n_elements], y[E][n_elements], z[E][n_elements];
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 2}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    int32_t episode[E] = {5, 6, 5}, step[1] = {9};
    EsTensor episodes = es_tensor_view(episode, ES_DTYPE_I32, device, 1, (int64_t[]){E});
    EsTensor steps = es_tensor_view(step, ES_DTYPE_I32, device, 1, (int64_t[]){1});
    EsTensor x_view = es_tensor_view(x, ES_DTYPE_F32, device, 2, (int64_t[]){E, n_elements});
    EsTensor y_view = es_tensor_view(y, ES_DTYPE_F32, device, 2, (int64_t[]){E, n_elements});
    EsTensor z_view = es_tensor_view(z, ES_DTYPE_F32, device, 2, (int64_t[]){E, n_elements});
    for (int i = 0; i < E * n_elements; i++) {
        x[i / n_elements][i % n_elements] = z[i / n_elements][i % n_elements] = 1.0f;
    }
    EsDropoutOptions options = {.seed = 1, .layer = 2, .probability = 0.3f};
    const EsKernels *kernels = es_kernels_of(device);
    kernels->dropout(stream, options, &episodes, &steps, &x_view, &y_view);
    int n_kept = 0, n_equal = 0;
    for (int j = 0; j < n_elements; j++) {
        EXPECT(y[0][j] == 0.0f || y[0][j] == 1.0f / 0.7f);
        n_kept += y[0][j] != 0.0f;
        n_equal += (y[0][j] != 0.0f) == (y[1][j] != 0.0f);
    }
    EXPECT_NEAR(n_kept / (double)n_elements, 0.7, 0.013);          // 4 standard deviations
    EXPECT_NEAR(n_equal / (double)n_elements, 0.49 + 0.09, 0.014); // independent masks
    EXPECT_EQ(memcmp(y[0], y[2], sizeof y[0]), 0);                 // equal episodes
    kernels->dropout(stream, options, &episodes, &steps, &z_view, &z_view);
    EXPECT_EQ(memcmp(y, z, sizeof y), 0);
    step[0] = 10;
    kernels->dropout(stream, options, &episodes, &steps, &x_view, &z_view);
    EXPECT(memcmp(y, z, sizeof y) != 0);
    step[0] = 9;
    options.layer = 3;
    kernels->dropout(stream, options, &episodes, &steps, &x_view, &z_view);
    EXPECT(memcmp(y, z, sizeof y) != 0);
    es_stream_destroy(stream);
    es_device_close(device);
}
