// The CPU's variants for wider vectors (kernels/kernel_variant.h): a row's bits do not depend on
// the rows beside it, a step's not on being one of many, and the elementary functions keep their
// bounds. That they agree with the specifications is checked by the reference mode of every kernel
// test.
#include "base/random_rules.h"
#include "es_test.h"
#include "kernels/kernels.h"
#include "kernels/test_arena.h"

#define ARENA_BYTES ((size_t)64 << 20)

typedef struct Run {
    EsDevice *device;
    EsStream *stream;
    const EsKernels *kernels;
    TestArena arena;
    uint32_t n_tensors;
} Run;

// 0 where this machine has no vectors of that width
static int open_run(Run *r, int n_lanes, int n_threads) {
    memset(r, 0, sizeof *r);
    EsDeviceOptions options = {.n_threads = n_threads, .n_lanes = n_lanes};
    EsStatus status = es_device_open("cpu", &options, &r->device);
    if (status == ES_STATUS_UNSUPPORTED) {
        return 0;
    }
    REQUIRE_OK(status);
    REQUIRE_OK(es_stream_create(r->device, &r->stream));
    REQUIRE_OK(arena_create(&r->arena, ARENA_BYTES));
    r->kernels = es_kernels_of(r->device);
    return 1;
}

static void close_run(Run *r) {
    arena_destroy(&r->arena);
    es_stream_destroy(r->stream);
    es_device_close(r->device);
}

static void reset_run(Run *r) {
    arena_release(&r->arena, 0);
    r->n_tensors = 0;
}

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

// NaN everywhere: what is not written is seen
static EsTensor empty(Run *r, int rank, const int64_t *dims) {
    EsTensor tensor = es_tensor_view(NULL, ES_DTYPE_F32, r->device, rank, dims);
    tensor.data = arena_take(&r->arena, es_tensor_bytes(&tensor));
    ES_ASSERT(tensor.data != NULL);
    memset(tensor.data, 0xFF, es_tensor_bytes(&tensor));
    r->n_tensors++;
    return tensor;
}

static uint32_t draw(const Run *r, int64_t i) {
    return es_random_draw(3, r->n_tensors, ES_PURPOSE_EVALUATION, 0, (uint32_t)(i / 4)).word[i % 4];
}

// uniform in [-size, size)
static EsTensor floats(Run *r, float size, int rank, const int64_t *dims) {
    EsTensor tensor = empty(r, rank, dims);
    for (int64_t i = 0; i < es_tensor_count(&tensor); i++) {
        ((float *)tensor.data)[i] = size * (2.0f * es_random_uniform(draw(r, i)) - 1.0f);
    }
    return tensor;
}

static float *data_of(const EsTensor *tensor) { return tensor->data; }

static void expect_equal_bits(const float *actual, const float *expected, int64_t count,
                              const char *what, int64_t row) {
    if (memcmp(actual, expected, (size_t)count * sizeof(float)) != 0) {
        ES_TEST_FAIL("%s: row %lld differs from the same row among others", what, (long long)row);
    }
}

// --- rows of products ---

typedef struct Shape {
    int64_t M, N, K;
} Shape;

// Row i of op(a) as a matrix of its own: a row, or with trans_a a column.
static EsTensor take_row(Run *r, const EsTensor *a, int trans_a, int64_t i) {
    int64_t K = a->dim[trans_a ? 1 : 2], M = a->dim[trans_a ? 2 : 1];
    EsTensor row = trans_a ? empty(r, DIMS(1, K, 1)) : empty(r, DIMS(1, 1, K));
    for (int64_t k = 0; k < K; k++) {
        data_of(&row)[k] = data_of(a)[trans_a ? k * M + i : i * K + k];
    }
    return row;
}

static void check_rows_of_product(Run *r, Shape s, int trans_a, int trans_b) {
    reset_run(r);
    EsTensor a = trans_a ? floats(r, 1.0f, DIMS(1, s.K, s.M)) : floats(r, 1.0f, DIMS(1, s.M, s.K));
    EsTensor b = trans_b ? floats(r, 1.0f, DIMS(1, s.N, s.K)) : floats(r, 1.0f, DIMS(1, s.K, s.N));
    EsTensor c = empty(r, DIMS(1, s.M, s.N));
    r->kernels->matmul(r->stream, trans_a, trans_b, 0.0f, &a, &b, &c);
    for (int64_t i = 0; i < s.M; i++) {
        size_t mark = arena_mark(&r->arena);
        EsTensor row = take_row(r, &a, trans_a, i), alone = empty(r, DIMS(1, 1, s.N));
        r->kernels->matmul(r->stream, trans_a, trans_b, 0.0f, &row, &b, &alone);
        char what[64];
        snprintf(what, sizeof what, "matmul %d%d %lldx%lldx%lld", trans_a, trans_b, (long long)s.M,
                 (long long)s.N, (long long)s.K);
        expect_equal_bits(data_of(&alone), data_of(&c) + i * s.N, s.N, what, i);
        arena_release(&r->arena, mark);
    }
}

static void check_rows_of_products(int n_lanes) {
    static const Shape shapes[] = {{5, 1, 1},    {7, 13, 13},   {64, 64, 64},   {12, 48, 127},
                                   {13, 65, 17}, {97, 33, 129}, {16, 256, 512}, {64, 13, 256}};
    Run r;
    if (!open_run(&r, n_lanes, 2)) {
        SKIP("this machine has no vectors of %d floats", n_lanes);
    }
    for (size_t i = 0; i < ES_COUNT_OF(shapes); i++) {
        for (int transposes = 0; transposes < 4; transposes++) {
            check_rows_of_product(&r, shapes[i], transposes & 1, transposes >> 1);
        }
    }
    close_run(&r);
}

// --- rows of a layer: linear, norm, activation ---

static void run_layer(Run *r, const EsTensor *x, const EsTensor parameter[4], const EsTensor *y) {
    EsNormOptions options = {.epsilon = 1e-5f};
    int64_t N = x->dim[1], O = y->dim[2];
    EsTensor sums = empty(r, DIMS(1, N, O)), mean = empty(r, DIMS(1, N)),
             inv = empty(r, DIMS(1, N));
    r->kernels->linear_forward(r->stream, x, &parameter[0], &parameter[1], &sums);
    r->kernels->layernorm_forward(r->stream, options, &sums, &parameter[2], &parameter[3], &mean,
                                  &inv, y);
    r->kernels->activation_forward(r->stream, ES_ACTIVATION_RELU, y, y);
}

static void check_rows_of_layers(int n_lanes) {
    static const Shape shapes[] = {{64, 512, 128}, {33, 17, 13}, {9, 70, 65}, {2, 1, 5}};
    Run r;
    if (!open_run(&r, n_lanes, 2)) {
        SKIP("this machine has no vectors of %d floats", n_lanes);
    }
    for (size_t i = 0; i < ES_COUNT_OF(shapes); i++) {
        Shape s = shapes[i];
        reset_run(&r);
        EsTensor x = floats(&r, 1.0f, DIMS(1, s.M, s.K)), y = empty(&r, DIMS(1, s.M, s.N));
        EsTensor parameter[4] = {floats(&r, 0.1f, DIMS(1, s.N, s.K)),
                                 floats(&r, 1.0f, DIMS(1, s.N)), floats(&r, 1.0f, DIMS(1, s.N)),
                                 floats(&r, 1.0f, DIMS(1, s.N))};
        run_layer(&r, &x, parameter, &y);
        for (int64_t row = 0; row < s.M; row++) {
            size_t mark = arena_mark(&r.arena);
            EsTensor one = es_tensor_slice(&x, 1, row, 1), alone = empty(&r, DIMS(1, 1, s.N));
            run_layer(&r, &one, parameter, &alone);
            expect_equal_bits(data_of(&alone), data_of(&y) + row * s.N, s.N, "layer", row);
            arena_release(&r.arena, mark);
        }
    }
    close_run(&r);
}

// --- a sequence at once and step by step ---

typedef struct Sequence {
    int64_t E, T, N, I, D;
} Sequence;

// Training: shards of rows, all steps, one set of weights for all shards. Acting: the rows of all
// shards side by side, one step at a time.
static void check_sequence(Run *r, Sequence s) {
    reset_run(r);
    float size = 1.0f / sqrtf((float)s.D);
    EsLstmWeights weights = {floats(r, size, DIMS(1, 4 * s.D, s.I)),
                             floats(r, size, DIMS(1, 4 * s.D, s.D)),
                             floats(r, size, DIMS(1, 4 * s.D)), floats(r, size, DIMS(1, 4 * s.D))};
    EsLstmWeights shared = weights;
    EsTensor *const of_shards[] = {&shared.input, &shared.recurrent, &shared.bias_input,
                                   &shared.bias_recurrent};
    for (size_t i = 0; i < ES_COUNT_OF(of_shards); i++) {
        of_shards[i]->dim[0] = s.E;
        of_shards[i]->stride[0] = 0;
    }
    EsTensor x = floats(r, 2.0f, DIMS(s.E, s.T, s.N, s.I));
    EsTensor reset = es_tensor_view(NULL, ES_DTYPE_U8, r->device, DIMS(s.E, s.T, s.N));
    reset.data = arena_take(&r->arena, es_tensor_bytes(&reset));
    for (int64_t i = 0; i < es_tensor_count(&reset); i++) {
        ((unsigned char *)reset.data)[i] = draw(r, i) % 4 == 0;
    }
    EsTensor gates = empty(r, DIMS(s.E, s.T, s.N, 4 * s.D));
    EsTensor c = empty(r, DIMS(s.E, s.T, s.N, s.D)), y = empty(r, DIMS(s.E, s.T, s.N, s.D));
    r->kernels->lstm_forward(r->stream, &shared, &x, &reset, NULL, NULL, &gates, &c, &y);

    int64_t R = s.E * s.N; // rows of acting
    EsTensor x_act = empty(r, DIMS(1, 1, R, s.I)), gates_act = empty(r, DIMS(1, 1, R, 4 * s.D));
    EsTensor h = empty(r, DIMS(1, R, s.D)), c_before = empty(r, DIMS(1, R, s.D));
    EsTensor h_after = empty(r, DIMS(1, 1, R, s.D)), c_after = empty(r, DIMS(1, 1, R, s.D));
    memset(h.data, 0, es_tensor_bytes(&h));
    memset(c_before.data, 0, es_tensor_bytes(&c_before));
    for (int64_t t = 0; t < s.T; t++) {
        for (int64_t row = 0; row < R; row++) {
            int64_t at = (row / s.N * s.T + t) * s.N + row % s.N;
            memcpy(data_of(&x_act) + row * s.I, data_of(&x) + at * s.I,
                   (size_t)s.I * sizeof(float));
            if (((unsigned char *)reset.data)[at]) {
                memset(data_of(&h) + row * s.D, 0, (size_t)s.D * sizeof(float));
                memset(data_of(&c_before) + row * s.D, 0, (size_t)s.D * sizeof(float));
            }
        }
        r->kernels->lstm_forward(r->stream, &weights, &x_act, NULL, &h, &c_before, &gates_act,
                                 &c_after, &h_after);
        for (int64_t row = 0; row < R; row++) {
            int64_t at = (row / s.N * s.T + t) * s.N + row % s.N;
            expect_equal_bits(data_of(&h_after) + row * s.D, data_of(&y) + at * s.D, s.D, "h", row);
            expect_equal_bits(data_of(&c_after) + row * s.D, data_of(&c) + at * s.D, s.D, "c", row);
        }
        memcpy(h.data, h_after.data, es_tensor_bytes(&h));
        memcpy(c_before.data, c_after.data, es_tensor_bytes(&c_before));
    }
}

static void check_sequences(int n_lanes) {
    // the last two lie on either side of the weights that stay in a cache
    static const Sequence sequences[] = {{1, 3, 1, 1, 1},
                                         {2, 5, 3, 7, 13},
                                         {8, 6, 2, 20, 64},
                                         {8, 3, 13, 9, 40},
                                         {8, 3, 2, 16, 192}};
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        Run r;
        if (!open_run(&r, n_lanes, n_threads)) {
            SKIP("this machine has no vectors of %d floats", n_lanes);
        }
        for (size_t i = 0; i < ES_COUNT_OF(sequences); i++) {
            check_sequence(&r, sequences[i]);
        }
        close_run(&r);
    }
}

// --- gradients with shared weights ---

// Bits of the gradients with one set of weights for all environments and with copies of it.
static void check_shared_gradients(Run *r, Sequence s) {
    reset_run(r);
    float size = 1.0f / sqrtf((float)s.D);
    EsLstmWeights copies = {
        floats(r, size, DIMS(s.E, 4 * s.D, s.I)), floats(r, size, DIMS(s.E, 4 * s.D, s.D)),
        floats(r, size, DIMS(s.E, 4 * s.D)), floats(r, size, DIMS(s.E, 4 * s.D))};
    EsLstmWeights shared = copies;
    EsTensor *const of_shards[] = {&shared.input, &shared.recurrent, &shared.bias_input,
                                   &shared.bias_recurrent};
    for (size_t i = 0; i < ES_COUNT_OF(of_shards); i++) {
        size_t bytes = es_tensor_bytes(of_shards[i]) / (size_t)s.E;
        for (int64_t e = 1; e < s.E; e++) {
            memcpy((char *)of_shards[i]->data + (size_t)e * bytes, of_shards[i]->data, bytes);
        }
        of_shards[i]->stride[0] = 0;
    }
    EsTensor x = floats(r, 1.0f, DIMS(s.E, s.T, s.N, s.I));
    EsTensor d_y = floats(r, 1.0f, DIMS(s.E, s.T, s.N, s.D));
    float *result[2];
    size_t result_count = 0;
    for (int i = 0; i < 2; i++) {
        const EsLstmWeights *weights = i == 0 ? &copies : &shared;
        EsTensor gates = empty(r, DIMS(s.E, s.T, s.N, 4 * s.D));
        EsTensor c = empty(r, DIMS(s.E, s.T, s.N, s.D)), y = empty(r, DIMS(s.E, s.T, s.N, s.D));
        size_t first = arena_mark(&r->arena);
        EsTensor d_gates = empty(r, DIMS(s.E, s.T, s.N, 4 * s.D));
        EsTensor d_x = empty(r, DIMS(s.E, s.T, s.N, s.I));
        EsLstmWeights d_weights = {empty(r, DIMS(s.E, 4 * s.D, s.I)),
                                   empty(r, DIMS(s.E, 4 * s.D, s.D)), empty(r, DIMS(s.E, 4 * s.D)),
                                   empty(r, DIMS(s.E, 4 * s.D))};
        r->kernels->lstm_forward(r->stream, weights, &x, NULL, NULL, NULL, &gates, &c, &y);
        r->kernels->lstm_backward(r->stream, weights, &x, NULL, NULL, NULL, &gates, &c, &y, &d_y,
                                  &d_gates, &d_x, NULL, NULL, &d_weights);
        result[i] = d_gates.data;
        result_count = (arena_mark(&r->arena) - first) / sizeof(float);
    }
    EXPECT(isfinite(result[0][0]));
    if (memcmp(result[0], result[1], result_count * sizeof(float)) != 0) {
        ES_TEST_FAIL("gradients with shared weights differ from those with copies, D = %lld",
                     (long long)s.D);
    }
}

static void check_gradients(int n_lanes) {
    static const Sequence sequences[] = {{3, 4, 2, 5, 13}, {8, 3, 2, 16, 192}};
    Run r;
    if (!open_run(&r, n_lanes, 2)) {
        SKIP("this machine has no vectors of %d floats", n_lanes);
    }
    for (size_t i = 0; i < ES_COUNT_OF(sequences); i++) {
        check_shared_gradients(&r, sequences[i]);
    }
    close_run(&r);
}

// --- elementary functions ---

// The distance in units of the last place of the exact value's binade
static double ulps(float actual, double exact) {
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)actual - exact) / ldexp(1.0, ES_MAX(exponent, -125) - 24);
}

static double exact_value(EsActivation kind, double x) {
    return kind == ES_ACTIVATION_TANH ? tanh(x) : 1.0 / (1.0 + exp(-x));
}

// Half the points are uniform in [-range, range], half spread over magnitudes from 1e-6.
static void check_function(Run *r, EsActivation kind, double range, double bound) {
    const int64_t count = 400003; // no multiple of a vector
    reset_run(r);
    EsTensor x = floats(r, (float)range, DIMS(1, count)), y = empty(r, DIMS(1, count));
    for (int64_t i = 0; i < count; i += 2) {
        double size = 1e-6 * pow(range * 1e6, fabs((double)data_of(&x)[i]) / range);
        data_of(&x)[i] = data_of(&x)[i] < 0 ? (float)-size : (float)size;
    }
    r->kernels->activation_forward(r->stream, kind, &x, &y);
    double worst = 0.0, worst_x = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double error = ulps(data_of(&y)[i], exact_value(kind, (double)data_of(&x)[i]));
        if (!(error <= worst)) {
            worst = error;
            worst_x = (double)data_of(&x)[i];
        }
    }
    printf("%s: at most %.2f ulp, at %.9g\n", kind == ES_ACTIVATION_TANH ? "tanh" : "sigmoid",
           worst, worst_x);
    EXPECT_NEAR(worst, 0.0, bound);
}

static void check_far_values(Run *r) {
    reset_run(r);
    const float far[] = {INFINITY, 1e30f, 100.0f, 0.0f, -0.0f, -100.0f, -1e30f, -INFINITY, NAN};
    const float sigmoids[] = {1.0f, 1.0f, 1.0f, 0.5f, 0.5f, 0.0f, 0.0f, 0.0f};
    const float tanhs[] = {1.0f, 1.0f, 1.0f, 0.0f, -0.0f, -1.0f, -1.0f, -1.0f};
    const int64_t count = ES_COUNT_OF(far);
    EsTensor x = empty(r, DIMS(1, count)), y = empty(r, DIMS(1, count));
    memcpy(x.data, far, sizeof far);
    for (int i = 0; i < 2; i++) {
        const float *expected = i == 0 ? sigmoids : tanhs;
        r->kernels->activation_forward(r->stream,
                                       i == 0 ? ES_ACTIVATION_SIGMOID : ES_ACTIVATION_TANH, &x, &y);
        for (int64_t k = 0; k + 1 < count; k++) {
            EXPECT_NEAR(data_of(&y)[k], expected[k], 1e-37);
        }
        EXPECT(isnan(data_of(&y)[count - 1]));
    }
}

static void check_functions(int n_lanes) {
    Run r;
    if (!open_run(&r, n_lanes, 1)) {
        SKIP("this machine has no vectors of %d floats", n_lanes);
    }
    check_function(&r, ES_ACTIVATION_TANH, 12.0, 2.5);
    check_function(&r, ES_ACTIVATION_SIGMOID, 80.0, 2.5);
    check_far_values(&r);
    close_run(&r);
}

#define WIDTHS(what)                                                                               \
    TEST(what##_8) { check_##what(8); }                                                            \
    TEST(what##_16) { check_##what(16); }

WIDTHS(rows_of_products)
WIDTHS(rows_of_layers)
WIDTHS(sequences)
WIDTHS(gradients)
WIDTHS(functions)
